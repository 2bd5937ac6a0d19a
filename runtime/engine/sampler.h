// Chooses the next token from logits.
#ifndef RUNTIME_ENGINE_SAMPLER_H_
#define RUNTIME_ENGINE_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace qrt {

struct SamplerOptions {
  float temperature = 1;  // 0: greedy
  int32_t top_k = 0;      // keep the k highest; 0: all
  float top_p = 1;        // keep the highest until their probabilities reach this; 1: all
  float min_p = 0;        // keep those with at least this share of the highest probability; 0: all
  float repeat_penalty =
      1;  // > 0; logits of recent tokens: positive divided by it, others multiplied; 1: off
  float presence_penalty = 0;   // subtracted from the logits of recent tokens; 0: off
  float frequency_penalty = 0;  // the same, once per occurrence
  int32_t penalty_window = 64;  // "recent": this many last accepted tokens; -1: all; 0: penalties off
  uint64_t seed = 0;
};

// xoshiro256** 1.0 (Blackman and Vigna, 2018), its state filled by splitmix64 from the seed.
class RandomSequence {
 public:
  explicit RandomSequence(uint64_t seed);
  uint64_t Next();

 private:
  uint64_t state_[4];
};

// Steps, in this order: penalties, top-k, top-p, min-p, temperature, draw; top-p and min-p look at the
// probabilities before the temperature. Temperature 0 takes the highest logit after the penalties instead. Of
// equal logits the lowest id comes first, everywhere.
//
// The same options, logits and accepted tokens give the same tokens on every machine and with every compiler:
// probabilities are integers (2^40 times exp of the distance to the highest logit, from an integer
// polynomial), so sums are exact, and the random numbers are ours.
//
// Sample and Accept allocate nothing. Used by one thread at a time.
class Sampler {
 public:
  // Longest penalty_window other than -1.
  static constexpr int32_t kMaxPenaltyWindow = 1 << 20;

  // Memory for `vocab_size` (>= 1) candidates is taken here. Errors: kInvalidArgument Q7201 (an option out of
  // range; the message names it). Throws std::bad_alloc.
  static Result<Sampler> Create(uint32_t vocab_size, const SamplerOptions& options);

  // Chooses a token; does not record it. -infinity excludes a token. Errors, with *token unchanged:
  // kInvalidArgument Q7202 (not vocab_size logits), Q7203 (a logit is NaN or +infinity), Q7204 (all are
  // -infinity).
  Status Sample(std::span<const float> logits, int32_t* token);

  // Records a token of the sequence for the penalties; ids outside the vocabulary are ignored.
  void Accept(int32_t token);

  // Forgets the recorded tokens and starts the random sequence again.
  void Reset();

  const SamplerOptions& options() const { return options_; }

 private:
  struct Candidate {
    float logit;
    int32_t id;
    uint64_t weight;
  };

  Sampler(uint32_t vocab_size, const SamplerOptions& options);

  // Higher logits first, then lower ids: a strict order of all tokens, so every way of sorting gives the
  // same.
  static bool Before(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  float Penalized(float logit, uint32_t count) const;
  Status Load(std::span<const float> logits);
  // Brings the `count` first candidates to the front, in order.
  void SortFront(size_t count);
  void KeepTopP();
  int32_t Draw();

  SamplerOptions options_;
  bool penalize_;
  RandomSequence random_;
  std::vector<Candidate> candidates_;  // [vocab_size]; the first n_ are in play
  size_t n_ = 0;
  float highest_ = 0;             // the highest logit in play
  std::vector<uint32_t> counts_;  // [vocab_size] occurrences in the window; empty without penalties
  std::vector<int32_t> window_;   // ring of the last tokens; empty when the window is everything
  size_t window_next_ = 0, window_used_ = 0;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SAMPLER_H_
