// sessions MODEL.qbin PROMPT PROMPT: two conversations answered together, through one batch of steps; the
// first is then saved, restored into another session, and both go on with the same words.
#include <cstdio>
#include <qrt/qrt.hpp>
#include <string>
#include <vector>

namespace {

struct Conversation {
  qrt::Session session;
  qrt::Sampler sampler;
  std::vector<std::int32_t> ahead;  // tokens that the session has not taken yet
  std::vector<std::int32_t> said;
  bool ended = false;
};

int Complain(const qrt::Error& error) {
  std::fprintf(stderr, "%s [Q%04u]\n%s\n%s\n", error.message(), static_cast<unsigned>(error.code()),
               error.note(), error.help());
  return 1;
}

qrt::Result<qrt::Sampler> Greedy(const qrt::Artifact& artifact) {
  return artifact.SamplerDefaults().and_then([&](qrt_sampler_options options) {
    options.temperature = 0;
    return qrt::Sampler::Create(artifact, &options);
  });
}

// Steps of all conversations together until each has said `most` tokens or ended.
qrt::Outcome Talk(qrt::Engine& engine, const qrt::Text& text, qrt::Span<Conversation> all, std::size_t most) {
  for (;;) {
    std::vector<qrt_batch_item> items;
    std::vector<Conversation*> talking;
    std::vector<std::int32_t> next(all.size());
    for (Conversation& one : all) {
      if (one.ended || one.said.size() >= most) continue;
      items.push_back(one.session.Item(one.ahead, one.sampler, &next[talking.size()]));
      talking.push_back(&one);
    }
    if (items.empty()) return qrt::Done();
    if (qrt::Outcome step = engine.Append(items); !step) return step;
    for (std::size_t i = 0; i < talking.size(); ++i) {
      Conversation& one = *talking[i];
      one.sampler.Accept(next[i]);
      one.ahead = {next[i]};
      one.ended = text.IsEnd(next[i]);
      if (!one.ended) one.said.push_back(next[i]);
    }
  }
}

qrt::Result<Conversation> Begin(const qrt::Artifact& artifact, const qrt::Engine& engine,
                                const qrt::Text& text, const char* prompt) {
  auto session = qrt::Session::Create(engine, 512);
  if (!session) return session.error();
  auto sampler = Greedy(artifact);
  if (!sampler) return sampler.error();
  const qrt_chat_message message = {"user", prompt, nullptr};
  auto tokens = text.EncodeChat({&message, 1});
  if (!tokens) return tokens.error();
  return Conversation{*std::move(session), *std::move(sampler), *std::move(tokens), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s MODEL.qbin PROMPT PROMPT\n", argv[0]);
    return 64;
  }
  auto artifact = qrt::Artifact::Open(argv[1]);
  if (!artifact) return Complain(artifact.error());
  auto text = qrt::Text::Create(*artifact);
  if (!text) return Complain(text.error());
  auto engine = qrt::Engine::Create(*artifact);
  if (!engine) return Complain(engine.error());

  std::vector<Conversation> both;
  for (int i = 2; i < 4; ++i) {
    auto one = Begin(*artifact, *engine, *text, argv[i]);
    if (!one) return Complain(one.error());
    both.push_back(*std::move(one));
  }
  if (auto talked = Talk(*engine, *text, both, 12); !talked) return Complain(talked.error());

  // A copy of the first conversation as it stands.
  auto saved = both[0].session.Save();
  if (!saved) return Complain(saved.error());
  auto copy = Begin(*artifact, *engine, *text, argv[2]);
  if (!copy) return Complain(copy.error());
  if (auto restored = copy->session.Restore(*saved); !restored) return Complain(restored.error());
  copy->ahead = both[0].ahead;
  copy->said = both[0].said;
  copy->ended = both[0].ended;
  if (auto talked = Talk(*engine, *text, both, 20); !talked) return Complain(talked.error());
  if (auto talked = Talk(*engine, *text, {&*copy, 1}, 20); !talked) return Complain(talked.error());

  for (const Conversation& one : both) {
    auto words = text->Detokenize(one.said);
    if (!words) return Complain(words.error());
    std::printf("%s\n", words->c_str());
  }
  const bool same = copy->said == both[0].said;
  std::printf("restored after %zu bytes: %s\n", saved->size(), same ? "the same words" : "OTHER WORDS");
  return same ? 0 : 1;
}
