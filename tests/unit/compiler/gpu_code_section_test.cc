// The code section of GPU targets: what is written is what is read, and nothing else is.
#include "compiler/artifact/gpu_code_section.h"

#include <gtest/gtest.h>

#include "compiler/driver/gpu_report.h"
#include "frontends/gguf/error.h"
#include "runtime/abi/gpu_code_generated.h"

namespace qcc::compiler {
namespace {

using gpu::Space;

gpu::GpuCode Sample() {
  gpu::GpuCode code;
  code.abi = 1;
  code.max_rows = 32;
  code.kernels = {{"norm.c64", "k_norm_c64", 128, 3, 512, {0x07230203, 1, 2, 3, 4, 5}, "gpu"},
                  {"add.v4", "main", 64, 2, 0, {0x07230203, 9, 9, 9, 9, 9}, "glsl"}};
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
  code.sample_programs = {{gpu::Sampling::kGreedy, 1, {norm}}, {gpu::Sampling::kDraw, 8, {attention, norm}}};
  code.scratch_bytes = 77;
  code.constants = {1, 2, 3, 4, 5};
  code.ptx = ".version 7.0";
  return code;
}

void ExpectSame(const std::vector<gpu::DispatchCode>& a, const std::vector<gpu::DispatchCode>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].kernel, b[i].kernel);
    for (int d = 0; d < 3; ++d) EXPECT_EQ(a[i].grid[d], b[i].grid[d]);
    EXPECT_EQ(a[i].barrier, b[i].barrier);
    EXPECT_EQ(a[i].read_bytes, b[i].read_bytes);
    EXPECT_EQ(a[i].write_bytes, b[i].write_bytes);
    EXPECT_EQ(a[i].kv_bytes, b[i].kv_bytes);
    EXPECT_EQ(a[i].ops, b[i].ops);
    EXPECT_EQ(a[i].family, b[i].family);
    EXPECT_EQ(a[i].layer, b[i].layer);
    ASSERT_EQ(a[i].args.size(), b[i].args.size());
    for (size_t j = 0; j < a[i].args.size(); ++j) {
      EXPECT_EQ(a[i].args[j].space, b[i].args[j].space);
      EXPECT_EQ(a[i].args[j].value, b[i].args[j].value);
      EXPECT_EQ(a[i].args[j].bytes, b[i].args[j].bytes);
    }
  }
}

TEST(GpuCodeSection, ComesBackAsWritten) {
  const gpu::GpuCode code = Sample();
  const std::vector<uint8_t> bytes = BuildGpuCodeSection(code);
  EXPECT_EQ(bytes, BuildGpuCodeSection(code)) << "the same code gave other bytes";
  const auto read = ParseGpuCodeSection(bytes, "here");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->abi, code.abi);
  EXPECT_EQ(read->max_rows, code.max_rows);
  ASSERT_EQ(read->kernels.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->kernels[i].name, code.kernels[i].name);
    EXPECT_EQ(read->kernels[i].entry, code.kernels[i].entry);
    EXPECT_EQ(read->kernels[i].workgroup_size, code.kernels[i].workgroup_size);
    EXPECT_EQ(read->kernels[i].n_args, code.kernels[i].n_args);
    EXPECT_EQ(read->kernels[i].shared_bytes, code.kernels[i].shared_bytes);
    EXPECT_EQ(read->kernels[i].spirv, code.kernels[i].spirv);
    EXPECT_EQ(read->kernels[i].source, code.kernels[i].source);
  }
  ASSERT_EQ(read->programs.size(), 2u);
  EXPECT_EQ(read->programs[0].arena_bytes, 4096u);
  ExpectSame(read->programs[0].dispatches, code.programs[0].dispatches);
  ASSERT_EQ(read->sample_programs.size(), 2u);
  EXPECT_EQ(read->sample_programs[1].kind, gpu::Sampling::kDraw);
  EXPECT_EQ(read->sample_programs[1].rows, 8u);
  ExpectSame(read->sample_programs[1].dispatches, code.sample_programs[1].dispatches);
  EXPECT_EQ(read->scratch_bytes, 77u);
  EXPECT_EQ(read->constants, code.constants);
  EXPECT_EQ(read->ptx, code.ptx);
}

TEST(GpuCodeSection, EveryCutIsRefused) {
  const std::vector<uint8_t> bytes = BuildGpuCodeSection(Sample());
  for (size_t n = 0; n < bytes.size(); n += 7) {
    const auto read = ParseGpuCodeSection(std::span(bytes).first(n), "here");
    ASSERT_FALSE(read.ok()) << n << " of " << bytes.size() << " bytes were accepted";
    EXPECT_EQ(PartsOf(read.status()).code, "Q4014") << read.status();
  }
}

TEST(GpuCodeSection, KernelsThatDoNotExistAreRefused) {
  gpu::GpuCode code = Sample();
  code.programs[1].dispatches[0].kernel = 2;
  const auto read = ParseGpuCodeSection(BuildGpuCodeSection(code), "here");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(PartsOf(read.status()).code, "Q4015") << read.status();
}

// One vector of SPIR-V that a thousand kernels point to.
TEST(GpuCodeSection, WhatUnfoldsToFarMoreThanTheFileIsRefused) {
  flatbuffers::FlatBufferBuilder b;
  auto spirv = b.CreateVector(std::vector<uint32_t>(10000));
  auto name = b.CreateString("k");
  std::vector<flatbuffers::Offset<qrt::abi::GpuKernel>> kernels;
  for (int i = 0; i < 1000; ++i)
    kernels.push_back(qrt::abi::CreateGpuKernel(b, name, name, 1, 0, 0, spirv, name));
  auto kernel_list = b.CreateVector(kernels);
  auto programs = b.CreateVector(std::vector<flatbuffers::Offset<qrt::abi::GpuProgram>>());
  auto samples = b.CreateVector(std::vector<flatbuffers::Offset<qrt::abi::GpuSampleProgram>>());
  qrt::abi::FinishGpuCodeBuffer(b, qrt::abi::CreateGpuCode(b, 1, 1, kernel_list, programs, samples));
  const auto read = ParseGpuCodeSection(std::span(b.GetBufferPointer(), b.GetSize()), "here");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(PartsOf(read.status()).code, "Q4015") << read.status();
}

TEST(GpuReport, CountsLayersAndBytes) {
  const GpuCodeReport report = ReportGpuCode(Sample());
  EXPECT_EQ(report.spirv_bytes, 48u);
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
