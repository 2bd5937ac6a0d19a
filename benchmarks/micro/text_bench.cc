// Tokenizing with two builds of the library, in turns, so that what else the machine does meets both.
//   qrt_text_bench A/libqrt.so B/libqrt.so MODEL.qbin TEXT [rounds, default 15]
// Prints MB/s of each (median) and how many times as fast B is (median of the rounds' ratios, and their
// quartiles). Exit code 1: they disagree about the tokens; 2: usage, or a file that cannot be used.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "benchmarks/micro/two_builds.h"
#include "runtime/include/qrt/qrt.h"

namespace {

// A library's own tokenizer of an artifact. Lives as long as the process.
class Build {
 public:
  Build(const char* path, const char* artifact_path) {
    void* library = OpenLibrary(path);
    qrt_error error = {};
    error.struct_size = sizeof error;
    qrt_artifact* artifact = nullptr;
    if (Find<decltype(qrt_artifact_open)>(library, "qrt_artifact_open")(artifact_path, nullptr, &artifact,
                                                                        &error) != QRT_OK ||
        Find<decltype(qrt_text_create)>(library, "qrt_text_create")(artifact, &text_, &error) != QRT_OK) {
      Refuse(std::string(path) + ": " + error.message);
    }
    tokenize_ = Find<decltype(qrt_text_tokenize)>(library, "qrt_text_tokenize");
  }

  // Seconds of the thread that `text` took; its tokens are in tokens().
  double Tokenize(const std::string& text) {
    tokens_.resize(text.size() + 1);
    size_t count = 0;
    qrt_error error = {};
    error.struct_size = sizeof error;
    const double begin = ThreadSeconds();
    const qrt_status status =
        tokenize_(text_, text.data(), text.size(), 0, tokens_.data(), tokens_.size(), &count, &error);
    const double seconds = ThreadSeconds() - begin;
    if (status != QRT_OK) Refuse(error.message);
    tokens_.resize(count);
    return seconds;
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  qrt_text* text_ = nullptr;
  decltype(qrt_text_tokenize)* tokenize_ = nullptr;
  std::vector<int32_t> tokens_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 5 ? std::atoi(argv[5]) : 15;
  if (argc < 5 || argc > 6 || rounds < 1) {
    Refuse("usage: qrt_text_bench A/libqrt.so B/libqrt.so MODEL.qbin TEXT [ROUNDS]");
  }
  std::ifstream file(argv[4], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) Refuse(std::string(argv[4]) + ": empty, or not there");
  Build a(argv[1], argv[3]), b(argv[2], argv[3]);
  a.Tokenize(text);
  b.Tokenize(text);
  if (a.tokens() != b.tokens()) {
    std::fprintf(stderr, "qrt_text_bench: the tokens differ\n");
    return 1;
  }
  std::vector<double> of_a, of_b, ratios;
  for (int i = 0; i < rounds; ++i) {
    of_a.push_back(a.Tokenize(text));
    of_b.push_back(b.Tokenize(text));
    ratios.push_back(of_a.back() / of_b.back());
  }
  const double megabytes = 1e-6 * static_cast<double>(text.size());
  std::printf("%.1f MB, %zu tokens: A %.1f MB/s, B %.1f MB/s, B is %.2f times as fast (%.2f to %.2f)\n",
              megabytes, a.tokens().size(), megabytes / Quantile(of_a, 0.5), megabytes / Quantile(of_b, 0.5),
              Quantile(ratios, 0.5), Quantile(ratios, 0.25), Quantile(ratios, 0.75));
  return 0;
}
