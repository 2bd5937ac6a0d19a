// Answers by the C API: the text is that of the usual loop, only what is new is fed, and answers end where
// they should. About 1 s.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/runtime/qrt_generate_fixture.h"

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test

TEST_F(QrtGenerate, TheTextIsThatOfTheUsualLoop) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  for (const size_t length : {3u, 40u, 41u, 17u}) {
    const Ids prompt = Tokens(length);
    const Said said = Generate(generator.get(), prompt, Options());
    ASSERT_EQ(said.status, QRT_OK) << Say(said.error);
    const Ids expected = ByHand(prompt);
    Ids all = AllTokens(generator.get());
    ASSERT_GE(all.size(), prompt.size());
    EXPECT_EQ(Ids(all.begin() + static_cast<ptrdiff_t>(length), all.end()), expected)
        << "prompt of " << length << " tokens";
    EXPECT_EQ(said.answer.tokens, expected.size());
    EXPECT_EQ(said.answer.finish, expected.size() < kMost ? QRT_FINISH_END : QRT_FINISH_LENGTH);
    EXPECT_EQ(said.answer.prompt_tokens + said.answer.reused_tokens, length);
    const size_t cut = said.answer.cut_bytes;
    EXPECT_EQ(said.told, said.text.substr(0, said.text.size() - cut) + (cut != 0 ? "\xEF\xBF\xBD" : ""));
    EXPECT_EQ(said.answer.decoded_tokens, said.answer.steps) << "a session without a draft";
    EXPECT_EQ(said.answer.guessed_tokens + said.answer.accepted_tokens, 0u);
  }
}

TEST_F(QrtGenerate, OnlyWhatIsNewOfAConversationIsFed) {
  for (const uint32_t max_rewind : {0u, 16u}) {
    const Session session = SteppingBack(max_rewind);
    const Generator generator = Over(session.get());
    std::vector<std::string> said;
    std::vector<qrt_chat_message> messages = {{"system", "S", nullptr}, {"user", "tell me", nullptr}};
    uint64_t before = 0;
    for (int turn = 0; turn < 4; ++turn) {
      SCOPED_TRACE(turn);
      const Said answer = Chat(generator.get(), messages, Options(20));
      ASSERT_EQ(answer.status, QRT_OK) << Say(answer.error);
      // A new session that is fed the same tokens says the same.
      Ids prompt = AllTokens(generator.get());
      prompt.resize(prompt.size() - answer.answer.tokens);
      const Ids all = AllTokens(generator.get());
      EXPECT_EQ(Ids(all.begin() + static_cast<ptrdiff_t>(prompt.size()), all.end()), ByHand(prompt, 20));
      EXPECT_EQ(answer.answer.prompt_tokens + answer.answer.reused_tokens, prompt.size());
      if (turn != 0) {
        EXPECT_GE(answer.answer.reused_tokens, before) << "what was fed for the last answer is fed again";
      }
      before = prompt.size() - 20;
      said.push_back(WithoutReplacements(answer.text));
      std::vector<qrt_chat_message> more = {{"assistant", nullptr, nullptr}, {"user", "and then", nullptr}};
      messages.insert(messages.end(), more.begin(), more.end());
      for (size_t i = 0; i < said.size(); ++i) messages[2 + 2 * i].content = said[i].c_str();
    }
    // Another answer to the same messages: as they were rendered.
    messages.resize(2);
    const Said again = Chat(generator.get(), messages, Options(20));
    EXPECT_EQ(again.status, QRT_OK) << Say(again.error);
    EXPECT_EQ(WithoutReplacements(again.text), said[0]);
  }
}

TEST_F(QrtGenerate, AnswersEndWhereTheyShould) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  const Ids prompt = Prompt(), expected = ByHand(prompt);
  const std::string text = TextOf(expected);
  ASSERT_GT(text.size(), 12u) << "the toy says too little for this test";
  size_t at = 4;  // of a stop text of plain characters
  while (at + 3 < text.size() &&
         std::any_of(&text[at], &text[at] + 3, [](char c) { return (c & 0x80) != 0; }))
    ++at;
  const std::string stop = text.substr(at, 3);
  const char* stops[] = {"", "nowhere in it", stop.c_str()};
  qrt_answer_options options = Options();
  options.stop_texts = stops;
  options.stop_text_count = 3;
  Said said = Generate(generator.get(), prompt, options);
  EXPECT_EQ(said.answer.finish, QRT_FINISH_STOP_TEXT) << Say(said.error);
  EXPECT_EQ(said.text, WithoutReplacements(text.substr(0, text.find(stop))));
  EXPECT_EQ(said.told, said.text) << "what belongs to a stop text was told";

  options = Options();
  options.stop_tokens = &expected[3];
  options.stop_token_count = 1;
  said = Generate(generator.get(), prompt, options);
  const auto first = std::find(expected.begin(), expected.end(), expected[3]);
  EXPECT_EQ(said.answer.finish, QRT_FINISH_END) << Say(said.error);
  EXPECT_EQ(said.answer.tokens, static_cast<uint64_t>(first - expected.begin()) + 1);

  said = Generate(generator.get(), prompt, Options(7));
  EXPECT_EQ(said.answer.finish, QRT_FINISH_LENGTH);
  EXPECT_EQ(said.answer.tokens, 7u);
  EXPECT_EQ(qrt_session_position(session.get()), prompt.size() + 7) << "the token behind it was not chosen";
  said = Generate(generator.get(), prompt, Options(0));
  EXPECT_EQ(said.answer.tokens, 0u);
  EXPECT_EQ(said.told, "");

  options = Options(QRT_NO_LIMIT);
  options.ignore_end = 1;
  said = Generate(generator.get(), prompt, options);
  EXPECT_EQ(said.answer.finish, QRT_FINISH_LENGTH) << "the context is full";
  EXPECT_EQ(said.answer.tokens + prompt.size(), qrt_session_capacity(session.get()) + 1);
}

TEST_F(QrtGenerate, CallersCanEndAnAnswer) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  const Ids prompt = Prompt(), expected = ByHand(prompt);
  struct Caller {
    qrt_session* session = nullptr;
    int told = 0, asked = 0, after = 3;
    bool cancels = false;
    int32_t prompted = 0;
  } caller;
  qrt_answer_options options = Options();
  options.ctx = &caller;
  options.on_text = [](void* ctx, const char*, size_t) -> int32_t {
    Caller& self = *static_cast<Caller*>(ctx);
    if (++self.told != self.after) return 0;
    if (self.cancels) qrt_session_cancel(self.session);
    return self.cancels ? 0 : 1;
  };
  const auto cut = [&](const Said& said, uint64_t tokens) {
    EXPECT_EQ(said.status, QRT_OK) << Say(said.error);
    EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED);
    EXPECT_EQ(said.answer.tokens, tokens);
    const Said rest = More(generator.get(), Options(kMost - tokens));
    EXPECT_EQ(rest.answer.prompt_tokens, 0u) << "what the session holds is fed again";
    Ids all = AllTokens(generator.get());
    EXPECT_EQ(Ids(all.begin() + static_cast<ptrdiff_t>(prompt.size()), all.end()), expected)
        << "after " << tokens << " tokens";
  };
  Said said = Generate(generator.get(), prompt, options);
  const uint64_t tokens = said.answer.tokens;
  EXPECT_GE(tokens, 3u);
  EXPECT_LT(tokens, expected.size());
  cut(said, tokens);
  EXPECT_EQ(caller.told, 3) << "who wants no more is told more";
  caller = {session.get(), 0, 0, 3, true};
  cut(Generate(generator.get(), prompt, options), tokens);

  caller = {session.get(), 0, 0, 3, true};
  options.stop = [](void* ctx) -> int32_t { return ++static_cast<Caller*>(ctx)->asked > 1000; };
  said = Generate(generator.get(), prompt, options);
  EXPECT_EQ(said.answer.tokens, expected.size()) << "a cancel that the caller does not stand by ended it";
  EXPECT_GT(caller.asked, 3);
  options.stop = [](void* ctx) -> int32_t { return ++static_cast<Caller*>(ctx)->asked > 8; };
  caller = {};
  said = Generate(generator.get(), prompt, options);
  EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED);
  EXPECT_LT(said.answer.tokens, 9u);
  options.stop = [](void*) -> int32_t { return 1; };
  said = Generate(generator.get(), prompt, options);
  EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED);
  EXPECT_EQ(said.answer.prompt_tokens + said.answer.tokens, 0u) << "it was stopped before anything was done";
  options.stop = nullptr;
  options.on_prompt = [](void* ctx) -> int32_t { return ++static_cast<Caller*>(ctx)->prompted; };
  said = Generate(generator.get(), prompt, options);
  EXPECT_EQ(said.answer.finish, QRT_FINISH_CANCELLED);
  EXPECT_EQ(said.answer.tokens, 0u) << "a callback said that there is no answer";
  EXPECT_EQ(qrt_session_position(session.get()), prompt.size());
  EXPECT_EQ(caller.prompted, 1);
}

TEST_F(QrtGenerate, AnAnswerInPartsIsTheWhole) {
  const Ids prompt = Prompt(), expected = ByHand(prompt);
  const std::string whole = TextOf(expected);
  for (uint64_t part : {1u, 2u, 5u}) {
    const Session session = MakeSession(engine_.get());
    const Generator generator = Over(session.get());
    Said said = Generate(generator.get(), prompt, Options(part));
    std::string text;
    while (said.answer.finish == QRT_FINISH_LENGTH && text.size() < whole.size()) {
      ASSERT_EQ(said.status, QRT_OK) << Say(said.error);
      text += said.text.substr(0, said.text.size() - said.answer.cut_bytes);
      said = More(generator.get(), Options(part));
      EXPECT_EQ(said.answer.prompt_tokens, 0u);
    }
    EXPECT_EQ(text.substr(0, whole.size() - 3), WithoutReplacements(whole).substr(0, whole.size() - 3))
        << "parts of " << part;
  }
}

TEST_F(QrtGenerate, WhatWasSavedGoesOn) {
  const Session session = MakeSession(engine_.get());
  const Generator generator = Over(session.get());
  std::vector<qrt_chat_message> messages = {{"user", "tell me", nullptr}};
  const Said first = Chat(generator.get(), messages, Options(12));
  ASSERT_EQ(first.status, QRT_OK) << Say(first.error);
  int32_t next = -2;
  const Ids tokens = AllTokens(generator.get(), &next);
  std::vector<char> saved(qrt_session_save_size(session.get()));
  ASSERT_EQ(qrt_session_save(session.get(), saved.data(), saved.size(), nullptr, nullptr), QRT_OK);
  const Said rest = More(generator.get(), Options(20));

  const Session other = MakeSession(engine_.get());
  const Generator resumed = Over(other.get());
  const auto restore = [&](int32_t following, const std::vector<qrt_chat_message>& past) {
    EXPECT_EQ(qrt_session_restore(other.get(), saved.data(), saved.size(), nullptr), QRT_OK);
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_generator_resume(resumed.get(), tokens.data(), tokens.size(), following, past.data(),
                                   past.size(), nullptr, &error),
              QRT_OK)
        << Say(error);
  };
  for (const int32_t following : {next, -1}) {
    restore(following, {});
    const Said more = More(resumed.get(), Options(20));
    EXPECT_EQ(more.text, rest.text) << "next " << following;
    EXPECT_EQ(more.told, rest.told);
  }
  const std::string answer = WithoutReplacements(first.text);
  messages.push_back({"assistant", answer.c_str(), nullptr});
  restore(next, messages);
  messages.push_back({"user", "more", nullptr});
  const Said asked = Chat(resumed.get(), messages, Options(5));
  ASSERT_EQ(asked.status, QRT_OK) << Say(asked.error);
  EXPECT_GE(asked.answer.reused_tokens, tokens.size() - 2) << "the saved conversation is fed again";

  const auto refused = [&](const Ids& said, int32_t following, uint32_t code) {
    qrt_error error = Sized<qrt_error>();
    restore(next, {});
    EXPECT_EQ(
        qrt_generator_resume(resumed.get(), said.data(), said.size(), following, nullptr, 0, nullptr, &error),
        QRT_INVALID_ARGUMENT);
    EXPECT_EQ(error.code, code) << Say(error);
    EXPECT_EQ(AllTokens(resumed.get()), tokens) << "a refused call changed it";
  };
  Ids wrong = tokens;
  wrong.pop_back();
  wrong.pop_back();
  refused(wrong, -1, 5354);
  wrong = tokens;
  wrong.insert(wrong.end(), {7, 7});
  refused(wrong, -1, 5354);
  refused(tokens, 1000, 5304);
  wrong = tokens;
  wrong[1] = -3;
  refused(wrong, -1, 5304);
}

TEST_F(QrtGenerate, PrefixesThatTheEngineKeepsAreNotFed) {
  qrt_engine_options options = Sized<qrt_engine_options>();
  options.threads = 1;
  options.prefix_bytes = 64 << 20;
  qrt_engine* made = nullptr;
  ASSERT_EQ(qrt_engine_create(artifact_.get(), &options, &made, nullptr), QRT_OK);
  const Engine engine(made);
  const Ids prompt = Tokens(100);
  Ids other = prompt;
  other[70] ^= 1;
  const Said without = Generate(Over(MakeSession(engine_.get()).get()).get(), other, Options());
  uint64_t reused[4] = {};
  for (int i = 0; i < 4; ++i) {
    const Session session = MakeSession(engine.get());
    const Generator generator = Over(session.get());
    const Said said = Generate(generator.get(), i == 0 ? prompt : other, Options());
    ASSERT_EQ(said.status, QRT_OK) << Say(said.error);
    if (i != 0) {
      EXPECT_EQ(said.text, without.text) << "prompt " << i;
    }
    reused[i] = said.answer.reused_tokens;
  }
  EXPECT_EQ(reused[0], 0u);
  EXPECT_EQ(reused[1], 0u) << "recurrent state is kept where prompts end or were seen to branch off";
  EXPECT_EQ(reused[2], 96u);
  EXPECT_EQ(reused[3], 96u);
  // Where the two branch off there is a state now, too.
  other[75] ^= 1;
  const Session session = MakeSession(engine.get());
  EXPECT_EQ(Generate(Over(session.get()).get(), other, Options()).answer.reused_tokens, 64u);
}

// Who asked for prefixes is not told to ask for them.
TEST_F(QrtGenerate, PrefixesThatCannotBeKeptAreToldFromThoseThatNobodyAskedFor) {
  for (const uint32_t block : {0u, 16u, 64u}) {
    qrt::testing::SampleParts parts = toy::ToyParts();
    parts.manifest.state_block = block;
    WriteParts(parts, File("blocks.qbin"));
    const Artifact artifact = Open(File("blocks.qbin"));
    for (const uint64_t bytes : {0, 1 << 20}) {
      qrt_engine_options options = Sized<qrt_engine_options>();
      options.prefix_bytes = bytes;
      qrt_engine* made = nullptr;
      qrt_error error = Sized<qrt_error>();
      ASSERT_EQ(qrt_engine_create(artifact.get(), &options, &made, &error), QRT_OK) << Say(error);
      const Engine engine(made);
      uint64_t pinned = 0;
      const std::vector<int32_t> tokens = Tokens(20);
      const qrt_status status =
          qrt_engine_pin_prefix(engine.get(), tokens.data(), tokens.size(), &pinned, &error);
      if (block != 64 && bytes != 0) {
        EXPECT_EQ(status, QRT_OK) << Say(error);
        continue;
      }
      EXPECT_EQ(status, QRT_UNAVAILABLE);
      EXPECT_EQ(error.code, 5353u);
      const char* said = block == 64 ? "its state goes in blocks of 64 tokens, expected a divisor of 16"
                                     : "the engine keeps no prefixes";
      EXPECT_NE(std::string(error.message).find(said), std::string::npos) << Say(error);
    }
  }
}

TEST_F(QrtGenerate, ASessionThatSomethingElseMovedIsFedAnew) {
  const Session session = SteppingBack(16);
  const Generator generator = Over(session.get());
  const Ids prompt = Prompt(), expected = ByHand(prompt);
  const auto check = [&](const char* what) {
    const Said said = Generate(generator.get(), prompt, Options());
    ASSERT_EQ(said.status, QRT_OK) << Say(said.error);
    EXPECT_EQ(said.answer.reused_tokens, 0u) << what;
    const Ids all = AllTokens(generator.get());
    EXPECT_EQ(Ids(all.begin() + static_cast<ptrdiff_t>(prompt.size()), all.end()), expected) << what;
  };
  const int32_t token = 9;
  ASSERT_EQ(qrt_session_append(session.get(), &token, 1, nullptr, nullptr), QRT_OK);
  check("the session was not empty");
  ASSERT_EQ(qrt_session_append(session.get(), &token, 1, nullptr, nullptr), QRT_OK);
  check("a token more");
  ASSERT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
  check("reset");
}

TEST_F(QrtGenerate, RefusesWhatCannotBe) {
  const Session session = MakeSession(engine_.get(), 64);
  const Generator generator = Over(session.get());
  const auto refused = [&](const Said& said, qrt_status status, uint32_t code) {
    EXPECT_EQ(said.status, status) << Say(said.error);
    EXPECT_EQ(said.error.code, code) << Say(said.error);
    EXPECT_EQ(said.told, "");
  };
  qrt_answer_options options = Options();
  refused(More(generator.get(), options), QRT_INVALID_ARGUMENT, 5305);  // there is nothing to go on from
  refused(Generate(generator.get(), {}, options), QRT_INVALID_ARGUMENT, 5305);
  refused(Generate(generator.get(), {1000}, options), QRT_INVALID_ARGUMENT, 5304);
  EXPECT_EQ(Generate(generator.get(), {3, 4}, Options(0)).status, QRT_OK);
  refused(Generate(generator.get(), Tokens(65), options), QRT_CONTEXT_FULL, 5310);
  EXPECT_EQ(AllTokens(generator.get()), (Ids{3, 4})) << "a refused prompt changed the session";
  refused(Generate(nullptr, {1}, options), QRT_INVALID_ARGUMENT, 5301);
  const int32_t outside = 272;
  options.stop_tokens = &outside;
  options.stop_token_count = 1;
  refused(Generate(generator.get(), {3}, options), QRT_INVALID_ARGUMENT, 5304);
  options.stop_tokens = nullptr;
  refused(Generate(generator.get(), {3}, options), QRT_INVALID_ARGUMENT, 5301);
  options = Options();
  options.sampler = nullptr;
  refused(Generate(generator.get(), {3}, options), QRT_INVALID_ARGUMENT, 5301);
  options = Options();
  options.struct_size = 8;
  refused(Generate(generator.get(), {3}, options), QRT_INVALID_ARGUMENT, 5302);
  qrt_answer small = Sized<qrt_answer>();
  small.struct_size = 16;
  qrt_error error = Sized<qrt_error>();
  options = Options();
  const int32_t token = 3;
  EXPECT_EQ(qrt_generate(generator.get(), &token, 1, 0, &options, &small, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_session_position(session.get()), 2u) << "it was refused too late";
  // Behind token 1 every logit is NaN: what was fed is told, and the generator can be used again.
  refused(Generate(generator.get(), {3, 1}, options), QRT_NUMERIC_FAULT, 5325);
  EXPECT_EQ(Generate(generator.get(), {3}, options).status, QRT_OK);

  qrt_generator* none = nullptr;
  EXPECT_EQ(qrt_generator_create(nullptr, text_.get(), &none, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_generator_create(session.get(), nullptr, &none, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_generator_create(session.get(), text_.get(), nullptr, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
