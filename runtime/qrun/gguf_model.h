// A GGUF in the place of an artifact: qcc compiles it at first use, into the AOT cache, and from then on it
// starts from there without qcc.
#ifndef RUNTIME_QRUN_GGUF_MODEL_H_
#define RUNTIME_QRUN_GGUF_MODEL_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/aot/request.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

class Options;

// What qcc is asked for.
struct CompileChoice {
  std::string cache;                 // the AOT cache's folder; empty: there is none
  std::vector<std::string> options;  // qcc's own, as written: "--kv=f32"
  bool quiet = false;                // no progress
  std::function<Outcome()> ahead;    // asked before qcc compiles, or is missing; may be empty
};

// The artifact to open.
struct ModelFile {
  std::string path;
  std::optional<qrt::aot::ArtifactInUse> in_use;  // where it lies in the cache: keeps it there
};

// Whether the file begins as a GGUF does. False for what cannot be read: opening it says why.
bool IsGguf(const std::string& path);

// The files of a model: of a split GGUF, "STEM-00002-of-00003.gguf", all shards that its name tells of.
std::vector<std::string> FilesOfModel(const std::string& named);

// `gguf`'s artifact; compiled now if the cache has none, with qcc's progress on stderr. `options`: which
// passed qcc's on. Errors: usage (one that qcc does not take either), Q8008 (no qcc), Q8009 (it broke off),
// Q6002 (no cache); where qcc says itself what is wrong, a silent one with its exit code; what choice.ahead
// says.
Outcome CompiledModel(const std::string& gguf, const CompileChoice& choice, const Options& options,
                      ModelFile* out);

}  // namespace qrun

#endif  // RUNTIME_QRUN_GGUF_MODEL_H_
