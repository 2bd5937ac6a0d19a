// The part of the CUDA driver API that qrt uses, as function pointers. Declared here, so that neither
// NVIDIA's headers nor its library are needed to build; names, types and numbers are those of cuda.h (CUDA
// driver API reference, 11.4 and later).
#ifndef RUNTIME_DEVICE_CUDA_CUDA_API_H_
#define RUNTIME_DEVICE_CUDA_CUDA_API_H_

#include <cstddef>
#include <cstdint>

namespace qrt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;

// CUresult
inline constexpr CUresult kSuccess = 0;
inline constexpr CUresult kOutOfMemory = 2;
inline constexpr CUresult kNoDevice = 100;
inline constexpr CUresult kEccUncorrectable = 214;
inline constexpr CUresult kNotReady = 600;
inline constexpr CUresult kIllegalAddress = 700;
inline constexpr CUresult kLaunchFailed = 719;

// CUdevice_attribute
inline constexpr int kMultiprocessors = 16;
inline constexpr int kMemoryClockKhz = 36;
inline constexpr int kMemoryBusBits = 37;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;

// CUjit_option
inline constexpr int kJitErrorLog = 5;
inline constexpr int kJitErrorLogBytes = 6;

inline constexpr int kAllowOverlap = 6;  // CUlaunchAttributeID: programmatic stream serialization

struct CUlaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int allowed;
  } value;
};
struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned n_attributes;
};
static_assert(sizeof(CUlaunchAttribute) == 72 && sizeof(CUlaunchConfig) == 56, "as in cuda.h");

inline constexpr unsigned kCaptureThreadLocal = 1;   // CUstreamCaptureMode
inline constexpr unsigned kStreamNonBlocking = 1;    // CUstream_flags
inline constexpr unsigned kEventRecordExternal = 1;  // CUevent_record_flags: a node of the graph

// QCC_CUDA_FUNCTION(member, exported name, parameters)
#define QCC_CUDA_FUNCTIONS(F)                                                                             \
  F(Init, "cuInit", (unsigned flags))                                                                     \
  F(DriverGetVersion, "cuDriverGetVersion", (int* version))                                               \
  F(GetErrorName, "cuGetErrorName", (CUresult error, const char** text))                                  \
  F(GetErrorString, "cuGetErrorString", (CUresult error, const char** text))                              \
  F(DeviceGetCount, "cuDeviceGetCount", (int* count))                                                     \
  F(DeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                           \
  F(DeviceGetName, "cuDeviceGetName", (char* name, int length, CUdevice device))                          \
  F(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                             \
  F(DeviceGetAttribute, "cuDeviceGetAttribute", (int* value, int attribute, CUdevice device))             \
  F(CtxCreate, "cuCtxCreate_v2", (CUcontext * context, unsigned flags, CUdevice device))                  \
  F(CtxDestroy, "cuCtxDestroy_v2", (CUcontext context))                                                   \
  F(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                           \
  F(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                           \
  F(MemGetInfo, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total))                                 \
  F(ModuleLoadDataEx, "cuModuleLoadDataEx",                                                               \
    (CUmodule * module, const void* image, unsigned n_options, int* options, void** values))              \
  F(ModuleUnload, "cuModuleUnload", (CUmodule module))                                                    \
  F(ModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char* name)) \
  F(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                                     \
  F(MemFree, "cuMemFree_v2", (CUdeviceptr address))                                                       \
  F(MemAllocHost, "cuMemAllocHost_v2", (void** memory, size_t bytes))                                     \
  F(MemFreeHost, "cuMemFreeHost", (void* memory))                                                         \
  F(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                              \
    (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))                                    \
  F(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void* to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  F(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                              \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                                    \
  F(MemsetD8Async, "cuMemsetD8Async",                                                                     \
    (CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream))                            \
  F(StreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                  \
  F(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                               \
  F(StreamQuery, "cuStreamQuery", (CUstream stream))                                                      \
  F(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                      \
  F(EventRecordWithFlags, "cuEventRecordWithFlags", (CUevent event, CUstream stream, unsigned flags))     \
  F(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                                   \
  F(EventElapsedTime, "cuEventElapsedTime", (float* milliseconds, CUevent begin, CUevent end))            \
  F(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, unsigned mode))                      \
  F(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                           \
  F(GraphInstantiate, "cuGraphInstantiateWithFlags",                                                      \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                        \
  F(GraphUpload, "cuGraphUpload", (CUgraphExec exec, CUstream stream))                                    \
  F(GraphDestroy, "cuGraphDestroy", (CUgraph graph))                                                      \
  F(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec))                                           \
  F(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                                    \
  F(LaunchKernel, "cuLaunchKernel",                                                                       \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,            \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,       \
     void** extra))

// Those that older drivers lack: null there.
#define QCC_CUDA_LATER_FUNCTIONS(F)     \
  F(LaunchKernelEx, "cuLaunchKernelEx", \
    (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))

// Filled by CudaLoader; copied by whoever uses it.
struct Functions {
#define QCC_CUDA_MEMBER(member, name, parameters) CUresult(*member) parameters = nullptr;
  QCC_CUDA_FUNCTIONS(QCC_CUDA_MEMBER)
  QCC_CUDA_LATER_FUNCTIONS(QCC_CUDA_MEMBER)
#undef QCC_CUDA_MEMBER
};

}  // namespace qrt::cuda

#endif  // RUNTIME_DEVICE_CUDA_CUDA_API_H_
