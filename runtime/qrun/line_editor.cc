#include "runtime/qrun/line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <string_view>
#include <utility>

#include "runtime/qrun/process.h"
#include "runtime/qrun/terminal_keys.h"
#include "runtime/qrun/utf8.h"

namespace qrun {
namespace {

constexpr char kEndOfInput = '\x04';
constexpr char kEscape = '\x1b';
// How long the rest of a key that begins with ESC may take; after that it was the key Escape.
constexpr int kKeyMilliseconds = 50;
constexpr char kPrompt[] = "> ";
constexpr wchar_t kWidePrompt[] = L"> ";
// A terminal then puts marks around what is pasted, so that its newlines are told from typed ones.
constexpr char kMarkPastes[] = "\x1b[?2004h";
constexpr char kNoMarks[] = "\x1b[?2004l";
constexpr char kPasteBegins[] = "\x1b[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

std::wstring Wide(std::string_view utf8) {
  std::wstring text;
  while (!utf8.empty()) {
    const size_t size = SequenceLength(utf8);
    text += size == 0 ? L'\xFFFD' : static_cast<wchar_t>(CodePoint(utf8.substr(0, size)));
    utf8.remove_prefix(size == 0 ? 1 : size);
  }
  return text;
}

std::string Narrow(std::wstring_view text) {
  std::string utf8;
  for (const wchar_t c : text) utf8 += EncodeUtf8(static_cast<uint32_t>(c));
  return utf8;
}

// The terminal's settings, as qrun found them and as libedit wants them. A signal handler can reach nothing
// else than statics.
termios usual, edited;
std::atomic<bool> redraw{false};

void Show(std::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nobody listens
}

// Whoever had the terminal meanwhile left it as they like.
extern "C" void OnContinue(int signal) {
  if (HandedToMainThread(signal)) return;
  const int reason = errno;
  tcsetattr(STDIN_FILENO, TCSANOW, &edited);
  Show(kMarkPastes);
  redraw.store(true);
  errno = reason;
}

// Ctrl-Z. The shell gets its terminal as it lent it.
extern "C" void OnStop(int signal) {
  if (HandedToMainThread(signal)) return;
  const int reason = errno;
  Show(kNoMarks);
  tcsetattr(STDIN_FILENO, TCSANOW, &usual);
  struct sigaction stop = {}, own;
  stop.sa_handler = SIG_DFL;
  sigaction(signal, &stop, &own);
  raise(signal);  // until it goes on; at once where no shell would wake it
  sigaction(signal, &own, nullptr);
  OnContinue(signal);
  errno = reason;
}

// Ctrl-Z and fg wait.
class StopsHeld {
 public:
  StopsHeld() {
    sigset_t stops;
    sigemptyset(&stops);
    for (const int signal : {SIGTSTP, SIGCONT}) sigaddset(&stops, signal);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~StopsHeld() { Release(); }
  StopsHeld(const StopsHeld&) = delete;
  StopsHeld& operator=(const StopsHeld&) = delete;
  void Release() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// While a line is edited.
class StopHandlers {
 public:
  StopHandlers() {
    struct sigaction action = {};
    action.sa_flags = SA_NODEFER;  // the handler itself stops the process
    action.sa_handler = OnContinue;
    sigaction(SIGCONT, &action, &continue_);
    sigaction(SIGTSTP, nullptr, &stop_);
    if (stop_.sa_handler == SIG_IGN) return;
    action.sa_handler = OnStop;
    sigaction(SIGTSTP, &action, nullptr);
  }
  ~StopHandlers() {
    sigaction(SIGTSTP, &stop_, nullptr);
    sigaction(SIGCONT, &continue_, nullptr);
  }
  StopHandlers(const StopHandlers&) = delete;
  StopHandlers& operator=(const StopHandlers&) = delete;

 private:
  struct sigaction stop_, continue_;
};

bool IsUsable() {
  const char* term = std::getenv("TERM");
  return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0 && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb";
}

}  // namespace

struct LineReader::Editor {
  explicit Editor(PromptHistory kept) : history(std::move(kept)) {}
  ~Editor() {
    if (entries != nullptr) history_wend(entries);
    if (edit != nullptr) el_end(edit);
  }

  bool Open() {
    // Names of the environment's locale may be missing; this one is part of the C library.
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit = el_init("qrun", stdin, stderr, stderr);
    entries = history_winit();
    if (edit == nullptr || entries == nullptr) return false;
    el_wset(edit, EL_CLIENTDATA, this);
    el_wset(edit, EL_GETCFN, GetCharacter);
    el_wset(
        edit, EL_PROMPT, +[](EditLine*) { return const_cast<wchar_t*>(kWidePrompt); });
    el_wset(edit, EL_EDITOR, L"emacs");
    el_set(edit, EL_ADDFN, "qrun-paste", "take pasted text as it is", Paste);
    el_set(edit, EL_BIND, kPasteBegins, "qrun-paste", nullptr);
    HistEventW event;
    history_w(entries, &event, H_SETSIZE, static_cast<int>(kHistoryEntries));
    history_w(entries, &event, H_SETUNIQUE, 1);
    for (const std::string& entry : history.Load()) history_w(entries, &event, H_ENTER, Wide(entry).c_str());
    el_wset(edit, EL_HIST, history_w, entries);
    return true;
  }

  bool Read(std::string* line) {
    el_resize(edit);  // the window may have another size since
    int count = 0;
    const wchar_t* text = nullptr;
    {
      StopsHeld held;  // until it is known what a handler is to put back
      std::fputs(kMarkPastes, stderr);
      tcgetattr(STDIN_FILENO, &usual);
      // Before the prompt is drawn: libedit does it after, and what is typed between the two is shown twice.
      el_set(edit, EL_PREP_TERM, 1);
      tcgetattr(STDIN_FILENO, &edited);
      int waiting = 0;
      ahead = ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0 ? static_cast<size_t>(waiting) : 0;
      const StopHandlers handlers;
      held.Release();
      text = el_wgets(edit, &count);
    }
    // libedit did it; then Ctrl-Z and fg may have undone it.
    tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    std::fputs(kNoMarks, stderr);
    if (text == nullptr || count <= 0) return false;
    std::wstring_view typed(text, static_cast<size_t>(count));
    if (typed.back() == L'\n') typed.remove_suffix(1);
    *line = Narrow(typed);
    if (line->find_first_not_of(" \t\n") == std::string::npos) return true;
    HistEventW event;
    history_w(entries, &event, H_ENTER, std::wstring(typed).c_str());
    history.Add(*line);
    return true;
  }

  // False at the end of input or when interrupted; then `status` is what libedit wants to know.
  bool NextByte(char* byte) {
    for (;;) {
      if (at == filled && !Fill()) return false;
      *byte = buffer[at++];
      if (*byte != '\0') return true;
      // What Ctrl-D was, typed while the terminal was still in its own line mode: the system keeps a mark for
      // it. Else Ctrl-Space, which means nothing.
      if (at > early) continue;
      *byte = kEndOfInput;
      return true;
    }
  }

  bool Fill() {
    ssize_t count = -1;
    do {
      if (redraw.exchange(false)) el_set(edit, EL_REFRESH);
      count = ReadOrInterrupt(STDIN_FILENO, buffer, sizeof buffer, &redraw);
    } while (count < 0 && errno == EINTR && !Interrupts::Pending());
    status = count == 0 ? 0 : -1;
    if (count <= 0) return false;
    at = 0;
    filled = static_cast<size_t>(count);
    early = std::min(ahead, filled);
    ahead -= early;
    return true;
  }

  // Whether another byte of the same key is there, or comes at once.
  bool KeyGoesOn() const {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    return at != filled || poll(&input, 1, kKeyMilliseconds) > 0;
  }

  // The first byte of what the editor is to see, the rest of it in `left`; behind ESC it is known what key
  // was meant once it is whole.
  bool NextKeyByte(char* byte) {
    for (;;) {
      if (!left.empty()) {
        *byte = left.front();
        left.erase(0, 1);
        return true;
      }
      if (!NextByte(byte)) return false;
      if (*byte != kEscape || pasting) return true;
      left = kEscape;
      while (!IsWholeKey(left) && left.size() < kLongestKey && KeyGoesOn()) {
        if (!NextByte(byte)) return false;
        left += *byte;
      }
      left = EditorKey(left);
    }
  }

  static int GetCharacter(EditLine* edit, wchar_t* out) {
    void* data = nullptr;
    el_wget(edit, EL_CLIENTDATA, &data);
    Editor& self = *static_cast<Editor*>(data);
    char byte = 0;
    if (!self.NextKeyByte(&byte)) return self.status;
    std::string sequence(1, byte);
    while (SequenceLength(sequence) == 0 && qrt_utf8_whole_prefix(sequence.data(), sequence.size()) == 0) {
      if (!self.NextByte(&byte)) return self.status;
      sequence += byte;
    }
    const bool whole = SequenceLength(sequence) != 0;
    if (!whole && sequence.size() > 1) --self.at;  // what broke it off is a key of its own: Enter
    *out = whole ? static_cast<wchar_t>(CodePoint(sequence)) : L'\xFFFD';
    return 1;
  }

  static unsigned char Paste(EditLine* edit, wint_t) {
    void* data = nullptr;
    el_wget(edit, EL_CLIENTDATA, &data);
    bool& pasting = static_cast<Editor*>(data)->pasting;
    pasting = true;
    std::wstring pasted;
    wchar_t c = 0;
    while (el_wgetc(edit, &c) == 1) {
      if (c == L'\r') c = L'\n';
      if (c != kEndOfInput) pasted += c;
      if (pasted.size() < kPasteEnds.size()) continue;
      const size_t size = pasted.size() - kPasteEnds.size();
      if (pasted.compare(size, kPasteEnds.size(), kPasteEnds) != 0) continue;
      pasted.resize(size);
      break;
    }
    pasting = false;
    while (!pasted.empty() && pasted.back() == L'\n') pasted.pop_back();  // it would look like a line sent
    return pasted.empty() || el_winsertstr(edit, pasted.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }

  const PromptHistory history;
  EditLine* edit = nullptr;
  HistoryW* entries = nullptr;
  static constexpr size_t kLongestKey = 32;  // a longer one is none

  char buffer[4096];
  size_t at = 0, filled = 0;
  size_t ahead = 0, early = 0;  // bytes typed before the line is edited: not read yet, and of the buffer
  std::string left;             // of a key
  bool pasting = false;         // what is read is no keys
  int status = 0;
};

LineReader::LineReader(PromptHistory history) {
  if (!IsUsable()) return;
  editor_ = std::make_unique<Editor>(std::move(history));
  if (!editor_->Open()) editor_.reset();
}

LineReader::~LineReader() = default;

bool LineReader::Read(std::string* line) {
  if (editor_ != nullptr) return editor_->Read(line);
  std::fputs(kPrompt, stderr);
  return ReadLine(line);
}

}  // namespace qrun
