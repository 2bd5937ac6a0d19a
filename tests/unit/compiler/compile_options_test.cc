// The table of options: what it reads, explains, warns of and records.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "codegen/cpu/kernels/isa.h"
#include "compiler/driver/console.h"
#include "compiler/driver/synth.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/user_kernels.h"
#include "frontends/base/error.h"
#include "runtime/aot/cache_layout.h"
#include "tests/unit/compiler/quiet_sink.h"
#include "tests/unit/temp_folder.h"

namespace qcc::compiler {
namespace {

using qrt::aot::NamePiece;

// What the user wrote, by option name.
absl::StatusOr<PipelineOptions> Read(const GivenOptions& given) {
  return ReadCompileOptions("some/model.gguf", given);
}

// What names an artifact of these options in the cache.
std::string KeyOf(const PipelineOptions& options) {
  const auto kernels = UserKernels::Open(options.kernels);
  EXPECT_TRUE(kernels.ok()) << kernels.status();
  return kernels.ok() ? CacheKeyText(options, *kernels) : "";
}

void ExpectUsageError(const GivenOptions& given, const std::string& option, const std::string& says) {
  const auto options = Read(given);
  ASSERT_FALSE(options.ok()) << option << " was accepted";
  const ErrorParts parts = PartsOf(options.status());
  EXPECT_EQ(ExitOf(options.status()), Exit::kUsage) << options.status();
  EXPECT_EQ(parts.where, option) << options.status();
  EXPECT_NE(parts.what.find(says), std::string::npos)
      << "does not say '" << says << "': " << options.status();
}

TEST(CompileOptions, Defaults) {
  const auto o = Read({});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->output, "model.qbin");
  EXPECT_EQ(o->targets, (std::vector<std::string>{"cpu"}));
  EXPECT_EQ(o->cpu.size(), cpu::isa_table().size()) << "all levels by default";
  EXPECT_EQ(o->numerics, NumericsMode::kInt8);
  EXPECT_EQ(o->kv, KvMode::kF16);
  EXPECT_EQ(o->l2_norm, L2NormMode::kSum);
  EXPECT_EQ(o->decode_buckets, (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(o->prefill_buckets.back(), 512);
  EXPECT_EQ(o->compile_to, CompilePhase::kArtifact);
  EXPECT_TRUE(o->given.empty());
}

TEST(CompileOptions, EveryOptionArrives) {
  const auto o = Read({{"output", {"x.qbin"}},
                       {"name", {"mine"}},
                       {"target", {"cpu", "cpu"}},
                       {"cpu", {"v3", "base", "v3"}},
                       {"numerics", {"f32"}},
                       {"kv", {"f32"}},
                       {"l2_norm", {"max"}},
                       {"decode", {"4", "1", "4"}},
                       {"prefill", {"256", "16"}},
                       {"functions", {"trunk", "mtp", "trunk"}},
                       {"strict", {"on"}},
                       {"progress", {"json"}},
                       {"report", {"formats", "fusion", "formats"}},
                       {"report_form", {"json"}},
                       {"emit", {"manifest"}},
                       {"compile_to", {"plan"}},
                       {"dump_ir", {"ir"}},
                       {"dump_kernels", {"kernels"}}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->output, "x.qbin");
  EXPECT_EQ(o->name, "mine");
  EXPECT_EQ(o->cpu, (std::vector<std::string>{"base", "v3"})) << "lowest first, none twice";
  EXPECT_EQ(o->numerics, NumericsMode::kF32);
  EXPECT_EQ(o->kv, KvMode::kF32);
  EXPECT_EQ(o->l2_norm, L2NormMode::kMax);
  EXPECT_EQ(o->decode_buckets, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(o->prefill_buckets, (std::vector<int64_t>{16, 256}));
  EXPECT_EQ(o->functions, (std::vector<std::string>{"trunk", "mtp"})) << "each once";
  EXPECT_TRUE(o->strict);
  EXPECT_EQ(o->progress, ProgressMode::kJson);
  EXPECT_EQ(o->reports, (std::vector<ReportKind>{ReportKind::kFusion, ReportKind::kFormats}))
      << "in the order of the table, each once";
  EXPECT_EQ(o->report_form, ReportForm::kJson);
  EXPECT_EQ(o->emit, EmittedPart::kManifest);
  EXPECT_EQ(o->compile_to, CompilePhase::kPlan);
  EXPECT_EQ(o->dump_ir, "ir");
  EXPECT_EQ(o->dump_kernels, "kernels");
}

TEST(CompileOptions, GpuTargets) {
  auto o = Read({{"target", {"cuda", "cpu", "vulkan", "cuda"}}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->targets, (std::vector<std::string>{"cpu", "vulkan", "cuda"})) << "in the order of the table";
  EXPECT_EQ(o->gpu_profiles, (std::vector<std::string>{"sg32-dot", "sg64-dot", "sg16-dot", "sg8-dot", "none",
                                                       "sm80", "sm61"}));
  o = Read({{"target", {"cuda", "cpu", "vulkan"}}, {"gpu_profiles", {"none", "sg8"}}, {"kernels", {"mine"}}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->gpu_profiles, (std::vector<std::string>{"sg8", "none", "sm80", "sm61"}))
      << "best first; cuda, of which none is named, has its own";
  EXPECT_EQ(o->kernels, "mine");
  o = Read({{"target", {"vulkan"}}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_TRUE(o->cpu.empty()) << "no CPU code was asked for";
}

TEST(CompileOptions, NativeIsThisMachine) {
  const auto o = Read({{"cpu", {"native"}}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->cpu, (std::vector<std::string>{std::string(cpu::isa_info(cpu::host_isa()).name)}));
}

TEST(CompileOptions, UnknownValuesAreNamedWithWhatIsAccepted) {
  ExpectUsageError({{"target", {"tpu"}}}, "--target", "'tpu', accepted: cpu, vulkan, cuda");
  ExpectUsageError({{"target", {"vulkan"}}, {"cpu", {"v3"}}}, "--cpu", "target cpu, which is not chosen");
  ExpectUsageError({{"target", {"vulkan"}}, {"gpu_profiles", {"sm81"}}}, "--gpu-profiles",
                   "'sm81', accepted: sg32-matrix32");
  ExpectUsageError({{"target", {"vulkan"}}, {"gpu_profiles", {"sm80"}}}, "--gpu-profiles=sm80",
                   "target cuda, which is not chosen");
  ExpectUsageError({{"kernels", {"folder"}}}, "--kernels", "target vulkan, which is not chosen");
  ExpectUsageError({{"cpu", {"v3", "v9"}}}, "--cpu", "'v9', accepted: native, base, v3");
  ExpectUsageError({{"numerics", {"f16"}}}, "--numerics", "accepted: int8, f32");
  ExpectUsageError({{"kv", {"q8"}}}, "--kv", "accepted: f16, f32");
  ExpectUsageError({{"l2_norm", {"mean"}}}, "--l2-norm", "'mean', accepted: sum, max");
  ExpectUsageError({{"compile_to", {"nowhere"}}}, "--compile-to",
                   "accepted: import, fuse, plan, code, artifact");
  ExpectUsageError({{"strict", {"maybe"}}}, "--strict", "accepted: off, on");
  ExpectUsageError({{"progress", {"xml"}}}, "--progress", "accepted: auto, plain, json");
  ExpectUsageError({{"report", {"weather"}}}, "--report", "'weather', accepted: fusion, memory, formats");
  ExpectUsageError({{"report_form", {"xml"}}}, "--report-form", "accepted: text, json");
  ExpectUsageError({{"emit", {"weather"}}}, "--emit", "'weather', accepted: off, manifest, kernels");
  ExpectUsageError({{"mtp", {"b.gguf"}}, {"functions", {"trunk"}}}, "--mtp",
                   "programs are made of trunk alone");
  ExpectUsageError({{"mtp", {"b.gguf"}}, {"traceable", {"on"}}}, "--mtp", "programs are made of trunk alone");
  ExpectUsageError({{"functions", {"mtp"}}, {"traceable", {"on"}}}, "--functions",
                   "--traceable shows what the trunk's layers make");
  for (const char* bad : {"-1", "0", "1x", "", "8388609", "none"}) {
    ExpectUsageError({{"draft_vocab", {bad}}}, "--draft-vocab", "1 to 8388608, or all");
  }
  for (const char* bad : {"0", "-1", "65", "1x", "", "9999999999999999999"}) {
    ExpectUsageError({{"decode", {bad}}}, "--decode", "1 to 64");
  }
  ExpectUsageError({{"prefill", {"4097"}}}, "--prefill", "1 to 4096");
  ExpectUsageError({{"name", {std::string(65537, 'x')}}}, "--name", "65537 bytes, expected at most 65536");
  EXPECT_TRUE(absl::IsInternal(Read({{"weather", {"fine"}}}).status())) << "a name that is in no row";
}

// A row by itself: what each use of the table relies on.
TEST(CompileOptions, RowsAreWhole) {
  std::set<std::string_view> names;
  for (const CompileOption& option : CompileOptions()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name << " stands twice in the table";
    EXPECT_EQ(FindCompileOption(option.name), &option);
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option.ValueText().empty()) << option.name << " shows no value in --help";
    EXPECT_EQ(option.help.find('|'), std::string_view::npos) << option.name << ": breaks the page's table";
    EXPECT_EQ(option.page.find('|'), std::string_view::npos) << option.name << ": breaks the page's table";
    for (std::string_view word : option.words) {
      // What is written for a word is read as that word.
      PipelineOptions options;
      ASSERT_TRUE(option.read(option, {std::string(word)}, options).ok()) << option.name << "=" << word;
      EXPECT_EQ(option.write(option, options), word)
          << "the words of " << option.name << " are in another order";
    }
    EXPECT_TRUE(option.implied.empty() ||
                std::ranges::find(option.words, option.implied) != option.words.end())
        << option.name << ": what the flag alone means is none of its words";
  }
  EXPECT_EQ(FindCompileOption("l2_norm")->Flag(), "--l2-norm");
  EXPECT_EQ(FindCompileOption("numerics")->HelpText(),
            "int8: activations of quantised weights in 8 bits; f32: the reference; default: int8");
}

TEST(CompileOptions, ACommandMayHaveAnotherDefault) {
  const std::string help = FindCompileOption("cpu")->HelpText();
  EXPECT_TRUE(help.ends_with("; default: all")) << help;
  EXPECT_TRUE(FindCompileOption("cpu")->HelpText("native").ends_with("; default: native"));
}

// Names of files may have line ends.
TEST(CompileOptions, ALineEndInAValueIsNoOtherOption) {
  const auto one = Read({{"mtp", {"block.gguf"}}, {"draft_vocab", {"1000"}}});
  const auto other = Read({{"mtp", {"block.gguf\ndraft_vocab 1000"}}});
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  EXPECT_NE(KeyOf(*one), KeyOf(*other));
}

TEST(CompileOptions, WithoutEffectIsSaid) {
  using Parts = std::set<ModelPart>;
  const Parts all = {ModelPart::kDeltaNets, ModelPart::kQuantisedWeights, ModelPart::kNextnBlock};
  auto warnings = [](const GivenOptions& given, const Parts& has) {
    const auto options = Read(given);
    EXPECT_TRUE(options.ok()) << options.status();
    return options.ok() ? OptionsWithoutEffect(*options, has) : std::vector<std::string>();
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(warnings({}, {}), List()) << "an option that was not given";
  EXPECT_EQ(warnings({{"l2_norm", {"sum"}}}, all), List());
  EXPECT_EQ(warnings({{"l2_norm", {"sum"}}}, {ModelPart::kQuantisedWeights}),
            List{"--l2-norm has no effect: the model has no delta nets"});
  for (const char* numerics : {"int8", "f32"}) {
    EXPECT_EQ(warnings({{"numerics", {numerics}}}, all), List());
    EXPECT_EQ(warnings({{"numerics", {numerics}}}, {ModelPart::kDeltaNets}),
              List{"--numerics has no effect: the model has no quantised weights"});
  }
  EXPECT_EQ(
      warnings({{"compile_to", {"fuse"}}, {"kv", {"f32"}}, {"report", {"fusion"}}, {"decode", {"1"}}}, all),
      List{"--decode has no effect: --compile-to=fuse stops before it is used"});
  EXPECT_EQ(warnings({{"compile_to", {"fuse"}}, {"report", {"memory", "fusion"}}}, all),
            List{"--report=memory has no effect: --compile-to=fuse stops before it is used"});
  EXPECT_EQ(warnings({{"compile_to", {"plan"}}, {"report", {"memory", "formats", "fusion"}}}, all), List());
  EXPECT_EQ(warnings({{"compile_to", {"code"}}, {"output", {"x"}}, {"cpu", {"v3"}}}, all),
            List{"--output has no effect: --compile-to=code stops before it is used"});
  EXPECT_EQ(warnings({{"draft_vocab", {"16"}}}, all), List());
  EXPECT_EQ(warnings({{"draft_vocab", {"16"}}}, {ModelPart::kDeltaNets}),
            List{"--draft-vocab has no effect: the model has no NextN block"});
  EXPECT_EQ(warnings({{"draft_vocab", {"16"}}, {"functions", {"trunk"}}}, all),
            List{"--draft-vocab has no effect: no program is made of the NextN block, only of trunk"});
  EXPECT_EQ(warnings({{"draft_vocab", {"16"}}, {"traceable", {"on"}}}, all),
            List{"--draft-vocab has no effect: no program is made of the NextN block, only of trunk"});
  EXPECT_EQ(warnings({{"draft_vocab", {"16"}}, {"functions", {"trunk", "mtp"}}}, all), List());
  EXPECT_EQ(warnings({{"draft_vocab", {"16"}}, {"draft", {"on"}}}, all), List());
  EXPECT_EQ(warnings({{"report_form", {"json"}}}, all),
            List{"--report-form has no effect: there is no --report"});
  EXPECT_EQ(warnings({{"report_form", {"json"}}, {"report", {"fusion"}}}, all), List());
  EXPECT_EQ(warnings({{"last_ffn", {"chosen"}}}, all), List());
  EXPECT_EQ(warnings({{"last_ffn", {"all"}}, {"traceable", {"on"}}}, all), List());
  for (const char* traces : {"on", "all"}) {
    EXPECT_EQ(warnings({{"last_ffn", {"chosen"}}, {"traceable", {traces}}}, all),
              List{"--last-ffn has no effect: --traceable shows what a layer makes of every row"});
  }
}

// Provenance and key have what was made, whatever was asked for.
TEST(CompileOptions, TracedLayersAreOfAllRows) {
  const auto traced = Read({{"traceable", {"on"}}});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_NE(KeyOf(*traced).find(NamePiece("last_ffn") + NamePiece("all")), std::string::npos)
      << KeyOf(*traced);
  for (const char* words : {"chosen", "all"}) {
    const auto asked = Read({{"traceable", {"on"}}, {"last_ffn", {words}}});
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_EQ(OptionsOfArtifact(*asked), OptionsOfArtifact(*traced)) << words;
    EXPECT_EQ(KeyOf(*asked), KeyOf(*traced)) << words;
  }
}

// docs/reference/cli-qcc.md shows the table; what follows its heading is made from it.
TEST(CompileOptions, ThePageShowsTheTable) {
  std::ifstream in(std::string(QCC_SOURCE_DIR) + "/docs/reference/cli-qcc.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_NE(page.find("\n\n" + CompileOptionsPage() + "\n"), std::string::npos)
      << "docs/reference/cli-qcc.md, section compile, must have this table:\n"
      << CompileOptionsPage();
  std::ifstream inspect(std::string(QCC_SOURCE_DIR) + "/docs/reference/inspect.md");
  const std::string keys((std::istreambuf_iterator<char>(inspect)), std::istreambuf_iterator<char>());
  for (const CompileOption& option : CompileOptions()) {
    if (option.changes != OptionChanges::kArtifact) continue;
    EXPECT_NE(keys.find("`" + std::string(option.name) + "`"), std::string::npos)
        << option.name << " stands in the provenance, and docs/reference/inspect.md does not name it";
  }
}

// Small models compiled with and without an option, for what depends on it.
class OptionBytesTest : public testing::Test {
 protected:
  OptionBytesTest() {
    std::filesystem::create_directory(folder_ + "/kernels");
    for (const auto& [name, arch, format] :
         {std::array{"qwen3", "qwen3", "q8_0"}, std::array{"qwen35", "qwen35", "q8_0"},
          std::array{"unquantised", "qwen3", "bf16"}}) {
      SynthOptions model;
      model.arch = arch;
      model.preset = model.arch == "qwen3" ? "0.6b" : "0.8b";
      model.layers = 1;
      model.hidden = 64;
      model.ffn = 64;
      model.heads = 2;
      model.kv_heads = 1;
      model.head_dim = 32;
      model.rope_dims = 16;
      if (model.arch == "qwen35") {
        model.linear_key_heads = model.linear_value_heads = 2;
        model.linear_head_dim = 32;
      }
      model.vocab = 512;
      model.format = format;
      model.output = folder_ + "/" + name + ".gguf";
      const absl::Status made = RunSynth(model, [](uint64_t, uint64_t) { return absl::OkStatus(); });
      EXPECT_TRUE(made.ok()) << made;
    }
  }

  struct Compiled {
    std::string bytes, key, warnings;
  };
  Compiled Compile(const std::string& model, GivenOptions given) {
    Compiled result;
    given.emplace("output", CompileOption::Values{folder_ + "/m.qbin"});
    given.emplace("no_cache", CompileOption::Values{"on"});  // not what others left in the user's
    const auto options = ReadCompileOptions(folder_ + "/" + model + ".gguf", given);
    EXPECT_TRUE(options.ok()) << options.status();
    if (!options.ok()) return result;
    QuietSink sink;
    const absl::Status status = CompileModel(*options, sink);
    EXPECT_TRUE(status.ok()) << status;
    std::ifstream in(options->output, std::ios::binary);
    result.bytes.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    EXPECT_FALSE(result.bytes.empty());
    result.key = KeyOf(*options);
    result.warnings = sink.warnings;
    return result;
  }
  const qrt::testing::TempFolder temp_;
  const std::string& folder_ = temp_.path();
};

// A value of each option other than its default, and a target that it is for. An option that is missing here
// fails the test: whoever adds one says what it may change.
struct OtherValue {
  const char* target;
  CompileOption::Values values;
};
std::map<std::string_view, OtherValue> OtherValues(const std::string& folder) {
  return {{"output", {"cpu", {folder + "/other.qbin"}}},
          {"name", {"cpu", {"mine"}}},
          {"target", {"cpu", {"cpu", "cuda"}}},
          {"layers", {"cpu", {"cpu:0-1", "cpu:2-3"}}},
          {"cpu", {"cpu", {"v3"}}},
          {"gpu_profiles", {"cuda", {"sm80"}}},
          {"kernels", {"vulkan", {folder + "/kernels"}}},
          {"numerics", {"cpu", {"f32"}}},
          {"kv", {"cpu", {"f32"}}},
          {"l2_norm", {"cpu", {"max"}}},
          {"last_ffn", {"cpu", {"all"}}},
          {"traceable", {"cpu", {"on"}}},
          {"decode", {"cpu", {"2"}}},
          {"prefill", {"cpu", {"8"}}},
          {"functions", {"cpu", {"trunk", "mtp"}}},
          {"mtp", {"cpu", {folder + "/mtp.gguf"}}},
          {"draft_vocab", {"cpu", {"1000"}}},
          {"draft", {"cpu", {"on"}}},
          {"goldens", {"cpu", {"off"}}},
          {"require_fused", {"cpu", {"gdn"}}},
          {"cache_dir", {"cpu", {folder + "/cache"}}},
          {"no_cache", {"cpu", {"on"}}},
          {"strict", {"cpu", {"on"}}},
          {"progress", {"cpu", {"plain"}}},
          {"report", {"cpu", {"fusion"}}},
          {"report_form", {"cpu", {"json"}}},
          {"emit", {"cpu", {"kernels"}}},
          {"compile_to", {"cpu", {"artifact"}}},
          {"dump_ir", {"cpu", {folder}}},
          {"dump_kernels", {"cpu", {folder}}}};
}

TEST_F(OptionBytesTest, TheCacheKeyHasWhatTheTableSaysChangesTheArtifact) {
  std::ofstream(folder_ + "/kernels/add.comp") << "void main() {}";
  const auto others = OtherValues(folder_);
  for (const CompileOption& option : CompileOptions()) {
    const auto other = others.find(option.name);
    ASSERT_NE(other, others.end()) << option.name << ": what does it change?";
    GivenOptions given;
    if (option.name != "target") given["target"] = {other->second.target};
    const auto before = ReadCompileOptions("m.gguf", given);
    given[std::string(option.name)] = other->second.values;
    const auto after = ReadCompileOptions("m.gguf", given);
    ASSERT_TRUE(before.ok() && after.ok()) << option.name << ": " << after.status();
    const std::string old_key = KeyOf(*before), new_key = KeyOf(*after);
    EXPECT_EQ(old_key != new_key, option.changes != OptionChanges::kNothing) << option.name << ":\n"
                                                                             << new_key;
    // And the artifact says so itself: its bytes differ at least there.
    EXPECT_EQ(OptionsOfArtifact(*before) != OptionsOfArtifact(*after),
              option.changes == OptionChanges::kArtifact)
        << option.name;
  }
  EXPECT_NE(KeyOf(*ReadCompileOptions("m.gguf", {})), KeyOf(*ReadCompileOptions("n.gguf", {})))
      << "the provenance has the name of the model's file";
  EXPECT_EQ(KeyOf(*ReadCompileOptions("m.gguf", {})), KeyOf(*ReadCompileOptions("a/m.gguf", {})));
}

// What the table marks as no part of the artifact, all at once.
TEST_F(OptionBytesTest, OtherOptionsChangeNoByte) {
  GivenOptions given = {
      {"name", {"a name of its own"}}, {"cpu", {"base"}}, {"decode", {"1"}}, {"prefill", {"16"}}};
  const Compiled before = Compile("qwen35", given);
  const auto others = OtherValues(folder_);
  for (const CompileOption& option : CompileOptions()) {
    const auto other = others.find(option.name);
    ASSERT_NE(other, others.end()) << option.name << ": what does it change?";
    if (option.changes == OptionChanges::kNothing) given[std::string(option.name)] = other->second.values;
  }
  given["no_cache"] = {"off"};  // as it is not before; with it --cache-dir has no effect
  ASSERT_GE(given.size(), 4 + 5u);
  const Compiled after = Compile("qwen35", given);
  EXPECT_EQ(after.key, before.key);
  const size_t name = before.bytes.find("a name of its own");
  ASSERT_NE(name, std::string::npos) << "the artifact has another name";
  EXPECT_NE(before.bytes.find("a name of its own", name + 1), std::string::npos) << "not in the provenance";
  EXPECT_TRUE(after.bytes == before.bytes) << "an option changes the artifact and is not marked in the table";
  EXPECT_EQ(after.warnings, "");
}

TEST_F(OptionBytesTest, TheCacheKeyHasTheKernelsContents) {
  auto key = [&] {
    const auto options =
        ReadCompileOptions("m.gguf", {{"target", {"vulkan"}}, {"kernels", {folder_ + "/kernels"}}});
    EXPECT_TRUE(options.ok()) << options.status();
    return options.ok() ? KeyOf(*options) : "";
  };
  std::ofstream(folder_ + "/kernels/add.comp") << "one";
  const std::string one = key();
  EXPECT_NE(one.find(NamePiece("kernel add.comp")), std::string::npos) << one;
  std::ofstream(folder_ + "/kernels/add.comp") << "two";
  EXPECT_NE(key(), one) << "other kernels, the same key";
  std::ofstream(folder_ + "/kernels/add.comp") << "one";
  EXPECT_EQ(key(), one);
}

TEST_F(OptionBytesTest, WhatTheModelLacksIsWarnedOf) {
  for (const auto& [model, warnings] :
       {std::pair("qwen35", ""), std::pair("qwen3", "--l2-norm has no effect: the model has no delta nets\n"),
        std::pair("unquantised",
                  "--numerics has no effect: the model has no quantised weights\n"
                  "--l2-norm has no effect: the model has no delta nets\n")}) {
    const auto options =
        ReadCompileOptions(folder_ + "/" + model + ".gguf",
                           {{"l2_norm", {"sum"}}, {"numerics", {"int8"}}, {"compile_to", {"fuse"}}});
    ASSERT_TRUE(options.ok()) << options.status();
    QuietSink sink;
    const absl::Status status = CompileModel(*options, sink);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(sink.warnings, warnings) << model;
  }
}

}  // namespace
}  // namespace qcc::compiler
