// `qrun MODEL.qbin`: its options, and one answer to one prompt.
#include "runtime/qrun/chat.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>

#include "runtime/qrun/chat_prompt.h"
#include "runtime/qrun/commands.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

// A context for which nobody has to think about --ctx in everyday use; KV becomes resident only as it fills.
constexpr uint64_t kUsualContext = 8192;

// The prompt for `turns`, as the model's template makes it.
Outcome Render(const Model& model, const std::vector<Turn>& turns, const qrt_chat_options& options,
               std::vector<int32_t>* tokens) {
  const Messages messages(turns);
  return EncodeChat(
      [&](int32_t* out, size_t capacity, size_t* count, qrt_error* error) {
        return qrt_text_encode_chat(model.text.get(), messages.data(), messages.size(), &options, out,
                                    capacity, count, error);
      },
      tokens);
}

// "[]", however it is spaced: somebody says that there are no tools.
bool AreNoTools(const std::string& json) {
  std::string written;
  std::copy_if(json.begin(), json.end(), std::back_inserter(written),
               [](char c) { return std::string_view(" \t\r\n").find(c) == std::string_view::npos; });
  return written == "[]";
}

// Warns of what the template is told and makes nothing of: the model would never hear of it, and nobody
// would know. What cannot be rendered is told by the prompt itself. Errors: silent, where a signal came.
Outcome WarnOfUnread(const Model& model, const ChatFlags& flags, const SavedSession& saved) {
  const TemplateFlags& told = flags.as_template;
  TemplateFlags without = told, otherwise = told;
  without.tools.clear();
  otherwise.think = told.think == "on" ? "off" : "on";
  const struct {
    bool given;
    const TemplateFlags* other;
    const char* warning;
  } rows[] = {{flags.tools && !AreNoTools(told.tools), &without,
               "--tools has no effect: the model's chat template makes the same prompt without them"},
              {told.think.has_value(), &otherwise,
               "--think has no effect: the model's chat template makes the same prompt with on and off"}};
  std::vector<Turn> turns;
  if (flags.system) turns.push_back({"system", *flags.system});
  if (!saved.turns.empty() && std::string_view(saved.turns[0].role) == "system") {
    turns.push_back(saved.turns[0]);
  }
  turns.push_back({"user", "Hello"});
  const int64_t now = std::time(nullptr);  // one for all: some templates write the time
  const auto render = [&](const TemplateFlags& as_template, std::vector<int32_t>* tokens) {
    qrt_chat_options options = as_template.Options();
    options.now = now;
    return Render(model, turns, options, tokens);
  };
  for (const auto& row : rows) {
    if (!row.given) continue;
    std::vector<int32_t> tokens, other;
    Outcome outcome = render(told, &tokens);
    if (outcome.ok()) outcome = render(*row.other, &other);
    if (outcome.exit_code() == kExitInterrupted) return outcome;
    if (outcome.ok() && tokens == other) flags.engine.said.Warn(row.warning);
  }
  return Outcome();
}

// At least as many tokens as the prompt for `turns` has where it goes on from `saved` tokens; not counted
// where they are sure to fit the usual context.
Outcome MostTokens(const Model& model, const ChatFlags& flags, const std::vector<Turn>& turns, size_t saved,
                   size_t* most) {
  size_t bytes = flags.as_template.tools.size();
  for (const Turn& turn : turns) bytes += turn.content.size();
  *most = saved;
  const auto answer = static_cast<uint64_t>(std::max<int64_t>(flags.max_tokens.value_or(0), 0));
  if (flags.context || bytes + saved + answer < kUsualContext / 2) return Outcome();
  std::vector<int32_t> rendered;
  QRUN_RETURN_IF_ERROR(Render(model, turns, flags.as_template.Options(), &rendered));
  *most += rendered.size();
  return Outcome();
}

// Goes on from `saved`, where --load-session is given; `prompt` may be missing then: its answer goes on.
Outcome OneAnswer(const Model& model, const ChatFlags& flags, SavedSession saved,
                  const std::optional<std::string>& prompt) {
  saved.raw = flags.raw;
  saved.think = flags.as_template.think;
  saved.tools = flags.as_template.tools;
  if (flags.system) saved.turns.push_back({"system", *flags.system});
  if (prompt) QRUN_RETURN_IF_ERROR(CheckPrompt(*prompt, flags.raw));
  Prompt asked;
  std::vector<Turn> turns = saved.turns;
  size_t most = saved.tokens.size();
  const bool rendered = prompt && !flags.raw;
  if (rendered) {
    turns.push_back({"user", *prompt});
    QRUN_RETURN_IF_ERROR(MostTokens(model, flags, turns, saved.tokens.size(), &most));
  } else if (prompt) {
    QRUN_RETURN_IF_ERROR(RawPrompt(model.text.get(), *prompt, flags, saved.tokens.empty(), &asked.tokens));
    std::vector<int32_t> before = saved.tokens;
    flags.endings.TakeEndOff(model.text.get(), saved.held, &before);
    asked.tokens.insert(asked.tokens.begin(), before.begin(), before.end());
    most = asked.tokens.size();
  }
  std::optional<Generator> generator;
  uint64_t seed = 0;
  QRUN_RETURN_IF_ERROR(PrepareAnswers(model, flags, most, &generator, &seed));
  PromptCache cache(flags.prompt_cache, model, flags.engine.said);
  if (flags.prompt_cache.folder) generator->Use(&cache);
  if (flags.load_session) {
    QRUN_RETURN_IF_ERROR(generator->Load(saved, rendered ? &flags.as_template : nullptr));
    saved.snapshot = std::string();  // as large as the KV
  }
  if (rendered) QRUN_RETURN_IF_ERROR(generator->MakePrompt(turns, flags.as_template, &asked));
  if (flags.dump.names) QRUN_RETURN_IF_ERROR(DumpValues(model, flags.dump, asked.tokens));
  saved.turns = std::move(turns);
  Turn* goes_on = !flags.raw && !prompt && !saved.turns.empty() ? &saved.turns.back() : nullptr;
  if (goes_on != nullptr) {
    std::string& said = goes_on->content;
    said.resize(qrt_utf8_whole_prefix(said.data(), said.size()));
  }
  Answer answer;
  Outcome outcome = prompt ? generator->Run(asked, &answer) : generator->Continue(&answer);
  if (!outcome.ok() && !outcome.reader_left()) {
    EndLineBeforeError(answer);
    return outcome;
  }
  if (outcome.ok() && isatty(STDOUT_FILENO)) {
    Outcome ended = WriteStdout("\n");
    if (!ended.ok() && ended.exit_code() != kExitInterrupted) return ended;
  }
  if (outcome.ok() && flags.timing) {
    QRUN_RETURN_IF_ERROR(PrintTiming(model, generator->session(), answer, seed, *flags.timing == "json",
                                     flags.profile_stages));
  }
  const bool interrupted = answer.finish == Finish::kInterrupted;
  if (interrupted && answer.tokens == 0 && flags.save_session) {
    // The session holds a part of the prompt only: not what the file is for, nor worth one that is there.
    Tell("interrupted before the answer began: " + *flags.save_session + " is not written");
  } else if (flags.save_session) {
    if (goes_on != nullptr) {
      goes_on->content += answer.text;
    } else if (!flags.raw) {
      saved.turns.push_back({"assistant", answer.text});
    }
    QRUN_RETURN_IF_ERROR(generator->Save(&saved));
    QRUN_RETURN_IF_ERROR(WriteSession(*flags.save_session, saved));
  }
  return interrupted ? Outcome::Silent(kExitInterrupted) : std::move(outcome);
}

// Errors: input refused.
Outcome ReadTools(const std::string& file, std::string* tools) {
  QRUN_RETURN_IF_ERROR(ReadText(file, tools));
  if (tools->empty()) {
    return Outcome::Fail(kExitInput, 7005, "the file of tools is empty", file, "[] are no tools");
  }
  const size_t nul = tools->find('\0');
  if (nul == std::string::npos) return Outcome();
  return Outcome::Fail(kExitInput, 8005, "the tools contain a NUL byte",
                       file + ", byte " + std::to_string(nul));
}

void AddOptions(Options& options, ChatFlags& flags) {
  options.Positional("MODEL", &flags.model, "the artifact, or a GGUF, which qcc compiles at first use");
  options.Text("-m, --model", "MODEL", &flags.model, "the artifact, too");
  options.Text("-p, --prompt", "TEXT", &flags.prompt, "the prompt");
  options.Text("-f, --file", "FILE", &flags.file, "read the prompt from FILE (-: standard input)");
  options.Integer("-n, --predict", "N", 0, INT32_MAX, &flags.max_tokens, "at most N tokens per answer");
  options.Integer("-c, --ctx", "N", 1, INT32_MAX - 64, &flags.context, "tokens of context");
  options.Text("-sys, --system", "TEXT", &flags.system, "system message");
  options.Text("--tools", "FILE", &flags.tools,
               "tools that the model may call: a JSON array for its template");
  options.Word("--think", {"on", "off"}, "", &flags.as_template.think,
               "let the model think first; default: as its template does");
  options.Flag("--raw", &flags.raw, "no chat template: the model goes on from the prompt");
  options.Flag("--special", &flags.special, "with --raw: special tokens written in the prompt count as such");
  options.Flag("--no-normalize", &flags.as_template.as_written,
               "keep text as it is written, not in Unicode's form C");
  flags.sampling.AddTo(options);
  flags.endings.AddTo(options);
  flags.draft.AddTo(options);
  flags.engine.AddTo(options);
  options.Text("--save-session", "FILE", &flags.save_session, "write the session to FILE after the answer");
  options.Text("--load-session", "FILE", &flags.load_session,
               "go on with a saved session; without -p or -f its last answer goes on");
  flags.prompt_cache.AddTo(options);
  options.Integer("-ngl, --gpu-layers", "N", 0, INT32_MAX, &flags.gpu_layers,
                  "0: the same as --device=cpu; qcc compile --layers says which layers run where");
  options.Flag(
      "--trace-layers", &flags.trace_layers,
      "tell on stderr what each layer left of the prompt's last token: len, nnz, nan, min, max, mean");
  flags.dump.AddTo(options);
  options.Word("--timing", {"text", "json"}, "text", &flags.timing, "measurements on stderr");
  options.Flag("--profile-stages", &flags.profile_stages,
               "with --timing, and as qrun bench says: where the time of each answer's steps went");
}

// Of --save-session: where a folder comes to lie that is made first, no file can.
Outcome RefuseFolders(const ChatFlags& flags) {
  namespace fs = std::filesystem;
  const struct {
    const char* option;
    std::optional<std::string> folder;
  } made[] = {{"--cache-dir", flags.engine.no_cache ? std::nullopt : flags.engine.cache_dir},
              {"--prompt-cache", flags.prompt_cache.folder},
              {"--dump", flags.dump.names ? std::optional(flags.dump.folder.value_or(kUsualDumpFolder))
                                          : std::nullopt}};
  std::error_code none;
  const fs::path session = fs::weakly_canonical(fs::absolute(*flags.save_session, none), none);
  for (const auto& [option, folder] : made) {
    if (!folder) continue;
    const fs::path there = fs::weakly_canonical(fs::absolute(*folder, none), none);
    if (std::mismatch(session.begin(), session.end(), there.begin(), there.end()).first != session.end())
      continue;
    return Outcome::Fail(kExitUsage, 103,
                         std::string("the folder of ") + option + " lies where --save-session writes a file",
                         *flags.save_session, "name another file or folder");
  }
  return Outcome();
}

// What is wrong with the options before anything is opened.
Outcome CheckFlags(const ChatFlags& flags, bool converse) {
  if (flags.prompt && flags.file) {
    return Outcome::Fail(kExitUsage, 101, "-p and -f are both given", "", "choose one");
  }
  if (flags.prompt) QRUN_RETURN_IF_ERROR(CheckPrompt(*flags.prompt, flags.raw));
  if (flags.raw && (flags.system || flags.as_template.think || flags.tools)) {
    return Outcome::Fail(kExitUsage, 101,
                         "--system, --think and --tools need the chat template that --raw leaves out");
  }
  if (flags.special && !flags.raw) {
    return Outcome::Fail(kExitUsage, 101, "--special goes with --raw only");
  }

  QRUN_RETURN_IF_ERROR(flags.sampling.Check());
  QRUN_RETURN_IF_ERROR(flags.endings.Check());
  QRUN_RETURN_IF_ERROR(flags.draft.Check());
  QRUN_RETURN_IF_ERROR(flags.prompt_cache.Check());
  QRUN_RETURN_IF_ERROR(flags.dump.Check());
  if (flags.dump.names && flags.load_session) {
    return Outcome::Fail(kExitUsage, 101, "--dump does not go with --load-session");
  }
  if (flags.dump.names && converse) {
    return Outcome::Fail(kExitUsage, 101, "--dump goes with one prompt", "", "give -p or -f");
  }
  if (flags.gpu_layers.value_or(0) != 0) {
    return Outcome::Fail(
        kExitUsage, 101,
        "-ngl is " + std::to_string(*flags.gpu_layers) + ", expected 0: no layers can be chosen",
        "which layers run on which device is said when the model is compiled (qcc compile --layers)",
        "leave -ngl out: the best device is taken; --device=vulkan or cuda asks for a GPU");
  }
  if (flags.gpu_layers && flags.engine.device && *flags.engine.device != "cpu") {
    return Outcome::Fail(kExitUsage, 101, "-ngl and --device are both given", "", "choose one");
  }
  if (flags.load_session && flags.system) {
    return Outcome::Fail(kExitUsage, 101, "--system is part of the saved session already");
  }
  if (converse && flags.save_session) {
    return Outcome::Fail(kExitUsage, 101, "--save-session goes with one answer, not with a chat", "",
                         "give -p or -f");
  }
  if (flags.save_session) {
    QRUN_RETURN_IF_ERROR(RefuseInputs("--save-session", *flags.save_session, flags));
    QRUN_RETURN_IF_ERROR(RefuseFolders(flags));
    QRUN_RETURN_IF_ERROR(CheckWritable(*flags.save_session, OutputFile::Kind::kPrivate));
  }
  return Outcome();
}

}  // namespace

uint64_t ContextFor(const ChatFlags& flags, const qrt_artifact_info& info, size_t prompt_tokens) {
  if (flags.context) return static_cast<uint64_t>(*flags.context);
  uint64_t wanted = std::max<uint64_t>(
      kUsualContext,
      prompt_tokens + static_cast<uint64_t>(std::max<int64_t>(flags.max_tokens.value_or(0), 1024)));
  if (info.context_length != 0) wanted = std::min(wanted, info.context_length);
  return wanted;
}

Outcome PrepareAnswers(const Model& model, const ChatFlags& flags, size_t most,
                       std::optional<Generator>* generator, uint64_t* seed) {
  SessionPtr session;
  Drafting draft;
  QRUN_RETURN_IF_ERROR(flags.draft.Choose(model, &draft));
  QRUN_RETURN_IF_ERROR(NewSession(model, ContextFor(flags, model.info, most), &session, draft));
  SamplerPtr sampler;
  QRUN_RETURN_IF_ERROR(flags.sampling.MakeSampler(model, flags.engine.said, &sampler, seed));
  Endings endings = flags.endings;
  endings.most_tokens = flags.max_tokens.value_or(-1);
  generator->emplace(model, std::move(session), std::move(sampler), std::move(endings));
  QRUN_RETURN_IF_ERROR((*generator)->Open());
  if (flags.profile_stages) QRUN_CALL(qrt_engine_time_stages(model.engine.get(), &error));
  return flags.trace_layers ? (*generator)->TraceLayers() : Outcome();
}

Outcome RawPrompt(const qrt_text* text, const std::string& prompt, const ChatFlags& flags, bool first,
                  std::vector<int32_t>* tokens) {
  QRUN_RETURN_IF_ERROR(Tokenize(text, prompt, flags.special, tokens, flags.as_template.as_written));
  const int32_t begin = qrt_text_begin_token(text);
  if (first && begin >= 0) tokens->insert(tokens->begin(), begin);
  return Outcome();
}

Outcome ReadSessionFor(const ChatFlags& flags, const std::string& path, SavedSession* saved) {
  QRUN_RETURN_IF_ERROR(ReadSession(path, saved));
  if (saved->raw == flags.raw) return Outcome();
  return Outcome::Fail(kExitUsage, 101,
                       "the session was saved " + std::string(saved->raw ? "with" : "without") + " --raw",
                       path, "load it in the same way");
}

TemplateFlags GoesOnWith(const ChatFlags& flags, const std::string& path, const SavedSession& saved) {
  TemplateFlags told = flags.as_template;
  if (!flags.tools) {
    told.tools = saved.tools;
  } else if (!saved.tools.empty() && saved.tools != told.tools) {
    flags.engine.said.Warn("--tools " + *flags.tools + " are others than " + path +
                           " was saved with: the conversation goes on as if it had begun with these");
  }
  if (!told.think) {
    told.think = saved.think;
  } else if (saved.think && saved.think != told.think) {
    flags.engine.said.Warn("--think is " + *told.think + ", " + path + " was saved with " + *saved.think +
                           ": the conversation goes on with " + *told.think);
  }
  return told;
}

Outcome RefuseInputs(const std::string& option, const std::string& output, const ChatFlags& flags) {
  QRUN_RETURN_IF_ERROR(RefuseModel(option, output, *flags.model, flags.engine));
  const struct {
    const char* what;
    std::string file;
  } inputs[] = {{"the prompt", flags.file.value_or("")},
                {"the file of tools", flags.tools.value_or("")},
                {"the draft", flags.draft.File()}};
  for (const auto& input : inputs) {
    QRUN_RETURN_IF_ERROR(RefuseInput(option, output, input.what, input.file));
  }
  return Outcome();
}

void EndLineBeforeError(const Answer& answer) {
  if (answer.text.empty() || answer.text.back() == '\n') return;
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDERR_FILENO) == 0) return;
  std::fputs("\n", stderr);
}

Outcome RunChat(const Call& call) {
  ChatFlags flags;
  Options options(
      "qrun MODEL [OPTION...]",
      "Chats on a terminal. With -p or -f, or when standard input is no terminal: answers that prompt and "
      "ends.");
  AddOptions(options, flags);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  if (flags.profile_stages && !flags.timing) flags.timing = "text";
  if (flags.gpu_layers == 0 && !flags.engine.device) flags.engine.device = "cpu";
  const bool prompted = flags.prompt || flags.file;
  const bool converse = !prompted && !flags.load_session && isatty(STDIN_FILENO);
  QRUN_RETURN_IF_ERROR(CheckFlags(flags, converse));

  if (flags.tools) QRUN_RETURN_IF_ERROR(ReadTools(*flags.tools, &flags.as_template.tools));
  const Interrupts interrupts;
  // Ahead of what takes long: a GGUF may have to be compiled.
  std::optional<std::string> prompt = flags.prompt;
  if (flags.file && *flags.file != "-") QRUN_RETURN_IF_ERROR(ReadText(*flags.file, &prompt.emplace()));
  SavedSession saved;
  if (flags.load_session) QRUN_RETURN_IF_ERROR(ReadSessionFor(flags, *flags.load_session, &saved));
  // What compiles a GGUF does so for what is asked here.
  std::vector<std::string>& compile = flags.engine.compile;
  const auto is_traceable = [](const std::string& option) { return option.rfind("--traceable", 0) == 0; };
  if ((flags.trace_layers || flags.dump.names) && IsGguf(*flags.model) &&
      std::none_of(compile.begin(), compile.end(), is_traceable)) {
    compile.push_back(flags.dump.names ? "--traceable=all" : "--traceable");
  }
  flags.engine.draft = flags.draft.File();
  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*flags.model, flags.engine, options, &model_file));
  Model model;
  QRUN_RETURN_IF_ERROR(OpenModel(model_file.path, flags.engine, true, &model));
  if (!flags.raw && !model.info.has_chat_template) {
    return Outcome::Fail(kExitArtifact, 5331, "the artifact carries no chat template", *flags.model,
                         "--raw lets the model go on from the prompt as it is");
  }
  QRUN_RETURN_IF_ERROR(flags.endings.CheckIds(model));
  const uint64_t made_for = model.info.context_length;
  if (flags.context && made_for != 0 && static_cast<uint64_t>(*flags.context) > made_for) {
    flags.engine.said.Warn("--ctx " + std::to_string(*flags.context) + " is more than the " +
                           std::to_string(made_for) + " tokens that the model was made for");
  }
  QRUN_RETURN_IF_ERROR(WarnOfUnread(model, flags, saved));
  if (converse) return Converse(model, flags);
  if (!prompt && (flags.file || !flags.load_session)) QRUN_RETURN_IF_ERROR(ReadStdin(&prompt.emplace()));
  if (flags.load_session) flags.as_template = GoesOnWith(flags, *flags.load_session, saved);
  return OneAnswer(model, flags, std::move(saved), prompt);
}

}  // namespace qrun
