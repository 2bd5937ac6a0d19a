#include "runtime/qrun/gguf_model.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "runtime/aot/cache_layout.h"
#include "runtime/qrun/options.h"
#include "runtime/qrun/process.h"

extern char** environ;

namespace qrun {
namespace {

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? "" : real.get();
}

// A checkout is called qcc, too.
bool IsProgram(const std::string& path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && access(path.c_str(), X_OK) == 0;
}

// The qcc beside this program, else the first in PATH; empty: there is none.
std::string FindQcc() {
  const std::string self = RealPath("/proc/self/exe");
  std::string beside = self.substr(0, self.rfind('/') + 1) + "qcc";
  if (IsProgram(beside)) return beside;
  const char* const path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "" : path;
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    std::string found = folders.substr(at, end - at) + "/qcc";
    if (found[0] == '/' && found.size() > 4 && IsProgram(found)) return found;
    at = end + 1;
  }
  return "";
}

// A running qcc whose standard output is read here.
class Compiler {
 public:
  ~Compiler() {
    if (output_ >= 0) close(output_);
  }

  // An errno, or 0.
  int Start(std::vector<std::string> command) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    output_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t usual;  // what this program ignores
    sigemptyset(&usual);
    for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&usual, signal);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(&process_, argv[0], &actions, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    return error;
  }

  // Its output, and how it ended (waitpid). A signal that ends qrun is handed on: Ctrl-C
  // reaches both, but SIGTERM is sent to one.
  int Finish(std::string* text) {
    constexpr int kPollMilliseconds = 100;
    constexpr size_t kMostOutput = 64 << 10;
    bool told = false;
    for (;;) {
      if (!told && Interrupts::Pending()) told = kill(process_, SIGTERM) == 0;
      pollfd ready = {output_, POLLIN, 0};
      if (poll(&ready, 1, kPollMilliseconds) <= 0) continue;
      char bytes[PATH_MAX];
      const ssize_t got = read(output_, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      if (text->size() < kMostOutput) text->append(bytes, static_cast<size_t>(got));
    }
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
};

// The options that qcc takes for a GGUF, "--kv", from its help. Empty: it does not say.
std::vector<std::string> OptionsOf(const std::string& qcc) {
  std::vector<std::string> names;
  Compiler compiler;
  std::string help;
  if (compiler.Start({qcc, "cache", "artifact", "--help"}) != 0 || compiler.Finish(&help) != 0) return names;
  for (size_t at = 0; at < help.size();) {
    const size_t end = std::min(help.find('\n', at), help.size());
    const std::string line = help.substr(at, end - at);
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (line.compare(begin, 2, "--") == 0) {
      const size_t size = line.find_first_not_of("-abcdefghijklmnopqrstuvwxyz0123456789", begin) - begin;
      names.push_back(line.substr(begin, size));
    }
    at = end + 1;
  }
  return names;
}

// Runs qcc; *key: the artifact's.
Outcome AskCompiler(const std::string& qcc, const std::string& gguf, const std::string& request,
                    const CompileChoice& choice, std::string* key) {
  std::vector<std::string> command = {qcc,     "cache",       "artifact",  "--request",
                                      request, "--cache-dir", choice.cache};
  if (choice.quiet) command.push_back("-q");
  command.insert(command.end(), choice.options.begin(), choice.options.end());
  command.insert(command.end(), {"--", gguf});
  Compiler compiler;
  if (const int error = compiler.Start(std::move(command)); error != 0) {
    return Outcome::Fail(kExitInput, 8008, std::string("qcc cannot be run: ") + std::strerror(error), qcc,
                         "compile the model with qcc compile where it runs");
  }
  std::string path;
  const int status = compiler.Finish(&path);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    return Outcome::Silent(static_cast<Exit>(WEXITSTATUS(status)));  // it has said why
  }
  if (path.ends_with('\n')) path.pop_back();  // others may be the folder's
  if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
  if (WIFSIGNALED(status)) {
    return Outcome::Fail(
        kExitResources, 8009,
        "qcc was ended by signal " + std::to_string(WTERMSIG(status)) +
            (WTERMSIG(status) == SIGKILL ? ", as the system does where memory is short" : ""),
        qcc, "run qrun again; it goes on with the code that was made");
  }
  const size_t name = path.rfind('/') + 1;
  *key = path.substr(name, path.rfind('.') - name);
  return Outcome();
}

}  // namespace

bool IsGguf(const std::string& path) {
  constexpr char kMagic[] = {'G', 'G', 'U', 'F'};
  char found[sizeof kMagic];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool is =
      pread(fd, found, sizeof found, 0) == sizeof found && std::memcmp(found, kMagic, sizeof found) == 0;
  close(fd);
  return is;
}

std::vector<std::string> FilesOfModel(const std::string& named) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";  // 0: any digit
  constexpr size_t kNumber = 1, kCount = 10, kDigits = 5;
  if (named.size() < kForm.size() || !IsGguf(named)) return {named};
  const size_t end = named.size() - kForm.size();
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char c = named[end + i];
    if (kForm[i] == '0' ? c < '0' || c > '9' : c != kForm[i]) return {named};
  }
  std::vector<std::string> files;
  const int count = std::stoi(named.substr(end + kCount, kDigits));
  for (int i = 1; i <= count; ++i) {
    const std::string number = std::to_string(i);
    files.push_back(named);
    files.back().replace(end + kNumber, kDigits, std::string(kDigits - number.size(), '0') + number);
  }
  return files;
}

Outcome CompiledModel(const std::string& gguf, const CompileChoice& choice, const Options& options,
                      ModelFile* out) {
  if (choice.cache.empty()) {
    return Outcome::Fail(kExitResources, 6002, "there is no cache for what qcc makes of a GGUF model", gguf,
                         "name a folder with --cache-dir, or make an artifact with qcc compile -o");
  }
  const std::string qcc = FindQcc();
  const std::string request = qrt::aot::RequestName(gguf, RealPath(qcc), choice.options);
  out->in_use = qrt::aot::FindAnswered(choice.cache, request);
  // A second time where somebody makes room in the cache before the artifact is in use.
  for (int attempt = 0; attempt < 2 && !out->in_use; ++attempt) {
    std::string key;
    const Interrupts interrupts;
    // What was mistyped is told first, where there is a qcc to say what it takes.
    if (!qcc.empty() && !choice.options.empty()) {
      const std::vector<std::string> taken = OptionsOf(qcc);
      if (!taken.empty()) QRUN_RETURN_IF_ERROR(options.RefusePassed(taken));
    }
    if (choice.ahead) {
      const EndAtOnce nothing_stops_a_driver;
      QRUN_RETURN_IF_ERROR(choice.ahead());
    }
    if (qcc.empty()) {
      return Outcome::Fail(kExitInput, 8008, "this is a GGUF model, which qcc compiles, and there is no qcc",
                           gguf, "put qcc beside qrun or into PATH, or run an artifact of qcc compile");
    }
    QRUN_RETURN_IF_ERROR(AskCompiler(qcc, gguf, request, choice, &key));
    out->in_use = qrt::aot::UseArtifact(choice.cache, key);
  }
  if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);  // nobody else may look
  if (!out->in_use) {
    return Outcome::Fail(kExitResources, 8009, "what qcc made is gone from the cache at once", choice.cache,
                         "is another program clearing it? Choose another folder with --cache-dir");
  }
  out->path = out->in_use->path();
  return Outcome();
}

}  // namespace qrun
