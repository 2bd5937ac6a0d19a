// What a generator knows of its session, and what calls leave that were refused, failed or cancelled. About
// 1 s.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/runtime/engine_memory_hooks.h"
#include "tests/unit/runtime/qrt_generate_fixture.h"

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test

class QrtGeneratorState : public QrtGenerate {
 protected:
  // Stops when it was asked so often.
  struct Patience {
    int asked = 0, most = 0;
  };
  qrt_answer_options Stopping(Patience* patience, uint64_t most = kMost) {
    qrt_answer_options options = Options(most);
    options.ctx = patience;
    options.on_text = [](void*, const char*, size_t) -> int32_t { return 0; };
    options.stop = [](void* ctx) -> int32_t {
      Patience& self = *static_cast<Patience*>(ctx);
      return self.asked++ >= self.most;
    };
    return options;
  }
  static Ids Encode(qrt_generator* generator, const std::vector<qrt_chat_message>& messages,
                    const qrt_chat_options* chat = nullptr) {
    size_t count = 0;
    qrt_error error = Sized<qrt_error>();
    qrt_generator_encode_chat(generator, messages.data(), messages.size(), chat, nullptr, 0, &count, nullptr,
                              &error);
    Ids tokens(count);
    EXPECT_EQ(qrt_generator_encode_chat(generator, messages.data(), messages.size(), chat, tokens.data(),
                                        count, &count, nullptr, &error),
              QRT_OK)
        << Say(error);
    return tokens;
  }
  static void Feed(qrt_generator* generator, const Ids& tokens) {
    EXPECT_EQ(qrt_generator_feed(generator, tokens.data(), tokens.size(), 0, nullptr, nullptr, nullptr),
              QRT_OK);
  }
  // As one that was restored, without messages.
  static void Resume(qrt_generator* generator, const Ids& tokens, int32_t next = -1) {
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(
        qrt_generator_resume(generator, tokens.data(), tokens.size(), next, nullptr, 0, nullptr, &error),
        QRT_OK)
        << Say(error);
  }
  static bool BeginsWith(const Ids& tokens, const Ids& begin) {
    return begin.size() <= tokens.size() && std::equal(begin.begin(), begin.end(), tokens.begin());
  }
  // That the generator's tokens are `prompt` and what follows it by hand.
  void ExpectAnswered(const qrt_generator* generator, const Ids& prompt, const char* what) {
    Ids expected = prompt;
    const Ids answer = ByHand(prompt);
    expected.insert(expected.end(), answer.begin(), answer.end());
    EXPECT_EQ(AllTokens(generator), expected) << what;
  }
};

TEST_F(QrtGeneratorState, ASessionThatWasMovedToTheSameLengthIsFedAnew) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  const Ids prompt = Prompt();
  ASSERT_EQ(Generate(generator.get(), prompt, Options(4)).status, QRT_OK);
  const Ids other(qrt_session_position(session.get()), 9);
  ASSERT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
  ASSERT_EQ(qrt_session_append(session.get(), other.data(), other.size(), nullptr, nullptr), QRT_OK);
  const Said said = Generate(generator.get(), prompt, Options());
  EXPECT_EQ(said.answer.reused_tokens, 0u) << "another sequence of the same length was taken for its own";
  ExpectAnswered(generator.get(), prompt, "after a reset and other tokens");
}

TEST_F(QrtGeneratorState, TwoGeneratorsOfOneSessionDoNotMixTheirTexts) {
  const Session session = MakeSession(engine_.get());
  const Generator one = Over(session.get()), two = Over(session.get());
  const Ids prompt = Prompt();
  Ids other = prompt;
  other[0] ^= 1;
  ASSERT_EQ(Generate(one.get(), prompt, Options(5)).status, QRT_OK);
  ASSERT_EQ(Generate(two.get(), other, Options(5)).status, QRT_OK);
  ASSERT_EQ(More(one.get(), Options(kMost - 5)).status, QRT_OK);
  ExpectAnswered(one.get(), prompt, "the first went on from what the second left");
}

// It was drawn with the last answer's options: others, and what moved the session meanwhile, do not change
// it.
TEST_F(QrtGeneratorState, WhatWasChosenToFollowStaysChosen) {
  const Ids prompt = Prompt();
  enum Move { kNone, kOther, kReset, kResetAndStop };
  for (const Move move : {kNone, kOther, kReset, kResetAndStop}) {
    SCOPED_TRACE(move);
    for (uint64_t seed = 10; seed < 16; ++seed) {
      const Session session = MakeSession(engine_.get());
      const Generator generator = Over(session.get()), other_text = Over(session.get());
      ASSERT_EQ(Generate(generator.get(), prompt, Options(6)).status, QRT_OK);
      int32_t next = -1;
      const Ids before = AllTokens(generator.get(), &next);
      ASSERT_GE(next, 0);
      if (move == kOther) {
        ASSERT_EQ(Generate(other_text.get(), Tokens(30), Options(3)).status, QRT_OK);
      } else if (move != kNone) {
        ASSERT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
      }
      const Sampler other = MakeSampler(seed);
      qrt_answer_options options = Options(4);
      options.sampler = other.get();
      if (move == kResetAndStop) {  // while it is fed again
        Patience patience = {0, 0};
        qrt_answer_options stopping = Stopping(&patience);
        stopping.sampler = other.get();
        const Said said = More(generator.get(), stopping);
        EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED);
        int32_t follows = -2;
        AllTokens(generator.get(), &follows);
        EXPECT_EQ(follows, -1) << "it does not follow what the session holds so far";
      }
      const Said more = More(generator.get(), options);
      ASSERT_EQ(more.status, QRT_OK) << Say(more.error);
      const Ids after = AllTokens(generator.get());
      ASSERT_GT(after.size(), before.size());
      EXPECT_EQ(Ids(after.begin(), after.begin() + static_cast<ptrdiff_t>(before.size())), before);
      EXPECT_EQ(after[before.size()], next) << "chosen anew, seed " << seed;
    }
  }
}

TEST_F(QrtGeneratorState, ARefusedPromptLeavesTheSequence) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  const Ids prompt = Prompt();
  ASSERT_EQ(Generate(generator.get(), prompt, Options(5)).status, QRT_OK);
  const Ids before = AllTokens(generator.get());
  const uint64_t position = qrt_session_position(session.get());
  Ids wrong = Tokens(50);
  wrong.push_back(1000);
  const Said said = Generate(generator.get(), wrong, Options(), 20);
  EXPECT_EQ(said.error.code, 5304u) << Say(said.error);
  EXPECT_EQ(said.answer.prompt_tokens + said.answer.reused_tokens, 0u);
  EXPECT_EQ(qrt_session_position(session.get()), position);
  EXPECT_EQ(AllTokens(generator.get()), before);
}

TEST_F(QrtGeneratorState, AnAnswerThatWasStoppedInItsPromptGoesOnThere) {
  const Ids prompt = Tokens(100);
  for (const int most : {0, 1, 2}) {
    const Session session = MakeSession(engine_.get());
    const Generator generator = Over(session.get());
    Patience patience = {0, most};
    const Said said = Generate(generator.get(), prompt, Stopping(&patience), 40);
    EXPECT_EQ(said.status, QRT_OK) << Say(said.error);
    EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED);
    EXPECT_LT(qrt_session_position(session.get()), prompt.size()) << "asked " << patience.asked << " times";
    const Said more = More(generator.get(), Options());
    EXPECT_EQ(more.status, QRT_OK) << Say(more.error);
    ExpectAnswered(generator.get(), prompt, "the rest of the prompt was forgotten");
  }
}

TEST_F(QrtGeneratorState, StopIsAskedBeforeEachStepOfAPrompt) {
  const Session session = MakeSession(engine_.get(), 512);
  const Generator generator = Over(session.get());
  qrt_engine_info info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine_.get(), &info, nullptr), QRT_OK);
  Patience patience = {0, 1000};
  const Ids prompt = Tokens(400);
  ASSERT_EQ(Generate(generator.get(), prompt, Stopping(&patience, 0)).status, QRT_OK);
  EXPECT_GE(patience.asked, static_cast<int>(prompt.size() / info.max_step_rows));
}

TEST_F(QrtGeneratorState, ACancelAheadOfAnAnswerCounts) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  const Ids prompt = Prompt();
  for (const char* what : {"of an empty session", "of another prompt"}) {
    qrt_session_cancel(session.get());
    const Said said = Generate(generator.get(), what[3] == 'a' ? Tokens(30) : prompt, Options());
    EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED) << what;
    EXPECT_EQ(said.answer.tokens, 0u) << what;
    ASSERT_EQ(Generate(generator.get(), prompt, Options(3)).answer.tokens, 3u) << "it was asked for once";
  }
  qrt_session_cancel(session.get());
  ASSERT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
  EXPECT_EQ(Generate(generator.get(), prompt, Options(3)).answer.tokens, 3u) << "a reset clears it";
}

TEST_F(QrtGeneratorState, ThereIsACheckpointWhereTheSessionAlreadyStands) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  const Ids system = Tokens(48);
  const Said fed = Ask(Options(), [&](const qrt_answer_options* o, qrt_answer* answer, qrt_error* error) {
    return qrt_generator_feed(generator.get(), system.data(), system.size(), 0, o, answer, error);
  });
  ASSERT_EQ(fed.status, QRT_OK) << Say(fed.error);
  for (const int32_t token : {1000 % 256, 7, 9}) {
    Ids prompt = system;
    prompt.insert(prompt.end(), {token, token, token});
    const Said said = Generate(generator.get(), prompt, Options(3), system.size());
    EXPECT_EQ(said.answer.reused_tokens, system.size()) << Say(said.error);
  }
}

TEST_F(QrtGeneratorState, AConversationOutlivesACallThatFails) {
  uint64_t fed[2] = {};
  for (const bool fails : {false, true}) {
    const Session session = MakeSession(engine_.get(), 256);
    const Generator generator = Over(session.get());
    std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
    const Said first = Chat(generator.get(), messages, Options(12));
    ASSERT_EQ(first.status, QRT_OK) << Say(first.error);
    const std::string answer = WithoutReplacements(first.text), much(1000, 'x');
    messages.push_back({"assistant", answer.c_str(), nullptr});
    messages.push_back({"user", much.c_str(), nullptr});
    if (fails) {
      EXPECT_EQ(Chat(generator.get(), messages, Options(12)).status, QRT_CONTEXT_FULL);
    }
    messages.back().content = "and then";
    const Said next = Chat(generator.get(), messages, Options(12));
    ASSERT_EQ(next.status, QRT_OK) << Say(next.error);
    fed[fails] = next.answer.prompt_tokens;
  }
  EXPECT_EQ(fed[1], fed[0]) << "what was said before the call that failed is fed again";
}

// As long as nothing ended it, and also where no more of it can be had.
TEST_F(QrtGeneratorState, AnAnswerInPiecesStaysAsItWasSampled) {
  std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
  int compared = 0, cut = 0;
  for (uint64_t piece = 3; piece < 9; ++piece) {
    const Session any = MakeSession(engine_.get(), 256);
    const size_t prompt = Encode(Over(any.get()).get(), messages).size();
    for (const uint64_t context : {prompt + 2 * piece - 1, uint64_t{256}}) {
      const Session session = MakeSession(engine_.get(), context);
      const Generator generator = Over(session.get());
      const Said first = Chat(generator.get(), messages, Options(piece));
      const Said more = More(generator.get(), Options(piece));
      ASSERT_EQ(first.status, QRT_OK) << Say(first.error);
      ASSERT_EQ(more.status, QRT_OK) << Say(more.error);
      const bool ended = first.answer.finish == QRT_FINISH_END || more.answer.finish == QRT_FINISH_END;
      // Of a character that is cut in two at the end, the text is none.
      if (ended || more.answer.cut_bytes != 0) continue;
      if (context < 256) {
        EXPECT_EQ(More(generator.get(), Options(piece)).status, QRT_CONTEXT_FULL);
      }
      const std::string answer = first.text.substr(0, first.text.size() - first.answer.cut_bytes) + more.text;
      cut += first.answer.cut_bytes != 0;
      std::vector<qrt_chat_message> next = messages;
      next.push_back({"assistant", answer.c_str(), nullptr});
      next.push_back({"user", "and then", nullptr});
      EXPECT_TRUE(BeginsWith(Encode(generator.get(), next), AllTokens(generator.get())))
          << "pieces of " << piece << " in a context of " << context;
      ++compared;
    }
  }
  EXPECT_GE(compared, 4);
  EXPECT_GE(cut, 1) << "no piece ended within a character";
}

// A prompt that cannot be made is no reason to forget the one before.
TEST_F(QrtGeneratorState, APromptOutlivesOneThatCannotBeMade) {
  const std::string source =
      "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('no') }}{% endif %}"
      "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  WriteParts(toy::ToyParts(source), File("refusing.qbin"));
  const Artifact artifact = Open(File("refusing.qbin"));
  const Engine engine = MakeEngine(artifact.get());
  qrt_text* text = nullptr;
  ASSERT_EQ(qrt_text_create(artifact.get(), &text, nullptr), QRT_OK);
  text_.reset(text);
  const Session session = MakeSession(engine.get(), 256);
  const Generator generator = Over(session.get());
  std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
  const qrt_chat_message refused = {"user", "no", nullptr};
  const Ids prompt = Encode(generator.get(), messages);
  size_t count = 0;
  uint64_t keep = 77;
  EXPECT_EQ(
      qrt_generator_encode_chat(generator.get(), &refused, 1, nullptr, nullptr, 0, &count, &keep, nullptr),
      QRT_TEMPLATE_ERROR);
  const Said said = Generate(generator.get(), prompt, Options(6));
  ASSERT_EQ(said.status, QRT_OK) << Say(said.error);
  const std::string answer = WithoutReplacements(said.text);
  const Ids all = AllTokens(generator.get());
  messages.push_back({"assistant", answer.c_str(), nullptr});
  messages.push_back({"user", "and then", nullptr});
  EXPECT_TRUE(BeginsWith(Encode(generator.get(), messages), all));
  EXPECT_EQ(qrt_generator_encode_chat(generator.get(), messages.data(), 3, nullptr, nullptr, 0, &count, &keep,
                                      nullptr),
            QRT_BUFFER_TOO_SMALL);
  int32_t next = 77;
  EXPECT_EQ(qrt_generator_tokens(generator.get(), nullptr, 0, &count, &next, nullptr), QRT_BUFFER_TOO_SMALL);
  EXPECT_EQ(keep, 77u) << "written, though the call failed";
  EXPECT_EQ(next, 77) << "written, though the call failed";
}

// As a cache of prompts does it: between the prompt and its answer.
TEST_F(QrtGeneratorState, AResumedBeginOfAPromptIsNoOtherConversation) {
  qrt_chat_options chat = Sized<qrt_chat_options>();
  chat.enable_thinking = 1;  // the past is shown without the opening that is kept
  enum { kNothing, kBegin, kAnswered };
  for (const int resumed : {kNothing, kBegin, kAnswered}) {
    SCOPED_TRACE(resumed);
    const Session session = MakeSession(engine_.get(), 256);
    const Generator generator = Over(session.get());
    std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
    const Ids prompt = Encode(generator.get(), messages, &chat), begin(prompt.begin(), prompt.end() - 3);
    if (resumed == kBegin) {
      Feed(generator.get(), begin);
      std::vector<char> saved(qrt_session_save_size(session.get()));
      ASSERT_EQ(qrt_session_save(session.get(), saved.data(), saved.size(), nullptr, nullptr), QRT_OK);
      ASSERT_EQ(qrt_session_restore(session.get(), saved.data(), saved.size(), nullptr), QRT_OK);
      Resume(generator.get(), begin);
    }
    const Said said = Generate(generator.get(), prompt, Options(12));
    ASSERT_EQ(said.status, QRT_OK) << Say(said.error);
    Ids all = AllTokens(generator.get());
    if (resumed == kAnswered) Resume(generator.get(), all);
    if (all.back() == kEndOfTurn) all.pop_back();
    ASSERT_GT(all.size(), prompt.size());
    messages.push_back({"assistant", said.text.c_str(), nullptr});
    messages.push_back({"user", "and then", nullptr});
    EXPECT_EQ(BeginsWith(Encode(generator.get(), messages, &chat), all), resumed != kAnswered);
  }
}

TEST_F(QrtGeneratorState, AnEndThatWasIgnoredDoesNotEndItsTurnTwice) {
  const Session session = MakeSession(engine_.get(), 256);
  const Generator generator = Over(session.get());
  std::string question = "tell me";
  std::vector<qrt_chat_message> messages = {{"user", question.c_str(), nullptr}};
  Ids prompt, answer;
  do {
    question += 'a';
    messages[0].content = question.c_str();
    prompt = Encode(generator.get(), messages);
    answer = ByHand(prompt);
  } while (answer.back() != kEndOfTurn && question.size() < 60);
  ASSERT_EQ(answer.back(), kEndOfTurn);
  qrt_answer_options options = Options(answer.size());
  options.ignore_end = 1;
  const Said said = Chat(generator.get(), messages, options);
  ASSERT_EQ(said.answer.finish, QRT_FINISH_LENGTH) << Say(said.error);
  ASSERT_EQ(AllTokens(generator.get()).back(), kEndOfTurn);
  messages.push_back({"assistant", said.text.c_str(), nullptr});
  messages.push_back({"user", "and then", nullptr});
  const Ids next = Encode(generator.get(), messages);
  EXPECT_TRUE(BeginsWith(next, AllTokens(generator.get()))) << "the answer's tokens are others";
  EXPECT_EQ(std::adjacent_find(next.begin(), next.end(),
                               [](int32_t a, int32_t b) { return a == kEndOfTurn && b == kEndOfTurn; }),
            next.end());
}

TEST_F(QrtGeneratorState, ACharacterThatWasCutGoesOnBehindAControlToken) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  Ids tokens = Tokens(20);
  tokens.insert(tokens.end(), {0xC3, kEndOfTurn});
  Feed(generator.get(), tokens);
  Resume(generator.get(), tokens, 0xA9);
  const Said more = More(generator.get(), Options(4));
  EXPECT_EQ(more.text.substr(0, 2), "\xC3\xA9") << "answers pass over control tokens";
  const Said other = Generate(generator.get(), tokens, Options(4));
  ASSERT_EQ(other.status, QRT_OK) << Say(other.error);
  EXPECT_NE(other.text[0], '\xC3') << "the turn before this one was cut, not the answer";
}

// Whichever allocation fails, what was said before is not forgotten.
TEST_F(QrtGeneratorState, AChatThatRanOutOfMemoryIsAskedAgain) {
  const std::vector<qrt_chat_message> messages = {{"system", "be brief", nullptr},
                                                  {"user", "tell me", nullptr}};
  const Session fresh_session = MakeSession(engine_.get());
  const Generator fresh = Over(fresh_session.get());
  const Ids prompt = Encode(fresh.get(), messages);
  bool failed = true;
  for (long n = 0; failed; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    ASSERT_LT(n, 10000);
    const Session session = MakeSession(engine_.get());
    const Generator generator = Over(session.get());
    const qrt_answer_options options = Options(4);
    qrt_error error = Sized<qrt_error>();
    const auto ask = [&] {
      return qrt_generate_chat(generator.get(), messages.data(), messages.size(), nullptr, &options, nullptr,
                               &error);
    };
    fail_at.store(allocations.load() + n);
    const qrt_status first = ask();
    failed = allocations.load() > fail_at.load();
    fail_at.store(-1);
    ASSERT_TRUE(first == QRT_OK || (failed && first == QRT_OUT_OF_MEMORY)) << Say(error);
    ASSERT_EQ(ask(), QRT_OK) << Say(error);
    ASSERT_TRUE(BeginsWith(AllTokens(generator.get()), prompt)) << "another prompt was answered";
  }
}

TEST_F(QrtGeneratorState, AFailedResumeChangesNothing) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
  const Said first = Chat(generator.get(), messages, Options(12));
  ASSERT_EQ(first.status, QRT_OK) << Say(first.error);
  int32_t next = -1;
  const Ids tokens = AllTokens(generator.get(), &next);
  const uint64_t held = qrt_session_position(session.get());
  const auto resume = [&](Ids said, int32_t following, const qrt_chat_options* chat) {
    qrt_error error = Sized<qrt_error>();
    const std::vector<qrt_chat_message> past = {messages[0], {"assistant", "said", nullptr}};
    EXPECT_NE(qrt_generator_resume(generator.get(), said.data(), said.size(), following, past.data(), 2, chat,
                                   &error),
              QRT_OK);
    int32_t now = -2;
    EXPECT_EQ(AllTokens(generator.get(), &now), tokens) << Say(error);
    EXPECT_EQ(now, next) << Say(error);
    return error.code;
  };
  Ids other = tokens;
  other.resize(held, 5);
  other[0] ^= 1;
  const char* fields[] = {nullptr, "no JSON"};
  qrt_chat_options unread = Sized<qrt_chat_options>();
  unread.enable_thinking = -1;
  unread.fields = fields;
  EXPECT_NE(resume(other, 7, &unread), 0u) << "its messages were not understood";
  other.push_back(3);
  EXPECT_EQ(resume(other, 7, nullptr), 5354u) << "nothing is chosen behind a token that was not taken";
}

TEST_F(QrtGeneratorState, AnswersAreFilledAlsoWhereACallFails) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  ASSERT_EQ(Generate(generator.get(), Tokens(8), Options(5)).status, QRT_OK);
  qrt_answer answer = Sized<qrt_answer>();
  answer.tokens = answer.prompt_tokens = 99;
  qrt_answer_options options = Options();
  options.sampler = nullptr;
  const Ids prompt = Tokens(20);
  EXPECT_EQ(qrt_generate(generator.get(), prompt.data(), prompt.size(), 0, &options, &answer, nullptr),
            QRT_INVALID_ARGUMENT);
  EXPECT_EQ(answer.tokens + answer.prompt_tokens, 0u) << "what was there before is no answer";
  ASSERT_NE(answer.text, nullptr);
  EXPECT_STREQ(answer.text, "");
  // Behind token 1 every logit is NaN.
  Ids faulty(30, 3);
  faulty.push_back(1);
  const Said said = Generate(generator.get(), faulty, Options());
  EXPECT_EQ(said.status, QRT_NUMERIC_FAULT) << Say(said.error);
  EXPECT_EQ(said.answer.prompt_tokens + said.answer.reused_tokens, faulty.size());
}

}  // namespace
