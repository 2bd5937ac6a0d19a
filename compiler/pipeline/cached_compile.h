// Compiles that were done before are not done again.
#ifndef QCC_COMPILER_PIPELINE_CACHED_COMPILE_H_
#define QCC_COMPILER_PIPELINE_CACHED_COMPILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/pipeline/options.h"
#include "runtime/aot/request.h"

namespace qcc::compiler {

// CompileModel for `qcc compile`. Where the cache knows an artifact that the same compiler made of the same
// model with the same options, and that is unchanged, it stays or is copied to options.output. Compiles
// always where something is asked for besides the artifact. Errors: as of CompileModel.
absl::Status CompileOnce(const PipelineOptions& options, ProgressSink& sink);

// The artifact of options.input in the cache options.cache_dir: compiled if it is not there, which makes room
// for it. options.output means nothing. `request` (runtime/aot/request.h; may be empty): under which to
// remember the answer. Errors: as of CompileModel; Q0102 (no cache), Q6002 (the folder).
absl::StatusOr<qrt::aot::ArtifactInUse> CompileIntoCache(PipelineOptions options, const std::string& request,
                                                         ProgressSink& sink);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_CACHED_COMPILE_H_
