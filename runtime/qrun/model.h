// What every subcommand that runs a model starts with.
#ifndef RUNTIME_QRUN_MODEL_H_
#define RUNTIME_QRUN_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/qrun/gguf_model.h"
#include "runtime/qrun/handles.h"
#include "runtime/qrun/options.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// What every command takes: how much is said on stderr besides errors.
struct Verbosity {
  bool quiet = false, verbose = false;

  void AddTo(Options& options);
  // "qrun: warning: ..." unless quiet.
  void Warn(const std::string& text) const;
};

// Options for choosing device, threads and code, shared by the subcommands.
struct EngineChoice {
  std::optional<int64_t> threads;
  std::optional<std::string> cpu, device, cache_dir;
  std::vector<std::string> compile;  // qcc's options, for a GGUF
  std::string draft;                 // artifact of qcc compile --draft that drafts for the model; empty: none
  bool no_cache = false;
  std::optional<double> max_dispatch_ms;
  Verbosity said;
  bool several_devices = false;  // one choice for the engines of several kinds of device

  void AddTo(Options& options);
  // Those alone that a command needs which opens an artifact and runs nothing.
  void AddOpeningTo(Options& options);
  // The code variant that --cpu names; null: the best. `native`, as qcc calls that, is none of an artifact.
  const char* code() const { return cpu && *cpu != "native" ? cpu->c_str() : nullptr; }
  std::string CacheFolder() const;  // the AOT cache's; empty: nothing is kept
  // One sentence for each option that was given and means nothing on these devices ("cpu", "cpu + vulkan:0
  // (...)").
  std::vector<std::string> WithoutEffectOn(std::string_view devices) const;
};

struct Model {
  ArtifactPtr artifact;
  EnginePtr engine;
  TextPtr text;  // empty unless asked for
  qrt_artifact_info info = {};
  double load_seconds = 0;  // opening, verifying, making the engine
  Verbosity said;           // as it was opened
};

// The artifact behind what the command line names: itself, or what qcc made of a GGUF (gguf_model.h).
// `options`: which have parsed `choice`. Errors: as of CompiledModel; usage (qcc's options, and no GGUF); of
// a GGUF, before it is compiled: of OpenArtifact, for the draft, and of device_choice.h, for the device.
Outcome FindModel(const std::string& named, const EngineChoice& choice, const Options& options,
                  ModelFile* out);
// Refuses an output of `option` that is a file of the model, or one that qcc's options name. Errors: usage.
Outcome RefuseModel(const std::string& option, const std::string& output, const std::string& named,
                    const EngineChoice& choice);
Outcome OpenArtifact(const std::string& path, bool verbose, ArtifactPtr* out, qrt_artifact_info* info);
Outcome OpenText(const Model& model, TextPtr* out);
Outcome OpenModel(const std::string& path, const EngineChoice& choice, bool with_text, Model* out);
Outcome DescribeEngine(const Model& model, qrt_engine_info* out);
// That steps ran on so far.
double MeanThreads(const qrt_engine_info& engine);
// "2 threads", and how many steps had of them where that is fewer.
std::string ThreadsText(const qrt_engine_info& engine);
// `draft`: who guesses tokens, and how many at once.
struct Drafting {
  qrt_draft draft = QRT_DRAFT_NONE;
  uint32_t tokens = 0;
  uint32_t ahead = QRT_TOKENS_AHEAD_AUTO;  // without a draft: tokens that a GPU decodes at a time
};
// Warns where a sequence of so many tokens, of which `history` are no more than history, is longer than what
// the model was made for: nobody knows how it fares there.
void WarnOfContext(const Model& model, uint64_t tokens, uint64_t history = 0);
Outcome NewSession(const Model& model, uint64_t context_tokens, SessionPtr* out, Drafting draft = {});

// Takes the highest logit, without penalties, whatever the model recommends.
Outcome GreedySampler(const Model& model, SamplerPtr* out);
// Draws among the 40 highest, as many programs do unless they are told otherwise.
Outcome DrawingSampler(const Model& model, SamplerPtr* out);

// Ids of a text.
Outcome Tokenize(const qrt_text* text, std::string_view utf8, bool special, std::vector<int32_t>* out,
                 bool as_written = false);

}  // namespace qrun

#endif  // RUNTIME_QRUN_MODEL_H_
