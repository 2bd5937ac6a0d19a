// qrt_artifact_*, qrt_cpu_describe, qrt_devices_list.
#include <cstddef>
#include <span>

#include "runtime/base/cpu_features.h"
#include "runtime/base/mapped_file.h"
#include "runtime/capi/devices.h"
#include "runtime/capi/handles.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/topology.h"

using qrt::Artifact;
using qrt::Checked;
using qrt::Code;
using qrt::Result;
using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;

namespace qrt::capi {
namespace {

std::string Join(const auto& names, const char* separator) {
  std::string text;
  for (const auto& name : names) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

// `open` gives the checked artifact.
Status Open(const qrt_artifact_options* options, qrt_artifact** out, auto open) {
  if (out == nullptr) return NullArgument("out");
  qrt_artifact_options read = {};
  QRT_RETURN_IF_ERROR(ReadOptions(options, sizeof read, "options", &read));
  Services services;
  QRT_RETURN_IF_ERROR(TakeServices(read.allocator, read.log, &services));
  Owned<qrt_artifact> handle(NewHandle<qrt_artifact>(services));
  Result<std::unique_ptr<Artifact>> artifact = open();
  if (!artifact.ok()) return artifact.status();
  handle->artifact = std::move(*artifact);
  if (read.verify_weights != 0) QRT_RETURN_IF_ERROR(handle->artifact->VerifyWeights());
  *out = handle.release();
  return Status();
}

Status OpenFile(const char* path, const qrt_artifact_options* options, qrt_artifact** out) {
  if (path == nullptr) return NullArgument("path");
  return Open(options, out, [&] { return Artifact::Open(path); });
}

static_assert(Artifact::kMemoryAlignment == QRT_ARTIFACT_ALIGNMENT);

Status OpenMemory(const void* bytes, size_t size, const char* name, const qrt_artifact_options* options,
                  qrt_artifact** out) {
  if (bytes == nullptr) return NullArgument("bytes");
  const std::span<const uint8_t> span(static_cast<const uint8_t*>(bytes), size);
  return Open(options, out, [&] { return Artifact::FromBytes(span, name == nullptr ? "memory" : name); });
}

Status Describe(const Artifact& artifact, qrt_artifact_info* out) {
  const Manifest& manifest = artifact.manifest();
  qrt_artifact_info info = {};
  info.architecture = manifest.model.arch.c_str();
  info.model_name = manifest.model.name.c_str();
  info.vocab_size = manifest.model.vocab_size;
  info.embedding_length = manifest.model.embedding_length;
  info.context_length = manifest.model.context_length;
  info.file_bytes = artifact.file_bytes();
  info.weight_bytes = manifest.weights_bytes;
  if (!manifest.parts.empty()) info.weight_bytes = 0;
  for (const PartFacts& part : manifest.parts) info.weight_bytes += part.weights_bytes;
  info.state_bytes = manifest.state_bytes;
  info.kv_bytes_per_token = manifest.kv_bytes_per_token;
  info.program_count = static_cast<uint32_t>(manifest.programs.size());
  info.code_count = static_cast<uint32_t>(manifest.code.size());
  info.has_tokenizer = artifact.tokenizer().has_value();
  info.has_chat_template = artifact.chat_template().has_value();
  info.has_goldens = artifact.goldens().has_value();
  std::memcpy(info.identity, artifact.identity().data(), sizeof info.identity);
  info.parts = artifact.part_count();
  info.numerics = artifact.manifest().numerics == Numerics::kF32 ? "f32" : "int8";
  return WriteInfo(info, offsetof(qrt_artifact_info, parts), "info", out);
}

Status DescribeCode(const Artifact& artifact, uint32_t index, qrt_code_info* out) {
  const Manifest& manifest = artifact.manifest();
  if (index >= manifest.code.size()) {
    return Status(Code::kInvalidArgument, 5309,
                  "code variant " + std::to_string(index) + ", expected fewer than " +
                      std::to_string(manifest.code.size()));
  }
  const CodeInfo& code = manifest.code[index];
  qrt_code_info info = {};
  info.name = code.isa.c_str();
  info.target = code.target.c_str();
  info.bytes = artifact.sections()[code.section].size;
  const std::string missing = WhyUnsupported(artifact, index);
  info.supported = missing.empty();
  CopyText(info.missing, missing);
  return WriteInfo(info, sizeof info, "info", out);
}

// What one device takes; logits are the last one's.
struct PartMemory {
  Checked weights = 0, copied = 0, code = 0, engine = 0;
  Session::Sizes sizes;
};

Status PlanPart(const Artifact& artifact, uint64_t context_tokens, PartMemory* out) {
  const Manifest& manifest = artifact.manifest();
  Result<ModelPlan> model = PlanOf(manifest, artifact.identity());
  if (!model.ok()) return model.status();
  Result<size_t> variant = ChooseCode(manifest, CpuFeatures::Detect(), "");
  bool gpu = false;
  for (size_t i = 0; i < manifest.code.size() && !variant.ok(); ++i) {
    gpu = KnownTarget(manifest.code[i].target) && manifest.code[i].target != "cpu";
    if (gpu) variant = i;
  }
  const PartPlace place = {manifest.part == 0, manifest.part + 1 >= manifest.parts.size()};
  out->sizes = Session::SizesFor(*model, {context_tokens});
  // Of as many threads as an engine has that is not told how many.
  const uint32_t threads = std::min(DetectCpuTopology().physical, QRT_MAX_THREADS);
  const uint64_t scratch = variant.ok() && !gpu ? CpuDevice::ScratchBytes(artifact, *variant, threads) : 0;
  out->engine = CpuDevice::ArenaBytes(manifest) + Checked(scratch);
  if (place.last) {
    out->engine = out->engine + Engine::MemoryBytes(*model, Schedule(model->programs, place), gpu);
  } else {
    out->sizes.logits = 0;
  }
  out->code = variant.ok() ? artifact.code(*variant).size() : 0;
  out->weights = variant.ok() ? artifact.weights(*variant).size() : manifest.weights_bytes;
  out->copied = gpu ? out->weights : Checked(0);
  return Status();
}

Status Plan(const Artifact& artifact, uint64_t context_tokens, uint32_t sessions, qrt_memory_plan* out) {
  PartMemory all;
  for (size_t i = 0; i < artifact.part_count(); ++i) {
    PartMemory part;
    QRT_RETURN_IF_ERROR(PlanPart(artifact.part(i), context_tokens, &part));
    all.weights = all.weights + part.weights;
    all.copied = all.copied + part.copied;
    all.code = all.code + part.code;
    all.engine = all.engine + part.engine;
    all.sizes.state = all.sizes.state + part.sizes.state;
    all.sizes.kv = all.sizes.kv + part.sizes.kv;
    all.sizes.logits = all.sizes.logits + part.sizes.logits;
  }
  const auto& [weights, copied, code, engine, sizes] = all;
  const Checked total = weights + copied + code + engine + sizes.total() * sessions;
  if (!total.ok()) {
    return Status(Code::kInvalidArgument, 5308,
                  std::to_string(sessions) + " sessions of " + std::to_string(context_tokens) +
                      " tokens need more bytes than 64 bits count");
  }
  qrt_memory_plan plan = {};
  plan.weight_bytes = weights.value();
  plan.code_bytes = code.value();
  plan.engine_bytes = engine.value();
  plan.state_bytes = (sizes.state * sessions).value();
  plan.kv_bytes = (sizes.kv * sessions).value();
  plan.logits_bytes = (sizes.logits * sessions).value();
  plan.total_bytes = total.value();
  plan.device_weight_bytes = copied.value();
  return WriteInfo(plan, offsetof(qrt_memory_plan, device_weight_bytes), "plan", out);
}

Status DescribeCpu(qrt_cpu_info* out) {
  const CpuTopology topology = DetectCpuTopology();
  qrt_cpu_info info = {};
  info.physical_cores = topology.physical;
  info.logical_cores = topology.logical;
  CopyText(info.name, CpuBrand());
  CopyText(info.features, Join(CpuFeatures::Detect().Names(), " "));
  return WriteInfo(info, sizeof info, "info", out);
}

Status List(qrt_device_info* devices, size_t capacity, size_t* count) {
  if (count == nullptr) return NullArgument("count");
  if (devices == nullptr && capacity != 0) return NullArgument("devices");
  const std::vector<qrt_device_info> found = ListDevices();
  const size_t size = capacity != 0 ? devices[0].struct_size : sizeof(qrt_device_info);
  if (size < sizeof(qrt_device_info)) return BadStructSize("devices", size, sizeof(qrt_device_info));
  *count = found.size();
  if (capacity < found.size()) {
    return Status(Code::kBufferTooSmall, 5312,
                  std::to_string(found.size()) + " devices into room for " + std::to_string(capacity));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    qrt_device_info* out = reinterpret_cast<qrt_device_info*>(reinterpret_cast<char*>(devices) + i * size);
    out->struct_size = size;
    QRT_RETURN_IF_ERROR(WriteInfo(found[i], sizeof(qrt_device_info), "devices", out));
  }
  return Status();
}

}  // namespace
}  // namespace qrt::capi

extern "C" {

qrt_status qrt_artifact_open(const char* path, const qrt_artifact_options* options, qrt_artifact** out,
                             qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::OpenFile(path, options, out); });
}

qrt_status qrt_artifact_open_memory(const void* bytes, size_t size, const char* name,
                                    const qrt_artifact_options* options, qrt_artifact** out,
                                    qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::OpenMemory(bytes, size, name, options, out); });
}

void qrt_artifact_release(qrt_artifact* artifact) {
  qrt::capi::Ref<qrt_artifact>::Drop(artifact);
}

qrt_status qrt_artifact_verify(const qrt_artifact* artifact, qrt_progress_fn progress, void* ctx,
                               qrt_error* error) {
  return Guard(error, [&] {
    if (artifact == nullptr) return NullArgument("artifact");
    if (progress == nullptr) return artifact->artifact->VerifyWeights();
    return artifact->artifact->VerifyWeights(
        [&](uint64_t done, uint64_t total) { return progress(ctx, done, total) == 0; });
  });
}

qrt_status qrt_artifact_describe(const qrt_artifact* artifact, qrt_artifact_info* info, qrt_error* error) {
  return Guard(error, [&] {
    return artifact == nullptr ? NullArgument("artifact") : qrt::capi::Describe(*artifact->artifact, info);
  });
}

qrt_status qrt_artifact_code(const qrt_artifact* artifact, uint32_t index, qrt_code_info* info,
                             qrt_error* error) {
  return Guard(error, [&] {
    return artifact == nullptr ? NullArgument("artifact")
                               : qrt::capi::DescribeCode(*artifact->artifact, index, info);
  });
}

qrt_status qrt_artifact_memory_plan(const qrt_artifact* artifact, uint64_t context_tokens, uint32_t sessions,
                                    qrt_memory_plan* plan, qrt_error* error) {
  return Guard(error, [&] {
    return artifact == nullptr ? NullArgument("artifact")
                               : qrt::capi::Plan(*artifact->artifact, context_tokens, sessions, plan);
  });
}

int32_t qrt_mapped_file_at(const void* address, char* path, size_t capacity, uint64_t* offset) {
  uint64_t at = 0;
  if (!qrt::FindMappedFile(address, std::span(path, path == nullptr ? 0 : capacity), &at)) return 0;
  if (offset != nullptr) *offset = at;
  return 1;
}

qrt_status qrt_cpu_describe(qrt_cpu_info* info, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::DescribeCpu(info); });
}

qrt_status qrt_devices_list(qrt_device_info* devices, size_t capacity, size_t* count, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::List(devices, capacity, count); });
}

}  // extern "C"
