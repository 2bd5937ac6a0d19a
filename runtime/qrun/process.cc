#include "runtime/qrun/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace qrun {
namespace {

// A signal handler can reach nothing else than statics.
std::atomic<bool> interrupted{false};
std::atomic<qrt_session*> watched{nullptr};
struct sigaction previous_action;

extern "C" void OnInterrupt(int) {
  if (interrupted.exchange(true)) _exit(kExitInterrupted);
  if (qrt_session* session = watched.load()) qrt_session_cancel(session);
}

uint32_t WriteErrorNumber(int reason) {
  return reason == ENOSPC || reason == EDQUOT || reason == EFBIG ? 6003 : 6002;
}

// read() that an interrupt ends with EINTR even if it comes just before: SIGINT is let in only inside ppoll.
ssize_t ReadOrInterrupt(int descriptor, void* buffer, size_t size) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  ssize_t count = -1;
  pollfd ready = {descriptor, POLLIN, 0};
  if (interrupted.load()) {
    errno = EINTR;
  } else if (ppoll(&ready, 1, nullptr, &before) >= 0) {
    count = read(descriptor, buffer, size);
  }
  const int reason = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return count;
}

Outcome ReadAll(int descriptor, const std::string& name, std::string* out) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ReadOrInterrupt(descriptor, buffer, sizeof buffer);
    if (count == 0) return Outcome();
    if (count > 0) {
      out->append(buffer, static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) {
      if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
      continue;
    }
    return Outcome::Fail(kExitInput, 8001, "cannot read " + name + ": " + std::strerror(errno));
  }
}

}  // namespace

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

uint64_t PeakRssBytes() {
  rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

Outcome ReadFile(const std::string& path, std::string* out) {
  if (path == "-") return ReadStdin(out);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Outcome::Fail(kExitInput, 8001, "cannot open " + path + ": " + std::strerror(errno));
  }
  Outcome outcome = ReadAll(descriptor, path, out);
  close(descriptor);
  return outcome;
}

Outcome ReadStdin(std::string* out) {
  return ReadAll(STDIN_FILENO, "standard input", out);
}

bool ReadLine(std::string* line) {
  line->clear();
  for (;;) {
    char c;
    const ssize_t count = ReadOrInterrupt(STDIN_FILENO, &c, 1);
    if (count == 1 && c == '\n') return true;
    if (count == 1) {
      line->push_back(c);
      continue;
    }
    if (count < 0 && errno == EINTR && !Interrupts::Pending()) continue;
    return count == 0 && !line->empty();
  }
}

Outcome WriteStdout(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EPIPE) {
      return Outcome::ReaderLeft();
    } else if (errno != EINTR) {
      const int reason = errno;
      return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                           std::string("cannot write to stdout: ") + std::strerror(reason));
    }
  }
  return Outcome();
}

void Warn(const std::string& text) {
  std::fprintf(stderr, "qrun: warning: %s\n", text.c_str());
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Outcome OutputFile::Failed(const char* what) const {
  const int reason = errno;
  if (file_ == stdout && reason == EPIPE) return Outcome::ReaderLeft();
  return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                       std::string("cannot ") + what + " " + path_ + ": " + std::strerror(reason), "",
                       "check the folder, its permissions and the free space");
}

Outcome OutputFile::Open(const std::string& path) {
  path_ = path;
  if (path == "-") {
    file_ = stdout;
    return Outcome();
  }
  struct stat status;
  const bool direct = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (direct && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return Failed("write");
  }
  const std::string name = direct ? path : path + ".tmp-" + std::to_string(getpid());
  file_ = std::fopen(name.c_str(), "wbe");
  if (file_ == nullptr) return Failed("write");
  if (!direct) temporary_ = name;
  return Outcome();
}

Outcome OutputFile::Write(const void* bytes, size_t size) {
  if (std::fwrite(bytes, 1, size, file_) != size) return Failed("write");
  return Outcome();
}

Outcome OutputFile::Commit() {
  if (std::fflush(file_) != 0) return Failed("write");
  if (file_ == stdout) return Outcome();
  if (!temporary_.empty() && fsync(fileno(file_)) != 0) return Failed("sync");
  const int closed = std::fclose(file_);
  file_ = nullptr;
  if (closed != 0) return Failed("write");
  if (!temporary_.empty()) {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("rename to");
    temporary_.clear();
  }
  return Outcome();
}

Interrupts::Interrupts() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;  // without SA_RESTART: a blocked read returns
  sigaction(SIGINT, &action, &previous_action);
}

Interrupts::~Interrupts() {
  Watch(nullptr);
  sigaction(SIGINT, &previous_action, nullptr);
}

void Interrupts::Watch(qrt_session* session) {
  watched.store(session);
}
bool Interrupts::Pending() {
  return interrupted.load();
}
bool Interrupts::Take() {
  return interrupted.exchange(false);
}

}  // namespace qrun
