// A NextN block in a file of its own ("mtp-*.gguf"), beside one of the model without it.
#ifndef QCC_FRONTENDS_MODELS_NEXTNFILE_H_
#define QCC_FRONTENDS_MODELS_NEXTNFILE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"
#include "frontends/models/HyperParameters.h"
#include "frontends/models/Metadata.h"

namespace qcc::models {

// Whether the file has a tensor of layer `layer`, also one of a format that is not supported. Some keep the
// key of a NextN block that was taken out of them.
bool hasLayer(const gguf::File& file, int64_t layer);

// What the model has with the block of `block`, whose keys count the trunk's blocks, too. Errors: Q2010, it
// is not this model's.
absl::Status addNextnBlock(HyperParameters& hp, const HyperParameters& withBlock, const gguf::File& block);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_NEXTNFILE_H_
