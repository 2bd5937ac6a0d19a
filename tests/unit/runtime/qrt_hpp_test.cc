// qrt.hpp over the toy model. The names of qrt.h that it lacks are found by reading both headers.
#define QRT_HPP_EXCEPTIONS
#include "runtime/include/qrt/qrt.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/runtime/aligned_bytes.h"
#include "tests/unit/runtime/qrt_toy_bytes.h"

namespace {

namespace api = qrt;

std::string Read(const std::string& name) {
  std::ifstream file(std::string(QCC_SOURCE_DIR) + "/runtime/include/qrt/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename T>
T Must(api::Result<T> result) {
  if (!result) throw std::runtime_error(std::string(result.error().message()) + result.error().note());
  return *std::move(result);
}

class QrtHpp : public testing::Test {
 protected:
  QrtHpp() : bytes_(toy::ToyBytes()) {
    artifact = Must(api::Artifact::OpenMemory(bytes_.span(), "toy"));
    engine = Must(api::Engine::Create(artifact));
    text = Must(api::Text::Create(artifact));
  }

  api::Sampler Greedy() {
    return Must(artifact.SamplerDefaults().and_then([&](qrt_sampler_options options) {
      options.temperature = 0;
      return api::Sampler::Create(artifact, &options);
    }));
  }

  qrt::testing::AlignedBytes bytes_;
  api::Artifact artifact;
  api::Engine engine;
  api::Text text;
};

TEST(QrtHppHeader, HasEveryFunctionOfTheCHeader) {
  const std::string c = Read("qrt.h") + Read("session.h") + Read("text.h"), cpp = Read("qrt.hpp");
  const std::regex declared(R"(QRT_API [^;(]*?(qrt_\w+)\()");
  std::set<std::string> names;
  for (std::sregex_iterator at(c.begin(), c.end(), declared), end; at != end; ++at) names.insert((*at)[1]);
  EXPECT_GT(names.size(), 40u) << "the C headers were not understood";
  for (const std::string& name : names) {
    EXPECT_TRUE(std::regex_search(cpp, std::regex("\\b" + name + "\\b"))) << "qrt.hpp lacks " << name;
  }
}

TEST_F(QrtHpp, DescribesArtifactEngineAndMachine) {
  EXPECT_STREQ(Must(artifact.Describe()).model_name, "toy");
  EXPECT_STREQ(Must(artifact.Code(1)).name, "toy");
  EXPECT_EQ(artifact.Code(99).status(), QRT_INVALID_ARGUMENT);
  EXPECT_GT(Must(artifact.MemoryPlan(100, 2)).total_bytes, 0u);
  EXPECT_TRUE(artifact.Verify());
  EXPECT_EQ(artifact.Verify([](uint64_t, uint64_t) { return false; }).status(), QRT_CANCELLED);
  EXPECT_STREQ(Must(engine.Describe()).cpu, "toy");
  EXPECT_EQ(engine.Check().status(), QRT_UNAVAILABLE);
  EXPECT_GE(Must(api::DescribeCpu()).physical_cores, 1u);
  EXPECT_STREQ(Must(api::ListDevices())[0].id, "cpu");
  EXPECT_STREQ(api::Version(), qrt_version());
  EXPECT_STREQ(api::StatusName(QRT_CANCELLED), "cancelled");
  char path[4096];
  uint64_t offset = 0;
  EXPECT_TRUE(api::MappedFileAt(reinterpret_cast<const void*>(&qrt_version), path, &offset));
}

TEST_F(QrtHpp, TextGoesThereAndBack) {
  const std::string words = "tell me \xC3\xA4";
  const std::vector<int32_t> tokens = Must(text.Tokenize(words));
  EXPECT_EQ(Must(text.Detokenize(tokens)), words);
  EXPECT_TRUE(Must(text.Tokenize("")).empty());
  EXPECT_EQ(text.Detokenize({{-5}}).status(), QRT_INVALID_ARGUMENT);
  std::string pieces;
  for (int32_t token : tokens) pieces += text.TokenBytes(token);
  EXPECT_EQ(pieces, words);
  EXPECT_EQ(api::WholePrefix("a\xC3"), "a");
  const qrt_chat_message message = {"user", "hello", nullptr};
  const std::vector<int32_t> prompt = Must(text.EncodeChat({&message, 1}));
  EXPECT_NE(Must(text.RenderChat({&message, 1})).find("hello"), std::string::npos);
  EXPECT_TRUE(text.IsSpecial(prompt[0]));
  EXPECT_FALSE(text.IsEnd(tokens[0]));
  EXPECT_EQ(text.BeginToken(), qrt_text_begin_token(text.get()));
  // More than was guessed at first.
  const std::string much(5000, 'x');
  const qrt_chat_message long_message = {"user", much.c_str(), nullptr};
  EXPECT_GT(Must(text.EncodeChat({&long_message, 1})).size(), 512u);
  EXPECT_NE(Must(text.RenderChat({&long_message, 1})).find(much), std::string::npos);
}

TEST_F(QrtHpp, SessionsAloneBatchedSavedAndRestored) {
  const uint32_t vocab = Must(artifact.Describe()).vocab_size;
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  api::Session one = Must(api::Session::Create(engine, 64)), two = Must(api::Session::Create(engine, 64));
  api::Sampler sampler = Greedy(), other = Greedy();
  const int32_t next = Must(one.Next(tokens, sampler));
  sampler.Accept(next);
  EXPECT_TRUE(one.Logits(vocab).empty()) << "none were wanted";
  EXPECT_EQ(one.position(), 5u);
  EXPECT_EQ(one.capacity(), 64u);

  ASSERT_TRUE(two.Append(tokens));
  EXPECT_EQ(Must(other.Sample(two.Logits(vocab))), next);
  std::vector<uint64_t> positions;
  ASSERT_TRUE(two.Reset());
  ASSERT_TRUE(two.AppendForAllLogits(tokens, [&](uint64_t position, api::Span<const float> logits) {
    positions.push_back(position);
    return logits.size() == vocab;
  }));
  EXPECT_EQ(positions, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(Must(two.Generate(6, other, SIZE_MAX)).size(), 1u) << "room for all that could come was taken";
  ASSERT_TRUE(two.Reset());
  ASSERT_TRUE(two.Append(tokens));
  EXPECT_EQ(two.AppendForAllLogits(tokens, [](uint64_t, api::Span<const float>) { return false; }).status(),
            QRT_CANCELLED);

  ASSERT_TRUE(two.Restore(Must(one.Save())));
  unsigned char small[4];
  EXPECT_EQ(one.Save(small).status(), QRT_BUFFER_TOO_SMALL);
  EXPECT_GT(one.SaveSize(), sizeof small);
  int32_t after[2] = {-1, -2};
  const int32_t ahead[] = {next};
  const qrt_batch_item items[] = {one.Item(ahead, sampler, &after[0]), two.Item(ahead, other, &after[1])};
  ASSERT_TRUE(engine.Append(items));
  EXPECT_EQ(after[0], after[1]) << "a restored session goes on in another way";
  sampler.Reset();
  one.Cancel();
  EXPECT_EQ(one.Append(tokens, QRT_LOGITS_NONE).status(), QRT_CANCELLED);
}

TEST_F(QrtHpp, SessionsReturnToCheckpointsAndBeginWithWhatWasKept) {
  auto options = api::Sized<qrt_engine_options>();
  options.prefix_bytes = 1 << 20;
  api::Engine keeping = Must(api::Engine::Create(artifact, &options));
  api::Session session = Must(api::Session::Create(keeping, 200));
  std::vector<int32_t> tokens(48);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>('a' + i % 26);
  const api::Span<const int32_t> begin(tokens.data(), 32), rest(tokens.data() + 32, 16);
  ASSERT_TRUE(session.Append(begin));
  api::Checkpoint checkpoint = Must(session.TakeCheckpoint());
  EXPECT_EQ(checkpoint.position(), 32u);
  EXPECT_GT(checkpoint.bytes(), 0u);
  EXPECT_EQ(Must(session.Keep(begin)), 32u);
  EXPECT_EQ(session.Keep(rest).error().code(), 5351u);
  ASSERT_TRUE(session.Append(rest));
  const std::vector<unsigned char> saved = Must(session.Save());
  ASSERT_TRUE(session.RewindTo(checkpoint));
  EXPECT_TRUE(checkpoint.holds());
  ASSERT_TRUE(session.Append(rest));
  EXPECT_EQ(Must(session.Save()), saved);

  api::Session other = Must(api::Session::Create(keeping, 64));
  EXPECT_EQ(other.RewindTo(checkpoint).error().code(), 5350u);
  const qrt_prefix found = Must(other.Begin(tokens));
  EXPECT_EQ(found.reused, 32u);
  EXPECT_EQ(found.shared, 32u);
  ASSERT_TRUE(other.Append(rest));
  EXPECT_EQ(Must(other.Save()), saved);
  EXPECT_EQ(qrt_session_begin(other.get(), tokens.data(), 32, nullptr, nullptr), QRT_OK);
  EXPECT_EQ(other.position(), 0u) << "one token must be left to append";
  EXPECT_EQ(Must(keeping.PinPrefix(tokens)), 32u);
  EXPECT_TRUE(keeping.UnpinPrefix(begin));
  EXPECT_EQ(keeping.UnpinPrefix(begin).error().code(), 5352u);
  const qrt_engine_info info = Must(keeping.Describe());
  EXPECT_EQ(info.prefixes, 1u);
  EXPECT_EQ(info.prefix_hits, 1u);
  EXPECT_EQ(info.prefix_tokens, 32u);
  EXPECT_GT(info.prefix_bytes, 0u);

  ASSERT_TRUE(session.Reset());
  EXPECT_FALSE(checkpoint.holds());
  EXPECT_EQ(session.RewindTo(checkpoint).error().code(), 5350u);
  session = api::Session();  // the checkpoint keeps it alive
  EXPECT_EQ(checkpoint.position(), 32u);

  api::Session without = Must(api::Session::Create(engine, 64));
  for (const api::Error& error : {without.Begin(tokens).error(), without.Keep({}).error(),
                                  engine.PinPrefix(tokens).error(), engine.UnpinPrefix(tokens).error()}) {
    EXPECT_EQ(error.status(), QRT_UNAVAILABLE);
    EXPECT_EQ(error.code(), 5353u);
  }
  qrt_checkpoint_release(nullptr);
  EXPECT_EQ(qrt_checkpoint_position(nullptr) + qrt_checkpoint_bytes(nullptr), 0u);
  EXPECT_EQ(qrt_checkpoint_holds(nullptr), 0);
}

TEST_F(QrtHpp, GeneratorsAnswerAndGoOn) {
  api::Session session = Must(api::Session::Create(engine, 256));
  api::Generator generator = Must(api::Generator::Create(session, text));
  api::Sampler sampler = Greedy();
  std::string told;
  const auto receive = [&](std::string_view piece) {
    told += piece;
    return true;
  };
  std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
  const qrt_answer first = Must(generator.Chat(messages, api::Generator::Telling(receive, sampler, 12)));
  EXPECT_EQ(first.text, told) << "the toy ends this text inside a character";
  EXPECT_EQ(first.tokens, 12u);
  const std::string said = first.text;
  messages.push_back({"assistant", said.c_str(), nullptr});
  messages.push_back({"user", "more", nullptr});
  uint64_t keep = 0;
  const std::vector<int32_t> prompt = Must(generator.EncodeChat(messages, nullptr, &keep));
  EXPECT_GT(keep, 0u);
  EXPECT_EQ(generator.Reusable(prompt), first.reused_tokens + first.prompt_tokens + 12);
  EXPECT_EQ(Must(generator.Feed(api::Span<const int32_t>(prompt.data(), keep), keep)).tokens, 0u);
  EXPECT_EQ(session.position(), keep);
  const qrt_answer second = Must(generator.Generate(prompt, api::Generator::Choosing(sampler, 5), keep));
  EXPECT_EQ(second.reused_tokens, keep);
  int32_t next = -1;
  const std::vector<int32_t> tokens = Must(generator.AllTokens(&next));
  EXPECT_EQ(tokens.size(), prompt.size() + 5);

  api::Session other = Must(api::Session::Create(engine, 256));
  api::Generator resumed = Must(api::Generator::Create(other, text));
  ASSERT_TRUE(other.Restore(Must(session.Save())));
  ASSERT_TRUE(resumed.Resume(tokens, next));
  api::Sampler another = Greedy();
  const std::string rest = Must(generator.More(api::Generator::Choosing(sampler, 8))).text;
  EXPECT_EQ(Must(resumed.More(api::Generator::Choosing(another, 8))).text, rest);
  EXPECT_EQ(resumed.Resume({{1, 2}}).error().code(), 5354u);
}

TEST_F(QrtHpp, ErrorsAreValuesAndExceptionsWhereAskedFor) {
  const api::Result<api::Artifact> missing = api::Artifact::Open(std::string("/no/such/file.qbin"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.status(), QRT_NOT_FOUND);
  EXPECT_EQ(missing.error().code(), 4001u);
  EXPECT_STREQ(missing.error().note(), "/no/such/file.qbin");
  EXPECT_EQ(artifact.Code(99)
                .and_then([](qrt_code_info info) { return api::Result<qrt_code_info>(info); })
                .status(),
            QRT_INVALID_ARGUMENT);
  EXPECT_EQ(api::Result<int>(api::Error::OutOfMemory()).value_or(3), 3);
  try {
    api::Artifact::Open("/no/such/file.qbin").value();
    FAIL() << "value() of an error came back";
  } catch (const api::Exception& exception) {
    EXPECT_EQ(exception.error().status(), QRT_NOT_FOUND);
    EXPECT_STREQ(exception.what(), exception.error().message());
  }
}

TEST_F(QrtHpp, HandlesMoveAndOutliveTheirMakers) {
  api::Session session = Must(api::Session::Create(engine));
  artifact = api::Artifact();
  engine = api::Engine();
  api::Session moved = std::move(session);
  EXPECT_FALSE(session);
  EXPECT_TRUE(moved.Append({{1, 2, 3}}));
  qrt_session* raw = moved.release();
  EXPECT_EQ(api::Session(raw).position(), 3u);
}

}  // namespace
