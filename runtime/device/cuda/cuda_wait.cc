#include "runtime/device/cuda/cuda_wait.h"

#include <algorithm>
#include <thread>

namespace qrt::cuda {
namespace {

// Until then, for a token of small models, the thread asks again at once, as the driver's own wait does. Then
// it sleeps in between, a hundredth of what has passed, so that a prompt leaves the core to others.
constexpr std::chrono::milliseconds kAsksAtOnce{4};
constexpr std::chrono::nanoseconds kShortestSleep = std::chrono::microseconds{20};

template <typename... Parameters>
void DoNothing(CUresult (**function)(Parameters...)) {
  *function = [](Parameters...) { return kSuccess; };
}

}  // namespace

CUresult WaitFor(const Functions& call, CUstream stream, std::chrono::nanoseconds longest) {
  const auto begin = std::chrono::steady_clock::now();
  for (bool late = false;;) {
    const CUresult result = call.StreamQuery(stream);
    if (result != kNotReady || late) return result;
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - begin;
    // Asked once more: the process may have been stopped since the answer, and the device done meanwhile.
    late = passed >= longest;
    if (!late && passed > kAsksAtOnce) std::this_thread::sleep_for(std::max(kShortestSleep, passed / 100));
  }
}

void KeepAll(Functions& call) {
  DoNothing(&call.MemFree);
  DoNothing(&call.MemFreeHost);
  DoNothing(&call.GraphExecDestroy);
  DoNothing(&call.EventDestroy);
  DoNothing(&call.ModuleUnload);
  DoNothing(&call.StreamDestroy);
  DoNothing(&call.CtxDestroy);
}

}  // namespace qrt::cuda
