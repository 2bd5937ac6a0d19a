// The folder in which GPU drivers' compiled kernels are kept between runs.
#ifndef RUNTIME_CAPI_KERNEL_CACHE_H_
#define RUNTIME_CAPI_KERNEL_CACHE_H_

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace qrt::capi {

constexpr uint64_t kKernelCacheBytes = uint64_t{256} << 20;

// Makes `folder` with its parents, for the user alone. Errors: io error Q6002.
Status MakeCacheFolder(const std::string& folder);

// Removes the compiled kernels in `folder` that were read or written longest ago (as far as the file system
// notes it) until the rest has at most `max_bytes`. Files that have no name of this cache are neither counted
// nor touched. Other processes may do the same, and write: files appear by rename, and one that is gone
// already is fine.
void TrimCacheFolder(const std::string& folder, uint64_t max_bytes);

}  // namespace qrt::capi

#endif  // RUNTIME_CAPI_KERNEL_CACHE_H_
