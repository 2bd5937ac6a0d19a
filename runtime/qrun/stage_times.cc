#include "runtime/qrun/stage_times.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>

#include "runtime/qrun/escape.h"

namespace qrun {
namespace {

// Of all threads, in microseconds a step.
double MeanMicros(const std::vector<double>& seconds, uint64_t steps) {
  if (seconds.empty() || steps == 0) return 0;
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return 1e6 * sum / static_cast<double>(seconds.size()) / static_cast<double>(steps);
}

double Cost(const TimedStage& stage, uint64_t steps) {
  return MeanMicros(stage.busy, steps) + MeanMicros(stage.waiting, steps);
}

// One stage as all threads saw it.
Outcome ReadStage(const Model& model, size_t index, qrt_stage_info* info, std::vector<double>* seconds) {
  seconds->clear();
  do {
    const uint32_t thread = static_cast<uint32_t>(seconds->size());
    *info = {};
    info->struct_size = sizeof *info;
    QRUN_CALL(qrt_engine_stage(model.engine.get(), index, thread, info, &error));
    seconds->push_back(info->seconds);
  } while (seconds->size() < info->threads);
  return Outcome();
}

// What stands before the first row that a kernel works on: "linear {k = 1024, ...}".
std::string Shortened(const std::string& text) {
  constexpr size_t kMost = 110;
  return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
}

// Microseconds of a step, and their share of all, by group; those that took longest first.
std::string GroupTable(const TimedProgram& program, double all) {
  std::vector<std::pair<std::string, double>> sums;
  for (const TimedStage& stage : program.stages) {
    const double cost = Cost(stage, program.steps);
    const std::string group = stage.group.empty() ? "barriers alone" : stage.group;
    const auto found =
        std::find_if(sums.begin(), sums.end(), [&group](const auto& sum) { return sum.first == group; });
    if (found != sums.end()) {
      found->second += cost;
    } else {
      sums.emplace_back(group, cost);
    }
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string table;
  char text[96];
  for (const auto& [group, micros] : sums) {
    std::snprintf(text, sizeof text, "%10.1f us %5.1f%%  ", micros, all > 0 ? 100 * micros / all : 0);
    table += text + group + "\n";
  }
  return table;
}

std::string Table(const TimedProgram& program) {
  double all = 0, waiting = 0;
  std::vector<const TimedStage*> order;
  for (const TimedStage& stage : program.stages) {
    order.push_back(&stage);
    waiting += MeanMicros(stage.waiting, program.steps);
    all += Cost(stage, program.steps);
  }
  std::stable_sort(order.begin(), order.end(), [&](const TimedStage* a, const TimedStage* b) {
    return Cost(*a, program.steps) > Cost(*b, program.steps);
  });
  char text[160];
  std::snprintf(text, sizeof text, ": %" PRIu64 " steps of %.1f us", program.steps, all);
  std::string table = OneLine(program.name) + text;
  std::snprintf(text, sizeof text, ", of which %.1f us threads wait\n", waiting);
  table += program.device_clock ? ", by the timestamps of the device\n" : text;
  table += GroupTable(program, all);
  table += program.device_clock
               ? "        us   runs       MiB    GB/s  kernel (of a step)\n"
               : "   busy us   wait us   runs       MiB    GB/s  kernel (means of the threads, a step)\n";
  for (const TimedStage* stage : order) {
    const double busy = MeanMicros(stage->busy, program.steps);
    const double runs = static_cast<double>(stage->runs) / static_cast<double>(program.steps);
    const double bytes = static_cast<double>(stage->weight_bytes) * runs;
    std::snprintf(text, sizeof text, "%10.1f", busy);
    table += text;
    std::snprintf(text, sizeof text, "%10.1f", MeanMicros(stage->waiting, program.steps));
    if (!program.device_clock) table += text;
    std::snprintf(text, sizeof text, "%7.4g%10.2f%8.1f  ", runs, bytes / 1048576,
                  busy > 0 ? bytes / busy / 1e3 : 0);
    table +=
        text + OneLine(stage->kernel.empty() ? "(a barrier alone)" : Shortened(stage->specification)) + "\n";
  }
  return table;
}

std::string JsonNumbers(const std::vector<double>& values) {
  std::string json = "[";
  char text[32];
  for (size_t i = 0; i < values.size(); ++i) {
    std::snprintf(text, sizeof text, "%s%.9f", i == 0 ? "" : ", ", values[i]);
    json += text;
  }
  return json + "]";
}

}  // namespace

Outcome ReadStageTimes(const Model& model, std::vector<TimedProgram>* out) {
  std::vector<TimedProgram> programs;
  std::vector<double> seconds;
  const size_t count = qrt_engine_stages(model.engine.get());
  for (size_t i = 0; i < count; ++i) {
    qrt_stage_info info = {};
    QRUN_RETURN_IF_ERROR(ReadStage(model, i, &info, &seconds));
    if (programs.empty() || programs.back().name != info.program)
      programs.push_back({info.program, 0, info.device_clock != 0, {}});
    TimedProgram& program = programs.back();
    if (info.kernel == nullptr && !program.stages.empty() && program.stages.back().waiting.empty()) {
      program.stages.back().waiting = seconds;
      continue;
    }
    TimedStage& stage = program.stages.emplace_back();
    stage.runs = info.runs;
    if (info.kernel == nullptr) {
      stage.waiting = seconds;
    } else {
      stage.kernel = info.kernel;
      stage.specification = info.specification;
      stage.group = info.group;
      stage.weight_bytes = info.weight_bytes;
      stage.busy = seconds;
    }
    // Once a step runs what no layer repeats.
    program.steps = program.steps == 0 ? info.runs : std::min(program.steps, info.runs);
  }
  std::erase_if(programs, [](const TimedProgram& program) { return program.steps == 0; });
  *out = std::move(programs);
  return Outcome();
}

std::string StageTables(const std::vector<TimedProgram>& programs) {
  std::string tables;
  for (const TimedProgram& program : programs) tables += "\n" + Table(program);
  return tables;
}

std::string StageJson(const std::vector<TimedProgram>& programs) {
  std::string json = "[";
  char text[96];
  for (size_t i = 0; i < programs.size(); ++i) {
    const TimedProgram& program = programs[i];
    json += (i == 0 ? "" : ", ") + ("{\"program\": " + Quoted(program.name));
    json += ", \"steps\": " + std::to_string(program.steps) +
            ", \"device_clock\": " + (program.device_clock ? "true" : "false") + ", \"stages\": [";
    for (size_t k = 0; k < program.stages.size(); ++k) {
      const TimedStage& stage = program.stages[k];
      std::snprintf(text, sizeof text, ", \"runs\": %" PRIu64 ", \"weight_bytes\": %" PRIu64, stage.runs,
                    stage.weight_bytes);
      json += (k == 0 ? "" : ", ") + ("{\"kernel\": " + Quoted(stage.kernel)) +
              ", \"specification\": " + Quoted(stage.specification) + ", \"group\": " + Quoted(stage.group) +
              text + ", \"busy_seconds\": " + JsonNumbers(stage.busy) +
              ", \"waiting_seconds\": " + JsonNumbers(stage.waiting) + "}";
    }
    json += "]}";
  }
  return json + "]";
}

}  // namespace qrun
