// The importer that the architectures share; what differs between them is FamilyTraits, and what a file has.
#ifndef QCC_FRONTENDS_MODELS_FAMILY_H_
#define QCC_FRONTENDS_MODELS_FAMILY_H_

#include <string>

#include "frontends/models/HyperParameters.h"
#include "frontends/models/import.h"

namespace qcc::models {

// Every layer is attention or, in a hybrid, a delta net, with a feed-forward block behind it, dense or of
// experts. `arch` prefixes the keys.
absl::StatusOr<ImportResult> importFamily(mlir::MLIRContext& context, const gguf::File& file,
                                          const ImportOptions& options, const std::string& arch,
                                          const FamilyTraits& family);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_FAMILY_H_
