#include "compiler/driver/ending.h"

#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <string_view>
#include <system_error>

#include "compiler/driver/console.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "runtime/base/mapped_file.h"
#include "runtime/base/temporary_name.h"

namespace qcc::compiler {
namespace {

// Handlers reach nothing else than statics.
bool g_installed = false;  // not while libraries are still loaded: they cannot be called then
bool g_terminal = false;
volatile std::sig_atomic_t g_artifact = 0;
char g_path[PATH_MAX];

// Text of files for the terminal, in place: Clean allocates.
void MakePrintable(char* text) {
  for (unsigned char before = 0; *text != '\0'; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    const bool c1 = byte >= 0x80 && byte < 0xa0 && before == 0xc2;
    if (byte < 0x20 || byte == 0x7f || c1) *text = '?';
    before = byte;
  }
}

std::atomic<pid_t> g_ending = 0;  // the thread that ends the process
static_assert(std::atomic<pid_t>::is_always_lock_free, "a signal handler may not lock");

// Returns in one thread: memory runs out, or a page is missing, for several at once, and one says it.
// Async-signal-safe, like what follows.
void BeginEnd(Exit exit) {
  const pid_t self = gettid();
  pid_t ending = 0;
  if (g_ending.compare_exchange_strong(ending, self)) return;
  if (ending == self) _exit(static_cast<int>(exit));  // what ends the process failed itself
  for (;;) pause();
}

// Allocates nothing.
[[noreturn]] void Say(Exit exit, std::initializer_list<std::string_view> text) {
  RemoveTemporaries();
  if (g_terminal && write(STDERR_FILENO, "\r\x1b[K", 4) < 0) _exit(static_cast<int>(exit));
  for (std::string_view piece : text) {
    if (write(STDERR_FILENO, piece.data(), piece.size()) < 0) break;  // nobody listens
  }
  _exit(static_cast<int>(exit));
}

[[noreturn]] void End(Exit exit, std::initializer_list<std::string_view> text) {
  BeginEnd(exit);
  Say(exit, text);
}

void OnLlvmNoMemory(void*, const char*, bool) {
  EndOutOfMemory();
}

void OnLlvmFatal(void*, const char* reason, bool) {
  End(Exit::kInternal,
      {"qcc: error: LLVM: ", reason, " [Q9001]\n", "  help: this is a bug in qcc; please report it\n"});
}

void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      EndOutOfMemory();
    } catch (const std::system_error& error) {
      if (IsShortage(error.code())) EndOutOfMemory();
      OnLlvmFatal(nullptr, error.what(), false);
    } catch (const std::exception& error) {
      OnLlvmFatal(nullptr, error.what(), false);
    }
  }
  End(Exit::kInternal,
      {"qcc: error: something ended the compiler that it does not expect of itself [Q9001]\n",
       "  help: this is a bug in qcc; please report it\n"});
}

// The kernel could not bring in a page of a mapped file: the file ends before it by now, or its disk failed.
void OnBusError(int signal, siginfo_t* info, void*) {
  uint64_t offset = 0;
  const bool of_memory = info->si_code > 0;
  if (of_memory) BeginEnd(Exit::kInputRefused);  // there is one g_path
  if (!of_memory || !qrt::FindMappedFile(info->si_addr, g_path, &offset)) {
    std::signal(signal, SIG_DFL);  // and once more where it came from
    return;
  }
  MakePrintable(g_path);
  char number[24];
  const char* const end = std::to_chars(number, number + sizeof number, offset).ptr;
  const std::string_view byte(number, static_cast<size_t>(end - number));
  const bool artifact = g_artifact != 0;
  Say(artifact ? Exit::kArtifactRefused : Exit::kInputRefused,
      {"qcc: error: the file changed while it was read: byte ", byte, " is gone [",
       artifact ? "Q4025" : "Q1009", "]\n  note: ", g_path,
       "\n  help: leave the file alone while it is read, and start again; if nobody cut it short, check the "
       "disk\n"});
}

}  // namespace

void EndOutOfMemory() {
  End(Exit::kMemoryOrDisk, {"qcc: error: out of memory [Q6001]\n",
                            "  help: use a machine with more memory, or raise its limit (ulimit -v)\n"});
}

bool IsShortage(const std::error_code& error) {
  return error == std::errc::resource_unavailable_try_again || error == std::errc::not_enough_memory;
}

void RemoveTemporaries() {
  if (!g_installed) return;
  qrt::TemporaryName::RemoveAll();
  llvm::sys::RunInterruptHandlers();  // the linker's
  qrt::TemporaryName::RemoveAll();    // the folder that it was in
}

void ExpectMappedArtifact() {
  g_artifact = 1;
}

bool LinesCanBeRedrawn() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (kind == nullptr || std::strcmp(kind, "dumb") != 0);
}

void InstallEndings() {
  g_terminal = LinesCanBeRedrawn();
  g_installed = true;
  std::set_new_handler(EndOutOfMemory);
  llvm::install_bad_alloc_error_handler(OnLlvmNoMemory);
  llvm::install_fatal_error_handler(OnLlvmFatal);
  std::set_terminate(OnTerminate);
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace qcc::compiler
