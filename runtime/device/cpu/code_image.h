// Native code of an artifact, made executable.
#ifndef RUNTIME_DEVICE_CPU_CODE_IMAGE_H_
#define RUNTIME_DEVICE_CPU_CODE_IMAGE_H_

#include <cstdint>
#include <span>
#include <utility>

#include "runtime/abi/program.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace qrt {

// A private copy of a code blob: first writable, then hashed, then read-and-execute, never two at once. A
// copy, because the file may change after it was verified, and may lie where execution is not allowed.
class CodeImage {
 public:
  CodeImage() = default;
  ~CodeImage();
  CodeImage(CodeImage&& other) noexcept { *this = std::move(other); }
  CodeImage& operator=(CodeImage&& other) noexcept;

  // Errors: artifact corrupt (the bytes do not hash to `expected`, the header is not that of `n_programs`
  // programs of this ABI, asks for too much scratch or has too many stages, an entry lies outside), out of
  // memory, device unsupported (the system refuses executable memory).
  static Result<CodeImage> Load(std::span<const uint8_t> code, const Hash128& expected, size_t n_programs);

  // What a step needs besides stack (runtime/abi/program.h): each thread, and all of them together.
  struct Scratch {
    uint64_t thread, shared;
    uint64_t bytes(uint64_t threads) const { return thread * threads + shared; }
  };
  // `code`: a checked blob.
  static Scratch ScratchOf(std::span<const uint8_t> code);

  uint64_t bytes() const { return bytes_; }
  Scratch scratch() const { return ScratchOf({data_, bytes_}); }
  uint32_t stages() const;
  // `program` < n_programs.
  qrt_step_fn entry(uint32_t program) const;

 private:
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_CODE_IMAGE_H_
