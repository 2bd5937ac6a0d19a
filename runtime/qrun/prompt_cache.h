// Prefixes of prompts in a folder, for the processes that come later (qrun --prompt-cache).
#ifndef RUNTIME_QRUN_PROMPT_CACHE_H_
#define RUNTIME_QRUN_PROMPT_CACHE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/options.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

struct PromptCacheFlags {
  std::optional<std::string> folder;
  std::optional<int64_t> bytes;

  void AddTo(Options& options);
  // Errors: usage (a size without a folder).
  Outcome Check() const;
};

// A file for each prefix (prefix_file.h), under a name that says what it is for. Any number of processes
// share a folder: files appear whole, by rename, and go whole, the longest unused first; whoever has one open
// reads on. What another process began and never finished is told by the lock that it held, and removed.
// What is damaged, foreign or cannot be written is no error: the prompt is fed then. Of what cannot be
// written a warning tells.
class PromptCache {
 public:
  static constexpr size_t kBlock = 16;  // tokens: prefixes end where engines keep them, too

  // Makes the folder. `model` outlives this. Prefixes serve the same artifact; where its activations are
  // int8, in which devices and code variants round differently, also the same of these alone.
  PromptCache(const PromptCacheFlags& flags, const Model& model, const Verbosity& said);

  // The session becomes the longest prefix of `prompt`, but for the last token at least, that is kept, if
  // it has more than `held` tokens; *reused: how many, left alone where the session is. Errors: the
  // library's, but for files that it refuses.
  Outcome Restore(qrt_session* session, std::span<const int32_t> prompt, size_t held, size_t* reused);
  // Whole blocks of the last `prompt` that begin another kept one: prompts branch off there.
  size_t shared() const { return shared_; }

  // Takes a copy of the session, which holds `tokens`, and writes it with WritePending. Errors: the
  // library's.
  Outcome Add(qrt_session* session, std::span<const int32_t> tokens);
  // Before, the folder comes down to its limit.
  void WritePending();

 private:
  struct Entry {
    std::string path;
    size_t common;  // tokens that it has in common with a prompt
    size_t usable;  // of those a session can begin with; 0: none
  };
  struct Loaded {
    std::string file;
    std::string_view snapshot;  // in it
    uint64_t tokens = 0;
  };
  struct Pending {
    std::vector<int32_t> tokens;
    std::string snapshot;
  };

  std::vector<Entry> Candidates(std::span<const int32_t> prompt, uint64_t capacity) const;
  // False: it went, or is damaged, which is said.
  bool Load(const std::string& path, Loaded* out) const;
  void Refuse(const std::string& path, bool ours, const char* why) const;
  void Say(const std::string& what) const;
  int Write(const Pending& prefix) const;  // an errno; 0: it lies there
  // Removes the longest unused until `bytes` more fit in the place of the file `replaced`, and what was left
  // by processes that ended. The folder is locked.
  void MakeRoomFor(uint64_t bytes, const std::string& replaced) const;

  const std::string folder_;
  const uint64_t most_bytes_;
  const Model& model_;
  const Verbosity said_;
  qrt::Hash128 binding_ = {};
  bool usable_ = false;     // there is a folder
  bool too_large_ = false;  // a prefix was, which is said once
  size_t shared_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_PROMPT_CACHE_H_
