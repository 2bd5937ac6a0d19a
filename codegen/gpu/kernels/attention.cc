#include "codegen/gpu/kernels/attention.h"

#include <algorithm>
#include <bit>

#include "codegen/gpu/kernels/attention_split.h"
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

constexpr int kMaxHeadDim = 512;
// Up to here the cache is split over workgroups: blocks of rows would leave most of a GPU idle.
constexpr int64_t kMaxSplitRows = 8;
// Query values that a thread keeps in registers where few rows run.
constexpr int kMaxOwned = 64;
// Threads there: 32 positions of that many heads. Wider heads leave workgroup memory for the parts of two.
constexpr int kMaxHeads = 4, kMaxWideHeads = 2, kWideHead = 256;
constexpr int kMinParts = 4;

}  // namespace

std::string AttentionSpec::name() const {
  const std::string heads = made ? ".r" + std::to_string(made->rot_dims) + (made->gated ? "g" : "") : "";
  return ".q" + std::to_string(q_heads) + ".kv" + std::to_string(kv.kv_heads) + ".d" +
         std::to_string(kv.head_dim) + heads + (gated ? ".gated" : "") + (kv.f16 ? ".f16" : ".f32");
}

AttentionOrder::AttentionOrder(const AttentionSpec& s) {
  blocks = CeilDiv(s.group(), s.kv.head_dim > kWideHead ? kMaxWideHeads : kMaxHeads);
  heads = CeilDiv(s.group(), blocks);
  const bool few = s.kv.kv_heads * blocks <= 4;
  spread = few ? 32 : 16;
  splits = few ? CombineThreads(s.kv.head_dim) : 64;
  owned = kAttentionPiece;
  while (2 * owned * heads <= kMaxOwned && 2 * owned <= s.kv.head_dim) owned *= 2;
  const unsigned wanted = static_cast<unsigned>(CeilDiv(s.kv.head_dim, owned));
  parts = std::max(static_cast<int>(std::bit_ceil(wanted)), kMinParts);
  while (owned > kAttentionPiece && owned / 2 * parts >= s.kv.head_dim) owned /= 2;
}

bool OnMatrixUnits(const AttentionSpec& s, const Profile& profile) {
  // Of whole slices, and as many as there are threads for (attention_matrix.h).
  const bool fits = s.kv.head_dim == 64 || s.kv.head_dim == 128 || s.kv.head_dim == 256;
  return s.kv.f16 && fits && profile.matrix.kind == MatrixUnits::Kind::kMma;
}

Val ChunkPositions(const AttentionOrder& order, Val count) {
  const Val tiles = DivU(count + (kAttentionTile - 1), kAttentionTile);
  const auto over = [&](int chunks) { return DivU(tiles + (chunks - 1), chunks); };
  return MaxS(MinS(over(order.spread), tiles.builder()->I32(kChunkTiles)), over(order.splits)) *
         kAttentionTile;
}

Val ApplyGate(const AttentionSpec& spec, Val gate, Val at, Val column, Val value) {
  if (!spec.gated) return value;
  // Per head: head_dim queries, then head_dim gates.
  const Val place = (at * 2 + 1) * spec.kv.head_dim + column;
  return value * Sigmoid(value.builder()->Load(Type::kF32, gate, place << 2));
}

namespace {

AttentionSpec SpecOf(const plan::AttentionSpec& s) {
  AttentionSpec spec;
  spec.kv = {static_cast<int>(s.kv_heads), static_cast<int>(s.head_dim), s.kv != plan::KvElement::F32};
  spec.q_heads = static_cast<int>(s.q_heads);
  spec.gated = s.gated;
  return spec;
}

bool TakesHeadDim(const AttentionSpec& spec) {
  return spec.kv.head_dim % 8 == 0 && spec.kv.head_dim <= kMaxHeadDim;
}
bool Takes(const AttentionSpec& spec) {
  return TakesHeadDim(spec) && spec.q_heads % spec.kv.kv_heads == 0;
}

}  // namespace

std::vector<Launch> Expand_attention(const Dispatch<plan::AttentionSpec>& d, Expansion& expansion) {
  const AttentionSpec spec = SpecOf(d.spec);
  if (!TakesHeadDim(spec))
    return expansion.Refuse("head_dim", d.spec.head_dim,
                            "up to " + std::to_string(kMaxHeadDim) + ", in multiples of 8");
  if (!Takes(spec)) return {};
  return d.rows <= kMaxSplitRows ? SplitAttention(spec, d, expansion) : BlockAttention(spec, d, expansion);
}

std::vector<Launch> ExpandMakingHeads(const Dispatch<plan::AttentionSpec>& d, const MadeHeads& made,
                                      Expansion& expansion) {
  AttentionSpec spec = SpecOf(d.spec);
  const HeadSpec heads = HeadSpecOf(made.spec);
  const bool same = heads.kv.kv_heads == spec.kv.kv_heads && heads.kv.head_dim == spec.kv.head_dim &&
                    heads.kv.f16 == spec.kv.f16 && heads.q_heads == spec.q_heads &&
                    made.kv.value == d.bindings.kv->value;
  if (d.rows != 1 || !same || !Takes(spec) || !TakesHeads(heads) || spec.kv.head_dim > kWideHead) return {};
  spec.made = heads;
  return SplitAttention(spec, d, expansion, &made);
}

}  // namespace qcc::gpu
