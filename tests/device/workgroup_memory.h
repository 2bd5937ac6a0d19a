// The workgroup memory of one workgroup that the interpreter runs, and what is wrong with an access to it.
#ifndef TESTS_DEVICE_WORKGROUP_MEMORY_H_
#define TESTS_DEVICE_WORKGROUP_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "tests/device/access_log.h"

namespace qcc::gpu {

struct SharedCell {
  uint32_t bits = 0;
  bool written = false;
  WordLog log;
};

class WorkgroupMemory {
 public:
  void Clear() {
    arrays_.clear();
    next_ = 0;
    bytes_ = 0;
  }
  // What is allocated after Rewind(mark()) is what was allocated after mark(): a loop's body runs many times
  // here and is written once, so its second run meets its memory again.
  size_t mark() const { return next_; }
  void Rewind(size_t mark) { next_ = mark; }
  Shared Allocate(Type type, int words) {
    size_t id = next_++;
    while (id < arrays_.size() &&
           (arrays_[id].type != type || static_cast<int>(arrays_[id].cells.size()) != words)) {
      id = next_++;
    }
    if (id >= arrays_.size()) {
      arrays_.resize(id + 1);
      arrays_[id] = {type, std::vector<SharedCell>(static_cast<size_t>(words))};
      bytes_ += 4 * words;
    }
    return {static_cast<int>(id), type, words};
  }
  int bytes() const { return bytes_; }

  // Element `index` for an access called `what`; null, and why, if it must not be.
  SharedCell* At(const Shared& shared, int64_t index, const char* what, Access access, const Place& place,
                 std::string* why) {
    std::vector<SharedCell>& cells = arrays_[static_cast<size_t>(shared.id)].cells;
    const auto fail = [&](const std::string& how) {
      *why = std::string(what) + " at " + std::to_string(index) + " of workgroup memory " +
             std::to_string(shared.id) + how;
      return nullptr;
    };
    if (index < 0 || index >= static_cast<int64_t>(cells.size())) {
      return fail(", which has " + std::to_string(cells.size()) + " words");
    }
    SharedCell& cell = cells[static_cast<size_t>(index)];
    if (const char* other = cell.log.Touch(access, place)) {
      return fail(std::string(": races with ") + other);
    }
    if (access != Access::kWrite && !cell.written) {
      return fail(": nothing is stored there");
    }
    return &cell;
  }

 private:
  struct Array {
    Type type = Type::kI32;
    std::vector<SharedCell> cells;
  };
  std::vector<Array> arrays_;
  size_t next_ = 0;
  int bytes_ = 0;
};

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_WORKGROUP_MEMORY_H_
