// From metadata to tables: what a vocabulary becomes, and which ones are refused. (Reading the tables back
// and lying in them: tests/unit/runtime/artifact_*_test.cc.)
#include "compiler/artifact/tokenizer_section.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "frontends/base/error.h"
#include "frontends/gguf/writer.h"
#include "runtime/abi/tokenizer.h"
#include "tests/unit/gguf/metadata_file.h"

namespace qcc::compiler {
namespace {

struct Vocabulary {
  std::string model = "gpt2", pre = "qwen35";
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges = {"t h", "th e"};
  std::function<void(gguf::Writer&)> more;  // further keys
};

std::string Utf8(int code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// 256 byte tokens, then 256 "th", 257 "the", 258 <|im_end|> (control), 259 <think> (user defined), 260
// unused.
Vocabulary Plain() {
  Vocabulary v;
  int next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    v.tokens.push_back(Utf8(itself ? b : next++));
  }
  v.types.assign(256, 1);
  const std::pair<const char*, int> extra[] = {
      {"th", 1}, {"the", 1}, {"<|im_end|>", 3}, {"<think>", 4}, {"[PAD]", 5}};
  for (const auto& [text, type] : extra) {
    v.tokens.emplace_back(text);
    v.types.push_back(type);
  }
  return v;
}

class TokenizerSectionTest : public testing::Test {
 protected:
  const gguf::File& Open(const Vocabulary& v) {
    gguf::Writer w;
    w.AddString("general.architecture", "qwen35");
    if (!v.model.empty()) w.AddString("tokenizer.ggml.model", v.model);
    if (!v.pre.empty()) w.AddString("tokenizer.ggml.pre", v.pre);
    if (!v.tokens.empty()) w.AddStringArray("tokenizer.ggml.tokens", v.tokens);
    if (!v.types.empty()) w.AddI32Array("tokenizer.ggml.token_type", v.types);
    w.AddStringArray("tokenizer.ggml.merges", v.merges);
    if (v.more) v.more(w);
    bytes_ = gguf::MetadataFile(w);
    auto file = gguf::File::Parse(bytes_, "test.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    return *file_;
  }
  TokenizerSection Build(const Vocabulary& v) {
    auto section = BuildTokenizerSection(Open(v), 300, warnings_);
    if (!section.ok() || !section->has_value()) {
      ADD_FAILURE() << "no tokenizer: " << section.status();
      return {};
    }
    return **std::move(section);
  }
  void ExpectRefused(const Vocabulary& v, const std::string& code, const std::string& says) {
    auto section = BuildTokenizerSection(Open(v), 300, warnings_);
    ASSERT_FALSE(section.ok()) << "accepted, expected " << code << " " << says;
    const ErrorParts parts = PartsOf(section.status());
    EXPECT_EQ(parts.code, code) << section.status();
    EXPECT_NE(parts.what.find(says), std::string::npos)
        << "does not say '" << says << "': " << section.status();
    EXPECT_NE(parts.where.find("test.gguf"), std::string::npos)
        << "does not name the file: " << section.status();
  }

  std::vector<uint8_t> bytes_;
  std::unique_ptr<gguf::File> file_;
  std::vector<std::string> warnings_;
};

struct Tables {
  qrt_tokenizer_header h;
  const uint8_t* base;
  explicit Tables(const TokenizerSection& s) : base(s.bytes.data()) { std::memcpy(&h, base, sizeof h); }
  uint32_t U32(uint64_t offset, size_t i) const {
    uint32_t v;
    std::memcpy(&v, base + offset + 4 * i, 4);
    return v;
  }
  std::string Token(uint32_t id) const {
    const uint32_t begin = U32(h.starts_offset, id), end = U32(h.starts_offset, id + 1);
    return std::string(reinterpret_cast<const char*>(base) + h.blob_offset + begin, end - begin);
  }
  qrt_tokenizer_merge Merge(size_t i) const {
    qrt_tokenizer_merge m;
    std::memcpy(&m, base + h.merges_offset + i * sizeof m, sizeof m);
    return m;
  }
};

TEST_F(TokenizerSectionTest, Tables) {
  Vocabulary v = Plain();
  v.tokens.push_back("\xc4\xa0the");    // 261: " the"
  v.tokens.push_back("caf\xc3\xa9");    // 262: in the alphabet, é stands for byte 0xe9
  v.tokens.push_back("\xe2\x82\xac");   // 263: € is not in it, so it stands for itself
  v.tokens.push_back("<|\xc4\xa0x|>");  // 264: control: literal text
  for (int type : {1, 1, 1, 3}) v.types.push_back(type);
  v.merges = {"t h", "th e", "\xc4\xa0 the"};
  const TokenizerSection section = Build(v);
  const Tables t(section);
  EXPECT_EQ(t.h.n_tokens, 265u);
  EXPECT_EQ(t.Token(261), " the");
  EXPECT_EQ(t.Token(262), "caf\xe9");
  EXPECT_EQ(t.Token(263), "\xe2\x82\xac");
  EXPECT_EQ(t.Token(264), "<|\xc4\xa0x|>") << "a control token's text was taken for byte-level characters";
  for (uint32_t b = 0; b < 256; ++b) {
    ASSERT_EQ(t.Token(t.U32(t.h.byte_token_offset, b)), std::string(1, static_cast<char>(b))) << "byte " << b;
  }
  ASSERT_EQ(t.h.n_merges, 3u);
  for (size_t i = 0; i < 3; ++i) {
    const qrt_tokenizer_merge m = t.Merge(i);
    EXPECT_EQ(t.Token(m.result), t.Token(m.left) + t.Token(m.right)) << "merge of rank " << m.rank;
    if (i > 0) {
      const qrt_tokenizer_merge p = t.Merge(i - 1);
      EXPECT_LT(std::pair(p.left, p.right), std::pair(m.left, m.right)) << "merges are not sorted";
    }
  }
  // Longest first: <|im_end|> (10), <|Ġx|> (7 bytes) and <think> (7) by id.
  ASSERT_EQ(t.h.n_special, 3u);
  EXPECT_EQ(t.U32(t.h.special_offset, 0), 258u);
  EXPECT_EQ(t.U32(t.h.special_offset, 1), 259u);
  EXPECT_EQ(t.U32(t.h.special_offset, 2), 264u);
}

TEST_F(TokenizerSectionTest, NoTokenizerIsNoError) {
  gguf::Writer w;
  w.AddString("general.architecture", "qwen35");
  bytes_ = gguf::MetadataFile(w);
  auto file = gguf::File::Parse(bytes_, "test.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  auto section = BuildTokenizerSection(**file, 300, warnings_);
  ASSERT_TRUE(section.ok()) << section.status();
  EXPECT_FALSE(section->has_value());
}

TEST_F(TokenizerSectionTest, IdsAndEnds) {
  Vocabulary v = Plain();
  v.tokens.push_back("<|endoftext|>");  // 261
  v.tokens.push_back("<|fim_pad|>");    // 262
  v.types.push_back(3);
  v.types.push_back(3);
  v.more = [](gguf::Writer& w) {
    w.AddU32("tokenizer.ggml.bos_token_id", 261);
    w.AddU32("tokenizer.ggml.eos_token_id", 257);
    w.AddU32("tokenizer.ggml.padding_token_id", 260);
    w.AddBool("tokenizer.ggml.add_bos_token", true);
  };
  const TokenizerSpec spec = Build(v).spec;
  EXPECT_EQ(spec.pre, "qwen35");
  EXPECT_EQ(spec.bos, 261);
  EXPECT_EQ(spec.eos, 257);
  EXPECT_EQ(spec.eot, 258) << "<|im_end|> ends a turn even if no key says so";
  EXPECT_EQ(spec.pad, 260);
  EXPECT_TRUE(spec.add_bos);
  EXPECT_EQ(spec.eog, (std::vector<uint32_t>{257, 258, 261, 262}));
  EXPECT_TRUE(spec.nfc) << "the tokenizers of this pre-tokenizer normalize";
}

TEST_F(TokenizerSectionTest, EveryEndThatTheMetadataNamesCounts) {
  Vocabulary v = Plain();
  for (const char* key : {"eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    v.more = [key](gguf::Writer& w) { w.AddU32(std::string("tokenizer.ggml.") + key + "_token_id", 65); };
    EXPECT_EQ(Build(v).spec.eog, (std::vector<uint32_t>{65, 258})) << key;
  }
  v.more = [](gguf::Writer& w) {
    w.AddI32Array("tokenizer.ggml.eos_token_id", std::vector<int32_t>{70, 66, -1});
    w.AddI32Array("tokenizer.ggml.eos_token_ids", std::vector<int32_t>{67, 66});
  };
  const TokenizerSpec spec = Build(v).spec;
  EXPECT_EQ(spec.eog, (std::vector<uint32_t>{66, 67, 70, 258}));
  EXPECT_EQ(spec.eos, 70) << "the first of several";
  v.more = [](gguf::Writer& w) {
    w.AddI32Array("tokenizer.ggml.eos_token_ids", std::vector<int32_t>{67, 261});
  };
  ExpectRefused(v, "Q2307", "261");
}

TEST_F(TokenizerSectionTest, WhatStandsForNoTokenIsNotChoosable) {
  Vocabulary v = Plain();  // the last of its 261 is unused
  const std::vector<uint32_t> choosable = Build(v).choosable;
  ASSERT_FALSE(choosable.empty());
  uint32_t count = 0;
  for (uint32_t id = 0; id < choosable.size() * 32; ++id) {
    const bool may = (choosable[id / 32] >> id % 32 & 1) != 0;
    EXPECT_EQ(may, id < 260) << id;
    count += may;
  }
  EXPECT_EQ(count, 260u);
}

TEST_F(TokenizerSectionTest, AddBosIsOffUnlessSaid) {
  Vocabulary v = Plain();
  v.more = [](gguf::Writer& w) { w.AddU32("tokenizer.ggml.bos_token_id", 258); };
  EXPECT_FALSE(Build(v).spec.add_bos);
}

TEST_F(TokenizerSectionTest, AnIdOfAllOnesMeansNone) {
  Vocabulary v = Plain();
  v.more = [](gguf::Writer& w) { w.AddU32("tokenizer.ggml.bos_token_id", 0xffffffffu); };
  EXPECT_EQ(Build(v).spec.bos, -1);
}

TEST_F(TokenizerSectionTest, SameInputSameBytes) {
  EXPECT_EQ(Build(Plain()).bytes, Build(Plain()).bytes);
}

TEST_F(TokenizerSectionTest, RefusesOtherTokenizers) {
  Vocabulary v = Plain();
  v.model = "llama";
  ExpectRefused(v, "Q2302", "'llama'");
  v = Plain();
  v.pre = "llama-bpe";
  ExpectRefused(v, "Q2302", "expected one of: qwen2, qwen35");
  v = Plain();
  v.pre.clear();
  auto section = BuildTokenizerSection(Open(v), 300, warnings_);
  ASSERT_FALSE(section.ok());
  EXPECT_EQ(PartsOf(section.status()).code, "Q1110") << "a missing key: " << section.status();
}

TEST_F(TokenizerSectionTest, NamesOfOneRule) {
  const Vocabulary plain = Plain();
  for (const auto& [name, rule, nfc] : {std::tuple("qwen2", "qwen2", true),
                                        {"qwen35", "qwen35", true},
                                        {"deepseek-r1-qwen", "qwen2", false}}) {
    Vocabulary v = plain;
    v.pre = name;
    const auto spec = Build(v).spec;
    EXPECT_EQ(spec.pre, rule) << name;
    EXPECT_EQ(spec.nfc, nfc) << name;
  }
}

TEST_F(TokenizerSectionTest, RefusesMoreTokensThanTheHeadHasRows) {
  auto section = BuildTokenizerSection(Open(Plain()), 260, warnings_);
  ASSERT_FALSE(section.ok());
  EXPECT_EQ(PartsOf(section.status()).code, "Q2303") << section.status();
}

TEST_F(TokenizerSectionTest, RefusesBadTokens) {
  Vocabulary v = Plain();
  v.types[7] = 0;
  ExpectRefused(v, "Q2304", "token 7");
  v = Plain();
  v.types[260] = 7;
  ExpectRefused(v, "Q2304", "type 7");
  for (const char* text : {"<0x-1>", "<0xZZ>", "<0x100>", "<0x1>", "0x41", ""}) {
    v = Plain();
    v.tokens[260] = text;
    v.types[260] = 6;
    ExpectRefused(v, "Q2304", "byte token 260");
  }
  v = Plain();
  v.tokens[65] = "other";
  ExpectRefused(v, "Q2306", "byte ");
}

TEST_F(TokenizerSectionTest, ByteTokensInHexCount) {
  Vocabulary v = Plain();
  // Where the alphabet's own token for a byte is missing, <0x41> serves.
  for (std::string& token : v.tokens) {
    if (token == "A") token = "other";
  }
  v.tokens[260] = "<0x41>";
  v.types[260] = 6;
  const TokenizerSection section = Build(v);
  const Tables t(section);
  EXPECT_EQ(t.U32(t.h.byte_token_offset, 0x41), 260u);
}

TEST_F(TokenizerSectionTest, ByteTokensAreThoseThatMergesAreSpelledWith) {
  Vocabulary v = Plain();
  v.tokens.push_back(v.tokens[0]);  // 261: byte 0
  v.tokens[0] = " ";                // an added token, ahead of the alphabet's own
  v.tokens.push_back("\xc4\xa0the");
  v.types.insert(v.types.end(), {1, 1});
  v.merges = {"t h", "th e", "\xc4\xa0 the"};
  const TokenizerSection section = Build(v);
  const Tables t(section);
  EXPECT_EQ(t.U32(t.h.byte_token_offset, ' '), 32u);
  EXPECT_EQ(t.U32(t.h.byte_token_offset, 0), 261u);
  // Where there is no other, it serves.
  v.tokens[32] = "other";
  v.merges = {"t h"};
  const TokenizerSection without = Build(v);
  EXPECT_EQ(Tables(without).U32(Tables(without).h.byte_token_offset, ' '), 0u);
}

TEST_F(TokenizerSectionTest, RefusesBadMerges) {
  const std::pair<const char*, const char*> merges[] = {
      {"t q", "no token 'tq'"}, {"zz h", "no token 'zz'"}, {"t zz", "no token 'zz'"}};
  for (const auto& [merge, says] : merges) {
    Vocabulary v = Plain();
    v.merges = {"t h", merge};
    ExpectRefused(v, "Q2305", says);
  }
  Vocabulary v = Plain();
  v.merges = {"t h", "th e", "t h"};
  ExpectRefused(v, "Q2305", "merges 0 and 2 are the same pair");
}

TEST_F(TokenizerSectionTest, RefusesIdsOutsideTheVocabularyThatTheTextNeeds) {
  const auto with_bos = [](gguf::Writer& w) { w.AddBool("tokenizer.ggml.add_bos_token", true); };
  for (const std::string key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    Vocabulary v = Plain();
    v.more = [&](gguf::Writer& w) {
      w.AddU32(key, 261);
      if (key.find("bos") != key.npos) with_bos(w);
    };
    ExpectRefused(v, "Q2307", "261");
    v.more = [&](gguf::Writer& w) {
      w.AddI32(key, -2);
      if (key.find("bos") != key.npos) with_bos(w);
    };
    ExpectRefused(v, "Q2307", "-2");
  }
  Vocabulary v = Plain();
  v.more = with_bos;
  ExpectRefused(v, "Q2307", "bos_token_id");
}

// Converters write ids of padding rows, or of another vocabulary, for tokens that no text has.
TEST_F(TokenizerSectionTest, LeavesOutOtherIdsOutsideTheVocabulary) {
  const TokenizerSpec plain = Build(Plain()).spec;
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.padding_token_id", "tokenizer.ggml.fim_pad_token_id"}) {
    SCOPED_TRACE(key);
    Vocabulary v = Plain();
    v.more = [key](gguf::Writer& w) { w.AddU32(key, 261); };
    warnings_.clear();
    const TokenizerSpec spec = Build(v).spec;
    EXPECT_EQ(spec.eog, plain.eog);
    EXPECT_EQ(spec.bos, -1);
    EXPECT_EQ(spec.eot, plain.eot);
    EXPECT_EQ(spec.pad, -1);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find(key), std::string::npos) << warnings_[0];
    EXPECT_NE(warnings_[0].find("261"), std::string::npos) << warnings_[0];
  }
}

TEST_F(TokenizerSectionTest, IdsOutsideTheVocabularyAreSaidOnceForAKey) {
  Vocabulary v = Plain();
  v.more = [](gguf::Writer& w) {
    std::vector<int32_t> ids(50'000, 258);
    for (size_t i = 1; i < ids.size(); ++i) ids[i] = 300 + static_cast<int32_t>(i);
    w.AddI32Array("tokenizer.ggml.eot_token_id", ids);
    w.AddU32("tokenizer.ggml.fim_pad_token_id", 261);
  };
  EXPECT_EQ(Build(v).spec.eot, 258);
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_NE(warnings_[0].find("eot_token_id: the id is 301, "), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[0].find("it and 49998 more are left out"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[1].find("fim_pad_token_id: the id is 261"), std::string::npos) << warnings_[1];
}

}  // namespace
}  // namespace qcc::compiler
