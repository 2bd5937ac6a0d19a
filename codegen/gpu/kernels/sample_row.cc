#include "codegen/gpu/kernels/sample_row.h"

#include <algorithm>
#include <optional>

namespace qcc::gpu::sample {

Layout LayoutOf(const Vocabulary& vocabulary, int64_t stride) {
  const int64_t vocab = vocabulary.size;
  Layout l;
  l.some = !vocabulary.choosable.empty();
  l.several = vocabulary.choices() > 1;
  l.vocab = static_cast<int32_t>(vocab);
  l.stride = static_cast<int32_t>(stride);
  l.chunk = SampleChunk(vocab);
  l.chunks = static_cast<int32_t>(CeilDiv(vocab, l.chunk));
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
  l.firsts = place(int64_t{8} * QRT_GPU_FEW_TOKENS * l.chunks);
  l.bytes = (end + 255) / 256 * 256;
  return l;
}

void ForRow(Builder& b, const Layout& l, Val index, Val chunk, const std::function<void(Row&)>& body) {
  b.If(LtU(index, StepOuts(b.Arg(kStep))), [&] {
    Row row(b, l, index, chunk);
    body(row);
  });
}

void NoteRange(Row& row, const KeyRange& range) {
  Builder& b = row.b;
  b.If(Eq(row.thread, 0), [&] {
    b.Store(row.Scratch(row.l.ranges), row.chunk * 8, range.lowest);
    b.Store(row.Scratch(row.l.ranges), row.chunk * 8 + 4, range.highest);
  });
}

Val FaultOfRow(Row& row, WideCollective& collective) {
  Builder& b = row.b;
  const KeyRange none = NoKeys(b);
  // Of the chunk that this thread stands for.
  const std::vector<Val> mine =
      When(b, LtU(row.thread, b.I32(row.l.chunks)), {none.lowest, none.highest}, [&] {
        const Val ranges = row.Scratch(row.l.ranges);
        return std::vector<Val>{b.Load(Type::kI32, ranges, row.thread * 8),
                                b.Load(Type::kI32, ranges, row.thread * 8 + 4)};
      });
  return FaultOf(collective.Range({mine[0], mine[1]}), row.l.several);
}

std::vector<Val> When(Builder& b, Val condition, const std::vector<Val>& otherwise,
                      const std::function<std::vector<Val>()>& then) {
  return b.IfElse(condition, then, [&] { return otherwise; });
}

std::vector<Launch> LaunchesOf(const std::vector<Kernel>& kernels, const Layout& layout, int64_t rows,
                               const Vocabulary& vocabulary, Expansion& expansion, uint64_t* scratch_bytes) {
  const uint64_t n = static_cast<uint64_t>(rows), columns = static_cast<uint64_t>(layout.vocab);
  const uint64_t logits_bytes = ((n - 1) * static_cast<uint64_t>(layout.stride) + columns) * 4;
  *scratch_bytes = n * static_cast<uint64_t>(layout.bytes);
  const std::string suffix = ".v" + std::to_string(layout.vocab) + ".s" + std::to_string(layout.stride) +
                             (layout.some ? ".some" : "") + (layout.several ? "" : ".one");
  std::optional<Arg> choosable;
  if (layout.some) choosable = ChoosableArg(vocabulary, expansion);

  std::vector<Launch> launches;
  for (const Kernel& kernel : kernels) {
    Launch& launch = launches.emplace_back();
    launch.name = "sample." + kernel.name + suffix;
    launch.emit = [layout, emit = kernel.emit](Builder& b) { emit(b, layout); };
    launch.workgroup_size = kThreads;
    launch.grid[0] = static_cast<uint32_t>(layout.chunks);
    launch.grid[1] = static_cast<uint32_t>(rows);
    launch.args = {StepArg(expansion),
                   StepSamplesArg(expansion),
                   StepPenaltiesArg(expansion),
                   {Space::kLogits, 0, logits_bytes},
                   {Space::kScratch, 0, *scratch_bytes},
                   {Space::kResults, 0, n * 4}};
    if (choosable) launch.args.push_back(*choosable);
    launch.barrier = true;
    launch.read_bytes = n * columns * 4;
  }
  Launch& token = launches.back();
  token.grid[0] = static_cast<uint32_t>(rows);
  token.grid[1] = 1;
  token.write_bytes = n * 4;
  return launches;
}

}  // namespace qcc::gpu::sample
