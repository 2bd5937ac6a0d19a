// Conversations through chat templates, and JSON as templates see it.
#include "runtime/text/chat_template.h"

#include <gtest/gtest.h>

#include <memory>

#include "runtime/text/chat_prompt.h"
#include "runtime/text/json.h"
#include "runtime/text/tokenizer.h"
#include "tests/unit/runtime/text_vocab.h"

namespace qrt::text {
namespace {

Value Json(std::string_view text) {
  Value value;
  std::string error;
  EXPECT_TRUE(ParseJson(text, &value, &error)) << error;
  return value;
}

class Chat : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = ChatTemplate::Parse(ReadTestFile("chat_template.jinja"));
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    template_ = std::make_unique<ChatTemplate>(*std::move(parsed));
  }
  std::string Render(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) {
    const auto text = template_->Render(messages, options);
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    return text.ok() ? *text : "";
  }
  std::string Refuse(const std::vector<ChatMessage>& messages) {
    const auto text = template_->Render(messages, {});
    EXPECT_FALSE(text.ok()) << *text;
    return text.status().message();
  }

  std::unique_ptr<ChatTemplate> template_;
};

const char* const kCalls = R"([
  {"function": {"name": "weather", "arguments": {"city": "Köln", "days": 3, "unit": null, "hours": [1, "a"], "more": {"k": true}}}},
  {"name": "plain"}])";

TEST_F(Chat, SystemAndUser) {
  EXPECT_EQ(Render({{"system", "  Be brief.\n", {}}, {"user", "hi", {}}}),
            "<|im_start|>system\nBe "
            "brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

TEST_F(Chat, GenerationPromptAndThinking) {
  const std::vector<ChatMessage> messages = {{"user", "hi", {}}};
  const std::string turn = "<|im_start|>user\nhi<|im_end|>\n";
  ChatOptions options;
  options.enable_thinking = false;
  EXPECT_EQ(Render(messages, options), turn + "<|im_start|>assistant\n<think>\n\n</think>\n\n");
  options.enable_thinking = true;
  EXPECT_EQ(Render(messages, options), turn + "<|im_start|>assistant\n<think>\n");
  options.add_generation_prompt = false;
  EXPECT_EQ(Render(messages, options), turn);
}

TEST_F(Chat, ReasoningOfTheCurrentTurnOnly) {
  const std::vector<ChatMessage> messages = {{"user", "q1", {}},
                                             {"assistant", "<think>\nold\n</think>\n\na1", {}},
                                             {"user", "q2", {}},
                                             {"assistant", "<think>\nnew\n</think>\n\na2", {}}};
  ChatOptions options;
  options.add_generation_prompt = false;
  EXPECT_EQ(
      Render(messages, options),
      "<|im_start|>user\nq1<|im_end|>\n<|im_start|>assistant\na1<|im_end|>\n"
      "<|im_start|>user\nq2<|im_end|>\n<|im_start|>assistant\n<think>\nnew\n</think>\n\na2<|im_end|>\n");
  options.variables = {{"preserve_thinking", Value(true)}};
  EXPECT_NE(Render(messages, options).find("<think>\nold\n</think>\n\na1"), std::string::npos);
}

TEST_F(Chat, ReasoningAsAFieldOfItsOwn) {
  ChatOptions options;
  options.add_generation_prompt = false;
  EXPECT_EQ(
      Render({{"user", "q", {}}, {"assistant", "a", {{"reasoning_content", Value("because")}}}}, options),
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nbecause\n</think>\n\na<|im_end|>\n");
}

TEST_F(Chat, ToolCallsAndResults) {
  EXPECT_EQ(Render({{"user", "q", {}},
                    {"assistant", "look:", {{"tool_calls", Json(kCalls)}}},
                    {"tool", "r1", {}},
                    {"tool", "r2", {}},
                    {"assistant", "done", {}}}),
            "<|im_start|>user\nq<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\nlook:\n\n"
            "<tool_call>\n<function=weather>\n<parameter=city>\nKöln\n</parameter>\n<parameter=days>\n3\n</"
            "parameter>\n"
            "<parameter=unit>\nNone\n</parameter>\n<parameter=hours>\n[1, \"a\"]\n</parameter>\n"
            "<parameter=more>\n{\"k\": true}\n</parameter>\n</function>\n</tool_call>\n"
            "<tool_call>\n<function=plain>\n</function>\n</tool_call><|im_end|>\n"
            "<|im_start|>user\n<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</"
            "tool_response><|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\ndone<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n");
}

TEST_F(Chat, ToolDescriptionsKeepOrderAndCharacters) {
  ChatOptions options;
  options.tools = Json(
      R"([{"type": "function", "function": {"name": "f", "text": "Grüße \"x\" <b>", "b": 1, "a": {}}}])");
  EXPECT_EQ(Render({{"system", "S", {}}, {"user", "q", {}}}, options),
            "<|im_start|>system\n# Tools\n\n<tools>\n"
            "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"text\": \"Grüße \\\"x\\\" <b>\", "
            "\"b\": 1, \"a\": {}}}\n"
            "</tools>\n\nS<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

TEST_F(Chat, ToolResponsesOfUsersAreNoQuestion) {
  const std::string text = Render({{"user", "q", {}},
                                   {"assistant", "<think>t</think>a", {}},
                                   {"user", "<tool_response>x</tool_response>", {}}});
  EXPECT_NE(text.find("<think>\nt\n</think>\n\na"), std::string::npos)
      << "the question is the first message, so the answer's reasoning is kept: " << text;
}

TEST_F(Chat, Images) {
  ChatOptions options;
  options.variables = {{"add_vision_id", Value(true)}};
  const Value parts = Json(R"([{"type": "text", "text": "see "}, {"type": "image"}, {"image_url": "u"}])");
  EXPECT_EQ(
      Render({{"user", parts, {}}}, options),
      "<|im_start|>user\nsee Picture 1: <|vision_start|><|image_pad|><|vision_end|>"
      "Picture 2: <|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n<think>\n");
}

TEST_F(Chat, Refusals) {
  EXPECT_EQ(Refuse({}), "the template refuses: there are no messages");
  EXPECT_EQ(Refuse({{"system", "s", {}}}), "the template refuses: there is no question of a user");
  EXPECT_EQ(Refuse({{"user", "<tool_response>x</tool_response>", {}}}),
            "the template refuses: there is no question of a user");
  EXPECT_EQ(Refuse({{"user", "q", {}}, {"system", "s", {}}}),
            "the template refuses: the system message must come first");
  EXPECT_EQ(Refuse({{"user", "q", {}}, {"alien", "x", {}}}), "the template refuses: unexpected role alien");
  EXPECT_EQ(Refuse({{"user", Value(5), {}}}), "the template refuses: content is neither text nor a list");
  EXPECT_EQ(Refuse({{"user", Json(R"([{"a": 1}])"), {}}}),
            "the template refuses: unknown content part {'a': 1}");
  EXPECT_EQ(Refuse({{"system", Json(R"([{"type": "image"}])"), {}}, {"user", "q", {}}}),
            "the template refuses: images cannot stand in the system message");
}

// The small trained model's own template, its vocabulary, and the ids it was trained and tested with.
TEST(TinyChat, PromptsHaveTheKnownIds) {
  const auto parsed = ChatTemplate::Parse(
      "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- "
      "endfor %}"
      "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}{%- endif "
      "%}");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const auto vocab = TinyVocab();
  const std::vector<uint32_t> eog = {4086, 4088};
  const auto tokenizer = Tokenizer::Create(vocab->tables(), "qwen35", eog);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const std::vector<int32_t> head = {4087, 446, 267, 10};
  const std::vector<int32_t> tail = {4088, 10, 4087, 674, 415, 433, 10, 4089, 429, 4090, 429};
  const std::pair<const char*, std::vector<int32_t>> kPrompts[] = {
      {"What must we do for our country?", {977, 444, 312, 420, 318, 319, 659, 63}},
      {"We will meet the challenge of our time.", {628, 354, 995, 262, 1700, 278, 319, 617, 46}},
      {"Who shall lead us to peace?", {2084, 556, 928, 447, 281, 602, 63}},
      {"Our economy is strong.", {1134, 981, 327, 978, 46}},
      {"My fellow Americans, the state of our Union is strong.",
       {940, 1209, 836, 44, 262, 1266, 278, 319, 1108, 327, 978, 46}},
      {"We have work to do.", {628, 355, 553, 281, 420, 46}},
  };
  for (const auto& [user, middle] : kPrompts) {
    const std::vector<ChatMessage> messages = {{"user", user, {}}};
    const auto text = parsed->Render(messages, {});
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    std::vector<int32_t> ids, expected = head;
    expected.insert(expected.end(), middle.begin(), middle.end());
    expected.insert(expected.end(), tail.begin(), tail.end());
    ASSERT_TRUE(tokenizer->Encode(*text, true, &ids).ok());
    EXPECT_EQ(ids, expected) << user;
    const auto prompt = EncodeChat(*parsed, *tokenizer, messages, {});
    ASSERT_TRUE(prompt.ok()) << prompt.status().ToString();
    EXPECT_EQ(*prompt, expected) << user;
  }
}

TEST(Json, ReadsAndWrites) {
  const std::string text =
      R"({"a": [1, -2.5, 1e+30, true, false, null], "b": {"ü": "\"\\\n\t\u0001"}, "c": [], "d": {}})";
  std::string out, error;
  ASSERT_TRUE(AppendJson(Json(text), {}, 1000, &out, &error)) << error;
  EXPECT_EQ(out, text);
  EXPECT_EQ(Json(R"("\u00e9\ud83d\ude00\/")").as_string(), "\xC3\xA9\xF0\x9F\x98\x80/");
  EXPECT_TRUE(Json("18446744073709551616").is_float());
  EXPECT_EQ(Json("9223372036854775807").as_int(), INT64_MAX);
  EXPECT_EQ(Json(R"({"a": 1, "b": 2, "a": 3})").as_map().entries.size(), 2u);
  EXPECT_EQ(Json(R"({"a": 1, "b": 2, "a": 3})").as_map().Find("a")->as_int(), 3);
}

TEST(Json, LargeMapsFindEveryKey) {
  std::vector<Value::Entry> entries;
  for (int i = 0; i < 500; ++i) entries.emplace_back("k" + std::to_string(i * 7919 % 250), Value(i));
  const Value map = Value::MakeMap(entries);
  ASSERT_EQ(map.as_map().entries.size(), 250u);
  for (int i = 250; i < 500; ++i) {
    const Value* found = map.as_map().Find("k" + std::to_string(i * 7919 % 250));
    ASSERT_NE(found, nullptr) << i;
    EXPECT_EQ(found->as_int(), i) << "the last of equal keys wins";
  }
  EXPECT_EQ(map.as_map().entries[0].first, "k0") << "in the place of the first";
  EXPECT_EQ(map.as_map().Find("nope"), nullptr);
}

TEST(Json, RefusesWithAPlace) {
  for (const char* bad :
       {"",     "{",  "[1,",   "[1 2]",       "{\"a\"}", "{a: 1}",      "01",          "1.",
        "-",    "1e", "nul",   "\"a",         "\"\\x\"", "\"\\ud800\"", "\"\\udc00\"", "\"\n\"",
        "[1]]", "+1", "1e999", "{\"a\": 1,}", "[,]"}) {
    Value value;
    std::string error;
    EXPECT_FALSE(ParseJson(bad, &value, &error)) << bad;
    EXPECT_NE(error.find("at byte "), std::string::npos) << bad << ": " << error;
  }
  Value value;
  std::string error;
  EXPECT_FALSE(ParseJson(std::string(100000, '['), &value, &error));
  EXPECT_NE(error.find("too deeply"), std::string::npos) << error;
}

}  // namespace
}  // namespace qrt::text
