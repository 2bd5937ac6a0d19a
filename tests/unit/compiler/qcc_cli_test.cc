// The program as scripts see it: exit codes, what goes to which stream, what is left after a failure.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class QccTest : public testing::Test {
 protected:
  QccTest() {
    folder_ = testing::TempDir() + "qcc_cli_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~QccTest() override { std::filesystem::remove_all(folder_); }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }

  pid_t Start(const std::vector<std::string>& arguments, const std::string& out) {
    const pid_t child = fork();
    if (child != 0) return child;
    std::vector<char*> argv = {const_cast<char*>("qcc")};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const int out_fd = open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
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
  int Run(const std::vector<std::string>& arguments) { return Wait(Start(arguments, File("stdout"))); }

  void ExpectError(const std::vector<std::string>& arguments, int exit, const std::string& code) {
    EXPECT_EQ(Run(arguments), exit) << err_;
    EXPECT_EQ(err_.rfind("qcc: error: ", 0), 0u) << err_;
    EXPECT_NE(err_.find("[" + code + "]"), std::string::npos) << err_;
    EXPECT_EQ(out_, "") << "an error wrote to stdout";
  }
  // A model of the smallest shape, and its artifact.
  void MakeArtifact() {
    ASSERT_EQ(Run({"synth", "--arch",  "qwen3", "--preset", "0.6b", "--layers",   "1",           "--hidden",
                   "64",    "--ffn",   "64",    "--heads",  "2",    "--kv-heads", "1",           "--head-dim",
                   "32",    "--vocab", "512",   "--format", "f32",  "-o",         File("m.gguf")}),
              0)
        << err_;
    ASSERT_EQ(Run({"compile", "--cpu", "base", "--decode", "1", "--prefill", "8", File("m.gguf"), "-o",
                   File("m.qbin")}),
              0)
        << err_;
  }

  std::string folder_, out_, err_;
};

TEST_F(QccTest, HelpAndVersion) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(out_.rfind("qcc ", 0), 0u) << out_;
  for (const char* command : {"compile", "inspect", "verify", "targets", "explain", "eval", "synth"}) {
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

TEST_F(QccTest, RefusedInputLeavesNothing) {
  std::ofstream(File("bad.gguf")) << "GGUF, but not really";
  EXPECT_EQ(Run({"compile", File("bad.gguf"), "-o", File("m.qbin")}), 3) << err_;
  EXPECT_EQ(Run({"compile", File("absent.gguf"), "-o", File("m.qbin")}), 3) << err_;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename().string().find("m.qbin"), std::string::npos)
        << entry.path() << " was left";
  }
}

TEST_F(QccTest, RefusedArtifact) {
  std::ofstream(File("bad.qbin")) << "not one";
  ExpectError({"inspect", File("bad.qbin")}, 4, "Q4005");
  ExpectError({"verify", File("absent.qbin")}, 4, "Q4001");
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

TEST_F(QccTest, ReportsGoToStdout) {
  MakeArtifact();
  EXPECT_EQ(
      Run({"compile", File("m.gguf"), "--compile-to", "fuse", "--report", "fusion", "-o", File("n.qbin")}), 0)
      << err_;
  EXPECT_NE(out_.find("fused"), std::string::npos) << out_;
  EXPECT_FALSE(std::filesystem::exists(File("n.qbin"))) << "--compile-to=fuse wrote an artifact";
}

TEST_F(QccTest, AFullStdoutIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(Wait(Start({"targets"}, "/dev/full")), 6) << err_;
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

}  // namespace
