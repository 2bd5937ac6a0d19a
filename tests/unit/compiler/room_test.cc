// Room for an artifact is asked for as its weights need it, whatever else the model's files hold.
#include <sys/statvfs.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "dialects/formats/formats.h"
#include "dialects/layouts/layouts.h"
#include "frontends/base/error.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"
#include "tests/unit/compiler/synth_tiny.h"

namespace qcc::compiler {
namespace {

namespace fs = std::filesystem;

// Stops where code would be made.
class UntilCode : public QuietSink {
 public:
  void BeginStage(int, int, std::string_view name) override { stopped_ = name.starts_with("generate"); }
  bool Interrupted() const override { return stopped_; }

 private:
  bool stopped_ = false;
};

class Room : public InFolder {
 protected:
  static std::string Golden(const std::string& name) {
    return (fs::path(QCC_SOURCE_DIR) / "tests" / "golden" / (name + ".gguf")).string();
  }
  PipelineOptions Options(const std::string& input) const {
    PipelineOptions options;
    options.input = input;
    options.output = Path("out.qbin");
    options.cpu = {"base"};
    options.decode_buckets = {1};
    options.prefill_buckets = {16};
    options.golden_tokens = 0;
    options.no_cache = true;
    return options;
  }
  std::string Synth(const std::string& name, bool block) const {
    SynthOptions synth = Tiny("qwen35");
    synth.mtp = block;
    synth.output = Path(name);
    const absl::Status made = RunSynth(synth, [](uint64_t, uint64_t) { return absl::OkStatus(); });
    EXPECT_TRUE(made.ok()) << made;
    return synth.output;
  }
  // How much was asked for: first, and of the plan.
  static std::vector<uint64_t> Asked(const PipelineOptions& options) {
    std::vector<uint64_t> asked;
    UntilCode sink;
    const absl::Status ended =
        CompileModel(options, sink, Targets(), nullptr, nullptr, [&asked](uint64_t bytes) {
          asked.push_back(bytes);
          return absl::OkStatus();
        });
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
    EXPECT_EQ(asked.size(), 2u);
    asked.resize(2);
    return asked;
  }
  // The file gets a hole behind its end, larger than what is free. False: the disk has none so large.
  bool Inflate(const std::string& file) const {
    struct statvfs disk;
    if (statvfs(file.c_str(), &disk) != 0) return false;
    std::error_code error;
    fs::resize_file(file, fs::file_size(file) + 2 * uint64_t{disk.f_bavail} * disk.f_frsize, error);
    return !error;
  }
};

// What is asked for first counts weights as the file has them, and must not refuse what fits.
TEST_F(Room, PackedWeightsTakeNoLessThanInTheFile) {
  for (int f = 0; f < kFormatCount; ++f) {
    const auto format = static_cast<Format>(f);
    constexpr int64_t kRows = 16, kColumns = 4096;
    EXPECT_GE(layouts::X16Bytes(format, kRows, kColumns), kRows * row_bytes(format, kColumns))
        << format_info(format).name;
  }
  for (const char* name : {"t3-q-Q4_K_M", "t35-mtp-F32", "t35-q-Q6_K", "t35moe-f-F16", "t3moe-q-Q4_K_M"}) {
    SCOPED_TRACE(name);
    const std::vector<uint64_t> asked = Asked(Options(Golden(name)));
    EXPECT_LE(asked[0], asked[1]);
    EXPECT_LE(asked[1], asked[0] + asked[0] / 4 + (64 << 10)) << "what does not fit would be found late";
  }
}

TEST_F(Room, IsAskedForAsTheArtifactsWeightsTakeIt) {
  const PipelineOptions options = Options(Golden("t3-q-Q4_K_M"));
  const std::vector<uint64_t> asked = Asked(options);
  QuietSink quiet;
  const absl::Status compiled = CompileModel(options, quiet);
  ASSERT_TRUE(compiled.ok()) << compiled;
  const auto artifact = qrt::Artifact::Open(options.output);
  ASSERT_TRUE(artifact.ok()) << artifact.status().ToString();
  EXPECT_EQ(asked[1], (*artifact)->manifest().weights_bytes);
}

TEST_F(Room, OfOtherFilesOnlyTheBlockCounts) {
  const std::string whole = Synth("whole.gguf", true);
  PipelineOptions joined = Options(Synth("bare.gguf", false));
  joined.mtp = whole;
  EXPECT_EQ(Asked(joined), Asked(Options(whole))) << "the model lies in both files";
}

TEST_F(Room, OfADraftTheLayersDoNotCount) {
  const std::string whole = Synth("whole.gguf", true);
  const uint64_t all = Asked(Options(whole))[1];
  PipelineOptions block = Options(whole);
  block.functions = {"mtp"};
  PipelineOptions draft = block;
  draft.draft = true;
  for (const PipelineOptions& options : {block, draft}) {
    const std::vector<uint64_t> asked = Asked(options);
    EXPECT_LE(asked[0], asked[1]);
    EXPECT_LT(asked[1], all / 2);
  }
}

// A file of which the artifact takes little may be larger than what is free.
TEST_F(Room, WhatIsTakenOfAFileCounts) {
  const std::string whole = Synth("whole.gguf", true);
  PipelineOptions joined = Options(Synth("bare.gguf", false));
  joined.mtp = whole;
  if (!Inflate(whole)) GTEST_SKIP() << "no file here can be larger than the disk";
  for (const PipelineOptions& options : {Options(whole), joined}) {
    UntilCode sink;
    const absl::Status ended = CompileModel(options, sink);
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
  }
}

TEST_F(Room, WhereThereIsNoneNothingIsMade) {
  const std::string model = Synth("model.gguf", true);
  const absl::Status full = MakeError("Q6003", "no room", "disk", "make some");
  for (const int fails : {1, 2}) {
    SCOPED_TRACE(fails);
    int asked = 0;
    UntilCode sink;
    const absl::Status ended = CompileModel(Options(model), sink, Targets(), nullptr, nullptr, [&](uint64_t) {
      return ++asked == fails ? full : absl::OkStatus();
    });
    EXPECT_EQ(ended, full);
    EXPECT_EQ(asked, fails);
    EXPECT_FALSE(fs::exists(Path("out.qbin")));
  }
}

}  // namespace
}  // namespace qcc::compiler
