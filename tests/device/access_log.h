// Who touched which word since the last barrier: finds races on device and workgroup memory.
#ifndef TESTS_DEVICE_ACCESS_LOG_H_
#define TESTS_DEVICE_ACCESS_LOG_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace qcc::gpu {

enum class Access : uint8_t { kRead, kWrite, kAtomic };

// Threads are counted within a workgroup, workgroups over all launches that no barrier separates.
struct Place {
  uint32_t thread;
  uint32_t subgroup;  // of the workgroup; the thread, where there are none
  uint32_t group;
  uint32_t epoch;  // number of workgroup barriers so far, over everything: never 0
  uint32_t phase;  // number of barriers between launches so far
  uint32_t turn;  // number of the subgroup's barriers since the last one of the workgroup, in what they order
};

// One word.
class WordLog {
 public:
  // Records an access; returns what it races with, or null.
  const char* Touch(Access access, const Place& at) {
    if (phase_ != at.phase) {
      phase_ = at.phase;
      groups_ = {};
      epoch_ = 0;
    }
    if (epoch_ != at.epoch) {
      epoch_ = at.epoch;
      subgroups_ = {};
      threads_ = {};
    }
    // Nothing is lost with what threads of another subgroup did: as long as all only read it does not matter,
    // and else `subgroups_` finds the race.
    if (turn_ != at.turn || subgroup_ != at.subgroup) {
      turn_ = at.turn;
      subgroup_ = at.subgroup;
      threads_ = {};
    }
    bool groups_race = groups_.Touch(access, at.group);
    bool subgroups_race = subgroups_.Touch(access, at.subgroup);
    bool threads_race = threads_.Touch(access, at.thread);
    return groups_race ? "another workgroup" : subgroups_race || threads_race ? "another thread" : nullptr;
  }

 private:
  static constexpr uint32_t kNone = ~0u, kMany = ~0u - 1;

  struct Users {
    uint32_t reader = kNone, writer = kNone, atomic = kNone;

    static bool Other(uint32_t user, uint32_t who) { return user != kNone && user != who; }
    bool Touch(Access access, uint32_t who) {
      bool race = Other(writer, who) || (access != Access::kRead && Other(reader, who)) ||
                  (access != Access::kAtomic && Other(atomic, who));
      uint32_t& user = access == Access::kRead ? reader : access == Access::kWrite ? writer : atomic;
      user = user == kNone || user == who ? who : kMany;
      return race;
    }
  };

  uint32_t phase_ = 0, epoch_ = 0, turn_ = 0, subgroup_ = 0;
  Users threads_;    // of `subgroup_`, since its last barrier
  Users subgroups_;  // since the workgroup's last barrier
  Users groups_;     // since the last barrier between launches
};

// Device memory: pages made on first touch.
class MemoryLog {
 public:
  WordLog& At(uint64_t address) {
    uint64_t page = address / kPageBytes;
    if (page != last_page_) {
      auto& slot = pages_[page];
      if (!slot) {
        slot = std::make_unique<std::vector<WordLog>>(kPageBytes / 4);
      }
      last_page_ = page;
      last_ = slot->data();
    }
    return last_[address % kPageBytes / 4];
  }

 private:
  static constexpr uint64_t kPageBytes = 4096;
  std::unordered_map<uint64_t, std::unique_ptr<std::vector<WordLog>>> pages_;
  uint64_t last_page_ = ~uint64_t{0};
  WordLog* last_ = nullptr;
};

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_ACCESS_LOG_H_
