// A chat on a terminal: lines, commands, answers.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "runtime/base/nearest_name.h"
#include "runtime/qrun/chat.h"
#include "runtime/qrun/chat_prompt.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/line_editor.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

constexpr struct {
  const char* name;
  const char* argument;  // empty: none
  const char* about;
} kChatCommands[] = {
    {"/help", "", "this list"},
    {"/save", "FILE", "write the conversation and its session to FILE"},
    {"/load", "FILE", "go on with a conversation that was saved"},
    {"/system", "TEXT", "another system message, for the same conversation; without TEXT: none"},
    {"/retry", "", "answer the last line again"},
    {"/new", "", "begin anew"},
    {"/exit", "", "end, as Ctrl-D does"},
};

std::string CommandList() {
  std::string text;
  for (const auto& command : kChatCommands) {
    const std::string left = std::string(command.name) + " " + command.argument;
    text += "  " + left + std::string(14 - left.size(), ' ') + command.about + "\n";
  }
  return text + "A line that begins with // is said with one / of them.\n";
}

Outcome Refused(const std::string& what, const std::string& help) {
  return Outcome::Fail(kExitUsage, 101, what, "", help);
}

class Chat {
 public:
  Chat(const Model& model, const ChatFlags& flags)
      : model_(model), flags_(flags), cache_(flags.prompt_cache, model, flags.engine.said) {}

  Outcome Open() {
    QRUN_RETURN_IF_ERROR(PrepareAnswers(model_, flags_, 0, &generator_, &seed_));
    if (flags_.prompt_cache.folder) generator_->Use(&cache_);
    BeginAnew();
    return Outcome();
  }

  uint64_t capacity() const { return qrt_session_capacity(generator_->session()); }

  // One line that was typed. Errors: what is refused, and what ends the chat (see over).
  Outcome Take(const std::string& line, bool* exit) {
    if (line.find_first_not_of(" \t\n") == std::string::npos) return Outcome();
    if (line.rfind("//", 0) == 0) return Say(line.substr(1));
    const size_t end = std::min(line.find_first_of(" \n"), line.size());
    const std::string name = line.substr(0, end);
    // A system message may have several lines.
    if (!IsCommandName(name) || (line.find('\n') != std::string::npos && name != "/system")) return Say(line);
    const size_t begin = line.find_first_not_of(" \n", end);
    const std::string argument =
        begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
    *exit = name == "/exit" && argument.empty();
    return *exit ? Outcome() : Command(name, argument);
  }

  // The last line's failure was more than a refusal: there is no session to go on with, or nobody to talk to.
  bool over() const { return over_; }

 private:
  // "/save"; a path, "/usr/bin/x:", is something to say.
  static bool IsCommandName(std::string_view name) {
    return name.size() > 1 && name[0] == '/' && std::all_of(name.begin() + 1, name.end(), [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
           });
  }

  Outcome Command(const std::string& name, const std::string& argument) {
    const auto* known = std::find_if(std::begin(kChatCommands), std::end(kChatCommands),
                                     [&](const auto& command) { return command.name == name; });
    if (known == std::end(kChatCommands)) return Unknown(name);
    if (*known->argument == '\0' && !argument.empty())
      return Refused(name + " takes nothing behind it", "/help");
    if (name == "/help") {
      std::fputs(CommandList().c_str(), stderr);
      return Outcome();
    }
    if (name == "/new") {
      BeginAnew();
      return Outcome();
    }
    if (name == "/retry") return Retry();
    if (name == "/system") return ChangeSystem(argument);
    if (argument.empty()) return Refused(name + " needs a file", name + " FILE");
    const std::string path = FromHome(argument);
    return name == "/save" ? Save(path) : Load(path);
  }

  // "~/x" as a shell gives it to a command.
  static std::string FromHome(const std::string& path) {
    const char* home = std::getenv("HOME");
    return home == nullptr || path.rfind("~/", 0) != 0 ? path : home + path.substr(1);
  }

  static Outcome Unknown(const std::string& name) {
    std::vector<std::string> names;
    std::string list;
    for (const auto& command : kChatCommands) {
      names.push_back(command.name + 1);  // without the slash
      list += (list.empty() ? "" : " ") + std::string(command.name);
    }
    std::string nearest = qrt::NearestName(name.substr(1), names);
    if (!nearest.empty()) nearest = "did you mean /" + nearest + "? ";
    return Outcome::Fail(kExitUsage, 101, "there is no command " + name, "commands: " + list,
                         nearest + "a line that begins with // is said with one /");
  }

  void BeginAnew() {
    turns_.clear();
    spoken_.clear();
    last_ = Prompt();
    held_ = false;
    as_template_ = flags_.as_template;
    if (flags_.system) turns_.push_back({"system", *flags_.system});
  }

  Outcome Say(const std::string& line) {
    QRUN_RETURN_IF_ERROR(CheckPrompt(line, flags_.raw));
    Prompt prompt;
    if (flags_.raw) {
      QRUN_RETURN_IF_ERROR(RawPrompt(model_.text.get(), line, flags_, spoken_.empty(), &prompt.tokens));
      prompt.tokens.insert(prompt.tokens.begin(), spoken_.begin(), spoken_.end());
      prompt.keep = prompt.tokens.size() - 1;  // for /retry: a token is chosen behind one that is fed
    } else {
      turns_.push_back({"user", line});
      Outcome outcome = generator_->MakePrompt(turns_, as_template_, &prompt);
      if (!outcome.ok()) return Forget(std::move(outcome));
    }
    Outcome fits = CheckFits(prompt);
    if (!fits.ok()) return Forget(std::move(fits));
    std::swap(last_, prompt);
    Outcome outcome = AnswerLast();
    if (outcome.ok()) return outcome;
    last_ = std::move(prompt);
    return Forget(std::move(outcome));
  }

  Outcome CheckFits(const Prompt& prompt) const {
    if (prompt.tokens.size() <= capacity()) return Outcome();
    return Outcome::Fail(kExitInput, 5310,
                         "the conversation has " + std::to_string(prompt.tokens.size()) +
                             " tokens, the context " + std::to_string(capacity()),
                         "", MakesRoom());
  }

  // Of a first line the past takes no room.
  std::string MakesRoom() const {
    if (flags_.raw ? !spoken_.empty() : turns_.size() > (BeginsWithSystem() ? 2u : 1u))
      return "/new starts anew";
    return BeginsWithSystem() ? "shorten it or what /system says, or make room with --ctx"
                              : "shorten it, or make room with --ctx";
  }
  bool BeginsWithSystem() const { return !turns_.empty() && std::string_view(turns_[0].role) == "system"; }

  // The line that was asked last was not answered: the conversation goes on without it.
  Outcome Forget(Outcome outcome) {
    if (!flags_.raw) turns_.pop_back();
    return outcome;
  }

  // Answers last_; in the conversation then.
  Outcome AnswerLast() {
    Answer answer;
    held_ = false;
    Outcome outcome = generator_->Run(last_, &answer);
    // Broken off before it, the session holds a part of the prompt.
    held_ = outcome.ok() && answer.tokens != 0;
    if (outcome.ok()) outcome = WriteStdout("\n");
    if (!outcome.ok()) {
      over_ = outcome.exit_code() != kExitInput;
      if (!outcome.reader_left()) EndLineBeforeError(answer);
      return outcome;
    }
    if (answer.finish == Finish::kLength && !flags_.engine.said.quiet)
      std::fputs("qrun: stopped: length\n", stderr);
    if (flags_.timing) {
      QRUN_RETURN_IF_ERROR(PrintTiming(model_, generator_->session(), answer, seed_, *flags_.timing == "json",
                                       flags_.profile_stages));
    }
    if (flags_.raw) {
      spoken_ = answer.tokens == 0 ? last_.tokens : generator_->Sequence();
    } else {
      turns_.push_back({"assistant", answer.text});
    }
    return Outcome();
  }

  // The conversation ends with an answer to a line, which can be answered again.
  bool EndsWithAnswer() const {
    const size_t count = turns_.size();
    return count >= 2 && std::string_view(turns_[count - 2].role) == "user" &&
           std::string_view(turns_[count - 1].role) == "assistant";
  }

  Outcome Retry() {
    if (flags_.raw && last_.tokens.empty() && !spoken_.empty()) {
      return Refused("a session of --raw does not say where its last answer began", "say something first");
    }
    if (flags_.raw ? last_.tokens.empty() : !EndsWithAnswer()) {
      return Refused("nothing was asked yet that could be answered again", "/help");
    }
    Outcome outcome;
    std::optional<Turn> answer;
    Prompt prompt = last_;
    if (!flags_.raw) {
      answer = std::move(turns_.back());
      turns_.pop_back();
      // Anew: the last prompt made may be that of a line that was refused since, or there was none since the
      // conversation was loaded, and what the system says may have changed.
      outcome = generator_->MakePrompt(turns_, as_template_, &prompt);
      if (outcome.ok()) outcome = CheckFits(prompt);
    }
    if (outcome.ok()) outcome = TakeNextSeed();
    if (outcome.ok()) {
      last_ = std::move(prompt);
      outcome = AnswerLast();
    }
    // What was answered before stays answered.
    if (!outcome.ok() && answer) turns_.push_back(std::move(*answer));
    return outcome;
  }

  // The same seed would say the same again.
  Outcome TakeNextSeed() {
    SamplingFlags sampling = flags_.sampling;
    sampling.seed = static_cast<int64_t>((seed_ + 1) & INT64_MAX);
    SamplerPtr sampler;
    Verbosity silent;
    silent.quiet = true;
    QRUN_RETURN_IF_ERROR(sampling.MakeSampler(model_, silent, &sampler, &seed_));
    generator_->Use(std::move(sampler));
    return Outcome();
  }

  Outcome ChangeSystem(const std::string& text) {
    if (flags_.raw) return Refused("/system needs the chat template that --raw leaves out", "/help");
    if (BeginsWithSystem()) turns_.erase(turns_.begin());
    if (!text.empty()) turns_.insert(turns_.begin(), {"system", text});
    return Outcome();
  }

  Outcome Save(const std::string& path) {
    QRUN_RETURN_IF_ERROR(RefuseInputs("/save", path, flags_));
    if (generator_->Sequence().empty()) return Refused("nothing was said yet that could be saved", "/help");
    if (!held_) return Refused("there is no answer yet that could be saved", "say something first");
    SavedSession saved;
    saved.raw = flags_.raw;
    saved.turns = turns_;
    saved.think = as_template_.think;
    saved.tools = as_template_.tools;
    QRUN_RETURN_IF_ERROR(generator_->Save(&saved));
    return GoesOn(WriteSession(path, saved));
  }

  Outcome Load(const std::string& path) {
    struct stat found;
    // Standard input is the terminal.
    if (path == "-" || (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))) {
      return Outcome::Fail(kExitInput, 8001, path + " is not a regular file", "", "/save FILE writes one");
    }
    SavedSession saved;
    QRUN_RETURN_IF_ERROR(ReadSessionFor(flags_, path, &saved));
    TemplateFlags told = GoesOnWith(flags_, path, saved);
    QRUN_RETURN_IF_ERROR(generator_->Load(saved, flags_.raw ? nullptr : &told));
    as_template_ = std::move(told);
    turns_ = std::move(saved.turns);
    last_ = Prompt();
    spoken_ = generator_->Sequence();
    held_ = true;
    return Outcome();
  }

  // A file that cannot be written is no reason to lose the chat.
  static Outcome GoesOn(Outcome outcome) {
    if (outcome.ok()) return outcome;
    std::fputs(outcome.Text().c_str(), stderr);
    return Outcome();
  }

  const Model& model_;
  const ChatFlags& flags_;
  std::optional<Generator> generator_;
  uint64_t seed_ = 0;
  bool over_ = false;
  bool held_ = false;  // the session holds the conversation, up to an answer
  std::vector<Turn> turns_;
  TemplateFlags as_template_;  // of this conversation: of one that was loaded, as it was saved
  PromptCache cache_;
  std::vector<int32_t> spoken_;  // of --raw: all tokens so far
  Prompt last_;                  // what was answered last here; empty: nothing
};

}  // namespace

Outcome Converse(const Model& model, const ChatFlags& flags) {
  Chat chat(model, flags);
  QRUN_RETURN_IF_ERROR(chat.Open());
  if (!flags.engine.said.quiet) {
    const std::string name = *model.info.model_name != '\0' ? model.info.model_name : model.info.architecture;
    std::fprintf(stderr,
                 "%s, %llu tokens of context. Ctrl-C stops an answer, Ctrl-D ends, /help lists commands.\n",
                 OneLine(name).c_str(), static_cast<unsigned long long>(chat.capacity()));
  }
  if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);  // while the model was opened
  LineReader reader((PromptHistory(UsualHistoryFile())));
  for (bool exit = false; !exit;) {
    std::string line;
    if (!reader.Read(&line)) {
      std::fputs("\n", stderr);
      return Interrupts::Take() ? Outcome::Silent(kExitInterrupted) : Outcome();
    }
    Outcome outcome = chat.Take(line, &exit);
    if (chat.over()) return outcome;
    // The line is refused, or Ctrl-C came before it was understood.
    std::fputs(outcome.Text().c_str(), stderr);
    Interrupts::Take();  // one that came when the answer was complete already
  }
  return Outcome();
}

}  // namespace qrun
