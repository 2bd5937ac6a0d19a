// qrun on the toy model: runs it and takes what it says.
#ifndef TESTS_UNIT_RUNTIME_QRUN_FIXTURE_H_
#define TESTS_UNIT_RUNTIME_QRUN_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/qrt_toy_artifact.h"

extern "C" const char* qrt_c_answer(const char* path, const char* prompt, char* answer, size_t capacity);

namespace qrun_test {

struct Result {
  int exit = -1;
  std::string out, err;
};

inline void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::string Slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Waits for something that another process does; false after five minutes.
template <typename Condition>
bool Until(Condition condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// Waits until a process does something at this signal but end.
inline void ExpectHandles(pid_t pid, int signal) {
  EXPECT_TRUE(Until([&] {
    const std::string status = Slurp("/proc/" + std::to_string(pid) + "/status");
    const size_t at = status.find("SigCgt:");
    return at != std::string::npos &&
           (std::stoull(status.substr(at + std::strlen("SigCgt:")), nullptr, 16) >> (signal - 1) & 1) != 0;
  })) << "it does nothing at signal "
      << signal;
}

// Starts qrun with stdin, stdout and stderr as files. `reader_left`: stdout is a pipe that nobody reads any
// more.
class Process {
 public:
  Process(const qrt::testing::TempFolder& folder, const std::vector<std::string>& arguments,
          const std::string& input, bool reader_left = false, rlim_t file_bytes = RLIM_INFINITY)
      : out_(folder.File("stdout")), err_(folder.File("stderr")) {
    const std::string in = folder.File("stdin");
    WriteFile(in, input);
    std::vector<char*> argv = {const_cast<char*>(QRUN_BINARY)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXFSZ}) std::signal(signal, SIG_DFL);
      const rlimit limit = {file_bytes, file_bytes};
      if (file_bytes != RLIM_INFINITY) setrlimit(RLIMIT_FSIZE, &limit);
      const int flags = O_WRONLY | O_CREAT | O_TRUNC;
      dup2(open(in.c_str(), O_RDONLY), 0);
      int ends[2] = {-1, open(out_.c_str(), flags, 0644)};
      if (reader_left && pipe(ends) == 0) close(ends[0]);
      dup2(ends[1], 1);
      dup2(open(err_.c_str(), flags, 0644), 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  // Waits until the program has begun so far that SIGINT does not simply end it, and `work` longer.
  void ExpectWorks(std::chrono::milliseconds work) const {
    ExpectHandles(pid_, SIGINT);
    std::this_thread::sleep_for(work);
  }
  void Interrupt() { kill(pid_, SIGINT); }
  void Signal(int signal) { kill(pid_, signal); }
  Result Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), Slurp(out_), Slurp(err_)};
  }

 private:
  std::string out_, err_;
  pid_t pid_;
};

// qrun on a terminal. `home`: its user's, where its history lies; empty: there is none.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments, const std::string& home = "",
                    const char* term = "xterm") {
    std::vector<char*> argv = {const_cast<char*>(QRUN_BINARY)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
      setenv("TERM", term, 1);
      setenv("XDG_STATE_HOME", home.c_str(), 1);
      home.empty() ? unsetenv("HOME") : setenv("HOME", home.c_str(), 1);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Terminal() { close(terminal_); }
  pid_t pid() const { return pid_; }
  // Whether the system shows what is typed; otherwise the program does.
  bool SystemEchoes() const {
    termios settings = {};
    EXPECT_EQ(tcgetattr(terminal_, &settings), 0);
    return (settings.c_lflag & ECHO) != 0;
  }
  void Signal(int signal) { kill(pid_, signal); }

  void Type(const std::string& text) {
    ASSERT_EQ(write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // Much text: what appears meanwhile is read, for the terminal takes no more otherwise.
  void Paste(const std::string& text) {
    fcntl(terminal_, F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at < text.size();) {
      pollfd ready = {terminal_, POLLIN | POLLOUT, 0};
      ASSERT_GT(poll(&ready, 1, 300000), 0) << "the terminal takes nothing, after " << at << " bytes";
      char buffer[4096];
      if ((ready.revents & POLLIN) != 0) {
        ASSERT_GT(read(terminal_, buffer, sizeof buffer), 0);
      }
      const ssize_t count =
          (ready.revents & POLLOUT) != 0 ? write(terminal_, text.data() + at, text.size() - at) : 0;
      if (count > 0) at += static_cast<size_t>(count);
    }
    fcntl(terminal_, F_SETFL, 0);
  }

  // What appears until `end` was seen, for a while, but for the marks that switch pasting on and off.
  std::string ReadUntil(const std::string& end) {
    std::string seen;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    while (seen.find(end) == std::string::npos && std::chrono::steady_clock::now() < limit) {
      pollfd ready = {terminal_, POLLIN, 0};
      if (poll(&ready, 1, 100) <= 0) continue;
      char buffer[4096];
      const ssize_t count = read(terminal_, buffer, sizeof buffer);
      if (count <= 0) break;
      seen.append(buffer, static_cast<size_t>(count));
      for (const char* mark : {"\x1b[?2004h", "\x1b[?2004l"}) {
        for (size_t at; (at = seen.find(mark)) != std::string::npos;) seen.erase(at, 8);
      }
    }
    EXPECT_NE(seen.find(end), std::string::npos) << "waiting for \"" << end << "\", saw: " << seen;
    return seen;
  }

  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
};

class QrunCli : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new qrt::testing::TempFolder();
    model_ = new std::string(folder_->File("toy.qbin"));
    WriteParts(toy::ToyParts(), *model_);
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete model_;
  }
  static const std::string& model() { return *model_; }
  static std::string File(const std::string& name) { return folder_->File(name); }
  static const qrt::testing::TempFolder& folder() { return *folder_; }

  static Result Run(const std::vector<std::string>& arguments, const std::string& input = "") {
    return Process(*folder_, arguments, input).Wait();
  }
  // The same, and nobody reads what it says.
  static Result RunUnread(const std::vector<std::string>& arguments) {
    return Process(*folder_, arguments, "", true).Wait();
  }
  // Runs with the model and expects success.
  static std::string Ok(std::vector<std::string> arguments, const std::string& input = "") {
    const Result result = Run(arguments, input);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.out;
  }
  static std::string Answer(const std::string& prompt) {
    char answer[65536];
    const char* failure = qrt_c_answer(model().c_str(), prompt.c_str(), answer, sizeof answer);
    EXPECT_EQ(failure, nullptr) << failure;
    return answer;
  }
  static void ExpectError(const Result& result, int exit, const std::string& text) {
    EXPECT_EQ(result.exit, exit) << result.err;
    EXPECT_EQ(result.out, "") << "stdout carries only the product";
    EXPECT_EQ(result.err.rfind("qrun: error: ", 0), 0u) << result.err;
    EXPECT_NE(result.err.find(" [Q"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err << "expected: " << text;
  }

 private:
  static inline qrt::testing::TempFolder* folder_ = nullptr;
  static inline std::string* model_ = nullptr;
};

}  // namespace qrun_test

#endif  // TESTS_UNIT_RUNTIME_QRUN_FIXTURE_H_
