// What an engine does for those that draft tokens.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/engine/engine.h"

namespace qrt {
namespace {

Status CannotLink(std::string message, const char* help) {
  return Status(Code::kArtifactIncompatible, 5335, std::move(message), "draft", help);
}

}  // namespace

Status Engine::Link(Part draft, const qrt_allocator* allocator) {
  constexpr const char* kOtherDraft = "use the draft that was made for this model";
  DraftSchedule schedule(draft.plan);
  if (schedule.empty()) {
    return CannotLink("no program of the artifact drafts tokens", "make one with qcc compile --draft");
  }
  const std::pair<const char*, std::pair<uint64_t, uint64_t>> same[] = {
      {"rows of values", {draft.plan.embedding_length, plan().embedding_length}},
      {"a vocabulary of tokens", {draft.plan.vocab_size, plan().vocab_size}},
      {"rows of logits, floats apart", {draft.plan.logits_stride, plan().logits_stride}}};
  for (const auto& [what, values] : same) {
    if (values.first == values.second) continue;
    return CannotLink("the draft has " + std::string(what) + ": " + std::to_string(values.first) +
                          ", the model " + std::to_string(values.second),
                      kOtherDraft);
  }
  if (!this->schedule().leaves_every_row()) {
    return CannotLink(
        "the model's steps do not leave the rows behind its last layer, which a draft goes on from",
        "compile the model with qcc compile --last-ffn=all");
  }
  linked_ = std::make_unique<Stage>();
  static_cast<Part&>(*linked_) = std::move(draft);
  linked_draft_ = std::move(schedule);
  memory_bytes_ += linked_->device->scratch_bytes();
  const uint64_t bytes = this->schedule().max_rows() * row_bytes();
  if (stream_.size() != 0) return Status();
  if (!stream_.Allocate(allocator, bytes)) {
    linked_.reset();
    return Status(Code::kOutOfMemory, 6001,
                  "no memory for rows for drafts: " + std::to_string(bytes) + " bytes", "engine",
                  "free memory");
  }
  memory_bytes_ += bytes;
  return Status();
}

void Engine::Link(std::unique_ptr<Engine> model) {
  memory_bytes_ += model->memory_bytes();
  second_model_ = std::move(model);
}

const float* Engine::StreamRows(uint64_t rows) {
  const size_t last = parts_.size() - 1;
  const CopyRange range = {&parts_[last].device->arena(), 0, stream_.data(), rows * row_bytes()};
  const DeviceResult result = OnDevice(last, [&](Device& device) { return device.Read({&range, 1}); });
  return result == DeviceResult::kOk ? reinterpret_cast<const float*>(stream_.data()) : nullptr;
}

bool Engine::PlaceDraftRows(const float* rows, uint64_t count) {
  const size_t part = draft_part();
  // Write only reads the host's side of a range.
  const CopyRange range = {&stage(part).device->arena(), 0, const_cast<float*>(rows), count * row_bytes()};
  return OnDevice(part, [&](Device& device) { return device.Write({&range, 1}); }) == DeviceResult::kOk;
}

bool Engine::KeepDraftRow(uint64_t i) {
  if (i == 0) return true;
  const size_t part = draft_part();
  const CopyRange range = {&stage(part).device->arena(), i * row_bytes(), stream_.data(), row_bytes()};
  return OnDevice(part,
                  [&](Device& device) {
                    return device.Read({&range, 1});
                  }) == DeviceResult::kOk &&
         PlaceDraftRows(reinterpret_cast<const float*>(stream_.data()), 1);
}

bool Engine::RunDraft(uint32_t program, const qrt_seq& seq, uint64_t position, const int32_t* tokens,
                      bool logits) {
  auto* positions = reinterpret_cast<int32_t*>(positions_.data());
  auto* out_rows = reinterpret_cast<int32_t*>(out_rows_.data());
  for (int64_t i = 0; i < seq.row_count; ++i) {
    std::fill_n(positions + 4 * i, 4, static_cast<int32_t>(position) + static_cast<int32_t>(i));
    out_rows[i] = static_cast<int32_t>(i);
  }
  StepRequest request;
  request.program = program;
  request.seqs = &seq;
  request.n_seqs = 1;
  request.n_rows = seq.row_count;
  request.tokens = tokens;
  request.positions = positions;
  request.out_rows = out_rows;
  request.n_out = logits ? seq.row_count : 0;
  request.logits = logits ? reinterpret_cast<float*>(logits_.data()) : nullptr;
  return OnDevice(draft_part(), [&](Device& device) { return device.Run(request); }) == DeviceResult::kOk;
}

void Batch::TellDrafters() {
  if (guesser_ != nullptr) return;  // it was there
  uint64_t rows = 0;
  bool wanted = false;
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    rows += session->feed_.taken;
    wanted = wanted ||
             (session->feed_.taken != 0 && session->drafter_ != nullptr && session->drafter_->wants_rows());
  }
  const float* left = wanted ? engine_.StreamRows(rows) : nullptr;
  for (Session* session = first_; session != nullptr; session = session->feed_.next) {
    const Session::Feed& feed = session->feed_;
    if (feed.taken == 0) continue;
    if (Drafter* drafter = session->drafter_.get(); drafter != nullptr) {
      if (drafter->wants_rows() && left == nullptr) {
        drafter->Forget(session->position_);
      } else {
        drafter->Follow(session->position_ - feed.taken, {feed.tokens + feed.done - feed.taken, feed.taken},
                        left);
      }
    }
    if (left != nullptr) left += uint64_t{feed.taken} * engine_.plan().embedding_length;
  }
}

}  // namespace qrt
