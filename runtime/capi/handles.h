// What stands behind the opaque handles of qrt.h, and the border that no C++ exception crosses.
#ifndef RUNTIME_CAPI_HANDLES_H_
#define RUNTIME_CAPI_HANDLES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/engine/checkpoint.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt::capi {

// Copies of what the embedder injected; the pointers in options need not live longer than the call.
struct Services {
  std::optional<qrt_allocator> allocator;
  std::optional<qrt_log_sink> log;
  // Held while an injected pool runs a step of an engine, which may have a second model beside it; null: of
  // no engine.
  std::shared_ptr<std::mutex> pool_turn;

  const qrt_allocator* allocator_or_null() const { return allocator ? &*allocator : nullptr; }
};

// What the caller brings, where it brings anything (not null), in the place of what is there. Errors:
// INVALID_ARGUMENT (Q5301: one of its functions is NULL).
Status TakeServices(const qrt_allocator* allocator, const qrt_log_sink* log, Services* services);

// One line to the sink, if there is one.
void Log(const Services& services, qrt_log_level level, const std::string& line);

// A handle's memory from the injected allocator or malloc.
void* AllocateHandle(const Services& services, size_t bytes);  // throws std::bad_alloc
void FreeHandle(const Services& services, void* memory, size_t bytes);

// Counted reference of handle type T, which has `refs` and `services`.
template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* handle) : handle_(handle) { handle->refs.fetch_add(1, std::memory_order_relaxed); }
  Ref(Ref&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Ref& operator=(Ref&&) = delete;
  ~Ref() { Drop(handle_); }

  T* get() const { return handle_; }
  T* operator->() const { return handle_; }

  // Gives up one reference; the last one destroys.
  static void Drop(T* handle) {
    if (handle == nullptr || handle->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const Services services = handle->services;
    handle->~T();
    FreeHandle(services, handle, sizeof(T));
  }

 private:
  T* handle_ = nullptr;
};

// Makes a handle with one reference. Throws std::bad_alloc and what T's constructor throws.
template <typename T, typename... Args>
T* NewHandle(const Services& services, Args&&... args) {
  void* memory = AllocateHandle(services, sizeof(T));
  try {
    return new (memory) T(services, std::forward<Args>(args)...);
  } catch (...) {
    FreeHandle(services, memory, sizeof(T));
    throw;
  }
}

// Drops a handle that is not handed out after all.
template <typename T>
struct DropHandle {
  void operator()(T* handle) const { Ref<T>::Drop(handle); }
};
template <typename T>
using Owned = std::unique_ptr<T, DropHandle<T>>;

// Fills *error (may be NULL) and returns the status's code.
qrt_status Report(const Status& status, qrt_error* error) noexcept;
qrt_status ReportOutOfMemory(qrt_error* error) noexcept;
qrt_status ReportException(const char* what, qrt_error* error) noexcept;

// Runs `body` (returns Status) and turns everything that it may throw into a status.
template <typename Body>
qrt_status Guard(qrt_error* error, Body body) noexcept {
  try {
    return Report(body(), error);
  } catch (const std::bad_alloc&) {
    return ReportOutOfMemory(error);
  } catch (const std::length_error&) {
    return ReportOutOfMemory(error);
  } catch (const std::exception& exception) {
    return ReportException(exception.what(), error);
  } catch (...) {
    return ReportException("unknown exception", error);
  }
}

Status NullArgument(const char* name);
Status BadStructSize(const char* name, size_t found, size_t expected);

// Reads an options struct: defaults, overwritten by what the caller's header knows. `first_size`: size in
// release 1.0.
template <typename T>
Status ReadOptions(const T* options, size_t first_size, const char* name, T* out) {
  if (options == nullptr) return Status();
  if (options->struct_size < first_size || options->struct_size > sizeof(T)) {
    return BadStructSize(name, options->struct_size, sizeof(T));
  }
  std::memcpy(out, options, options->struct_size);
  return Status();
}

// Whether WriteInfo can write `out`: to be asked before work that only it is for, or that leaves a trace.
template <typename T>
Status CheckInfo(size_t first_size, const char* name, const T* out) {
  if (out == nullptr) return NullArgument(name);
  if (out->struct_size < first_size) return BadStructSize(name, out->struct_size, sizeof(T));
  return Status();
}

// Writes an info struct, as far as the caller's header knows it; keeps the caller's struct_size.
template <typename T>
Status WriteInfo(const T& value, size_t first_size, const char* name, T* out) {
  QRT_RETURN_IF_ERROR(CheckInfo(first_size, name, out));
  const size_t size = out->struct_size;
  std::memcpy(out, &value, size < sizeof(T) ? size : sizeof(T));
  out->struct_size = size;
  return Status();
}

// Copies text into a fixed field, cut at a whole UTF-8 sequence, always NUL-terminated. A NUL in the text,
// which may be a model's or a file's, becomes '?': it would hide what follows.
template <size_t N>
void CopyText(char (&field)[N], const std::string& text) noexcept {
  const size_t size = text.size() < N ? text.size() : qrt_utf8_whole_prefix(text.data(), N - 1);
  std::replace_copy(text.begin(), text.begin() + static_cast<ptrdiff_t>(size), field, '\0', '?');
  field[size] = '\0';
}

}  // namespace qrt::capi

struct qrt_artifact {
  explicit qrt_artifact(const qrt::capi::Services& services) : services(services) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  std::unique_ptr<qrt::Artifact> artifact;
};

struct qrt_engine {
  qrt_engine(const qrt::capi::Services& services, qrt_artifact* artifact)
      : services(services), artifact(artifact) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  const qrt::capi::Ref<qrt_artifact> artifact;
  std::optional<qrt::capi::Ref<qrt_artifact>> draft;  // linked to it
  std::string devices;                                // names of the devices, in the order in which they run
  std::string variants;                               // of the code on each; one name where all are alike
  std::string passed_over;                            // of device "auto"
  std::unique_ptr<qrt::Engine> engine;
};

struct qrt_session {
  qrt_session(const qrt::capi::Services& services, qrt_engine* engine)
      : services(services), engine(engine), session(*engine->engine, this) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  const qrt::capi::Ref<qrt_engine> engine;
  qrt::Session session;
  uint64_t steps = 0, guessed = 0, accepted = 0;  // qrt_draft_counters
};

struct qrt_checkpoint {
  qrt_checkpoint(const qrt::capi::Services& services, qrt_session* session)
      : services(services), session(session), checkpoint(session->session) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  const qrt::capi::Ref<qrt_session> session;
  qrt::Checkpoint checkpoint;
};

struct qrt_sampler {
  qrt_sampler(const qrt::capi::Services& services, qrt::Sampler sampler)
      : services(services), sampler(std::move(sampler)) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  qrt::Sampler sampler;
};

namespace qrt::capi {

inline Status ReadAppendOptions(const qrt_append_options* options, qrt_append_options* out) {
  QRT_RETURN_IF_ERROR(ReadOptions(options, offsetof(qrt_append_options, sampler), "options", out));
  if (out->sampler == nullptr && out->next != nullptr) {
    return Status(Code::kInvalidArgument, 5305, "options->next without a sampler");
  }
  return Status();
}

// Whether the engine keeps prefixes, and these may be tokens of one.
inline Status CheckPrefixes(const qrt_engine& engine, const int32_t* tokens, size_t count) {
  if (engine.engine->prefixes() == nullptr) {
    if (const uint32_t block = engine.engine->block_beside_prefixes(); block != 0) {
      return Status(Code::kUnavailable, 5353,
                    "prefixes of this model cannot be kept: its state goes in blocks of " +
                        std::to_string(block) + " tokens, expected a divisor of " +
                        std::to_string(PrefixStore::kBlock),
                    "", "append the whole prompt, or restore a snapshot (qrt_session_restore)");
    }
    return Status(Code::kUnavailable, 5353, "the engine keeps no prefixes", "",
                  "make it with qrt_engine_options.prefix_bytes");
  }
  return tokens == nullptr && count != 0 ? NullArgument("tokens") : Status();
}

inline Sampler* SamplerOf(const qrt_append_options& options) {
  return options.sampler != nullptr ? &options.sampler->sampler : nullptr;
}

}  // namespace qrt::capi

#endif  // RUNTIME_CAPI_HANDLES_H_
