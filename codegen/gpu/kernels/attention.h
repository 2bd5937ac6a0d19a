// attention: the two ways it runs. Both compute a row from its own query and position only, in one order of
// sums, so a row's bits do not depend on the way, on where a prompt was cut, or on what else is in a step:
// * A score is the sum of AttentionOrder::parts sums, in their order; each goes over `owned` elements.
// * A tile is 32 positions, at absolute places. Within a chunk of tiles: online softmax, position after
// position.
//   The weights are summed apart for each position modulo kAttentionPlaces.
//   On matrix units both ways go over a tile in another order, the same for both (attention_matrix.h).
// * Chunks are folded in their order, each scaled by its greatest score. Their length depends on the row's
//   position only (ChunkPositions). At the end the places' sums of weights are added.
// What a row may not see adds exactly nothing, whatever it is.
#ifndef QCC_CODEGEN_GPU_KERNELS_ATTENTION_H_
#define QCC_CODEGEN_GPU_KERNELS_ATTENTION_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/head_norm_rope.h"
#include "codegen/gpu/kernels/kv_cache.h"
#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

struct AttentionSpec {
  KvShape kv;
  int q_heads = 0;
  bool gated = false;
  std::optional<HeadSpec> made;  // of one row: heads that the attention norms, rotates and stores itself
  int group() const { return q_heads / kv.kv_heads; }  // query heads that share a kv head
  std::string name() const;
};

inline constexpr int kAttentionTile = 32;   // positions of the cache per step of the softmax
inline constexpr int kAttentionPlaces = 8;  // sums of weights
// A chunk gets more tiles only where there are more than the most chunks with so many: a tile is waited for,
// one after the other, longer than what a chunk leaves takes to fold.
inline constexpr int kChunkTiles = 4;
inline constexpr int kAttentionPiece = 8;  // elements of a key that lie together in a part of a score
// Below no score that is a number, and one itself: differences of two of them are 0.
inline constexpr float kNoScore = -std::numeric_limits<float>::max();

// How the sums of a row are parted. A property of the shape alone.
struct AttentionOrder {
  explicit AttentionOrder(const AttentionSpec& spec);
  int blocks;  // of query heads that share a kv head, where few rows run
  int heads;   // query heads of such a block
  int splits;  // most chunks
  int spread;  // chunks that tiles are spread over until these have kChunkTiles each
  int owned;   // elements of a part of a score, a power of two; those at or beyond head_dim count as 0
  int parts;   // piece i of part p is piece i * parts + p of the key
};

// Positions of a chunk for a row that sees `count` of them (i32): a multiple of the tile.
Val ChunkPositions(const AttentionOrder& order, Val count);

// Whether the profile's matrix units multiply for it; else, sums of f32 products. Of both ways or of none, as
// the order of sums within a tile differs (attention_matrix.h).
bool OnMatrixUnits(const AttentionSpec& spec, const Profile& profile);

// A qk_norm_rope_store whose heads an attention is to make itself.
struct MadeHeads {
  plan::QkNormRopeStoreSpec spec;
  Arg q, k, v, q_norm, k_norm, rope, kv;
};
// The attention of one row, that makes its heads: every workgroup its queries, and the one that has the last
// chunk what is stored of the row. Empty where it cannot; the bits are the same.
std::vector<Launch> ExpandMakingHeads(const Dispatch<plan::AttentionSpec>& dispatch, const MadeHeads& made,
                                      Expansion& expansion);

// Few rows: the cache is split over workgroups, whose partial results a second launch combines.
// `made`: what spec.made is of.
std::vector<Launch> SplitAttention(const AttentionSpec& spec, const Dispatch<plan::AttentionSpec>& dispatch,
                                   Expansion& expansion, const MadeHeads* made = nullptr);
// Many rows: a workgroup has a block of rows and walks the cache (online softmax).
std::vector<Launch> BlockAttention(const AttentionSpec& spec, const Dispatch<plan::AttentionSpec>& dispatch,
                                   Expansion& expansion);

// `value` of column `column` of query head `at` (row * q_heads + head) times the output gate.
Val ApplyGate(const AttentionSpec& spec, Val gate, Val at, Val column, Val value);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ATTENTION_H_
