#include "codegen/gpu/spirv/ValidateSpirv.h"

#include <cstring>
#include <iterator>
#include <map>
#include <spirv-tools/libspirv.hpp>
#include <utility>

namespace qcc::gpu {
namespace {

// SPIR-V's numbers of what is told apart here.
enum Code : uint32_t {
  kExtension = 10,
  kCapability = 17,
  kTypeBool = 20,
  kConstantTrue = 41,
  kConstantFalse = 42,
  kConstant = 43,
  kFunction = 54,
  kTypeMatrixKhr = 4456,
  kLoadKhr = 4457,
  kStoreKhr = 4458,
  kMulAddKhr = 4459,
  kTypeMatrixNv = 5358,
  kLoadNv = 5359,
  kStoreNv = 5360,
  kMulAddNv = 5361,
  kMatrixCapabilityKhr = 6022,
  kMatrixCapabilityNv = 5357,
};
constexpr size_t kHeader = 5, kVersion = 1, kBound = 3;
constexpr uint32_t kVersion16 = 0x10600;

std::string validate(const std::vector<uint32_t>& words) {
  spvtools::SpirvTools tools(words.size() > kVersion && words[kVersion] >= kVersion16 ? SPV_ENV_VULKAN_1_3
                                                                                      : SPV_ENV_VULKAN_1_2);
  std::string found;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t&, const char* message) {
    found += (found.empty() ? "" : "; ") + std::string(message);
  });
  if (tools.Validate(words)) return "";
  return found.empty() ? "SPIRV-Tools do not say why" : found;
}

using Words = std::vector<uint32_t>;

void append(Words& module, uint32_t opcode, const Words& operands) {
  module.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
  module.insert(module.end(), operands.begin(), operands.end());
}

Words text(const char* string) {
  Words words(std::strlen(string) / 4 + 1);
  std::memcpy(words.data(), string, std::strlen(string));
  return words;
}

}  // namespace

std::vector<uint32_t> withNvMatrices(const std::vector<uint32_t>& words) {
  Words out(words.begin(), words.begin() + kHeader);
  std::map<uint32_t, uint32_t> constants, sameType;  // value of a constant; a matrix type to its first equal
  std::map<Words, uint32_t> types;
  uint32_t boolType = 0, isRow = 0, isColumn = 0;
  auto newId = [&] { return out[kBound]++; };
  auto layout = [&](uint32_t id) { return constants[id] == 0 ? isRow : isColumn; };
  for (size_t i = kHeader; i < words.size(); i += words[i] >> 16) {
    const uint32_t code = words[i] & 0xffff;
    const Words w(words.begin() + static_cast<int64_t>(i + 1),
                  words.begin() + static_cast<int64_t>(i + (words[i] >> 16)));
    switch (code) {
      case kCapability:
        append(out, code, {w[0] == kMatrixCapabilityKhr ? uint32_t{kMatrixCapabilityNv} : w[0]});
        break;
      case kExtension:
        append(out, code, w == text("SPV_KHR_cooperative_matrix") ? text("SPV_NV_cooperative_matrix") : w);
        break;
      case kTypeMatrixKhr: {  // type, component, scope, rows, columns, use
        auto [it, first] = types.try_emplace({w[1], w[2], w[3], w[4]}, w[0]);
        sameType[w[0]] = it->second;
        if (first) append(out, kTypeMatrixNv, {w[0], w[1], w[2], w[3], w[4]});
        break;
      }
      case kLoadKhr: {  // type, result, pointer, layout, stride, memory operands
        Words nv{sameType[w[0]], w[1], w[2], w[4], layout(w[3])};
        nv.insert(nv.end(), w.begin() + 5, w.end());
        append(out, kLoadNv, nv);
        break;
      }
      case kStoreKhr: {  // pointer, object, layout, stride, memory operands
        Words nv{w[0], w[1], w[3], layout(w[2])};
        nv.insert(nv.end(), w.begin() + 4, w.end());
        append(out, kStoreNv, nv);
        break;
      }
      case kMulAddKhr:  // type, result, a, b, c, signs
        append(out, kMulAddNv, {w[0], w[1], w[2], w[3], w[4]});
        break;
      default:
        if (code == kTypeBool) boolType = w[0];
        if (code == kConstant) constants[w[1]] = w[2];
        if (code == kFunction && isRow == 0) {
          if (boolType == 0) append(out, kTypeBool, {boolType = newId()});
          append(out, kConstantFalse, {boolType, isRow = newId()});
          append(out, kConstantTrue, {boolType, isColumn = newId()});
        }
        append(out, code, w);
    }
  }
  return out;
}

std::string validateSpirv(const std::vector<uint32_t>& words) {
  const std::string found = validate(words);
  const std::string unknown = "Invalid capability operand: " + std::to_string(kMatrixCapabilityKhr);
  return found.find(unknown) == std::string::npos ? found : validate(withNvMatrices(words));
}

}  // namespace qcc::gpu
