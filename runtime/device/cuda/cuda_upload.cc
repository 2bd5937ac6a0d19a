#include "runtime/device/cuda/cuda_upload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/base/signals_blocked.h"

namespace qrt::cuda {
namespace {

// Their first touch is a fault, so one thread copies pages of a file slower than a link takes them: on a Zen
// 4 mapped pages of the page cache at 4.6 GB/s, two threads at 8.
constexpr size_t kThreads = 4;
constexpr uint64_t kLeastEach = uint64_t{1} << 20;

// Pinned memory.
class Piece {
 public:
  Piece(const Functions& call, uint64_t bytes) : call_(call) {
    result_ = call.MemAllocHost(&memory_, static_cast<size_t>(bytes));
    if (result_ != kSuccess) memory_ = nullptr;
  }
  ~Piece() {
    if (memory_ != nullptr) call_.MemFreeHost(memory_);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  CUresult result() const { return result_; }
  uint8_t* bytes() const { return static_cast<uint8_t*>(memory_); }

 private:
  const Functions& call_;
  void* memory_ = nullptr;
  CUresult result_;
};

void Fill(uint8_t* to, std::span<const uint8_t> from) {
  const size_t most = std::max(1u, std::thread::hardware_concurrency());
  const size_t threads = std::clamp<size_t>(from.size() / kLeastEach, 1, std::min(kThreads, most));
  const size_t each = (from.size() + threads - 1) / threads;
  const auto copy = [&](size_t i) {
    const size_t begin = std::min(i * each, from.size());
    std::memcpy(to + begin, from.data() + begin, std::min(each, from.size() - begin));
  };
  std::vector<std::jthread> others;
  others.reserve(threads - 1);
  const SignalsBlocked blocked;
  size_t begun = 1;
  try {
    for (; begun < threads; ++begun) others.emplace_back([&copy, i = begun] { copy(i); });
  } catch (const std::system_error&) {
    // The system gives no more threads: the rest is done here.
  }
  copy(0);
  for (size_t i = begun; i < threads; ++i) copy(i);
}

}  // namespace

CUresult Upload(const Functions& call, CUstream stream, CUdeviceptr to, std::span<const uint8_t> from,
                const std::function<CUresult()>& wait, const std::function<bool(uint64_t bytes)>& progress,
                bool* stopped) {
  *stopped = false;
  if (from.empty()) return kSuccess;
  const uint64_t most = std::min<uint64_t>(kUploadPiece, from.size());
  const Piece pieces[] = {{call, most}, {call, from.size() > most ? most : 1}};
  CUresult result = kSuccess;
  for (const Piece& piece : pieces) {
    if (result == kSuccess) result = piece.result();
  }
  // The device may fetch from a piece for as long as nobody has waited.
  struct Waits {
    const std::function<CUresult()>& wait;
    CUresult& result;
    ~Waits() {
      const CUresult ended = wait();
      if (result == kSuccess) result = ended;
    }
  };
  {
    const Waits at_end{wait, result};
    size_t next = 0;
    for (uint64_t at = 0; at < from.size() && result == kSuccess && !*stopped; next = 1 - next) {
      const uint64_t bytes = std::min(most, from.size() - at);
      Fill(pieces[next].bytes(), from.subspan(at, bytes));
      result = wait();  // for the other piece: from here on it can be filled
      if (result == kSuccess) {
        result = call.MemcpyHtoDAsync(to + at, pieces[next].bytes(), static_cast<size_t>(bytes), stream);
      }
      at += bytes;
      *stopped = result == kSuccess && !progress(at);
    }
  }
  return result;
}

}  // namespace qrt::cuda
