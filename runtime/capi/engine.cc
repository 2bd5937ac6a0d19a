// qrt_engine_*.
#include <algorithm>
#include <cmath>

#include "runtime/base/cpu_features.h"
#include "runtime/base/hash.h"
#include "runtime/capi/handles.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/cpu/topology.h"

using qrt::Batch;
using qrt::Code;
using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;
using qrt::capi::Ref;

namespace qrt::capi {
namespace {

// The embedder's threads.
class InjectedWorkers final : public Workers {
 public:
  InjectedWorkers(const qrt_thread_pool& pool, uint32_t threads) : pool_(pool), threads_(threads) {}
  uint32_t threads() const override { return threads_; }
  bool Run(PoolTask task, void* arg) override { return pool_.run(pool_.ctx, threads_, task, arg) == 0; }

 private:
  const qrt_thread_pool pool_;
  const uint32_t threads_;
};

Result<std::unique_ptr<Workers>> MakeWorkers(const qrt_engine_options& options) {
  uint32_t threads = options.threads;
  if (threads > QRT_MAX_THREADS) {
    return Status(Code::kInvalidArgument, 5303,
                  std::to_string(threads) + " threads, expected at most " + std::to_string(QRT_MAX_THREADS));
  }
  const CpuTopology topology = DetectCpuTopology();
  if (threads == 0) threads = std::min(topology.physical, QRT_MAX_THREADS);
  if (options.thread_pool != nullptr) {
    if (options.thread_pool->run == nullptr) return NullArgument("thread_pool->run");
    return std::unique_ptr<Workers>(new InjectedWorkers(*options.thread_pool, threads));
  }
  std::unique_ptr<Workers> pool = ThreadPool::Create(threads, topology.logical);
  if (pool == nullptr) {
    return Status(Code::kOutOfMemory, 5006, "the system refuses " + std::to_string(threads) + " threads", "",
                  "ask for fewer threads, or raise the process's limit");
  }
  return pool;
}

void LogChoice(const Services& services, const Artifact& artifact, const qrt_engine& engine) {
  if (!services.log) return;
  const Manifest& manifest = artifact.manifest();
  const CpuFeatures cpu = CpuFeatures::Detect();
  for (size_t i = 0; i < engine.variant; ++i) {
    std::string missing;
    for (const std::string& name : cpu.Missing(manifest.code[i].features)) missing += " " + name;
    if (manifest.code[i].target == "cpu" && !missing.empty()) {
      Log(services, QRT_LOG_INFO, "code " + manifest.code[i].isa + " left out: this CPU lacks" + missing);
    }
  }
  Log(services, QRT_LOG_INFO,
      "code " + manifest.code[engine.variant].isa + ", " + std::to_string(engine.engine->device().threads()) +
          " threads, " + std::to_string(engine.engine->memory_bytes()) + " bytes of scratch");
}

Status Create(qrt_artifact* artifact, const qrt_engine_options* options, qrt_engine** out) {
  if (artifact == nullptr) return NullArgument("artifact");
  if (out == nullptr) return NullArgument("out");
  qrt_engine_options read = {};
  QRT_RETURN_IF_ERROR(ReadOptions(options, sizeof read, "options", &read));
  Services services = artifact->services;
  if (read.allocator != nullptr) services.allocator = *read.allocator;
  if (read.log != nullptr) services.log = *read.log;

  const Artifact& file = *artifact->artifact;
  Result<size_t> variant =
      ChooseCode(file.manifest(), CpuFeatures::Detect(), read.cpu != nullptr ? read.cpu : "");
  if (!variant.ok()) return variant.status();
  Result<ModelPlan> plan = PlanOf(file.manifest(), file.identity());
  if (!plan.ok()) return plan.status();
  Result<std::unique_ptr<Workers>> workers = MakeWorkers(read);
  if (!workers.ok()) return workers.status();
  Result<std::unique_ptr<CpuDevice>> device =
      CpuDevice::Create(file, *variant, std::move(*workers), services.allocator_or_null());
  if (!device.ok()) return device.status();

  Owned<qrt_engine> handle(NewHandle<qrt_engine>(services, artifact));
  handle->variant = *variant;
  QRT_RETURN_IF_ERROR(
      Engine::Create(std::move(*plan), std::move(*device), services.allocator_or_null(), &handle->engine));
  LogChoice(services, file, *handle);
  *out = handle.release();
  return Status();
}

Status Describe(const qrt_engine& engine, qrt_engine_info* out) {
  qrt_engine_info info = {};
  info.threads = engine.engine->device().threads();
  info.cpu = engine.artifact->artifact->manifest().code[engine.variant].isa.c_str();
  info.max_step_rows = engine.engine->schedule().max_rows();
  info.vocab_size = engine.engine->plan().vocab_size;
  info.memory_bytes = engine.engine->memory_bytes();
  info.code_bytes = engine.engine->device().code_bytes();
  return WriteInfo(info, sizeof info, "info", out);
}

// Compares rows as they come.
struct GoldenRun {
  const Goldens& goldens;
  qrt_check_report report;
  size_t next_row = 0;
};

int32_t CompareRow(void* ctx, qrt_session*, uint64_t position, const float* logits, size_t vocab_size) {
  GoldenRun& run = *static_cast<GoldenRun*>(ctx);
  if (run.next_row == run.goldens.rows.size() || run.goldens.rows[run.next_row].position != position)
    return 0;
  const GoldenRow& row = run.goldens.rows[run.next_row++];
  if (row.logits_hash != Hash128{}) {
    ++run.report.hashed_rows;
    const Hash128 hash = HashOf({reinterpret_cast<const uint8_t*>(logits), vocab_size * sizeof(float)});
    run.report.exact_rows += hash == row.logits_hash;
  }
  for (size_t i = 0; i < row.ids.size(); ++i) {
    const float difference =
        row.ids[i] < vocab_size ? std::fabs(logits[row.ids[i]] - row.values[i]) : INFINITY;
    // A NaN must stay visible: it fails every comparison.
    if (!(difference <= run.report.max_difference)) run.report.max_difference = difference;
    if (!(difference <= run.report.tolerance)) run.report.passed = 0;
    ++run.report.values;
  }
  return 0;
}

Status Check(qrt_engine& engine, qrt_check_report* out) {
  const std::optional<Goldens>& goldens = engine.artifact->artifact->goldens();
  if (!goldens) {
    return Status(Code::kUnavailable, 5332, "the artifact carries no golden values",
                  engine.artifact->artifact->path());
  }
  GoldenRun run = {*goldens, {}, 0};
  run.report.passed = 1;
  run.report.tokens = static_cast<uint32_t>(goldens->tokens.size());
  run.report.tolerance = goldens->tolerance;
  Session session(*engine.engine, nullptr);
  QRT_RETURN_IF_ERROR(
      session.Init(std::max<size_t>(1, goldens->tokens.size()), engine.services.allocator_or_null()));
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = QRT_LOGITS_ALL;
  options.on_logits = CompareRow;
  options.ctx = &run;
  Batch batch(*engine.engine);
  QRT_RETURN_IF_ERROR(batch.Add(session, goldens->tokens.data(), goldens->tokens.size(), &options));
  QRT_RETURN_IF_ERROR(batch.Run());
  if (run.next_row != goldens->rows.size()) run.report.passed = 0;
  return WriteInfo(run.report, sizeof run.report, "report", out);
}

}  // namespace
}  // namespace qrt::capi

extern "C" {

qrt_status qrt_engine_create(qrt_artifact* artifact, const qrt_engine_options* options, qrt_engine** out,
                             qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Create(artifact, options, out); });
}

void qrt_engine_release(qrt_engine* engine) {
  Ref<qrt_engine>::Drop(engine);
}

qrt_status qrt_engine_describe(const qrt_engine* engine, qrt_engine_info* info, qrt_error* error) {
  return Guard(
      error, [&] { return engine == nullptr ? NullArgument("engine") : qrt::capi::Describe(*engine, info); });
}

qrt_status qrt_engine_check(qrt_engine* engine, qrt_check_report* report, qrt_error* error) {
  return Guard(
      error, [&] { return engine == nullptr ? NullArgument("engine") : qrt::capi::Check(*engine, report); });
}

qrt_status qrt_engine_append(qrt_engine* engine, const qrt_batch_item* items, size_t count,
                             qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (engine == nullptr) return NullArgument("engine");
    if (items == nullptr && count != 0) return NullArgument("items");
    Batch batch(*engine->engine);
    for (size_t i = 0; i < count; ++i) {
      const auto named = [i](const Status& status) {
        return Status(status.code(), status.number(), status.message(), "item " + std::to_string(i),
                      status.help());
      };
      if (items[i].session == nullptr) return named(NullArgument("session"));
      qrt_append_options options = {};
      const Status read = qrt::capi::ReadOptions(&items[i].options, sizeof options, "options", &options);
      if (!read.ok()) return named(read);
      const Status added = batch.Add(items[i].session->session, items[i].tokens, items[i].count, &options);
      if (!added.ok()) return named(added);
    }
    return batch.Run();
  });
}

}  // extern "C"
