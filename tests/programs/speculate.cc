// Drafts through the public API: speculate ARTIFACT DEVICE [DRAFT_ARTIFACT|- [IDS_FILE]]
// Texts by several samplers, plain and with every draft, by several lengths: tokens and snapshots must be the
// same. With a draft artifact QRT_DRAFT_MODEL is that one. With token ids instead: at how many of their
// positions the draft guesses the model's likeliest token. Prints one line of JSON: how much was compared,
// guessed and accepted; exit code 1 and what broke otherwise.
#define QRT_HPP_EXCEPTIONS
#include <qrt/qrt.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t kText = 48;
constexpr uint64_t kContext = 160;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what);
}

std::vector<qrt_sampler_options> Samplers() {
  std::vector<qrt_sampler_options> all;
  const auto add = [&](float temperature, float min_p, float repeat, float presence, int32_t window,
                       uint64_t seed) {
    auto options = qrt::Sized<qrt_sampler_options>();
    options.temperature = temperature;
    options.top_p = 1;
    options.min_p = min_p;
    options.repeat_penalty = repeat;
    options.presence_penalty = presence;
    options.penalty_window = window;
    options.seed = seed;
    all.push_back(options);
  };
  add(0, 0, 1, 0, 64, 0);
  add(0.7f, 0.05f, 1, 0, 64, 1);
  add(1, 0, 1.2f, 0, -1, 2);
  add(1.3f, 0.1f, 1.05f, 0.5f, 20, 3);
  return all;
}

struct Written {
  std::vector<int32_t> tokens;
  std::vector<unsigned char> session;
};

class Drafts {
 public:
  Drafts(const char* path, const char* device, const char* draft) {
    artifact_ = std::move(qrt::Artifact::Open(path).value());
    auto options = qrt::Sized<qrt_engine_options>();
    options.device = device;
    if (draft != nullptr) {
      draft_.emplace(std::move(qrt::Artifact::Open(draft).value()));
      options.draft = draft_->get();
    }
    engine_ = std::move(qrt::Engine::Create(artifact_, &options).value());
    if (engine_.Describe().value().drafts != 1) Fail("the engine says that it cannot draft");
    const std::string prompt = "The king said to the people of the city that";
    text_ = std::move(qrt::Text::Create(artifact_).value());
    prompt_ = text_.Tokenize(prompt).value();
  }

  void Run() {
    for (const qrt_sampler_options& sampler : Samplers()) {
      const std::string name = "seed " + std::to_string(sampler.seed);
      const Written plain = Write(sampler, QRT_DRAFT_NONE, 0);
      const qrt_draft drafts[] = {QRT_DRAFT_MODEL, QRT_DRAFT_LOOKUP};
      for (const qrt_draft draft : drafts) {
        for (uint32_t length = 1; length <= 7; ++length) {
          const std::string what =
              name + ", draft " + std::to_string(draft) + ", " + std::to_string(length) + " guesses: ";
          const Written written = Write(sampler, draft, length);
          if (written.tokens != plain.tokens) Fail(what + "another text than plain decoding's");
          if (written.session != plain.session) Fail(what + "another session than plain decoding's");
          ++compared_;
        }
      }
    }
    std::printf("{\"compared\": %zu, \"steps\": %llu, \"guessed\": %llu, \"accepted\": %llu}\n", compared_,
                Number(steps_), Number(guessed_), Number(accepted_));
  }

  // Each token goes in by a checked step of one guess, which is taken back where it was right.
  void Agree(const std::vector<int32_t>& ids) {
    auto options = qrt::Sized<qrt_session_options>();
    options.context_tokens = ids.size() + 2;
    options.draft = QRT_DRAFT_MODEL;
    options.draft_tokens = 1;
    qrt::Session session = std::move(qrt::Session::Create(engine_, options).value());
    const qrt_sampler_options greedy = Samplers()[0];
    for (size_t i = 0; i < ids.size(); ++i) {
      qrt::Sampler sampler = std::move(qrt::Sampler::Create(artifact_, &greedy).value());
      session.Generate(ids[i], sampler, 2).value();
      if (!session.Rewind(session.position() - i - 1)) Fail("a rewind by the tokens that were right");
    }
    const qrt_draft_counters counters = session.DraftCounters().value();
    std::printf("{\"guessed\": %llu, \"accepted\": %llu}\n", Number(counters.guessed),
                Number(counters.accepted));
  }

 private:
  static unsigned long long Number(uint64_t n) { return n; }

  Written Write(const qrt_sampler_options& sampling, qrt_draft draft, uint32_t length) {
    auto options = qrt::Sized<qrt_session_options>();
    options.context_tokens = kContext;
    options.draft = draft;
    options.draft_tokens = length;
    qrt::Session session = std::move(qrt::Session::Create(engine_, options).value());
    qrt::Sampler sampler = std::move(qrt::Sampler::Create(artifact_, &sampling).value());
    for (const int32_t token : prompt_) sampler.Accept(token);
    Written out;
    out.tokens.push_back(session.Next(prompt_, sampler).value());
    while (out.tokens.size() < kText) {
      sampler.Accept(out.tokens.back());
      if (draft == QRT_DRAFT_NONE) {
        // The usual loop, without qrt_session_generate.
        out.tokens.push_back(session.Next({&out.tokens.back(), 1}, sampler).value());
        continue;
      }
      const std::vector<int32_t> more =
          session.Generate(out.tokens.back(), sampler, kText - out.tokens.size()).value();
      out.tokens.insert(out.tokens.end(), more.begin(), more.end());
    }
    out.session = session.Save().value();
    const qrt_draft_counters counters = session.DraftCounters().value();
    if (draft == QRT_DRAFT_MODEL) {
      steps_ += counters.steps;
      guessed_ += counters.guessed;
      accepted_ += counters.accepted;
    }
    return out;
  }

  qrt::Artifact artifact_;
  std::optional<qrt::Artifact> draft_;
  qrt::Engine engine_;
  qrt::Text text_;
  std::vector<int32_t> prompt_;
  size_t compared_ = 0;
  uint64_t steps_ = 0, guessed_ = 0, accepted_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: speculate ARTIFACT DEVICE [DRAFT_ARTIFACT|- [IDS_FILE]]\n");
    return 2;
  }
  try {
    Drafts drafts(argv[1], argv[2], argc > 3 && std::string(argv[3]) != "-" ? argv[3] : nullptr);
    if (argc > 4) {
      std::ifstream in(argv[4]);
      drafts.Agree({std::istream_iterator<int32_t>(in), {}});
    } else {
      drafts.Run();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "speculate: %s\n", error.what());
    return 1;
  }
}
