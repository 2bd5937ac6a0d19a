// qrt_sampler_*.
#include "runtime/engine/sampler.h"

#include <vector>

#include "runtime/abi/tokenizer.h"
#include "runtime/capi/handles.h"

using qrt::Result;
using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;
using qrt::capi::Ref;

namespace qrt::capi {
namespace {

SamplerOptions DefaultsOf(const SamplingInfo& info) {
  SamplerOptions options;
  options.temperature = info.temperature.value_or(options.temperature);
  options.top_k = info.top_k.value_or(options.top_k);
  options.top_p = info.top_p.value_or(options.top_p);
  options.min_p = info.min_p.value_or(options.min_p);
  options.repeat_penalty = info.repeat_penalty.value_or(options.repeat_penalty);
  options.presence_penalty = info.presence_penalty.value_or(options.presence_penalty);
  options.frequency_penalty = info.frequency_penalty.value_or(options.frequency_penalty);
  options.penalty_window = info.penalty_window.value_or(options.penalty_window);
  return options;
}

qrt_sampler_options ToC(const SamplerOptions& options) {
  qrt_sampler_options c = {};
  c.struct_size = sizeof c;
  c.temperature = options.temperature;
  c.top_k = options.top_k;
  c.top_p = options.top_p;
  c.min_p = options.min_p;
  c.repeat_penalty = options.repeat_penalty;
  c.presence_penalty = options.presence_penalty;
  c.frequency_penalty = options.frequency_penalty;
  c.penalty_window = options.penalty_window;
  c.seed = options.seed;
  return c;
}

SamplerOptions FromC(const qrt_sampler_options& c) {
  SamplerOptions options;
  options.temperature = c.temperature;
  options.top_k = c.top_k;
  options.top_p = c.top_p;
  options.min_p = c.min_p;
  options.repeat_penalty = c.repeat_penalty;
  options.presence_penalty = c.presence_penalty;
  options.frequency_penalty = c.frequency_penalty;
  options.penalty_window = c.penalty_window;
  options.seed = c.seed;
  return options;
}

// For Sampler::Create: what the vocabulary says, and all tokens where there is none.
std::vector<uint32_t> ChoosableTokens(const Artifact& artifact) {
  const uint32_t vocab_size = artifact.manifest().model.vocab_size;
  std::vector<uint32_t> words;
  if (!artifact.tokenizer()) return words;
  words.resize((size_t{vocab_size} + 31) / 32);
  const TokenizerTables& tables = *artifact.tokenizer();
  if (qrt_choosable_tokens(tables.types.data(), tables.n_tokens, words.data()) == vocab_size) words.clear();
  return words;
}

Status Create(const qrt_artifact* artifact, const qrt_sampler_options* options, qrt_sampler** out) {
  if (artifact == nullptr) return NullArgument("artifact");
  if (out == nullptr) return NullArgument("out");
  const Manifest& manifest = artifact->artifact->manifest();
  qrt_sampler_options read = ToC(DefaultsOf(manifest.sampling));
  QRT_RETURN_IF_ERROR(ReadOptions(options, sizeof read, "options", &read));
  Result<Sampler> sampler =
      Sampler::Create(manifest.model.vocab_size, FromC(read), ChoosableTokens(*artifact->artifact));
  if (!sampler.ok()) return sampler.status();
  *out = NewHandle<qrt_sampler>(artifact->services, std::move(*sampler));
  return Status();
}

}  // namespace
}  // namespace qrt::capi

extern "C" {

qrt_status qrt_sampler_defaults(const qrt_artifact* artifact, qrt_sampler_options* options,
                                qrt_error* error) {
  return Guard(error, [&] {
    if (artifact == nullptr) return NullArgument("artifact");
    const qrt_sampler_options defaults =
        qrt::capi::ToC(qrt::capi::DefaultsOf(artifact->artifact->manifest().sampling));
    return qrt::capi::WriteInfo(defaults, sizeof defaults, "options", options);
  });
}

qrt_status qrt_sampler_create(const qrt_artifact* artifact, const qrt_sampler_options* options,
                              qrt_sampler** out, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Create(artifact, options, out); });
}

void qrt_sampler_release(qrt_sampler* sampler) {
  Ref<qrt_sampler>::Drop(sampler);
}

qrt_status qrt_sampler_sample(qrt_sampler* sampler, const float* logits, size_t vocab_size, int32_t* token,
                              qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (sampler == nullptr) return NullArgument("sampler");
    if (logits == nullptr) return NullArgument("logits");
    if (token == nullptr) return NullArgument("token");
    return sampler->sampler.Sample({logits, vocab_size}, token);
  });
}

void qrt_sampler_accept(qrt_sampler* sampler, int32_t token) {
  if (sampler != nullptr) sampler->sampler.Accept(token);
}

void qrt_sampler_seek(qrt_sampler* sampler, uint64_t position) {
  if (sampler != nullptr) sampler->sampler.Seek(position);
}

void qrt_sampler_reset(qrt_sampler* sampler) {
  if (sampler != nullptr) sampler->sampler.Reset();
}

}  // extern "C"
