#include "tests/unit/device_cuda/fake_cuda.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/cuda/cuda_api.h"

namespace qrt {

FakeCuda* FakeCuda::now = nullptr;

FakeCuda::FakeCuda() {
  now = this;
}
FakeCuda::~FakeCuda() {
  now = nullptr;
  Current().clear();
}

std::vector<void*>& FakeCuda::Current() {
  static thread_local std::vector<void*> current;
  return current;
}

FakeCuda::Graph FakeCuda::Launched() const {
  Graph all;
  for (const Graph& graph : launched) all.insert(all.end(), graph.begin(), graph.end());
  return all;
}

namespace {

bool Holds(const std::map<uint64_t, std::vector<uint8_t>>& blocks, uint64_t address, uint64_t bytes) {
  for (const auto& [base, block] : blocks) {
    if (address >= base && address - base <= block.size() && bytes <= block.size() - (address - base))
      return true;
  }
  return false;
}

}  // namespace

bool FakeCuda::Inside(uint64_t address, uint64_t bytes) const {
  return Holds(memory, address, bytes);
}

bool FakeCuda::Pinned(const void* at, uint64_t bytes) const {
  return Holds(pinned, reinterpret_cast<uint64_t>(at), bytes);
}

void FakeCuda::Wait() {
  for (const std::function<void()>& work : pending) work();
  pending.clear();
}

namespace {

using namespace cuda;

constexpr CUresult kInvalidValue = 1;
constexpr CUresult kInvalidContext = 201;

// True when this call is to fail.
bool Fails(const char* function) {
  FakeCuda& fake = *FakeCuda::now;
  ++fake.calls;
  if (fake.fail_at == 0 || (!fake.fail_function.empty() && fake.fail_function != function)) return false;
  return --fake.fail_at == 0;
}
// A thread inside a function of the driver.
thread_local int depth = 0;
struct Within {
  Within() { ++depth; }
  ~Within() { --depth; }
};

#define FAKE_ENTER(function)       \
  const Within within;             \
  FakeCuda& fake = *FakeCuda::now; \
  if (Fails(function)) return fake.fail_with

void Problem(std::string text) {
  FakeCuda::now->problems.push_back(std::move(text));
}

// What needs a current context, and may be called while a stream is captured or not.
void Needs(const char* function, bool may_capture = false) {
  if (FakeCuda::Current().empty()) Problem(std::string(function) + " without a current context");
  if (FakeCuda::now->capturing && !may_capture) Problem(std::string(function) + " during a capture");
}

template <typename T>
T Handle(std::set<void*>& live) {
  void* handle = new char;
  live.insert(handle);
  return static_cast<T>(handle);
}
void Drop(std::set<void*>& live, void* handle, const char* what) {
  if (live.erase(handle) == 0) {
    Problem(std::string("not a live ") + what);
    return;
  }
  delete static_cast<char*>(handle);
}

CUresult Init(unsigned) {
  FAKE_ENTER("cuInit");
  return kSuccess;
}
CUresult DriverGetVersion(int* version) {
  *version = FakeCuda::now->version;
  return kSuccess;
}
CUresult ErrorName(CUresult, const char** text) {
  *text = "CUDA_ERROR_FAKE";
  return kSuccess;
}
CUresult ErrorString(CUresult, const char** text) {
  *text = "made to fail";
  return kSuccess;
}
CUresult DeviceGetCount(int* count) {
  FAKE_ENTER("cuDeviceGetCount");
  *count = fake.devices;
  return kSuccess;
}
CUresult DeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
CUresult DeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return kSuccess;
}
CUresult DeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return kSuccess;
}
CUresult DeviceGetAttribute(int* value, int attribute, CUdevice) {
  if (FakeCuda::now->unknown_attributes.count(attribute) != 0) return kInvalidValue;
  switch (attribute) {
    case kCapabilityMajor:
      *value = FakeCuda::now->capability / 10;
      break;
    case kCapabilityMinor:
      *value = FakeCuda::now->capability % 10;
      break;
    case kMemoryClockKhz:
      *value = FakeCuda::now->memory_clock_khz;
      break;
    case kMemoryBusBits:
      *value = FakeCuda::now->memory_bus_bits;
      break;
    case kMultiprocessors:
      *value = FakeCuda::now->multiprocessors;
      break;
    default:
      *value = 1024;
      break;
  }
  return kSuccess;
}
CUresult CtxCreate(CUcontext* context, unsigned, CUdevice) {
  FAKE_ENTER("cuCtxCreate_v2");
  *context = reinterpret_cast<CUcontext>(Handle<char*>(fake.contexts));
  FakeCuda::Current().push_back(*context);
  return kSuccess;
}
CUresult CtxDestroy(CUcontext context) {
  FakeCuda::now->Wait();
  for (void* current : FakeCuda::Current()) {
    if (current == context) Problem("a context is destroyed while it is current");
  }
  Drop(FakeCuda::now->contexts, context, "context");
  return kSuccess;
}
CUresult CtxPush(CUcontext context) {
  FAKE_ENTER("cuCtxPushCurrent_v2");
  if (fake.contexts.count(context) == 0) Problem("a dead context is made current");
  FakeCuda::Current().push_back(context);
  return kSuccess;
}
CUresult CtxPop(CUcontext* context) {
  std::vector<void*>& current = FakeCuda::Current();
  if (current.empty()) {
    Problem("cuCtxPopCurrent without a current context");
    return kInvalidContext;
  }
  *context = static_cast<CUcontext>(current.back());
  current.pop_back();
  return kSuccess;
}
CUresult MemGetInfo(size_t* free_bytes, size_t* total) {
  Needs("cuMemGetInfo_v2");
  *free_bytes = 1;
  *total = 2;
  return kSuccess;
}
CUresult ModuleLoad(CUmodule* module, const void* image, unsigned options, int* names, void** values) {
  FakeCuda& fake = *FakeCuda::now;
  const Within within;
  Needs("cuModuleLoadDataEx");
  if (options != 2 || names[0] != kJitErrorLog || names[1] != kJitErrorLogBytes) {
    Problem("PTX is compiled without a place for errors");
    return kInvalidValue;
  }
  if (Fails("cuModuleLoadDataEx")) {
    // The driver writes as much as there is room for, and says how much that was.
    const size_t room = reinterpret_cast<size_t>(values[1]),
                 bytes = std::min(room, fake.compiler_says.size());
    std::memcpy(values[0], fake.compiler_says.data(), bytes);
    values[1] = reinterpret_cast<void*>(bytes);
    return fake.fail_with;
  }
  fake.ptx = static_cast<const char*>(image);
  *module = reinterpret_cast<CUmodule>(Handle<char*>(fake.modules));
  return kSuccess;
}
CUresult ModuleUnload(CUmodule module) {
  Needs("cuModuleUnload");
  Drop(FakeCuda::now->modules, module, "module");
  return kSuccess;
}
struct Entry {
  std::string name;
  size_t parameters = 0;  // that it declares
};
std::vector<Entry>& Entries() {
  static auto* entries = new std::vector<Entry>(1);  // 0 is no function
  return *entries;
}
CUresult ModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  FAKE_ENTER("cuModuleGetFunction");
  Needs("cuModuleGetFunction");
  Entry entry{name};
  const size_t at = fake.ptx.find(".entry " + entry.name + "(");
  if (at == std::string::npos) {
    Problem("the PTX has no entry " + entry.name);
  } else {
    const std::string head = fake.ptx.substr(at, fake.ptx.find('{', at) - at);
    for (size_t p = head.find(".param"); p != std::string::npos; p = head.find(".param", p + 1))
      ++entry.parameters;
  }
  Entries().push_back(entry);
  *function = reinterpret_cast<CUfunction>(Entries().size() - 1);
  return kSuccess;
}
CUresult MemAlloc(CUdeviceptr* address, size_t bytes) {
  FAKE_ENTER("cuMemAlloc_v2");
  Needs("cuMemAlloc_v2");
  if (bytes == 0) return kInvalidValue;
  std::vector<uint8_t> block(bytes, 0xcd);
  *address = reinterpret_cast<uint64_t>(block.data());
  fake.memory.emplace(*address, std::move(block));
  return kSuccess;
}
CUresult MemFree(CUdeviceptr address) {
  Needs("cuMemFree_v2");
  FakeCuda::now->Wait();
  if (FakeCuda::now->memory.erase(address) == 0) Problem("cuMemFree of what is no allocation");
  return kSuccess;
}
CUresult MemAllocHost(void** memory, size_t bytes) {
  FAKE_ENTER("cuMemAllocHost_v2");
  Needs("cuMemAllocHost_v2");
  std::vector<uint8_t> block(bytes);
  *memory = block.data();
  fake.pinned.emplace(reinterpret_cast<uint64_t>(block.data()), std::move(block));
  return kSuccess;
}
CUresult MemFreeHost(void* memory) {
  Needs("cuMemFreeHost");
  FakeCuda::now->Wait();
  if (FakeCuda::now->pinned.erase(reinterpret_cast<uint64_t>(memory)) == 0)
    Problem("cuMemFreeHost of what is none");
  return kSuccess;
}
// Pageable memory is read before the call returns, for which that may wait for the stream; pinned memory
// whenever the stream comes to it.
CUresult ToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemcpyHtoDAsync_v2");
  Needs("cuMemcpyHtoDAsync_v2");
  ++fake.uploads;
  if (!fake.Inside(to, bytes)) {
    Problem("a copy to the device outside of memory");
    return kSuccess;
  }
  if (fake.Pinned(from, bytes)) {
    fake.pending.push_back([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
    return kSuccess;
  }
  if (fake.hangs) Problem("a copy from pageable memory waits for ever");
  const auto* begin = static_cast<const uint8_t*>(from);
  fake.pending.push_back([to, copy = std::vector<uint8_t>(begin, begin + bytes)] {
    std::memcpy(reinterpret_cast<void*>(to), copy.data(), copy.size());
  });
  return kSuccess;
}
CUresult ToHost(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemcpyDtoHAsync_v2");
  Needs("cuMemcpyDtoHAsync_v2");
  if (!fake.Inside(from, bytes)) {
    Problem("a copy from the device outside of memory");
    return kSuccess;
  }
  fake.pending.push_back([=, result = fake.fill_results] {
    const bool fill = bytes == sizeof result && result != 0;
    std::memcpy(to, fill ? static_cast<const void*>(&result) : reinterpret_cast<void*>(from), bytes);
  });
  if (fake.Pinned(to, bytes)) return kSuccess;
  if (fake.hangs) Problem("a copy to pageable memory waits for ever");
  fake.Wait();
  return kSuccess;
}
CUresult OnDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemcpyDtoDAsync_v2");
  Needs("cuMemcpyDtoDAsync_v2");
  if (!fake.Inside(from, bytes) || !fake.Inside(to, bytes) || (from < to + bytes && to < from + bytes)) {
    Problem("a copy on the device outside of memory, or onto itself");
    return kSuccess;
  }
  fake.pending.push_back(
      [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}
CUresult Memset(CUdeviceptr address, unsigned char value, size_t bytes, CUstream) {
  FAKE_ENTER("cuMemsetD8Async");
  Needs("cuMemsetD8Async");
  if (!fake.Inside(address, bytes)) {
    Problem("a fill outside of memory");
    return kSuccess;
  }
  fake.pending.push_back([=] { std::memset(reinterpret_cast<void*>(address), value, bytes); });
  return kSuccess;
}
CUresult StreamCreate(CUstream* stream, unsigned) {
  FAKE_ENTER("cuStreamCreate");
  Needs("cuStreamCreate");
  *stream = reinterpret_cast<CUstream>(Handle<char*>(fake.streams));
  return kSuccess;
}
CUresult StreamDestroy(CUstream stream) {
  Needs("cuStreamDestroy_v2");
  Drop(FakeCuda::now->streams, stream, "stream");
  return kSuccess;
}
CUresult StreamQuery(CUstream) {
  FAKE_ENTER("cuStreamQuery");
  Needs("cuStreamQuery");
  if (fake.hangs) return kNotReady;
  ++fake.waits;
  fake.Wait();
  return kSuccess;
}
CUresult BeginCapture(CUstream, unsigned) {
  FAKE_ENTER("cuStreamBeginCapture_v2");
  Needs("cuStreamBeginCapture_v2", true);
  if (fake.capturing) Problem("a capture inside a capture");
  fake.capturing = true;
  fake.recording.clear();
  fake.marks.clear();
  return kSuccess;
}
std::map<void*, FakeCuda::Graph>& Graphs() {
  static auto* graphs = new std::map<void*, FakeCuda::Graph>;
  return *graphs;
}
std::map<void*, std::vector<void*>>& Marks() {
  static auto* marks = new std::map<void*, std::vector<void*>>;
  return *marks;
}
CUresult EventCreate(CUevent* event, unsigned) {
  FAKE_ENTER("cuEventCreate");
  Needs("cuEventCreate");
  *event = reinterpret_cast<CUevent>(Handle<char*>(fake.events));
  return kSuccess;
}
CUresult EventDestroy(CUevent event) {
  Needs("cuEventDestroy_v2");
  Drop(FakeCuda::now->events, event, "event");
  return kSuccess;
}
CUresult EventRecordWithFlags(CUevent event, CUstream, unsigned flags) {
  FAKE_ENTER("cuEventRecordWithFlags");
  Needs("cuEventRecordWithFlags", true);
  if (!fake.capturing || flags != kEventRecordExternal) Problem("an event is no node of a graph");
  if (fake.events.count(event) == 0) Problem("a dead event is recorded");
  if (fake.marks.size() != fake.recording.size()) Problem("a launch has no event of its own behind it");
  if (!fake.recording.empty()) fake.recording.back().marked = true;
  fake.marks.push_back(event);
  return kSuccess;
}
CUresult EventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  FAKE_ENTER("cuEventElapsedTime");
  Needs("cuEventElapsedTime");
  if (!fake.happened.contains(begin) || !fake.happened.contains(end)) {
    Problem("the time between events that did not happen");
    return kNotReady;
  }
  *milliseconds = static_cast<float>(fake.happened[end] - fake.happened[begin]) * 1e-3f;
  return kSuccess;
}
CUresult EndCapture(CUstream, CUgraph* graph) {
  FakeCuda::now->capturing = false;
  FAKE_ENTER("cuStreamEndCapture");
  *graph = reinterpret_cast<CUgraph>(Handle<char*>(fake.graphs));
  Graphs()[*graph] = fake.recording;
  Marks()[*graph] = fake.marks;
  return kSuccess;
}
CUresult GraphUpload(CUgraphExec exec, CUstream) {
  FAKE_ENTER("cuGraphUpload");
  Needs("cuGraphUpload");
  if (!fake.execs.contains(exec)) Problem("a graph is uploaded that is not there");
  fake.uploaded.insert(exec);
  return kSuccess;
}
CUresult Instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  FAKE_ENTER("cuGraphInstantiateWithFlags");
  Needs("cuGraphInstantiateWithFlags");
  *exec = reinterpret_cast<CUgraphExec>(Handle<char*>(fake.execs));
  Graphs()[*exec] = Graphs()[graph];
  Marks()[*exec] = Marks()[graph];
  return kSuccess;
}
CUresult GraphDestroy(CUgraph graph) {
  Drop(FakeCuda::now->graphs, graph, "graph");
  return kSuccess;
}
CUresult ExecDestroy(CUgraphExec exec) {
  Drop(FakeCuda::now->execs, exec, "executable graph");
  return kSuccess;
}
CUresult GraphLaunch(CUgraphExec exec, CUstream) {
  FAKE_ENTER("cuGraphLaunch");
  Needs("cuGraphLaunch");
  if (fake.execs.count(exec) == 0) Problem("a dead graph is launched");
  if (fake.uploaded.count(exec) == 0) Problem("a graph is launched that was not uploaded");
  fake.launched.push_back(Graphs()[exec]);
  if (Marks()[exec].empty()) return kSuccess;
  fake.pending.push_back([marks = Marks()[exec], graph = Graphs()[exec]] {
    FakeCuda& later = *FakeCuda::now;
    for (size_t i = 0; i < marks.size(); ++i) {
      if (i != 0) later.clock += uint64_t{graph[i - 1].grid[0]} * graph[i - 1].grid[1] * graph[i - 1].grid[2];
      later.happened[marks[i]] = later.clock;
    }
  });
  return kSuccess;
}
CUresult LaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                      unsigned, unsigned, CUstream, void** parameters, void**) {
  FAKE_ENTER("cuLaunchKernel");
  Needs("cuLaunchKernel", true);
  if (!fake.capturing) Problem("a kernel is launched outside of a graph");
  const Entry& entry = Entries()[reinterpret_cast<size_t>(function)];
  FakeCuda::Launch launch{entry.name, {x, y, z}, threads, {}};
  for (size_t i = 0; i < entry.parameters; ++i) launch.args.push_back(*static_cast<uint64_t*>(parameters[i]));
  fake.recording.push_back(std::move(launch));
  return kSuccess;
}
CUresult LaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  FAKE_ENTER("cuLaunchKernelEx");
  if (config->n_attributes != 1 || config->attributes[0].id != kAllowOverlap ||
      config->attributes[0].value.allowed != 1) {
    Problem("a launch has an attribute that is not that it may overlap");
  }
  const bool alone = fake.recording.empty();
  if (alone) Problem("the first kernel of a graph overlaps with none");
  const CUresult result =
      LaunchKernel(function, config->grid_x, config->grid_y, config->grid_z, config->block_x, config->block_y,
                   config->block_z, config->shared_bytes, config->stream, parameters, extra);
  if (result == kSuccess) fake.recording.back().overlaps = true;
  return result;
}

void* Function(const std::string& name) {
  static const std::map<std::string, void*> functions = {
      {"cuInit", reinterpret_cast<void*>(Init)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(DriverGetVersion)},
      {"cuGetErrorName", reinterpret_cast<void*>(ErrorName)},
      {"cuGetErrorString", reinterpret_cast<void*>(ErrorString)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(DeviceGetCount)},
      {"cuDeviceGet", reinterpret_cast<void*>(DeviceGet)},
      {"cuDeviceGetName", reinterpret_cast<void*>(DeviceGetName)},
      {"cuDeviceTotalMem_v2", reinterpret_cast<void*>(DeviceTotalMem)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(DeviceGetAttribute)},
      {"cuCtxCreate_v2", reinterpret_cast<void*>(CtxCreate)},
      {"cuCtxDestroy_v2", reinterpret_cast<void*>(CtxDestroy)},
      {"cuCtxPushCurrent_v2", reinterpret_cast<void*>(CtxPush)},
      {"cuCtxPopCurrent_v2", reinterpret_cast<void*>(CtxPop)},
      {"cuMemGetInfo_v2", reinterpret_cast<void*>(MemGetInfo)},
      {"cuModuleLoadDataEx", reinterpret_cast<void*>(ModuleLoad)},
      {"cuModuleUnload", reinterpret_cast<void*>(ModuleUnload)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(ModuleGetFunction)},
      {"cuMemAlloc_v2", reinterpret_cast<void*>(MemAlloc)},
      {"cuMemFree_v2", reinterpret_cast<void*>(MemFree)},
      {"cuMemAllocHost_v2", reinterpret_cast<void*>(MemAllocHost)},
      {"cuMemFreeHost", reinterpret_cast<void*>(MemFreeHost)},
      {"cuMemcpyHtoDAsync_v2", reinterpret_cast<void*>(ToDevice)},
      {"cuMemcpyDtoHAsync_v2", reinterpret_cast<void*>(ToHost)},
      {"cuMemcpyDtoDAsync_v2", reinterpret_cast<void*>(OnDevice)},
      {"cuMemsetD8Async", reinterpret_cast<void*>(Memset)},
      {"cuStreamCreate", reinterpret_cast<void*>(StreamCreate)},
      {"cuStreamDestroy_v2", reinterpret_cast<void*>(StreamDestroy)},
      {"cuStreamQuery", reinterpret_cast<void*>(StreamQuery)},
      {"cuEventCreate", reinterpret_cast<void*>(EventCreate)},
      {"cuEventDestroy_v2", reinterpret_cast<void*>(EventDestroy)},
      {"cuEventElapsedTime", reinterpret_cast<void*>(EventElapsedTime)},
      {"cuEventRecordWithFlags", reinterpret_cast<void*>(EventRecordWithFlags)},
      {"cuStreamBeginCapture_v2", reinterpret_cast<void*>(BeginCapture)},
      {"cuStreamEndCapture", reinterpret_cast<void*>(EndCapture)},
      {"cuGraphInstantiateWithFlags", reinterpret_cast<void*>(Instantiate)},
      {"cuGraphUpload", reinterpret_cast<void*>(GraphUpload)},
      {"cuGraphDestroy", reinterpret_cast<void*>(GraphDestroy)},
      {"cuGraphExecDestroy", reinterpret_cast<void*>(ExecDestroy)},
      {"cuGraphLaunch", reinterpret_cast<void*>(GraphLaunch)},
      {"cuLaunchKernel", reinterpret_cast<void*>(LaunchKernel)},
      {"cuLaunchKernelEx", reinterpret_cast<void*>(LaunchKernelEx)},
  };
  const auto found = functions.find(name);
  return found != functions.end() ? found->second : nullptr;
}

}  // namespace

CudaLoader FakeCuda::loader() const {
  return CudaLoader(
      [](const char* name) { return FakeCuda::now->missing == name ? nullptr : Function(name); });
}

bool FakeCuda::Within() {
  return depth != 0;
}

}  // namespace qrt
