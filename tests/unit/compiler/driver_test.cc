// The command line's own work: options, messages, exit codes, reports.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/gpu/kernels/profiles.h"
#include "compiler/driver/commands.h"
#include "compiler/driver/console.h"
#include "compiler/driver/inspect.h"
#include "compiler/driver/model_report.h"
#include "compiler/driver/synth.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/pipeline.h"
#include "frontends/base/error.h"
#include "runtime/abi/qbin.h"
#include "tests/unit/runtime/program_facts.h"

namespace qcc::compiler {
namespace {

TEST(Messages, Form) {
  const absl::Status status =
      MakeError("Q1203", "found 9, expected 3", "m.gguf, tensor 'a'", "convert it again");
  EXPECT_EQ(
      FormatError(status),
      "qcc: error: found 9, expected 3 [Q1203]\n  note: m.gguf, tensor 'a'\n  help: convert it again\n");
  EXPECT_EQ(FormatError(absl::InternalError("no code")), "qcc: error: no code\n");
  const std::string hostile = FormatError(MakeError("Q1203", "name \x1b[2J", "", ""));
  EXPECT_EQ(hostile.find('\x1b'), std::string::npos) << "an escape sequence of a file reaches the terminal";
  EXPECT_EQ(FormatError(MakeError("Q1203", "\u009b2J, \x9b, \u202e, \u00e4\nz", "", "")),
            "qcc: error: \\u{9b}2J, \\x9b, \\u{202e}, \u00e4\n        z [Q1203]\n");
}

TEST(Messages, ExitCodes) {
  const auto of = [](const char* code) { return ExitOf(MakeError(code, "", "", "")); };
  EXPECT_EQ(ExitOf(absl::OkStatus()), Exit::kOk);
  EXPECT_EQ(of("Q0101"), Exit::kUsage);
  EXPECT_EQ(of("Q1203"), Exit::kInputRefused);
  EXPECT_EQ(of("Q2001"), Exit::kInputRefused);
  EXPECT_EQ(of("Q3003"), Exit::kInputRefused);
  EXPECT_EQ(of("Q4008"), Exit::kArtifactRefused);
  EXPECT_EQ(of("Q5001"), Exit::kDevice);
  EXPECT_EQ(of("Q6003"), Exit::kMemoryOrDisk);
  EXPECT_EQ(of("Q9001"), Exit::kInternal);
  EXPECT_EQ(ExitOf(absl::CancelledError("")), Exit::kInterrupted);
  EXPECT_EQ(ExitOf(absl::ResourceExhaustedError("")), Exit::kMemoryOrDisk);
  EXPECT_EQ(ExitOf(absl::InternalError("")), Exit::kInternal);
  EXPECT_EQ(static_cast<int>(Exit::kInterrupted), 130);
}

TEST(Messages, HumanBytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16.0 EiB");
}

// What a sink writes, read back from temporary files.
std::string Contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  return text;
}
struct Streams {
  std::FILE* err = std::tmpfile();
  std::FILE* out = std::tmpfile();
  ~Streams() {
    std::fclose(err);
    std::fclose(out);
  }
};

void Play(ProgressSink& sink) {
  sink.BeginStage(1, 2, "read");
  sink.Progress(512, 1024, "B");
  sink.EndStage("1.0 KiB");
  sink.Warning("odd\x1b");
  sink.BeginStage(2, 2, "fuse");
  sink.Report("fused 3");
  sink.EndStage("3 groups");
}

TEST(Progress, OneLinePerStageWithoutATerminal) {
  Streams s;
  volatile std::sig_atomic_t stop = 0;
  ConsoleProgress sink(s.err, s.out, false, 0, &stop);
  Play(sink);
  const std::string err = Contents(s.err);
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 3) << err;
  EXPECT_EQ(err.find('\r'), std::string::npos) << err;
  EXPECT_EQ(err.find('\x1b'), std::string::npos) << err;
  EXPECT_EQ(err.rfind("[ 1/2] read", 0), 0u) << err;
  EXPECT_NE(err.find("qcc: warning: odd"), std::string::npos) << err;
  EXPECT_EQ(Contents(s.out), "fused 3\n") << "a report is product: stdout";
}

TEST(Progress, QuietSaysNothingButReports) {
  Streams s;
  volatile std::sig_atomic_t stop = 0;
  ConsoleProgress sink(s.err, s.out, false, -1, &stop);
  Play(sink);
  EXPECT_EQ(Contents(s.err), "");
  EXPECT_EQ(Contents(s.out), "fused 3\n");
}

TEST(Progress, ATerminalLineUpdates) {
  Streams s;
  volatile std::sig_atomic_t stop = 0;
  ConsoleProgress sink(s.err, s.out, true, 0, &stop);
  Play(sink);
  EXPECT_NE(Contents(s.err).find(" 50%  512 B of 1.0 KiB"), std::string::npos) << Contents(s.err);
}

TEST(Progress, ALineThatIsOpenEndsBeforeAnError) {
  Streams s;
  volatile std::sig_atomic_t stop = 0;
  {
    ConsoleProgress sink(s.err, s.out, true, 0, &stop);
    sink.BeginStage(1, 1, "pack");
    sink.Progress(1, 2, "B");
  }
  EXPECT_EQ(Contents(s.err).back(), '\n') << Contents(s.err);
}

TEST(Progress, JsonIsALineForEachEvent) {
  Streams s, quiet;
  volatile std::sig_atomic_t stop = 0;
  JsonProgress sink(s.err, s.out, 0, &stop);
  Play(sink);
  sink.BeginStage(1, 1, "pack");
  for (uint64_t done = 0; done <= 1000; ++done) sink.Progress(done, 1000, "B");
  std::istringstream lines(Contents(s.err));
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(lines, line);) {
    events.push_back(nlohmann::json::parse(line, nullptr, false));
    ASSERT_TRUE(events.back().is_object()) << line;
  }
  ASSERT_EQ(events.size(), 6u + 1 + 100) << "no more than a line for each percent";
  EXPECT_EQ(events[0],
            nlohmann::json::parse(R"({"event":"begin","index":1,"count":2,"stage":"read","percent":0})"));
  EXPECT_EQ(events[1]["percent"], 50);
  EXPECT_EQ(events[1]["unit"], "B");
  EXPECT_EQ(events[2]["summary"], "1.0 KiB");
  EXPECT_EQ(events[3], nlohmann::json::parse(R"({"event":"warning","text":"odd\u001b"})"));
  EXPECT_EQ(events.back()["percent"], 100);
  EXPECT_EQ(Contents(s.out), "fused 3\n") << "a report is product: stdout";
  JsonProgress silent(quiet.err, quiet.out, -1, &stop);
  Play(silent);
  EXPECT_EQ(Contents(quiet.err), "") << "-q shows nothing";
  EXPECT_EQ(Contents(quiet.out), "fused 3\n");
}

TEST(Progress, InterruptionIsSeen) {
  Streams s;
  volatile std::sig_atomic_t stop = 0;
  ConsoleProgress sink(s.err, s.out, false, 0, &stop);
  EXPECT_FALSE(sink.Interrupted());
  stop = 1;
  EXPECT_TRUE(sink.Interrupted());
}

// Asks to stop as soon as the stage of that name has begun.
class StopIn final : public ProgressSink {
 public:
  explicit StopIn(std::string stage) : stage_(std::move(stage)) {}
  void BeginStage(int, int, std::string_view name) override { stopped_ |= name == stage_; }
  void Progress(uint64_t, uint64_t, std::string_view) override {}
  void EndStage(std::string_view) override { ++ended_; }
  void Warning(std::string_view) override {}
  void Report(std::string_view) override {}
  bool Interrupted() const override { return stopped_; }
  int ended() const { return ended_; }

 private:
  std::string stage_;
  bool stopped_ = false;
  int ended_ = 0;
};

// The check values are computed in "fuse".
TEST(Compile, AnInterruptionEndsTheStage) {
  SynthOptions model;
  model.arch = "qwen3";
  model.preset = "0.6b";
  model.layers = 1;
  model.vocab = 512;
  model.format = "q8_0";
  model.output = testing::TempDir() + "qcc_driver_interrupt.gguf";
  ASSERT_TRUE(RunSynth(model, [](uint64_t, uint64_t) { return absl::OkStatus(); }).ok());
  auto options =
      ReadCompileOptions(model.output, {{"output", {testing::TempDir() + "qcc_driver_interrupt.qbin"}}});
  ASSERT_TRUE(options.ok()) << options.status();
  const std::pair<const char*, int> stages[] = {{"read model", 1}, {"import", 2}, {"fuse", 2}};
  for (const auto& [stage, ended] : stages) {
    StopIn sink(stage);
    const absl::Status status = CompileModel(*options, sink);
    EXPECT_TRUE(absl::IsCancelled(status)) << stage << ": " << status;
    EXPECT_EQ(sink.ended(), ended) << stage;
  }
  std::filesystem::remove(model.output);
}

TEST(Explain, FindsAPage) {
  for (const char* spelling : {"Q4008", "q4008", "4008"}) {
    const auto page = ExplainCode(spelling);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->rfind("Q4008: ", 0), 0u) << *page;
    EXPECT_NE(page->find("help: "), std::string::npos) << *page;
  }
  for (const char* bad : {"Q4999", "", "Q", "code", "Q400", "Q40081", "`Q4008`"}) {
    EXPECT_EQ(PartsOf(ExplainCode(bad).status()).code, "Q0104") << bad;
  }
}

// Every code that the sources can print has its page, and every page a place that can print it. The second
// also shows a form of giving a code that is none of those below.
TEST(Explain, CoversEveryCodeInTheSources) {
  const std::filesystem::path root = QCC_SOURCE_DIR;
  const std::regex forms[] = {
      std::regex("\"Q([0-9]{4})\""),                                            // qcc: MakeError
      std::regex("(?:Code::k[A-Za-z]+|QRT_[A-Z_]+),\\s*([0-9]{4})\\b"),         // runtime: Status, Fill
      std::regex("\\b(?:Corrupt|CorruptIn|TemplateStatus)\\(\\s*([0-9]{4}),"),  // runtime: what shortens them
      std::regex("kExit[A-Za-z]+,\\s*([0-9]{4})\\b"),                           // qrun: Outcome::Fail
  };
  std::set<std::string> codes;
  std::map<const std::regex*, size_t> found;
  for (const char* room : {"frontends", "compiler", "runtime", "passes", "codegen"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / room)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cc" && extension != ".cpp" && extension != ".h") continue;
      std::ifstream in(entry.path());
      const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      for (const std::regex& form : forms) {
        for (std::sregex_iterator it(text.begin(), text.end(), form), end; it != end; ++it) {
          codes.insert("Q" + (*it)[1].str());
          ++found[&form];
        }
      }
    }
  }
  for (const std::regex& form : forms) {
    EXPECT_GE(found[&form], 10u) << "form " << &form - forms
                                 << " is hardly found: are codes given otherwise now?";
  }
  for (const std::string& code : codes) {
    EXPECT_TRUE(ExplainCode(code).ok()) << code << " has no row in docs/reference/errors.md";
  }
  std::ifstream in(root / "docs/reference/errors.md");
  const std::regex row("^\\| `(Q[0-9]{4})` \\|");
  std::set<std::string> rows;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, row)) continue;
    EXPECT_TRUE(rows.insert(match[1]).second) << match[1] << " stands for two things";
    EXPECT_TRUE(codes.contains(match[1])) << match[1] << " is explained, but nothing in the sources says it";
  }
}

// The row of Q50xx in the table of exit codes names every code that does not exit with 5, and no other.
TEST(Explain, TableOfExitCodesIsTrueOfDevices) {
  const std::filesystem::path root = QCC_SOURCE_DIR;
  // As runtime/qrun/outcome.cc has it.
  const std::map<std::string, std::string> exits = {
      {"InvalidArgument", "2"}, {"ArtifactCorrupt", "4"}, {"DeviceUnsupported", "5"},
      {"DeviceLost", "5"},      {"DeviceFailed", "5"},    {"OutOfMemory", "6"},
      {"Cancelled", "130"},     {"ExitUsage", "2"},       {"ExitDevice", "5"}};
  std::map<std::string, std::set<std::string>> found, told;
  const std::regex given("\\bk([A-Za-z]+),\\s*(50[0-9]{2})\\b");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "runtime")) {
    if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (std::sregex_iterator it(text.begin(), text.end(), given), end; it != end; ++it) {
      const auto exit = exits.find((*it)[1]);
      ASSERT_NE(exit, exits.end()) << (*it)[0] << " in " << entry.path() << ": which exit code is that?";
      if (exit->second != "5") found[exit->second].insert("Q" + (*it)[2].str());
    }
  }
  std::ifstream in(root / "docs/reference/errors.md");
  const std::regex part("([0-9]+) [^;(|]*\\(([^)]*)\\)"), code("Q50[0-9]{2}");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| Q50xx |")) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), part), end; it != end; ++it) {
      const std::string codes = (*it)[2];
      for (std::sregex_iterator c(codes.begin(), codes.end(), code); c != end; ++c) {
        told[(*it)[1]].insert((*c)[0]);
      }
    }
  }
  EXPECT_EQ(told, found);
}

TEST(Targets, ListsEveryLevelAndMarksThisMachine) {
  const std::string text = TargetsText();
  for (const cpu::IsaInfo& isa : cpu::isa_table()) {
    EXPECT_NE(text.find(isa.name), std::string::npos) << isa.name << " is missing:\n" << text;
  }
  EXPECT_NE(text.find(std::string(cpu::isa_info(cpu::host_isa()).name) + " *"), std::string::npos) << text;
  for (const gpu::ProfileInfo& info : gpu::Profiles()) {
    EXPECT_NE(text.find(info.profile.name + (info.by_default ? " +" : "  ")), std::string::npos) << text;
    EXPECT_NE(text.find(info.needs), std::string::npos) << text;
  }
}

ArtifactContents Artifact() {
  ArtifactContents c{};
  c.path = "m.qbin";
  c.file_bytes = 20000;
  c.sections = {{QBIN_SECTION_CODE, 0, 4096, 100, {}},
                {QBIN_SECTION_WEIGHTS, 0, 8192, 5000, {}},
                {QBIN_SECTION_CODE, 0, 16384, 300, {}}};
  qrt::Manifest& m = c.manifest;
  m.numerics = qrt::Numerics::kInt8;
  m.model.arch = "qwen35";
  m.model.name = "na\xffme \x1b[2J";
  m.model.vocab_size = 10;
  m.model.context_length = 4096;
  m.weights_bytes = 5000;
  m.state_bytes = 300;
  m.kv_bytes_per_token = 64;
  m.streams = {"trunk"};
  m.programs = {{"decode_1", qrt::DecodeFacts(), 1, 777, 5, 2},
                {"prefill_8", qrt::PrefillFacts(), 8, 999, 5, 2}};
  m.code = {
      {"cpu", "v3", {"avx2"}, 0, 1}, {"cpu", "lies", {}, 88, 99}, {"vulkan", "sg8", {"subgroup-8"}, 2, 1}};
  static const std::vector<uint32_t> spirv(10);
  c.scratch[0] = {4096, 8192};
  qrt::GpuCode& gpu = c.gpu_code[2];
  gpu.sample_programs = {{qrt::GpuSampling::kGreedy, 1, {{}}}};
  gpu.kernels = {{"add.v4", "k_add_v4", 128, 2, 64, "gpu", spirv}};
  gpu.programs.resize(2);
  gpu.programs[0].arena_bytes = 1234;
  gpu.programs[0].dispatches = {{0, {1, 1, 1}, false, {}, {500, 40, 8, 7}, "attention", 3}};
  m.formats = {{"q8_0", 3, 4000, 5000}};
  m.sampling.top_k = 20;
  m.provenance.compiler = "qcc 1";
  m.provenance.source_name = "m.gguf";
  m.provenance.options = {{"cpu", "v3"}};
  return c;
}

TEST(Inspect, Json) {
  const auto json = nlohmann::json::parse(InspectJson(Artifact()));
  EXPECT_EQ(json["schema"], 2);
  EXPECT_EQ(json["sections"][1]["kind"], "weights");
  EXPECT_EQ(json["sections"][1]["alignment"], 4096);
  EXPECT_EQ(json["memory"]["scratch_bytes"], 999);
  EXPECT_EQ(json["memory"]["weights_bytes"], 5000);
  EXPECT_EQ(json["memory"]["state_bytes_per_sequence"], 300);
  EXPECT_EQ(json["memory"]["kv_bytes_per_token"], 64);
  EXPECT_EQ(json["targets"][0]["code_bytes"], 100);
  EXPECT_EQ(json["targets"][1]["code_bytes"], 0) << "a section that does not exist";
  EXPECT_EQ(json["targets"][0]["thread_scratch_bytes"], 4096);
  EXPECT_EQ(json["targets"][0]["shared_scratch_bytes"], 8192);
  EXPECT_FALSE(json["targets"][1].contains("thread_scratch_bytes"));
  EXPECT_FALSE(json["targets"][1].contains("shared_scratch_bytes"));
  EXPECT_FALSE(json["targets"][1].contains("gpu"));
  const auto& gpu = json["targets"][2]["gpu"];
  EXPECT_EQ(gpu["spirv_bytes"], 40);
  EXPECT_EQ(gpu["host_bytes_per_token"]["sampled"], 4);
  EXPECT_EQ(gpu["host_bytes_per_token"]["logits"], 40);
  EXPECT_EQ(gpu["programs"][0]["name"], "decode_1");
  EXPECT_EQ(gpu["programs"][0]["dispatches_per_attention_layer"], 1);
  EXPECT_EQ(gpu["programs"][0]["read_bytes"], 500);
  EXPECT_EQ(gpu["programs"][0]["kv_bytes_per_context_token"], 8);
  EXPECT_EQ(gpu["kernels"][0]["name"], "add.v4");
  EXPECT_NE(InspectText(Artifact()).find("1 kernels, 40 B of SPIR-V"), std::string::npos)
      << InspectText(Artifact());
  EXPECT_EQ(json["formats"][0]["packed_bytes"], 5000);
  EXPECT_EQ(json["programs"][1]["takes"], (std::vector<std::string>{"tokens"}));
  EXPECT_EQ(json["programs"][1]["leaves"], "trunk");
  EXPECT_EQ(json["programs"][1]["gives"], "nothing");
  EXPECT_EQ(json["programs"][0]["gives"], "chosen_logits");
  EXPECT_TRUE(json["tokenizer"].is_null());
  EXPECT_EQ(json["sampling"]["top_k"], 20);
  EXPECT_TRUE(json["sampling"]["temperature"].is_null());
  EXPECT_EQ(json["provenance"]["options"]["cpu"], "v3");
  EXPECT_EQ(InspectJson(Artifact()), InspectJson(Artifact()));
}

TEST(Inspect, GpuKeysAreDocumented) {
  std::ifstream in(std::string(QCC_SOURCE_DIR) + "/docs/reference/inspect.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto json = nlohmann::json::parse(InspectJson(Artifact()));
  for (const auto& [key, value] : json["targets"][2]["gpu"].items()) {
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << "key " << key << " is not documented";
    if (!value.is_array()) continue;
    ASSERT_FALSE(value.empty()) << key;
    for (const auto& [inner, v] : value[0].items()) {
      EXPECT_NE(page.find("`" + inner + "`"), std::string::npos) << "key " << inner << " is not documented";
    }
  }
}

// docs/reference/inspect.md is the contract: the keys there are the keys printed.
TEST(Inspect, JsonKeysAreDocumented) {
  std::ifstream in(std::string(QCC_SOURCE_DIR) + "/docs/reference/inspect.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(page.empty());
  const auto json = nlohmann::json::parse(InspectJson(Artifact()));
  for (const auto& [key, value] : json.items()) {
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << "key " << key << " is not documented";
    const auto& inner = value.is_array() && !value.empty() ? value[0] : value;
    if (!inner.is_object() || key == "options") continue;
    for (const auto& [name, unused] : inner.items()) {
      EXPECT_NE(page.find("`" + name + "`"), std::string::npos)
          << "key " << key << "." << name << " is not documented";
    }
  }
}

ModelReport Model() {
  ModelReport r;
  r.path = "m.gguf";
  r.arch = "qwen35";
  r.name = "na\xffme \x1b[2J";
  r.layers = 4;
  r.shards = 3;
  r.shard = 0;
  r.all = {"all", 2, 96, 160, 0};
  r.parts = {{"embedding", 2, 96, 160, 0}};
  r.formats = {{"q8_0", 1, 64, 68, 0}, {"Q9_X", 1, 32, 0, 1}};
  r.tensors = {{"token_embd.weight", "q8_0", {32, 2}, 68}, {"x\x1b", "Q9_X", {32}, std::nullopt}};
  r.warnings = {"odd\x1b"};
  for (int i = 0; i < 20; ++i) r.refusals.push_back(MakeError("Q1206", "what\x1b", "where", "help"));
  return r;
}

TEST(InspectModel, JsonKeysAreDocumented) {
  std::ifstream in(std::string(QCC_SOURCE_DIR) + "/docs/reference/inspect.md");
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t begin = whole.find("## Of a GGUF model");
  ASSERT_NE(begin, std::string::npos);
  const std::string page = whole.substr(begin);
  const auto json = nlohmann::json::parse(ModelReportJson(Model()));
  for (const auto& [key, value] : json.items()) {
    EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << "key " << key << " is not documented";
    const auto& inner = value.is_array() && !value.empty() ? value[0] : value;
    if (!inner.is_object()) continue;
    for (const auto& [name, unused] : inner.items()) {
      EXPECT_NE(page.find("`" + name + "`"), std::string::npos)
          << "key " << key << "." << name << " is not documented";
    }
  }
  EXPECT_EQ(json["formats"][0]["bits_per_weight"], 8.5);
  EXPECT_TRUE(json["formats"][1]["bytes"].is_null()) << "of a format that is not known";
  EXPECT_EQ(json["refusals"].size(), 20u);
  EXPECT_EQ(json["refusals"][0]["code"], "Q1206");
}

TEST(InspectModel, APipeIsNotWaitedFor) {
  const std::string pipe = testing::TempDir() + "qcc_driver_pipe";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(IsGguf(pipe));
  std::filesystem::remove(pipe);
}

TEST(InspectModel, TextIsShortAndHarmless) {
  const std::string text = ModelReportText(Model());
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "an escape sequence of the file reaches the terminal";
  EXPECT_NE(text.find("number 1 of 3"), std::string::npos) << text;
  EXPECT_NE(text.find("Q1206  and 12 more"), std::string::npos) << text;
  EXPECT_NE(text.find("dimensions -, base -, sections none"), std::string::npos) << text;
  ModelReport based = Model();
  based.rope.base = 1e7;
  EXPECT_NE(ModelReportText(based).find("base 1e+07,"), std::string::npos);
}

TEST(Inspect, TextSaysWhatMattersAndIsHarmless) {
  const std::string text = InspectText(Artifact());
  for (const char* expected :
       {"qwen35", "cpu v3", "avx2", "q8_0", "4.9 KiB", "decode_1", "prefill", "m.gguf", "64 B"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << "'" << expected << "' is missing:\n" << text;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "an escape sequence of the file reaches the terminal";
}

}  // namespace
}  // namespace qcc::compiler
