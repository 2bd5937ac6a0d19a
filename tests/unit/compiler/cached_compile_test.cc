// What the cache remembers of a compile is what was compiled, whatever others do to the names meanwhile.
#include "compiler/pipeline/cached_compile.h"

#include <functional>

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

}  // namespace
}  // namespace qcc::compiler
