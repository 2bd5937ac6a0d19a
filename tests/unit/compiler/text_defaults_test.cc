// What a file's metadata says of how its model is spoken to, and what of it cannot be taken along.
#include "compiler/artifact/text_defaults.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/artifact/file_text.h"
#include "frontends/base/error.h"
#include "frontends/gguf/writer.h"
#include "runtime/abi/qbin.h"
#include "runtime/engine/sampler.h"
#include "runtime/text/template_parser.h"
#include "tests/unit/gguf/metadata_file.h"

namespace qcc::compiler {
namespace {

using Keys = std::function<void(gguf::Writer&)>;

class TextDefaults : public testing::Test {
 protected:
  std::string Name(const Keys& keys) {
    warnings_.clear();
    return ReadModelName(Open(keys), warnings_);
  }
  absl::StatusOr<SamplingSpec> Sampling(const Keys& keys) {
    warnings_.clear();
    return ReadSampling(Open(keys), warnings_);
  }
  absl::StatusOr<std::optional<std::string>> Template(const Keys& keys) {
    warnings_.clear();
    return ReadChatTemplate(Open(keys), warnings_);
  }
  // The one warning there is.
  std::string Warning() const {
    EXPECT_EQ(warnings_.size(), 1u);
    return warnings_.empty() ? "" : warnings_[0];
  }
  void ExpectSaid(const std::string& part) const {
    EXPECT_NE(Warning().find(part), std::string::npos) << "does not say '" << part << "': " << Warning();
  }

  std::vector<std::string> warnings_;

 private:
  const gguf::File& Open(const Keys& keys) {
    gguf::Writer w;
    w.AddString("general.architecture", "qwen35");
    keys(w);
    bytes_ = gguf::MetadataFile(w);
    auto file = gguf::File::Parse(bytes_, "test.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    return *file_;
  }

  std::vector<uint8_t> bytes_;
  std::unique_ptr<gguf::File> file_;
};

TEST_F(TextDefaults, ANameThatIsTooLongIsCut) {
  EXPECT_EQ(Name([](gguf::Writer& w) { w.AddString("general.name", "Tiny"); }), "Tiny");
  EXPECT_EQ(Name([](gguf::Writer&) {}), "");
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  std::string longer = "n";
  while (longer.size() <= QBIN_MAX_STRING) longer += "\u00e9";
  const std::string cut = Name([&](gguf::Writer& w) { w.AddString("general.name", longer); });
  EXPECT_EQ(cut, longer.substr(0, QBIN_MAX_STRING - 1)) << "within a character";
  ExpectSaid("it is cut");
}

TEST_F(TextDefaults, Sampling) {
  auto sampling = Sampling([](gguf::Writer& w) {
    w.AddF32("general.sampling.temp", 0.6f);
    w.AddF32("general.sampling.top_p", 0.95f);
    w.AddI32("general.sampling.top_k", 20);
    w.AddI32("general.sampling.penalty_last_n", -1);
  });
  ASSERT_TRUE(sampling.ok()) << sampling.status();
  EXPECT_EQ(sampling->temperature, 0.6f);
  EXPECT_EQ(sampling->top_p, 0.95f);
  EXPECT_EQ(sampling->top_k, 20);
  EXPECT_EQ(sampling->penalty_window, -1);
  EXPECT_FALSE(sampling->min_p.has_value());
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];

  sampling = Sampling([](gguf::Writer& w) { w.AddI32("general.sampling.top_k", -1); });
  ASSERT_TRUE(sampling.ok()) << sampling.status();
  EXPECT_EQ(sampling->top_k, 0);
}

TEST_F(TextDefaults, SamplingOutOfRange) {
  for (const Keys& keys : {Keys([](gguf::Writer& w) { w.AddF32("general.sampling.top_p", 1.5f); }),
                           Keys([](gguf::Writer& w) { w.AddF32("general.sampling.temp", -1.f); }),
                           Keys([](gguf::Writer& w) { w.AddI32("general.sampling.top_k", -5); }),
                           Keys([](gguf::Writer& w) { w.AddI32("general.sampling.penalty_last_n", -2); })}) {
    EXPECT_EQ(PartsOf(Sampling(keys).status()).code, "Q2308");
    EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  }
}

TEST_F(TextDefaults, APenaltyWindowBeyondTheRuntimesIsClamped) {
  constexpr uint32_t kLongest = qrt::Sampler::kMaxPenaltyWindow;
  for (const uint32_t window : {kLongest, kLongest + 1, UINT32_MAX}) {
    auto sampling =
        Sampling([window](gguf::Writer& w) { w.AddU32("general.sampling.penalty_last_n", window); });
    ASSERT_TRUE(sampling.ok()) << sampling.status();
    EXPECT_EQ(sampling->penalty_window, static_cast<int32_t>(kLongest));
    ASSERT_EQ(warnings_.size(), window > kLongest) << window;
    if (window > kLongest) ExpectSaid(std::to_string(window));
  }
}

// Samplers that the runtime does not have; of those that are off nothing is said.
TEST_F(TextDefaults, SamplingThatIsNotFollowedIsSaid) {
  ASSERT_TRUE(Sampling([](gguf::Writer& w) {
                w.AddF32("general.sampling.xtc_probability", 0.5f);
                w.AddF32("general.sampling.xtc_threshold", 0.1f);
              }).ok());
  ExpectSaid("general.sampling.xtc_probability");
  ASSERT_TRUE(Sampling([](gguf::Writer& w) {
                w.AddI32("general.sampling.mirostat", 2);
                w.AddF32("general.sampling.mirostat_tau", 5);
              }).ok());
  ExpectSaid("general.sampling.mirostat");
  ASSERT_TRUE(Sampling([](gguf::Writer& w) { w.AddString("general.sampling.sequence", "kt"); }).ok());
  ExpectSaid("general.sampling.sequence");
  ASSERT_TRUE(Sampling([](gguf::Writer& w) { w.AddF32("general.sampling.of_tomorrow", 1); }).ok());
  ExpectSaid("general.sampling.of_tomorrow is not followed: qcc knows no setting of this name");
  ASSERT_TRUE(Sampling([](gguf::Writer& w) {
                w.AddI32("general.sampling.mirostat", 0);
                w.AddF32("general.sampling.mirostat_eta", 0.1f);
                w.AddF32("general.sampling.xtc_probability", 0);
                w.AddF32("general.sampling.xtc_threshold", 0.1f);
              }).ok());
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(TextDefaults, ChatTemplate) {
  auto none = Template([](gguf::Writer&) {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
  const std::string simple = "{% for m in messages %}{{ m.content }}{% endfor %}";
  auto text = Template([&](gguf::Writer& w) { w.AddString("tokenizer.chat_template", simple); });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, simple);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  for (const size_t more : {0, 1}) {
    const std::string large(qrt::text::kMaxTemplateBytes + more, 'x');
    text = Template([&](gguf::Writer& w) { w.AddString("tokenizer.chat_template", large); });
    EXPECT_EQ(text.ok(), more == 0) << "the runtime's limit and " << more;
  }
}

// The model can still be used without it, so it is compiled.
TEST_F(TextDefaults, AChatTemplateThatIsNoTextIsLeftOut) {
  auto text = Template([](gguf::Writer& w) { w.AddString("tokenizer.chat_template", "a\xff"); });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(text->has_value());
  ExpectSaid("not UTF-8 at its byte 1");
}

TEST_F(TextDefaults, AChatTemplateThatShowsNothingOfAUserIsSaid) {
  auto text = Template([](gguf::Writer& w) { w.AddString("tokenizer.chat_template", "{{ x }}"); });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->has_value());
  ExpectSaid("leaves out what a user says");
}

TEST_F(TextDefaults, AChatTemplateThatTheRuntimeCannotParseIsSaid) {
  auto text = Template(
      [](gguf::Writer& w) { w.AddString("tokenizer.chat_template", "{% for m in messages %}\n{{ m."); });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->has_value());
  ExpectSaid("chats will be refused");
  ExpectSaid("line 2");
}

TEST_F(TextDefaults, TemplatesThatAreLeftOutAreSaid) {
  const std::vector<std::string> names = {"tool_use", "rag"};
  auto text = Template([&names](gguf::Writer& w) {
    w.AddString("tokenizer.chat_template", "{{ messages[0].content }}");
    w.AddStringArray("tokenizer.chat_templates", names);
    w.AddString("tokenizer.chat_template.tool_use", "{{ y }}");
    w.AddString("tokenizer.chat_template.rag", "{{ z }}");
  });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->has_value());
  ExpectSaid("tool_use, rag");
  text = Template([](gguf::Writer& w) { w.AddString("tokenizer.chat_template.rag", "{{ z }}"); });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(text->has_value());
  ExpectSaid("none for chats");
}

// A key may have 64 KiB, and there may be thousands of them.
TEST_F(TextDefaults, LongNamesOfKeysAreCut) {
  const std::string key = "general.sampling." + std::string(65500, 'k');
  ASSERT_TRUE(Sampling([&](gguf::Writer& w) { w.AddF32(key, 1); }).ok());
  ExpectSaid("general.sampling.kkk");
  ExpectSaid("(65517 bytes) is not followed");
  EXPECT_LT(Warning().size(), 200u);
  ASSERT_TRUE(Template([](gguf::Writer& w) {
                for (int i = 100; i < 200; ++i) {
                  w.AddString("tokenizer.chat_template.t" + std::to_string(i) + std::string(65000, 'n'), "x");
                }
              }).ok());
  ExpectSaid("t100n");
  ExpectSaid("and 92 more");
  EXPECT_LT(Warning().size(), 1200u);
}

TEST(FileText, IsCutBetweenCharacters) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abcd", 3), "abc");
  EXPECT_EQ(CutText("ab\u20ac", 4), "ab");
  EXPECT_EQ(CutText("ab\u20ac", 5), "ab\u20ac");
  EXPECT_EQ(CutText("\x80\x80\x80\x80\x80\x80", 5).size(), 5u) << "no UTF-8";
  EXPECT_EQ(CutText("\u20ac", 1), "");
}

}  // namespace
}  // namespace qcc::compiler
