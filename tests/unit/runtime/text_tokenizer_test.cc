#include "runtime/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "tests/unit/runtime/text_vocab.h"

namespace qrt::text {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer Make(const TestVocab& vocab, const char* pre = "qwen35", std::vector<uint32_t> eog = {}) {
  Result<Tokenizer> tokenizer = Tokenizer::Create(vocab.tables(), pre, eog);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return *std::move(tokenizer);
}

Ids Encode(const Tokenizer& tokenizer, std::string_view text, bool special = false) {
  Ids ids;
  const Status status = tokenizer.Encode(text, special, &ids);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return ids;
}

std::string Decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  const Status status = tokenizer.Decode(ids, &bytes);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return bytes;
}

class TinyTokenizer : public testing::Test {
 protected:
  std::unique_ptr<TestVocab> vocab_ = TinyVocab();
  Tokenizer tokenizer_ = Make(*vocab_, "qwen35", {4088, 4086});
};

TEST_F(TinyTokenizer, TextHasTheKnownIds) {
  const std::string text = ReadTestFile("tiny_text.txt");
  Ids expected;
  std::stringstream list(ReadTestFile("tiny_text_ids.txt"));
  for (int32_t id; list >> id;) expected.push_back(id);
  ASSERT_EQ(expected.size(), 736u) << "the fixture is not the one this test was written for";
  const Ids ids = Encode(tokenizer_, text);
  ASSERT_EQ(ids.size(), expected.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(ids[i], expected[i]) << "token " << i << " is '" << tokenizer_.TokenBytes(ids[i])
                                   << "', expected '" << tokenizer_.TokenBytes(expected[i]) << "'";
  }
  EXPECT_EQ(Decode(tokenizer_, ids), text);
}

TEST_F(TinyTokenizer, PromptsHaveTheKnownIds) {
  const std::pair<const char*, Ids> kPrompts[] = {
      {"My fellow citizens, ", {940, 1209, 937, 44, 32}},
      {"The state of the union is", {451, 1266, 278, 262, 3036, 327}},
      {"KING RICHARD III:\n", {891, 1508, 2138, 315}},
      {"We must protect our", {628, 444, 1206, 319}},
      {"In the coming year, Congress should", {784, 262, 2440, 453, 44, 599, 540}},
      {"ROMEO:\nO, she doth teach", {1942, 315, 79, 44, 866, 1839, 3038}},
      {"First Citizen:\nBefore we proceed", {1281, 2716, 315, 1654, 654, 312, 3277}},
      {"The world economy", {451, 509, 981}},
      {"MENENIUS:\nWhat says", {1949, 315, 977, 3298}},
      {"Four score and seven years ago", {70, 448, 1213, 367, 283, 397, 624, 637, 1404}},
  };
  for (const auto& [prompt, ids] : kPrompts) EXPECT_EQ(Encode(tokenizer_, prompt), ids) << prompt;
}

TEST_F(TinyTokenizer, ChatPromptNeedsSpecialParsing) {
  const std::string prompt =
      "<|im_start|>user\nOur economy is strong.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
  EXPECT_EQ(Encode(tokenizer_, prompt, true), (Ids{4087, 446,  267, 10,  1134, 981, 327,  978, 46,   4088,
                                                   10,   4087, 674, 415, 433,  10,  4089, 429, 4090, 429}));
  // The same text from a user: control tokens stay text, user-defined ones (<think>) still count.
  const Ids plain = Encode(tokenizer_, prompt, false);
  for (int32_t id : {4086, 4087, 4088}) {
    EXPECT_EQ(std::count(plain.begin(), plain.end(), id), 0)
        << "control token " << id << " came out of user text";
  }
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 4089), 1) << "<think> is user-defined and always matches";
  EXPECT_EQ(Decode(tokenizer_, plain), prompt);
}

TEST_F(TinyTokenizer, EndAndControlTokens) {
  EXPECT_TRUE(tokenizer_.IsEog(4088));
  EXPECT_TRUE(tokenizer_.IsEog(4086));
  EXPECT_FALSE(tokenizer_.IsEog(4087));
  EXPECT_FALSE(tokenizer_.IsEog(-1));
  EXPECT_TRUE(tokenizer_.IsControl(4087));
  EXPECT_FALSE(tokenizer_.IsControl(4089));
  EXPECT_FALSE(tokenizer_.IsControl(-5));
  EXPECT_FALSE(tokenizer_.IsControl(4096));
  EXPECT_EQ(tokenizer_.size(), 4096u);
}

TEST_F(TinyTokenizer, IdsOutsideTheVocabulary) {
  EXPECT_EQ(tokenizer_.TokenBytes(-1), "");
  EXPECT_EQ(tokenizer_.TokenBytes(4096), "");
  EXPECT_EQ(tokenizer_.TokenBytes(INT32_MAX), "");
  std::string bytes = "kept";
  const Status status = tokenizer_.Decode(Ids{65, 4096}, &bytes);
  EXPECT_EQ(status.number(), 7105u);
  EXPECT_NE(status.message().find("4096"), std::string::npos) << status.ToString();
  EXPECT_EQ(bytes, "kept") << "a failed Decode must not write";
}

TEST_F(TinyTokenizer, AnyBytesComeBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 200, '\0');
    const uint32_t kind = random() % 3;
    for (char& c : text) {
      c = kind == 0   ? static_cast<char>(random())
          : kind == 1 ? "<|im_end>\xE2\x82\xAC \n"[random() % 13]
                      : "ab \n1'"[random() % 6];
    }
    for (bool special : {false, true}) {
      const Ids ids = Encode(tokenizer_, text, special);
      EXPECT_LE(ids.size(), text.size());
      ASSERT_EQ(Decode(tokenizer_, ids), text) << "round " << round;
    }
  }
}

TEST(Tokenizer, AppendsToTheOutput) {
  const TestVocab vocab(TestVocab::Bytes(), {});
  Ids ids = {7};
  ASSERT_TRUE(Make(vocab).Encode("a", false, &ids).ok());
  EXPECT_EQ(ids, (Ids{7, 'a'}));
}

TEST(Tokenizer, RefusesUnknownPretokenizer) {
  const TestVocab vocab(TestVocab::Bytes(), {});
  const auto tokenizer = Tokenizer::Create(vocab.tables(), "llama-bpe", {});
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.status().code(), Code::kArtifactIncompatible);
  EXPECT_NE(tokenizer.status().message().find("llama-bpe"), std::string::npos)
      << tokenizer.status().ToString();
}

TEST(Tokenizer, LowestRankFirstThenLeftmost) {
  // "abc": rank of (b, c) is below that of (a, b), so c is taken before a.
  const TestVocab bc(TestVocab::Bytes({{"ab"}, {"bc"}}), {{"b", "c"}, {"a", "b"}});
  EXPECT_EQ(Encode(Make(bc), "abc"), (Ids{'a', 257}));
  const TestVocab ab(TestVocab::Bytes({{"ab"}, {"bc"}}), {{"a", "b"}, {"b", "c"}});
  EXPECT_EQ(Encode(Make(ab), "abc"), (Ids{256, 'c'}));
  // Equal ranks: the left pair of "aaa".
  const TestVocab aa(TestVocab::Bytes({{"aa"}}), {{"a", "a"}});
  EXPECT_EQ(Encode(Make(aa), "aaa"), (Ids{256, 'a'}));
  EXPECT_EQ(Encode(Make(aa), "aaaa"), (Ids{256, 256}));
}

TEST(Tokenizer, SpecialTokensLongestFirst) {
  const TestVocab vocab(TestVocab::Bytes({{"<a>", QRT_TOKEN_USER_DEFINED},
                                          {"<a><b>", QRT_TOKEN_USER_DEFINED},
                                          {"b><c", QRT_TOKEN_USER_DEFINED},
                                          {"<ctl>", QRT_TOKEN_CONTROL},
                                          {"<unk>", QRT_TOKEN_UNKNOWN},
                                          {"pad", QRT_TOKEN_UNUSED}}),
                        {});
  const Tokenizer tokenizer = Make(vocab);
  EXPECT_EQ(Encode(tokenizer, "<a>"), (Ids{256}));
  EXPECT_EQ(Encode(tokenizer, "<a><b>"), (Ids{257}));
  EXPECT_EQ(Encode(tokenizer, "<a><a><b>"), (Ids{256, 257}));
  // The longer one wins even where the shorter starts earlier.
  EXPECT_EQ(Encode(tokenizer, "<a><b><c"), (Ids{257, '<', 'c'}));
  EXPECT_EQ(Encode(tokenizer, "<b><c"), (Ids{'<', 258}));
  EXPECT_EQ(Encode(tokenizer, "<ctl>", true), (Ids{259}));
  EXPECT_EQ(Encode(tokenizer, "<ctl>", false), (Ids{'<', 'c', 't', 'l', '>'}));
  EXPECT_EQ(Encode(tokenizer, "<unk>", true), (Ids{260}));
  EXPECT_EQ(Encode(tokenizer, "pad", true), (Ids{'p', 'a', 'd'})) << "unused tokens are never produced";
  EXPECT_EQ(Encode(tokenizer, "x<a>y"), (Ids{'x', 256, 'y'}));
}

// What tokenizer.h says, word for word: all occurrences of the longest token, then of the next.
Ids ReferenceCut(const TestVocab& vocab, const std::string& text, bool parse_special,
                 const std::vector<size_t>& as_text) {
  const TokenizerTables& tables = vocab.tables();
  std::vector<int32_t> at(text.size(), -1);  // the token that begins there; -2: inside of one
  for (const uint32_t id : tables.special) {
    const std::string_view bytes = tables.bytes(id);
    for (size_t pos = text.find(bytes); pos != text.npos; pos = text.find(bytes, pos + 1)) {
      bool free = tables.types[id] == QRT_TOKEN_USER_DEFINED || parse_special;
      for (size_t i = pos; i < pos + bytes.size(); ++i) {
        free = free && at[i] == -1 &&
               (tables.types[id] == QRT_TOKEN_USER_DEFINED ||
                std::find(as_text.begin(), as_text.end(), i) == as_text.end());
      }
      if (!free) continue;
      std::fill_n(at.begin() + static_cast<ptrdiff_t>(pos), bytes.size(), -2);
      at[pos] = static_cast<int32_t>(id);
    }
  }
  Ids ids;
  for (size_t i = 0; i < text.size(); ++i) {
    if (at[i] >= 0) ids.push_back(at[i]);
    if (at[i] == -1) ids.push_back(static_cast<uint8_t>(text[i]));
  }
  return ids;
}

std::vector<size_t> ReferenceControl(const TestVocab& vocab, const std::string& text) {
  const TokenizerTables& tables = vocab.tables();
  std::vector<size_t> found;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    bool begins = false;
    for (const uint32_t id : tables.special) {
      if (tables.types[id] == QRT_TOKEN_USER_DEFINED) continue;
      const std::string bytes(tables.bytes(id)), rest = text.substr(pos);
      begins |= rest.starts_with(bytes) || bytes.starts_with(rest);
      for (size_t cut = 1; pos == 0 && cut < bytes.size(); ++cut)
        begins |= text.starts_with(bytes.substr(cut));
    }
    if (begins) found.push_back(pos);
  }
  return found;
}

TEST(Tokenizer, SpecialTokensAgreeWithTheDefinition) {
  std::mt19937 random(17);
  const auto word = [&](size_t most) {
    std::string text;
    for (size_t size = 1 + random() % most; size > 0; --size) text += "abc"[random() % (most < 6 ? 3 : 2)];
    return text;
  };
  size_t taken = 0, control = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<TestVocab::Token> more;
    const uint8_t types[] = {QRT_TOKEN_USER_DEFINED, QRT_TOKEN_USER_DEFINED, QRT_TOKEN_CONTROL,
                             QRT_TOKEN_UNKNOWN};
    for (size_t tokens = random() % 12; tokens > 0; --tokens) {
      more.push_back({word(2 + random() % 8), types[random() % 4]});  // equal ones, too
    }
    const TestVocab vocab(TestVocab::Bytes(more), {});
    const Tokenizer tokenizer = Make(vocab);
    for (int texts = 0; texts < 5; ++texts) {
      const std::string text = word(40);
      std::vector<size_t> as_text;
      for (size_t i = 0; i < text.size(); ++i) {
        if (random() % 16 == 0) as_text.push_back(i);
      }
      for (const bool parse : {false, true}) {
        Ids ids;
        ASSERT_TRUE(tokenizer.Encode(text, parse, &ids, as_text).ok());
        ASSERT_EQ(ids, ReferenceCut(vocab, text, parse, as_text)) << text << " in round " << round;
        taken += text.size() - ids.size();
      }
      ASSERT_EQ(tokenizer.FindControl(text), ReferenceControl(vocab, text)) << text << " in round " << round;
      control += tokenizer.FindControl(text).size();
    }
  }
  EXPECT_GT(taken, 2000u) << "hardly anything was matched: nothing is tested";
  EXPECT_GT(control, 2000u);
}

// As many occurrences as the product of both: 800 million. Listing them takes all memory; reading them off
// one by one takes minutes.
TEST(Tokenizer, ManySpecialTokensInALongText) {
  for (const uint8_t type : {QRT_TOKEN_USER_DEFINED, QRT_TOKEN_CONTROL}) {
    const uint64_t before = PeakBytes();
    std::vector<TestVocab::Token> more;
    for (size_t size = 1; size <= 2000; ++size) more.push_back({std::string(size, 'a'), type});
    const TestVocab vocab(TestVocab::Bytes(more), {});
    const Tokenizer tokenizer = Make(vocab);
    const std::string text = std::string(200000, 'a') + "b" + std::string(199999, 'a');
    const Ids ids = Encode(tokenizer, text, true);
    // 100 of 2000; 99 of them, and what is left of the other side.
    EXPECT_LT(PeakBytes() - before, 512u << 20);
    ASSERT_EQ(ids.size(), 100u + 1 + 99 + 1);
    EXPECT_EQ(ids[0], 256 + 1999);
    EXPECT_EQ(ids[100], 'b');
    EXPECT_EQ(ids.back(), 256 + 1998);
    EXPECT_EQ(tokenizer.FindControl(text).size(), type == QRT_TOKEN_CONTROL ? 399999u : 0u);
  }
}

TEST(Tokenizer, SpecialTokensCutBeforeTheRule) {
  // Around a special token white space is not shared: " <a> b" is " ", <a>, " b".
  const TestVocab vocab(TestVocab::Bytes({{"<a>", QRT_TOKEN_USER_DEFINED}, {" b"}}), {{" ", "b"}});
  EXPECT_EQ(Encode(Make(vocab), " <a> b"), (Ids{' ', 256, 257}));
}

// The definition of BPE, word for word: quadratic, on strings.
Ids ReferenceMerge(const std::string& piece, const std::map<std::pair<std::string, std::string>, int>& ranks,
                   const std::map<std::string, int>& ids) {
  std::vector<std::string> parts;
  for (char c : piece) parts.emplace_back(1, c);
  for (;;) {
    int best = -1, best_rank = INT32_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = ranks.find({parts[i], parts[i + 1]});
      if (it != ranks.end() && it->second < best_rank) {
        best = static_cast<int>(i);
        best_rank = it->second;
      }
    }
    if (best < 0) break;
    parts[static_cast<size_t>(best)] += parts[static_cast<size_t>(best) + 1];
    parts.erase(parts.begin() + best + 1);
  }
  Ids out;
  for (const std::string& part : parts) out.push_back(ids.at(part));
  return out;
}

TEST(Tokenizer, MergesAgreeWithTheDefinitionForShortAndLongPieces) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    // A random vocabulary over four letters, grown by merging two random tokens at a time.
    std::vector<std::string> words = {"a", "b", "c", "d"};
    std::vector<TestVocab::Token> more;
    std::vector<std::pair<std::string, std::string>> merges;
    std::map<std::string, int> ids;
    for (int b = 0; b < 256; ++b) ids[std::string(1, static_cast<char>(b))] = b;
    std::map<std::pair<std::string, std::string>, int> ranks;
    for (int i = 0; i < 40; ++i) {
      const std::string left = words[random() % words.size()], right = words[random() % words.size()];
      if (ranks.count({left, right}) != 0) continue;
      if (ids.emplace(left + right, 256 + static_cast<int>(more.size())).second) {
        more.push_back({left + right});
        words.push_back(left + right);
      }
      ranks[{left, right}] = static_cast<int>(merges.size());
      merges.emplace_back(left, right);
    }
    const TestVocab vocab(TestVocab::Bytes(more), merges);
    const Tokenizer tokenizer = Make(vocab);
    std::string text;
    Ids of_text;
    for (size_t size : {1, 2, 5, 20, 47, 48, 49, 50, 200, 90, 48, 60, 3, 1}) {
      std::string piece;
      for (size_t i = 0; i < size; ++i) piece.push_back("abcd"[random() % (1 + round % 4)]);
      const Ids expected = ReferenceMerge(piece, ranks, ids);
      ASSERT_EQ(Encode(tokenizer, piece), expected) << "piece " << piece;
      text += piece + "\n";
      of_text.insert(of_text.end(), expected.begin(), expected.end());
      of_text.push_back('\n');
    }
    ASSERT_EQ(Encode(tokenizer, text), of_text) << "a piece depends on those before it: " << text;
  }
}

TEST(Tokenizer, OneHugePieceIsNotQuadratic) {
  std::vector<TestVocab::Token> more;
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string word = "a"; word.size() < 64; word += word) {
    merges.emplace_back(word, word);
    more.push_back({word + word});
  }
  const TestVocab vocab(TestVocab::Bytes(more), merges);
  const Tokenizer tokenizer = Make(vocab);
  // A merge that looks at all neighbours each time would take hours for this.
  const std::string text(size_t{2} << 20, 'a');
  const Ids ids = Encode(tokenizer, text);
  EXPECT_EQ(ids.size(), text.size() / 64);
  EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id == 261; }));
}

TEST(Tokenizer, HugeRunsOfEveryClassPassThePretokenizer) {
  const TestVocab vocab(TestVocab::Bytes(), {});
  const Tokenizer tokenizer = Make(vocab);
  for (const char* unit :
       {" ", "\n", " \n", "1", "!", "a", "\xC3\xA9", "\xCC\x81", "\xFF", "<", "'s", "a ", "\t!"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    EXPECT_EQ(Encode(tokenizer, text).size(), text.size()) << "unit '" << unit << "'";
  }
}

TEST(Tokenizer, RefusesTextOverTheLimit) {
  const TestVocab vocab(TestVocab::Bytes(), {});
  const Tokenizer tokenizer = Make(vocab);
  // Only the size is looked at, so the view may be longer than what lies behind it.
  static const char kByte = 'a';
  Ids ids;
  const Status status = tokenizer.Encode(std::string_view(&kByte, size_t{1} << 31), false, &ids);
  EXPECT_EQ(status.number(), 7104u);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

// Bytes in, the same bytes out, whatever they are; run on mutations of real text for a bounded number of
// rounds.
TEST_F(TinyTokenizer, MutatedTextKeepsItsBytes) {
  const std::string seed =
      ReadTestFile("tiny_text.txt").substr(0, 400) + "<|im_start|>user\n<think></think>\xF0\x9F\x98\x80";
  std::mt19937 random(99);
  for (int round = 0; round < 2000; ++round) {
    std::string text = seed.substr(random() % seed.size());
    for (int edits = static_cast<int>(random() % 8); edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 9);
          break;
        case 2:
          text.insert(at, std::string(random() % 5, static_cast<char>(random())));
          break;
        default:
          text.insert(at, seed.substr(random() % seed.size(), random() % 20));
      }
    }
    const Ids ids = Encode(tokenizer_, text, round % 2 == 0);
    ASSERT_EQ(Decode(tokenizer_, ids), text) << "round " << round;
  }
}

}  // namespace
}  // namespace qrt::text
