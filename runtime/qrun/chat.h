// What chatting and a single answer share.
#ifndef RUNTIME_QRUN_CHAT_H_
#define RUNTIME_QRUN_CHAT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/qrun/chat_prompt.h"
#include "runtime/qrun/dump.h"
#include "runtime/qrun/generation.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/prompt_cache.h"
#include "runtime/qrun/saved_session.h"

namespace qrun {

struct ChatFlags {
  std::optional<std::string> model, prompt, file, system, tools, timing, save_session, load_session;
  std::optional<int64_t> max_tokens, context, gpu_layers;
  bool raw = false;
  bool special = false;
  bool trace_layers = false;
  bool profile_stages = false;
  TemplateFlags as_template;
  EngineChoice engine;
  SamplingFlags sampling;
  Endings endings;
  DraftFlags draft;
  PromptCacheFlags prompt_cache;
  DumpFlags dump;
};

// Tokens of context for a prompt: --ctx, or what the answer may need, at most the model's own.
uint64_t ContextFor(const ChatFlags& flags, const qrt_artifact_info& info, size_t prompt_tokens);

// A session with what makes its answers, for a prompt of `most` tokens.
Outcome PrepareAnswers(const Model& model, const ChatFlags& flags, size_t most,
                       std::optional<Generator>* generator, uint64_t* seed);

// The tokens of `prompt` without a template. `first`: it begins the sequence.
Outcome RawPrompt(const qrt_text* text, const std::string& prompt, const ChatFlags& flags, bool first,
                  std::vector<int32_t>* tokens);

// Errors: also usage, where it was saved with --raw and is loaded without, or the other way round.
Outcome ReadSessionFor(const ChatFlags& flags, const std::string& path, SavedSession* saved);

// What the template is told where a conversation goes on from `saved`, which lies in `path`: what `flags`
// say, else what it was saved with. Warns where they say something else.
TemplateFlags GoesOnWith(const ChatFlags& flags, const std::string& path, const SavedSession& saved);

// Refuses an output of `option` that is a file which the chat reads. Errors: usage.
Outcome RefuseInputs(const std::string& option, const std::string& output, const ChatFlags& flags);

// Ends the line on which the answer stands, where both it and the error are seen on a terminal.
void EndLineBeforeError(const Answer& answer);

// A chat on a terminal, to its end.
Outcome Converse(const Model& model, const ChatFlags& flags);

}  // namespace qrun

#endif  // RUNTIME_QRUN_CHAT_H_
