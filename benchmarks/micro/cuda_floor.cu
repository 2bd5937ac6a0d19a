// What an NVIDIA GPU takes for nothing, and how fast it reads: the floor and the ceiling of decoding. Prints
// microseconds a launch of graphs of empty kernels, one waiting for the other, plain and with programmatic
// dependent launch, and GB/s of a copy and of reading alone, by size.
//
//   nvcc -O2 -arch=native -o cuda_floor benchmarks/micro/cuda_floor.cu && ./cuda_floor
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "cuda_floor: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

// Each kernel reads what another workgroup of the one before it wrote.
__global__ void Plain(unsigned* words) {
  if (threadIdx.x == 0) words[blockIdx.x] = words[(blockIdx.x + 1) % gridDim.x] + 1;
}
__global__ void Overlapping(unsigned* words) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (threadIdx.x == 0) words[blockIdx.x] = words[(blockIdx.x + 1) % gridDim.x] + 1;
}

// from: [n]. Four loads of 16 bytes are on their way at a time, fewer only where less is left.
__global__ void ReadAll(const uint4* from, size_t n, unsigned* out) {
  constexpr int kAtOnce = 4;
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned sum = 0;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < n; i += kAtOnce * stride) {
    uint4 read[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      read[k] = i + k * stride < n ? from[i + k * stride] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum += read[k].x ^ read[k].y ^ read[k].z ^ read[k].w;
  }
  if (sum == 0x12345678) *out = sum;  // so that the loads stay
}

// Median microseconds of what `work` puts on the stream.
template <typename Work>
float Microseconds(cudaStream_t stream, const Work& work) {
  constexpr int kTimes = 31;
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin), "cudaEventCreate");
  Check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> all;
  for (int i = 0; i < kTimes; ++i) {
    Check(cudaEventRecord(begin, stream), "cudaEventRecord");
    work(i);
    Check(cudaEventRecord(end, stream), "cudaEventRecord");
    Check(cudaStreamSynchronize(stream), "waiting");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    all.push_back(milliseconds * 1000);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

float OfLaunch(cudaStream_t stream, bool overlap, unsigned* words, int workgroups) {
  constexpr int kLaunches = 150, kThreads = 128;  // about a token's
  cudaGraph_t graph;
  cudaGraphExec_t launchable;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording");
  for (int i = 0; i < kLaunches; ++i) {
    cudaLaunchAttribute allow = {};
    allow.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    allow.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = workgroups;
    config.blockDim = kThreads;
    config.stream = stream;
    config.attrs = &allow;
    config.numAttrs = overlap && i > 0 ? 1 : 0;
    Check(cudaLaunchKernelEx(&config, overlap ? Overlapping : Plain, words), "a launch");
  }
  Check(cudaStreamEndCapture(stream, &graph), "recording");
  Check(cudaGraphInstantiate(&launchable, graph, 0), "cudaGraphInstantiate");
  return Microseconds(stream, [&](int) { Check(cudaGraphLaunch(launchable, stream), "cudaGraphLaunch"); }) /
         kLaunches;
}

}  // namespace

int main() {
  constexpr size_t kMiB = size_t{1} << 20, kMost = 4096 * kMiB, kLeast = 64 * kMiB;
  constexpr unsigned kThreads = 256;
  cudaDeviceProp device;
  Check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  cudaStream_t stream;
  Check(cudaStreamCreate(&stream), "cudaStreamCreate");
  size_t free_bytes = 0, all_bytes = 0;
  Check(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  // Two blocks, and an eighth of what is free for what else the driver wants.
  const size_t block = std::min(kMost, free_bytes / 16 * 7 / kLeast * kLeast);
  if (block == 0) {
    std::fprintf(stderr, "cuda_floor: %zu MiB of device memory are free, too few\n", free_bytes / kMiB);
    return 1;
  }
  char *from, *to;
  Check(cudaMalloc(&from, block), "cudaMalloc");
  Check(cudaMalloc(&to, block), "cudaMalloc");
  Check(cudaMemset(from, 1, block), "cudaMemset");
  unsigned* words = reinterpret_cast<unsigned*>(to);
  const int multiprocessors = device.multiProcessorCount;
  std::printf("%s, %d multiprocessors\n\n| workgroups | us a launch | overlapping |\n|--:|--:|--:|\n",
              device.name, multiprocessors);
  for (int workgroups : {1, multiprocessors, 4 * multiprocessors, 8 * multiprocessors}) {
    std::printf("| %d | %.2f | %.2f |\n", workgroups, OfLaunch(stream, false, words, workgroups),
                OfLaunch(stream, true, words, workgroups));
  }
  const float copy = Microseconds(stream, [&](int) {
    Check(cudaMemcpyAsync(to, from, block, cudaMemcpyDeviceToDevice, stream), "a copy");
  });
  std::printf("\ncopy of %zu MiB: %.0f GB/s, read and written\n\n| read, MiB | GB/s | us |\n|--:|--:|--:|\n",
              block / kMiB, 2e-3 * block / copy);
  for (size_t bytes : {2 * kMiB, 8 * kMiB, 32 * kMiB, block}) {
    // Another place each time: else the second-level cache has it.
    const size_t places = block / bytes, loads = bytes / sizeof(uint4);
    // As many workgroups as the device holds at once, or as have something to read.
    const size_t workgroups = std::min<size_t>(8 * multiprocessors, loads / kThreads);
    const float read = Microseconds(stream, [&](int i) {
      const char* at = from + i * std::max<size_t>(places / 32, 1) % places * bytes;
      ReadAll<<<static_cast<unsigned>(workgroups), kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(at),
                                                                          loads, words);
      Check(cudaGetLastError(), "a launch");
    });
    std::printf("| %zu | %.0f | %.1f |\n", bytes / kMiB, 1e-3 * bytes / read, read);
  }
}
