#include "tests/unit/device_vulkan/toy_gpu_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <shaderc/shaderc.hpp>

#include "compiler/artifact/gpu_code_section.h"
#include "compiler/artifact/writer.h"
#include "runtime/abi/gpu_step.h"
#include "tests/unit/runtime/program_facts.h"
#include "tests/unit/temp_folder.h"

namespace qrt::testing {
namespace {

using qcc::gpu::Arg;
using qcc::gpu::DispatchCode;
using qcc::gpu::KernelCode;
using qcc::gpu::Space;

constexpr char kPrelude[] = R"(#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#pragma use_vulkan_memory_model
layout(buffer_reference, std430, buffer_reference_align = 4) buffer F { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer U { uint v[]; };
uint64_t Address(U words, uint at) { return uint64_t(words.v[at]) | uint64_t(words.v[at + 1]) << 32; }
)";

// Offsets in words: row = {token, seq, position, -, rope[4]}, seq = {state, odd_offset, kv, capacity, past,
// begin, count, -}; 44 from one to the next.
struct ToyKernel {
  const char* name;
  uint32_t n_args;
  const char* body;
};
constexpr ToyKernel kKernels[] = {
    // step, rows, table, x
    {"embed", 4, R"(
  uint row = gl_WorkGroupID.x, c = gl_LocalInvocationID.x;
  if (row >= U(p.a[0]).v[0]) return;
  U rows = U(p.a[1]);
  precise float x = F(p.a[2]).v[rows.v[row * 44] * 16 + c] + float(rows.v[row * 44 + 4]) * 0.125;
  F(p.a[3]).v[row * 16 + c] = x;)"},
    // step, weights, x, y, factor (a number)
    {"layer", 5, R"(
  uint row = gl_WorkGroupID.x, c = gl_LocalInvocationID.x;
  if (row >= U(p.a[0]).v[0]) return;
  F x = F(p.a[2]);
  precise float sum = x.v[row * 16 + c];
  for (uint k = 0; k < 16; ++k) {
    precise float product = F(p.a[1]).v[c * 16 + k] * x.v[row * 16 + k];
    sum = sum + product;
  }
  precise float y = sum * float(uint(p.a[4])) * 0.25;
  F(p.a[3]).v[row * 16 + c] = y;)"},
    // step, rows, seqs, x: one workgroup for each sequence, whose rows follow each other
    {"mix", 4, R"(
  uint seq = gl_WorkGroupID.x, c = gl_LocalInvocationID.x;
  if (seq >= U(p.a[0]).v[1]) return;
  U seqs = U(p.a[2]);
  F state = F(Address(seqs, seq * 44)), kv = F(Address(seqs, seq * 44 + 4)), x = F(p.a[3]);
  uint past = seqs.v[seq * 44 + 8], begin = seqs.v[seq * 44 + 9], count = seqs.v[seq * 44 + 10];
  for (uint i = 0; i < count; ++i) {
    uint at = (begin + i) * 16 + c;
    uint position = U(p.a[1]).v[(begin + i) * 44 + 2];
    precise float s = state.v[c] * 0.5;
    s = s + x.v[at];
    state.v[c] = s;
    kv.v[position * 16 + c] = s;
    precise float sum = 0;
    for (uint t = 0; t <= position; ++t) sum = sum + kv.v[t * 16 + c];
    precise float y = sum / float(past + i + 1);
    x.v[at] = y;
  })"},
    // step, outs, x, head, logits
    {"head", 5, R"(
  uint o = gl_WorkGroupID.x, v = gl_LocalInvocationID.x;
  if (o >= U(p.a[0]).v[2] || v >= 40) return;
  uint row = U(p.a[1]).v[o * 44];
  precise float sum = 0;
  for (uint k = 0; k < 16; ++k) {
    precise float product = F(p.a[3]).v[v * 16 + k] * F(p.a[2]).v[row * 16 + k];
    sum = sum + product;
  }
  F(p.a[4]).v[o * 48 + v] = sum;)"},
    // step, logits, results
    {"greedy", 3, R"(
  uint o = gl_WorkGroupID.x;
  if (o >= U(p.a[0]).v[2] || gl_LocalInvocationID.x != 0) return;
  uint best = 0;
  for (uint v = 1; v < 40; ++v) if (F(p.a[1]).v[o * 48 + v] > F(p.a[1]).v[o * 48 + best]) best = v;
  U(p.a[2]).v[o] = best;)"},
    // step, samples, the step with its penalties, results, scratch, a word of constants: no sampler, but
    // every field it gets
    // counts, and it always finds a token
    {"draw", 6, R"(
  uint o = gl_WorkGroupID.x;
  if (o >= U(p.a[0]).v[2] || gl_LocalInvocationID.x != 0) return;
  U sample_ = U(p.a[1]), penalties = U(p.a[2] + U(p.a[2]).v[3]);
  uint at = o * 44, sum = sample_.v[at] + sample_.v[at + 16] + U(p.a[5]).v[0];
  for (uint i = 0; i < sample_.v[at + 18]; ++i) {
    uint q = (sample_.v[at + 17] + i) * 2;
    sum += penalties.v[q] * penalties.v[q + 1];
  }
  U(p.a[4]).v[o] = sum & 0x7fffffffu;
  U(p.a[3]).v[o] = U(p.a[4]).v[o];)"},
};
enum { kEmbed, kLayer, kMix, kHead, kGreedy, kDraw };

constexpr uint32_t kWorkgroups[] = {16, 16, 16, 64, 1, 1};

// Bytes in the weight section.
constexpr uint64_t kTableAt = 0, kTableBytes = kVocab * kWidth * 4;
constexpr uint64_t LayerAt(uint32_t layer) {
  return 4096 + layer * uint64_t{1024};
}
constexpr uint64_t kLayerBytes = kWidth * kWidth * 4;
constexpr uint64_t kHeadAt = LayerAt(kLayers) + 1024, kHeadBytes = kTableBytes;
constexpr uint64_t kArenaHalf = kMaxRows * kWidth * 4;  // two, in turns

Arg StepArg(uint64_t offset, uint64_t bytes) {
  return {Space::kStep, offset, bytes};
}
// A field of every entry.
Arg EntriesArg(size_t offset, uint64_t bytes) {
  return StepArg(qrt_gpu_entries_offset() + offset, (kMaxRows - 1) * sizeof(qrt_gpu_entry) + bytes);
}

std::vector<DispatchCode> Trunk(uint32_t rows) {
  const Arg step = StepArg(0, sizeof(qrt_gpu_step));
  const Arg row_table = EntriesArg(offsetof(qrt_gpu_entry, row), sizeof(qrt_gpu_row));
  const Arg seqs = EntriesArg(offsetof(qrt_gpu_entry, seq), sizeof(qrt_gpu_seq));
  const auto x = [](uint32_t layer) { return Arg{Space::kArena, layer % 2 * kArenaHalf, kArenaHalf}; };
  std::vector<DispatchCode> list;
  const auto add = [&](uint32_t kernel, bool barrier, std::vector<Arg> args, int32_t layer) {
    DispatchCode d;
    d.kernel = kernel;
    d.grid[0] = rows;
    d.barrier = barrier;
    d.args = std::move(args);
    d.read_bytes = 1024;
    d.write_bytes = 64 * rows;
    d.ops = 512 * rows;
    d.family = kKernels[kernel].name;
    d.layer = layer;
    list.push_back(d);
  };
  add(kEmbed, false, {step, row_table, {Space::kWeights, kTableAt, kTableBytes}, x(0)}, -1);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    add(kLayer, true,
        {step,
         {Space::kWeights, LayerAt(layer), kLayerBytes},
         x(layer),
         x(layer + 1),
         qcc::gpu::Number(layer + 1)},
        static_cast<int32_t>(layer));
  }
  add(kMix, true, {step, row_table, seqs, x(kLayers)}, -1);
  return list;
}

DispatchCode Head(uint32_t rows) {
  DispatchCode d;
  d.kernel = kHead;
  d.grid[0] = rows;
  d.barrier = true;
  d.args = {StepArg(0, sizeof(qrt_gpu_step)),
            EntriesArg(offsetof(qrt_gpu_entry, out_row), 4),
            {Space::kArena, 0, kArenaHalf},
            {Space::kWeights, kHeadAt, kHeadBytes},
            {Space::kLogits, 0, rows * kStride * 4}};
  d.family = "linear";
  d.read_bytes = kHeadBytes;
  return d;
}

// `constant`: where a draw's lies.
DispatchCode Choose(uint32_t kernel, uint32_t rows, uint64_t constant = 16) {
  DispatchCode d;
  d.kernel = kernel;
  d.grid[0] = rows;
  d.family = "sample";
  d.args = {StepArg(0, sizeof(qrt_gpu_step)),
            {Space::kLogits, 0, rows * kStride * 4},
            {Space::kResults, 0, rows * 4}};
  if (kernel == kDraw) {
    d.args = {StepArg(0, sizeof(qrt_gpu_step)),
              EntriesArg(offsetof(qrt_gpu_entry, sample), sizeof(qrt_gpu_sample)),
              StepArg(0, qrt_gpu_step_bytes(kMaxRows)),
              {Space::kResults, 0, rows * 4},
              {Space::kScratch, 0, rows * 4},
              {Space::kConstants, constant, 4}};
  }
  return d;
}

}  // namespace

std::vector<uint32_t> CompileGlsl(const std::string& source, const std::string& name) {
  shaderc::Compiler compiler;
  shaderc::CompileOptions options;
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  const auto result = compiler.CompileGlslToSpv(source, shaderc_compute_shader, name.c_str(), options);
  EXPECT_EQ(result.GetCompilationStatus(), shaderc_compilation_status_success) << result.GetErrorMessage();
  return {result.begin(), result.end()};
}

ToyParts MakeToy() {
  using namespace qcc::compiler;
  static_assert(kLayers % 2 == 0, "the trunk's result lies in the first half of the arena");
  ToyParts parts;
  parts.weights.resize((kHeadAt + kHeadBytes) / 4);
  uint32_t random = 12345;
  for (float& w : parts.weights) {
    random = random * 1664525 + 1013904223;
    w = static_cast<float>(static_cast<int32_t>(random >> 24) - 128) / 512;
  }
  qcc::gpu::GpuCode& code = parts.code;
  code.abi = QRT_GPU_STEP_ABI;
  code.max_rows = kMaxRows;
  for (size_t i = 0; i < std::size(kKernels); ++i) {
    const ToyKernel& k = kKernels[i];
    KernelCode& kernel = code.kernels.emplace_back();
    kernel.name = k.name;
    kernel.entry = "main";
    kernel.workgroup_size = kWorkgroups[i];
    kernel.n_args = k.n_args;
    kernel.source = "glsl";
    kernel.spirv =
        CompileGlsl(std::string(kPrelude) + "layout(local_size_x = " + std::to_string(kWorkgroups[i]) +
                        ") in;\nlayout(push_constant) uniform P { uint64_t a[" + std::to_string(k.n_args) +
                        "]; } p;\nvoid main() {" + k.body + "\n}\n",
                    k.name);
  }
  const uint64_t arena = 2 * kArenaHalf;
  for (uint32_t rows : {1, 4}) {
    code.programs.push_back({arena, Trunk(rows)});
    code.programs.back().dispatches.push_back(Head(rows));
  }
  code.programs.push_back({arena, Trunk(kMaxRows)});
  code.programs.push_back({arena, {Head(kMaxRows)}});
  for (uint32_t rows : {1u, kMaxRows}) {
    code.sample_programs.push_back({qcc::gpu::Sampling::kGreedy, rows, {Choose(kGreedy, rows)}});
    code.sample_programs.push_back({qcc::gpu::Sampling::kDraw, rows, {Choose(kDraw, rows)}});
  }
  // Not for more rows: they are drawn the long way.
  code.sample_programs.push_back({qcc::gpu::Sampling::kDrawFew, 1, {Choose(kDraw, 1, 20)}});
  code.scratch_bytes = kMaxRows * 4;
  code.constants.resize(24);
  for (size_t i = 0; i < 4; ++i) {
    code.constants[16 + i] = static_cast<uint8_t>(kDrawConstant >> 8 * i);
    code.constants[20 + i] = static_cast<uint8_t>(kDrawFewConstant >> 8 * i);
  }

  ManifestSpec& m = parts.manifest;
  m.arch = "toy";
  m.vocab_size = kVocab;
  m.logits_stride = kStride;
  m.context_length = 64;
  m.embedding_length = kWidth;
  m.state_bytes = kStateBytes;
  m.kv_bytes_per_token = kKvBytesPerToken;
  m.states = {{"blk.0.conv", SpecState::kConv, 0, {kWidth}, SpecElement::kF32, 0, kStateBytes},
              {"blk.0.kv", SpecState::kKV, 0, {kWidth / 2}, SpecElement::kF32, 0, kKvBytesPerToken}};
  m.streams = {"trunk"};
  m.programs = {{"decode_1", qrt::DecodeFacts(), 1, arena, 9, 8},
                {"decode_4", qrt::DecodeFacts(), 4, arena, 9, 8},
                {"prefill_8", qrt::PrefillFacts(), 8, arena, 8, 7},
                {"head_8", qrt::HeadFacts(), 8, arena, 1, 1}};
  m.code = {{"vulkan", "none", {}, 0, 0}};
  m.formats = {{"f32", 8, parts.weights.size() * 4, parts.weights.size() * 4}};
  m.provenance.compiler = "toy";
  m.provenance.source_name = "toy";
  return parts;
}

std::unique_ptr<Artifact> WriteToy(const ToyParts& parts) {
  const TempFolder folder;  // the mapping stays
  const std::string path = folder.File("toy.qbin");
  auto writer = qcc::compiler::ArtifactWriter::Create(path);
  EXPECT_TRUE(writer.ok()) << writer.status();
  const auto code = (*writer)->AddSection(QBIN_SECTION_CODE, qcc::compiler::BuildGpuCodeSection(parts.code));
  const auto* bytes = reinterpret_cast<const uint8_t*>(parts.weights.data());
  const auto weights = (*writer)->AddSection(QBIN_SECTION_WEIGHTS, {bytes, parts.weights.size() * 4});
  EXPECT_TRUE(code.ok() && weights.ok());
  qcc::compiler::ManifestSpec manifest = parts.manifest;
  for (auto& c : manifest.code) {
    c.section = *code;
    c.weights_section = *weights;
  }
  manifest.weights_bytes = parts.weights.size() * 4;
  EXPECT_TRUE((*writer)->Finish(manifest).ok());
  Result<std::unique_ptr<Artifact>> artifact = Artifact::Open(path);
  EXPECT_TRUE(artifact.ok()) << artifact.status().ToString();
  return artifact.ok() ? *std::move(artifact) : nullptr;
}

std::vector<float> ToyReference::Append(int32_t token, int32_t rope) {
  const float* table = weights_.data() + kTableAt / 4;
  std::vector<float> x(kWidth), y(kWidth);
  for (uint32_t c = 0; c < kWidth; ++c) {
    x[c] = table[static_cast<uint32_t>(token) * kWidth + c] + static_cast<float>(rope) * 0.125f;
  }
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const float* w = weights_.data() + LayerAt(layer) / 4;
    for (uint32_t c = 0; c < kWidth; ++c) {
      float sum = x[c];
      for (uint32_t k = 0; k < kWidth; ++k) {
        const float product = w[c * kWidth + k] * x[k];
        sum += product;
      }
      y[c] = sum * static_cast<float>(layer + 1) * 0.25f;
    }
    x = y;
  }
  for (uint32_t c = 0; c < kWidth; ++c) x[c] = state_[c] = state_[c] * 0.5f + x[c];
  kv_.push_back(x);
  for (uint32_t c = 0; c < kWidth; ++c) {
    float sum = 0;
    for (const std::vector<float>& row : kv_) sum += row[c];
    x[c] = sum / static_cast<float>(kv_.size());
  }
  const float* head = weights_.data() + kHeadAt / 4;
  std::vector<float> logits(kVocab);
  for (uint32_t v = 0; v < kVocab; ++v) {
    for (uint32_t k = 0; k < kWidth; ++k) {
      const float product = head[v * kWidth + k] * x[k];
      logits[v] += product;
    }
  }
  return logits;
}

DeviceResult ToyStep::Run(Device& device, uint32_t program) {
  seqs_.clear();
  tokens_.clear();
  positions_.clear();
  for (const Part& part : parts) {
    qrt_seq seq = {};
    seq.state = reinterpret_cast<uint8_t*>(part.sequence->state.address);
    seq.kv = reinterpret_cast<uint8_t*>(part.sequence->kv.address);
    seq.kv_capacity = part.sequence->capacity;
    seq.past = part.sequence->past;
    seq.row_begin = static_cast<int64_t>(tokens_.size());
    seq.row_count = static_cast<int64_t>(part.tokens.size());
    seqs_.push_back(seq);
    for (size_t i = 0; i < part.tokens.size(); ++i) {
      tokens_.push_back(part.tokens[i]);
      const auto rope = static_cast<int32_t>(100 + part.sequence->past + static_cast<int64_t>(i));
      positions_.insert(positions_.end(), {rope, -1, -2, -3});
    }
  }
  StepRequest request;
  request.program = program;
  request.seqs = seqs_.data();
  request.n_seqs = static_cast<int64_t>(seqs_.size());
  request.n_rows = static_cast<int64_t>(tokens_.size());
  request.tokens = tokens_.data();
  request.positions = positions_.data();
  request.out_rows = wanted.data();
  request.n_out = static_cast<int64_t>(wanted.size());
  out_logits.assign(wanted.size() * kStride, -1);
  chosen.assign(wanted.size(), -7);
  if (logits) request.logits = out_logits.data();
  if (choose) request.chosen = chosen.data();
  if (!samples.empty()) {
    request.samples = samples.data();
    request.penalties = penalties.data();
    request.n_penalties = static_cast<uint32_t>(penalties.size());
  }
  const DeviceResult result = device.Run(request);
  if (result == DeviceResult::kOk && program != kHead8) {
    for (const Part& part : parts) part.sequence->past += static_cast<int64_t>(part.tokens.size());
  }
  return result;
}

ToySequence NewSequence(Device& device) {
  ToySequence s;
  EXPECT_EQ(device.Allocate(kStateBytes, &s.state), DeviceResult::kOk) << device.last_error();
  EXPECT_EQ(device.Allocate(kKvBytesPerToken * static_cast<uint64_t>(s.capacity), &s.kv), DeviceResult::kOk)
      << device.last_error();
  return s;
}

void FreeSequence(Device& device, ToySequence& sequence) {
  device.Free(&sequence.state);
  device.Free(&sequence.kv);
}

}  // namespace qrt::testing
