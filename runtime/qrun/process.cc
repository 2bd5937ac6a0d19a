#include "runtime/qrun/process.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

#include "runtime/qrun/escape.h"

namespace qrun {
namespace {

// A signal handler can reach nothing else than statics.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<bool> interrupted{false};
std::atomic<int> ending{0};  // SIGTERM or SIGHUP, once it came
std::atomic<bool> end_at_once{false};
std::atomic<qrt_session*> watched{nullptr};
struct sigaction previous_actions[std::size(kSignals)];
// What the handler removes when it ends the process: the file that an OutputFile is writing.
char temporary_file[PATH_MAX];
std::atomic<bool> has_temporary{false};
char mapped_file[PATH_MAX];  // in which a page was missing
std::atomic<bool> bus_error{false};

extern "C" void OnInterrupt(int signal) {
  if (signal != SIGINT) ending.store(signal);
  // Only a second Ctrl-C: a closed terminal may give two SIGHUPs, one of the kernel and one of the shell.
  if ((interrupted.exchange(true) && signal == SIGINT) || end_at_once.load()) {
    if (has_temporary.load()) unlink(temporary_file);
    _exit(Interrupts::ExitCode(kExitInterrupted));
  }
  if (qrt_session* session = watched.load()) qrt_session_cancel(session);
}

void WriteError(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;  // nobody listens
    text.remove_prefix(static_cast<size_t>(count));
  }
}

extern "C" void OnBusError(int which, siginfo_t* info, void*) {
  uint64_t offset = 0;
  const bool of_memory = info->si_code > 0;
  while (of_memory && bus_error.exchange(true)) pause();  // another thread came first, and ends the process
  if (!of_memory || !qrt_mapped_file_at(info->si_addr, mapped_file, sizeof mapped_file, &offset)) {
    signal(which, SIG_DFL);  // and once more where it came from
    return;
  }
  if (has_temporary.load()) unlink(temporary_file);
  for (char* c = mapped_file; *c != '\0'; ++c) {
    if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f) *c = '?';
  }
  char number[24];
  const char* const end = std::to_chars(number, number + sizeof number, offset).ptr;
  WriteError("qrun: error: the file changed while it was in use: byte ");
  WriteError({number, static_cast<size_t>(end - number)});
  WriteError(" is gone [Q4025]\n  note: ");
  WriteError(mapped_file);
  WriteError(
      "\n  help: replace artifacts by rename, never in place; if nobody cut it short, check the disk\n");
  _exit(kExitArtifact);
}

void AnnounceTemporary(const std::string& path) {
  has_temporary.store(false);
  if (path.empty() || path.size() >= sizeof temporary_file) return;
  std::memcpy(temporary_file, path.c_str(), path.size() + 1);
  has_temporary.store(true);
}

// The standard stream that a file is; -1: none. Standard output first: a terminal is all three.
int StandardStream(const struct stat& file) {
  struct stat stream;
  for (const int fd : {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO}) {
    if (fstat(fd, &stream) == 0 && stream.st_dev == file.st_dev && stream.st_ino == file.st_ino) return fd;
  }
  return -1;
}

// Whether a name is a link, maybe through others, to what a process has open (/dev/fd/3): a new file would
// take the place of that link.
bool LeadsToDescriptor(std::string path) {
  constexpr int kMostLinks = 40;  // as the kernel follows
  for (int i = 0; i < kMostLinks; ++i) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    char real[PATH_MAX], target[PATH_MAX];
    if (realpath(folder.c_str(), real) == nullptr) return false;
    if (std::string_view(real).starts_with("/proc/")) return true;
    const ssize_t size = readlink(path.c_str(), target, sizeof target);
    if (size <= 0 || static_cast<size_t>(size) == sizeof target) return false;
    path = std::string(target, static_cast<size_t>(size));
    if (path[0] != '/') path.insert(0, std::string(real) + "/");
  }
  return false;
}

}  // namespace

uint32_t WriteErrorNumber(int reason) {
  return reason == ENOSPC || reason == EDQUOT || reason == EFBIG ? 6003 : 6002;
}

// Signals are let in only inside ppoll.
ssize_t ReadOrInterrupt(int descriptor, void* buffer, size_t size) {
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  for (const int signal : kSignals) sigaddset(&interrupt, signal);
  pthread_sigmask(SIG_BLOCK, &interrupt, &before);
  ssize_t count = -1;
  pollfd ready = {descriptor, POLLIN, 0};
  if (Interrupts::Pending()) {
    errno = EINTR;
  } else if (ppoll(&ready, 1, nullptr, &before) >= 0) {
    count = read(descriptor, buffer, size);
  }
  const int reason = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return count;
}

namespace {

Outcome ReadAll(int descriptor, const std::string& name, size_t most, std::string* out) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ReadOrInterrupt(descriptor, buffer, sizeof buffer);
    if (count == 0) return Outcome();
    if (count > 0) {
      out->append(buffer, static_cast<size_t>(count));
      if (out->size() <= most) continue;
      return Outcome::Fail(kExitInput, 8007, name + " holds more than " + std::to_string(most) + " bytes", "",
                           "give the text in parts");
    }
    if (errno == EINTR || errno == EAGAIN) {
      if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
      continue;
    }
    return Outcome::Fail(kExitInput, 8001, "cannot read " + name + ": " + std::strerror(errno));
  }
}

}  // namespace

void InstallBusErrorHandler() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

uint64_t PeakRssBytes() {
  rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

Outcome ReadText(const std::string& path, std::string* out) {
  if (path == "-") return ReadStdin(out);
  // O_NONBLOCK: a FIFO without a writer is waited for where signals are let in, when it is read.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return Outcome::Fail(kExitInput, 8001, "cannot open " + path + ": " + std::strerror(errno));
  }
  Outcome outcome = ReadAll(descriptor, path, kMaxTextBytes, out);
  close(descriptor);
  return outcome;
}

Outcome ReadFile(const std::string& path, size_t most, std::string* out) {
  if (path == "-") return ReadAll(STDIN_FILENO, "standard input", most, out);
  // O_NONBLOCK: opening a FIFO must not wait for a writer; fstat then refuses it.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return Outcome::Fail(kExitInput, 8001, "cannot open " + path + ": " + std::strerror(errno));
  }
  struct stat info;
  Outcome outcome =
      fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)
          ? ReadAll(descriptor, path, most, out)
          : Outcome::Fail(kExitInput, 8001, path + " is not a regular file", "", "- reads standard input");
  close(descriptor);
  return outcome;
}

Outcome ReadStdin(std::string* out) {
  return ReadAll(STDIN_FILENO, "standard input", kMaxTextBytes, out);
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
    } else if (errno == EPIPE || (errno == EIO && ending.load() == SIGHUP)) {  // the terminal is gone
      return Outcome::ReaderLeft();
    } else if (errno != EINTR) {
      const int reason = errno;
      return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                           std::string("cannot write to stdout: ") + std::strerror(reason));
    }
  }
  return Outcome();
}

Outcome RefuseInput(const std::string& option, const std::string& output, const std::string& what,
                    const std::string& input) {
  struct stat one, other;
  if (output == "-" || input == "-" || stat(output.c_str(), &one) != 0 || stat(input.c_str(), &other) != 0) {
    return Outcome();
  }
  if (!S_ISREG(one.st_mode) || one.st_dev != other.st_dev || one.st_ino != other.st_ino) return Outcome();
  return Outcome::Fail(kExitUsage, 103, option + " is " + what + " itself", output,
                       "give another name with " + option);
}

ProgressLine::~ProgressLine() {
  if (open_) std::fputs("\n", stderr);
}

void ProgressLine::Show(uint64_t done, uint64_t total) {
  if (what_.empty() || isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\rqrun: %s, %3.0f %%", what_.c_str(),
               100.0 * static_cast<double>(done) / static_cast<double>(total));
  open_ = done != total;
  if (!open_) std::fputs("\n", stderr);
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (temporary_.empty()) return;
  unlink(temporary_.c_str());
  AnnounceTemporary("");
}

Outcome OutputFile::Failed(const char* what) const {
  const int reason = errno;
  if (file_ == stdout && reason == EPIPE) return Outcome::ReaderLeft();
  return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                       std::string("cannot ") + what + " " + path_ + ": " + std::strerror(reason), "",
                       "check the folder, its permissions and the free space");
}

Outcome OutputFile::Refused(const std::string& why) const {
  return Outcome::Fail(kExitUsage, 103, "the output " + why, path_, "give the name of a file");
}

Outcome OutputFile::OpenDescriptor(const std::string& name, int flags) {
  const mode_t mode = (flags & O_EXCL) != 0 && private_ ? 0600 : 0666;
  int descriptor;
  do {
    descriptor = open(name.c_str(), flags | O_WRONLY | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR && !Interrupts::Pending());
  if (descriptor < 0 && errno == EINTR) return Outcome::Silent(kExitInterrupted);
  if (descriptor < 0 && (errno == ENOENT || errno == ENOTDIR)) return Refused("has no folder to lie in");
  if (descriptor < 0) return Failed("write");
  file_ = fdopen(descriptor, "wb");
  if (file_ != nullptr) return Outcome();
  close(descriptor);
  return Failed("write");
}

Outcome OutputFile::Open(const std::string& path, Kind kind) {
  path_ = path;
  private_ = kind == Kind::kPrivate;
  if (path.empty()) return Refused("has no name");
  struct stat status;
  const bool there = stat(path.c_str(), &status) == 0;
  const int stream = path == "-" ? STDOUT_FILENO : there ? StandardStream(status) : -1;
  if (stream == STDOUT_FILENO && !private_) {
    file_ = stdout;
    return Outcome();
  }
  if (there && S_ISDIR(status.st_mode)) return Refused("is a folder");
  const bool direct = there && !S_ISREG(status.st_mode);
  if (private_ && (stream >= 0 || direct)) return Refused("is a stream or a device, not a file");
  if (!direct && (stream >= 0 || LeadsToDescriptor(path))) return Refused("is open already, as a stream");
  if (direct) return OpenDescriptor(path, O_TRUNC);
  const std::string name = path + ".tmp-" + std::to_string(getpid());
  unlink(name.c_str());  // of an earlier process with this id; a link that was laid there is not followed
  QRUN_RETURN_IF_ERROR(OpenDescriptor(name, O_CREAT | O_EXCL | O_NOFOLLOW));
  temporary_ = name;
  AnnounceTemporary(name);
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
    AnnounceTemporary("");
  }
  return Outcome();
}

Outcome CheckWritable(const std::string& path, OutputFile::Kind kind) {
  OutputFile file;
  return file.Open(path, kind);
}

Interrupts::Interrupts() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;  // without SA_RESTART: a blocked read returns
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &previous_actions[i]);
    if (previous_actions[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  Watch(nullptr);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous_actions[i], nullptr);
}

void Interrupts::Watch(qrt_session* session) {
  watched.store(session);
  if (session != nullptr && Pending()) qrt_session_cancel(session);
}
bool Interrupts::Pending() {
  return interrupted.load() || ending.load() != 0;
}
bool Interrupts::Take() {
  return interrupted.exchange(false) || ending.load() != 0;
}
int Interrupts::ExitCode(int exit) {
  const int signal = ending.load();
  return exit == kExitInterrupted && signal != 0 ? 128 + signal : exit;
}

EndAtOnce::EndAtOnce() {
  end_at_once.store(true);
  if (Interrupts::Pending()) _exit(Interrupts::ExitCode(kExitInterrupted));  // it came just before
}
EndAtOnce::~EndAtOnce() {
  end_at_once.store(false);
}

}  // namespace qrun
