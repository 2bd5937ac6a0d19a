// Sessions that step back, through the public API: step_back ARTIFACT DEVICE [SEED]
// Random sequences of append, rewind, checkpoint and return, fork, save and restore, kept prefixes, each held
// against a session that was fed the same tokens at once: logits and snapshots must have the same bytes.
// Prints one line; exit code 1 and what broke otherwise.
#define QRT_HPP_EXCEPTIONS
#include <qrt/qrt.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kBack = 16, kContext = 400;
constexpr int kTurns = 40;
// One prefix of kContext tokens fits of every model that is tried (1.3 MiB of the tiny one), and hardly a
// second.
constexpr uint64_t kPrefixBytes = 2 << 20;

[[noreturn]] void Fail(const std::string& what) {
  throw std::runtime_error(what);
}

std::string Text(const std::vector<int32_t>& tokens) {
  std::string text = std::to_string(tokens.size()) + " tokens:";
  for (const int32_t token : tokens) text += " " + std::to_string(token);
  return text;
}

void Check(qrt::Outcome outcome, const std::string& what) {
  if (!outcome) Fail(what + ": " + outcome.error().message());
}

class Steps {
 public:
  Steps(const char* path, const char* device, uint32_t seed) : random_(seed) {
    artifact_ = std::move(qrt::Artifact::Open(path).value());
    vocabulary_ = artifact_.Describe().value().vocab_size;
    auto options = qrt::Sized<qrt_engine_options>();
    options.device = device;
    options.prefix_bytes = kPrefixBytes;
    engine_ = std::move(qrt::Engine::Create(artifact_, &options).value());
  }

  // A session with `back` tokens to take back.
  qrt::Session Make(uint32_t back) {
    auto options = qrt::Sized<qrt_session_options>();
    options.context_tokens = kContext;
    options.max_rewind = back;
    return std::move(qrt::Session::Create(engine_, options).value());
  }

  void Run() {
    qrt::Session session = Make(kBack);
    std::vector<int32_t> tokens;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (Below(4) == 0) Mark(session, tokens);
      if (Below(4) == 0) Return(session, tokens);
      if (Below(2) == 0 && session.rewindable() != 0) {
        const uint64_t back =
            1 + Below(static_cast<uint32_t>(std::min<uint64_t>(session.rewindable(), kBack)));
        Check(session.Rewind(back), "rewind by " + std::to_string(back));
        tokens.resize(tokens.size() - back);
        rewound_ += back;
        TakenBelow(tokens.size());
        if (session.position() != tokens.size())
          Fail("position " + std::to_string(session.position()) + " after a rewind to " + Text(tokens));
        if (qrt_session_logits(session.get()) != nullptr) Fail("logits of a token that was taken back");
        continue;
      }
      if (tokens.size() > kContext - 50) {
        Check(session.Reset(), "reset");
        tokens.clear();
        TakenBelow(0);
      }
      const uint32_t most[] = {1, 3, 17, 40};
      Append(session, tokens, 1 + Below(most[Below(4)]));
      if (Below(3) == 0) KeptPrefix(session, tokens);
      const bool moves = Below(5) == 0, forks = Below(4) == 0;
      if (moves || forks) marks_.clear();  // they are of the session that is left behind
      if (moves) session = Moved(session);
      if (forks) session = Forked(session, tokens);
    }
    marks_.clear();
    Limits();
    Marks();
  }

  uint64_t compared() const { return compared_; }
  uint64_t rewound() const { return rewound_; }
  uint64_t forked() const { return forked_; }
  uint64_t returned() const { return returned_; }
  uint64_t reused() const { return reused_; }

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  // Appends random tokens and compares with a session of the small state that gets all at once.
  void Append(qrt::Session& session, std::vector<int32_t>& tokens, uint32_t count) {
    std::vector<int32_t> more;
    for (uint32_t i = 0; i < count; ++i) more.push_back(static_cast<int32_t>(Below(vocabulary_)));
    tokens.insert(tokens.end(), more.begin(), more.end());
    Check(session.Append(more), "append");
    qrt::Session fresh = Make(0);
    Check(fresh.Append(tokens), "append of all");
    if (std::memcmp(qrt_session_logits(session.get()), qrt_session_logits(fresh.get()),
                    vocabulary_ * sizeof(float)) != 0)
      Fail("other logits than in a session that was fed the same at once, " + Text(tokens));
    if (session.Save().value() != fresh.Save().value())
      Fail("another snapshot than of a session that was fed the same at once, " + Text(tokens));
    ++compared_;
  }

  struct Marked {
    qrt::Checkpoint checkpoint;
    std::vector<int32_t> tokens;
    bool holds = true;
  };

  void Mark(qrt::Session& session, const std::vector<int32_t>& tokens) {
    if (marks_.size() == 6) marks_.erase(marks_.begin() + Below(6));
    marks_.push_back({std::move(session.TakeCheckpoint().value()), tokens});
    if (marks_.back().checkpoint.position() != tokens.size()) Fail("a checkpoint is at another place");
  }

  // Which checkpoints hold is known here by the tokens alone.
  void TakenBelow(size_t position) {
    for (Marked& mark : marks_) {
      mark.holds = mark.holds && mark.tokens.size() <= position;
      if (mark.checkpoint.holds() != mark.holds)
        Fail("the checkpoint at " + std::to_string(mark.tokens.size()) +
             (mark.holds ? " does not hold any more" : " still holds") + ", the session was taken to " +
             std::to_string(position));
    }
  }

  void Return(qrt::Session& session, std::vector<int32_t>& tokens) {
    if (marks_.empty()) return;
    const Marked& mark = marks_[Below(static_cast<uint32_t>(marks_.size()))];
    if (!mark.holds) return Refused(session, mark.checkpoint, "a checkpoint that does not hold any more");
    Check(session.RewindTo(mark.checkpoint), "return to a checkpoint");
    tokens = mark.tokens;
    if (session.position() != tokens.size())
      Fail("position " + std::to_string(session.position()) + " after the return to " + Text(tokens));
    TakenBelow(tokens.size());
    ++returned_;
  }

  void Refused(qrt::Session& session, const qrt::Checkpoint& checkpoint, const char* what) {
    const std::vector<unsigned char> before = session.Save().value();
    const qrt::Outcome outcome = session.RewindTo(checkpoint);
    if (outcome || outcome.status() != QRT_INVALID_ARGUMENT || outcome.error().code() != 5350)
      Fail(std::string(what) + " was not refused");
    if (session.Save().value() != before) Fail(std::string(what) + " changed the session");
  }

  // What can be kept of the session is kept; another one that begins with it is the same sequence then.
  void KeptPrefix(const qrt::Session& session, const std::vector<int32_t>& tokens) {
    auto kept = session.Keep(tokens);
    const bool reaches = tokens.size() % 16 <= session.rewindable();
    if (static_cast<bool>(kept) != reaches || (!kept && kept.error().code() != 5351))
      Fail(std::string("a prefix is kept, or refused, for a wrong reason, ") + Text(tokens));
    std::vector<int32_t> prompt = tokens;
    prompt.push_back(static_cast<int32_t>(Below(vocabulary_)));
    qrt::Session other = Make(Below(2) == 0 ? 0 : kBack);
    Check(other.Append({prompt.data(), 1}), "append to what is replaced");
    const qrt_prefix found = other.Begin(prompt).value();
    if (found.reused != other.position() || found.shared < found.reused)
      Fail("a session begins with other tokens than is said");
    if (kept && *kept != tokens.size() / 16 * 16) Fail("not all was kept, " + Text(tokens));
    if (kept && found.reused != *kept)
      Fail("a session begins with " + std::to_string(found.reused) + " tokens, but " + std::to_string(*kept) +
           " were kept");
    reused_ += found.reused;
    Check(other.Append(qrt::Span<const int32_t>(prompt.data() + found.reused, prompt.size() - found.reused)),
          "append behind a kept prefix");
    qrt::Session fresh = Make(0);
    Check(fresh.Append(prompt), "append of all");
    if (std::memcmp(qrt_session_logits(other.get()), qrt_session_logits(fresh.get()),
                    vocabulary_ * sizeof(float)) != 0)
      Fail("other logits behind a kept prefix, " + Text(prompt));
    if (other.Save().value() != fresh.Save().value())
      Fail("a session that began with a kept prefix is another sequence, " + Text(prompt));
  }

  // Far back, over blocks, from sessions with and without a way back.
  void Marks() {
    for (const uint32_t back : {0u, kBack}) {
      qrt::Session session = Make(back), other = Make(back);
      std::vector<int32_t> tokens;
      Append(session, tokens, 1 + Below(40));
      const std::vector<int32_t> begin = tokens;
      const qrt::Checkpoint mark = std::move(session.TakeCheckpoint().value());
      for (int turn = 0; turn < 3; ++turn) {
        tokens = begin;
        Append(session, tokens, 60 + Below(40));
        Check(session.RewindTo(mark), "return to a checkpoint");
        if (!mark.holds()) Fail("a checkpoint that was returned to does not hold any more");
        if (session.rewindable() != 0 && session.rewindable() != begin.size())
          Fail("of " + std::to_string(begin.size()) + " tokens behind a checkpoint that is further back " +
               std::to_string(session.rewindable()) + " can be taken back");
      }
      Refused(other, mark, "a checkpoint of another session");
      Check(session.Restore(other.Save().value()), "restore");
      if (mark.holds()) Fail("a checkpoint holds although the session was restored");
      Refused(session, mark, "a checkpoint from before a restore");
    }
  }

  // The same sequence in another session, with or without a way back.
  qrt::Session Moved(const qrt::Session& session) {
    const std::vector<unsigned char> saved = session.Save().value();
    qrt::Session small = Make(0), other = Make(kBack);
    Check(small.Restore(saved), "restore");
    if (small.Save().value() != saved) Fail("a restored session is saved as something else");
    Check(other.Restore(small.Save().value()), "restore of a session without a way back");
    if (other.Save().value() != saved) Fail("a session restored into two areas is saved as something else");
    return other;
  }

  // Two sequences from here, neither of which the other touches. The new one goes on.
  qrt::Session Forked(qrt::Session& session, const std::vector<int32_t>& tokens) {
    const std::vector<unsigned char> saved = session.Save().value();
    qrt::Session fork = std::move(session.Fork().value());
    if (fork.Save().value() != saved) Fail("a fork is another sequence, " + Text(tokens));
    const float *got = qrt_session_logits(fork.get()), *want = qrt_session_logits(session.get());
    if ((got == nullptr) != (want == nullptr)) Fail("of fork and session one has logits, " + Text(tokens));
    if (want != nullptr && std::memcmp(got, want, vocabulary_ * sizeof(float)) != 0)
      Fail("a fork has other logits, " + Text(tokens));
    if (fork.capacity() != session.capacity()) Fail("a fork has another context");
    std::vector<int32_t> others = tokens;
    Append(session, others, 1 + Below(9));
    if (fork.Save().value() != saved)
      Fail("tokens of the session that was forked reach the fork, " + Text(tokens));
    ++forked_;
    return fork;
  }

  // What cannot be taken back is refused and changes nothing.
  void Limits() {
    qrt::Session session = Make(kBack);
    std::vector<int32_t> tokens;
    Append(session, tokens, 37);
    const uint64_t most = session.rewindable();
    const auto refused = [&](uint64_t back, const char* what) {
      const std::vector<unsigned char> before = session.Save().value();
      const qrt::Outcome outcome = session.Rewind(back);
      if (outcome || outcome.status() != QRT_INVALID_ARGUMENT || outcome.error().code() != 5328)
        Fail(std::string(what) + " was not refused");
      if (session.Save().value() != before) Fail(std::string(what) + " changed the session");
    };
    refused(most + 1, "a rewind by one token too many");
    Check(session.Rewind(most), "rewind by all that go back");
    if (session.rewindable() != 0) Fail("more can be taken back than was said");
    refused(1, "a rewind beyond the last one");
    Check(session.Rewind(0), "rewind by nothing");
    if (most == 37) return;  // KV alone
    if (most != kBack) Fail("of 37 tokens " + std::to_string(most) + " can be taken back, expected 16");
    session = Make(0);
    tokens.clear();
    Append(session, tokens, 5);
    refused(1, "a rewind of a session without a way back");
    auto options = qrt::Sized<qrt_session_options>();
    options.max_rewind = kBack + 1;
    if (qrt::Session::Create(engine_, options).status() != QRT_INVALID_ARGUMENT)
      Fail("max_rewind of 17 was accepted");
  }

  std::mt19937 random_;
  qrt::Artifact artifact_;
  qrt::Engine engine_;
  uint32_t vocabulary_ = 0;
  std::vector<Marked> marks_;  // of the session that goes on
  uint64_t compared_ = 0, rewound_ = 0, forked_ = 0, returned_ = 0, reused_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: step_back ARTIFACT DEVICE [SEED]\n");
    return 2;
  }
  try {
    Steps steps(argv[1], argv[2], argc > 3 ? static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)) : 1);
    steps.Run();
    std::printf(
        "%llu comparisons, %llu tokens taken back, %llu forks, %llu returns, %llu tokens of kept prefixes\n",
        static_cast<unsigned long long>(steps.compared()), static_cast<unsigned long long>(steps.rewound()),
        static_cast<unsigned long long>(steps.forked()), static_cast<unsigned long long>(steps.returned()),
        static_cast<unsigned long long>(steps.reused()));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_back: %s\n", error.what());
    return 1;
  }
}
