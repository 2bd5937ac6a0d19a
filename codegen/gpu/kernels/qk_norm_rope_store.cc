// qk_norm_rope_store: a workgroup has one query or key head of a row; key heads bring their values along.
#include <bit>
#include <string>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kv_cache.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

struct Spec {
  KvShape kv;
  int q_heads = 0, rot_dims = 0;
  bool gated = false;
  // Two elements a thread and turn.
  int threads() const { return kv.head_dim <= 128 ? 64 : 128; }
};

void Emit(Builder& b, const Spec& s) {
  const Val step = b.Arg(0), seqs = b.Arg(1), q = b.Arg(2), k = b.Arg(3), v = b.Arg(4), q_norm = b.Arg(5),
            k_norm = b.Arg(6), rope = b.Arg(7), out = b.Arg(8), kv_offset = b.Arg(9);
  const Val eps = b.AsF32(b.Truncate(b.Arg(10)));
  const int dim = s.kv.head_dim, half = s.rot_dims / 2, threads = s.threads();
  const Shared normed = b.AllocShared(Type::kF32, dim);
  Reducer reducer(b, threads, threads);
  const Val head = b.BlockX(), row = b.BlockY(), thread = b.Thread();

  b.If(LtS(row, StepRows(step)), [&] {
    const Val is_query = LtS(head, b.I32(s.q_heads));
    const Val kv_head = Select(is_query, b.I32(0), head - s.q_heads);
    const Val q_place = (row * s.q_heads + head) * dim, k_place = (row * s.kv.kv_heads + kv_head) * dim;
    const Val source = Select(is_query, q, k);
    const Val first = Select(is_query, s.gated ? q_place << 1 : q_place, k_place);
    const Val weight = Select(is_query, q_norm, k_norm);

    // Pairs of neighbours: thread, thread + threads, ...
    struct Pair {
      Val at, inside, low, high;
    };
    std::vector<Pair> pairs;
    Val sum = b.F32(0.f);
    for (int p = 0; p < dim / 2; p += threads) {
      const bool full = p + threads <= dim / 2;
      const Val number = thread + p;
      Pair pair;
      pair.inside = LtS(number, b.I32(dim / 2));
      pair.at = (full ? number : MinS(number, b.I32(dim / 2 - 1))) << 1;
      const Val x = b.Load(Type::kF32x2, source, (first + pair.at) << 2);
      pair.low = b.Extract(x, 0);
      pair.high = b.Extract(x, 1);
      const Val squares = Fma(pair.high, pair.high, Fma(pair.low, pair.low, sum));
      sum = full ? squares : Select(pair.inside, squares, sum);
      pairs.push_back(pair);
    }
    const Val mean = DivF(reducer.Sum(sum), b.F32(static_cast<float>(dim)));
    const Val scale = DivF(b.F32(1.f), b.Call(Builder::Fn::kSqrt, mean + eps));
    for (const Pair& pair : pairs) {
      const Val w = b.Load(Type::kF32x2, weight, pair.at << 2);
      const Val low = (pair.low * scale) * b.Extract(w, 0), high = (pair.high * scale) * b.Extract(w, 1);
      b.If(pair.inside, [&] {
        b.StoreShared(normed, pair.at, low);
        b.StoreShared(normed, pair.at + 1, high);
      });
    }
    b.Barrier();

    const auto rotated = [&](Val i) {
      const Val own = b.LoadShared(normed, i);
      if (half == 0) return own;
      // a cos - b sin for the first half of the rotated ones, a sin + b cos for the second.
      const Val is_first = LtS(i, b.I32(half)), is_rotated = LtS(i, b.I32(s.rot_dims));
      const Val angle = Select(is_rotated, Select(is_first, i, i - half), b.I32(0));
      const Val other = b.LoadShared(normed, Select(is_first, i + half, angle));
      const Val at = (row * s.rot_dims + angle) << 2;
      const Val cosine = b.Load(Type::kF32, rope, at), sine = b.Load(Type::kF32, rope, at + 4.0 * half);
      const Val across = other * sine;
      const Val turned = own * cosine + Select(is_first, b.Call(Builder::Fn::kNeg, across), across);
      return Select(is_rotated, turned, own);
    };
    const Val seq = RowSeq(step, row);
    const KvHead cache = FindKvHead(s.kv, seqs, seq, kv_offset, kv_head);
    const Val cache_row = RowPosition(step, row) * dim;
    for (const Pair& pair : pairs) {
      const Val low = rotated(pair.at), high = rotated(pair.at + 1);
      b.If(And(pair.inside, is_query), [&] {
        b.Store(out, (q_place + pair.at) << 2, b.Vector({low, high}));
      });
      b.If(And(pair.inside, LtS(b.I32(s.q_heads - 1), head)), [&] {
        StoreKvPair(s.kv, cache.keys, cache_row + pair.at, low, high);
        const Val value = b.Load(Type::kF32x2, v, (k_place + pair.at) << 2);
        StoreKvPair(s.kv, cache.values, cache_row + pair.at, b.Extract(value, 0), b.Extract(value, 1));
      });
    }
  });
}

}  // namespace

std::vector<Launch> Expand_qk_norm_rope_store(const Dispatch& d, Expansion& expansion) {
  Spec s;
  s.kv = {static_cast<int>(d.integer("kv_heads")), static_cast<int>(d.integer("head_dim")),
          d.string("kv") == "f16"};
  s.q_heads = static_cast<int>(d.integer("q_heads"));
  s.rot_dims = static_cast<int>(d.integer("rot_dims"));
  s.gated = d.integer("gated") != 0;
  // Rows of heads are read in vectors.
  if (s.kv.head_dim % 8 || s.kv.head_dim > 1024 || s.rot_dims % 2 || s.rot_dims > s.kv.head_dim) return {};

  Launch launch;
  launch.name = "qk_norm_rope_store.q" + std::to_string(s.q_heads) + ".kv" + std::to_string(s.kv.kv_heads) +
                ".d" + std::to_string(s.kv.head_dim) + ".r" + std::to_string(s.rot_dims) +
                (s.gated ? ".gated" : "") + (s.kv.f16 ? ".f16" : ".f32");
  launch.emit = [s](Builder& b) { Emit(b, s); };
  launch.workgroup_size = s.threads();
  launch.grid[0] = static_cast<uint32_t>(s.q_heads + s.kv.kv_heads);
  launch.grid[1] = static_cast<uint32_t>(d.rows);
  launch.args = {StepArg(expansion),
                 StepSeqsArg(expansion),
                 d.arg("q"),
                 d.arg("k"),
                 d.arg("v"),
                 d.arg("q_norm"),
                 d.arg("k_norm"),
                 d.arg("rope"),
                 d.arg("out"),
                 Number(d.arg("kv").value),
                 Number(std::bit_cast<uint32_t>(static_cast<float>(d.real("eps"))))};
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t heads = static_cast<uint64_t>(s.q_heads), kv_heads = static_cast<uint64_t>(s.kv.kv_heads);
  launch.read_bytes = 4 * rows * ((heads + 2 * kv_heads) * dim + static_cast<uint64_t>(s.rot_dims)) + 8 * dim;
  launch.write_bytes = rows * (4 * heads * dim + s.kv.token_bytes());
  launch.ops = rows * (heads + kv_heads) * (4 * dim + 3 * static_cast<uint64_t>(s.rot_dims));
  return {launch};
}

}  // namespace qcc::gpu
