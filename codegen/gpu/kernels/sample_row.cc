#include "codegen/gpu/kernels/sample_row.h"

#include <algorithm>

namespace qcc::gpu::sample {

Layout LayoutOf(const Vocabulary& vocabulary, int64_t stride) {
  const int64_t vocab = vocabulary.size;
  Layout l;
  l.some = !vocabulary.choosable.empty();
  l.several = vocabulary.choices() > 1;
  l.vocab = static_cast<int32_t>(vocab);
  l.stride = static_cast<int32_t>(stride);
  // At most kThreads chunks, of at least 8 tokens per thread.
  const int64_t per_thread = std::max<int64_t>(8, (vocab + kThreads * kThreads - 1) / (kThreads * kThreads));
  l.chunk = static_cast<int32_t>(per_thread * kThreads);
  l.chunks = static_cast<int32_t>((vocab + l.chunk - 1) / l.chunk);
  int64_t end = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t begin = end;
    end += (bytes + 15) / 16 * 16;
    return begin;
  };
  place(vocab * 4);
  l.ranges = place(l.chunks * 8);
  l.maxima = place(l.chunks * 4);
  l.notes = place(kNotes * kNoteBytes);
  int64_t bins = 0;
  for (const Digit& digit : kCount) bins += digit.bins();
  l.counts = place(bins * 4);
  bins = 0;
  for (const Digit& digit : kMass) bins += digit.bins();
  l.masses = place(bins * 8);
  l.sums = place(l.chunks * 8);
  l.ties = place(l.chunks * 4);
  l.bytes = (end + 255) / 256 * 256;
  return l;
}

void ForRow(Builder& b, const Layout& l, Val index, Val chunk, const std::function<void(Row&)>& body) {
  b.If(LtU(index, StepOuts(b.Arg(kStep))), [&] {
    Row row(b, l, index, chunk);
    body(row);
  });
}

std::vector<Val> When(Builder& b, Val condition, const std::vector<Val>& otherwise,
                      const std::function<std::vector<Val>()>& then) {
  return b.IfElse(condition, then, [&] { return otherwise; });
}

}  // namespace qcc::gpu::sample
