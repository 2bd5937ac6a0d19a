// Drafts by another, smaller model that has the same tokens.
#ifndef RUNTIME_ENGINE_SECOND_MODEL_H_
#define RUNTIME_ENGINE_SECOND_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/engine/drafter.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt {

class Engine;

// A session of its own, of the other model's engine, is fed what the model's session was, and goes on
// greedily. Behind a long prompt it catches up by one step for each call, and guesses nothing meanwhile. Of a
// sequence that was restored it sees what comes behind that place.
class SecondModel final : public Drafter {
 public:
  // `engine` outlives this. Sessions of `capacity` tokens.
  SecondModel(Engine& engine, uint64_t capacity) : capacity_(capacity), session_(engine, nullptr) {}
  // `vocab_size`: of the model that checks; what it does not know is not guessed. Throws std::bad_alloc.
  // Errors: as of Session::Init.
  Status Init(uint32_t vocab_size, const qrt_allocator* allocator);

  bool wants_rows() const override { return false; }
  void Follow(uint64_t position, std::span<const int32_t> tokens, const float* rows) override;
  size_t Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) override;
  uint64_t waited() const override { return session_.waited(); }
  void BackTo(uint64_t position) override;
  void Forget(uint64_t position) override;

 private:
  // Takes back what the sequence does not have. False: the device did not do it.
  bool Agree();
  // Feeds tokens behind held_; with `next`, what is likeliest behind them. False: as above.
  bool Feed(std::span<const int32_t> tokens, int32_t* next);

  const uint64_t capacity_;
  uint32_t vocab_size_ = 0;
  Session session_;
  std::optional<Sampler> greedy_;
  uint64_t begin_ = 0;          // position of the first token that it knows
  std::vector<int32_t> known_;  // the sequence from there on; as held_, the capacity is reserved
  std::vector<int32_t> held_;   // tokens in session_
  size_t agreed_ = 0;           // so many of both are known to be the same
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SECOND_MODEL_H_
