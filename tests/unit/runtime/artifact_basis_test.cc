// Code and a manifest that it was not made for, all hashes right: refused, whatever field differs.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/runtime/artifact_sample.h"

namespace qrt::testing {
namespace {

using qcc::compiler::ManifestSpec;
using qcc::compiler::SpecElement;
using qcc::compiler::SpecState;

struct BasisLie {
  const char* name;
  void (*tell)(ManifestSpec& m);
};

// Every field that code takes for granted, altered to what passes as such.
const BasisLie kBasisLies[] = {
    {"logits_stride", [](auto& m) { m.logits_stride += 1; }},
    {"context_length", [](auto& m) { m.context_length += 1; }},
    {"embedding_length", [](auto& m) { m.embedding_length += 1; }},
    {"numerics", [](auto& m) { m.numerics = Numerics::kF32; }},
    {"kv_element", [](auto& m) { m.kv_element = SpecElement::kF32; }},
    {"state_bytes", [](auto& m) { m.state_bytes += 64; }},
    {"kv_bytes_per_token", [](auto& m) { m.kv_bytes_per_token += 64; }},
    {"state_name", [](auto& m) { m.states[0].name += "x"; }},
    {"state_kind", [](auto& m) { m.states[0].kind = SpecState::kDelta; }},
    {"state_layer", [](auto& m) { m.states[0].layer = 1; }},
    {"state_shape",
     [](auto& m) {
       m.states[0].shape = {64, 3};
     }},
    {"state_dimensions", [](auto& m) { m.states[0].shape = {192}; }},
    {"state_element", [](auto& m) { m.states[0].element = SpecElement::kF16; }},
    {"state_offset", [](auto& m) { m.states[0].offset = 64; }},
    {"state_bytes_of_one", [](auto& m) { m.states[0].bytes += 64; }},
    {"state_block", [](auto& m) { m.state_block = 16; }},
    {"state_missing",
     [](auto& m) {
       m.states.pop_back();
       m.kv_bytes_per_token = 0;
       for (auto& program : m.programs) {
         if (!program.facts.advances.empty()) program.facts.advances.pop_back();
       }
     }},
    {"stream_name", [](auto& m) { m.streams[0] += "x"; }},
    {"stream_more", [](auto& m) { m.streams.push_back("other"); }},
    {"program_name", [](auto& m) { m.programs[0].name += "x"; }},
    {"program_takes",
     [](auto& m) {
       m.programs[0].facts.takes |= kStream;
       m.programs[0].facts.stream = 0;
     }},
    {"program_given",
     [](auto& m) {
       m.programs[0].facts.takes |= kGiven;
       m.programs[0].facts.given_cols = 64;
     }},
    {"program_leaves", [](auto& m) { m.programs[1].facts.leaves = -1; }},
    {"program_gives", [](auto& m) { m.programs[0].facts.gives = Output::kLogits; }},
    {"program_advances",
     [](auto& m) {
       m.programs[0].facts.advances = {0, 2};
     }},
    {"program_rows", [](auto& m) { m.programs[0].rows = 2; }},
    {"program_arena_smaller", [](auto& m) { m.programs[0].arena_bytes -= 64; }},
    {"program_arena_larger", [](auto& m) { m.programs[0].arena_bytes += 64; }},
    {"program_dispatches", [](auto& m) { m.programs[0].dispatches += 1; }},
    {"program_barriers", [](auto& m) { m.programs[0].barriers += 1; }},
    {"program_weight_bytes", [](auto& m) { m.programs[0].weight_bytes += 1; }},
    {"programs_in_another_order", [](auto& m) { std::swap(m.programs[0], m.programs[1]); }},
    {"code_target", [](auto& m) { m.code[0].target = "vulkan"; }},
    {"code_level", [](auto& m) { m.code[0].isa = "base"; }},
    {"code_feature_missing", [](auto& m) { m.code[0].features.pop_back(); }},
    {"code_features_joined",
     [](auto& m) {
       m.code[0].features = {"avxavx2", "fma"};
     }},
    {"code_listed_twice", [](auto& m) { m.code.push_back(m.code[0]); }},
};

// The file of `parts` with the code section of `other`, which has the same size.
std::vector<uint8_t> WithCodeOf(const SampleParts& parts, const SampleParts& other) {
  std::vector<uint8_t> file = BytesOfParts(parts);
  const std::vector<uint8_t> from = BytesOfParts(other);
  const qbin_section to_section = SectionOf(file, FindSection(file, QBIN_SECTION_CODE));
  const qbin_section section = SectionOf(from, FindSection(from, QBIN_SECTION_CODE));
  EXPECT_EQ(section.size, to_section.size);
  std::memcpy(file.data() + to_section.offset, from.data() + section.offset, section.size);
  Seal(file);
  return file;
}

class BasisLies : public ::testing::TestWithParam<BasisLie> {};
TEST_P(BasisLies, IsRefused) {
  SampleParts parts = MakeParts();
  GetParam().tell(parts.manifest);
  const Status alone = OpenAndUse(BytesOfParts(parts));
  EXPECT_TRUE(alone.ok()) << "the manifest is refused as such, so this says nothing of the code: "
                          << alone.ToString();
  const Status status = OpenAndUse(WithCodeOf(parts, MakeParts()));
  EXPECT_EQ(status.number(), 4026u) << status.ToString();
  EXPECT_NE(status.message().find("was made for other programs"), std::string::npos) << status.ToString();
}
INSTANTIATE_TEST_SUITE_P(All, BasisLies, ::testing::ValuesIn(kBasisLies),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(CodeBasis, IsOfTheWeightsThatTheCodeReads) {
  SampleParts parts = MakeParts();
  parts.weights.push_back(0);
  const Status status = OpenAndUse(WithCodeOf(parts, MakeParts()));
  EXPECT_EQ(status.number(), 4026u) << status.ToString();
  EXPECT_NE(status.message().find("was made for other programs"), std::string::npos) << status.ToString();
}

TEST(CodeBasis, IsOfWhatTokensLeave) {
  SampleParts parts = PartsWithEntries();
  parts.manifest.states[1].shape = {2, 16, 24};
  parts.manifest.states[1].entry_bytes = 128;  // as many bytes in all
  const Status alone = OpenAndUse(BytesOfParts(parts));
  EXPECT_TRUE(alone.ok()) << alone.ToString();
  SampleParts shaped = PartsWithEntries();
  shaped.manifest.states[1].shape = parts.manifest.states[1].shape;
  shaped.manifest.states[1].entry_bytes = 128;
  EXPECT_EQ(OpenAndUse(WithCodeOf(parts, shaped)).number(), 0u);
  EXPECT_EQ(OpenAndUse(WithCodeOf(parts, PartsWithEntries())).number(), 4026u);
}

// What code does not know of changes nothing.
TEST(CodeBasis, LeavesTheRestAlone) {
  SampleParts parts = MakeParts();
  parts.manifest.name = "another";
  parts.manifest.sampling.top_k = 7;
  parts.manifest.provenance.options.clear();
  const Status status = OpenAndUse(WithCodeOf(parts, MakeParts()));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

}  // namespace
}  // namespace qrt::testing
