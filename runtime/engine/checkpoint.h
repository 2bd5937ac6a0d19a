// A place in a session's sequence to go back to.
#ifndef RUNTIME_ENGINE_CHECKPOINT_H_
#define RUNTIME_ENGINE_CHECKPOINT_H_

#include <cstdint>

#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/engine/session.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt {

// What the sequence carried at a position besides its KV, which lies in the session by position. It holds
// until the session is taken below that position: then other tokens may follow, or the same ones again; which
// of both, nobody knows. Used by the session's thread, and no longer than the session.
class Checkpoint {
 public:
  explicit Checkpoint(Session& session) : session_(session) {}
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // Once. Errors: invalid argument (a step of the session failed), out of memory, device lost, device failed.
  Status Take(const qrt_allocator* allocator);

  uint64_t position() const { return position_; }
  uint64_t bytes() const { return state_.size(); }
  // Whether RewindTo can go back to it.
  bool holds() const { return linked_ && !session_.damaged(); }

 private:
  friend class Session;

  void Unlink();

  Session& session_;
  uint64_t position_ = 0;
  Memory state_;  // as Session::ReadState gives it
  // Among those of the session that hold, by position: a session is never taken below one of them.
  Checkpoint *before_ = nullptr, *after_ = nullptr;
  bool linked_ = false;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_CHECKPOINT_H_
