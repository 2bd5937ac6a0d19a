/* Numbers of the integer sampler (runtime/engine/sampler.h), which the host and the GPU kernels must agree on
 * to the bit. Stand-alone C. */
#ifndef QRT_ABI_SAMPLING_H_
#define QRT_ABI_SAMPLING_H_

#include <stdint.h>

/* Logits, distances and penalties are fixed point with this many bits after the point. Larger logits count as
 * (2^24 - 1) * 2^QRT_SAMPLING_MAX_SHIFT of these units, so that differences fit in 63 bits. */
#define QRT_SAMPLING_POINT 24
#define QRT_SAMPLING_MAX_SHIFT 37

/* A distance times log2(e) / temperature, which has 64 - 24 bits after the point, is a number of halvings
 * with 64. */
#define QRT_SAMPLING_SCALE_POINT 40
#define QRT_SAMPLING_LOG2E UINT64_C(1586259972792) /* at temperature 1 */

/* The most tokens that penalties look back at. */
#define QRT_SAMPLING_MAX_WINDOW (1 << 20)

/* The factors of the repeat penalty. */
#define QRT_SAMPLING_FACTOR_POINT 32

/* The highest logit weighs 2^this; a sum over 2^23 tokens fits in 64 bits. */
#define QRT_SAMPLING_WEIGHT_BITS 40

/* 2^-x = sum over i of (-ln 2)^i / i! x^i for 0 <= x < 1: the terms without their signs, times 2^62. The rest
 * is below 2^-40. */
#define QRT_SAMPLING_TERMS 14
static const uint64_t qrt_sampling_terms[QRT_SAMPLING_TERMS] = {
    UINT64_C(4611686018427387904), UINT64_C(3196577161300663915),
    UINT64_C(1107849223398934356), UINT64_C(255967521894832113),
    UINT64_C(44355791529079737),   UINT64_C(6149018367977265),
    UINT64_C(710362457495793),     UINT64_C(70340819226978),
    UINT64_C(6094567565682),       UINT64_C(469381369432),
    UINT64_C(32535037283),         UINT64_C(2050142669),
    UINT64_C(118420884),           UINT64_C(6314085)};

/* qrt_gpu_sample.top_p: no limit. */
#define QRT_SAMPLING_ALL UINT64_MAX

#endif /* QRT_ABI_SAMPLING_H_ */
