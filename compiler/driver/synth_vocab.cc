#include "compiler/driver/synth_vocab.h"

#include <algorithm>
#include <span>
#include <utility>

#include "frontends/base/text.h"

namespace qcc::compiler {
namespace {

constexpr int32_t kNormal = 1, kControl = 3, kUser = 4, kUnused = 5;

struct Special {
  std::string_view text;
  int32_t type;
};

// Qwen3.5 and later; the others (Qwen3, Qwen3-Next) have the vocabulary of Qwen3.
bool IsLater(std::string_view arch) {
  return arch.starts_with("qwen35");
}

// In the order of their ids. Qwen3 has the first 26.
constexpr Special kSpecials[] = {
    {"<|endoftext|>", kControl},
    {"<|im_start|>", kControl},
    {"<|im_end|>", kControl},
    {"<|object_ref_start|>", kControl},
    {"<|object_ref_end|>", kControl},
    {"<|box_start|>", kControl},
    {"<|box_end|>", kControl},
    {"<|quad_start|>", kControl},
    {"<|quad_end|>", kControl},
    {"<|vision_start|>", kControl},
    {"<|vision_end|>", kControl},
    {"<|vision_pad|>", kControl},
    {"<|image_pad|>", kControl},
    {"<|video_pad|>", kControl},
    {"<tool_call>", kUser},
    {"</tool_call>", kUser},
    {"<|fim_prefix|>", kUser},
    {"<|fim_middle|>", kUser},
    {"<|fim_suffix|>", kUser},
    {"<|fim_pad|>", kUser},
    {"<|repo_name|>", kUser},
    {"<|file_sep|>", kUser},
    {"<tool_response>", kUser},
    {"</tool_response>", kUser},
    {"<think>", kUser},
    {"</think>", kUser},
    {"<|audio_start|>", kControl},
    {"<|audio_end|>", kControl},
    {"<tts_pad>", kControl},
    {"<tts_text_bos>", kControl},
    {"<tts_text_eod>", kControl},
    {"<tts_text_bos_single>", kControl},
    {"<|audio_pad|>", kControl},
};

std::span<const Special> SpecialsOf(std::string_view arch) {
  std::span<const Special> all(kSpecials);
  return IsLater(arch) ? all : all.first(26);
}

// Id of <|endoftext|> in the published models: all ids below are bytes and merges.
int64_t PublishedBase(std::string_view arch) {
  return IsLater(arch) ? 248044 : 151643;
}

constexpr char kTemplate[] =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is true %}"
    "{{- '<think>\\n' }}"
    "{%- else %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- endif %}"
    "{%- endif %}";

std::string Utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

// GPT-2's alphabet in id order: the printable bytes stand for themselves, the other 68 follow as U+0100 and
// up.
std::vector<std::string> ByteTokens() {
  std::vector<std::string> tokens;
  auto printable = [](uint32_t b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; };
  for (uint32_t b = 0; b < 256; ++b) {
    if (printable(b)) tokens.push_back(Utf8(b));
  }
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    if (!printable(b)) tokens.push_back(Utf8(next++));
  }
  return tokens;
}

// Adds merges until `limit` tokens: words of two to four letters and a space before one to three. Each word
// comes from one pair only, and both halves are tokens already, so that every merge can happen.
void AddMerges(size_t limit, SynthVocabulary* v) {
  auto merge = [&](const std::string& left, const std::string& right) {
    if (v->tokens.size() >= limit) return false;
    v->tokens.push_back(left + right);
    v->merges.push_back(left + " " + right);
    return true;
  };
  // By frequency in English, so that a small vocabulary has the common pairs.
  constexpr std::string_view kLetters = "etaoinshrdlcumwfgypbvkjxqz";
  const std::string space = "\xc4\xa0";  // the byte 32 in this alphabet
  std::vector<std::string> ones, twos, threes;
  for (char c : kLetters) ones.emplace_back(1, c);
  for (const std::string& c : ones) {
    if (!merge(space, c)) return;
  }
  for (const std::string& a : ones) {
    for (const std::string& b : ones) {
      if (!merge(a, b)) return;
      twos.push_back(a + b);
    }
  }
  for (const std::string& ab : twos) {
    if (!merge(space, ab)) return;
  }
  for (const std::string& ab : twos) {
    for (const std::string& c : ones) {
      if (!merge(ab, c)) return;
      threes.push_back(ab + c);
    }
  }
  for (const std::string& abc : threes) {
    if (!merge(space, abc)) return;
  }
  for (const std::string& ab : twos) {
    for (const std::string& cd : twos) {
      if (!merge(ab, cd)) return;
    }
  }
}

}  // namespace

int64_t MinimumVocabulary(std::string_view arch) {
  return 256 + static_cast<int64_t>(SpecialsOf(arch).size());
}

SynthVocabulary MakeVocabulary(std::string_view arch, int64_t size) {
  SynthVocabulary v;
  v.pre = IsLater(arch) ? "qwen35" : "qwen2";
  v.chat_template = kTemplate;
  std::span<const Special> specials = SpecialsOf(arch);
  const int64_t room = size - static_cast<int64_t>(specials.size());
  v.tokens = ByteTokens();
  v.tokens.reserve(static_cast<size_t>(size));
  AddMerges(static_cast<size_t>(std::min(room, PublishedBase(arch))), &v);
  v.types.assign(v.tokens.size(), kNormal);
  v.end_of_text = static_cast<int32_t>(v.tokens.size());
  v.im_end = v.end_of_text + 2;
  for (const Special& special : specials) {
    v.tokens.emplace_back(special.text);
    v.types.push_back(special.type);
  }
  while (static_cast<int64_t>(v.tokens.size()) < size) {
    v.tokens.push_back(Concat("[PAD", v.tokens.size(), "]"));
    v.types.push_back(kUnused);
  }
  return v;
}

void AddTokenizerKeys(const SynthVocabulary& v, gguf::Writer& writer) {
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", v.pre);
  writer.AddStringArray("tokenizer.ggml.tokens", v.tokens);
  writer.AddI32Array("tokenizer.ggml.token_type", v.types);
  writer.AddStringArray("tokenizer.ggml.merges", v.merges);
  writer.AddU32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(v.end_of_text));
  writer.AddU32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(v.im_end));
  writer.AddU32("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(v.end_of_text));
  writer.AddBool("tokenizer.ggml.add_bos_token", false);
  writer.AddString("tokenizer.chat_template", v.chat_template);
}

}  // namespace qcc::compiler
