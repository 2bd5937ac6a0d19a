#include "compiler/artifact/paged_writes.h"

#include <algorithm>

#include "runtime/base/memory.h"

namespace qcc::compiler {

using qrt::kLargePage;

absl::Status PagedWrites::Append(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const uint64_t room = kLargePage - (offset_ + waiting_.size()) % kLargePage;
    if (waiting_.empty() && bytes.size() >= room) {
      const uint64_t pages = room + (bytes.size() - room) / kLargePage * kLargePage;
      if (absl::Status status = write_(offset_, bytes.first(pages)); !status.ok()) return status;
      offset_ += pages;
      bytes = bytes.subspan(pages);
      continue;
    }
    const std::span<const uint8_t> part = bytes.first(std::min<uint64_t>(room, bytes.size()));
    waiting_.insert(waiting_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (part.size() == room) {
      if (absl::Status status = Flush(); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status PagedWrites::Flush() {
  if (waiting_.empty()) return absl::OkStatus();
  absl::Status status = write_(offset_, waiting_);
  offset_ += waiting_.size();
  waiting_.clear();
  return status;
}

}  // namespace qcc::compiler
