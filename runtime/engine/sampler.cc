#include "runtime/engine/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <iterator>
#include <string>

namespace qrt {
namespace {

// Weights have this many bits after the point; the highest logit weighs 1. So a sum over 2^23 tokens fits in
// 63 bits.
constexpr int kWeightBits = 40;

uint64_t HighProduct(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

// exp(distance) * 2^kWeightBits for distance <= 0, rounded down. Integers from the first multiplication on:
// no libm and no fused multiply-add, whose results differ between machines.
uint64_t Weight(double distance) {
  const double halvings = distance * -1.4426950408889634;  // log2(e)
  if (!(halvings < kWeightBits + 1)) return 0;
  const uint64_t fixed = static_cast<uint64_t>(halvings * 4294967296.0);  // 32 bits after the point
  const uint64_t fraction = fixed << 32;                                  // 64 bits after the point
  // 2^-x = sum over i of (-ln 2)^i / i! x^i; the terms without their signs, times 2^62. The rest is below
  // 2^-40.
  static constexpr uint64_t kTerms[] = {4611686018427387904, 3196577161300663915,
                                        1107849223398934356, 255967521894832113,
                                        44355791529079737,   6149018367977265,
                                        710362457495793,     70340819226978,
                                        6094567565682,       469381369432,
                                        32535037283,         2050142669,
                                        118420884,           6314085};
  uint64_t sum = kTerms[std::size(kTerms) - 1];
  for (size_t i = std::size(kTerms) - 1; i-- > 0;) sum = kTerms[i] - HighProduct(sum, fraction);
  return sum >> (62 - kWeightBits + (fixed >> 32));
}

Status BadOption(const char* name, double found, const char* expected) {
  return Status(Code::kInvalidArgument, 7201,
                std::string(name) + " is " + std::to_string(found) + ", expected " + expected);
}

}  // namespace

RandomSequence::RandomSequence(uint64_t seed) {
  for (uint64_t& word : state_) {
    seed += 0x9E3779B97F4A7C15;
    uint64_t z = seed;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    word = z ^ z >> 31;
  }
}

uint64_t RandomSequence::Next() {
  auto rotate = [](uint64_t x, int k) { return x << k | x >> (64 - k); };
  const uint64_t result = rotate(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return result;
}

Result<Sampler> Sampler::Create(uint32_t vocab_size, const SamplerOptions& o) {
  if (vocab_size == 0 || vocab_size > (1u << 23)) return BadOption("vocab_size", vocab_size, "1 to 2^23");
  if (!(o.temperature >= 0) || std::isinf(o.temperature)) {
    return BadOption("temperature", o.temperature, "a number of at least 0");
  }
  if (o.top_k < 0) return BadOption("top_k", o.top_k, "at least 0 (0: off)");
  if (!(o.top_p >= 0 && o.top_p <= 1)) return BadOption("top_p", o.top_p, "0 to 1 (1: off)");
  if (!(o.min_p >= 0 && o.min_p <= 1)) return BadOption("min_p", o.min_p, "0 to 1 (0: off)");
  if (!(o.repeat_penalty > 0) || std::isinf(o.repeat_penalty)) {
    return BadOption("repeat_penalty", o.repeat_penalty, "a number above 0 (1: off)");
  }
  if (!std::isfinite(o.presence_penalty))
    return BadOption("presence_penalty", o.presence_penalty, "a number");
  if (!std::isfinite(o.frequency_penalty))
    return BadOption("frequency_penalty", o.frequency_penalty, "a number");
  if (o.penalty_window < -1 || o.penalty_window > kMaxPenaltyWindow) {
    return BadOption("penalty_window", o.penalty_window, "-1 (all), 0 (off) or up to 1048576 tokens");
  }
  return Sampler(vocab_size, o);
}

Sampler::Sampler(uint32_t vocab_size, const SamplerOptions& options)
    : options_(options),
      penalize_(
          options.penalty_window != 0 &&
          (options.repeat_penalty != 1 || options.presence_penalty != 0 || options.frequency_penalty != 0)),
      random_(options.seed),
      candidates_(vocab_size) {
  if (!penalize_) return;
  counts_.assign(vocab_size, 0);
  if (options.penalty_window > 0) window_.assign(static_cast<size_t>(options.penalty_window), 0);
}

void Sampler::Reset() {
  random_ = RandomSequence(options_.seed);
  std::fill(counts_.begin(), counts_.end(), 0);
  window_next_ = window_used_ = 0;
}

void Sampler::Accept(int32_t token) {
  if (!penalize_ || token < 0 || static_cast<size_t>(token) >= counts_.size()) return;
  if (!window_.empty()) {
    if (window_used_ == window_.size()) {
      --counts_[static_cast<size_t>(window_[window_next_])];
    } else {
      ++window_used_;
    }
    window_[window_next_] = token;
    window_next_ = window_next_ + 1 == window_.size() ? 0 : window_next_ + 1;
  }
  ++counts_[static_cast<size_t>(token)];
}

// Every product below is exact in double (24 by 24 and 24 by 29 bits) and every sum has its own rounding
// step, so that a compiler that fuses them gets the same.
float Sampler::Penalized(float logit, uint32_t count) const {
  if (logit == -INFINITY) return logit;
  const double factor = options_.repeat_penalty;
  const double scaled = logit > 0 ? logit / factor : logit * factor;
  const double off = double{options_.frequency_penalty} * count + double{options_.presence_penalty};
  const float a = static_cast<float>(std::clamp(scaled, -double{FLT_MAX}, double{FLT_MAX}));
  const float b = static_cast<float>(std::clamp(off, -double{FLT_MAX}, double{FLT_MAX}));
  return std::clamp(a - b, -FLT_MAX, FLT_MAX);
}

// Fills candidates_ in the order of ids, or only those that top-k keeps, in order; sets highest_.
Status Sampler::Load(std::span<const float> logits) {
  n_ = 0;
  highest_ = -INFINITY;
  const size_t top_k = options_.temperature == 0 ? 1 : static_cast<size_t>(options_.top_k);
  // A small k is kept in a heap whose top is the worst kept so far; a large one is selected afterwards.
  const bool heap = top_k != 0 && top_k <= 512;
  for (size_t i = 0; i < logits.size(); ++i) {
    // Most tokens are far from a full heap; equal logits come in rising ids, so they lose too. False for NaN.
    if (heap && n_ == top_k && logits[i] <= candidates_[0].logit && (!penalize_ || counts_[i] == 0)) continue;
    Candidate c{logits[i], static_cast<int32_t>(i), 0};
    if (!(c.logit <= FLT_MAX)) {  // NaN too
      return Status(
          Code::kInvalidArgument, 7203,
          "the logit of token " + std::to_string(i) + " is " + (std::isnan(c.logit) ? "NaN" : "infinity"), "",
          "the model's output is damaged: check the artifact's weights");
    }
    if (penalize_ && counts_[i] != 0) c.logit = Penalized(c.logit, counts_[i]);
    if (c.logit == -INFINITY) continue;
    highest_ = std::max(highest_, c.logit);
    if (heap && n_ == top_k) {
      if (!Before(c, candidates_[0])) continue;
      std::pop_heap(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n_), Before);
      --n_;
    }
    candidates_[n_++] = c;
    if (heap)
      std::push_heap(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n_), Before);
  }
  if (n_ == 0)
    return Status(Code::kInvalidArgument, 7204, "no token can be chosen: all logits are -infinity");
  if (top_k != 0) {
    const size_t kept = std::min(top_k, n_);
    SortFront(kept);
    n_ = kept;
  }
  return Status();
}

void Sampler::SortFront(size_t count) {
  const auto begin = candidates_.begin(), middle = begin + static_cast<std::ptrdiff_t>(count),
             end = begin + static_cast<std::ptrdiff_t>(n_);
  if (middle != end) std::nth_element(begin, middle, end, Before);
  std::sort(begin, middle, Before);
}

// Needs the weights. The shortest front of the ordered candidates that has top_p of the weight, at least one.
void Sampler::KeepTopP() {
  uint64_t total = 0;
  for (size_t i = 0; i < n_; ++i) total += candidates_[i].weight;
  const uint64_t needed = static_cast<uint64_t>(static_cast<double>(total) * options_.top_p);
  // Mostly a few dozen are enough, so only as much of the order is made as is needed.
  for (size_t sorted = std::min<size_t>(64, n_);; sorted = std::min(sorted * 8, n_)) {
    if (options_.top_k == 0) SortFront(sorted);
    uint64_t sum = 0;
    for (size_t i = 0; i < sorted; ++i) {
      sum += candidates_[i].weight;
      if (sum >= needed) {
        n_ = i + 1;
        return;
      }
    }
    if (sorted == n_) return;
  }
}

int32_t Sampler::Draw() {
  uint64_t total = 0;
  for (size_t i = 0; i < n_; ++i) total += candidates_[i].weight;
  // Exact to 2^-64 per token.
  uint64_t left = HighProduct(random_.Next(), total);
  for (size_t i = 0; i + 1 < n_; ++i) {
    if (left < candidates_[i].weight) return candidates_[i].id;
    left -= candidates_[i].weight;
  }
  return candidates_[n_ - 1].id;
}

Status Sampler::Sample(std::span<const float> logits, int32_t* token) {
  if (logits.size() != candidates_.size()) {
    return Status(Code::kInvalidArgument, 7202,
                  std::to_string(logits.size()) + " logits, expected " + std::to_string(candidates_.size()));
  }
  QRT_RETURN_IF_ERROR(Load(logits));
  if (options_.temperature == 0) {
    *token = candidates_[0].id;
    return Status();
  }
  const bool top_p = options_.top_p<1, min_p = options_.min_p> 0;
  if (top_p || min_p) {
    for (size_t i = 0; i < n_; ++i) {
      candidates_[i].weight = Weight(double{candidates_[i].logit} - highest_);
    }
  }
  if (top_p) KeepTopP();
  if (min_p) {
    const uint64_t needed = static_cast<uint64_t>(
        std::ceil(double{options_.min_p} * static_cast<double>(uint64_t{1} << kWeightBits)));
    const auto begin = candidates_.begin(), end = begin + static_cast<std::ptrdiff_t>(n_);
    n_ = static_cast<size_t>(
        std::remove_if(begin, end, [&](const Candidate& c) { return c.weight < needed; }) - begin);
  }
  for (size_t i = 0; i < n_; ++i) {
    candidates_[i].weight = Weight((double{candidates_[i].logit} - highest_) / options_.temperature);
  }
  *token = Draw();
  return Status();
}

}  // namespace qrt
