// qrt_session_*.
#include "runtime/capi/handles.h"

#include <algorithm>
#include <cstddef>

#include "runtime/engine/speculation.h"

using qrt::Batch;
using qrt::Code;
using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;
using qrt::capi::Ref;

namespace qrt::capi {
namespace {

constexpr uint64_t kDefaultContext = 4096;

Status Create(qrt_engine* engine, const qrt_session_options* options, qrt_session** out) {
  if (engine == nullptr) return NullArgument("engine");
  if (out == nullptr) return NullArgument("out");
  qrt_session_options read = {};
  QRT_RETURN_IF_ERROR(ReadOptions(options, offsetof(qrt_session_options, max_rewind), "options", &read));
  uint64_t tokens = read.context_tokens;
  if (tokens == 0) tokens = kDefaultContext;
  const uint64_t of_model = engine->engine->plan().context_length;
  if (read.context_tokens == 0 && of_model != 0) tokens = std::min(tokens, of_model);
  Owned<qrt_session> handle(NewHandle<qrt_session>(engine->services, engine));
  QRT_RETURN_IF_ERROR(
      handle->session.Init({tokens, read.max_rewind, read.draft, read.draft_tokens, read.tokens_ahead},
                           engine->services.allocator_or_null()));
  *out = handle.release();
  return Status();
}

Status Fork(const qrt_session* session, qrt_session** out) {
  if (session == nullptr) return NullArgument("session");
  if (out == nullptr) return NullArgument("out");
  qrt_engine* engine = session->engine.get();
  const qrt_allocator* allocator = engine->services.allocator_or_null();
  Owned<qrt_session> handle(NewHandle<qrt_session>(engine->services, engine));
  QRT_RETURN_IF_ERROR(handle->session.Init(session->session.options(), allocator));
  QRT_RETURN_IF_ERROR(handle->session.CopyOf(session->session, allocator));
  *out = handle.release();
  return Status();
}

Status TakeCheckpoint(qrt_session* session, qrt_checkpoint** out) {
  if (session == nullptr) return NullArgument("session");
  if (out == nullptr) return NullArgument("out");
  Owned<qrt_checkpoint> handle(NewHandle<qrt_checkpoint>(session->services, session));
  QRT_RETURN_IF_ERROR(handle->checkpoint.Take(session->services.allocator_or_null()));
  *out = handle.release();
  return Status();
}

Status Begin(qrt_session* session, const int32_t* tokens, size_t count, qrt_prefix* out) {
  if (session == nullptr) return NullArgument("session");
  QRT_RETURN_IF_ERROR(CheckPrefixes(*session->engine.get(), tokens, count));
  qrt_prefix prefix = {};
  if (out != nullptr) QRT_RETURN_IF_ERROR(CheckInfo(sizeof prefix, "prefix", out));
  PrefixStore::Found found;
  QRT_RETURN_IF_ERROR(session->engine->engine->prefixes()->Begin(session->session, {tokens, count}, &found));
  prefix.reused = found.reused;
  prefix.shared = found.shared;
  return out != nullptr ? WriteInfo(prefix, sizeof prefix, "prefix", out) : Status();
}

Status Keep(const qrt_session* session, const int32_t* tokens, size_t count, uint64_t* kept) {
  if (session == nullptr) return NullArgument("session");
  QRT_RETURN_IF_ERROR(CheckPrefixes(*session->engine.get(), tokens, count));
  uint64_t found = 0;
  QRT_RETURN_IF_ERROR(session->engine->engine->prefixes()->Keep(session->session, {tokens, count}, &found));
  if (kept != nullptr) *kept = found;
  return Status();
}

Status GenerateTokens(qrt_session* session, int32_t token, const qrt_generate_options* options,
                      int32_t* tokens, size_t capacity, size_t* count) {
  if (session == nullptr) return NullArgument("session");
  if (options == nullptr) return NullArgument("options");
  if (tokens == nullptr) return NullArgument("tokens");
  if (count == nullptr) return NullArgument("count");
  qrt_generate_options read = {};
  QRT_RETURN_IF_ERROR(ReadOptions(options, sizeof read, "options", &read));
  if (read.sampler == nullptr) return NullArgument("options->sampler");
  if (capacity == 0) {
    return Status(Code::kInvalidArgument, 5305, "capacity is 0, expected room for at least 1 token");
  }
  Generated generated;
  const Status status = Generate(session->session, token, read.sampler->sampler,
                                 {read.ends, read.agrees, read.ctx}, {tokens, capacity}, &generated);
  if (status.ok() || status.code() == Code::kNumericFault) *count = generated.tokens;
  session->steps += generated.tokens != 0;
  session->guessed += generated.guessed;
  session->accepted += generated.accepted;
  return status;
}

Status DescribeValue(const qrt_session& session, size_t index, qrt_layer_value* out) {
  const std::span<const TracedLayer> kept = session.engine->engine->values();
  if (index < kept.size()) {
    const TracedLayer& value = kept[index];
    *out = {0, value.role.c_str(), value.layer, value.values, ""};
    return Status();
  }
  size_t left = index - kept.size();
  for (const LostRole& role : session.engine->artifact->artifact->manifest().lost_roles) {
    if (left < role.layers.size()) {
      *out = {0, role.role.c_str(), role.layers[left], 0, role.into.c_str()};
      return Status();
    }
    left -= role.layers.size();
  }
  return Status(Code::kInvalidArgument, 5327,
                "value number " + std::to_string(index) + ": there are " + std::to_string(index - left));
}

}  // namespace
}  // namespace qrt::capi

extern "C" {

qrt_status qrt_session_create(qrt_engine* engine, const qrt_session_options* options, qrt_session** out,
                              qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Create(engine, options, out); });
}

qrt_status qrt_session_fork(const qrt_session* session, qrt_session** out, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Fork(session, out); });
}

void qrt_session_release(qrt_session* session) {
  Ref<qrt_session>::Drop(session);
}

uint64_t qrt_session_position(const qrt_session* session) {
  return session != nullptr ? session->session.position() : 0;
}

uint64_t qrt_session_capacity(const qrt_session* session) {
  return session != nullptr ? session->session.capacity() : 0;
}

qrt_status qrt_session_reset(qrt_session* session, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    QRT_RETURN_IF_ERROR(session->session.Reset());
    session->session.ForgetCancel();
    return Status();
  });
}

int32_t qrt_session_foreign(const qrt_session* session) {
  return session != nullptr && session->session.foreign() ? 1 : 0;
}

uint64_t qrt_session_rewindable(const qrt_session* session) {
  return session != nullptr ? session->session.rewindable() : 0;
}

qrt_status qrt_session_rewind(qrt_session* session, uint64_t tokens, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    return session->session.Rewind(tokens);
  });
}

qrt_status qrt_session_checkpoint(qrt_session* session, qrt_checkpoint** out, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::TakeCheckpoint(session, out); });
}

void qrt_checkpoint_release(qrt_checkpoint* checkpoint) {
  Ref<qrt_checkpoint>::Drop(checkpoint);
}

uint64_t qrt_checkpoint_position(const qrt_checkpoint* checkpoint) {
  return checkpoint != nullptr ? checkpoint->checkpoint.position() : 0;
}

uint64_t qrt_checkpoint_bytes(const qrt_checkpoint* checkpoint) {
  return checkpoint != nullptr ? checkpoint->checkpoint.bytes() : 0;
}

int32_t qrt_checkpoint_holds(const qrt_checkpoint* checkpoint) {
  return checkpoint != nullptr && checkpoint->checkpoint.holds() ? 1 : 0;
}

qrt_status qrt_session_rewind_to(qrt_session* session, const qrt_checkpoint* checkpoint, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    if (checkpoint == nullptr) return NullArgument("checkpoint");
    return session->session.RewindTo(checkpoint->checkpoint);
  });
}

qrt_status qrt_session_begin(qrt_session* session, const int32_t* tokens, size_t count, qrt_prefix* prefix,
                             qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Begin(session, tokens, count, prefix); });
}

qrt_status qrt_session_keep(const qrt_session* session, const int32_t* tokens, size_t count, uint64_t* kept,
                            qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Keep(session, tokens, count, kept); });
}

qrt_status qrt_session_append(qrt_session* session, const int32_t* tokens, size_t count,
                              const qrt_append_options* options, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    qrt_append_options read = {};
    read.want = QRT_LOGITS_LAST;
    QRT_RETURN_IF_ERROR(qrt::capi::ReadAppendOptions(options, &read));
    Batch batch(*session->engine->engine);
    QRT_RETURN_IF_ERROR(
        batch.Add(session->session, tokens, count, &read, qrt::capi::SamplerOf(read), read.next));
    return batch.Run();
  });
}

qrt_status qrt_session_generate(qrt_session* session, int32_t token, const qrt_generate_options* options,
                                int32_t* tokens, size_t capacity, size_t* count, qrt_error* error) {
  return Guard(error,
               [&] { return qrt::capi::GenerateTokens(session, token, options, tokens, capacity, count); });
}

qrt_status qrt_session_draft_counters(const qrt_session* session, qrt_draft_counters* out, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    qrt_draft_counters counters = {};
    counters.steps = session->steps;
    counters.guessed = session->guessed;
    counters.accepted = session->accepted;
    return qrt::capi::WriteInfo(counters, sizeof counters, "out", out);
  });
}

const float* qrt_session_logits(const qrt_session* session) {
  return session != nullptr ? session->session.logits() : nullptr;
}

void qrt_session_forget_cancel(qrt_session* session) {
  if (session != nullptr) session->session.ForgetCancel();
}

void qrt_session_cancel(qrt_session* session) {
  if (session != nullptr) session->session.Cancel();
}

size_t qrt_session_traced_layers(const qrt_session* session) {
  return session != nullptr ? session->engine->engine->traces().size() : 0;
}

qrt_status qrt_session_trace(const qrt_session* session, size_t index, qrt_layer_trace* out,
                             qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    qrt_layer_trace trace = {};
    QRT_RETURN_IF_ERROR(session->session.Trace(index, &trace));
    return qrt::capi::WriteInfo(trace, sizeof trace, "out", out);
  });
}

size_t qrt_session_values(const qrt_session* session) {
  if (session == nullptr) return 0;
  size_t count = session->engine->engine->values().size();
  for (const qrt::LostRole& role : session->engine->artifact->artifact->manifest().lost_roles) {
    count += role.layers.size();
  }
  return count;
}

qrt_status qrt_session_value(const qrt_session* session, size_t index, qrt_layer_value* out, float* row,
                             qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    qrt_layer_value value = {};
    QRT_RETURN_IF_ERROR(qrt::capi::DescribeValue(*session, index, &value));
    QRT_RETURN_IF_ERROR(qrt::capi::CheckInfo(sizeof value, "out", out));
    if (value.length != 0 && row != nullptr) QRT_RETURN_IF_ERROR(session->session.Value(index, row));
    return qrt::capi::WriteInfo(value, sizeof value, "out", out);
  });
}

uint64_t qrt_session_save_size(const qrt_session* session) {
  return session != nullptr ? session->session.SaveSize() : 0;
}

qrt_status qrt_session_save(const qrt_session* session, void* buffer, size_t capacity, size_t* written,
                            qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    const uint64_t size = session->session.SaveSize();
    if (written != nullptr) *written = size;
    if (capacity < size) {
      return Status(
          Code::kBufferTooSmall, 5312,
          "a snapshot of " + std::to_string(size) + " bytes into a buffer of " + std::to_string(capacity));
    }
    if (buffer == nullptr) return NullArgument("buffer");
    return session->session.Save(static_cast<uint8_t*>(buffer));
  });
}

qrt_status qrt_session_restore(qrt_session* session, const void* buffer, size_t size, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (session == nullptr) return NullArgument("session");
    if (buffer == nullptr) return NullArgument("buffer");
    return session->session.Restore(static_cast<const uint8_t*>(buffer), size);
  });
}

}  // extern "C"
