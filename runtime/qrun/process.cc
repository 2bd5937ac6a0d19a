#include "runtime/qrun/process.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

#include "runtime/qrun/escape.h"

namespace qrun {
namespace {

constexpr std::array<int, Interrupts::kHandled> kSignals = {SIGINT, SIGTERM, SIGHUP};
// A signal handler can reach nothing else than statics.
std::atomic<bool> interrupted{false};
std::atomic<int> ending{0};  // SIGTERM or SIGHUP, once it came
std::atomic<bool> end_at_once{false};
std::atomic<qrt_session*> watched{nullptr};
std::atomic<int64_t> first_ms{0};  // when the first signal of a request came
static_assert(std::atomic<int64_t>::is_always_lock_free, "a signal handler may not lock");
char mapped_file[PATH_MAX];  // in which a page was missing
std::atomic<bool> bus_error{false};

// One request may come as several signals: timeout(1) sends one to the process and one to its group, a closed
// terminal gives a SIGHUP of the kernel and one of the shell, and who started qrun may hand on the Ctrl-C
// that it got itself.
constexpr int64_t kOneRequestMs = 500;

extern "C" void OnInterrupt(int signal) {
  if (HandedToMainThread(signal)) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  if (signal != SIGINT) ending.store(signal);
  if (!interrupted.load()) first_ms.store(ms);
  const bool again = interrupted.exchange(true) && signal == SIGINT && ms - first_ms.load() > kOneRequestMs;
  if (again || end_at_once.load()) {
    qrt::TemporaryName::RemoveAll();
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
  qrt::TemporaryName::RemoveAll();
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

// Until `events` of a descriptor would not wait. False, with EINTR, where they would and an interrupt or
// `event` comes, even if it came just before: signals are let in only inside ppoll.
bool WaitOrInterrupt(int descriptor, short events, const std::atomic<bool>* event = nullptr) {
  sigset_t held, before;
  sigemptyset(&held);
  for (const int signal : kSignals) sigaddset(&held, signal);
  for (const int signal : {SIGTSTP, SIGCONT}) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  pollfd ready = {descriptor, events, 0};
  const timespec none = {};
  const bool came = Interrupts::Pending() || (event != nullptr && event->load());
  const int count = ppoll(&ready, 1, came ? &none : nullptr, &before);
  const int reason = count == 0 ? EINTR : errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return count > 0;
}

}  // namespace

bool HandedToMainThread(int signal) {
  const int reason = errno;
  const pid_t process = getpid();  // and its first thread
  const bool handed = gettid() != process && tgkill(process, process, signal) == 0;
  errno = reason;
  return handed;
}

uint32_t WriteErrorNumber(int reason) {
  return reason == ENOSPC || reason == EDQUOT || reason == EFBIG ? 6003 : 6002;
}

bool WriteOrInterrupt(int descriptor, std::string_view bytes) {
  struct stat file;
  const bool waits = fstat(descriptor, &file) != 0 || !S_ISREG(file.st_mode);
  while (!bytes.empty()) {
    if (waits && !WaitOrInterrupt(descriptor, POLLOUT)) {
      if (errno != EINTR || Interrupts::Pending()) return false;
      continue;
    }
    // A pipe that is ready takes so much at once.
    const size_t most = waits ? size_t{PIPE_BUF} : bytes.size();
    const ssize_t count = write(descriptor, bytes.data(), std::min(bytes.size(), most));
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

ssize_t ReadOrInterrupt(int descriptor, void* buffer, size_t size, const std::atomic<bool>* event) {
  if (!Interrupts::Pending()) {
    return WaitOrInterrupt(descriptor, POLLIN, event) ? read(descriptor, buffer, size) : -1;
  }
  errno = EINTR;
  return -1;
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
  const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  // A string that grows is there twice while it moves, and a session may take most of the memory.
  if (regular) out->reserve(std::min<size_t>(most, static_cast<size_t>(info.st_size)));
  Outcome outcome = regular ? ReadAll(descriptor, path, most, out)
                            : Outcome::Fail(kExitInput, 8001, path + " is not a regular file", "",
                                            "- reads standard input");
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

namespace {

Outcome StdoutFailed(int reason) {
  if (reason == EINTR) return Outcome::Silent(kExitInterrupted);
  // EIO: the terminal is gone.
  if (reason == EPIPE || (reason == EIO && ending.load() == SIGHUP)) return Outcome::ReaderLeft();
  return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                       std::string("cannot write to stdout: ") + std::strerror(reason));
}

}  // namespace

Outcome WriteStdout(std::string_view bytes) {
  if (WriteOrInterrupt(STDOUT_FILENO, bytes)) return Outcome();
  return StdoutFailed(errno);
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
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) close(descriptor_);
  if (name_) unlink(temporary_.c_str());
}

Outcome OutputFile::Failed(const char* what) const {
  const int reason = errno;
  if (descriptor_ == STDOUT_FILENO) return StdoutFailed(reason);
  if (reason == EINTR && Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
  return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                       std::string("cannot ") + what + " " + path_ + ": " + std::strerror(reason), "",
                       "check the folder, its permissions and the free space");
}

Outcome OutputFile::Refused(const std::string& why) const {
  return Outcome::Fail(kExitUsage, 103, "the output " + why, path_, "give the name of a file");
}

Outcome OutputFile::OpenDescriptor(const std::string& name, int flags) {
  constexpr int kLookMs = 50;
  const mode_t mode = (flags & O_EXCL) != 0 && private_ ? 0600 : 0666;
  // O_NONBLOCK: a FIFO that nobody reads yet would be waited for where a signal that came just before is
  // lost.
  for (;;) {
    descriptor_ = open(name.c_str(), flags | O_WRONLY | O_CLOEXEC | O_NONBLOCK, mode);
    struct stat status;
    const bool nobody =
        descriptor_ < 0 && errno == ENXIO && stat(name.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
    if (!nobody && (descriptor_ >= 0 || errno != EINTR)) break;
    if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
    if (nobody) poll(nullptr, 0, kLookMs);
  }
  if (descriptor_ >= 0) {
    const int kept = fcntl(descriptor_, F_GETFL);
    if (kept >= 0) fcntl(descriptor_, F_SETFL, kept & ~O_NONBLOCK);
    return Outcome();
  }
  if (errno == ENOENT || errno == ENOTDIR) return Refused("has no folder to lie in");
  if (errno == ENAMETOOLONG) return Refused("has too long a name");
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
    descriptor_ = STDOUT_FILENO;
    return Outcome();
  }
  if (there && S_ISDIR(status.st_mode)) return Refused("is a folder");
  const bool direct = there && !S_ISREG(status.st_mode);
  if (private_ && (stream >= 0 || direct)) return Refused("is a stream or a device, not a file");
  if (!direct && (stream >= 0 || LeadsToDescriptor(path))) return Refused("is open already, as a stream");
  if (direct) return OpenDescriptor(path, O_TRUNC);
  temporary_ = qrt::NameBeside(path, ".tmp-" + std::to_string(getpid()));
  // Of an earlier process with this id; a link that was laid there is not followed.
  unlink(temporary_.c_str());
  name_.emplace(temporary_);  // a signal may end the process as soon as it is there
  Outcome outcome = OpenDescriptor(temporary_, O_CREAT | O_EXCL | O_NOFOLLOW);
  if (!outcome.ok()) name_.reset();
  return outcome;
}

Outcome OutputFile::Write(const void* bytes, size_t size) {
  const bool written = WriteOrInterrupt(descriptor_, {static_cast<const char*>(bytes), size});
  return written ? Outcome() : Failed("write");
}

Outcome OutputFile::Commit() {
  if (descriptor_ == STDOUT_FILENO) return Outcome();
  // What is interrupted there is a file all the same, and maybe the session that is to be saved.
  while (name_ && fsync(descriptor_) != 0) {
    if (errno != EINTR) return Failed("sync");
  }
  const int closed = close(descriptor_);
  descriptor_ = -1;
  if (closed != 0 && errno != EINTR) return Failed("write");
  if (name_ && std::rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("rename to");
  name_.reset();
  return Outcome();
}

Outcome CheckWritable(const std::string& path, OutputFile::Kind kind) {
  OutputFile file;
  return file.Open(path, kind);
}

Interrupts::Interrupts() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;  // without SA_RESTART: a blocked read returns
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &previous_[i]);
    if (previous_[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  Watch(nullptr);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
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
