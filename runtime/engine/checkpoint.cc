#include "runtime/engine/checkpoint.h"

#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/session.h"

namespace qrt {

Checkpoint::~Checkpoint() {
  Unlink();
}

void Checkpoint::Unlink() {
  if (!linked_) return;
  if (before_ != nullptr) before_->after_ = after_;
  (after_ != nullptr ? after_->before_ : session_.last_checkpoint_) = before_;
  before_ = after_ = nullptr;
  linked_ = false;
}

Status Checkpoint::Take(const qrt_allocator* allocator) {
  position_ = session_.position();
  const uint64_t bytes = session_.engine().StateBytes(position_);
  if (bytes != 0 && !state_.Allocate(allocator, bytes)) {
    return Status(Code::kOutOfMemory, 6001, "no memory for a checkpoint: " + std::to_string(bytes) + " bytes",
                  "session", "release other checkpoints, or free memory");
  }
  QRT_RETURN_IF_ERROR(session_.ReadState(position_, state_.data()));
  before_ = session_.last_checkpoint_;
  if (before_ != nullptr) before_->after_ = this;
  session_.last_checkpoint_ = this;
  linked_ = true;
  return Status();
}

void Session::EndCheckpointsAbove(uint64_t tokens) {
  while (last_checkpoint_ != nullptr && last_checkpoint_->position_ > tokens) last_checkpoint_->Unlink();
}

Status Session::RewindTo(const Checkpoint& checkpoint) {
  if (damaged_) return Damaged();
  if (&checkpoint.session_ != this) {
    return Status(Code::kInvalidArgument, 5350, "the checkpoint was taken of another session", "session",
                  "go back with the session that it was taken of");
  }
  const uint64_t tokens = checkpoint.position_;
  if (!checkpoint.holds()) {
    return Status(Code::kInvalidArgument, 5350,
                  "the checkpoint at " + std::to_string(tokens) +
                      " tokens does not hold any more: the session was taken below it since",
                  "session", "restore a snapshot, or feed the tokens again");
  }
  if (position_ - tokens <= rewindable()) return Rewind(position_ - tokens);
  // Write only reads the host's side of a range.
  QRT_RETURN_IF_ERROR(WriteState(tokens, checkpoint.state_.data(), "the return to a checkpoint"));
  position_ = floor_ = tokens;
  ++moves_;
  EndCheckpointsAbove(tokens);
  has_logits_ = false;
  untraced_ = true;
  if (drafter_ != nullptr) drafter_->BackTo(position_);
  return Status();
}

}  // namespace qrt
