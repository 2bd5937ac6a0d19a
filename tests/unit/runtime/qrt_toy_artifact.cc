#include "tests/unit/runtime/qrt_toy_artifact.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "compiler/artifact/goldens_section.h"
#include "runtime/include/qrt/qrt.h"
#include "tests/unit/runtime/program_facts.h"
#include "tests/unit/runtime/qrt_toy_bytes.h"

namespace toy {

using qrt::testing::SampleParts;

SampleParts ToyParts() {
  using namespace qcc::compiler;
  SampleParts parts = qrt::testing::MakeParts();
  ManifestSpec& m = parts.manifest;
  m.name = "toy";
  m.logits_stride = 288;
  m.kv_element = SpecElement::kF32;
  m.kv_bytes_per_token = 64;
  m.states[2] = {"blk.1.kv", SpecState::kKV, 1, {2, 4}, SpecElement::kF32, 0, 64};
  m.streams = {"trunk"};
  m.programs = {{"decode_1", qrt::DecodeFacts(), 1, 64, 1, 1},
                {"decode_4", qrt::DecodeFacts(), 4, 64, 1, 1},
                {"prefill_16", qrt::PrefillFacts(), 16, 256, 1, 1},
                {"prefill_64", qrt::PrefillFacts(), 64, 1024, 1, 1},
                {"head_8", qrt::HeadFacts(), 8, 1024, 1, 1}};
  m.code = {
      {"cpu", "future", {"no-such-feature"}, 0, 0}, {"cpu", "toy", {}, 0, 0}, {"cpu", "toy-2", {}, 0, 0}};
  m.kernels = {{"toy_trunk", "trunk {rows = 1}", {0, 1, 2, 3}, {100, 100, 100}}};
  m.stages = {{0, 0, 5000}, {0, -1, 0}};
  m.sampling = {};
  m.sampling.temperature = 0.0f;
  parts.code = qrt::testing::ReadFile(QRT_TOY_BLOB);
  const std::string text =
      "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n"
      "{% if enable_thinking is defined and enable_thinking %}<think>{% endif %}{% endif %}";
  parts.chat_template.assign(text.begin(), text.end());
  parts.goldens.clear();
  return parts;
}

SampleParts ToyParts(std::string_view chat_template) {
  SampleParts parts = ToyParts();
  parts.chat_template.assign(chat_template.begin(), chat_template.end());
  return parts;
}

void AddGoldens(SampleParts& parts, bool wrong) {
  const qrt::testing::TempFolder folder;
  const std::string path = folder.File("without.qbin");
  WriteParts(parts, path);
  qrt_artifact* artifact = nullptr;
  qrt_engine* engine = nullptr;
  qrt_session* session = nullptr;
  ASSERT_EQ(qrt_artifact_open(path.c_str(), nullptr, &artifact, nullptr), QRT_OK);
  ASSERT_EQ(qrt_engine_create(artifact, nullptr, &engine, nullptr), QRT_OK);
  ASSERT_EQ(qrt_session_create(engine, nullptr, &session, nullptr), QRT_OK);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 20; ++i) tokens.push_back(i * 13 % 272);
  std::map<uint64_t, std::vector<float>> seen;  // logits by position
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = QRT_LOGITS_ALL;
  options.ctx = &seen;
  options.on_logits = [](void* ctx, qrt_session*, uint64_t position, const float* logits,
                         size_t vocab_size) -> int32_t {
    if (position % 6 == 1) {
      static_cast<decltype(seen)*>(ctx)->emplace(position, std::vector<float>(logits, logits + vocab_size));
    }
    return 0;
  };
  ASSERT_EQ(qrt_session_append(session, tokens.data(), tokens.size(), &options, nullptr), QRT_OK);
  if (wrong) seen.rbegin()->second[97] += 50;
  std::vector<qcc::compiler::GoldenLogits> rows;
  for (const auto& [position, logits] : seen) rows.push_back({static_cast<uint32_t>(position), logits});
  parts.goldens = qcc::compiler::BuildGoldensSection(tokens, rows, 5, 1e-4f, 1e-5f, true);
  qrt_session_release(session);
  qrt_engine_release(engine);
  qrt_artifact_release(artifact);
}

std::vector<uint8_t> ToyBytes() {
  return BytesOfParts(ToyParts());
}

}  // namespace toy
