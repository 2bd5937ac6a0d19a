// `--dump`: values inside of layers, by name, as files.
#ifndef RUNTIME_QRUN_DUMP_H_
#define RUNTIME_QRUN_DUMP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/qrun/model.h"

namespace qrun {

struct DumpFlags {
  std::optional<std::string> names;   // "attn_gate:7,l_out:*"
  std::optional<std::string> folder;  // for the files; none: kUsualDumpFolder

  void AddTo(Options& options);
  // Errors: usage; resources (there can be no such folder).
  Outcome Check() const;
};
inline constexpr const char kUsualDumpFolder[] = "dump";

// Feeds `tokens` to a session of its own, one in a step, and writes of every value that is named and kept the
// row of each token: FOLDER/ROLE-LAYER.npy, [tokens][length] f32. Lists them on stderr, and says of named
// ones that are not kept why. Errors: usage (a name that no value has), artifact refused (none of them is
// kept), resources.
Outcome DumpValues(const Model& model, const DumpFlags& flags, const std::vector<int32_t>& tokens);

}  // namespace qrun

#endif  // RUNTIME_QRUN_DUMP_H_
