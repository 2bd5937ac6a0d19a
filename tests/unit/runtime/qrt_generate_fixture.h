// Generators over the toy, and what their answers must be: the usual loop by hand.
#ifndef TESTS_UNIT_RUNTIME_QRT_GENERATE_FIXTURE_H_
#define TESTS_UNIT_RUNTIME_QRT_GENERATE_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/runtime/qrt_api_fixture.h"

namespace qrt_api {

using Generator = std::unique_ptr<qrt_generator, Releaser<qrt_generator_release>>;
using Ids = std::vector<int32_t>;

constexpr int32_t kEndOfTurn = 264;
constexpr uint64_t kMost = 60;  // tokens of an answer here

struct Said {
  qrt_status status = QRT_OK;
  qrt_answer answer = {};
  qrt_error error = {};
  std::string text, told;  // the whole, and as it came
};

class QrtGenerate : public QrtApi {
 protected:
  void SetUp() override {
    artifact_ = Open(path());
    engine_ = MakeEngine(artifact_.get());
    qrt_text* text = nullptr;
    ASSERT_EQ(qrt_text_create(artifact_.get(), &text, nullptr), QRT_OK);
    text_.reset(text);
    sampler_ = MakeSampler();
  }

  Sampler MakeSampler(uint64_t seed = 5) {
    qrt_sampler_options options = Sized<qrt_sampler_options>();
    EXPECT_EQ(qrt_sampler_defaults(artifact_.get(), &options, nullptr), QRT_OK);
    options.temperature = 0.5;
    options.seed = seed;
    options.presence_penalty = 0.5;
    qrt_sampler* sampler = nullptr;
    EXPECT_EQ(qrt_sampler_create(artifact_.get(), &options, &sampler, nullptr), QRT_OK);
    return Sampler(sampler);
  }
  Session SteppingBack(uint32_t max_rewind) {
    qrt_session_options options = Sized<qrt_session_options>();
    options.context_tokens = 512;
    options.max_rewind = max_rewind;
    qrt_session* session = nullptr;
    EXPECT_EQ(qrt_session_create(engine_.get(), &options, &session, nullptr), QRT_OK);
    return Session(session);
  }
  Generator Over(qrt_session* session) {
    qrt_generator* generator = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_generator_create(session, text_.get(), &generator, &error), QRT_OK) << Say(error);
    return Generator(generator);
  }

  qrt_answer_options Options(uint64_t most = kMost) {
    qrt_answer_options options = Sized<qrt_answer_options>();
    options.sampler = sampler_.get();
    options.max_tokens = most;
    return options;
  }
  // `call(options, answer, error)`, with what it tells collected, unless the options have a listener.
  template <typename Call>
  static Said Ask(qrt_answer_options options, Call call) {
    Said said;
    said.answer = Sized<qrt_answer>();
    said.error = Sized<qrt_error>();
    if (options.on_text == nullptr) {
      options.ctx = &said.told;
      options.on_text = [](void* ctx, const char* utf8, size_t length) -> int32_t {
        EXPECT_EQ(qrt_utf8_whole_prefix(utf8, length), length) << "a part of a character was told";
        static_cast<std::string*>(ctx)->append(utf8, length);
        return 0;
      };
    }
    said.status = call(&options, &said.answer, &said.error);
    if (said.answer.text != nullptr) said.text.assign(said.answer.text, said.answer.text_length);
    return said;
  }
  static Said Generate(qrt_generator* generator, const Ids& prompt, const qrt_answer_options& options,
                       uint64_t keep = 0) {
    return Ask(options, [&](const qrt_answer_options* o, qrt_answer* answer, qrt_error* error) {
      return qrt_generate(generator, prompt.data(), prompt.size(), keep, o, answer, error);
    });
  }
  static Said Chat(qrt_generator* generator, const std::vector<qrt_chat_message>& messages,
                   const qrt_answer_options& options) {
    return Ask(options, [&](const qrt_answer_options* o, qrt_answer* answer, qrt_error* error) {
      return qrt_generate_chat(generator, messages.data(), messages.size(), nullptr, o, answer, error);
    });
  }
  static Said More(qrt_generator* generator, const qrt_answer_options& options) {
    return Ask(options, [&](const qrt_answer_options* o, qrt_answer* answer, qrt_error* error) {
      return qrt_generate_more(generator, o, answer, error);
    });
  }
  static Ids AllTokens(const qrt_generator* generator, int32_t* next = nullptr) {
    size_t count = 0;
    qrt_generator_tokens(generator, nullptr, 0, &count, next, nullptr);
    Ids tokens(count);
    EXPECT_EQ(qrt_generator_tokens(generator, tokens.data(), count, &count, next, nullptr), QRT_OK);
    return tokens;
  }

  // By hand, token by token: those that follow `prompt` up to the end of a turn, at most `most`.
  Ids ByHand(const Ids& prompt, uint64_t most = kMost) {
    const Session session = MakeSession(engine_.get());
    const Sampler sampler = MakeSampler();
    for (const int32_t token : prompt) qrt_sampler_accept(sampler.get(), token);
    Ids answer, fed = prompt;
    qrt_append_options options = Sized<qrt_append_options>();
    options.sampler = sampler.get();
    int32_t next = 0;
    options.next = &next;
    while (answer.size() < most && (answer.empty() || next != kEndOfTurn)) {
      EXPECT_EQ(qrt_session_append(session.get(), fed.data(), fed.size(), &options, nullptr), QRT_OK);
      qrt_sampler_accept(sampler.get(), next);
      answer.push_back(next);
      fed = {next};
    }
    return answer;
  }
  // A prompt that is answered at length.
  Ids Prompt() {
    Ids prompt = Tokens(20);
    while (ByHand(prompt).size() < 30) prompt.push_back(static_cast<int32_t>('a' + prompt.size() % 26));
    return prompt;
  }
  // What of it is text: bytes, with a cut at the end.
  std::string TextOf(const Ids& tokens) {
    std::string text;
    for (const int32_t token : tokens) {
      size_t length = 0;
      const char* bytes = qrt_text_token_bytes(text_.get(), token, &length);
      if (qrt_text_is_special(text_.get(), token) == 0) text.append(bytes, length);
    }
    return text;
  }

  Artifact artifact_;
  Engine engine_;
  Text text_;
  Sampler sampler_;
};

inline std::string WithoutReplacements(std::string text) {
  for (size_t at = 0; (at = text.find("\xEF\xBF\xBD", at)) != std::string::npos;) text.erase(at, 3);
  return text;
}

}  // namespace qrt_api

#endif  // TESTS_UNIT_RUNTIME_QRT_GENERATE_FIXTURE_H_
