#include "runtime/qrun/commands.h"

#include "runtime/qrun/process.h"

namespace qrun {
namespace {

constexpr Command kCommands[] = {
    {"chat", RunChat, "chat, or answer one prompt; the word may be left out"},
    {"logits", RunLogits, "write the logits of every position of a token sequence"},
    {"perplexity", RunPerplexity, "measure how well the model predicts a text"},
    {"tokenize", RunTokenize, "print the token ids of a text"},
    {"bench", RunBench, "measure prefill and decode speed"},
    {"check", RunCheck, "verify every hash of an artifact, and its golden values on this machine"},
    {"devices", RunDevices, "say what this machine has, and which code of an artifact it can run"},
    {"completion", RunCompletion, "print a script that completes qrun's command line", false},
    {"man", RunManual, "print a manual page: qrun man bench | man -l -", false},
};

}  // namespace

std::span<const Command> Commands() {
  return kCommands;
}

Outcome ParseOrHelp(Options& options, const Call& call, bool* done) {
  if (call.page != nullptr) {
    options.Describe(call.page);
    *done = true;
    return Outcome();
  }
  options.Default("MODEL", call.bundle);
  QRUN_RETURN_IF_ERROR(options.Parse(call.arguments));
  *done = options.help_wanted();
  return *done ? WriteStdout(options.Help()) : Outcome();
}

}  // namespace qrun
