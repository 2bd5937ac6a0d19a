// The program as scripts see it: exit codes, what goes to which stream, what is left after a failure.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "frontends/gguf/gguf.h"
#include "runtime/abi/program.h"
#include "tests/unit/runtime/artifact_sample.h"
#include "tests/unit/temp_folder.h"

namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class QccTest : public testing::Test {
 protected:
  std::string File(const std::string& name) const { return temp_.File(name); }

  // `out` empty: a pipe that nobody reads any more.
  pid_t Start(const std::vector<std::string>& arguments, const std::string& out) {
    const pid_t child = fork();
    if (child != 0) return child;
    // Where all tests run in the background it may be ignored, which a command leaves so.
    signal(SIGINT, SIG_DFL);
    std::vector<char*> argv = {const_cast<char*>("qcc")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    // What others left in the user's cache changes no test's time.
    const bool own_cache = std::find(arguments.begin(), arguments.end(), "--cache-dir") != arguments.end();
    if (!arguments.empty() && arguments[0] == "compile" && !own_cache)
      argv.push_back(const_cast<char*>("--no-cache"));
    argv.push_back(nullptr);
    int ends[2] = {-1, -1};
    if (out.empty() && pipe(ends) == 0) close(ends[0]);
    const int out_fd = out.empty() ? ends[1] : open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const int err_fd = open(File("stderr").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execv(QCC_BINARY, argv.data());
    _exit(127);
  }
  int Wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    out_ = ReadFile(File("stdout"));
    err_ = ReadFile(File("stderr"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // As Wait, but a child that has not ended by then is killed, which shows as -SIGKILL.
  int WaitAtMost(pid_t child, int seconds) {
    for (int i = 0; i < seconds * 100; ++i) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == child) {
        return Wait(child);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(child, SIGKILL);
    return Wait(child);
  }
  int Run(const std::vector<std::string>& arguments) { return Wait(Start(arguments, File("stdout"))); }

  void ExpectError(const std::vector<std::string>& arguments, int exit, const std::string& code) {
    EXPECT_EQ(Run(arguments), exit) << err_;
    EXPECT_EQ(err_.rfind("qcc: error: ", 0), 0u) << err_;
    EXPECT_NE(err_.find("[" + code + "]"), std::string::npos) << err_;
    EXPECT_EQ(out_, "") << "an error wrote to stdout";
  }
  // A model of the smallest shape; the embedding is not its output matrix.
  void MakeModel(const std::string& format) {
    ASSERT_EQ(Run({"synth",    "--arch",     "qwen3", "--preset",    "0.6b",    "--layers", "1",
                   "--hidden", "64",         "--ffn", "64",          "--heads", "2",        "--kv-heads",
                   "1",        "--head-dim", "32",    "--vocab",     "512",     "--tied",   "0",
                   "--format", format,       "-o",    File("m.gguf")}),
              0)
        << err_;
  }
  // Its artifact, too.
  void MakeArtifact() {
    MakeModel("f32");
    ASSERT_EQ(Run({"compile", "--cpu", "base", "--decode", "1", "--prefill", "8", File("m.gguf"), "-o",
                   File("m.qbin")}),
              0)
        << err_;
  }

  // Waits until a command has begun, so far that no signal simply ends it: SIGHUP is the last that it takes.
  void ExpectHandlesSignals(pid_t child) {
    for (int i = 0; i < 6000; ++i) {
      const std::string status = ReadFile("/proc/" + std::to_string(child) + "/status");
      const size_t at = status.find("SigCgt:");
      if (at != std::string::npos &&
          (std::stoull(status.substr(at + std::strlen("SigCgt:")), nullptr, 16) >> (SIGHUP - 1) & 1) != 0) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the command does not handle signals within a minute";
  }
  void ExpectNothingOf(const std::string& output) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_EQ(entry.path().filename().string().find(output), std::string::npos)
          << entry.path() << " was left";
    }
  }
  // Writes `bytes` over those of a tensor of m.gguf.
  void Damage(const std::string& tensor, uint64_t offset, const std::string& bytes) {
    const auto model = qcc::gguf::File::Open(File("m.gguf"));
    ASSERT_TRUE(model.ok()) << model.status();
    const qcc::gguf::Tensor* found = (*model)->FindTensor(tensor);
    ASSERT_NE(found, nullptr) << tensor;
    ASSERT_LE(offset + bytes.size(), found->bytes);
    std::fstream file(File("m.gguf"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(found->file_offset + offset));
    file << bytes;
  }

  const qrt::testing::TempFolder temp_;
  const std::string& folder_ = temp_.path();
  std::string out_, err_;
};

std::string BytesOf(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST_F(QccTest, HelpAndVersion) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_.rfind("qcc ", 0), 0u) << out_;
  EXPECT_NE(out_.find("commit"), std::string::npos) << out_;
  for (const char* command :
       {"compile", "cache", "inspect", "verify", "targets", "explain", "eval", "synth"}) {
    EXPECT_EQ(Run({command, "--help"}), 0) << command << ": " << err_;
    EXPECT_NE(out_.find("Usage: qcc " + std::string(command)), std::string::npos) << out_;
    EXPECT_EQ(err_, "");
  }
}

TEST_F(QccTest, UsageErrors) {
  ExpectError({}, 2, "Q0101");
  ExpectError({"frobnicate"}, 2, "Q0101");
  EXPECT_NE(err_.find("frobnicate"), std::string::npos) << err_;
  ExpectError({"compile"}, 2, "Q0101");
  ExpectError({"compile", "m.gguf", "--frob"}, 2, "Q0101");
  ExpectError({"compile", "m.gguf", "--target=tpu"}, 2, "Q0102");
  ExpectError({"compile", "m.gguf", "-o", File("none/m.qbin")}, 2, "Q0103");
  ExpectError({"explain", "Q0000"}, 2, "Q0104");
  ExpectError({"eval", "m.gguf", "--tokens", "t", "-o", "o", "--kv", "f8"}, 2, "Q0102");
}

TEST_F(QccTest, WhatIsMistypedIsSuggested) {
  const struct {
    std::vector<std::string> arguments;
    const char* meant;
  } cases[] = {{{"complie", "m.gguf"}, "did you mean compile? qcc --help"},
               {{"compile", "m.gguf", "--numercs=f32"}, "did you mean --numerics? qcc compile --help"},
               {{"compile", "m.gguf", "--qiet"}, "did you mean --quiet?"},
               {{"cache", "lsit"}, "did you mean list?"},
               {{"cache", "prune", "--max-byte", "7"}, "did you mean --max-bytes?"}};
  for (const auto& c : cases) {
    ExpectError(c.arguments, 2, "Q0101");
    EXPECT_NE(err_.find(c.meant), std::string::npos) << err_ << "expected: " << c.meant;
  }
  ExpectError({"compile", "m.gguf", "--zzzz"}, 2, "Q0101");
  EXPECT_EQ(err_.find("did you mean"), std::string::npos) << err_;
}

TEST_F(QccTest, ResultsAreJsonWhereAsked) {
  const auto object = [&](const std::vector<std::string>& arguments) {
    EXPECT_EQ(Run(arguments), 0) << err_;
    const nlohmann::json parsed = nlohmann::json::parse(out_, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << out_;
    return parsed.is_object() ? parsed : nlohmann::json::object();
  };
  EXPECT_EQ(object({"explain", "q1203", "--json"})["code"], "Q1203");
  EXPECT_FALSE(object({"explain", "q1203", "--json"})["help"].get<std::string>().empty());
  const nlohmann::json targets = object({"targets", "--json"});
  EXPECT_FALSE(targets["cpu"].empty());
  for (const auto& level : targets["cpu"]) {
    EXPECT_EQ(Run({"targets"}), 0);
    EXPECT_NE(out_.find(level["name"].get<std::string>()), std::string::npos) << level;
  }
  EXPECT_FALSE(targets["gpu"].empty());
  const std::string cache = File("cache");
  EXPECT_EQ(object({"cache", "list", "--cache-dir", cache, "--json"})["pieces"], 0);
  EXPECT_EQ(object({"cache", "verify", "--cache-dir", cache, "--json"})["damaged"].size(), 0u);
  EXPECT_EQ(object({"cache", "prune", "--cache-dir", cache, "--json"})["removed_files"], 0);
  const std::string artifact = File("sample.qbin");
  WriteParts(qrt::testing::MakeParts(), artifact);
  const nlohmann::json verified = object({"verify", artifact, "--json", "-q"});
  EXPECT_EQ(verified["ok"], true);
  EXPECT_EQ(verified["bytes"], std::filesystem::file_size(artifact));
  EXPECT_EQ(err_, "") << "-q";
}

TEST_F(QccTest, AReaderThatLeavesIsNoError) {
  const std::string artifact = File("sample.qbin");
  WriteParts(qrt::testing::MakeParts(), artifact);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"inspect", artifact, "--json"}, {"targets"}, {"explain", "Q1203"}}) {
    EXPECT_EQ(Wait(Start(arguments, "")), 0) << err_;
    EXPECT_EQ(err_, "") << arguments[0];
  }
  EXPECT_EQ(Wait(Start({"targets"}, "/dev/full")), 6) << "a full disk still is one";
}

// What is renamed over the output must not be an input, a device or a stream.
TEST_F(QccTest, OutputsThatWouldReplaceSomething) {
  MakeModel("f32");
  std::ofstream(File("ids.txt")) << "1 2 3";
  const std::string model = ReadFile(File("m.gguf"));
  const std::string tokens = File("ids.txt"), m = File("m.gguf"), fifo = File("fifo"), link = File("link");
  // A device in small: as root, a test that fails would replace a real one.
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // What /dev/stdout is; the child's stdout is a file.
  std::filesystem::create_symlink("/proc/self/fd/1", link);
  const auto commands = [&](const std::string& output) -> std::vector<std::vector<std::string>> {
    return {
        {"eval", m, "--tokens", tokens, "-o", output},
        {"compile", m, "-o", output},
        {"synth", "--arch", "qwen3", "--preset", "0.6b", "--layers", "1", "--vocab", "512", "-o", output}};
  };
  for (const std::string& output : {fifo, link, File("stdout"), File("stderr"), std::string("-")}) {
    for (const auto& command : commands(output)) {
      SCOPED_TRACE(command[0] + " -o " + output);
      ExpectError(command, 2, "Q0103");
    }
  }
  ExpectError({"eval", m, "--tokens", tokens, "-o", m}, 2, "Q0103");
  ExpectError({"eval", m, "--tokens", tokens, "-o", tokens}, 2, "Q0103");
  ExpectError({"eval", m, "--tokens", tokens, "-o", File("none/out.bin")}, 2, "Q0103");
  EXPECT_EQ(ReadFile(m), model) << "the model was replaced";
  EXPECT_EQ(ReadFile(tokens), "1 2 3");
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(std::filesystem::exists("-"));
  EXPECT_EQ(Run({"eval", m, "--tokens", tokens, "-o", File("out.bin")}), 0) << err_;
  EXPECT_EQ(Run({"eval", m, "--tokens", tokens, "-o", File("out.bin")}), 0) << "an old output: " << err_;
}

// The runtime refuses check values that are no numbers, and so the whole artifact.
TEST_F(QccTest, WeightsThatAreNotFinite) {
  const std::vector<std::string> compile = {"compile", "-q", File("m.gguf"), "-o", File("m.qbin")};
  const std::vector<std::string> eval = {"eval",    "-q", File("m.gguf"), "--tokens",    File("ids.txt"),
                                         "--split", "1",  "-o",           File("logits")};
  std::ofstream(File("ids.txt")) << "1 2 3";
  // A row of the embedding that no check value depends on: a block of 32 has its scale first.
  MakeModel("q8_0");
  Damage("token_embd.weight", 5 * 2 * 34, std::string("\x00\x7e", 2));
  ExpectError(compile, 3, "Q1214");
  EXPECT_NE(err_.find("token_embd.weight"), std::string::npos) << err_;
  ExpectError(eval, 3, "Q1214");
  MakeModel("f32");
  Damage("blk.0.ffn_norm.weight", 4, std::string("\x00\x00\x80\xff", 4));
  ExpectError(compile, 3, "Q1214");
  EXPECT_NE(err_.find("blk.0.ffn_norm.weight"), std::string::npos) << err_;
  // Finite, but too large to compute with.
  MakeModel("f32");
  Damage("output_norm.weight", 0, BytesOf(std::vector<float>(64, 3e38f)));
  ExpectError(compile, 3, "Q3006");
  ExpectError(eval, 3, "Q3006");
  EXPECT_NE(err_.find("after 1 token is"), std::string::npos) << err_;
  EXPECT_FALSE(std::filesystem::exists(File("m.qbin")));
  EXPECT_FALSE(std::filesystem::exists(File("logits")));
}

// No token can be chosen from them: every run would fail.
TEST_F(QccTest, LogitsThatAreAllEqual) {
  MakeModel("f32");
  Damage("output_norm.weight", 0, BytesOf(std::vector<float>(64, 0)));
  ExpectError({"compile", "-q", File("m.gguf"), "-o", File("m.qbin")}, 3, "Q3006");
  EXPECT_NE(err_.find("all equal, 0, after 1 token"), std::string::npos) << err_;
  EXPECT_FALSE(std::filesystem::exists(File("m.qbin")));
}

TEST_F(QccTest, RefusedInputLeavesNothing) {
  std::ofstream(File("bad.gguf")) << "GGUF, but not really";
  EXPECT_EQ(Run({"compile", File("bad.gguf"), "-o", File("m.qbin")}), 3) << err_;
  EXPECT_EQ(Run({"compile", File("absent.gguf"), "-o", File("m.qbin")}), 3) << err_;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename().string().find("m.qbin"), std::string::npos)
        << entry.path() << " was left";
  }
}

TEST_F(QccTest, AFolderOfNoUseIsToldAheadOfTheWork) {
  MakeModel("f32");
  EXPECT_EQ(
      Run({"compile", "--cpu", "base", File("m.gguf"), "-o", File("m.qbin"), "--cache-dir", "/proc/none"}),
      6);
  EXPECT_NE(err_.find("[Q6002]"), std::string::npos) << err_;
  EXPECT_EQ(err_.find("/6] import"), std::string::npos) << err_;
}

TEST_F(QccTest, RefusedArtifact) {
  std::ofstream(File("bad.qbin")) << "not one";
  ExpectError({"inspect", File("bad.qbin")}, 4, "Q4005");
  ExpectError({"verify", File("absent.qbin")}, 4, "Q4001");
}

// What is asked of an artifact that a runtime refused: what it was made for, by whom, and what helps.
TEST_F(QccTest, InspectSaysWhyAnotherInterfaceIsRefused) {
  qrt::testing::SampleParts parts = qrt::testing::MakeParts();
  const uint32_t other = QRT_PROGRAM_ABI + 1;
  ASSERT_LE(offsetof(qrt_code_header, abi) + sizeof other, parts.code.size());
  std::memcpy(parts.code.data() + offsetof(qrt_code_header, abi), &other, sizeof other);
  qrt::testing::WriteParts(parts, File("other.qbin"));
  for (const char* command : {"inspect", "verify"}) {
    ExpectError({"-q", command, File("other.qbin")}, 4, "Q4017");
    for (const std::string& says :
         {"made for program interface " + std::to_string(other), std::string("this program knows "),
          std::string("made by qcc test"), std::string("help: compile the model again")}) {
      EXPECT_NE(err_.find(says), std::string::npos) << command << " does not say '" << says << "': " << err_;
    }
  }
}

TEST_F(QccTest, CompileInspectVerify) {
  MakeArtifact();
  EXPECT_EQ(out_, "") << "compile wrote to stdout";
  EXPECT_EQ(Run({"inspect", "--json", File("m.qbin")}), 0) << err_;
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["model"]["arch"], "qwen3");
  EXPECT_EQ(json["targets"].size(), 1u);
  EXPECT_EQ(json["targets"][0]["isa"], "base");
  EXPECT_EQ(json["file_bytes"], std::filesystem::file_size(File("m.qbin")));
  EXPECT_EQ(Run({"inspect", File("m.qbin")}), 0) << err_;
  EXPECT_NE(out_.find("qwen3"), std::string::npos);
  EXPECT_EQ(Run({"-q", "verify", File("m.qbin")}), 0) << err_;
  EXPECT_EQ(err_, "") << "-q still talks";

  std::fstream file(File("m.qbin"), std::ios::in | std::ios::out | std::ios::binary);
  for (const auto& section : json["sections"]) {
    if (section["kind"] != "weights") continue;
    const auto at = section["offset"].get<std::streamoff>() + 5;
    file.seekg(at);
    const int was = file.get();
    file.seekp(at);
    file.put(static_cast<char>(was ^ 1));
  }
  file.close();
  ExpectError({"-q", "verify", File("m.qbin")}, 4, "Q4012");
  EXPECT_EQ(Run({"inspect", File("m.qbin")}), 0) << "inspect does not read the weights";
}

// Every group, and every chance that was missed with its reason, each with the place in the model.
TEST_F(QccTest, ReportsGoToStdout) {
  ASSERT_EQ(Run({"synth", "--arch",  "qwen3", "--preset", "0.6b", "--layers",   "1",           "--hidden",
                 "128",   "--ffn",   "128",   "--heads",  "2",    "--kv-heads", "1",           "--head-dim",
                 "32",    "--vocab", "512",   "--format", "q8_0", "-o",         File("m.gguf")}),
            0)
      << err_;
  EXPECT_EQ(
      Run({"compile", File("m.gguf"), "--compile-to", "fuse", "--report", "fusion", "-o", File("n.qbin")}), 0)
      << err_;
  const std::string report =
      "fused qk_norm_rope_store: 8 ops  at blk.*.attn_k.weight\n"
      "fused gated_attention: 2 ops  at blk.*.attn_q.weight\n"
      "fused linear_swiglu: 3 ops  at blk.*.ffn_gate.weight\n"
      "fused linear_residual: 2 ops  at blk.*.attn_output.weight\n"
      "fused linear_residual: 2 ops  at blk.*.ffn_down.weight\n"
      "fused merged_linear: 3 ops  at blk.*.attn_q.weight\n"
      "fused norm_quant: 2 ops  at blk.*.ffn_norm.weight\n"
      "fused norm_quant: 2 ops  at output_norm.weight\n"
      "missed norm_quant: the rounded value does not come from a norm  at blk.*.attn_output.weight\n"
      "missed norm_quant: the rounded value does not come from a norm  at blk.*.ffn_down.weight\n";
  EXPECT_EQ(out_.substr(0, report.size()), report);
  EXPECT_NE(err_.find("8 groups, 2 missed"), std::string::npos)
      << "the stage's line counts otherwise: " << err_;
  EXPECT_FALSE(std::filesystem::exists(File("n.qbin"))) << "--compile-to=fuse wrote an artifact";
}

TEST_F(QccTest, AFullStdoutIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(Wait(Start({"targets"}, "/dev/full")), 6) << err_;
  EXPECT_EQ(err_.find("-o"), std::string::npos) << "an option that is none: " << err_;
}

// A preset of real size takes far longer to write than the wait.
TEST_F(QccTest, InterruptionLeavesNothing) {
  for (int signal : {SIGINT, SIGTERM}) {
    const pid_t child =
        Start({"synth", "--preset", "2b", "--format", "f32", "-o", File("big.gguf")}, File("stdout"));
    // The file that it writes shows that it has begun, however slow the machine or the build is.
    const auto begun = [&] {
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        if (entry.path().filename().string().find("big") != std::string::npos) return true;
      }
      return false;
    };
    for (int i = 0; i < 6000 && !begun(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(begun()) << "nothing was written within a minute";
    ASSERT_EQ(kill(child, signal), 0);
    EXPECT_EQ(Wait(child), 130) << err_;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_EQ(entry.path().filename().string().find("big"), std::string::npos)
          << entry.path() << " was left";
    }
  }
}

TEST_F(QccTest, InterruptionStopsEval) {
  MakeModel("f32");
  std::ofstream ids(File("ids.txt"));
  for (int i = 0; i < 200000; ++i) ids << "1 ";  // a step each, of which there are far more than the wait
  ids.close();
  const pid_t child =
      Start({"eval", File("m.gguf"), "--tokens", File("ids.txt"), "-o", File("out.bin"), "--split", "1"},
            File("stdout"));
  ExpectHandlesSignals(child);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ASSERT_EQ(kill(child, SIGINT), 0);
  EXPECT_EQ(WaitAtMost(child, 60), 130) << err_;
  EXPECT_NE(err_.find("interrupted"), std::string::npos) << err_;
  ExpectNothingOf("out.bin");
}

// A write that waits looks at no flag: a second signal ends it.
TEST_F(QccTest, SecondSignalEndsAtOnce) {
  MakeModel("f32");
  std::filesystem::remove(File("stderr"));
  ASSERT_EQ(mkfifo(File("stderr").c_str(), 0600), 0);
  const int unread = open(File("stderr").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(unread, 0);
  while (write(unread, "x", 1) == 1) {
  }
  const pid_t child = Start({"compile", File("m.gguf"), "-v", "-o", File("out.bin")}, File("stdout"));
  ExpectHandlesSignals(child);
  std::filesystem::remove(File("stderr"));  // nothing is to be read from it
  // Again and again: where the machine is busy, two may come as one, or within what counts as one request.
  std::atomic<bool> ended{false};
  std::thread sender([&] {
    for (int i = 0; i < 60 && !ended.load(); ++i) {
      kill(child, SIGTERM);
      for (int wait = 0; wait < 10 && !ended.load(); ++wait) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    }
  });
  EXPECT_EQ(WaitAtMost(child, 60), 130) << err_;
  ended.store(true);
  sender.join();
  ExpectNothingOf("out.bin");
  close(unread);
}

}  // namespace
