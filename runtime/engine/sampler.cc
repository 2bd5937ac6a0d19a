#include "runtime/engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string>

#include "runtime/abi/sampling.h"
#include "runtime/base/float_environment.h"
#include "runtime/engine/random_numbers.h"
#include "runtime/engine/sampling_fixed.h"
#include "runtime/engine/token_weights.h"

namespace qrt {
namespace {

using namespace sampling;

constexpr uint32_t kMaxCount = 1u << 20;
// Of 248 thousand logits 1000 are kept in a heap in 0.6 ms, and selected from all of them in 2.0 (a Zen 5).
constexpr size_t kMostHeap = 4096;
constexpr uint64_t kMaxFactor = uint64_t{1} << 62;

// Weights by their highest bits: the heavier a weight, the lower its class.
constexpr int kClassBits = 6;
constexpr size_t kClasses = size_t{65} << kClassBits;
size_t ClassOf(uint64_t weight) {
  const int zeros = std::countl_zero(weight);
  const uint64_t next = zeros >= 63 ? 0 : weight << (zeros + 1) >> (64 - kClassBits);
  return (static_cast<size_t>(zeros) << kClassBits) + ((size_t{1} << kClassBits) - 1 - next);
}

// The largest distance whose weight is at least min_p of the highest.
int64_t MaxDistance(float min_p) {
  if (min_p == 0) return INT64_MAX;
  const auto needed =
      static_cast<uint64_t>(std::ceil(std::ldexp(static_cast<double>(min_p), QRT_SAMPLING_WEIGHT_BITS)));
  int64_t low = 0, high = int64_t{64} << QRT_SAMPLING_POINT;  // weighs nothing
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (Weight(middle, QRT_SAMPLING_LOG2E) >= needed ? low : high) = middle;
  }
  return low;
}

// x * 2^point for x >= 0, at most kMaxFactor.
uint64_t Factor(double x, int point) {
  const double scaled = std::ldexp(x, point);
  return scaled < static_cast<double>(kMaxFactor) ? static_cast<uint64_t>(scaled) : kMaxFactor;
}

int64_t Penalty(float x) {
  return static_cast<int64_t>(std::ldexp(std::clamp(double{x}, -16384.0, 16384.0), QRT_SAMPLING_POINT));
}

Status BadOption(const char* name, double found, const std::string& expected) {
  char number[32];
  // As many digits as a float has; integers have all of theirs.
  std::snprintf(number, sizeof number, found == std::trunc(found) ? "%.10g" : "%.7g", found);
  return Status(Code::kInvalidArgument, 7201, std::string(name) + " is " + number + ", expected " + expected);
}

}  // namespace

Result<Sampler> Sampler::Create(uint32_t vocab_size, const SamplerOptions& o,
                                std::span<const uint32_t> choosable) {
  const FloatEnvironment floats;
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
    const std::string most = std::to_string(kMaxPenaltyWindow);
    return BadOption("penalty_window", o.penalty_window, "-1 (all), 0 (off) or up to " + most + " tokens");
  }
  return Sampler(vocab_size, o, choosable);
}

Sampler::Sampler(uint32_t vocab_size, const SamplerOptions& options, std::span<const uint32_t> choosable)
    : options_(options),
      penalize_(
          options.penalty_window != 0 &&
          (options.repeat_penalty != 1 || options.presence_penalty != 0 || options.frequency_penalty != 0)),
      choosable_(choosable.begin(), choosable.end()),
      choices_(vocab_size),
      passes_(AllTokenPasses().data()),
      candidates_(vocab_size) {
  if (!choosable.empty()) {
    choices_ = 0;
    for (const uint32_t word : choosable) choices_ += static_cast<uint32_t>(std::popcount(word));
  }
  const bool greedy = options.temperature == 0;
  draw_.top_k = greedy ? 1 : static_cast<uint32_t>(options.top_k);
  draw_.top_p = options.top_p < 1 ? static_cast<uint64_t>(std::ldexp(static_cast<double>(options.top_p), 64))
                                  : QRT_SAMPLING_ALL;
  draw_.max_distance = MaxDistance(options.min_p);
  draw_.scale = greedy ? QRT_SAMPLING_LOG2E
                       : Factor(static_cast<double>(QRT_SAMPLING_LOG2E) / double{options.temperature}, 0);
  draw_.repeat = Factor(options.repeat_penalty, QRT_SAMPLING_FACTOR_POINT);
  draw_.repeat_inverse = Factor(1 / double{options.repeat_penalty}, QRT_SAMPLING_FACTOR_POINT);
  draw_.presence = Penalty(options.presence_penalty);
  draw_.frequency = Penalty(options.frequency_penalty);
  if (whole() && draw_.top_p != QRT_SAMPLING_ALL) {
    class_sums_.resize(kClasses);
    edge_.reserve(vocab_size);
  }
  if (whole()) {
    logits_.resize(vocab_size);
    blocks_.resize((vocab_size + kWeighedTogether - 1) / kWeighedTogether);
  }
  if (!penalize_) return;
  counts_.assign(vocab_size, 0);
  counted_.assign((vocab_size + kGlance - 1) / kGlance, 0);
  place_.assign(vocab_size, 0);
  const size_t window = static_cast<size_t>(std::max(options.penalty_window, 0));
  window_.assign(window, 0);
  recent_.reserve(window == 0 ? vocab_size : std::min<size_t>(window, vocab_size));
}

void Sampler::Reset() {
  next_position_ = 0;
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(counted_.begin(), counted_.end(), 0);
  recent_.clear();
  window_next_ = window_used_ = 0;
}

void Sampler::Accept(int32_t token) {
  if (!penalize_ || token < 0 || static_cast<size_t>(token) >= counts_.size()) return;
  if (!window_.empty()) {
    if (window_used_ == window_.size()) {
      Forget(window_[window_next_]);
    } else {
      ++window_used_;
    }
    window_[window_next_] = token;
    window_next_ = window_next_ + 1 == window_.size() ? 0 : window_next_ + 1;
  }
  const size_t id = static_cast<size_t>(token);
  if (counts_[id]++ != 0) return;
  counted_[id / kGlance] |= uint32_t{1} << id % kGlance;
  place_[id] = static_cast<uint32_t>(recent_.size());
  recent_.push_back(token);
}

void Sampler::Forget(int32_t token) {
  const size_t id = static_cast<size_t>(token);
  if (--counts_[id] != 0) return;
  counted_[id / kGlance] &= ~(uint32_t{1} << id % kGlance);
  const int32_t last = recent_.back();
  recent_[place_[id]] = last;
  place_[static_cast<size_t>(last)] = place_[id];
  recent_.pop_back();
}

void Sampler::Describe(uint64_t position, qrt_gpu_sample* sample, qrt_gpu_penalty* penalties,
                       std::span<const int32_t> ahead) const {
  const uint32_t begin = sample->penalty_begin;
  *sample = draw_;
  sample->penalty_begin = begin;
  sample->random = RandomFor(position);
  if (!penalize_) return;
  size_t oldest = 0, leave = 0;  // of the window, to make room
  if (!window_.empty()) {
    const size_t size = window_.size();
    ahead = ahead.last(std::min(ahead.size(), size));
    oldest = window_next_ + size - window_used_;
    leave = window_used_ + ahead.size() - std::min(window_used_ + ahead.size(), size);
  }
  const auto add = [&](int32_t token) {
    uint32_t count = counts_[static_cast<size_t>(token)];
    for (const int32_t next : ahead) count += next == token;
    for (size_t i = 0; i < leave; ++i) count -= window_[(oldest + i) % window_.size()] == token;
    if (count == 0) return;
    penalties[sample->penalty_count++] = {static_cast<uint32_t>(token), std::min(count, kMaxCount)};
  };
  for (const int32_t token : recent_) add(token);
  for (size_t i = 0; i < ahead.size(); ++i) {
    const auto before = ahead.begin() + static_cast<std::ptrdiff_t>(i);
    const bool fresh = counts_[static_cast<size_t>(ahead[i])] == 0;
    if (fresh && std::find(ahead.begin(), before, ahead[i]) == before) add(ahead[i]);
  }
}

uint64_t Sampler::RandomFor(uint64_t position) const {
  return options_.temperature == 0 ? 0 : RandomAt(options_.seed, position);
}

uint32_t Sampler::Penalized(uint32_t key, uint32_t count) const {
  const int64_t logit = FixedOf(BitsOf(key));
  const uint64_t size = static_cast<uint64_t>(logit < 0 ? -logit : logit);
  const uint64_t factor = logit < 0 ? draw_.repeat : draw_.repeat_inverse;
  const uint64_t high = HighProduct(size, factor), low = size * factor;
  const uint64_t whole = high << (64 - QRT_SAMPLING_FACTOR_POINT) | low >> QRT_SAMPLING_FACTOR_POINT;
  const auto scaled = static_cast<int64_t>(high >> 29 ? kHuge : std::min(whole, kHuge));
  const int64_t off = draw_.presence + draw_.frequency * int64_t{std::min(count, kMaxCount)};
  return KeyOf(BitsOfFixed((logit < 0 ? -scaled : scaled) - off));
}

const char* Sampler::FaultOf(int32_t result) {
  switch (result) {
    case QRT_GPU_SAMPLE_BAD_LOGIT:
      return "a logit is NaN or infinity";
    case QRT_GPU_SAMPLE_MINUS_INFINITY:
      return "a logit is -infinity";
    default:
      return "all logits are equal";
  }
}

bool Sampler::MayChoose(size_t token) const {
  return choosable_.empty() || (choosable_[token / 32] >> token % 32 & 1) != 0;
}

size_t Sampler::PassOverLow(std::span<const float> logits, size_t begin, Seen* seen) const {
  const size_t word = begin / kGlance;
  LogitRange range;
  const size_t passed = passes_->pass_over(
      logits.data() + begin, (logits.size() - begin) / kGlance, LogitOf(candidates_[0].key),
      choosable_.empty() ? nullptr : &choosable_[word], counted_.empty() ? nullptr : &counted_[word], &range);
  if (passed != 0) seen->Add(range);
  return begin + passed * kGlance;
}

Sampler::Seen Sampler::Load(std::span<const float> logits) {
  n_ = 0;
  highest_ = 0;
  Seen seen;
  seen.bad = logits.size();
  const size_t top_k = draw_.top_k;
  // A small k is kept in a heap whose top is the worst kept so far; a large one is selected afterwards.
  const bool heap = top_k <= kMostHeap;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (heap && n_ == top_k && i % kGlance == 0) {
      // Mostly none of them belongs to the best.
      i = PassOverLow(logits, i, &seen);
      if (i == logits.size()) break;
    }
    if (!MayChoose(i)) continue;
    const uint32_t bits = std::bit_cast<uint32_t>(logits[i]);
    if (!IsNumber(bits)) {
      if (bits == 0xFF800000) {
        seen.lowest = 0;
        continue;
      }
      seen.bad = i;
      return seen;
    }
    Candidate c{KeyOf(bits), static_cast<int32_t>(i), 0};
    seen.lowest = std::min(seen.lowest, c.key);
    seen.highest = std::max(seen.highest, c.key);
    if (penalize_ && counts_[i] != 0) c.key = Penalized(c.key, counts_[i]);
    if (heap && n_ == top_k) {
      // Equal logits come in rising ids, so they lose.
      if (c.key <= candidates_[0].key) continue;
      std::pop_heap(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n_), Before);
      --n_;
    }
    highest_ = std::max(highest_, c.key);
    candidates_[n_++] = c;
    if (heap)
      std::push_heap(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n_), Before);
  }
  const size_t kept = std::min(top_k, n_);
  SortFront(kept);
  n_ = kept;
  return seen;
}

void Sampler::LoadOneByOne(std::span<const float> logits, size_t begin, size_t end, Seen* seen) {
  for (size_t i = begin; i < end; ++i) {
    logits_[i] = kExcluded;
    if (!MayChoose(i)) continue;
    if (IsNumber(std::bit_cast<uint32_t>(logits[i]))) {
      logits_[i] = logits[i];
      seen->Add({logits[i], logits[i]});
    } else if (logits[i] == kExcluded) {
      seen->lowest = 0;
    } else {
      seen->bad = std::min(seen->bad, i);
    }
  }
}

void Sampler::PenalizeBlock(size_t begin, size_t end) {
  for (size_t word = begin / kGlance; word * kGlance < end; ++word) {
    for (uint32_t left = counted_[word]; left != 0; left &= left - 1) {
      const size_t token = word * kGlance + static_cast<size_t>(std::countr_zero(left));
      if (logits_[token] == kExcluded) continue;
      logits_[token] = LogitOf(Penalized(KeyOf(logits_[token]), counts_[token]));
    }
  }
}

Sampler::Seen Sampler::LoadWhole(std::span<const float> logits) {
  Seen seen;
  seen.bad = logits.size();
  float highest = kExcluded;
  for (size_t begin = 0; begin < logits.size(); begin += kWeighedTogether) {
    const size_t end = std::min(begin + kWeighedTogether, logits.size());
    const auto in_words = [&](const std::vector<uint32_t>& mask, auto is) {
      return std::all_of(mask.begin() + static_cast<std::ptrdiff_t>(begin / kGlance),
                         mask.begin() + static_cast<std::ptrdiff_t>((end + kGlance - 1) / kGlance), is);
    };
    const bool all =
        choosable_.empty() || in_words(choosable_, [](uint32_t word) { return word == ~uint32_t{0}; });
    Block& block = blocks_[begin / kWeighedTogether];
    LogitRange range;
    if (all) range = passes_->copy(&logits[begin], end - begin, &logits_[begin]);
    const bool numbers = all && range.numbers;
    if (numbers) {
      seen.Add(range);
    } else {
      LoadOneByOne(logits, begin, end, &seen);
    }
    const bool counted = penalize_ && !in_words(counted_, [](uint32_t word) { return word == 0; });
    if (counted) PenalizeBlock(begin, end);
    block.highest = numbers && !counted ? range.highest
                                        : *std::max_element(&logits_[begin], &logits_[begin] + (end - begin));
    highest = std::max(highest, block.highest);
  }
  n_ = highest != kExcluded;
  highest_ = n_ == 0 ? 0 : KeyOf(highest);
  return seen;
}

uint64_t Sampler::WeighBlock(size_t block, uint64_t scale, uint64_t* weights) const {
  const size_t begin = block * kWeighedTogether, count = std::min(kWeighedTogether, logits_.size() - begin);
  return passes_->weigh(&logits_[begin], count, FixedOfKey(highest_), scale, weights);
}

uint64_t Sampler::WeighWhole(uint64_t scale) {
  uint64_t total = 0, weights[kWeighedTogether];
  for (size_t i = 0; i < blocks_.size(); ++i) total += blocks_[i].weight = WeighBlock(i, scale, weights);
  return total;
}

int32_t Sampler::DrawWhole(uint64_t random) {
  // Exact to 2^-64 per token.
  uint64_t left = HighProduct(random, WeighWhole(draw_.scale)), weights[kWeighedTogether];
  size_t block = 0, i = 0;
  for (; left >= blocks_[block].weight; ++block) left -= blocks_[block].weight;
  WeighBlock(block, draw_.scale, weights);
  for (; left >= weights[i]; ++i) left -= weights[i];
  return static_cast<int32_t>(block * kWeighedTogether + i);
}

void Sampler::TakeHeavy(uint64_t least) {
  n_ = 0;
  uint64_t weights[kWeighedTogether];
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (blocks_[block].weight < least) continue;
    WeighBlock(block, QRT_SAMPLING_LOG2E, weights);
    const size_t begin = block * kWeighedTogether, end = std::min(begin + kWeighedTogether, logits_.size());
    for (size_t i = begin; i < end; ++i) {
      const uint64_t weight = weights[i - begin];
      if (weight >= least) candidates_[n_++] = {KeyOf(logits_[i]), static_cast<int32_t>(i), weight};
    }
  }
}

void Sampler::TakeNear() {
  n_ = 0;
  const int64_t lowest = FixedOfKey(highest_) - draw_.max_distance;
  const auto near = [&](float logit) {
    return logit != kExcluded && FixedOf(std::bit_cast<uint32_t>(logit)) >= lowest;
  };
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (!near(blocks_[block].highest)) continue;
    const size_t begin = block * kWeighedTogether, end = std::min(begin + kWeighedTogether, logits_.size());
    for (size_t i = begin; i < end; ++i) {
      if (near(logits_[i])) candidates_[n_++] = {KeyOf(logits_[i]), static_cast<int32_t>(i), 0};
    }
  }
}

void Sampler::SortFront(size_t count) {
  const auto begin = candidates_.begin(), middle = begin + static_cast<std::ptrdiff_t>(count),
             end = begin + static_cast<std::ptrdiff_t>(n_);
  if (middle != end) std::nth_element(begin, middle, end, Before);
  std::sort(begin, middle, Before);
}

uint64_t Sampler::Weigh(uint64_t scale) {
  const int64_t highest = FixedOfKey(highest_);
  uint64_t total = 0, weights[kWeighedTogether];
  float logits[kWeighedTogether];
  for (size_t begin = 0; begin < n_; begin += kWeighedTogether) {
    const size_t count = std::min(kWeighedTogether, n_ - begin);
    for (size_t i = 0; i < count; ++i) logits[i] = LogitOf(candidates_[begin + i].key);
    total += passes_->weigh(logits, count, highest, scale, weights);
    for (size_t i = 0; i < count; ++i) candidates_[begin + i].weight = weights[i];
  }
  return total;
}

uint64_t Sampler::NeededOf(uint64_t total) const {
  return std::max<uint64_t>(HighProduct(total, draw_.top_p), 1);
}

void Sampler::KeepTopP() {
  const uint64_t needed = NeededOf(Weigh(QRT_SAMPLING_LOG2E));
  uint64_t sum = 0;
  size_t kept = 0;
  while (sum < needed) sum += candidates_[kept++].weight;
  n_ = kept;
}

void Sampler::TakeTopP() {
  const uint64_t total = WeighWhole(QRT_SAMPLING_LOG2E), needed = NeededOf(total);
  // What is lighter than this is, all together, no more than what may be left out.
  TakeHeavy(std::max<uint64_t>((total - needed) / logits_.size(), 1));
  // Weights fall as the order goes on: only those of the class in which the front ends need be ordered.
  uint64_t sum = 0;
  std::fill(class_sums_.begin(), class_sums_.end(), 0);
  for (size_t i = 0; i < n_; ++i) class_sums_[ClassOf(candidates_[i].weight)] += candidates_[i].weight;
  size_t last = 0;
  for (; sum + class_sums_[last] < needed; ++last) sum += class_sums_[last];
  edge_.clear();
  for (size_t i = 0; i < n_; ++i) {
    if (ClassOf(candidates_[i].weight) == last) edge_.push_back(candidates_[i]);
  }
  std::sort(edge_.begin(), edge_.end(), Before);
  size_t end = 0;
  while (sum < needed) sum += edge_[end++].weight;
  const Candidate lightest = edge_[end - 1];
  const auto begin = candidates_.begin();
  const auto kept = std::remove_if(begin, begin + static_cast<std::ptrdiff_t>(n_),
                                   [&](const Candidate& c) { return Before(lightest, c); });
  n_ = static_cast<size_t>(kept - begin);
}

int32_t Sampler::Draw(uint64_t random) {
  const auto begin = candidates_.begin(), end = begin + static_cast<std::ptrdiff_t>(n_);
  if (draw_.top_k != 0) {
    std::sort(begin, end, [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  }
  // Exact to 2^-64 per token.
  uint64_t left = HighProduct(random, Weigh(draw_.scale));
  size_t i = 0;
  for (; left >= candidates_[i].weight; ++i) left -= candidates_[i].weight;
  return candidates_[i].id;
}

Status Sampler::Sample(std::span<const float> logits, int32_t* token) {
  const FloatEnvironment floats;
  if (logits.size() != candidates_.size()) {
    return Status(Code::kInvalidArgument, 7202,
                  std::to_string(logits.size()) + " logits, expected " + std::to_string(candidates_.size()));
  }
  const Seen seen = whole() ? LoadWhole(logits) : Load(logits);
  if (seen.bad != logits.size()) {
    return Status(Code::kInvalidArgument, 7203,
                  "the logit of token " + std::to_string(seen.bad) + " is " +
                      (std::isnan(logits[seen.bad]) ? "NaN" : "infinity"),
                  "", "the model's output is damaged: check the artifact's weights");
  }
  if (n_ == 0) {
    return Status(Code::kInvalidArgument, 7204, "no token can be chosen: all logits are -infinity");
  }
  *token = Choose(RandomFor(next_position_++));
  return Status();
}

int32_t Sampler::SampleStep(uint64_t position, std::span<const float> logits) {
  const FloatEnvironment floats;
  const Seen seen = whole() ? LoadWhole(logits) : Load(logits);
  if (seen.bad != logits.size()) return QRT_GPU_SAMPLE_BAD_LOGIT;
  if (seen.lowest == 0) return QRT_GPU_SAMPLE_MINUS_INFINITY;
  const bool equal = seen.lowest == seen.highest && choices_ > 1;
  if (equal || n_ == 0) return QRT_GPU_SAMPLE_ALL_EQUAL;
  return Choose(RandomFor(position));
}

int32_t Sampler::Choose(uint64_t random) {
  const bool top_p = draw_.top_p != QRT_SAMPLING_ALL, min_p = draw_.max_distance != INT64_MAX;
  if (whole()) {
    if (!top_p && !min_p) return DrawWhole(random);
    top_p ? TakeTopP() : TakeNear();
  } else if (top_p) {
    KeepTopP();
  }
  if (n_ == 1) return candidates_[0].id;
  if (min_p) {
    const int64_t highest = FixedOf(BitsOf(highest_));
    const auto begin = candidates_.begin(), end = begin + static_cast<std::ptrdiff_t>(n_);
    const auto kept = std::remove_if(begin, end, [&](const Candidate& c) {
      return highest - FixedOf(BitsOf(c.key)) > draw_.max_distance;
    });
    n_ = static_cast<size_t>(kept - begin);
  }
  return Draw(random);
}

}  // namespace qrt
