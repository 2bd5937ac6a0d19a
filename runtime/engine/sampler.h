// Chooses the next token from logits.
#ifndef RUNTIME_ENGINE_SAMPLER_H_
#define RUNTIME_ENGINE_SAMPLER_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/abi/gpu_step.h"
#include "runtime/abi/sampling.h"
#include "runtime/base/status.h"
#include "runtime/engine/sampling_fixed.h"
#include "runtime/engine/token_weights.h"

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

// Steps, in this order: penalties, top-k, top-p, min-p, temperature, draw; top-p and min-p look at the
// probabilities before the temperature. Temperature 0 takes the highest logit after the penalties instead. Of
// equal logits the lowest id comes first, everywhere.
//
// The same options, logits and accepted tokens give the same tokens on every machine, with every compiler,
// and on the device (codegen/gpu/kernels/sample*.cc), because all arithmetic is on integers
// (runtime/abi/sampling.h):
// * The order of logits is that of their bits; -0 is 0.
// * Distances between logits and penalized logits are multiples of 2^-24, and logits beyond +-2^37 count as
// that
//   far. Penalized logits and distances are rounded towards zero.
// * A weight is 2^40 times exp of the distance to the highest logit (over the temperature, which counts as
// 2^-22 when
//   it is lower), by a polynomial. So sums are exact in any order.
// * A draw takes the number of the seed and of the token's position (random_numbers.h), random / 2^64 of the
// sum of the
//   survivors' weights, and finds the survivor, in rising ids, that it falls on.
//
// So a sequence that steps back, is restored or cut into other steps is drawn as one that was never touched.
// Sample, Describe and Accept allocate nothing. Used by one thread at a time.
class Sampler {
 public:
  // Longest penalty_window other than -1.
  static constexpr int32_t kMaxPenaltyWindow = QRT_SAMPLING_MAX_WINDOW;

  // Memory for `vocab_size` (>= 1) candidates is taken here. `choosable`: the tokens that may be chosen, as
  // qrt_choosable_tokens (runtime/abi/tokenizer.h) writes them; the others' logits are never looked at.
  // Empty: all. Errors: kInvalidArgument Q7201 (an option out of range; the message names it). Throws
  // std::bad_alloc.
  static Result<Sampler> Create(uint32_t vocab_size, const SamplerOptions& options,
                                std::span<const uint32_t> choosable = {});

  // Chooses a token for the position behind that of the last call, 0 at first; does not record it. -infinity
  // excludes a token. Errors, with *token unchanged: kInvalidArgument Q7202 (not vocab_size logits: it stays
  // the turn of this position), Q7203 (a logit is NaN or +infinity), Q7204 (all are -infinity).
  Status Sample(std::span<const float> logits, int32_t* token);
  // The next Sample is for `position`: as many tokens stand before the one that it chooses.
  void Seek(uint64_t position) { next_position_ = position; }

  // The same at any position for the logits [vocab_size] of a model's step, which are numbers and not all
  // equal: the token, or one of QRT_GPU_SAMPLE_* that says what they are instead. What the sample programs of
  // a device leave.
  int32_t SampleStep(uint64_t position, std::span<const float> logits);

  // For a draw on the device instead of SampleStep: fills `sample` but for penalty_begin, and `penalties`
  // [penalties()] with the tokens to penalize. The device's draw program then gives what SampleStep would
  // have given for the same position and logits. With `ahead`, tokens of the vocabulary, what it would have
  // given with these recorded too: then there are up to penalties() + ahead.size() entries.
  void Describe(uint64_t position, qrt_gpu_sample* sample, qrt_gpu_penalty* penalties,
                std::span<const int32_t> ahead = {}) const;

  // Different tokens in the penalty window: entries that Describe writes.
  uint32_t penalties() const { return static_cast<uint32_t>(recent_.size()); }

  // The highest logit as it is, the lowest id of equals, also with `ahead` recorded: the device's greedy
  // program does, and no Describe is needed.
  bool plain_greedy(std::span<const int32_t> ahead = {}) const {
    return options_.temperature == 0 && (!penalize_ || (recent_.empty() && ahead.empty()));
  }

  // Whether recorded tokens change what is chosen.
  bool penalizes() const { return penalize_; }

  // What a negative result of SampleStep or of a sample program says about the logits.
  static const char* FaultOf(int32_t result);

  // Records a token of the sequence for the penalties; ids outside the vocabulary are ignored.
  void Accept(int32_t token);

  // Forgets the recorded tokens; the next Sample is for position 0.
  void Reset();

  const SamplerOptions& options() const { return options_; }
  uint32_t vocab_size() const { return static_cast<uint32_t>(candidates_.size()); }

 private:
  struct Candidate {
    uint32_t key;  // the logit: higher means more
    int32_t id;
    uint64_t weight;
  };

  // What was found in the choosable tokens' logits, before the penalties: keys, 0 for -infinity.
  struct Seen {
    uint32_t lowest = UINT32_MAX, highest = 0;
    size_t bad = 0;  // the first token with NaN or +infinity; none: vocab_size

    void Add(const LogitRange& range) {
      lowest = std::min(lowest, sampling::KeyOf(range.lowest));
      highest = std::max(highest, sampling::KeyOf(range.highest));
    }
  };

  // kWeighedTogether tokens of a whole vocabulary.
  struct Block {
    float highest;  // of their logits
    uint64_t weight;
  };

  Sampler(uint32_t vocab_size, const SamplerOptions& options, std::span<const uint32_t> choosable);

  // A token that cannot be chosen.
  static constexpr float kExcluded = -std::numeric_limits<float>::infinity();

  // Higher logits first, then lower ids: a strict order of all tokens, so every way of sorting gives the
  // same.
  static bool Before(const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key > b.key : a.id < b.id;
  }
  uint64_t RandomFor(uint64_t position) const;  // 0 where nothing is drawn
  uint32_t Penalized(uint32_t key, uint32_t count) const;
  void Forget(int32_t token);
  bool MayChoose(size_t token) const;

  // Of a top-k: fills candidates_ with those that it keeps, in order; sets n_ and highest_.
  Seen Load(std::span<const float> logits);
  // The first token from `begin` on, the first of a glance, that may be of the top-k that are full, or needs
  // to be looked at alone. Those ahead of it are counted in *seen.
  size_t PassOverLow(std::span<const float> logits, size_t begin, Seen* seen) const;

  // Without a top-k nothing is kept aside before weights are known.
  bool whole() const { return draw_.top_k == 0; }
  // Fills logits_ and the blocks' highest ones; sets n_, to 0 where no token can be chosen, and highest_.
  Seen LoadWhole(std::span<const float> logits);
  // Tokens of which some are not choosable, or some logits no numbers.
  void LoadOneByOne(std::span<const float> logits, size_t begin, size_t end, Seen* seen);
  void PenalizeBlock(size_t begin, size_t end);
  // weights[kWeighedTogether]; returns the sum.
  uint64_t WeighBlock(size_t block, uint64_t scale, uint64_t* weights) const;
  // Of each block and of all.
  uint64_t WeighWhole(uint64_t scale);
  int32_t DrawWhole(uint64_t random);
  // These fill candidates_, in the order of ids, and set n_: with the tokens of at least that weight (the
  // blocks' weights are known), with those that min-p keeps, with those that top-p keeps.
  void TakeHeavy(uint64_t least);
  void TakeNear();
  void TakeTopP();

  // The token, of the candidates in play, at least one.
  int32_t Choose(uint64_t random);
  // Brings the `count` first candidates to the front, in order.
  void SortFront(size_t count);
  // The weight that top-p asks for, at least 1, of all that there is.
  uint64_t NeededOf(uint64_t total) const;
  // With top-k: the shortest front of the candidates that has top_p of the weight.
  void KeepTopP();
  // Gives the candidates in play their weights and returns the sum.
  uint64_t Weigh(uint64_t scale);
  int32_t Draw(uint64_t random);

  SamplerOptions options_;
  qrt_gpu_sample draw_ = {};  // the options as integers, on the host too
  bool penalize_;
  std::vector<uint32_t> choosable_;  // empty: all
  uint32_t choices_;                 // of them
  uint64_t next_position_ = 0;       // of Sample
  const TokenPasses* passes_;
  std::vector<Candidate> candidates_;  // [vocab_size]; the first n_ are in play
  size_t n_ = 0;
  uint32_t highest_ = 0;  // the highest key in play
  // With top-p and no top-k: the weights' sum in each class of weights, and the candidates of one class.
  std::vector<uint64_t> class_sums_;
  std::vector<Candidate> edge_;
  std::vector<float> logits_;      // [vocab_size] without top-k: after penalties, kExcluded of those left out
  std::vector<Block> blocks_;      // of logits_
  std::vector<uint32_t> counted_;  // a bit of each token in the window; empty without penalties
  std::vector<uint32_t> counts_;   // [vocab_size] occurrences in the window; empty without penalties
  std::vector<int32_t> recent_;    // the tokens in the window, each once
  std::vector<uint32_t> place_;    // [vocab_size] of those in recent_, their index
  std::vector<int32_t> window_;    // ring of the last tokens; empty when the window is everything
  size_t window_next_ = 0, window_used_ = 0;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SAMPLER_H_
