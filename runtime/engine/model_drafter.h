// Drafts by the model's own draft function, or that of an artifact made for it (DraftSchedule).
#ifndef RUNTIME_ENGINE_MODEL_DRAFTER_H_
#define RUNTIME_ENGINE_MODEL_DRAFTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/engine/drafter.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt {

class Engine;

// The draft has KV of its own, by position, which catches up with the session: token i goes in with the row
// that the trunk left for token i - 1, zeros where that is not known. A few tokens wait (`lag`), so that
// those of the last verification go in together with the first draft behind them.
class ModelDrafter final : public Drafter {
 public:
  // Most tokens that wait.
  static constexpr uint32_t kMaxLag = 16;

  // `kv`: room for `kv_capacity` tokens of the draft's KV on its device; the session's. The engine must
  // drafts().
  ModelDrafter(Engine& engine, const DeviceBuffer& kv, uint64_t kv_capacity)
      : engine_(engine), kv_(kv), kv_capacity_(kv_capacity) {}
  ~ModelDrafter() override;
  // Errors: out of memory; device lost, device failed.
  Status Init(const qrt_allocator* allocator);

  bool wants_rows() const override { return true; }
  void Follow(uint64_t position, std::span<const int32_t> tokens, const float* rows) override;
  size_t Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) override;
  uint64_t waited() const override { return waited_; }
  ModelDrafter* of_model() override { return this; }
  void BackTo(uint64_t position) override;
  void Forget(uint64_t position) override;

  // Whether `count` guesses behind the next token of a session at `position` can be made by the device that
  // then checks them, in one run with that step.
  bool ChainsTo(uint64_t position, size_t count);
  // Such a run: of the draft, and of `check`, the session's step, whose first row has the next token and the
  // others the guesses. Inside the engine's lock. The draft has then followed that step.
  DeviceResult RunChain(const StepRequest& check, std::span<int32_t> guesses);

 private:
  enum class After { kNothing, kLogits };

  uint64_t position() const { return begin_ + fed_ + lag_; }
  float* row(uint64_t i) const;
  void ForgetRow() const;
  // Runs the program for `tokens` behind those that were fed, each with its row of `rows`; they count as fed.
  // Splits them as programs need; logits are of the last ones. False: the device did not do it.
  bool Feed(std::span<const int32_t> tokens, const float* rows, After after, uint64_t* last_rows);
  // Brings the rows to the host, where they are on the device. False: the device did not do it.
  bool FetchRows();
  bool RunProgram(uint32_t program, std::span<const int32_t> tokens, uint64_t past, bool logits);
  // For `count` tokens behind `past` of the draft's KV.
  qrt_seq Sequence(uint64_t past, uint64_t count) const;
  // The token with the highest logit of row `i` of the last run; negative: there is none.
  int32_t Likeliest(uint64_t i) const;

  Engine& engine_;
  const DeviceBuffer& kv_;
  const uint64_t kv_capacity_;
  uint64_t begin_ = 0;                            // position of the first token in the draft's KV
  uint64_t fed_ = 0;                              // tokens in it
  uint32_t lag_ = 0;                              // tokens of the session behind those
  uint64_t waited_ = 0;                           // nanoseconds
  std::array<int32_t, kMaxLag + 1> tokens_ = {};  // they, and in Propose the next
  Memory
      rows_;  // f32 [kMaxLag + 1][embedding_length]: of the token ahead of each of them, and of the next one
  // Where chains leave them, which the host need not see: as rows_.
  DeviceBuffer kept_;
  bool on_device_ = false;  // they are there and not in rows_
  bool ahead_ =
      false;  // the draft's KV holds ahead_token_ behind those that were fed, as it would with its row
  int32_t ahead_token_ = 0;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_MODEL_DRAFTER_H_
