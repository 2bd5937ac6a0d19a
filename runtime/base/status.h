// Errors as values. A Status says what went wrong (found and expected), where, and what to do; the C API
// copies it into a qrt_error. Codes: docs/reference/errors.md (Q4xxx artifact, Q5xxx device, Q6xxx memory and
// files).
#ifndef QRT_BASE_STATUS_H_
#define QRT_BASE_STATUS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace qrt {

// The values of qrt_status (runtime/include/qrt/qrt.h); runtime/engine asserts that they agree.
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kOutOfMemory = 2,
  kNotFound = 3,
  kIoError = 4,
  kArtifactCorrupt = 5,
  kArtifactIncompatible = 6,
  kDeviceUnsupported = 7,
  kContextFull = 8,
  kBufferTooSmall = 9,
  kCancelled = 10,
  kSnapshotMismatch = 11,
  kUnavailable = 12,
  kTemplateError = 13,
  kInternal = 14,
  kDeviceLost = 15,
  kDeviceFailed = 16,
  kNumericFault = 17,
};

// Cheap to pass around when ok: one null pointer.
class [[nodiscard]] Status {
 public:
  Status() = default;
  // `number`: the stable number of the condition, printed as Q%04u.
  Status(Code code, uint32_t number, std::string message, std::string note = "", std::string help = "");

  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  uint32_t number() const { return rep_ ? rep_->number : 0; }
  const std::string& message() const { return rep_ ? rep_->message : Empty(); }  // what: found and expected
  const std::string& note() const { return rep_ ? rep_->note : Empty(); }        // where; may be empty
  const std::string& help() const { return rep_ ? rep_->help : Empty(); }        // what to do; may be empty

  // "message [Q4001]; note; help", for logs and tests.
  std::string ToString() const;

 private:
  struct Rep {
    Code code;
    uint32_t number;
    std::string message, note, help;
  };
  static const std::string& Empty();
  std::unique_ptr<Rep> rep_;
};

// A value or the Status why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.ok()) status_ = Status(Code::kInternal, 9001, "a Result was made from an ok Status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }  // ok() when there is a value
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace qrt

// Returns from the enclosing function when `expr` is an error.
#define QRT_RETURN_IF_ERROR(expr)              \
  do {                                         \
    ::qrt::Status qrt_status_ = (expr);        \
    if (!qrt_status_.ok()) return qrt_status_; \
  } while (0)

#endif  // QRT_BASE_STATUS_H_
