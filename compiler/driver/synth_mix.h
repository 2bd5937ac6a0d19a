// Format mixes by the names that people give to files: which format each matrix of a model gets.
#ifndef QCC_COMPILER_DRIVER_SYNTH_MIX_H_
#define QCC_COMPILER_DRIVER_SYNTH_MIX_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/driver/synth_model.h"

namespace qcc::compiler {

struct Mix;

// The mix of that name, one of SynthFormats(); null if there is none.
const Mix* FindMix(std::string_view name);
// What general.file_type calls it.
uint32_t FileType(const Mix& mix);
// Sets `format` of every tensor; `tied`: the token embedding is the output matrix too. Where a block does not
// fit the rows, the matrix becomes Q8_0, or F16.
void AssignFormats(const Mix& mix, bool tied, std::vector<SynthTensor>* tensors);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_SYNTH_MIX_H_
