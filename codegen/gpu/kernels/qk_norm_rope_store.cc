// qk_norm_rope_store: a workgroup has one query or key head of a row; key heads bring their values along.
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/head_norm_rope.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/kv_cache.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

template <typename T>
struct HeadArgs {
  HeadInputs<T> in;
  T step, seqs, out, kv;
};

void EmitHeads(Builder& b, const HeadSpec& s) {
  const auto args = ReadArgs<HeadArgs>(b);
  HeadNormRope heads(b, s, s.threads(), 1);
  const int dim = s.kv.head_dim;
  const Val head = b.BlockX(), row = b.BlockY();
  b.If(LtS(row, StepRows(args.step)), [&] {
    const Val is_query = LtS(head, b.I32(s.q_heads));
    const Val kv_head = Select(is_query, b.I32(0), head - s.q_heads);
    const Val query = row * s.q_heads + head, key = row * s.kv.kv_heads + kv_head;
    const KvHead cache = FindKvHead(s.kv, args.seqs, RowSeq(args.step, row), args.kv, kv_head);
    const Val cache_row = RowPosition(args.step, row) * dim;
    const auto source = [&](Val) { return HeadNormRope::SourceOf(s, args.in, is_query, query, key); };
    heads.Run(source, args.in, row, [&](Val, Val at, Val low, Val high) {
      b.If(is_query, [&] { b.Store(args.out, (query * dim + at) << 2, b.Vector({low, high})); });
      b.If(LtS(b.I32(s.q_heads - 1), head),
           [&] { HeadNormRope::StoreKeyAndValue(s, args.in, cache, key, cache_row, at, low, high); });
    });
  });
}

}  // namespace

std::vector<Launch> Expand_qk_norm_rope_store(const Dispatch<plan::QkNormRopeStoreSpec>& d,
                                              Expansion& expansion) {
  const HeadSpec s = HeadSpecOf(d.spec);
  if (!TakesHeads(s))
    return expansion.Refuse("head_dim", d.spec.head_dim,
                            "up to 1024, in multiples of 8, with an even part of them rotated");
  Launch launch;
  launch.name = "qk_norm_rope_store" + s.name();
  launch.emit = [s](Builder& b) { EmitHeads(b, s); };
  launch.workgroup_size = s.threads();
  launch.grid[0] = static_cast<uint32_t>(s.q_heads + s.kv.kv_heads);
  launch.grid[1] = static_cast<uint32_t>(d.rows);
  launch.args = ListArgs<HeadArgs>({.in = {.q = *d.bindings.q,
                                           .k = *d.bindings.k,
                                           .v = *d.bindings.v,
                                           .q_norm = *d.bindings.q_norm,
                                           .k_norm = *d.bindings.k_norm,
                                           .rope = *d.bindings.rope,
                                           .eps = FloatNumber(d.spec.eps)},
                                    .step = StepArg(expansion),
                                    .seqs = StepSeqsArg(expansion),
                                    .out = *d.bindings.out,
                                    .kv = Number(d.bindings.kv->value)});
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t heads = static_cast<uint64_t>(s.q_heads), kv_heads = static_cast<uint64_t>(s.kv.kv_heads);
  launch.read_bytes = 4 * rows * ((heads + 2 * kv_heads) * dim + static_cast<uint64_t>(s.rot_dims)) + 8 * dim;
  launch.write_bytes = rows * (4 * heads * dim + s.kv.token_bytes());
  launch.ops = rows * (heads + kv_heads) * (4 * dim + 3 * static_cast<uint64_t>(s.rot_dims));
  return {launch};
}

}  // namespace qcc::gpu
