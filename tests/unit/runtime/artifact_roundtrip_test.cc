#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/abi/program.h"
#include "runtime/artifact/artifact.h"
#include "tests/unit/runtime/artifact_sample.h"

namespace qrt::testing {
namespace {

// Does not compile when a struct of the manifest gets a field that the test below does not compare yet: then
// add it to both.
[[maybe_unused]] void EveryFieldOf(const Manifest& m) {
  [[maybe_unused]] const auto& [model, numerics, kv_element, weights_bytes, state_bytes, kv_bytes_per_token,
                                states, programs, code, tokenizer, sampling, chat_template_section,
                                goldens_section, formats, provenance, streams, weights, kernels, parts, part,
                                state_block, stages, draft_tokens, lost_roles] = m;
  // These in artifact_parts_test.cc.
  [[maybe_unused]] const auto& [part_target, first_layer, layers, part_states, part_programs, part_code,
                                part_state_bytes, part_kv_bytes, part_weights_bytes] = parts[0];
  [[maybe_unused]] const auto& [kernel_name, specification, kernel_programs, code_bytes] = kernels[0];
  [[maybe_unused]] const auto& [stage_program, stage_kernel, stage_weights] = stages[0];
  [[maybe_unused]] const auto& [weight_name, format, layout, weight_rows, weight_cols, weight_section,
                                weight_offset, weight_size] = weights[0];
  [[maybe_unused]] const auto& [arch, model_name, vocab_size, logits_stride, context_length,
                                embedding_length] = model;
  [[maybe_unused]] const auto& [state_name, kind, layer, shape, element, offset, bytes, entry_bytes] =
      states[0];
  [[maybe_unused]] const auto& [program_name, facts, rows, arena_bytes, dispatches, barriers, weight_bytes,
                                logits_cols] = programs[0];
  [[maybe_unused]] const auto& [target, isa, features, section, weights_section] = code[0];
  [[maybe_unused]] const auto& [pre, bos, eos, eot, pad, add_bos, nfc, eog, tokenizer_section] = *tokenizer;
  [[maybe_unused]] const auto& [temperature, top_p, min_p, repeat_penalty, presence_penalty,
                                frequency_penalty, top_k, penalty_window] = sampling;
  [[maybe_unused]] const auto& [format_name, tensors, source_bytes, packed_bytes] = formats[0];
  [[maybe_unused]] const auto& [compiler, options, source_name, source_size, source_hash] = provenance;
}

TEST(ArtifactRoundTrip, EveryFieldArrives) {
  const TempFolder folder;
  const std::string path = folder.File("a.qbin");
  SampleParts parts = MakeParts();
  parts.manifest.tokenizer->nfc = true;
  parts.manifest.sampling.min_p = 0.05f;
  parts.manifest.sampling.repeat_penalty = 1.1f;
  parts.manifest.sampling.presence_penalty = 0.5f;
  parts.manifest.sampling.frequency_penalty = 0.25f;
  parts.manifest.sampling.penalty_window = 64;
  parts.manifest.required_features = QBIN_FEATURE_SELECTED_ROWS;
  WriteParts(parts, path);
  Result<std::unique_ptr<Artifact>> opened = Artifact::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Artifact& a = **opened;
  const Manifest& m = a.manifest();
  const qcc::compiler::ManifestSpec& s = parts.manifest;
  EXPECT_EQ(m.model.arch, "qwen35");
  EXPECT_EQ(m.model.name, "sample");
  EXPECT_EQ(m.model.vocab_size, 272u);
  EXPECT_EQ(m.model.logits_stride, 272u);
  EXPECT_EQ(m.draft_tokens, (std::vector<uint32_t>{5, 271}));
  EXPECT_EQ(m.model.context_length, 4096u);
  EXPECT_EQ(m.model.embedding_length, 64u);
  EXPECT_EQ(m.numerics, Numerics::kInt8);
  EXPECT_EQ(m.kv_element, Element::kF16);
  EXPECT_EQ(m.weights_bytes, 5000u);
  EXPECT_EQ(m.state_bytes, 5120u);
  EXPECT_EQ(m.kv_bytes_per_token, 256u);
  ASSERT_EQ(m.states.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(m.states[i].name, s.states[i].name);
    EXPECT_EQ(static_cast<int>(m.states[i].kind), static_cast<int>(s.states[i].kind));
    EXPECT_EQ(m.states[i].layer, s.states[i].layer);
    EXPECT_EQ(m.states[i].shape, s.states[i].shape);
    EXPECT_EQ(static_cast<int>(m.states[i].element), static_cast<int>(s.states[i].element));
    EXPECT_EQ(m.states[i].offset, s.states[i].offset);
    EXPECT_EQ(m.states[i].bytes, s.states[i].bytes);
  }
  ASSERT_EQ(m.programs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(m.programs[i].name, s.programs[i].name);
    EXPECT_EQ(m.programs[i].facts, s.programs[i].facts);
    EXPECT_EQ(m.programs[i].rows, s.programs[i].rows);
    EXPECT_EQ(m.programs[i].arena_bytes, s.programs[i].arena_bytes);
    EXPECT_EQ(m.programs[i].dispatches, s.programs[i].dispatches);
    EXPECT_EQ(m.programs[i].barriers, s.programs[i].barriers);
    EXPECT_EQ(m.programs[i].weight_bytes, s.programs[i].weight_bytes);
    EXPECT_EQ(m.programs[i].logits_cols, s.programs[i].logits_cols);
  }
  ASSERT_EQ(m.code.size(), 1u);
  EXPECT_EQ(m.code[0].target, "cpu");
  EXPECT_EQ(m.code[0].isa, "v3");
  EXPECT_EQ(m.code[0].features, (std::vector<std::string>{"avx", "avx2", "fma"}));
  ASSERT_EQ(a.code(0).size(), parts.code.size() + QBIN_BASIS_BYTES);
  EXPECT_TRUE(std::ranges::equal(a.code(0).first(parts.code.size()), parts.code))
      << "the code's bytes changed";
  EXPECT_EQ(a.code_hash(0), HashOf(a.code(0)));
  EXPECT_TRUE(std::ranges::equal(a.weights(0), parts.weights)) << "the weights' bytes changed";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.weights(0).data()) % 64, 0u);
  ASSERT_TRUE(m.tokenizer.has_value());
  EXPECT_EQ(m.tokenizer->pre, "qwen35");
  EXPECT_EQ(m.tokenizer->bos, 262);
  EXPECT_EQ(m.tokenizer->eos, 264);
  EXPECT_EQ(m.tokenizer->eot, 264);
  EXPECT_EQ(m.tokenizer->pad, -1);
  EXPECT_FALSE(m.tokenizer->add_bos);
  EXPECT_EQ(a.sections()[m.tokenizer->section].kind, static_cast<uint32_t>(QBIN_SECTION_TOKENIZER));
  ASSERT_TRUE(m.chat_template_section && m.goldens_section);
  EXPECT_EQ(a.sections()[*m.chat_template_section].kind, static_cast<uint32_t>(QBIN_SECTION_CHAT_TEMPLATE));
  EXPECT_EQ(a.sections()[*m.goldens_section].kind, static_cast<uint32_t>(QBIN_SECTION_GOLDENS));
  EXPECT_EQ(m.tokenizer->eog, (std::vector<uint32_t>{262, 264}));
  EXPECT_TRUE(m.tokenizer->nfc);
  EXPECT_EQ(m.sampling.temperature, 0.7f);
  EXPECT_EQ(m.sampling.top_k, 20);
  EXPECT_EQ(m.sampling.min_p, 0.05f);
  EXPECT_EQ(m.sampling.repeat_penalty, 1.1f);
  EXPECT_EQ(m.sampling.presence_penalty, 0.5f);
  EXPECT_EQ(m.sampling.frequency_penalty, 0.25f);
  EXPECT_EQ(m.sampling.penalty_window, 64);
  EXPECT_FALSE(m.sampling.top_p.has_value()) << "an absent recommendation came back as a value";
  EXPECT_EQ(m.streams, s.streams);
  ASSERT_EQ(m.formats.size(), 2u);
  EXPECT_EQ(m.formats[1].name, "q8_0");
  EXPECT_EQ(m.formats[1].tensors, 2u);
  EXPECT_EQ(m.formats[1].source_bytes, 2176u);
  EXPECT_EQ(m.formats[1].packed_bytes, 2304u);
  EXPECT_EQ(m.provenance.compiler, "qcc test");
  EXPECT_EQ(m.provenance.options, s.provenance.options);
  EXPECT_EQ(m.provenance.source_name, "sample.gguf");
  EXPECT_EQ(m.provenance.source_bytes, 12345u);
  EXPECT_EQ(m.provenance.source_hash, s.provenance.source_hash);
  ASSERT_TRUE(a.chat_template().has_value());
  EXPECT_TRUE(std::ranges::equal(*a.chat_template(),
                                 std::string(parts.chat_template.begin(), parts.chat_template.end())));
  EXPECT_EQ(a.required_features(), uint64_t{QBIN_FEATURE_SELECTED_ROWS});
  EXPECT_STREQ(Name(m.numerics), "int8");
  EXPECT_STREQ(Name(m.kv_element), "f16");
  EXPECT_TRUE(a.VerifyWeights().ok());
}

TEST(ArtifactRoundTrip, KindsOfStatesHaveNames) {
  EXPECT_STREQ(Name(StateKind::kConv), "conv");
  EXPECT_STREQ(Name(StateKind::kDelta), "delta");
  EXPECT_STREQ(Name(StateKind::kKV), "kv");
}

TEST(ArtifactRoundTrip, TokenizerTables) {
  const std::vector<uint8_t> file = BytesOfParts(MakeParts());
  const AlignedBytes bytes(file);
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  ASSERT_TRUE((*opened)->tokenizer().has_value());
  const TokenizerTables& t = *(*opened)->tokenizer();
  EXPECT_EQ(t.n_tokens, 272u);
  EXPECT_EQ(t.bytes(258), "the");
  EXPECT_EQ(t.bytes(261), " the") << "the byte-level alphabet was not undone";
  EXPECT_EQ(t.bytes(263), "<|im_start|>");
  EXPECT_EQ(t.bytes(t.byte_token['\n']), "\n");
  EXPECT_EQ(t.max_token_bytes, 13u);
  ASSERT_EQ(t.merges.size(), 6u);
  // (th, e) has rank 2 and makes "the".
  const uint32_t th = 256, e = t.byte_token['e'];
  const auto it = std::ranges::find_if(t.merges, [&](const auto& m) { return m.left == th && m.right == e; });
  ASSERT_NE(it, t.merges.end()) << "merge (th, e) is missing";
  EXPECT_EQ(it->rank, 2u);
  EXPECT_EQ(it->result, 258u);
  EXPECT_EQ(std::vector<uint32_t>(t.special.begin(), t.special.end()),
            (std::vector<uint32_t>{262, 263, 264, 265}))
      << "special tokens are not longest first";
}

TEST(ArtifactRoundTrip, Goldens) {
  const std::vector<uint8_t> file = BytesOfParts(MakeParts());
  const AlignedBytes bytes(file);
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  ASSERT_TRUE((*opened)->goldens().has_value());
  const Goldens& g = *(*opened)->goldens();
  EXPECT_EQ(g.tokens, (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(g.tolerance, 1e-3f);
  EXPECT_EQ(g.rms_tolerance, 1e-4f);
  ASSERT_EQ(g.rows.size(), 2u);
  EXPECT_EQ(g.rows[0].position, 1u);
  EXPECT_EQ(g.rows[0].ids, (std::vector<uint32_t>{16, 33, 50, 67}));
  EXPECT_EQ(g.rows[0].values, (std::vector<float>{16, 16, 16, 16}));
  EXPECT_EQ(g.rows[1].ids, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_NE(g.rows[0].logits_hash, Hash128{});
}

TEST(ArtifactRoundTrip, SameContentSameBytes) {
  EXPECT_EQ(BytesOfParts(MakeParts()), BytesOfParts(MakeParts())) << "two writes of the same artifact differ";
}

TEST(ArtifactRoundTrip, OptionsOrderDoesNotMatter) {
  SampleParts swapped = MakeParts();
  std::swap(swapped.manifest.provenance.options[0], swapped.manifest.provenance.options[1]);
  EXPECT_EQ(BytesOfParts(MakeParts()), BytesOfParts(swapped));
}

// What a program takes or gives may be new: whoever chooses one passes over it, the file is good.
TEST(ArtifactRoundTrip, ProgramsOfALaterRelease) {
  SampleParts parts = MakeParts();
  parts.manifest.programs[1].facts.takes |= 1u << 20;
  parts.manifest.programs[1].facts.gives = static_cast<Output>(200);
  const AlignedBytes bytes(BytesOfParts(parts));
  auto opened = Artifact::FromBytes(bytes.span(), "later");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const ProgramFacts& facts = (*opened)->manifest().programs[1].facts;
  EXPECT_EQ(facts, parts.manifest.programs[1].facts);
  EXPECT_FALSE(Known(facts.gives));
  EXPECT_STREQ(Name(facts.gives), "unknown");
}

TEST(ArtifactRoundTrip, EveryFieldOfAWeightArrives) {
  const AlignedBytes bytes(BytesOfParts(MakeParts()));
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Manifest& m = (*opened)->manifest();
  ASSERT_EQ(m.weights.size(), 2u);
  EXPECT_EQ(m.weights[1].name, "output_norm.weight");
  EXPECT_EQ(m.weights[0].format, "q8_0");
  EXPECT_EQ(m.weights[0].layout, "x16");
  EXPECT_EQ(m.weights[0].rows, 272u);
  EXPECT_EQ(m.weights[0].cols, 64u);
  EXPECT_EQ(m.weights[1].section, m.code[0].weights_section);
  EXPECT_EQ(m.weights[1].offset, 4096u);
  EXPECT_EQ(m.weights[1].bytes, 256u);
}

TEST(ArtifactRoundTrip, EveryFieldOfAKernelArrives) {
  SampleParts parts = MakeParts();
  parts.manifest.kernels = {{"spec_1_norm", "norm {cols = 64}, one row", {0, 2}, {120}},
                            {"spec_2_embed", "embed {cols = 64}, rows of the step", {}, {0}}};
  const AlignedBytes bytes(BytesOfParts(parts));
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Manifest& m = (*opened)->manifest();
  ASSERT_EQ(m.kernels.size(), 2u);
  for (size_t i = 0; i < m.kernels.size(); ++i) {
    EXPECT_EQ(m.kernels[i].name, parts.manifest.kernels[i].name);
    EXPECT_EQ(m.kernels[i].specification, parts.manifest.kernels[i].specification);
    EXPECT_EQ(m.kernels[i].programs, parts.manifest.kernels[i].programs);
    EXPECT_EQ(m.kernels[i].code_bytes, parts.manifest.kernels[i].code_bytes);
  }
}

TEST(ArtifactRoundTrip, EveryFieldOfAStageArrives) {
  SampleParts parts = MakeParts();
  parts.manifest.kernels = {{"spec_1_norm", "norm {cols = 64}, one row", {0, 2}, {120}}};
  parts.manifest.stages = {{0, 0, 256}, {2, -1, 0}};
  const uint32_t stages = 2;
  std::memcpy(parts.code.data() + offsetof(qrt_code_header, n_stages), &stages, sizeof stages);
  const AlignedBytes bytes(BytesOfParts(parts));
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Manifest& m = (*opened)->manifest();
  ASSERT_EQ(m.stages.size(), 2u);
  for (size_t i = 0; i < m.stages.size(); ++i) {
    EXPECT_EQ(m.stages[i].program, parts.manifest.stages[i].program);
    EXPECT_EQ(m.stages[i].kernel, parts.manifest.stages[i].kernel);
    EXPECT_EQ(m.stages[i].weight_bytes, parts.manifest.stages[i].weight_bytes);
  }
}

TEST(ArtifactRoundTrip, RolesThatAreLostArrive) {
  const AlignedBytes bytes(BytesOfParts(MakeParts()));
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const std::vector<LostRole>& roles = (*opened)->manifest().lost_roles;
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0].role, "Qcur_normed");
  EXPECT_EQ(roles[0].into, "qk_norm_rope_store");
  EXPECT_EQ(roles[1].into, "");
  EXPECT_EQ(roles[1].layers, (std::vector<uint32_t>{0, 1}));
}

TEST(ArtifactRoundTrip, EntriesOfStatesArrive) {
  const SampleParts parts = PartsWithEntries();
  const AlignedBytes bytes(BytesOfParts(parts));
  auto opened = Artifact::FromBytes(bytes.span(), "entries");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Manifest& m = (*opened)->manifest();
  EXPECT_EQ(m.state_block, 16u);
  EXPECT_EQ(m.states[0].entry_bytes, 256u);
  EXPECT_EQ(m.states[1].entry_bytes, 64u);
  EXPECT_EQ(m.states[2].entry_bytes, 0u);
}

TEST(ArtifactRoundTrip, MinimalArtifact) {
  SampleParts parts = MakeParts();
  parts.tokenizer.clear();
  parts.chat_template.clear();
  parts.goldens.clear();
  parts.manifest.tokenizer.reset();
  parts.manifest.sampling = {};
  parts.manifest.states.clear();
  parts.manifest.state_bytes = parts.manifest.kv_bytes_per_token = 0;
  for (auto& program : parts.manifest.programs) program.facts.advances.clear();
  const AlignedBytes bytes(BytesOfParts(parts));
  auto opened = Artifact::FromBytes(bytes.span(), "minimal");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_FALSE((*opened)->tokenizer().has_value());
  EXPECT_FALSE((*opened)->chat_template().has_value());
  EXPECT_FALSE((*opened)->goldens().has_value());
}

// K and V of a token are twice its shape, however large that is.
TEST(ArtifactRoundTrip, WideKeysAndValues) {
  SampleParts parts = MakeParts();
  auto& kv = parts.manifest.states[2];
  kv.shape = {16, 256};
  kv.bytes = parts.manifest.kv_bytes_per_token = 2 * 16 * 256 * 2;
  const AlignedBytes bytes(BytesOfParts(parts));
  auto opened = Artifact::FromBytes(bytes.span(), "wide");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->manifest().kv_bytes_per_token, 16384u);
}

TEST(ArtifactRoundTrip, LaterMinorOpens) {
  std::vector<uint8_t> file = BytesOfParts(MakeParts());
  qbin_header header = HeaderOf(file);
  header.minor = 7;
  SetHeader(file, header);
  SealHeader(file);
  const Status status = OpenAndUse(file);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ArtifactRoundTrip, UnknownOptionalSectionIsIgnored) {
  SampleParts parts = MakeParts();
  parts.extra_sections = {{77, QBIN_SECTION_OPTIONAL}};
  const Status status = OpenAndUse(BytesOfParts(parts));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(ArtifactRoundTrip, UnknownTargetIsSkipped) {
  SampleParts parts = MakeParts();
  parts.manifest.code.push_back({"from_the_future", "x", {}, 2, 3});  // sections of other kinds
  parts.keep_references = true;
  parts.manifest.code[0].section = 0;
  parts.manifest.code[0].weights_section = 4;
  parts.manifest.weights_bytes = 5000;
  parts.manifest.tokenizer->section = 1;
  parts.manifest.weights.clear();
  const Status status = OpenAndUse(BytesOfParts(parts));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

}  // namespace
}  // namespace qrt::testing
