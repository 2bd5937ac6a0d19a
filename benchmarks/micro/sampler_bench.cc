// Choosing tokens with two builds of the library, in turns, so that what else the machine does meets both.
//   qrt_sampler_bench A/libqrt.so B/libqrt.so MODEL.qbin [rounds, default 15]
// Prints, for some options, microseconds of a choice from the model's vocabulary (medians) and how many times
// as fast B is (median of the rounds' ratios, and their quartiles). The logits are normal numbers, of which a
// hundred are up to 20 higher. Exit code 1: they choose different tokens; 2: usage, or a file that cannot be
// used.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/micro/two_builds.h"
#include "runtime/include/qrt/qrt.h"

namespace {

constexpr int kChoices = 20;  // a round

struct Options {
  const char* name;
  float temperature;
  int32_t top_k;
  float top_p, min_p, repeat_penalty;
};
constexpr Options kOptions[] = {
    {"greedy", 0, 0, 1, 0, 1},
    {"plain", 1, 0, 1, 0, 1},
    {"top-k 20, top-p 0.95", 1, 20, 0.95f, 0, 1},
    {"top-k 1000", 0.8f, 1000, 1, 0, 1},
    {"top-p 0.95", 0.8f, 0, 0.95f, 0, 1},
    {"min-p 0.05", 0.8f, 0, 1, 0.05f, 1},
    {"repeat penalty 1.1", 0.8f, 0, 1, 0, 1.1f},
};

// A library with the artifact. Lives as long as the process.
class Build {
 public:
  Build(const char* path, const char* artifact_path) : library_(OpenLibrary(path)) {
    error_.struct_size = sizeof error_;
    Check(Find<decltype(qrt_artifact_open)>(library_, "qrt_artifact_open")(artifact_path, nullptr, &artifact_,
                                                                           &error_));
    sample_ = Find<decltype(qrt_sampler_sample)>(library_, "qrt_sampler_sample");
    accept_ = Find<decltype(qrt_sampler_accept)>(library_, "qrt_sampler_accept");
  }

  size_t vocabulary() {
    qrt_artifact_info info = {};
    info.struct_size = sizeof info;
    Check(
        Find<decltype(qrt_artifact_describe)>(library_, "qrt_artifact_describe")(artifact_, &info, &error_));
    return info.vocab_size;
  }

  void Use(const Options& options) {
    qrt_sampler_options chosen = {};
    chosen.struct_size = sizeof chosen;
    chosen.temperature = options.temperature;
    chosen.top_k = options.top_k;
    chosen.top_p = options.top_p;
    chosen.min_p = options.min_p;
    chosen.repeat_penalty = options.repeat_penalty;
    chosen.penalty_window = 64;
    Find<decltype(qrt_sampler_release)>(library_, "qrt_sampler_release")(sampler_);
    Check(Find<decltype(qrt_sampler_create)>(library_, "qrt_sampler_create")(artifact_, &chosen, &sampler_,
                                                                             &error_));
  }

  // Microseconds of the thread that a choice took; the tokens are in tokens().
  double Choose(const std::vector<float>& logits) {
    const double begin = ThreadSeconds();
    for (int32_t& token : tokens_) {
      Check(sample_(sampler_, logits.data(), logits.size(), &token, &error_));
      accept_(sampler_, token);
    }
    return 1e6 * (ThreadSeconds() - begin) / kChoices;
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  void Check(qrt_status status) const {
    if (status != QRT_OK) Refuse(error_.message);
  }

  void* library_;
  qrt_error error_ = {};
  qrt_artifact* artifact_ = nullptr;
  qrt_sampler* sampler_ = nullptr;
  decltype(qrt_sampler_sample)* sample_ = nullptr;
  decltype(qrt_sampler_accept)* accept_ = nullptr;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(kChoices);
};

std::vector<float> Logits(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(random);
  for (int i = 0; i < 100; ++i) logits[random() % count] += static_cast<float>(random() % 20000) / 1000;
  return logits;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 15;
  if (argc < 4 || argc > 5 || rounds < 1)
    Refuse("usage: qrt_sampler_bench A/libqrt.so B/libqrt.so MODEL.qbin [ROUNDS]");
  Build a(argv[1], argv[3]), b(argv[2], argv[3]);
  const std::vector<float> logits = Logits(a.vocabulary());
  std::printf("%zu logits, us a token, medians of %d rounds\n", logits.size(), rounds);
  for (const Options& options : kOptions) {
    a.Use(options);
    b.Use(options);
    std::vector<double> of_a, of_b, ratios;
    for (int i = 0; i < rounds; ++i) {
      of_a.push_back(a.Choose(logits));
      of_b.push_back(b.Choose(logits));
      if (a.tokens() != b.tokens()) {
        std::fprintf(stderr, "qrt_sampler_bench: %s: the tokens differ\n", options.name);
        return 1;
      }
      ratios.push_back(of_a.back() / of_b.back());
    }
    std::printf("%-22s A %6.0f, B %6.0f, B is %.2f times as fast (%.2f to %.2f)\n", options.name,
                Quantile(of_a, 0.5), Quantile(of_b, 0.5), Quantile(ratios, 0.5), Quantile(ratios, 0.25),
                Quantile(ratios, 0.75));
  }
  return 0;
}
