// Guesses the tokens that a sequence will go on with. Guesses change nothing but how fast text comes
// (speculation.h).
#ifndef RUNTIME_ENGINE_DRAFTER_H_
#define RUNTIME_ENGINE_DRAFTER_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace qrt {

class ModelDrafter;

// What a session knows of its drafter. Used by the session's thread; nothing here allocates after it was
// made.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // Whether Follow wants the trunk's rows.
  virtual bool wants_rows() const = 0;
  // The session took `tokens`, from `position` on. `rows`: f32 [tokens.size()][embedding_length], what the
  // trunk left behind its last layer, where they are wanted. Inside the engine's lock.
  virtual void Follow(uint64_t position, std::span<const int32_t> tokens, const float* rows) = 0;
  // Guesses what comes behind `token`, the next one of a session at `position`: at most guesses.size()
  // tokens. How many there are.
  virtual size_t Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) = 0;
  // Nanoseconds that its own steps have waited for those of others.
  virtual uint64_t waited() const { return 0; }
  // Null: no device can be told to guess ahead of the step that checks.
  virtual ModelDrafter* of_model() { return nullptr; }
  // The session stands at `position` again: what came behind it was taken back.
  virtual void BackTo(uint64_t position) = 0;
  // The session holds another sequence, of `position` tokens that the drafter has not seen.
  virtual void Forget(uint64_t position) = 0;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_DRAFTER_H_
