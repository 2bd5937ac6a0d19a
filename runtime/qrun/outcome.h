// How a command ended: exit code and, when it failed, the three lines to print.
#ifndef RUNTIME_QRUN_OUTCOME_H_
#define RUNTIME_QRUN_OUTCOME_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/include/qrt/qrt.h"

namespace qrun {

// Exit codes; scripts rely on them.
enum Exit : int {
  kExitOk = 0,
  kExitInternal = 1,
  kExitUsage = 2,
  kExitInput = 3,      // the prompt, text or token file is refused
  kExitArtifact = 4,   // the .qbin is missing, corrupt or incompatible
  kExitDevice = 5,     // no code for this machine, or it computes wrong values
  kExitResources = 6,  // out of memory or disk
  kExitInterrupted = 130,
};

// Ok, or a failure with exit code, Q number, what, where, what to do.
class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  static Outcome Fail(Exit exit, uint32_t number, std::string message, std::string note = "",
                      std::string help = "");
  // Of a failed call of the library.
  static Outcome Of(const qrt_error& error);
  // Ends with that code and prints nothing (the reason is already known to the user).
  static Outcome Silent(Exit exit);
  // Whoever reads stdout has what it wanted: nothing more is written, which is no failure (exit code 0).
  static Outcome ReaderLeft() { return Silent(kExitOk); }

  bool ok() const { return rep_ == nullptr; }
  bool reader_left() const { return rep_ != nullptr && rep_->silent && rep_->exit == kExitOk; }
  int exit_code() const { return rep_ ? rep_->exit : kExitOk; }
  uint32_t number() const { return rep_ ? rep_->number : 0; }  // the N of [QN]; 0: none is printed
  // "qrun: error: what [Q4001]\n  note: ...\n  help: ...\n", each one line of text that is safe to show;
  // empty for ok and silent outcomes.
  std::string Text() const;

 private:
  struct Rep {
    Exit exit;
    uint32_t number;
    std::string message, note, help;
    bool silent;
  };
  std::unique_ptr<Rep> rep_;
};

constexpr uint32_t kToolsRefused = 7005;  // the code of tools that are no JSON array

// An error struct ready for a call.
inline qrt_error NewError() {
  qrt_error error = {};
  error.struct_size = sizeof error;
  return error;
}

}  // namespace qrun

#define QRUN_RETURN_IF_ERROR(expr)                 \
  do {                                             \
    ::qrun::Outcome qrun_outcome_ = (expr);        \
    if (!qrun_outcome_.ok()) return qrun_outcome_; \
  } while (0)

// Calls a library function whose last argument is `&error`, and returns its failure from the enclosing
// function.
#define QRUN_CALL(expr)                                      \
  do {                                                       \
    qrt_error error = ::qrun::NewError();                    \
    if ((expr) != QRT_OK) return ::qrun::Outcome::Of(error); \
  } while (0)

#endif  // RUNTIME_QRUN_OUTCOME_H_
