// Text by guessing and checking: a drafter guesses the next tokens, one step of the model gives the logits
// behind all of them, and the sampler, which chooses row by row, says how far the guesses were right. A
// device that chooses tokens chooses behind all of them at once, each as if the guesses before it were right:
// so they are where it is looked at.
//
// What is chosen is what plain decoding chooses: a row's logits have the same bits whatever the step, a token
// is drawn with the random number of its position, and rows behind the first wrong guess are not looked at.
// What was fed in vain is taken back (Session::Rewind).
//
// Without a draft a device that chooses tokens may decode some one behind the other before they are looked at
// (tokens_ahead.h): what lies behind the one that is the last is taken back.
#ifndef RUNTIME_ENGINE_SPECULATION_H_
#define RUNTIME_ENGINE_SPECULATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session.h"

namespace qrt {

// The most tokens that Generate chooses at once.
inline constexpr size_t kMostTokensAtOnce =
    std::max<size_t>(Session::kMaxDraftTokens + 1, TokensAhead::kMost);

// What the caller has a say in, inside the engine's lock.
struct Verdicts {
  // Asked about each chosen token, in order; non-zero: it is the last. Null: none is.
  int32_t (*ends)(void* ctx, int32_t token) = nullptr;
  // To measure what drafts cost: whether guess number `index` of a step is right, whatever the sampler
  // chooses; a right one is what is chosen. Null: the sampler says so, as above.
  int32_t (*agrees)(void* ctx, uint32_t index) = nullptr;
  void* ctx = nullptr;
};

struct Generated {
  size_t tokens = 0;    // chosen, at least 1 unless there was an error
  size_t steps = 0;     // of the model, that chose them
  size_t guessed = 0;   // by the drafter
  size_t accepted = 0;  // of them chosen
};

// Appends `token`, chooses what follows, and goes on as long as the guesses are right, at most chosen.size()
// >= 1 tokens. All but the last are then in the session too, and the sampler has recorded them. Logits are
// gone. Allocates nothing. Errors: as Batch::Add and Run with a sampler; of tokens that were chosen before
// one, *out says how many, and the session holds what it would hold in plain decoding.
Status Generate(Session& session, int32_t token, Sampler& sampler, Verdicts verdicts,
                std::span<int32_t> chosen, Generated* out);

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SPECULATION_H_
