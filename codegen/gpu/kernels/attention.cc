#include "codegen/gpu/kernels/attention.h"

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

constexpr int kMaxHeadDim = 512;
// Up to here the split way is used, so that the buckets of decode give equal bits.
constexpr int64_t kMaxSplitRows = 8;

}  // namespace

std::string AttentionSpec::name() const {
  return ".q" + std::to_string(q_heads) + ".kv" + std::to_string(kv.kv_heads) + ".d" +
         std::to_string(kv.head_dim) + (gated ? ".gated" : "") + (kv.f16 ? ".f16" : ".f32");
}

Val ApplyGate(const AttentionSpec& spec, Val gate, Val at, Val column, Val value) {
  if (!spec.gated) return value;
  // Per head: head_dim queries, then head_dim gates.
  const Val place = (at * 2 + 1) * spec.kv.head_dim + column;
  return value * Sigmoid(value.builder()->Load(Type::kF32, gate, place << 2));
}

std::vector<Launch> Expand_attention(const Dispatch& d, Expansion& expansion) {
  AttentionSpec spec;
  spec.kv = {static_cast<int>(d.integer("kv_heads")), static_cast<int>(d.integer("head_dim")),
             d.string("kv") == "f16"};
  spec.q_heads = static_cast<int>(d.integer("q_heads"));
  spec.gated = d.integer("gated") != 0;
  if (spec.kv.head_dim % 8 || spec.kv.head_dim > kMaxHeadDim || spec.q_heads % spec.kv.kv_heads) return {};
  return d.rows <= kMaxSplitRows ? SplitAttention(spec, d, expansion) : BlockAttention(spec, d, expansion);
}

}  // namespace qcc::gpu
