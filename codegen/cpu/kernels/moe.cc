// moe_route, whose items are rows, and moe_group, which is one item.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/row_ops.h"

namespace qk {
namespace {

constexpr int32_t kNone = -2147483647 - 1;  // below the key of every logit

QK_INLINE I32<16> ids_from(int64_t first) {
  const I32<16> lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lanes + static_cast<int32_t>(first);
}

// Integers in the order of 16 logits, equal where they are equal: zeros of both signs, and NaNs, which are
// below all.
QK_INLINE I32<16> keys(F32<16> v) {
  const I32<16> bits = __builtin_bit_cast(I32<16>, v);
  const I32<16> ordered = v == 0.f ? I32<16>(0) : bits ^ ((bits >> 31) & 0x7fffffff);
  return v == v ? ordered : I32<16>(kNone + 1);
}

// A place in the order of a row's experts: by falling key, of one key by rising id.
struct Place {
  int32_t key, id;
};

QK_INLINE I32<16> is_behind(I32<16> key, I32<16> id, Place p) {
  return (key < p.key) | ((key == p.key) & (id > p.id));
}

// The first of a row's experts behind `p`. There is one.
QK_INLINE Place next_place(const float* logits, int32_t experts, Place p) {
  I32<16> best = I32<16>(kNone), best_id = I32<16>(0);
  for (int32_t e = 0; e < experts; e += 16) {
    const I32<16> id = ids_from(e), key = keys(loadf<16>(logits + e));
    const I32<16> better = is_behind(key, id, p) & (id < experts) & (key > best);
    best = better ? key : best;
    best_id = better ? id : best_id;
  }
  const int32_t top = __builtin_reduce_max(best);
  return {top, __builtin_reduce_min(best == top ? best_id : I32<16>(0x7fffffff))};
}

// The experts up to `last` in that order; ids ascend.
QK_INLINE void write_ids(const float* logits, int32_t experts, Place last, int32_t* ids) {
  for (int32_t e = 0; e < experts; e += 16) {
    const I32<16> id = ids_from(e);
    const I32<16> used = ~is_behind(keys(loadf<16>(logits + e)), id, last) & (id < experts);
    if (__builtin_reduce_or(used) == 0) continue;
    for (int i = 0; i < 16; ++i) {
      if (used[i]) *ids++ = e + i;
    }
  }
}

QK_INLINE float sigmoid1(float x) {
  return sigmoid<4>(splat<4>(x)).x;
}

QK_INLINE float sum_of_exp(const float* logits, int32_t experts, float top) {
  F32<16> sum = F32<16>(0.f);
  for (int32_t e = 0; e < experts; e += 16) {
    const F32<16> v = exp<16>(loadf<16>(logits + e) - top);
    sum = sum + (ids_from(e) < experts ? v : F32<16>(0.f));
  }
  return reduce_add(sum);
}

QK_INLINE void route_row(const moe_route_args& a, const float* logits, int32_t* ids, float* weights) {
  const int32_t experts = static_cast<int32_t>(a.experts);
  const Place first = next_place(logits, experts, {0x7fffffff, 0});
  Place last = first;
  for (int64_t i = 1; i < a.top_k; ++i) last = next_place(logits, experts, last);
  write_ids(logits, experts, last, ids);

  const bool softmax = a.gating == QK_Gating_Softmax;
  const float top = logits[first.id], all = softmax ? sum_of_exp(logits, experts, top) : 1.f;
  float sum = 0.f;
  for (int64_t i = 0; i < a.top_k; ++i) {
    const float v = logits[ids[i]];
    weights[i] = softmax ? exp<4>(splat<4>(v - top)).x / all : sigmoid1(v);
    sum = sum + weights[i];
  }
  const float divisor = !a.normalise ? 1.f : sum < a.norm_floor ? a.norm_floor : sum;
  for (int64_t i = 0; i < a.top_k; ++i) weights[i] = weights[i] / divisor * a.scale;
}

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_moe_route, moe_route)
QK_EXPORT void qk_moe_route(const moe_route_args* args) {
  using namespace qk;
  const moe_route_args a = *args;
  const int64_t stride = (a.experts + 15) & ~int64_t{15};
  for (int64_t r = a.begin; r < a.end; ++r) {
    route_row(a, a.logits + r * stride, a.ids + r * a.top_k, a.weights + r * a.top_k);
    if (a.shared) a.factor[r] = sigmoid1(dot_product(a.x + r * a.cols, a.shared_router, a.cols));
    if (a.groups) {
      int32_t* begins = a.groups + 1 + a.experts;
      for (int32_t i = 0; i < a.top_k; ++i) {
        a.groups[1 + i] = a.ids[i];
        begins[i] = a.order[i] = i;
      }
      a.groups[0] = begins[a.top_k] = static_cast<int32_t>(a.top_k);
    }
  }
}

// A counting sort in the place of the list itself: slots of an expert are counted where its begin will be,
// and that is moved to the expert's place in the list, which is no later.
QK_SIGNATURE(qk_moe_group, moe_group)
QK_EXPORT void qk_moe_group(const moe_group_args* args) {
  const moe_group_args a = *args;
  if (a.begin >= a.end) return;
  int32_t *list = a.groups + 1, *at = list + a.experts;
  const int32_t slots = static_cast<int32_t>(a.n_rows * a.top_k), experts = static_cast<int32_t>(a.experts);
  for (int32_t e = 0; e < experts; ++e) at[e] = 0;
  for (int32_t s = 0; s < slots; ++s) ++at[a.ids[s]];
  int32_t before = 0;
  for (int32_t e = 0; e < experts; ++e) {
    const int32_t count = at[e];
    at[e] = before;
    before += count;
  }
  for (int32_t s = 0; s < slots; ++s) a.order[at[a.ids[s]]++] = s;
  // at[e] is now where the slots of e end.
  int32_t active = 0, begin = 0;
  for (int32_t e = 0; e < experts; ++e) {
    const int32_t end = at[e];
    if (end == begin) continue;
    list[active] = e;
    at[active++] = begin;
    begin = end;
  }
  at[active] = slots;
  a.groups[0] = active;
}
