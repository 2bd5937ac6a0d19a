#include "tests/unit/runtime/artifact_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "compiler/artifact/goldens_section.h"
#include "compiler/artifact/tokenizer_section.h"
#include "compiler/artifact/writer.h"
#include "frontends/gguf/writer.h"
#include "tests/unit/gguf/metadata_file.h"
#include "tests/unit/runtime/program_facts.h"

namespace qrt::testing {

using qcc::compiler::ArtifactWriter;
using qcc::compiler::ManifestSpec;

std::vector<uint8_t> SampleTokenizer(uint8_t one, uint8_t other) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  int next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int code = itself ? b : next++;
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xc0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3f));
    }
    tokens.push_back(text);
    types.push_back(1);
  }
  std::swap(tokens[one], tokens[other]);
  for (const char* text : {"th", "he", "the", "in", "\xc4\xa0t", "\xc4\xa0the"}) {
    tokens.emplace_back(text);
    types.push_back(1);
  }
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(text);
    types.push_back(3);
  }
  tokens.emplace_back("<think>");
  types.push_back(4);
  while (tokens.size() < 272) {
    tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
    types.push_back(5);
  }
  const std::vector<std::string> merges = {"t h", "h e", "th e", "i n", "\xc4\xa0 t", "\xc4\xa0t he"};
  qcc::gguf::Writer gguf;
  gguf.AddString("general.architecture", "qwen35");
  gguf.AddString("tokenizer.ggml.model", "gpt2");
  gguf.AddString("tokenizer.ggml.pre", "qwen35");
  gguf.AddStringArray("tokenizer.ggml.tokens", tokens);
  gguf.AddI32Array("tokenizer.ggml.token_type", types);
  gguf.AddStringArray("tokenizer.ggml.merges", merges);
  gguf.AddU32("tokenizer.ggml.eos_token_id", 264);
  const std::vector<uint8_t> bytes = qcc::gguf::MetadataFile(gguf);
  auto file = qcc::gguf::File::Parse(bytes, "sample.gguf");
  if (!file.ok()) {
    ADD_FAILURE() << file.status();
    return {};
  }
  std::vector<std::string> warnings;
  auto section = qcc::compiler::BuildTokenizerSection(**file, 272, warnings);
  if (!section.ok() || !section->has_value()) {
    ADD_FAILURE() << "no tokenizer: " << section.status();
    return {};
  }
  return (*section)->bytes;
}

SampleParts MakeParts() {
  using namespace qcc::compiler;
  SampleParts parts;
  ManifestSpec& m = parts.manifest;
  m.arch = "qwen35";
  m.name = "sample";
  m.vocab_size = 272;
  m.logits_stride = 272;
  m.context_length = 4096;
  m.embedding_length = 64;
  m.state_bytes = 1024 + 4096;
  m.kv_bytes_per_token = 256;
  m.states = {{"blk.0.conv", SpecState::kConv, 0, {3, 64}, SpecElement::kF32, 0, 768},
              {"blk.0.delta", SpecState::kDelta, 0, {2, 16, 32}, SpecElement::kF32, 1024, 4096},
              {"blk.1.kv", SpecState::kKV, 1, {2, 32}, SpecElement::kF16, 0, 256}};
  m.programs = {{"decode_1", qrt::DecodeFacts({0, 1, 2}), 1, 65536, 20, 9},
                {"prefill_8", qrt::PrefillFacts({0, 1, 2}), 8, 262144, 18, 8},
                {"head_8", qrt::HeadFacts(), 8, 262144, 2, 1}};
  m.streams = {"trunk"};
  m.draft_tokens = {5, 271};
  m.lost_roles = {{"Qcur_normed", "qk_norm_rope_store", {1}}, {"Qcur", "", {0, 1}}};
  m.code = {{"cpu", "v3", {"avx", "avx2", "fma"}, 0, 0}};
  m.tokenizer = TokenizerSpec{0, "qwen35", 262, 264, 264, -1, false, {262, 264}};
  m.sampling.temperature = 0.7f;
  m.sampling.top_k = 20;
  m.formats = {{"f32", 5, 1280, 1280}, {"q8_0", 2, 2176, 2304}};
  m.weights = {{"token_embd.weight", "q8_0", "x16", 272, 64, 0, 0, 4096},
               {"output_norm.weight", "f32", "f32", 1, 64, 0, 4096, 256}};
  m.provenance.compiler = "qcc test";
  m.provenance.options = {{"cpu", "v3"}, {"numerics", "int8"}};
  m.provenance.source_name = "sample.gguf";
  m.provenance.source_bytes = 12345;
  m.provenance.source_hash[3] = 7;

  // Code: header, three entries, something behind it.
  const uint32_t words[] = {QRT_CODE_MAGIC, QRT_PROGRAM_ABI, 3, 0, 0, 0, 40, 44, 48};
  parts.code.resize(64, 0xc3);
  std::memcpy(parts.code.data(), words, sizeof words);
  for (int i = 0; i < 5000; ++i) parts.weights.push_back(static_cast<uint8_t>(i * 7));
  parts.tokenizer = SampleTokenizer();
  const std::string text = "{%- for m in messages %}{{ m.content }} \xc3\xa4\xe2\x82\xac{% endfor %}";
  parts.chat_template.assign(text.begin(), text.end());
  std::vector<float> some(272), falling(272);
  for (size_t i = 0; i < 272; ++i) {
    some[i] = static_cast<float>(i % 17);
    falling[i] = -static_cast<float>(i);
  }
  const std::vector<GoldenLogits> rows = {{1, some}, {3, falling}};
  const int32_t tokens[] = {5, 6, 7, 8};
  parts.goldens = BuildGoldensSection(tokens, rows, 4, 1e-3f, 1e-4f, true);
  return parts;
}

SampleParts PartsWithEntries() {
  SampleParts parts = MakeParts();
  qcc::compiler::ManifestSpec& m = parts.manifest;
  m.state_block = 16;
  m.states[0].entry_bytes = 64 * 4;
  m.states[0].bytes = 16 * m.states[0].entry_bytes;
  m.states[1].offset = m.states[0].bytes;
  m.states[1].entry_bytes = 64;
  m.states[1].bytes += 16 * m.states[1].entry_bytes;
  m.state_bytes = m.states[0].bytes + m.states[1].bytes;
  return parts;
}

void WriteParts(const SampleParts& parts, const std::string& path) {
  auto writer = ArtifactWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ManifestSpec manifest = parts.manifest;
  auto add = [&writer](uint32_t kind, const std::vector<uint8_t>& bytes, uint32_t flags = 0) -> uint32_t {
    auto index = (*writer)->AddSection(kind, bytes, flags);
    EXPECT_TRUE(index.ok()) << index.status();
    return index.ok() ? *index : 0;
  };
  std::optional<uint32_t> tokenizer, chat_template, goldens;
  const uint32_t code = add(QBIN_SECTION_CODE, parts.code);
  if (!parts.tokenizer.empty()) tokenizer = add(QBIN_SECTION_TOKENIZER, parts.tokenizer);
  if (!parts.chat_template.empty()) chat_template = add(QBIN_SECTION_CHAT_TEMPLATE, parts.chat_template);
  if (!parts.goldens.empty()) goldens = add(QBIN_SECTION_GOLDENS, parts.goldens);
  const uint32_t weights = add(QBIN_SECTION_WEIGHTS, parts.weights);
  for (const auto& [kind, flags] : parts.extra_sections) add(kind, {1}, flags);
  if (!parts.keep_references) {
    for (auto& c : manifest.code) {
      c.section = code;
      c.weights_section = weights;
    }
    manifest.weights_bytes = parts.weights.size();
    for (auto& w : manifest.weights) w.section = weights;
    if (tokenizer && manifest.tokenizer) manifest.tokenizer->section = *tokenizer;
    manifest.chat_template_section = chat_template;
    manifest.goldens_section = goldens;
  }
  const absl::Status finished = (*writer)->Finish(manifest);
  ASSERT_TRUE(finished.ok()) << finished;
}

std::vector<uint8_t> BytesOfParts(const SampleParts& parts) {
  const TempFolder folder;
  WriteParts(parts, folder.File("sample.qbin"));
  return ReadFile(folder.File("sample.qbin"));
}

std::vector<uint8_t> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

qbin_header HeaderOf(std::span<const uint8_t> file) {
  qbin_header header;
  std::memcpy(&header, file.data(), sizeof header);
  return header;
}
qbin_section SectionOf(std::span<const uint8_t> file, uint32_t index) {
  qbin_section section;
  std::memcpy(&section, file.data() + sizeof(qbin_header) + index * sizeof section, sizeof section);
  return section;
}
void SetHeader(std::vector<uint8_t>& file, const qbin_header& header) {
  std::memcpy(file.data(), &header, sizeof header);
}
void SetSection(std::vector<uint8_t>& file, uint32_t index, const qbin_section& section) {
  std::memcpy(file.data() + sizeof(qbin_header) + index * sizeof section, &section, sizeof section);
}
uint32_t FindSection(std::span<const uint8_t> file, uint32_t kind) {
  for (uint32_t i = 0; i < HeaderOf(file).section_count; ++i) {
    if (SectionOf(file, i).kind == kind) return i;
  }
  ADD_FAILURE() << "the sample has no section of kind " << kind;
  return 0;
}

void SealHeader(std::vector<uint8_t>& file) {
  qbin_header header = HeaderOf(file);
  std::memset(header.hash, 0, sizeof header.hash);
  SetHeader(file, header);
  const size_t covered = sizeof header + size_t{header.section_count} * sizeof(qbin_section);
  const Hash128 hash = HashOf(std::span<const uint8_t>(file).first(std::min(covered, file.size())));
  std::memcpy(header.hash, hash.data(), sizeof header.hash);
  SetHeader(file, header);
}

void Seal(std::vector<uint8_t>& file) {
  const size_t fit = (file.size() - sizeof(qbin_header)) / sizeof(qbin_section);
  for (uint32_t i = 0; i < std::min<size_t>(HeaderOf(file).section_count, fit); ++i) {
    qbin_section s = SectionOf(file, i);
    if (s.offset > file.size() || s.size > file.size() - s.offset) continue;
    const Hash128 hash = HashOf(std::span<const uint8_t>(file).subspan(s.offset, s.size));
    std::memcpy(s.hash, hash.data(), sizeof s.hash);
    SetSection(file, i, s);
  }
  SealHeader(file);
}

Status OpenAndUse(std::span<const uint8_t> file) {
  const AlignedBytes bytes(file);
  Result<std::unique_ptr<Artifact>> opened = Artifact::FromBytes(bytes.span(), "sample.qbin");
  if (!opened.ok()) return opened.status();
  const Artifact& artifact = **opened;
  volatile uint64_t sink = 0;
  auto touch = [&sink](const auto& range) {
    for (const auto& item : range) sink = sink + static_cast<uint64_t>(item);
  };
  const Manifest& m = artifact.manifest();
  for (size_t i = 0; i < m.code.size(); ++i) {
    if (m.code[i].target != "cpu") continue;
    const std::span<const uint8_t> code = artifact.code(i);
    qrt_code_header header;
    std::memcpy(&header, code.data(), sizeof header);
    for (uint32_t k = 0; k < header.n_entries; ++k) {
      uint32_t entry;
      std::memcpy(&entry, code.data() + sizeof header + 4 * k, sizeof entry);
      sink = sink + code[entry];
    }
    touch(artifact.weights(i));
  }
  if (artifact.tokenizer()) {
    const TokenizerTables& t = *artifact.tokenizer();
    for (uint32_t i = 0; i < t.n_tokens; ++i) touch(t.bytes(i));
    for (uint32_t id : t.byte_token) touch(t.bytes(id));
    for (const qrt_tokenizer_merge& merge : t.merges) {
      touch(t.bytes(merge.left));
      touch(t.bytes(merge.right));
      touch(t.bytes(merge.result));
    }
    for (uint32_t id : t.special) touch(t.bytes(id));
    for (uint32_t id : m.tokenizer->eog) touch(t.bytes(id));
    for (int32_t id : {m.tokenizer->bos, m.tokenizer->eos, m.tokenizer->eot, m.tokenizer->pad}) {
      if (id >= 0) touch(t.bytes(static_cast<uint32_t>(id)));
    }
  }
  if (artifact.chat_template()) touch(*artifact.chat_template());
  if (artifact.goldens()) touch(artifact.goldens()->tokens);
  return artifact.VerifyWeights();
}

void ExpectRefusal(const Status& status, uint32_t number, const std::string& says) {
  EXPECT_EQ(status.number(), number) << status.ToString();
  EXPECT_NE(status.message().find(says), std::string::npos)
      << "the message does not say '" << says << "': " << status.ToString();
}

}  // namespace qrt::testing
