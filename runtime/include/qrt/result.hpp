// What the classes of qrt.hpp give and take: spans, errors, results, handles that release themselves. A part
// of qrt.hpp.
#ifndef QRT_RESULT_HPP_
#define QRT_RESULT_HPP_

#include <qrt/qrt.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#ifdef QRT_HPP_EXCEPTIONS
#include <stdexcept>
#endif

namespace qrt {
// The names of these headers in object files, apart from those that the library itself has.
inline namespace cpp1 {

// Elements of somebody else: a pointer and how many. Made from anything with data() and size().
template <typename T>
class Span {
 public:
  constexpr Span() = default;
  constexpr Span(T* data, std::size_t size) : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}  // NOLINT: as std::span
  template <typename C, typename = std::enable_if_t<
                            std::is_convertible_v<decltype(std::declval<C&>().data()), T*> &&
                            std::is_convertible_v<decltype(std::declval<C&>().size()), std::size_t>>>
  constexpr Span(C&& container) : data_(container.data()), size_(container.size()) {}  // NOLINT

  constexpr T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// A zeroed C struct that knows its size: options, infos, errors.
template <typename T>
T Sized() {
  T value = {};
  value.struct_size = sizeof value;
  return value;
}

// What went wrong; strings as in qrt_error.
class Error {
 public:
  Error() : error_(Sized<qrt_error>()) {}

  qrt_status status() const { return error_.status; }
  std::uint32_t code() const { return error_.code; }
  const char* message() const { return error_.message; }
  const char* note() const { return error_.note; }
  const char* help() const { return error_.help; }

  qrt_error* out() { return &error_; }
  // Of the wrapper's own allocations.
  static Error OutOfMemory() {
    Error error;
    error.error_.status = QRT_OUT_OF_MEMORY;
    error.error_.code = 6001;
    std::strncpy(error.error_.message, "out of memory", sizeof error.error_.message - 1);
    return error;
  }

 private:
  qrt_error error_;
};

#ifdef QRT_HPP_EXCEPTIONS
class Exception : public std::runtime_error {
 public:
  explicit Exception(const Error& error) : std::runtime_error(error.message()), error_(error) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};
#endif

// A value or the error why there is none, after std::expected. The value of an error must not be asked for.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(const Error& error) : state_(std::in_place_index<1>, error) {}  // NOLINT: implicit on purpose

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& operator*() & { return *Get(); }
  const T& operator*() const& { return *const_cast<Result*>(this)->Get(); }
  T&& operator*() && { return std::move(*Get()); }
  T* operator->() { return Get(); }
  const T* operator->() const { return const_cast<Result*>(this)->Get(); }
  const Error& error() const {
    assert(!has_value());
    return *std::get_if<1>(&state_);
  }
  qrt_status status() const { return has_value() ? static_cast<qrt_status>(QRT_OK) : error().status(); }
  T value_or(T other) && { return has_value() ? std::move(*Get()) : std::move(other); }
  // `next(value)` of type Result<U>, or this error.
  template <typename F>
  auto and_then(F next) && -> decltype(next(std::declval<T&&>())) {
    if (!has_value()) return error();
    return next(std::move(*Get()));
  }
#ifdef QRT_HPP_EXCEPTIONS
  T& value() & {
    if (!has_value()) throw Exception(error());
    return *Get();
  }
  T&& value() && {
    if (!has_value()) throw Exception(error());
    return std::move(*Get());
  }
#endif

 private:
  T* Get() {
    assert(has_value());
    return std::get_if<0>(&state_);
  }
  std::variant<T, Error> state_;
};

struct Done {};
using Outcome = Result<Done>;

namespace internal {

// `call(qrt_error*)` of the C API.
template <typename F>
Outcome Call(F call) {
  Error error;
  if (call(error.out()) != QRT_OK) return error;
  return Done();
}

// The struct that `call(T*, qrt_error*)` fills.
template <typename T, typename F>
Result<T> Info(F call) {
  T info = Sized<T>();
  Error error;
  if (call(&info, error.out()) != QRT_OK) return error;
  return info;
}

// The handle that `call(T**, qrt_error*)` makes, as the class `Handle`.
template <typename Handle, typename T, typename F>
Result<Handle> Make(F call) {
  T* made = nullptr;
  Error error;
  if (call(&made, error.out()) != QRT_OK) return error;
  return Handle(made);
}

// False: no memory. Without exceptions operator new ends the program by itself.
template <typename C>
bool Resize(C& container, std::size_t size) {
#if defined(__cpp_exceptions)
  try {
    container.resize(size);
  } catch (const std::exception&) {
    return false;
  }
#else
  container.resize(size);
#endif
  return true;
}

// What `call(data, capacity, count*, qrt_error*)` writes, however much; `guess`: room at first.
template <typename C, typename F>
Result<C> Fill(std::size_t guess, F call) {
  C out;
  for (std::size_t room = guess;;) {
    if (!Resize(out, room)) return Error::OutOfMemory();
    std::size_t count = 0;
    Error error;
    const qrt_status status = call(room == 0 ? nullptr : out.data(), room, &count, error.out());
    if (status != QRT_OK && status != QRT_BUFFER_TOO_SMALL) return error;
    if (status == QRT_OK) {
      if (!Resize(out, count)) return Error::OutOfMemory();
      return out;
    }
    room = count;
  }
}

template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* handle) const {
    Release(handle);
  }
};

template <typename T, auto Release>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T* taken) : handle_(taken) {}  // takes over one reference
  T* get() const { return handle_.get(); }       // borrowed, for the C API
  T* release() { return handle_.release(); }     // the caller's from now on
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  std::unique_ptr<T, Releaser<Release>> handle_;
};

}  // namespace internal

}  // namespace cpp1
}  // namespace qrt

#endif  // QRT_RESULT_HPP_
