// Drafts through the public API: speculate [-t THREADS] ARTIFACT DEVICE [DRAFT_ARTIFACT|- [IDS_FILE [PROMPTS
// TOKENS]]]
// Texts by several samplers, plain and with every draft, by several lengths: tokens and snapshots must be the
// same. With a draft artifact QRT_DRAFT_MODEL is that one. With token ids instead: at how many of their
// positions the draft guesses the model's likeliest token. With these and numbers: the equality of texts of
// TOKENS tokens behind PROMPTS pieces of the ids, by four samplers as they are used; the full size is
// "100 200", which takes minutes. Prints one line of JSON: how much was compared, guessed and accepted; exit
// code 1 and what broke otherwise.
#define QRT_HPP_EXCEPTIONS
#include <qrt/qrt.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

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

// Greedy; warm with top-p; min-p with penalties; hot with top-k.
std::vector<qrt_sampler_options> UsualSamplers() {
  std::vector<qrt_sampler_options> all(4, qrt::Sized<qrt_sampler_options>());
  for (qrt_sampler_options& options : all) {
    options.temperature = options.top_p = options.repeat_penalty = 1;
    options.penalty_window = 64;
  }
  all[0].temperature = 0;
  all[1].temperature = 0.8f;
  all[1].top_p = 0.95f;
  all[2].min_p = 0.05f;
  all[2].repeat_penalty = 1.1f;
  all[2].presence_penalty = 0.3f;
  all[2].frequency_penalty = 0.1f;
  all[3].temperature = 1.5f;
  all[3].top_k = 40;
  return all;
}

struct Written {
  std::vector<int32_t> tokens;
  std::vector<unsigned char> session;
};

class Drafts {
 public:
  // `threads` 0: as many as the machine has.
  Drafts(const char* path, const char* device, const char* draft, uint32_t threads) {
    artifact_ = std::move(qrt::Artifact::Open(path).value());
    auto options = qrt::Sized<qrt_engine_options>();
    options.device = device;
    options.threads = threads;
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
    Report();
  }

  // Texts of `tokens` tokens behind `prompts` pieces of `ids`, each with a seed and draft lengths of its own.
  void Compare(const std::vector<int32_t>& ids, size_t prompts, size_t tokens) {
    for (size_t p = 0; p < prompts; ++p) {
      const size_t length = std::min<size_t>(1 + p * 5 % 32, ids.size());
      const size_t begin = p * 61 % (ids.size() - length + 1);
      prompt_.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                     ids.begin() + static_cast<std::ptrdiff_t>(begin + length));
      text_tokens_ = tokens;
      context_ = length + tokens + 1;
      const std::pair<qrt_draft, uint32_t> drafts[] = {
          {QRT_DRAFT_MODEL, static_cast<uint32_t>(1 + p % 7)},
          {QRT_DRAFT_MODEL, QRT_DRAFT_TOKENS_AUTO},
          {QRT_DRAFT_LOOKUP, static_cast<uint32_t>(1 + p * 4 % 15)}};
      std::vector<qrt_sampler_options> samplers = UsualSamplers();
      for (size_t s = 0; s < samplers.size(); ++s) {
        samplers[s].seed = p * samplers.size() + s;
        const Written plain = Write(samplers[s], QRT_DRAFT_NONE, 0);
        for (const auto& [draft, guesses] : drafts) {
          const std::string what = "prompt " + std::to_string(p) + ", sampler " + std::to_string(s) +
                                   ", draft " + std::to_string(draft) + ", " + std::to_string(guesses) +
                                   " guesses: ";
          const Written written = Write(samplers[s], draft, guesses);
          if (written.tokens != plain.tokens) Fail(what + "another text than plain decoding's");
          if (written.session != plain.session) Fail(what + "another session than plain decoding's");
          ++compared_;
        }
      }
    }
    Report();
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
  void Report() const {
    std::printf("{\"compared\": %zu, \"steps\": %llu, \"guessed\": %llu, \"accepted\": %llu}\n", compared_,
                Number(steps_), Number(guessed_), Number(accepted_));
  }
  static unsigned long long Number(uint64_t n) { return n; }

  Written Write(const qrt_sampler_options& sampling, qrt_draft draft, uint32_t length) {
    auto options = qrt::Sized<qrt_session_options>();
    options.context_tokens = context_;
    options.draft = draft;
    options.draft_tokens = length;
    qrt::Session session = std::move(qrt::Session::Create(engine_, options).value());
    qrt::Sampler sampler = std::move(qrt::Sampler::Create(artifact_, &sampling).value());
    for (const int32_t token : prompt_) sampler.Accept(token);
    Written out;
    out.tokens.push_back(session.Next(prompt_, sampler).value());
    while (out.tokens.size() < text_tokens_) {
      sampler.Accept(out.tokens.back());
      if (draft == QRT_DRAFT_NONE) {
        // The usual loop, without qrt_session_generate.
        out.tokens.push_back(session.Next({&out.tokens.back(), 1}, sampler).value());
        continue;
      }
      const std::vector<int32_t> more =
          session.Generate(out.tokens.back(), sampler, std::min<size_t>(16, text_tokens_ - out.tokens.size()))
              .value();
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
  size_t text_tokens_ = 48;
  uint64_t context_ = 160;
  size_t compared_ = 0;
  uint64_t steps_ = 0, guessed_ = 0, accepted_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  uint32_t threads = 0;  // as many as the machine has
  if (argc > 2 && std::string(argv[1]) == "-t") {
    threads = static_cast<uint32_t>(std::stoul(argv[2]));
    argc -= 2;
    argv += 2;
  }
  if (argc < 3 || argc == 6) {
    std::fprintf(
        stderr,
        "usage: speculate [-t THREADS] ARTIFACT DEVICE [DRAFT_ARTIFACT|- [IDS_FILE [PROMPTS TOKENS]]]\n");
    return 2;
  }
  try {
    Drafts drafts(argv[1], argv[2], argc > 3 && std::string(argv[3]) != "-" ? argv[3] : nullptr, threads);
    if (argc > 4) {
      std::ifstream in(argv[4]);
      const std::vector<int32_t> ids{std::istream_iterator<int32_t>(in), {}};
      if (ids.empty()) Fail(std::string(argv[4]) + " holds no ids");
      if (argc > 6) {
        drafts.Compare(ids, std::stoul(argv[5]), std::stoul(argv[6]));
      } else {
        drafts.Agree(ids);
      }
    } else {
      drafts.Run();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "speculate: %s\n", error.what());
    return 1;
  }
}
