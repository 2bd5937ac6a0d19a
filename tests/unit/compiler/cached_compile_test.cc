// What the cache remembers of a compile is what was compiled, whatever others do to the names meanwhile.
#include "compiler/pipeline/cached_compile.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qcc::compiler {
namespace {

namespace fs = std::filesystem;

// Does something where a stage begins or ends.
class Meddler : public QuietSink {
 public:
  explicit Meddler(std::function<void(std::string_view stage, bool ends)> act) : act_(std::move(act)) {}
  void BeginStage(int, int, std::string_view name) override {
    stage_ = name;
    act_(stage_, false);
  }
  void EndStage(std::string_view) override { act_(stage_, true); }
  void Progress(uint64_t done, uint64_t total, std::string_view) override {
    if (progress) progress(stage_, done, total);
  }
  bool Interrupted() const override { return interrupted; }

  std::function<void(std::string_view stage, uint64_t done, uint64_t total)> progress;
  bool interrupted = false;

 private:
  std::function<void(std::string_view, bool)> act_;
  std::string stage_;
};

class CachedCompile : public InFolder {
 protected:
  static fs::path Golden(const std::string& name) {
    return fs::path(QCC_SOURCE_DIR) / "tests" / "golden" / (name + ".gguf");
  }
  PipelineOptions Options(const fs::path& input, const std::string& output) const {
    PipelineOptions options;
    options.input = input.string();
    options.output = Path(output);
    options.cpu = {"base"};
    options.decode_buckets = {1};
    options.prefill_buckets = {16};
    options.golden_tokens = 0;
    options.cache_dir = Path("cache");
    return options;
  }
  void Compile(const PipelineOptions& options, ProgressSink& sink) const {
    const absl::Status status = CompileOnce(options, sink);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::string SourceOf(const std::string& output) const {
    const auto artifact = qrt::Artifact::Open(Path(output));
    return artifact.ok() ? (*artifact)->manifest().provenance.source_name : artifact.status().ToString();
  }
};

TEST_F(CachedCompile, AnotherArtifactUnderTheOutputsNameIsNotTakenForIts) {
  QuietSink quiet;
  Compile(Options(Golden("t3-f-BF16"), "other.qbin"), quiet);
  const PipelineOptions options = Options(Golden("t3-f-F16"), "out.qbin");
  bool replaced = false;
  Meddler another([&](std::string_view stage, bool ends) {
    if (stage != "pack weights" || !ends) return;
    fs::rename(Path("other.qbin"), Path("out.qbin"));
    replaced = true;
  });
  Compile(options, another);
  ASSERT_TRUE(replaced) << "the last stage has another name";
  Compile(Options(Golden("t3-f-F16"), "later.qbin"), quiet);
  EXPECT_EQ(SourceOf("later.qbin"), "t3-f-F16.gguf");
  Compile(options, quiet);
  EXPECT_EQ(SourceOf("out.qbin"), "t3-f-F16.gguf") << "the other one lay there";
}

TEST_F(CachedCompile, ALinkThatLeadsElsewhereMeanwhileChangesNothing) {
  const auto lead_to = [this](const std::string& name) {
    fs::create_symlink(Golden(name), Path("next"));
    fs::rename(Path("next"), Path("link.gguf"));
  };
  lead_to("t3-f-F16");
  Meddler another([&](std::string_view stage, bool ends) {
    if (ends) return;
    if (stage == "read model") lead_to("t3-f-BF16");
    if (stage == "import") lead_to("t3-f-F16");
  });
  Compile(Options(Path("link.gguf"), "out.qbin"), another);
  QuietSink quiet;
  Compile(Options(Golden("t3-f-F16"), "later.qbin"), quiet);
  PipelineOptions alone = Options(Golden("t3-f-F16"), "alone.qbin");
  alone.no_cache = true;
  Compile(alone, quiet);
  const auto hash = [this](const std::string& output) {
    const auto artifact = qrt::Artifact::Open(Path(output));
    return artifact.ok() ? qrt::Hex((*artifact)->manifest().provenance.source_hash)
                         : artifact.status().ToString();
  };
  EXPECT_EQ(hash("out.qbin"), hash("alone.qbin"));
  EXPECT_EQ(hash("later.qbin"), hash("alone.qbin"));
}

constexpr std::string_view kLook = "look in the cache";

// The artifact that would be copied goes, or changes, while it is.
TEST_F(CachedCompile, WhatIsNotThereAnyMoreIsMade) {
  QuietSink quiet;
  for (const bool goes : {true, false}) {
    SCOPED_TRACE(goes);
    const std::string first = goes ? "one.qbin" : "two.qbin", second = "again-" + first;
    const auto options = [&](const std::string& output) {
      PipelineOptions made = Options(Golden("t3-f-F16"), output);
      made.cache_dir = Path("cache-of-" + first);
      return made;
    };
    Compile(options(first), quiet);
    bool done = false, made = false;
    Meddler another([&](std::string_view stage, bool ends) {
      if (stage != "import" || ends) return;
      made = true;
      EXPECT_FALSE(fs::exists(Path(second))) << "before anybody has read what it has";
    });
    another.progress = [&](std::string_view stage, uint64_t, uint64_t) {
      if (stage != kLook || std::exchange(done, true)) return;
      if (goes) {
        fs::remove(Path(first));
      } else {
        std::ofstream(Path(first), std::ios::in | std::ios::out | std::ios::binary | std::ios::ate) << "x";
      }
    };
    Compile(options(second), another);
    EXPECT_TRUE(done) << "nothing was to be copied";
    EXPECT_TRUE(made);
    EXPECT_EQ(SourceOf(second), "t3-f-F16.gguf");
    fs::remove(Path(first));
  }
}

TEST_F(CachedCompile, ACopyStopsWhereverItIs) {
  QuietSink quiet;
  Compile(Options(Golden("t3-f-F16"), "out.qbin"), quiet);
  int shown = 0;
  for (int until = 1; until == 1 || shown >= until - 1; ++until) {
    shown = 0;
    Meddler stopping([](std::string_view, bool) {});
    stopping.progress = [&](std::string_view stage, uint64_t, uint64_t) {
      if (stage == kLook && ++shown == until) stopping.interrupted = true;
    };
    const absl::Status status = CompileOnce(Options(Golden("t3-f-F16"), "copy.qbin"), stopping);
    if (shown < until) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_GE(shown, 2) << "of the copy, and of reading it back";
      break;
    }
    EXPECT_TRUE(absl::IsCancelled(status)) << status << ", stopped at " << until;
    EXPECT_FALSE(fs::exists(Path("copy.qbin"))) << "stopped at " << until;
  }
}

// Two plans, and the model that is read through before: one way from 0 to 100 % in each stage.
TEST_F(CachedCompile, ProgressOfAStageGoesOneWay) {
  std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> shown;
  Meddler hearing([](std::string_view, bool) {});
  hearing.progress = [&](std::string_view stage, uint64_t done, uint64_t total) {
    shown[std::string(stage)].emplace_back(done, total);
  };
  PipelineOptions options = Options(Golden("t35-q-Q8_0"), "out.qbin");
  options.layers = {{"cpu", 0, 1}, {"cpu", 2, 3}};
  options.functions = {"trunk"};
  options.no_cache = true;
  Compile(options, hearing);
  for (const char* stage : {"fuse", "pack weights"}) {
    SCOPED_TRACE(stage);
    const auto& steps = shown[stage];
    ASSERT_FALSE(steps.empty());
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_EQ(steps.front().second, steps.back().second);
    EXPECT_EQ(steps.back().first, steps.back().second);
  }
}

}  // namespace
}  // namespace qcc::compiler
