// Chat on a terminal, and one answer to one prompt.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/qrun/commands.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/generation.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

struct ChatFlags {
  std::optional<std::string> model, prompt, file, system, think, timing, save_session, load_session;
  std::optional<int64_t> max_tokens, context, gpu_layers;
  std::optional<std::string> tools;  // the file, then what stands in it
  bool raw = false;
  bool special = false;
  bool as_written = false;
  EngineChoice engine;
  SamplingFlags sampling;
};

// A context for which nobody has to think about --ctx in everyday use; KV becomes resident only as it fills.
constexpr uint64_t kUsualContext = 8192;

// The library takes messages that end at a NUL byte, which would cut the prompt without a word.
Outcome CheckPrompt(const std::string& prompt) {
  const size_t nul = prompt.find('\0');
  if (nul == std::string::npos) return Outcome();
  return Outcome::Fail(kExitInput, 8005, "the prompt contains a NUL byte", "byte " + std::to_string(nul),
                       "take it out, or use --raw, which passes every byte on");
}

// In place of its name the file's text, which the library takes up to a NUL byte.
Outcome ReadTools(std::string* tools) {
  const std::string file = std::move(*tools);
  QRUN_RETURN_IF_ERROR(ReadText(file, tools));
  const size_t nul = tools->find('\0');
  if (nul == std::string::npos) return Outcome();
  return Outcome::Fail(kExitInput, 8005, "the tools contain a NUL byte",
                       file + ", byte " + std::to_string(nul));
}

// What was said earlier, a model's own words too, cannot be refused any more.
std::string WithoutNul(const std::string& said) {
  std::string text;
  for (const char c : said) text.append(c == '\0' ? "\xEF\xBF\xBD" : std::string_view(&c, 1));
  return text;
}

// Tokens of the conversation; what the turns say is never a control token.
Outcome EncodeTurns(const qrt_text* text, const std::vector<Turn>& turns, const ChatFlags& flags,
                    bool open_answer, std::vector<int32_t>* out) {
  std::vector<std::string> contents;
  for (const Turn& turn : turns) contents.push_back(WithoutNul(turn.content));
  std::vector<qrt_chat_message> messages;
  for (size_t i = 0; i < turns.size(); ++i) {
    messages.push_back({turns[i].role, contents[i].c_str(), nullptr});
  }
  qrt_chat_options options = {};
  options.struct_size = sizeof options;
  options.add_generation_prompt = open_answer;
  options.enable_thinking = !flags.think ? -1 : *flags.think == "on";
  options.tools = flags.tools ? flags.tools->c_str() : nullptr;
  options.as_written = flags.as_written;
  options.stop = [](void*) -> int32_t { return Interrupts::Pending(); };
  out->resize(1024);  // enough for most conversations, otherwise a first guess
  for (;;) {
    size_t count = 0;
    qrt_error error = NewError();
    const qrt_status status = qrt_text_encode_chat(text, messages.data(), messages.size(), &options,
                                                   out->data(), out->size(), &count, &error);
    if (status == QRT_CANCELLED) return Outcome::Silent(kExitInterrupted);
    if (status != QRT_OK && status != QRT_BUFFER_TOO_SMALL) return Outcome::Of(error);
    out->resize(count);
    if (status == QRT_OK) return Outcome();
  }
}

// Tokens of the conversation with the answer opened; *keep: how many of them the next prompt will begin with.
Outcome ChatPrompt(const qrt_text* text, const std::vector<Turn>& turns, const ChatFlags& flags,
                   std::vector<int32_t>* tokens, size_t* keep) {
  std::vector<int32_t> history;
  QRUN_RETURN_IF_ERROR(EncodeTurns(text, turns, flags, true, tokens));
  QRUN_RETURN_IF_ERROR(EncodeTurns(text, turns, flags, false, &history));
  *keep = history.size() <= tokens->size() && std::equal(history.begin(), history.end(), tokens->begin())
              ? history.size()
              : 0;
  return Outcome();
}

// `first`: the text begins the sequence.
Outcome RawPrompt(const qrt_text* text, const std::string& prompt, const ChatFlags& flags, bool first,
                  std::vector<int32_t>* tokens) {
  QRUN_RETURN_IF_ERROR(Tokenize(text, prompt, flags.special, tokens, flags.as_written));
  const int32_t begin = qrt_text_begin_token(text);
  if (first && begin >= 0) tokens->insert(tokens->begin(), begin);
  return Outcome();
}

// Context for a prompt: --ctx, or what the answer may need, at most the model's own.
uint64_t ContextFor(const ChatFlags& flags, const qrt_artifact_info& info, size_t prompt_tokens) {
  if (flags.context) return static_cast<uint64_t>(*flags.context);
  uint64_t wanted = std::max<uint64_t>(
      kUsualContext,
      prompt_tokens + static_cast<uint64_t>(std::max<int64_t>(flags.max_tokens.value_or(0), 1024)));
  if (info.context_length != 0) wanted = std::min(wanted, info.context_length);
  return wanted;
}

// `prompt` may be missing if a saved session is loaded: its answer goes on.
Outcome OneAnswer(const Model& model, const ChatFlags& flags, const std::optional<std::string>& prompt) {
  SavedSession saved;
  saved.raw = flags.raw;
  if (flags.load_session) {
    QRUN_RETURN_IF_ERROR(ReadSession(*flags.load_session, &saved));
    if (saved.raw != flags.raw) {
      return Outcome::Fail(kExitUsage, 101,
                           "the session was saved " + std::string(saved.raw ? "with" : "without") + " --raw",
                           *flags.load_session, "load it in the same way");
    }
  } else if (flags.system) {
    saved.turns.push_back({"system", *flags.system});
  }
  std::vector<int32_t> tokens;
  size_t keep = 0;
  if (prompt && flags.raw) {
    QRUN_RETURN_IF_ERROR(RawPrompt(model.text.get(), *prompt, flags, saved.tokens.empty(), &tokens));
    tokens.insert(tokens.begin(), saved.tokens.begin(), saved.tokens.end());
  } else if (prompt) {
    QRUN_RETURN_IF_ERROR(CheckPrompt(*prompt));
    saved.turns.push_back({"user", *prompt});
    QRUN_RETURN_IF_ERROR(ChatPrompt(model.text.get(), saved.turns, flags, &tokens, &keep));
  }
  SessionPtr session;
  QRUN_RETURN_IF_ERROR(NewSession(
      model, ContextFor(flags, model.info, std::max(tokens.size(), saved.tokens.size())), &session));
  SamplerPtr sampler;
  uint64_t seed = 0;
  QRUN_RETURN_IF_ERROR(flags.sampling.MakeSampler(model, flags.engine.said, &sampler, &seed));
  Generator generator(model, std::move(session), std::move(sampler), flags.max_tokens.value_or(-1));
  if (flags.load_session) QRUN_RETURN_IF_ERROR(generator.Load(saved));
  Turn* goes_on = !flags.raw && !prompt && !saved.turns.empty() ? &saved.turns.back() : nullptr;
  std::string cut;
  if (goes_on != nullptr) {
    std::string& said = goes_on->content;
    const size_t whole = qrt_utf8_whole_prefix(said.data(), said.size());
    cut = said.substr(whole);
    said.resize(whole);
  }
  Answer answer;
  Outcome outcome = prompt ? generator.Run(tokens, 0, &answer) : generator.Continue(std::move(cut), &answer);
  if (!outcome.ok() && !outcome.reader_left()) return outcome;
  if (outcome.ok() && isatty(STDOUT_FILENO)) QRUN_RETURN_IF_ERROR(WriteStdout("\n"));
  if (outcome.ok() && flags.timing) {
    PrintTiming(model, generator.session(), answer, seed, *flags.timing == "json");
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
    QRUN_RETURN_IF_ERROR(generator.Save(&saved));
    QRUN_RETURN_IF_ERROR(WriteSession(*flags.save_session, saved));
  }
  return interrupted ? Outcome::Silent(kExitInterrupted) : std::move(outcome);
}

// What was said in a chat so far.
class Conversation {
 public:
  Conversation(const Model& model, const ChatFlags& flags) : model_(model), flags_(flags) { BeginAnew(); }

  void BeginAnew() {
    turns_.clear();
    history_.clear();
    if (flags_.system) turns_.push_back({"system", *flags_.system});
  }
  // The tokens up to the answer to `line`, which is part of the conversation then; not after a failure.
  Outcome Ask(const std::string& line, uint64_t capacity, std::vector<int32_t>* tokens, size_t* keep) {
    *keep = 0;
    line_ = line;
    if (!flags_.raw) turns_.push_back({"user", line});
    Outcome outcome = Tokens(tokens, keep);
    if (outcome.ok() && tokens->size() > capacity) {
      outcome = Outcome::Fail(kExitInput, 5310,
                              "the conversation has " + std::to_string(tokens->size()) +
                                  " tokens, the context " + std::to_string(capacity),
                              "", "/new starts anew");
    }
    if (!outcome.ok()) Forget();
    return outcome;
  }
  // The line that was asked last was not answered.
  void Forget() {
    if (!flags_.raw) turns_.pop_back();
  }
  void Answered(const std::string& text) {
    history_ += line_ + text;
    if (!flags_.raw) turns_.push_back({"assistant", text});
  }

 private:
  Outcome Tokens(std::vector<int32_t>* tokens, size_t* keep) const {
    const qrt_text* text = model_.text.get();
    if (flags_.raw) return RawPrompt(text, history_ + line_, flags_, true, tokens);
    QRUN_RETURN_IF_ERROR(CheckPrompt(line_));
    return ChatPrompt(text, turns_, flags_, tokens, keep);
  }

  const Model& model_;
  const ChatFlags& flags_;
  std::vector<Turn> turns_;
  std::string history_;  // of --raw: all text so far
  std::string line_;
};

Outcome Converse(const Model& model, const ChatFlags& flags) {
  SessionPtr session;
  QRUN_RETURN_IF_ERROR(NewSession(model, ContextFor(flags, model.info, 0), &session));
  SamplerPtr sampler;
  uint64_t seed = 0;
  QRUN_RETURN_IF_ERROR(flags.sampling.MakeSampler(model, flags.engine.said, &sampler, &seed));
  Generator generator(model, std::move(session), std::move(sampler), flags.max_tokens.value_or(-1));
  const std::string name = *model.info.model_name != '\0' ? model.info.model_name : model.info.architecture;
  const uint64_t capacity = qrt_session_capacity(generator.session());
  std::fprintf(stderr, "%s, %llu tokens of context. Ctrl-C stops an answer, Ctrl-D ends, /new starts anew.\n",
               OneLine(name).c_str(), static_cast<unsigned long long>(capacity));
  Conversation conversation(model, flags);
  for (;;) {
    Interrupts::Take();  // one that came when the answer was complete already
    std::fputs("> ", stderr);
    std::string line;
    if (!ReadLine(&line)) {
      std::fputs("\n", stderr);
      return Interrupts::Take() ? Outcome::Silent(kExitInterrupted) : Outcome();
    }
    if (line.empty()) continue;
    if (line == "/exit") return Outcome();
    if (line == "/new") {
      conversation.BeginAnew();
      continue;
    }
    std::vector<int32_t> tokens;
    size_t keep = 0;
    Outcome outcome = conversation.Ask(line, capacity, &tokens, &keep);
    Answer answer;
    if (outcome.ok()) {
      outcome = generator.Run(tokens, keep, &answer);
      if (!outcome.ok() && outcome.exit_code() != kExitInput) return outcome;
      if (!outcome.ok()) conversation.Forget();
    }
    if (!outcome.ok()) {
      // The line is refused, or Ctrl-C came before it was understood: the conversation goes on without it.
      std::fputs(outcome.Text().c_str(), stderr);
      continue;
    }
    QRUN_RETURN_IF_ERROR(WriteStdout("\n"));
    if (answer.finish == Finish::kLength) std::fputs("qrun: stopped: length\n", stderr);
    if (flags.timing) PrintTiming(model, generator.session(), answer, seed, *flags.timing == "json");
    conversation.Answered(answer.text);
  }
}

}  // namespace

Outcome RunChat(const std::vector<std::string>& arguments) {
  ChatFlags flags;
  Options options(
      "qrun MODEL [OPTION...]",
      "Chats on a terminal. With -p or -f, or when standard input is no terminal: answers that prompt and "
      "ends.");
  options.Positional("MODEL", &flags.model, "the artifact, or a GGUF, which qcc compiles at first use");
  options.Text("-m, --model", "MODEL", &flags.model, "the artifact, too");
  options.Text("-p, --prompt", "TEXT", &flags.prompt, "the prompt");
  options.Text("-f, --file", "FILE", &flags.file, "read the prompt from FILE (-: standard input)");
  options.Integer("-n, --predict", "N", 0, INT32_MAX, &flags.max_tokens, "at most N tokens per answer");
  options.Integer("-c, --ctx", "N", 1, INT32_MAX - 64, &flags.context, "tokens of context");
  options.Text("-sys, --system", "TEXT", &flags.system, "system message");
  options.Text("--tools", "FILE", &flags.tools,
               "tools that the model may call: a JSON array for its template");
  options.Word("--think", {"on", "off"}, "", &flags.think,
               "let the model think first; default: as its template does");
  options.Flag("--raw", &flags.raw, "no chat template: the model goes on from the prompt");
  options.Flag("--special", &flags.special, "with --raw: special tokens written in the prompt count as such");
  options.Flag("--no-normalize", &flags.as_written, "keep text as it is written, not in Unicode's form C");
  flags.sampling.AddTo(options);
  flags.engine.AddTo(options);
  options.Text("--save-session", "FILE", &flags.save_session, "write the session to FILE after the answer");
  options.Text("--load-session", "FILE", &flags.load_session,
               "go on with a saved session; without -p or -f its last answer goes on");
  options.Integer(
      "-ngl, --gpu-layers", "N", 0, INT32_MAX, &flags.gpu_layers,
      "0: the same as --device=cpu; a model runs whole on one device, so that there is nothing else");
  options.Word("--timing", {"text", "json"}, "text", &flags.timing, "measurements on stderr");
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, arguments, &done));
  if (done) return Outcome();
  if (flags.prompt && flags.file) {
    return Outcome::Fail(kExitUsage, 101, "-p and -f are both given", "", "choose one");
  }
  if (flags.raw && (flags.system || flags.think || flags.tools)) {
    return Outcome::Fail(kExitUsage, 101,
                         "--system, --think and --tools need the chat template that --raw leaves out");
  }
  if (flags.tools) QRUN_RETURN_IF_ERROR(ReadTools(&*flags.tools));
  if (flags.special && !flags.raw) {
    return Outcome::Fail(kExitUsage, 101, "--special goes with --raw only");
  }

  if (flags.gpu_layers.value_or(0) != 0) {
    return Outcome::Fail(
        kExitUsage, 101,
        "-ngl is " + std::to_string(*flags.gpu_layers) + ", expected 0: no layers can be chosen",
        "the artifact's code runs a model whole, on one device",
        "leave -ngl out: the best device is taken; --device=vulkan or cuda asks for a GPU");
  }
  if (flags.gpu_layers && flags.engine.device) {
    return Outcome::Fail(kExitUsage, 101, "-ngl and --device are both given", "", "choose one");
  }
  if (flags.gpu_layers) flags.engine.device = "cpu";
  if (flags.load_session && flags.system) {
    return Outcome::Fail(kExitUsage, 101, "--system is part of the saved session already");
  }
  const bool prompted = flags.prompt || flags.file;
  const bool converse = !prompted && !flags.load_session && isatty(STDIN_FILENO);
  if (converse && flags.save_session) {
    return Outcome::Fail(kExitUsage, 101, "--save-session goes with one answer, not with a chat", "",
                         "give -p or -f");
  }
  if (flags.save_session) {
    QRUN_RETURN_IF_ERROR(RefuseInput("--save-session", *flags.save_session, "the model", *flags.model));
    if (flags.file) {
      QRUN_RETURN_IF_ERROR(RefuseInput("--save-session", *flags.save_session, "the prompt", *flags.file));
    }
  }

  const Interrupts interrupts;
  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*flags.model, flags.engine, options, &model_file));
  Model model;
  QRUN_RETURN_IF_ERROR(OpenModel(model_file.path, flags.engine, true, &model));
  if (!flags.raw && !model.info.has_chat_template) {
    return Outcome::Fail(kExitArtifact, 5331, "the artifact carries no chat template", *flags.model,
                         "--raw lets the model go on from the prompt as it is");
  }
  if (converse) return Converse(model, flags);
  std::optional<std::string> prompt = flags.prompt;
  if (flags.file) {
    QRUN_RETURN_IF_ERROR(ReadText(*flags.file, &prompt.emplace()));
  } else if (!prompt && !flags.load_session) {
    QRUN_RETURN_IF_ERROR(ReadStdin(&prompt.emplace()));
  }
  return OneAnswer(model, flags, prompt);
}

}  // namespace qrun
