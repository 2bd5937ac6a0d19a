// One handcrafted file for every rule of the reader: refused, with the right code, place and words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dialects/formats/descriptions.h"
#include "dialects/formats/formats.h"
#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "frontends/gguf/file_impl.h"
#include "frontends/gguf/gguf.h"
#include "tests/unit/gguf/bytes.h"

namespace qcc::gguf {
namespace {

using testing::Bytes;
using testing::SmallFile;

constexpr uint64_t kHuge = ~uint64_t{0};
constexpr uint64_t kSign = uint64_t{1} << 63;

struct BadFile {
  std::string rule;
  std::string code;
  std::string where;  // must occur in the error's `where` (or in `what`, for a name)
  std::string found;  // must occur in `what`
  Bytes bytes;
};

// `n` bytes that keep the counts plausible.
Bytes& Tail(Bytes& b) {
  return b.Zeros(256);
}

std::vector<BadFile> HeaderCases() {
  std::vector<BadFile> cases;
  auto add = [&](std::string rule, std::string code, std::string where, std::string found, Bytes bytes) {
    cases.push_back({std::move(rule), std::move(code), std::move(where), std::move(found), std::move(bytes)});
  };
  add("empty file", "Q1002", "byte 0", "0 bytes", Bytes());
  add("shorter than the magic", "Q1002", "byte 0", "3 bytes", Bytes().Raw("GGU"));
  add("shorter than the header", "Q1002", "byte 20", "20 bytes", Bytes().Raw("GGUF").U32(3).U64(0).U32(0));
  add("wrong magic", "Q1003", "byte 0", "47 47 4d 4c", Bytes().Raw("GGML").Zeros(64));
  add("safetensors", "Q1003", "byte 0", "expected 47 47 55 46",
      Bytes().U64(200).Raw("{\"__metadata__\":{}}").Zeros(64));
  for (uint32_t version : {0u, 1u, 4u, 65535u, 0xffffffffu}) {
    add("version " + std::to_string(version), "Q1004", "byte 4", std::to_string(version),
        Bytes().Header(0, 0, version));
  }
  add("big-endian version 3", "Q1005", "byte 4", "0x03000000", Bytes().Header(0, 0, 0x03000000u));
  add("big-endian version 2", "Q1005", "byte 4", "0x02000000", Bytes().Header(0, 0, 0x02000000u));
  for (uint64_t count : {kHuge, kSign, kHuge / 24, kHuge / 24 + 1, kHuge / 13 + 1, uint64_t{1} << 32,
                         uint64_t{1} << 60, uint64_t{11}}) {
    Bytes tensors, entries;
    tensors.Header(count, 0);
    entries.Header(0, count * 2 > count ? count * 2 : count);
    add("tensor count " + std::to_string(count), "Q1006", "byte 8", "tensors", Tail(tensors));
    add("metadata count from " + std::to_string(count), "Q1006", "byte 16", "metadata entries",
        Tail(entries));
  }
  const std::string fits(13 * (kMaxEntries + 1), '\0'), tensors_fit(24 * (kMaxTensors + 1), '\0');
  add("more metadata entries than any model", "Q1010", "byte 16", std::to_string(kMaxEntries + 1),
      Bytes().Header(0, kMaxEntries + 1).Raw(fits));
  add("more tensors than any model", "Q1010", "byte 8", std::to_string(kMaxTensors + 1),
      Bytes().Header(kMaxTensors + 1, 0).Raw(tensors_fit));
  return cases;
}

std::vector<BadFile> MetadataCases() {
  std::vector<BadFile> cases;
  auto add = [&](std::string rule, std::string code, std::string where, std::string found, Bytes bytes) {
    cases.push_back({std::move(rule), std::move(code), std::move(where), std::move(found), std::move(bytes)});
  };
  auto one = [] { return Bytes().Header(0, 1); };
  add("empty key", "Q1101", "metadata entry 0, byte 24", "empty", one().KvU32("", 1));
  add("key over 65535 bytes", "Q1101", "byte 24", "65536", one().KvU32(std::string(65536, 'k'), 1));
  add("key that is not UTF-8", "Q1101", "byte 24", "UTF-8", one().KvU32("a\xff\x62", 1));
  add("key with a NUL", "Q1101", "byte 24", "UTF-8", one().KvU32(std::string_view("a\0b", 3), 1));
  add("key length past the end", "Q1007", "byte 32", "1000", one().U64(1000).Zeros(64));
  add("key length over 1 GiB", "Q1104", "byte 24", "1073741825", one().U64((1u << 30) + 1).Zeros(64));
  add("key length 2^64-1", "Q1104", "byte 24", "18446744073709551615", one().U64(kHuge).Zeros(64));
  add("duplicate key", "Q1102", "key 'same', byte 44", "first at byte 24",
      Bytes().Header(0, 2).KvU32("same", 1).KvStr("same", "x"));
  add("value type 13", "Q1103", "key 'k', byte 33", "13", one().Key("k", 13).Zeros(8));
  add("value type 2^32-1", "Q1103", "key 'k', byte 33", "4294967295", one().Key("k", 0xffffffffu).Zeros(8));
  add("value missing", "Q1007", "key 'k'", "8 bytes expected, 4 left", one().Key("k", 10).Zeros(4));
  add("string length past the end", "Q1007", "key 'k'", "99", one().Key("k", 8).U64(99).Raw("short"));
  add("string length over 1 GiB", "Q1104", "key 'k'", "1073741825",
      one().Key("k", 8).U64((1u << 30) + 1).Raw("x"));
  add("string length 2^64-1", "Q1104", "key 'k'", "18446744073709551615",
      one().Key("k", 8).U64(kHuge).Raw("x"));
  add("array of arrays", "Q1105", "key 'k', byte 37", "arrays of arrays", one().KvArray("k", 9, 1).Zeros(64));
  add("unknown array element type", "Q1103", "key 'k', byte 37", "99", one().KvArray("k", 99, 1).Zeros(64));
  add("array of 2^30 + 1", "Q1107", "key 'k', byte 41", "1073741825",
      one().KvArray("k", 0, (1u << 30) + 1).Zeros(64));
  add("array of 2^64-1", "Q1107", "key 'k', byte 41", "18446744073709551615",
      one().KvArray("k", 4, kHuge).Zeros(64));
  for (uint32_t type = 0; type <= 12; ++type) {
    if (type == 9) continue;
    add("array of type " + std::to_string(type) + " past the end", "Q1107", "key 'k', byte 41", "1000",
        one().KvArray("k", type, 1000).Zeros(64));
  }
  add("string inside an array past the end", "Q1007", "key 'k'", "50",
      one().KvArray("k", 8, 2).Str("a").U64(50).Zeros(8));
  add("bool 2", "Q1108", "key 'k', byte 37", "2", one().Key("k", 7).U8(2));
  add("bool 255 in an array", "Q1108", "key 'k', byte 51", "255",
      one().KvArray("k", 7, 3).U8(1).U8(0).U8(255));
  const std::string align = "general.alignment";
  add("alignment as u64", "Q1109", "'general.alignment'", "u64", one().Key(align, 10).U64(32));
  add("alignment as i32", "Q1109", "'general.alignment'", "i32", one().Key(align, 5).U32(32));
  add("alignment as array", "Q1109", "'general.alignment'", "array", one().KvArray(align, 4, 1).U32(32));
  for (uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0xffffffffu}) {
    add("alignment " + std::to_string(alignment), "Q1109", "'general.alignment'", std::to_string(alignment),
        one().KvU32(align, alignment));
  }
  add("metadata over the size cap", "Q1008", "key 'k'", "268435456",
      Bytes().Header(0, 1).Key("k", 8).U64(257u << 20).Zeros(257u << 20));
  // What is left of the file would hold them, so that only the limit is met.
  const uint64_t most = kMaxMetadataElements;
  add("an array over the limit of elements", "Q1011", "key 'k', byte 41", std::to_string(most + 1),
      one().KvArray("k", 0, most + 1).Zeros(most + 1));
  add("empty strings over the limit of elements", "Q1011", "key 'k', byte 41", std::to_string(most + 1),
      one().KvArray("k", 8, most + 1).Zeros(8 * (most + 1)));
  add("arrays over the limit of elements together", "Q1011", "key 'l'", "up to this one, which has 2",
      Bytes().Header(0, 2).KvArray("k", 0, most - 1).Zeros(most - 1).KvArray("l", 0, 2).Zeros(2));
  add("shard of a split model", "Q1401", "test.gguf", "4 shards",
      one().Key("split.count", 2).Le<uint16_t>(4));
  add("split.count that is no number", "Q1111", "'split.count'", "string", one().KvStr("split.count", "4"));
  return cases;
}

std::vector<BadFile> VocabularyCases() {
  std::vector<BadFile> cases;
  auto add = [&](std::string rule, std::string code, std::string where, std::string found, Bytes bytes) {
    cases.push_back({std::move(rule), std::move(code), std::move(where), std::move(found), std::move(bytes)});
  };
  const std::string prefix = "tokenizer.ggml.";
  auto vocabulary = [&](uint64_t entries) {
    Bytes b;
    b.Header(0, entries + 2).KvStr(prefix + "model", "gpt2");
    return b.KvArray(prefix + "tokens", 8, 2).Str("a").Str("b");
  };
  add("tokens that are numbers", "Q1111", "tokens", "u32",
      Bytes().Header(0, 1).KvArray(prefix + "tokens", 4, 1).U32(0));
  add("token types too few", "Q1301", "token_type", "1 elements, expected 2",
      vocabulary(1).KvArray(prefix + "token_type", 5, 1).U32(1));
  add("token types of strings", "Q1111", "token_type", "string",
      vocabulary(1).KvArray(prefix + "token_type", 8, 2).Str("1").Str("1"));
  add("scores too many", "Q1301", "scores", "3 elements, expected 2",
      vocabulary(1).KvArray(prefix + "scores", 6, 3).U32(0).U32(0).U32(0));
  add("scores of bools", "Q1111", "scores", "bool",
      vocabulary(1).KvArray(prefix + "scores", 7, 2).U8(0).U8(0));
  for (std::string merge : {"ab", " ab", "ab ", "a b c", "", " ", "a  b"}) {
    add("merge \"" + merge + "\"", "Q1302", "merges", "'" + merge + "'",
        vocabulary(1).KvArray(prefix + "merges", 8, 2).Str("a b").Str(merge));
  }
  add("merges of numbers", "Q1111", "merges", "i32", vocabulary(1).KvArray(prefix + "merges", 5, 1).U32(1));
  for (std::string token :
       {std::string("\xc3"), std::string("\xff"), std::string("\xc0\x80"), std::string("\xed\xa0\x80"),
        std::string("\xf4\x90\x80\x80"), std::string("\xe2\x82"), std::string("\x80"),
        std::string("\xe0\x80\x80"), std::string(1, '\0')}) {
    add("token that is not UTF-8", "Q1303", "tokens", "token 1",
        Bytes()
            .Header(0, 2)
            .KvStr(prefix + "model", "gpt2")
            .KvArray(prefix + "tokens", 8, 2)
            .Str("ok")
            .Str(token));
  }
  return cases;
}

std::vector<BadFile> TensorCases() {
  std::vector<BadFile> cases;
  auto add = [&](std::string rule, std::string code, std::string where, std::string found, Bytes bytes) {
    cases.push_back({std::move(rule), std::move(code), std::move(where), std::move(found), std::move(bytes)});
  };
  auto tensor = [](std::string_view name, const std::vector<uint64_t>& ne, uint32_t type, uint64_t offset) {
    Bytes b;
    b.Header(1, 0).TensorInfo(name, ne, type, offset).Pad();
    return b.Zeros(1024);
  };
  add("empty tensor name", "Q1201", "tensor info 0, byte 24", "empty", tensor("", {4}, 0, 0));
  add("tensor name of 64 bytes", "Q1201", "byte 24", "64", tensor(std::string(64, 'n'), {4}, 0, 0));
  add("tensor name that is not UTF-8", "Q1201", "byte 24", "UTF-8", tensor("\xfe", {4}, 0, 0));
  add("tensor name length past the end", "Q1007", "tensor info 0", "5000",
      Bytes().Header(1, 0).U64(5000).Zeros(100));
  add("tensor name length 2^64-1", "Q1104", "tensor info 0", "18446744073709551615",
      Bytes().Header(1, 0).U64(kHuge).Zeros(100));
  add("duplicate tensor", "Q1202", "byte", "'w'",
      Bytes().Header(2, 0).TensorInfo("w", {4}, 0, 0).TensorInfo("w", {4}, 0, 32).Pad().Zeros(64));
  add("five dimensions", "Q1203", "tensor 'w', byte 33", "5", tensor("w", {1, 1, 1, 1, 1}, 0, 0));
  add("2^32-1 dimensions", "Q1203", "tensor 'w', byte 33", "4294967295",
      Bytes().Header(1, 0).Str("w").U32(0xffffffffu).Zeros(256));
  add("negative dimension", "Q1204", "tensor 'w', byte 37", "-1", tensor("w", {kHuge}, 0, 0));
  add("negative second dimension", "Q1204", "tensor 'w', byte 45", "dimension 1",
      tensor("w", {4, kSign}, 0, 0));
  add("elements overflow", "Q1205", "tensor 'w'", "4294967296",
      tensor("w", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0));
  add("elements overflow to zero", "Q1205", "tensor 'w'", "multiply",
      tensor("w", {uint64_t{1} << 62, 4, uint64_t{1} << 20}, 0, 0));
  add("elements overflow before a zero", "Q1205", "tensor 'w'", "multiply",
      tensor("w", {uint64_t{1} << 40, uint64_t{1} << 40, 0}, 0, 0));
  add("first dimension not a multiple of 32", "Q1208", "tensor 'w'", "33", tensor("w", {33}, 8, 0));
  add("first dimension below the block", "Q1208", "tensor 'w'", "multiple of 32", tensor("w", {1, 32}, 2, 0));
  add("first dimension not a multiple of 256", "Q1208", "tensor 'w'", "288", tensor("w", {288}, 12, 0));
  add("byte size overflow", "Q1209", "tensor 'w'", "bytes",
      tensor("w", {uint64_t{1} << 31, uint64_t{1} << 31}, 0, 0));
  add("offset not aligned", "Q1210", "tensor 'w'", "16", tensor("w", {4}, 0, 16));
  add("offset not aligned to general.alignment", "Q1210", "tensor 'w'", "multiple of 64",
      Bytes().Header(1, 1).KvU32("general.alignment", 64).TensorInfo("w", {4}, 0, 32).Pad(64).Zeros(128));
  add("offset overflows", "Q1211", "tensor 'w'", "18446744073709551584", tensor("w", {4}, 0, kHuge - 31));
  add("offset overflows 63 bits", "Q1211", "tensor 'w'", "overflows", tensor("w", {4}, 0, kSign - 32));
  add("offset of an empty tensor overflows", "Q1211", "tensor 'w'", "overflows",
      tensor("w", {0}, 0, kHuge - 31));
  add("data past the end", "Q1212", "tensor 'w'", "file has", tensor("w", {257}, 0, 0));
  add("data one byte past the end", "Q1212", "tensor 'w'", "file has",
      Bytes().Header(1, 0).TensorInfo("w", {4}, 0, 0).Pad().Zeros(15));
  add("data starts past the end", "Q1212", "tensor 'w'", "file has", tensor("w", {1}, 0, 1 << 20));
  add("padding missing and so the data", "Q1212", "tensor 'w'", "file has",
      Bytes().Header(1, 0).TensorInfo("w", {1}, 0, 0));
  add("tensors at the same place", "Q1213", "tensor 'b'", "'a'",
      Bytes().Header(2, 0).TensorInfo("a", {4}, 0, 0).TensorInfo("b", {4}, 0, 0).Pad().Zeros(64));
  add("tensors that overlap", "Q1213", "tensor 'b'", "'a'",
      Bytes().Header(2, 0).TensorInfo("b", {4}, 0, 32).TensorInfo("a", {9}, 0, 0).Pad().Zeros(64));
  add("tensor inside another", "Q1213", "tensor 'in'", "'out'",
      Bytes().Header(2, 0).TensorInfo("out", {100}, 0, 0).TensorInfo("in", {1}, 0, 64).Pad().Zeros(400));
  // 4096 weights of id 42 take 1152 or 1088 bytes.
  for (size_t size : {1121, 1140, 1300}) {
    add("id 42 with " + std::to_string(size) + " bytes", "Q1215", "tensor 'w'",
        "takes " + std::to_string(size) + " bytes with the padding behind it, expected 1152 (q2_0) or 1088",
        Bytes().Header(1, 0).TensorInfo("w", {4096}, 42, 0).Pad().Zeros(size));
  }
  // Padding that is not zero speaks for the longer layout, whose scale of the last 64 weights is then not
  // finite.
  Bytes padded = Bytes().Header(1, 1).KvU32("general.alignment", 4096).TensorInfo("w", {4096}, 42, 0);
  padded.Pad(4096).Zeros(1088);
  for (int i = 0; i < 64; ++i) padded.U8(0x7c);
  add("id 42 whose bytes and scales disagree", "Q1215", "tensor 'w'",
      "cannot be told whether tensors of type id 42 are q2_0 or q2_0_g128", padded);
  add("id 42 with too few bytes for either layout", "Q1212", "tensor 'w'", "file has",
      Bytes().Header(1, 0).TensorInfo("w", {4096}, 42, 0).Pad().Zeros(1087));
  add("id 42 inside another tensor", "Q1213", "tensor 'in'", "'w'",
      Bytes().Header(2, 0).TensorInfo("w", {4096}, 42, 0).TensorInfo("in", {1}, 0, 64).Pad().Zeros(2000));
  for (uint32_t id = 0; id < 200; ++id) {
    if (format_from_ggml_id(id) || id == 27) continue;  // 27: integers
    std::string name(ggml_type_name(id));
    if (name == "unknown") {
      add("type id " + std::to_string(id), "Q1207", "tensor 'w'", "type id " + std::to_string(id),
          tensor("w", {256}, id, 0));
    } else {
      add("type " + name, "Q1206", "tensor 'w'", "tensor 'w' has format " + name, tensor("w", {256}, id, 0));
    }
  }
  add("integers that are not all in the file", "Q1212", "tensor 'w'", "takes bytes 64 to 2112",
      tensor("w", {256}, 27, 0));
  add("more integers than there can be", "Q1209", "tensor 'w'", "64-bit integers",
      tensor("w", {uint64_t{1} << 61}, 27, 0));
  add("type id 2^32-1", "Q1207", "tensor 'w'", "4294967295", tensor("w", {256}, 0xffffffffu, 0));
  return cases;
}

class BadFiles : public ::testing::TestWithParam<std::vector<BadFile> (*)()> {};

TEST_P(BadFiles, AreRefusedWithCodePlaceAndWords) {
  for (const BadFile& bad : GetParam()()) {
    absl::Status status = File::Parse(bad.bytes.get(), "test.gguf").status();
    ASSERT_FALSE(status.ok()) << bad.rule << ": the file was accepted";
    ErrorParts parts = PartsOf(status);
    EXPECT_FALSE(parts.help.empty()) << status;
    EXPECT_EQ(parts.code, bad.code) << bad.rule << ": " << status;
    EXPECT_EQ(parts.where.rfind("test.gguf", 0), 0u) << bad.rule << ": the file is not named: " << status;
    EXPECT_NE((parts.where + " " + parts.what).find(bad.where), std::string::npos)
        << bad.rule << ": expected '" << bad.where << "' in: " << status;
    EXPECT_NE(parts.what.find(bad.found), std::string::npos)
        << bad.rule << ": expected '" << bad.found << "' in: " << parts.what;
  }
}

INSTANTIATE_TEST_SUITE_P(Header, BadFiles, ::testing::Values(&HeaderCases));
INSTANTIATE_TEST_SUITE_P(Metadata, BadFiles, ::testing::Values(&MetadataCases));
INSTANTIATE_TEST_SUITE_P(Vocabulary, BadFiles, ::testing::Values(&VocabularyCases));
INSTANTIATE_TEST_SUITE_P(Tensors, BadFiles, ::testing::Values(&TensorCases));

TEST(BadFiles, WhatIsOnlyNewerIsNotCalledDamaged) {
  const auto help = [](const Bytes& bytes) {
    return PartsOf(File::Parse(bytes.get(), "test.gguf").status()).help;
  };
  const std::string version = help(Bytes().Header(0, 0, 4));
  EXPECT_EQ(version, "use a release of qcc that reads it, or write the model as GGUF version 3");
  EXPECT_EQ(help(Bytes().Header(0, 0, 1)), "convert the model again with a current converter");
  const std::string nested = help(Bytes().Header(0, 1).KvArray("k", 9, 1).Zeros(64));
  EXPECT_EQ(nested.find("damaged"), std::string::npos) << nested;
  EXPECT_NE(nested.find("without this key"), std::string::npos) << nested;
  const std::string type = help(Bytes().Header(0, 1).Key("k", 13).Zeros(8));
  EXPECT_EQ(type.rfind("the file is newer than this qcc, or damaged", 0), 0u) << type;
}

// The reference page lists exactly the codes that can occur.
TEST(Documentation, EveryCodeHasASection) {
  std::ifstream in(QCC_SOURCE_DIR "/docs/reference/errors.md");
  std::stringstream text;
  text << in.rdbuf();
  // Those of shards are in shards_test.cc, that of a file that changes in good_files_test.cc.
  std::set<std::string> codes = {"Q1001", "Q1009", "Q1110", "Q1112", "Q1214",
                                 "Q1402", "Q1403", "Q1404", "Q1405", "Q1406"};
  for (auto* table : {&HeaderCases, &MetadataCases, &VocabularyCases, &TensorCases}) {
    for (const BadFile& bad : table()) codes.insert(bad.code);
  }
  for (const std::string& code : codes) {
    EXPECT_NE(text.str().find("`" + code + "`"), std::string::npos)
        << "docs/reference/errors.md lacks " << code;
  }
  std::set<std::string> documented;
  for (size_t at = text.str().find("`Q1"); at != std::string::npos; at = text.str().find("`Q1", at + 1)) {
    documented.insert(text.str().substr(at + 1, 5));
  }
  for (const std::string& code : documented)
    EXPECT_TRUE(codes.count(code)) << code << " is documented but has no test";
}

TEST(Damage, TruncationAnywhereBeforeTheLastDataByteIsRefused) {
  std::vector<uint8_t> whole = SmallFile().get();
  for (size_t n = 0; n < whole.size(); ++n) {
    std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    absl::Status status = File::Parse(cut, "test.gguf").status();
    ASSERT_FALSE(status.ok()) << "cut to " << n << " of " << whole.size() << " bytes, but accepted";
    EXPECT_FALSE(PartsOf(status).code.empty()) << status;
  }
  ASSERT_TRUE(File::Parse(whole, "test.gguf").ok());
}

// Touches everything that a view offers; with sanitizers this finds any read out of range.
uint64_t ReadEverything(const File& file) {
  uint64_t sum = 0;
  for (std::string_view key : file.keys()) {
    sum += file.Has(key);
    sum += file.GetInt(key).ok() + file.GetFloat(key).ok() + file.GetBool(key).ok();
    if (absl::StatusOr<std::string_view> s = file.GetString(key); s.ok()) sum += s->size();
    if (auto v = file.GetIntArray(key); v.ok()) sum += v->size();
    if (auto v = file.GetFloatArray(key); v.ok()) sum += v->size();
    if (auto v = file.GetBoolArray(key); v.ok()) sum += v->size();
    if (auto v = file.GetStringArray(key); v.ok()) {
      for (std::string_view s : *v) sum += s.empty() ? 0 : static_cast<uint8_t>(s.back());
    }
  }
  for (const Tensor& tensor : file.tensors()) {
    sum += CheckFinite(file, tensor).ok();
    sum += file.FindTensor(tensor.name) == &tensor;
  }
  return sum;
}

TEST(Damage, EveryBitFlipReturns) {
  std::vector<uint8_t> whole = SmallFile().get();
  int accepted = 0, refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<uint8_t> flipped = whole;
    flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ (1u << (bit % 8)));
    absl::StatusOr<std::unique_ptr<File>> file = File::Parse(flipped, "test.gguf");
    if (file.ok()) {
      ++accepted;
      EXPECT_GT(ReadEverything(**file), 0u) << "bit " << bit;
    } else {
      ++refused;
      EXPECT_FALSE(PartsOf(file.status()).code.empty()) << "bit " << bit << ": " << file.status();
    }
  }
  // Flips in names, values and data leave a valid file; flips in counts, types and lengths do not.
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 100);
}

TEST(Finite, NanAndInfinityAreFoundInEveryFormat) {
  constexpr int64_t kWeights = 4096;  // so many that the size tells formats of one id apart
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    // Setting the high exponent byte of some half/float to all ones gives a NaN or an infinity somewhere in
    // the block.
    Bytes good;
    good.Header(1, 0).TensorInfo("w", {kWeights}, info.ggml_id, 0).Pad();
    size_t data = good.size();
    good.Zeros(static_cast<size_t>(row_bytes(info.id, kWeights)));
    auto file = File::Parse(good.get(), "test.gguf");
    ASSERT_TRUE(file.ok()) << info.name << ": " << file.status();
    ASSERT_TRUE(CheckFinite(**file, (*file)->tensors()[0]).ok()) << info.name;
    // Unsigned E4M3 has no such numbers.
    const bool none = description(info.id).plain.base == BaseScale::kUe4m3;
    int found = 0;
    for (int at = 0; at + 1 < 2 * info.block_bytes; ++at) {
      std::vector<uint8_t> bad = good.get();
      size_t base = data + static_cast<size_t>(row_bytes(info.id, kWeights) - 2 * info.block_bytes);
      bad[base + static_cast<size_t>(at)] = 0x80;
      bad[base + static_cast<size_t>(at) + 1] = 0x7f;
      // The half of IQ1_M is spread over the upper nibbles of four words; a byte of E8M0 must be 255.
      if (info.id == Format::IQ1_M) bad[base + static_cast<size_t>(at)] = 0xc0;
      if (info.id == Format::IQ1_M && at + 2 < 2 * info.block_bytes)
        bad[base + static_cast<size_t>(at) + 2] = 0x7f;
      if (info.id == Format::MXFP4) bad[base + static_cast<size_t>(at)] = 0xff;
      auto damaged = File::Parse(bad, "test.gguf");
      ASSERT_TRUE(damaged.ok());
      absl::Status status = CheckFinite(**damaged, (*damaged)->tensors()[0]);
      if (status.ok()) continue;
      ++found;
      EXPECT_EQ(PartsOf(status).code, "Q1214");
      EXPECT_NE(PartsOf(status).where.find("tensor 'w', byte "), std::string::npos) << status;
    }
    // Each of the two blocks has at least one scale.
    if (none) {
      EXPECT_EQ(found, 0) << info.name;
    } else {
      EXPECT_GE(found, 2) << info.name;
    }
  }
}

// The check knows where a block has its scales; decoding is what they mean.
TEST(Finite, AgreesWithDecoding) {
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    constexpr int64_t kRow = 1 << 13;  // more blocks than the check takes in one piece, for the plain formats
    Bytes bytes;
    bytes.Header(1, 0).TensorInfo("w", {kRow}, info.ggml_id, 0).Pad();
    const size_t data = bytes.size(), size = static_cast<size_t>(row_bytes(info.id, kRow));
    bytes.Zeros(size);
    std::vector<uint8_t> content = bytes.get();
    for (size_t b = 0; b < size; ++b) content[data + b] = static_cast<uint8_t>(b * 7 % 60);
    const auto block = static_cast<size_t>(info.block_bytes);
    std::vector<float> values(static_cast<size_t>(info.block_elems));
    for (size_t at : {size_t{0}, block, size - block}) {
      for (size_t b = 0; b < block; ++b) {
        const size_t place = data + at + b;
        for (int value : {0x7c, 0x7f, 0x80, 0xfc, 0xff}) {
          const uint8_t was = std::exchange(content[place], static_cast<uint8_t>(value));
          const uint8_t next = b + 1 < block ? std::exchange(content[place + 1], uint8_t{0x7f}) : 0;
          info.decode_block(content.data() + data + at, values.data());
          const bool finite =
              std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
          auto file = File::Parse(content, "test.gguf");
          ASSERT_TRUE(file.ok()) << file.status();
          const absl::Status status = CheckFinite(**file, (*file)->tensors()[0]);
          EXPECT_EQ(status.ok(), finite)
              << info.name << ", byte " << b << " of a block is " << value << ": " << status;
          if (!finite) {
            EXPECT_NE(PartsOf(status).where.find("byte " + std::to_string(data + at)), std::string::npos)
                << status;
          }
          if (b + 1 < block) content[place + 1] = next;
          content[place] = was;
        }
      }
    }
  }
}

}  // namespace
}  // namespace qcc::gguf
