// Kernels written by hand in GLSL: compute shaders of the user's (`qcc compile --kernels=DIR`) or of our own,
// compiled by shaderc to what the runtime runs.
#ifndef QCC_CODEGEN_GPU_GLSL_COMPILEGLSL_H_
#define QCC_CODEGEN_GPU_GLSL_COMPILEGLSL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "llvm/Support/Error.h"

namespace qcc::gpu {

// What the kernel that the source stands for is launched with.
struct GlslContract {
  std::string name;  // of the kernel
  uint32_t workgroup_size = 0;
  uint32_t n_args = 0;  // push constants: as many values of 8 bytes
};

// Compiles `source`, found in `path`, and checks it against the contract. The entry point is "main". Words
// are SPIR-V 1.5 for Vulkan 1.2, validated; equal sources give equal words. Defined for the preprocessor:
// QCC_WORKGROUP_SIZE, QCC_ARGS, QCC_SUBGROUP (0: none may be used), QCC_INT_DOT (0 or 1), and the numbers of
// the kernel's name: for "quantize.k1024" QCC_k is 1024. Errors: the compiler's, "path:line: ..."; another
// workgroup size, more push constants than arguments, bound resources, or a capability that devices of the
// profile need not have.
llvm::Expected<std::vector<uint32_t>> compileGlsl(const std::string& path, std::string_view source,
                                                  const GlslContract& contract, const Profile& profile);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_GLSL_COMPILEGLSL_H_
