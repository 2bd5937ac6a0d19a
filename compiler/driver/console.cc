#include "compiler/driver/console.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "compiler/driver/report_text.h"
#include "frontends/base/error.h"

namespace qcc::compiler {
namespace {

// Further lines are indented: none looks like one of qcc's own.
std::string Printable(std::string_view text) {
  std::string out;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    out += Clean(text.substr(0, end)) + "\n        ";
  }
  return out + Clean(text);
}

int Percent(uint64_t done, uint64_t total) {
  if (done >= total) return 100;
  return static_cast<int>(100 * static_cast<double>(done) / static_cast<double>(total));
}

void WriteReport(std::FILE* out, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out);
  if (!text.empty() && text.back() != '\n') std::fputc('\n', out);
}

using Json = nlohmann::ordered_json;

// Names come from files: what is no UTF-8 must not end the process.
void WriteLine(std::FILE* out, const Json& line) {
  std::fprintf(out, "%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(out);
}

}  // namespace

Exit ExitOf(const absl::Status& status) {
  if (status.ok()) return Exit::kOk;
  const std::string code = PartsOf(status).code;
  if (code.size() == 5) {
    switch (code[1]) {
      case '0':
        return Exit::kUsage;
      case '1':
      case '2':
      case '3':
        return Exit::kInputRefused;
      case '4':
        return Exit::kArtifactRefused;
      case '5':
        return Exit::kDevice;
      case '6':
        return Exit::kMemoryOrDisk;
      default:
        return Exit::kInternal;
    }
  }
  if (absl::IsCancelled(status)) return Exit::kInterrupted;
  if (absl::IsResourceExhausted(status)) return Exit::kMemoryOrDisk;
  return Exit::kInternal;
}

std::string FormatError(const absl::Status& status) {
  const ErrorParts parts = PartsOf(status);
  std::string text = "qcc: error: " + Printable(parts.what);
  if (!parts.code.empty()) text += " [" + parts.code + "]";
  text += "\n";
  if (!parts.where.empty()) text += "  note: " + Printable(parts.where) + "\n";
  if (!parts.help.empty()) text += "  help: " + Printable(parts.help) + "\n";
  return text;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

ConsoleProgress::ConsoleProgress(std::FILE* err, std::FILE* out, bool terminal, int verbosity,
                                 const volatile std::sig_atomic_t* interrupted)
    : err_(err), out_(out), terminal_(terminal), verbosity_(verbosity), interrupted_(interrupted) {}

ConsoleProgress::~ConsoleProgress() {
  if (line_open_) std::fputs("\n", err_);
}

void ConsoleProgress::ClearLine() {
  if (line_open_) std::fputs("\r\x1b[K", err_);
  line_open_ = false;
}

void ConsoleProgress::BeginStage(int index, int count, std::string_view name) {
  index_ = index;
  count_ = count;
  name_ = name;
  began_ = Clock::now();
  drawn_ = {};
  if (verbosity_ < 0 || (!terminal_ && verbosity_ == 0)) return;
  ClearLine();
  if (!terminal_) {
    std::fprintf(err_, "[%2d/%d] %s ...\n", index_, count_, name_.c_str());
    return;
  }
  std::fprintf(err_, "[%2d/%d] %s", index_, count_, name_.c_str());
  std::fflush(err_);
  line_open_ = true;
}

void ConsoleProgress::Progress(uint64_t done, uint64_t total, std::string_view unit) {
  if (verbosity_ < 0 || !terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100) && done != total) return;
  drawn_ = now;
  const std::string amount =
      unit == "B" ? HumanBytes(done) + " of " + HumanBytes(total)
                  : std::to_string(done) + " of " + std::to_string(total) + " " + std::string(unit);
  ClearLine();
  std::fprintf(err_, "[%2d/%d] %s   %3d%%  %s", index_, count_, name_.c_str(), Percent(done, total),
               amount.c_str());
  std::fflush(err_);
  line_open_ = true;
}

void ConsoleProgress::EndStage(std::string_view summary) {
  if (verbosity_ < 0) return;
  ClearLine();
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  std::fprintf(err_, "[%2d/%d] %-24s %-28s %6.2f s\n", index_, count_, name_.c_str(), Clean(summary).c_str(),
               seconds);
}

void ConsoleProgress::Warning(std::string_view text) {
  if (verbosity_ < 0) return;
  ClearLine();
  std::fprintf(err_, "qcc: warning: %s\n", Printable(text).c_str());
}

void ConsoleProgress::Report(std::string_view text) {
  ClearLine();
  WriteReport(out_, text);
}

bool ConsoleProgress::Interrupted() const {
  return *interrupted_ != 0;
}

JsonProgress::JsonProgress(std::FILE* err, std::FILE* out, int verbosity,
                           const volatile std::sig_atomic_t* interrupted)
    : err_(err), out_(out), quiet_(verbosity < 0), interrupted_(interrupted) {}

void JsonProgress::BeginStage(int index, int count, std::string_view name) {
  index_ = index;
  count_ = count;
  percent_ = 0;
  name_ = name;
  began_ = Clock::now();
  if (quiet_) return;
  WriteLine(err_, {{"event", "begin"}, {"index", index}, {"count", count}, {"stage", name}, {"percent", 0}});
}

void JsonProgress::Progress(uint64_t done, uint64_t total, std::string_view unit) {
  const int percent = Percent(done, total);
  if (quiet_ || percent == percent_) return;
  percent_ = percent;
  WriteLine(err_, {{"event", "progress"},
                   {"index", index_},
                   {"count", count_},
                   {"stage", name_},
                   {"percent", percent},
                   {"done", done},
                   {"total", total},
                   {"unit", unit}});
}

void JsonProgress::EndStage(std::string_view summary) {
  if (quiet_) return;
  WriteLine(err_, {{"event", "end"},
                   {"index", index_},
                   {"count", count_},
                   {"stage", name_},
                   {"percent", 100},
                   {"summary", summary},
                   {"seconds", std::chrono::duration<double>(Clock::now() - began_).count()}});
}

void JsonProgress::Warning(std::string_view text) {
  if (!quiet_) WriteLine(err_, {{"event", "warning"}, {"text", text}});
}

void JsonProgress::Report(std::string_view text) {
  WriteReport(out_, text);
}

bool JsonProgress::Interrupted() const {
  return *interrupted_ != 0;
}

}  // namespace qcc::compiler
