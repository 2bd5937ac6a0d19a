// `--profile-stages`: what the steps of each program spent their time on.
#ifndef RUNTIME_QRUN_STAGE_TIMES_H_
#define RUNTIME_QRUN_STAGE_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/qrun/model.h"

namespace qrun {

// A kernel's place in a program, and the barrier behind it where there is one.
struct TimedStage {
  std::string kernel, specification, group;  // empty: barriers alone
  uint64_t runs = 0;
  uint64_t weight_bytes = 0;    // of one run with as many rows as the program has
  std::vector<double> busy;     // seconds of each thread, in all runs
  std::vector<double> waiting;  // for the other threads behind it
};

struct TimedProgram {
  std::string name;
  uint64_t steps = 0;
  bool device_clock = false;       // by a GPU's timestamps: nobody waits
  std::vector<TimedStage> stages;  // in the order of the code
};

// Of the programs that ran since qrt_engine_time_stages.
Outcome ReadStageTimes(const Model& model, std::vector<TimedProgram>* out);

// Tables for people, those that took longest first, and sums by group; a JSON array.
std::string StageTables(const std::vector<TimedProgram>& programs);
std::string StageJson(const std::vector<TimedProgram>& programs);

}  // namespace qrun

#endif  // RUNTIME_QRUN_STAGE_TIMES_H_
