// The code section of GPU targets: what is written is what is read, and nothing else is.
#include "compiler/artifact/gpu_code_section.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "compiler/driver/gpu_report.h"
#include "runtime/abi/gpu_code_generated.h"
#include "runtime/abi/gpu_step.h"
#include "runtime/artifact/gpu_code.h"
#include "tests/unit/runtime/aligned_bytes.h"
#include "tests/unit/runtime/program_facts.h"

namespace qcc::compiler {
namespace {

using gpu::Space;
using qrt::testing::AlignedBytes;

// A module with no more than its entry point and the size of its workgroups.
std::vector<uint32_t> Module(uint32_t threads) {
  return {0x07230203, 0x00010500, 0,       2, 0, 5u << 16 | 15, 5, 1, 0x6e69616d, 0, 6u << 16 | 16,
          1,          17,         threads, 1, 1};
}

// One prefill program and one head program, as in Manifest().
gpu::GpuCode Sample() {
  gpu::GpuCode code;
  code.abi = QRT_GPU_STEP_ABI;
  code.max_rows = 32;
  code.kernels = {{"norm.c64", "main", 128, 3, 512, Module(128), "gpu"},
                  {"add.v4", "main", 64, 2, 0, Module(64), "glsl"}};
  gpu::DispatchCode norm{
      0,      {4, 2, 1}, false, {{Space::kArena, 256, 64}, {Space::kWeights, 1 << 20, 4096}, gpu::Number(7)},
      5000,   300,       0,     90,
      "norm", 0};
  gpu::DispatchCode attention{
      1, {1, 1, 3}, true, {{Space::kArena, 0, 64}, {Space::kStep, 0, 64}}, 100, 50, 16, 10, "attention", 0};
  gpu::DispatchCode delta = attention;
  delta.family = "gated_delta";
  delta.layer = 1;
  gpu::DispatchCode embed{
      1, {1, 1, 1}, false, {{Space::kWeights, 0, 1 << 20}, {Space::kStep, 0, 64}}, 640, 0, 0, 0, "embed", -1};
  code.programs = {{4096, {embed, norm, norm, attention, delta, delta}}, {512, {norm}}};
  gpu::DispatchCode choose{
      1, {1, 1, 1}, false, {{Space::kScratch, 0, 64}, {Space::kConstants, 1, 4}}, 1, 2, 3, 4, "sample", -1};
  code.sample_programs = {{gpu::Sampling::kGreedy, 1, {choose}}, {gpu::Sampling::kDraw, 8, {choose, choose}}};
  code.scratch_bytes = 77;
  code.constants = {1, 2, 3, 4, 5};
  code.ptx = ".version 7.0";
  code.overlap = true;
  return code;
}

qrt::Manifest Manifest() {
  qrt::Manifest m;
  m.model.logits_stride = m.model.vocab_size = 16;
  m.programs = {{"prefill_32", qrt::PrefillFacts(), 32, 2048, 0, 0},
                {"head_8", qrt::HeadFacts(), 8, 256, 0, 0}};
  return m;
}

constexpr uint64_t kWeightBytes = 2 << 20;

qrt::Result<qrt::GpuCode> ReadBytes(const AlignedBytes& bytes,
                                    qrt::GpuTarget target = qrt::GpuTarget::kVulkan) {
  return qrt::GpuCode::Read(bytes.span(), Manifest(), kWeightBytes, target, "here");
}

void ExpectSame(const std::vector<qrt::GpuDispatch>& a, const std::vector<gpu::DispatchCode>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].kernel, b[i].kernel);
    for (int d = 0; d < 3; ++d) EXPECT_EQ(a[i].grid[d], b[i].grid[d]);
    EXPECT_EQ(a[i].barrier, b[i].barrier);
    EXPECT_EQ(a[i].cost.read_bytes, b[i].read_bytes);
    EXPECT_EQ(a[i].cost.write_bytes, b[i].write_bytes);
    EXPECT_EQ(a[i].cost.kv_bytes, b[i].kv_bytes);
    EXPECT_EQ(a[i].cost.ops, b[i].ops);
    EXPECT_EQ(a[i].family, b[i].family);
    EXPECT_EQ(a[i].layer, b[i].layer);
    ASSERT_EQ(a[i].args.size(), b[i].args.size());
    for (size_t j = 0; j < a[i].args.size(); ++j) {
      EXPECT_EQ(static_cast<int>(a[i].args[j].space), static_cast<int>(b[i].args[j].space));
      EXPECT_EQ(a[i].args[j].value, b[i].args[j].value);
      EXPECT_EQ(a[i].args[j].bytes, b[i].args[j].bytes);
    }
  }
}

TEST(GpuCodeSection, ComesBackAsWritten) {
  const gpu::GpuCode code = Sample();
  const std::vector<uint8_t> section = BuildGpuCodeSection(code);
  EXPECT_EQ(section, BuildGpuCodeSection(code)) << "the same code gave other bytes";
  const AlignedBytes bytes(section);
  const auto read = ReadBytes(bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->max_rows, code.max_rows);
  ASSERT_EQ(read->kernels.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->kernels[i].name, code.kernels[i].name);
    EXPECT_EQ(read->kernels[i].entry, code.kernels[i].entry);
    EXPECT_EQ(read->kernels[i].workgroup_size, code.kernels[i].workgroup_size);
    EXPECT_EQ(read->kernels[i].n_args, code.kernels[i].n_args);
    EXPECT_EQ(read->kernels[i].shared_bytes, code.kernels[i].shared_bytes);
    EXPECT_TRUE(std::ranges::equal(read->kernels[i].spirv, code.kernels[i].spirv));
    EXPECT_EQ(read->kernels[i].source, code.kernels[i].source);
  }
  ASSERT_EQ(read->programs.size(), 2u);
  EXPECT_EQ(read->programs[0].arena_bytes, 4096u);
  ExpectSame(read->programs[0].dispatches, code.programs[0].dispatches);
  ASSERT_EQ(read->sample_programs.size(), 2u);
  EXPECT_EQ(read->sample_programs[1].kind, qrt::GpuSampling::kDraw);
  EXPECT_EQ(read->sample_programs[1].rows, 8u);
  ExpectSame(read->sample_programs[1].dispatches, code.sample_programs[1].dispatches);
  EXPECT_EQ(read->bytes(qrt::GpuSpace::kScratch), 77u);
  EXPECT_TRUE(std::ranges::equal(read->constants, code.constants));
  const auto cuda = ReadBytes(bytes, qrt::GpuTarget::kCuda);
  ASSERT_TRUE(cuda.ok()) << cuda.status().ToString();
  EXPECT_EQ(cuda->ptx, code.ptx);
  EXPECT_TRUE(cuda->overlap);
}

TEST(GpuCodeSection, EveryCutIsRefused) {
  const std::vector<uint8_t> bytes = BuildGpuCodeSection(Sample());
  // The last bytes are padding of a constant, which nobody reads.
  for (size_t n = 0; n + 4 <= bytes.size(); n += 7) {
    const AlignedBytes cut(std::span<const uint8_t>(bytes).first(n));
    const auto read = ReadBytes(cut);
    ASSERT_FALSE(read.ok()) << n << " of " << bytes.size() << " bytes were accepted";
    EXPECT_EQ(read.status().number(), 4023u) << read.status().ToString();
  }
}

TEST(GpuCodeSection, KernelsThatDoNotExistAreRefused) {
  gpu::GpuCode code = Sample();
  code.programs[1].dispatches[0].kernel = 2;
  const AlignedBytes bytes(BuildGpuCodeSection(code));
  EXPECT_EQ(ReadBytes(bytes).status().number(), 4024u);
}

// One module that a thousand kernels point to.
TEST(GpuCodeSection, WhatUnfoldsToFarMoreThanTheFileIsRefused) {
  std::vector<uint32_t> words = Module(1);
  words.resize(10000, 1u << 16);  // OpNop
  flatbuffers::FlatBufferBuilder b;
  auto spirv = b.CreateVector(words);
  auto name = b.CreateString("main");
  std::vector<flatbuffers::Offset<qrt::abi::GpuKernel>> kernels;
  for (int i = 0; i < 1000; ++i)
    kernels.push_back(qrt::abi::CreateGpuKernel(b, name, name, 1, 0, 0, spirv, name));
  auto kernel_list = b.CreateVector(kernels);
  auto programs = b.CreateVector(std::vector<flatbuffers::Offset<qrt::abi::GpuProgram>>());
  auto samples = b.CreateVector(std::vector<flatbuffers::Offset<qrt::abi::GpuSampleProgram>>());
  qrt::abi::FinishGpuCodeBuffer(
      b, qrt::abi::CreateGpuCode(b, QRT_GPU_STEP_ABI, 1, kernel_list, programs, samples));
  const AlignedBytes bytes(std::span<const uint8_t>(b.GetBufferPointer(), b.GetSize()));
  const auto read =
      qrt::GpuCode::Read(bytes.span(), qrt::Manifest(), kWeightBytes, qrt::GpuTarget::kVulkan, "here");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().number(), 4024u) << read.status().ToString();
  EXPECT_NE(read.status().message().find("unfold"), std::string::npos) << read.status().ToString();
}

// Args are structs of 8-byte numbers; that their list begins 4 bytes off is not seen by
// flatbuffers::Verifier.
TEST(GpuCodeSection, ArgsOffTheirPlaceAreRefused) {
  const std::vector<uint8_t> section = BuildGpuCodeSection(Sample());
  const qrt::abi::GpuCode* code = qrt::abi::GetGpuCode(section.data());
  const qrt::abi::GpuDispatch* dispatch = code->programs()->Get(1)->dispatches()->Get(0);
  // The list is copied behind the section, its length where 8 divides: the entries then lie where 8 does not.
  const auto* list = reinterpret_cast<const uint8_t*>(dispatch->args());
  std::vector<uint8_t> moved = section;
  moved.resize((section.size() + 7) / 8 * 8);
  const size_t to = moved.size();
  moved.insert(moved.end(), list, list + 4 + dispatch->args()->size() * sizeof(qrt::abi::GpuArg));
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(dispatch);
  const size_t at = static_cast<size_t>(table->GetAddressOf(qrt::abi::GpuDispatch::VT_ARGS) - section.data());
  flatbuffers::WriteScalar(moved.data() + at, static_cast<flatbuffers::uoffset_t>(to - at));
  const AlignedBytes bytes(moved);
  const auto read = ReadBytes(bytes);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().number(), 4024u) << read.status().ToString();
  EXPECT_NE(read.status().message().find("the place of its args"), std::string::npos)
      << read.status().ToString();
}

TEST(GpuReport, CountsLayersAndBytes) {
  const AlignedBytes bytes(BuildGpuCodeSection(Sample()));
  const auto read = ReadBytes(bytes);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const GpuCodeReport report = ReportGpuCode(*read);
  EXPECT_EQ(report.spirv_bytes, 128u);
  EXPECT_EQ(report.ptx_bytes, 0u);
  ASSERT_EQ(report.programs.size(), 2u);
  const GpuProgramReport& p = report.programs[0];
  EXPECT_EQ(p.dispatches, 6u);
  EXPECT_EQ(p.barriers, 3u);
  EXPECT_EQ(p.attention_layer_dispatches, 3u);
  EXPECT_EQ(p.delta_layer_dispatches, 2u);
  EXPECT_EQ(p.read_bytes, 640u + 2 * 5000 + 3 * 100);
  EXPECT_EQ(p.weight_bytes, 640u + 2 * 4096) << "of the embedding table only the rows that are read";
  EXPECT_EQ(p.kv_bytes, 48u);
  EXPECT_EQ(p.write_bytes, 2u * 300 + 3 * 50);
}

}  // namespace
}  // namespace qcc::compiler
