// qrt_engine_*.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "runtime/artifact/stage_group.h"
#include "runtime/base/hash.h"
#include "runtime/capi/devices.h"
#include "runtime/capi/handles.h"

using qrt::Batch;
using qrt::Code;
using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;
using qrt::capi::Ref;

namespace qrt::capi {
namespace {

// What the tokenizers of two artifacts are told apart by.
Hash128 TokenizerHash(const Artifact& artifact) {
  const std::optional<TokenizerInfo>& tokenizer = artifact.manifest().tokenizer;
  return tokenizer ? artifact.sections()[tokenizer->section].hash : Hash128();
}

// `draft`, which guesses for the model of `handle`: its NextN block, or a model by itself.
Status LinkDraft(qrt_artifact* draft, qrt_engine_options read, qrt_engine& handle) {
  const Artifact &file = *draft->artifact, &model = *handle.artifact->artifact;
  const auto differs = [&](const std::string& what) {
    return Status(Code::kArtifactIncompatible, 5335, what, file.path(),
                  "use the draft that was made of this model, or a smaller model with the same tokenizer");
  };
  if (file.part_count() != 1) return differs("the draft is cut into parts, expected one");
  Result<ModelPlan> plan = PlanOf(file.manifest(), file.identity());
  if (!plan.ok()) return plan.status();
  const bool by_itself = !Schedule(plan->programs).empty();
  if (!by_itself && file.manifest().model.arch != model.manifest().model.arch) {
    return differs("the draft is of architecture " + file.manifest().model.arch + ", the model of " +
                   model.manifest().model.arch);
  }
  if (TokenizerHash(file) != TokenizerHash(model))
    return differs("the draft has another tokenizer than the model");
  if (model.part_count() != 1) read.device = nullptr;
  Result<std::vector<ChosenDevice>> chosen = MakeDevices(file, read, handle.services);
  if (!chosen.ok()) return chosen.status();
  Engine::Part part = {std::move(*plan), std::move(chosen->front().device)};
  const qrt_allocator* allocator = handle.services.allocator_or_null();
  Status linked;
  if (by_itself) {
    std::unique_ptr<Engine> second;
    linked = Engine::Create(std::move(part.plan), std::move(part.device), allocator, &second);
    if (linked.ok()) handle.engine->Link(std::move(second));
  } else {
    linked = handle.engine->Link(std::move(part), allocator);
  }
  if (!linked.ok()) {
    return Status(linked.code(), linked.number(), linked.message(), file.path(), linked.help());
  }
  handle.draft.emplace(draft);
  return Status();
}

Status Create(qrt_artifact* artifact, const qrt_engine_options* options, qrt_engine** out) {
  if (artifact == nullptr) return NullArgument("artifact");
  if (out == nullptr) return NullArgument("out");
  qrt_engine_options read = {};
  QRT_RETURN_IF_ERROR(ReadOptions(options, offsetof(qrt_engine_options, device), "options", &read));
  Services services = artifact->services;
  QRT_RETURN_IF_ERROR(TakeServices(read.allocator, read.log, &services));

  services.pool_turn = std::make_shared<std::mutex>();

  const Artifact& file = *artifact->artifact;
  std::vector<Engine::Part> parts;
  for (size_t i = 0; i < file.part_count(); ++i) {
    Result<ModelPlan> plan = PlanOf(file.part(i).manifest(), file.identity());
    if (!plan.ok()) return plan.status();
    parts.push_back({std::move(*plan), nullptr});
  }
  Result<std::vector<ChosenDevice>> chosen = MakeDevices(file, read, services);
  if (!chosen.ok()) return chosen.status();

  Owned<qrt_engine> handle(NewHandle<qrt_engine>(services, artifact));
  bool alike = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    ChosenDevice& device = (*chosen)[i];
    parts[i].device = std::move(device.device);
    alike = alike && parts[i].device->variant() == parts[0].device->variant();
    handle->devices += (i == 0 ? "" : " + ") + parts[i].device->name();
    handle->passed_over += device.passed_over;
  }
  for (size_t i = 0; i < (alike ? 1 : parts.size()); ++i) {
    handle->variants += (i == 0 ? "" : " + ") + parts[i].device->variant();
  }
  QRT_RETURN_IF_ERROR(Engine::Create(std::move(parts), services.allocator_or_null(), &handle->engine));
  if (read.draft != nullptr) QRT_RETURN_IF_ERROR(LinkDraft(read.draft, read, *handle));
  if (read.prefix_bytes != 0) handle->engine->KeepPrefixes(read.prefix_bytes, services.allocator_or_null());
  *out = handle.release();
  return Status();
}

Status Describe(const qrt_engine& engine, qrt_engine_info* out) {
  const EngineCounters counters = engine.engine->counters();
  qrt_engine_info info = {};
  for (size_t i = 0; i < engine.engine->part_count(); ++i) {
    const Device& device = engine.engine->device(i);
    info.threads = std::max(info.threads, device.threads());
    info.code_bytes += device.code_bytes();
    info.device_weight_bytes += device.device_weight_bytes();
  }
  info.cpu = engine.variants.c_str();
  info.max_step_rows = engine.engine->schedule().max_rows();
  info.vocab_size = engine.engine->plan().vocab_size;
  info.memory_bytes = engine.engine->memory_bytes();
  info.device = engine.devices.c_str();
  info.samples_on_device = engine.engine->device().samples();
  info.submissions = counters.submissions;
  info.bytes_to_host = counters.bytes_to_host;
  info.cpu_steps = counters.cpu_steps;
  info.step_threads = counters.step_threads;
  info.passed_over = engine.passed_over.c_str();
  info.parts = engine.engine->part_count();
  info.transfers = counters.transfers;
  info.bytes_transferred = counters.bytes_transferred;
  info.drafts = engine.engine->drafts();
  if (const PrefixStore* prefixes = engine.engine->prefixes()) {
    const PrefixStore::Counters kept = prefixes->counters();
    info.prefix_bytes = kept.bytes;
    info.prefixes = kept.prefixes;
    info.prefix_hits = kept.hits;
    info.prefix_tokens = kept.reused;
  }
  return WriteInfo(info, offsetof(qrt_engine_info, device), "info", out);
}

// Compares rows as they come.
struct GoldenRun {
  const Goldens& goldens;
  qrt_check_report report;
  size_t next_row = 0;
  double squares = 0;  // sum of all differences' squares
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
    run.squares += static_cast<double>(difference) * difference;
    ++run.report.values;
  }
  return 0;
}

Status Check(qrt_engine& engine, qrt_check_report* out) {
  constexpr size_t kFirstSize = offsetof(qrt_check_report, rms_difference);
  QRT_RETURN_IF_ERROR(CheckInfo(kFirstSize, "report", out));
  const std::optional<Goldens>& goldens = engine.artifact->artifact->goldens();
  if (!goldens) {
    return Status(Code::kUnavailable, 5332, "the artifact carries no golden values",
                  engine.artifact->artifact->path());
  }
  GoldenRun run = {*goldens, {}};
  run.report.passed = 1;
  run.report.tokens = static_cast<uint32_t>(goldens->tokens.size());
  run.report.tolerance = goldens->tolerance;
  run.report.rms_tolerance = goldens->rms_tolerance;
  Session session(*engine.engine, nullptr);
  QRT_RETURN_IF_ERROR(
      session.Init({std::max<size_t>(1, goldens->tokens.size())}, engine.services.allocator_or_null()));
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = QRT_LOGITS_ALL;
  options.on_logits = CompareRow;
  options.ctx = &run;
  Batch batch(*engine.engine);
  QRT_RETURN_IF_ERROR(batch.Add(session, goldens->tokens.data(), goldens->tokens.size(), &options));
  QRT_RETURN_IF_ERROR(batch.Run());
  if (run.report.values > 0) {
    run.report.rms_difference = std::sqrt(run.squares / run.report.values);
  }
  if (run.next_row != goldens->rows.size() || !(run.report.rms_difference <= run.report.rms_tolerance)) {
    run.report.passed = 0;
  }
  return WriteInfo(run.report, kFirstSize, "report", out);
}

size_t StageCount(const qrt_engine& engine, size_t part) {
  if (!engine.engine->times_stages(part)) return 0;
  const size_t own = engine.engine->device(part).stages().size();
  return own != 0 ? own : engine.artifact->artifact->part(part).manifest().stages.size();
}

// Of a part's device that has code of its own. What the strings point to is the engine's.
qrt_stage_info DeviceStageInfo(const qrt_engine& engine, size_t part, size_t stage) {
  const DeviceStage& found = engine.engine->device(part).stages()[stage];
  qrt_stage_info info = {};
  info.program = found.program.c_str();
  info.kernel = found.kernel.c_str();
  info.specification = found.specification.c_str();
  info.group = found.is_head ? kHeadGroup : StageGroup(found.specification);
  info.weight_bytes = found.weight_bytes;
  return info;
}

// Of CPU code, whose stages the manifest lists.
qrt_stage_info ListedStageInfo(const qrt_engine& engine, size_t part, size_t stage) {
  const Artifact& file = *engine.artifact->artifact;
  const Manifest& manifest = file.part(part).manifest();
  const auto specification = [&](const StageInfo& of) -> const char* {
    return of.kernel < 0 ? nullptr
                         : file.manifest().kernels[static_cast<size_t>(of.kernel)].specification.c_str();
  };
  const StageInfo& found = manifest.stages[stage];
  const ProgramInfo& program = manifest.programs[found.program];
  qrt_stage_info info = {};
  info.program = program.name.c_str();
  info.weight_bytes = found.weight_bytes;
  if (found.kernel < 0) return info;
  info.kernel = file.manifest().kernels[static_cast<size_t>(found.kernel)].name.c_str();
  info.specification = specification(found);
  info.group = StageGroup(info.specification);
  if (!program.facts.gives_logits() || !IsLinear(info.specification)) return info;
  // The last linear of a program that gives logits makes them.
  const auto behind = [&](size_t i) {
    const StageInfo& other = manifest.stages[i];
    return other.program == found.program && other.kernel >= 0 && IsLinear(specification(other));
  };
  for (size_t i = stage + 1; i < manifest.stages.size(); ++i) {
    if (behind(i)) return info;
  }
  info.group = kHeadGroup;
  return info;
}

Status DescribeStage(const qrt_engine& engine, size_t index, uint32_t thread, qrt_stage_info* out) {
  size_t part = 0, stage = index;
  for (; part < engine.engine->part_count(); ++part) {
    const size_t count = StageCount(engine, part);
    if (stage < count) break;
    stage -= count;
  }
  if (part == engine.engine->part_count()) {
    return Status(Code::kInvalidArgument, 5338,
                  "stage " + std::to_string(index) + ": there are " + std::to_string(index - stage), "",
                  "qrt_engine_time_stages starts their clocks, qrt_engine_stages says how many there are");
  }
  const uint32_t threads = engine.engine->device(part).threads();
  if (thread >= threads) {
    return Status(Code::kInvalidArgument, 5338,
                  "thread " + std::to_string(thread) + ": there are " + std::to_string(threads), "",
                  "ask for fewer than qrt_stage_info.threads");
  }
  const bool own = !engine.engine->device(part).stages().empty();
  qrt_stage_info info = own ? DeviceStageInfo(engine, part, stage) : ListedStageInfo(engine, part, stage);
  info.threads = threads;
  info.device_clock = own;
  const StageTime time = engine.engine->StageTimeOf(part, thread, stage);
  info.runs = time.runs;
  info.seconds = time.seconds;
  return WriteInfo(info, sizeof info, "info", out);
}

const qrt_batch_item& ItemAt(const qrt_batch_item* items, size_t stride, size_t i) {
  return *reinterpret_cast<const qrt_batch_item*>(reinterpret_cast<const char*>(items) + i * stride);
}

// Runs the batch of these items. A fault of one names it.
Status RunNaming(Batch& batch, const qrt_batch_item* items, size_t count, size_t stride) {
  Status status = batch.Run();
  if (status.code() != Code::kNumericFault) return status;
  size_t i = 0;
  while (i < count && &ItemAt(items, stride, i).session->session != batch.faulty()) ++i;
  return Status(status.code(), status.number(), status.message(),
                "item " + std::to_string(i) + ", " + status.note(), status.help());
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

qrt_status qrt_engine_pin_prefix(qrt_engine* engine, const int32_t* tokens, size_t count, uint64_t* pinned,
                                 qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (engine == nullptr) return NullArgument("engine");
    if (pinned == nullptr) return NullArgument("pinned");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckPrefixes(*engine, tokens, count));
    *pinned = engine->engine->prefixes()->Pin({tokens, count});
    return Status();
  });
}

qrt_status qrt_engine_unpin_prefix(qrt_engine* engine, const int32_t* tokens, size_t count,
                                   qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (engine == nullptr) return NullArgument("engine");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckPrefixes(*engine, tokens, count));
    return engine->engine->prefixes()->Unpin({tokens, count});
  });
}

qrt_status qrt_engine_time_stages(qrt_engine* engine, qrt_error* error) {
  return Guard(error,
               [&] { return engine == nullptr ? NullArgument("engine") : engine->engine->TimeStages(); });
}

size_t qrt_engine_stages(const qrt_engine* engine) {
  size_t count = 0;
  for (size_t i = 0; engine != nullptr && i < engine->engine->part_count(); ++i) {
    count += qrt::capi::StageCount(*engine, i);
  }
  return count;
}

qrt_status qrt_engine_stage(const qrt_engine* engine, size_t index, uint32_t thread, qrt_stage_info* info,
                            qrt_error* error) {
  return Guard(error, [&] {
    return engine == nullptr ? NullArgument("engine")
                             : qrt::capi::DescribeStage(*engine, index, thread, info);
  });
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
    if (count == 0) return Status();
    // The caller's items are as large as the options in them were when its header was made.
    const size_t options_size = items[0].options.struct_size;
    const size_t stride = offsetof(qrt_batch_item, options) + options_size;
    Batch batch(*engine->engine);
    for (size_t i = 0; i < count; ++i) {
      const auto named = [i](const Status& status) {
        return Status(status.code(), status.number(), status.message(), "item " + std::to_string(i),
                      status.help());
      };
      const qrt_batch_item& item = qrt::capi::ItemAt(items, stride, i);
      // Before anything else is read: with another size this is not where the item ends.
      if (options_size % alignof(qrt_append_options) != 0 || item.options.struct_size != options_size) {
        return named(qrt::capi::BadStructSize("options", item.options.struct_size, options_size));
      }
      qrt_append_options options = {};
      const Status read = qrt::capi::ReadAppendOptions(&item.options, &options);
      if (!read.ok()) return named(read);
      if (item.session == nullptr) return named(NullArgument("session"));
      const Status added = batch.Add(item.session->session, item.tokens, item.count, &options,
                                     qrt::capi::SamplerOf(options), options.next);
      if (!added.ok()) return named(added);
    }
    return qrt::capi::RunNaming(batch, items, count, stride);
  });
}

}  // extern "C"
