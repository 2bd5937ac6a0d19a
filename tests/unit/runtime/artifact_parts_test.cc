// Artifacts of models whose layers run on several devices: what the reader makes of one, and lies about
// parts, all hashes right, each refused by the check that is there for it.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "compiler/artifact/writer.h"
#include "tests/unit/runtime/aligned_bytes.h"
#include "tests/unit/runtime/artifact_sample.h"
#include "tests/unit/runtime/program_facts.h"

namespace qrt::testing {
namespace {

using qcc::compiler::ArtifactWriter;
using qcc::compiler::ManifestSpec;
using qcc::compiler::ProgramSpec;

ProgramFacts GivenRows(ProgramFacts facts) {
  facts.takes = kGiven;
  facts.given_cols = 64;
  return facts;
}

// The sample's model as two parts: layer 0 with conv and delta, layer 1 with KV and the head.
ManifestSpec TwoParts() {
  ManifestSpec m = MakeParts().manifest;
  m.tokenizer.reset();
  m.weights.clear();
  m.programs = {{"trunk_1", PrefillFacts({0, 1}), 1, 65536, 10, 4},
                {"trunk_8", PrefillFacts({0, 1}), 8, 262144, 10, 4},
                {"decode_1", GivenRows(DecodeFacts({2})), 1, 65536, 10, 5},
                {"prefill_8", GivenRows(PrefillFacts({2})), 8, 262144, 8, 4},
                {"head_8", HeadFacts(), 8, 262144, 2, 1}};
  m.code = {{"cpu", "v3", {"avx", "avx2", "fma"}, 0, 2}, {"cpu", "v3", {"avx", "avx2", "fma"}, 1, 3}};
  m.parts = {{"cpu", 0, 1, 2, 2, 1, m.state_bytes, 0, 5000}, {"cpu", 1, 1, 1, 3, 1, 0, 256, 7000}};
  m.stages = {{1, -1, 0}, {3, -1, 7}};  // one of each part
  m.weights_bytes = 7000;
  m.required_features = QBIN_FEATURE_PARTS;
  return m;
}

std::vector<uint8_t> CodeOf(std::vector<uint32_t> entries) {
  std::vector<uint32_t> words = {
      QRT_CODE_MAGIC, QRT_PROGRAM_ABI, static_cast<uint32_t>(entries.size()), 0, 1, 0};
  words.insert(words.end(), entries.begin(), entries.end());
  std::vector<uint8_t> code(128, 0xc3);
  std::memcpy(code.data(), words.data(), 4 * words.size());
  return code;
}

std::vector<uint8_t> Write(const ManifestSpec& manifest) {
  const TempFolder folder;
  const std::string path = folder.File("parts.qbin");
  auto writer = ArtifactWriter::Create(path);
  EXPECT_TRUE(writer.ok()) << writer.status();
  const std::vector<uint8_t> sections[] = {CodeOf({32, 40}), CodeOf({40, 48, 56}),
                                           std::vector<uint8_t>(5000, 1), std::vector<uint8_t>(7000, 2)};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE((*writer)->AddSection(i < 2 ? QBIN_SECTION_CODE : QBIN_SECTION_WEIGHTS, sections[i]).ok());
  }
  const absl::Status finished = (*writer)->Finish(manifest);
  EXPECT_TRUE(finished.ok()) << finished;
  return ReadFile(path);
}

TEST(ArtifactParts, AreLikeArtifactsOfTheirOwn) {
  const std::vector<uint8_t> file = Write(TwoParts());
  EXPECT_EQ(HeaderOf(file).required_features, QBIN_FEATURE_PARTS);
  const AlignedBytes bytes(file);
  Result<std::unique_ptr<Artifact>> opened = Artifact::FromBytes(bytes.span(), "parts");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Artifact& artifact = **opened;
  ASSERT_EQ(artifact.part_count(), 2u);
  EXPECT_EQ(artifact.manifest().parts, TwoParts().parts);
  EXPECT_EQ(artifact.manifest().programs.size(), 5u);
  EXPECT_EQ(artifact.manifest().programs[2].facts.advances, (std::vector<uint32_t>{2}));
  const Artifact &first = artifact.part(0), &last = artifact.part(1);
  ASSERT_EQ(first.manifest().programs.size(), 2u);
  ASSERT_EQ(last.manifest().programs.size(), 3u);
  ASSERT_EQ(first.manifest().stages.size(), 1u);
  EXPECT_EQ(first.manifest().stages[0].program, 1u);
  ASSERT_EQ(last.manifest().stages.size(), 1u);
  EXPECT_EQ(last.manifest().stages[0].program, 1u);
  EXPECT_EQ(last.manifest().stages[0].weight_bytes, 7u);
  EXPECT_EQ(first.manifest().part, 0u);
  EXPECT_EQ(last.manifest().part, 1u);
  EXPECT_EQ(first.manifest().programs[1].name, "trunk_8");
  EXPECT_EQ(last.manifest().programs[0].name, "decode_1");
  EXPECT_EQ(last.manifest().programs[0].facts.advances, (std::vector<uint32_t>{0})) << "among its own states";
  EXPECT_EQ(last.manifest().states[0].name, "blk.1.kv");
  EXPECT_EQ(first.manifest().kv_bytes_per_token, 0u);
  EXPECT_EQ(last.manifest().kv_bytes_per_token, 256u);
  EXPECT_EQ(last.manifest().state_bytes, 0u);
  EXPECT_EQ(first.weights(0).size(), 5000u);
  EXPECT_EQ(last.weights(0).size(), 7000u);
  EXPECT_EQ(last.identity(), artifact.identity());
  EXPECT_EQ(artifact.PartOfCode(1).part, &last);
  EXPECT_EQ(artifact.PartOfCode(1).variant, 0u);
  EXPECT_EQ(&last.part(0), &last) << "a part is not cut";
}

// A NextN block goes with the last part: a state of the layer behind the last, programs that take tokens with
// the trunk's rows and with their own.
TEST(ArtifactParts, TheLastMayDraft) {
  ManifestSpec m = TwoParts();
  m.states.push_back(m.states[2]);
  m.states.back().name = "blk.2.kv";
  m.states.back().layer = 2;
  m.states.back().offset = 256;
  m.kv_bytes_per_token = m.parts[1].kv_bytes_per_token = 512;
  m.parts[1].states = 2;
  m.streams.push_back("mtp");
  const auto stream = static_cast<int32_t>(m.streams.size() - 1);
  m.programs[3].facts = {kTokens | kGiven, 64, -1, stream, Output::kLogits, {3}};
  m.programs[4].facts = {kTokens | kStream, 0, stream, stream, Output::kLogits, {3}};
  const Status status = OpenAndUse(Write(m));
  EXPECT_TRUE(status.ok()) << status.ToString();
  const auto refused = [](ManifestSpec lie, const char* says) {
    const Status found = OpenAndUse(Write(lie));
    EXPECT_EQ(found.number(), 4015u) << found.ToString();
    EXPECT_NE(found.message().find(says), std::string::npos) << found.ToString();
  };
  ManifestSpec lie = m;
  lie.states.back().layer = 3;
  refused(lie, "state 'blk.2.kv'.layer is 3, expected one of the 1 layers from 1 on");
  lie = m;
  lie.programs[3].facts.given_cols = 32;
  refused(lie, "program 'prefill_8'.given_cols is 32, expected 64");
  lie = m;
  lie.programs[3].facts.takes = kGiven | kStream;
  lie.programs[3].facts.stream = 0;
  refused(lie, "program 'prefill_8'.takes is 6, expected 2: it is of part 1");
  for (const size_t program : {3, 4}) {
    lie = TwoParts();
    lie.programs[1].facts = m.programs[program].facts;
    lie.programs[1].facts.advances = {0};
    lie.streams = m.streams;
    refused(lie, "program 'trunk_8'.takes is");
  }
  lie = m;
  lie.programs[3].logits_cols = 16;
  lie.draft_tokens = {1, 2, 3};
  refused(lie, "the length of draft_tokens is 3, expected 16");
}

struct LayerLie {
  const char* name;
  void (*tell)(ManifestSpec& m);
  uint32_t number;
  const char* says;
};

const LayerLie kLayerLies[] = {
    {"one_part",
     [](auto& m) {
       m.parts = {{"cpu", 0, 2, 3, 5, 2, m.state_bytes, m.kv_bytes_per_token, 7000}};
     },
     4015, "the length of parts is 1, expected 2 to 8"},
    {"too_many_parts", [](auto& m) { m.parts.resize(9, m.parts[1]); }, 4015, "the length of parts is 9"},
    {"first_layer_missing", [](auto& m) { m.parts[0].first_layer = 1; }, 4015,
     "part 0.first_layer is 1, expected 0"},
    {"layers_apart", [](auto& m) { m.parts[1].first_layer = 2; }, 4015,
     "part 1.first_layer is 2, expected 1"},
    {"layers_twice", [](auto& m) { m.parts[0].layers = 2; }, 4015, "part 1.first_layer is 1, expected 2"},
    {"no_layers", [](auto& m) { m.parts[1].layers = 0; }, 4015, "part 1.layers is 0"},
    {"states_left_over", [](auto& m) { m.parts[1].states = 0; }, 4015,
     "the sum of parts.states is 2, expected 3"},
    {"more_states_than_there_are", [](auto& m) { m.parts[1].states = 0xffffffff; }, 4015, "parts.states"},
    {"more_programs_than_there_are", [](auto& m) { m.parts[0].programs = 3; }, 4015,
     "the sum of parts.programs is 6, expected 5"},
    {"code_left_over", [](auto& m) { m.parts[0].code = 0; }, 4015, "the sum of parts.code is 1, expected 2"},
    {"a_part_without_code",
     [](auto& m) {
       m.parts[0].code = 0;
       m.parts[1].code = 2;
     },
     4015, "the length of code is 0"},
    {"state_bytes_that_no_part_has", [](auto& m) { m.state_bytes += 64; }, 4015, "state_bytes is 5184"},
    {"kv_bytes_that_no_part_has", [](auto& m) { m.kv_bytes_per_token += 64; }, 4015,
     "kv_bytes_per_token is 320"},
    {"areas_that_wrap", [](auto& m) { m.parts[0].state_bytes = m.parts[1].state_bytes = 1ull << 63; }, 4015,
     "state_bytes is 5120"},
    {"states_of_the_other_part",
     [](auto& m) {
       m.parts[0].state_bytes = 0;
       m.parts[1].state_bytes = m.state_bytes;
     },
     4015, "state 'blk.0.conv' is"},
    {"layer_of_the_other_part", [](auto& m) { m.states[0].layer = 1; }, 4015,
     "state 'blk.0.conv'.layer is 1, expected one of the 1 layers from 0 on"},
    {"advances_the_other_part", [](auto& m) { m.programs[2].facts.advances = {1}; }, 4015,
     "program 'decode_1'.advances[0]"},
    {"advances_both_parts",
     [](auto& m) {
       m.programs[0].facts.advances = {0, 1, 2};
     },
     4015, "program 'trunk_1'.advances[2] is 2"},
    {"target_of_another", [](auto& m) { m.parts[1].target = "vulkan"; }, 4015, "code 'v3'.target is cpu"},
    {"later_part_takes_tokens",
     [](auto& m) {
       m.programs[2].facts.takes = kTokens;
       m.programs[2].facts.given_cols = 0;
     },
     4015, "program 'decode_1'.takes is 1, expected 2: it is of part 1"},
    {"first_part_is_given_rows", [](auto& m) { m.programs[0].facts = GivenRows(m.programs[0].facts); }, 4015,
     "program 'trunk_1'.takes is 2, expected 1: it is of part 0"},
    {"rows_of_another_width", [](auto& m) { m.programs[2].facts.given_cols = 32; }, 4015,
     "program 'decode_1'.given_cols is 32, expected 64 (model.embedding_length)"},
    {"first_part_leaves_nothing", [](auto& m) { m.programs[0].facts.leaves = -1; }, 4015,
     "program 'trunk_1'.leaves is -1, expected a stream"},
    {"first_part_gives_logits", [](auto& m) { m.programs[0].facts.gives = Output::kChosenLogits; }, 4015,
     "no logits: a part follows"},
    {"rows_do_not_fit_the_arena", [](auto& m) { m.programs[1].arena_bytes = 2047; }, 4015,
     "program 'trunk_8'.arena_bytes is 2047, expected at least 2048"},
    {"weights_of_another_size", [](auto& m) { m.parts[0].weights_bytes = 5001; }, 4015,
     "weights_bytes is 5001, expected 5000"},
    {"most_weights", [](auto& m) { m.weights_bytes = 5000; }, 4015, "weights_bytes is 5000, expected 7000"},
    {"entries_of_the_other_part", [](auto& m) { std::swap(m.code[0].section, m.code[1].section); }, 4016,
     "the code has 3 entries, the manifest 2 programs"},
};

class LayerLies : public ::testing::TestWithParam<LayerLie> {};
TEST_P(LayerLies, IsRefused) {
  ManifestSpec m = TwoParts();
  GetParam().tell(m);
  const Status status = OpenAndUse(Write(m));
  EXPECT_EQ(status.number(), GetParam().number) << status.ToString();
  EXPECT_NE(status.message().find(GetParam().says), std::string::npos)
      << "the message does not say '" << GetParam().says << "': " << status.ToString();
}
INSTANTIATE_TEST_SUITE_P(All, LayerLies, ::testing::ValuesIn(kLayerLies),
                         [](const auto& param) { return std::string(param.param.name); });

// A reader that knows no parts refuses the bit; one that knows them, parts without the bit and the reverse.
TEST(ArtifactParts, TheHeaderSaysThatThereAreSome) {
  std::vector<uint8_t> file = Write(TwoParts());
  qbin_header header = HeaderOf(file);
  EXPECT_EQ(header.required_features & QBIN_FEATURE_PARTS, QBIN_FEATURE_PARTS);
  header.required_features = 0;
  SetHeader(file, header);
  SealHeader(file);
  const Status hidden = OpenAndUse(file);
  EXPECT_EQ(hidden.number(), 4015u) << hidden.ToString();
  EXPECT_NE(hidden.message().find("the header does not require it"), std::string::npos) << hidden.ToString();
  file = BytesOfParts(MakeParts());
  header = HeaderOf(file);
  header.required_features = QBIN_FEATURE_PARTS;
  SetHeader(file, header);
  SealHeader(file);
  const Status missing = OpenAndUse(file);
  EXPECT_EQ(missing.number(), 4015u) << missing.ToString();
  EXPECT_NE(missing.message().find("the length of parts is 0"), std::string::npos) << missing.ToString();
}

// Code of a part beside other parts, though all that it advances and takes is the same.
TEST(ArtifactParts, CodeIsMadeForItsPlaceAmongThem) {
  const std::vector<uint8_t> file = Write(TwoParts());
  ManifestSpec other = TwoParts();
  other.parts[1].layers = 2;
  const std::vector<uint8_t> told = Write(other);
  ASSERT_TRUE(OpenAndUse(told).ok()) << "a layer without states";
  std::vector<uint8_t> mixed = told;
  const qbin_section code = SectionOf(file, 0);
  std::copy_n(file.begin() + static_cast<ptrdiff_t>(code.offset), code.size,
              mixed.begin() + static_cast<ptrdiff_t>(code.offset));
  Seal(mixed);
  EXPECT_EQ(OpenAndUse(mixed).number(), 4026u) << OpenAndUse(mixed).ToString();
}

}  // namespace
}  // namespace qrt::testing
