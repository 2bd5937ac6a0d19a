#include "codegen/gpu/glsl/CompileGlsl.h"

#include <algorithm>
#include <cctype>
#include <shaderc/shaderc.hpp>
#include <spirv-tools/libspirv.hpp>

#include "codegen/gpu/glsl/CheckSpirv.h"

namespace qcc::gpu {
namespace {

llvm::Error fail(const std::string& what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "%s", what.c_str());
}

// shaderc ends its messages with a count of errors on a line of its own.
std::string FirstLines(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t last = text.rfind('\n');
  if (last != std::string::npos && text.find("generated", last) != std::string::npos) text.resize(last);
  return text;
}

// "quantize.k1024": QCC_k is 1024, so that one source can serve every k.
void DefineNumbersOf(std::string_view name, shaderc::CompileOptions& options) {
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('.'));
    name.remove_prefix(std::min(name.size(), part.size() + 1));
    size_t letters = 0;
    while (letters < part.size() && std::islower(static_cast<unsigned char>(part[letters]))) ++letters;
    const std::string_view number = part.substr(letters);
    if (letters == 0 || number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos)
      continue;
    options.AddMacroDefinition("QCC_" + std::string(part.substr(0, letters)), std::string(number));
  }
}

// Whether the first thing in the source that is no space and no comment is a #version. Without one glslang
// takes an old language that lacks Vulkan's, and prints all of its built-in declarations on stdout.
bool BeginsWithVersion(std::string_view source) {
  const auto skip = [&](size_t end, size_t more) {
    source.remove_prefix(end == std::string_view::npos ? source.size() : end + more);
  };
  while (!source.empty()) {
    if (std::isspace(static_cast<unsigned char>(source[0]))) {
      source.remove_prefix(1);
    } else if (source.starts_with("//")) {
      skip(source.find('\n'), 1);
    } else if (source.starts_with("/*")) {
      skip(source.find("*/", 2), 2);
    } else {
      break;
    }
  }
  if (!source.starts_with('#')) return false;
  source.remove_prefix(1);
  while (source.starts_with(' ') || source.starts_with('\t')) source.remove_prefix(1);
  return source.starts_with("version");
}

}  // namespace

llvm::Expected<std::vector<uint32_t>> compileGlsl(const std::string& path, std::string_view source,
                                                  const GlslContract& contract, const Profile& profile) {
  if (!BeginsWithVersion(source)) {
    return fail(path + ": does not begin with a #version line: expected '#version 460'");
  }
  shaderc::CompileOptions options;
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  options.SetTargetSpirv(shaderc_spirv_version_1_5);
  options.SetOptimizationLevel(shaderc_optimization_level_performance);
  options.AddMacroDefinition("QCC_WORKGROUP_SIZE", std::to_string(contract.workgroup_size));
  options.AddMacroDefinition("QCC_ARGS", std::to_string(contract.n_args));
  options.AddMacroDefinition("QCC_SUBGROUP", std::to_string(profile.subgroup));
  options.AddMacroDefinition("QCC_INT_DOT", profile.int_dot ? "1" : "0");
  DefineNumbersOf(contract.name, options);
  shaderc::Compiler compiler;
  const auto result = compiler.CompileGlslToSpv(source.data(), source.size(), shaderc_compute_shader,
                                                path.c_str(), "main", options);
  if (result.GetCompilationStatus() != shaderc_compilation_status_success)
    return fail(FirstLines(result.GetErrorMessage()));
  std::vector<uint32_t> words(result.cbegin(), result.cend());

  std::string found;
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&, const char* message) {
    found += (found.empty() ? "" : "; ") + std::string(message);
  });
  if (!tools.Validate(words)) return fail(path + ": is no valid SPIR-V: " + found);
  const std::string problem = checkSpirv(words, contract.workgroup_size, contract.n_args, profile);
  if (!problem.empty()) return fail(path + ": cannot stand for kernel '" + contract.name + "': " + problem);
  return words;
}

}  // namespace qcc::gpu
