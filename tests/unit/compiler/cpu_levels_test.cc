// Code of levels that differ in how integers are summed up only: equal logits, bit for bit.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/unit/codegen_cpu/instruction_emulator.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qcc::compiler {
namespace {

using CpuLevels = InFolder;

// Logits of `code` after 41 tokens, of which all but the last are in one step.
std::vector<float> LogitsOf(const qrt::Artifact& artifact, size_t code) {
  auto device = qrt::CpuDevice::Create(artifact, code, qrt::ThreadPool::Create(2, 2), nullptr);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  if (!device.ok()) return {};
  const qrt::ModelInfo& model = artifact.manifest().model;
  std::vector<int32_t> tokens;
  for (uint32_t at = 0; at < 41; ++at)
    tokens.push_back(static_cast<int32_t>((at * 37 + 11) % model.vocab_size));
  std::vector<float> logits(model.logits_stride);
  CpuSequence sequence(artifact, **device);
  sequence.Run("prefill_64", std::span(tokens).first(40), 0, nullptr);
  sequence.Run("decode_1", std::span(tokens).subspan(40), 40, logits.data());
  logits.resize(model.vocab_size);
  return logits;
}

// The levels `vectors` and `better` of a golden model, the second with instructions of its own, which are
// emulated where the machine has none: what qcc makes for it is run as it is.
void CheckEqualBits(const std::string& name, const std::string& output, cpu::Isa vectors, cpu::Isa better) {
  SCOPED_TRACE(name);
  PipelineOptions options;
  options.input = (std::filesystem::path(QCC_SOURCE_DIR) / "tests" / "golden" / name).string() + ".gguf";
  options.output = output;
  options.cpu = {std::string(cpu::isa_info(vectors).name), std::string(cpu::isa_info(better).name)};
  options.decode_buckets = {1};
  options.prefill_buckets = {64};
  options.golden_tokens = 0;
  QuietSink quiet;
  const absl::Status compiled = CompileModel(options, quiet);
  ASSERT_TRUE(compiled.ok()) << compiled;
  ASSERT_EQ(cpu::WhyNotHere(better), "") << "asked once more, behind LLVM";
  auto artifact = qrt::Artifact::Open(options.output);
  ASSERT_TRUE(artifact.ok()) << artifact.status().ToString();
  const std::vector<qrt::CodeInfo>& code = (*artifact)->manifest().code;
  ASSERT_EQ(code.size(), 2u);
  ASSERT_EQ(code[0].isa, options.cpu[1]) << "the best comes first";
  const uint64_t before = cpu::EmulatedInstructions();
  const std::vector<float> logits = LogitsOf(**artifact, 0);
  const bool emulated = !cpu::missing_cpu_flag(better).empty();
  EXPECT_EQ(cpu::EmulatedInstructions() > before, emulated);
  EXPECT_EQ(logits, LogitsOf(**artifact, 1));
}

TEST_F(CpuLevels, TilesGiveTheBitsOfVectors) {
  for (const cpu::Isa isa : {cpu::Isa::v4vnni, cpu::Isa::v4amx}) {
    if (const std::string why = cpu::WhyNotHere(isa); !why.empty()) GTEST_SKIP() << why;
  }
  for (const char* name : {"t35-q-Q4_K_M", "t35-q-Q8_0"})
    CheckEqualBits(name, Path("model.qbin"), cpu::Isa::v4vnni, cpu::Isa::v4amx);
}

// Where AVX-VNNI is emulated 29 s of a core (Zen 3), of which signals are 9.
TEST_F(CpuLevels, SumsOfFourProductsGiveTheBitsOfSumsOfTwo) {
  for (const cpu::Isa isa : {cpu::Isa::v3, cpu::Isa::v3vnni}) {
    if (const std::string why = cpu::WhyNotHere(isa); !why.empty()) GTEST_SKIP() << why;
  }
  CheckEqualBits("t35-q-Q4_K_M", Path("model.qbin"), cpu::Isa::v3, cpu::Isa::v3vnni);
}

}  // namespace
}  // namespace qcc::compiler
