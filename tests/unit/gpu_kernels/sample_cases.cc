#include "tests/unit/gpu_kernels/sample_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace qcc::gpu {
namespace {

template <typename T>
T OneOf(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

qrt::SamplerOptions AnyOptions(std::mt19937& random) {
  qrt::SamplerOptions o;
  o.seed = random();
  o.temperature = OneOf(random, {0.f, 1.f, 0.7f, 0.8f, 1.5f, 1e-3f, 100.f, 1e-30f, 1e30f});
  o.top_k = OneOf(random, {0, 0, 1, 2, 20, 40, 300, 600, 1 << 20});
  o.top_p = OneOf(random, {1.f, 1.f, 0.95f, 0.8f, 0.5f, 0.f, 1e-20f, 0.99999994f});
  o.min_p = OneOf(random, {0.f, 0.f, 0.05f, 0.5f, 1.f, 1e-12f, 1e-30f});
  if (random() % 2 == 0) {
    o.repeat_penalty = OneOf(random, {1.f, 1.1f, 0.5f, 1.3f, 1e20f, 1e-20f});
    o.presence_penalty = OneOf(random, {0.f, 0.3f, 1.5f, -2.f, 1e30f});
    o.frequency_penalty = OneOf(random, {0.f, 0.1f, 2.f, -0.5f, -1e30f});
    o.penalty_window = OneOf(random, {64, -1, 3, 0, 500});
  }
  return o;
}

}  // namespace

float Between(std::mt19937& random, float low, float high) {
  return low + (high - low) * static_cast<float>(random() % 65536) / 65536;
}

std::vector<float> AnyLogits(std::mt19937& random, size_t vocab) {
  std::vector<float> logits(vocab);
  const float spread = OneOf(random, {0.f, 1e-6f, 0.5f, 5.f, 20.f, 300.f});
  const float middle = OneOf(random, {0.f, 0.f, -12.f, 1000.f});
  for (float& l : logits) l = middle + spread * (Between(random, -1, 1) + Between(random, -1, 1));
  const uint32_t kind = random() % 8;
  if (kind < 3) {  // ties
    for (float& l : logits) l = std::round(l);
  } else if (kind == 4) {  // anything finite
    for (float& l : logits) {
      uint32_t bits = random();
      if ((bits & 0x7F800000) == 0x7F800000) bits ^= 0x40000000;
      std::memcpy(&l, &bits, 4);
    }
  } else if (kind == 5) {  // both zeros and subnormals
    for (float& l : logits) l = OneOf(random, {0.f, -0.f, 1e-42f, -1e-42f, 1e-9f, 0.3f});
  }
  const uint32_t damage = random() % 40;
  if (damage < 4) logits[random() % vocab] = OneOf(random, {std::nanf(""), -std::nanf(""), kInf, -kInf});
  if (damage == 4) std::fill(logits.begin(), logits.end(), -kInf);
  return logits;
}

std::vector<uint32_t> AnyChoosable(std::mt19937& random, size_t vocab) {
  std::vector<uint32_t> words((vocab + 31) / 32);
  const uint32_t kind = random() % 3;
  const size_t end = 1 + random() % vocab;
  for (size_t i = 0; i < vocab; ++i) {
    const bool in = kind == 0 ? i < end : kind == 1 ? random() % 4 == 0 : random() % 64 != 0;
    if (in || i == end - 1) words[i / 32] |= 1u << i % 32;
  }
  return words;
}

int32_t AnyFew(std::mt19937& random) {
  return OneOf(random, {1, 2, 3, 7, 8, 9, 20, 40, 63, static_cast<int32_t>(QRT_GPU_FEW_TOKENS)});
}

SampleRow AnySampleRow(std::mt19937& random, size_t vocab) {
  SampleRow row{AnyLogits(random, vocab), AnyOptions(random), {}};
  const size_t accepted = OneOf(random, {0u, 3u, 80u, 700u});
  const size_t different = 1 + random() % vocab;
  for (size_t i = 0; i < accepted; ++i) row.accepted.push_back(static_cast<int32_t>(random() % different));
  return row;
}

int32_t OnHost(qrt::Sampler& sampler, uint64_t position, const std::vector<float>& logits) {
  return sampler.SampleStep(position, logits);
}

}  // namespace qcc::gpu
