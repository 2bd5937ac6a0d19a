// The table of profiles (profiles.def): what GPU code can be built for.
#ifndef QCC_CODEGEN_GPU_KERNELS_PROFILES_H_
#define QCC_CODEGEN_GPU_KERNELS_PROFILES_H_

#include <string>
#include <string_view>
#include <vector>

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

struct ProfileInfo {
  Profile profile;
  std::string target;  // "vulkan", "cuda"
  std::string chip;    // "sm_80": what PTX is written for; empty on Vulkan
  bool by_default;     // built when the user names no profile of the target
  std::string needs;   // for people
  // What the manifest asks of a device, all of it: "subgroup-32" (subgroups of exactly that size), "int-dot",
  // "matrix", "matrix-16x16x32", "shared-32768" (at least so many bytes of workgroup memory), "sm-80" (at
  // least compute capability 8.0).
  std::vector<std::string> features;
};

// All profiles; those of one target stand together, best first. Names are unique over all targets.
const std::vector<ProfileInfo>& Profiles();

// Null when there is none of that name.
const ProfileInfo* FindProfile(std::string_view name);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_PROFILES_H_
