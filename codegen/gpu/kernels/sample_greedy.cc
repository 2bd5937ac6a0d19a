// The highest logit, the lowest id of equals: workgroups take chunks of the vocabulary, then one takes their
// results.
#include <algorithm>
#include <string>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/sample_math.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kSampleWorkgroup;

struct Shape {
  int32_t vocab, stride, chunk, chunks;
};

// Key above, complement of the id below: the maximum is the token wanted, and a bad logit wins over all.
Val Ranked(Builder& b, Val key, Val id) {
  return (b.ExtendU(key) << 32) | b.ExtendU(id ^ -1);
}

Val RowOf(Builder& b, int argument, Val row, int64_t row_bytes) {
  return b.Arg(argument) + b.ExtendU(row) * b.I64(row_bytes);
}

// Arguments: step, logits, scratch.
void EmitChunk(Builder& b, const Shape& shape) {
  const Val row = b.BlockY();
  b.If(LtU(row, StepOuts(b.Arg(0))), [&] {
    const Val logits = RowOf(b, 1, row, int64_t{4} * shape.stride);
    const Val first = b.BlockX() * shape.chunk + b.Thread();
    const std::vector<Val> best =
        b.For(b.I32(0), b.I32(shape.chunk), b.I32(kThreads), {b.I64(0)},
              [&](Val i, const std::vector<Val>& carried) {
                const Val id = first + i;
                return b.IfElse(
                    LtU(id, b.I32(shape.vocab)),
                    [&]() -> std::vector<Val> {
                      const Val key = KeyOfLogit(b.Load(Type::kI32, logits, id * 4));
                      const Val ranked = Select(Eq(key, kExcludedKey), b.I64(0), Ranked(b, key, id));
                      return {MaxU(carried[0], ranked)};
                    },
                    [&] { return carried; });
              });
    WideCollective collective(b);
    const Val highest = collective.Max(best[0]);
    b.If(Eq(b.Thread(), 0),
         [&] { b.Store(RowOf(b, 2, row, int64_t{8} * shape.chunks), b.BlockX() * 8, highest); });
  });
}

// Arguments: step, scratch, results.
void EmitToken(Builder& b, const Shape& shape) {
  const Val row = b.BlockX(), thread = b.Thread();
  b.If(LtU(row, StepOuts(b.Arg(0))), [&] {
    const std::vector<Val> mine = b.IfElse(
        LtU(thread, b.I32(shape.chunks)),
        [&]() -> std::vector<Val> {
          return {b.Load(Type::kI64, RowOf(b, 1, row, int64_t{8} * shape.chunks), thread * 8)};
        },
        [&]() -> std::vector<Val> { return {b.I64(0)}; });
    WideCollective collective(b);
    const Val highest = collective.Max(mine[0]);
    const Val key = b.Truncate(ShrU(highest, 32));
    Val token = b.Truncate(highest) ^ -1;
    token = Select(Eq(key, kExcludedKey), b.I32(QRT_GPU_SAMPLE_NO_TOKEN), token);
    token = Select(Eq(key, kBadKey), b.I32(QRT_GPU_SAMPLE_BAD_LOGIT), token);
    b.If(Eq(thread, 0), [&] { b.Store(b.Arg(2), row * 4, token); });
  });
}

}  // namespace

std::vector<Launch> ExpandGreedy(int64_t rows, int64_t vocab, Expansion& expansion, uint64_t* scratch_bytes) {
  Shape shape;
  shape.vocab = static_cast<int32_t>(vocab);
  shape.stride = static_cast<int32_t>(expansion.logits_stride());
  // At most kThreads chunks, of at least 8 tokens per thread.
  const int64_t per_thread = std::max<int64_t>(8, (vocab + kThreads * kThreads - 1) / (kThreads * kThreads));
  shape.chunk = static_cast<int32_t>(per_thread * kThreads);
  shape.chunks = static_cast<int32_t>((vocab + shape.chunk - 1) / shape.chunk);

  const uint64_t n = static_cast<uint64_t>(rows);
  *scratch_bytes = n * static_cast<uint64_t>(shape.chunks) * 8;
  const uint64_t columns = static_cast<uint64_t>(vocab);
  const Arg logits{Space::kLogits, 0, ((n - 1) * static_cast<uint64_t>(shape.stride) + columns) * 4};
  const Arg scratch{Space::kScratch, 0, *scratch_bytes};
  const Arg results{Space::kResults, 0, n * 4};
  const std::string suffix = ".v" + std::to_string(vocab);

  Launch chunk;
  chunk.name = "sample.greedy.chunk" + suffix + ".s" + std::to_string(shape.stride);
  chunk.emit = [shape](Builder& b) { EmitChunk(b, shape); };
  chunk.workgroup_size = kThreads;
  chunk.grid[0] = static_cast<uint32_t>(shape.chunks);
  chunk.grid[1] = static_cast<uint32_t>(rows);
  chunk.args = {StepArg(expansion), logits, scratch};
  chunk.barrier = true;
  chunk.read_bytes = n * columns * 4;
  chunk.write_bytes = *scratch_bytes;

  Launch token;
  token.name = "sample.greedy.token" + suffix;
  token.emit = [shape](Builder& b) { EmitToken(b, shape); };
  token.workgroup_size = kThreads;
  token.grid[0] = static_cast<uint32_t>(rows);
  token.args = {StepArg(expansion), scratch, results};
  token.barrier = true;
  token.read_bytes = *scratch_bytes;
  token.write_bytes = n * 4;
  return {chunk, token};
}

}  // namespace qcc::gpu
