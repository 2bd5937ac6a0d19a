#include "codegen/gpu/glsl/CheckSpirv.h"

#include <algorithm>
#include <map>
#include <span>

namespace qcc::gpu {
namespace {

// From the SPIR-V specification; the few numbers that are needed here.
enum Op : uint32_t {
  kOpExecutionMode = 16,
  kOpCapability = 17,
  kOpTypeBool = 20,
  kOpTypeInt = 21,
  kOpTypeFloat = 22,
  kOpTypeVector = 23,
  kOpTypeMatrix = 24,
  kOpTypeArray = 28,
  kOpTypeStruct = 30,
  kOpTypePointer = 32,
  kOpConstant = 43,
  kOpSpecConstant = 50,
  kOpVariable = 59,
  kOpDecorate = 71,
  kOpMemberDecorate = 72
};
constexpr uint32_t kLocalSize = 17, kOffset = 35, kArrayStride = 6;
enum StorageClass : uint32_t {
  kUniformConstant = 0,
  kUniform = 2,
  kWorkgroup = 4,
  kPushConstant = 9,
  kAtomicCounter = 10,
  kImage = 11,
  kStorageBuffer = 12
};

struct Capability {
  uint32_t number;
  bool (*allowed)(const Profile&);
};
bool always(const Profile&) {
  return true;
}
bool withSubgroups(const Profile& profile) {
  return profile.subgroup != 0;
}
bool withIntDot(const Profile& profile) {
  return profile.int_dot;
}
// What devices of a profile have (docs/reference/gpu-profiles.md).
constexpr Capability kCapabilities[] = {
    {0, always},          // Matrix
    {1, always},          // Shader
    {11, always},         // Int64
    {5345, always},       // VulkanMemoryModel
    {5347, always},       // PhysicalStorageBufferAddresses
    {61, withSubgroups},  // GroupNonUniform
    {65, withSubgroups},  // GroupNonUniformShuffle
    {6016, withIntDot},   // DotProductInputAll
    {6017, withIntDot},   // DotProductInput4x8Bit
    {6018, withIntDot},   // DotProductInput4x8BitPacked
    {6019, withIntDot},   // DotProduct
};

class Module {
 public:
  explicit Module(const std::vector<uint32_t>& words) {
    constexpr size_t kHeader = 5;
    for (size_t at = kHeader; at < words.size();) {
      const size_t length = words[at] >> 16;
      if (length == 0 || length > words.size() - at) break;
      Read(words[at] & 0xffff, std::span(words).subspan(at + 1, length - 1));
      at += length;
    }
  }

  std::string Problem(uint32_t workgroup_size, uint32_t n_args, const Profile& profile) const {
    if (local_size_[0] != workgroup_size || local_size_[1] != 1 || local_size_[2] != 1) {
      return "its workgroup is " + std::to_string(local_size_[0]) + " x " + std::to_string(local_size_[1]) +
             " x " + std::to_string(local_size_[2]) + ", the kernel is launched with " +
             std::to_string(workgroup_size) +
             " threads: declare layout(local_size_x = QCC_WORKGROUP_SIZE) in";
    }
    for (const auto& [id, type] : types_) {
      if (type.op == kOpTypeArray && !constants_.contains(type.operands[2])) {
        return "the length of an array is computed from a specialization constant, which nothing sets here: "
               "write it as a number";
      }
    }
    for (const auto& [type, storage] : variables_) {
      if (storage == kPushConstant) {
        const uint64_t bytes = VariableBytes(type);
        if (bytes > uint64_t{8} * n_args) {
          return "its push constants take " + std::to_string(bytes) + " bytes, the kernel has " +
                 std::to_string(n_args) + " arguments of 8 bytes";
        }
      } else if (storage == kUniformConstant || storage == kUniform || storage == kStorageBuffer ||
                 storage == kImage || storage == kAtomicCounter) {
        return "it binds a resource; all memory is reached by the addresses in the push constants "
               "(buffer_reference)";
      }
    }
    if (SharedBytes() > static_cast<uint64_t>(profile.max_shared)) {
      return "it takes " + std::to_string(SharedBytes()) + " bytes of workgroup memory, profile '" +
             profile.name + "' has " + std::to_string(profile.max_shared);
    }
    for (uint32_t number : capabilities_) {
      const auto* known =
          std::find_if(std::begin(kCapabilities), std::end(kCapabilities),
                       [&](const Capability& capability) { return capability.number == number; });
      if (known == std::end(kCapabilities) || !known->allowed(profile)) {
        return "it needs SPIR-V capability " + std::to_string(number) + ", which devices of profile '" +
               profile.name + "' need not have";
      }
    }
    return "";
  }

  uint64_t SharedBytes() const {
    uint64_t bytes = 0;
    for (const auto& [type, storage] : variables_)
      if (storage == kWorkgroup) bytes += VariableBytes(type);
    return bytes;
  }

 private:
  struct Type {
    uint32_t op = 0;
    std::vector<uint32_t> operands;  // the id first
  };

  void Read(uint32_t op, std::span<const uint32_t> words) {
    switch (op) {
      case kOpCapability:
        capabilities_.push_back(words[0]);
        break;
      case kOpExecutionMode:
        if (words.size() == 5 && words[1] == kLocalSize) std::copy_n(&words[2], 3, local_size_);
        break;
      case kOpDecorate:
        if (words.size() == 3 && words[1] == kArrayStride) strides_[words[0]] = words[2];
        break;
      case kOpMemberDecorate:
        if (words.size() == 4 && words[2] == kOffset) offsets_[{words[0], words[1]}] = words[3];
        break;
      case kOpConstant:
      case kOpSpecConstant:  // nothing specialises it: it has its default
        if (words.size() == 3) constants_[words[1]] = words[2];
        break;
      case kOpVariable:
        variables_.emplace_back(words[0], words[2]);
        break;
      case kOpTypeBool:
      case kOpTypeInt:
      case kOpTypeFloat:
      case kOpTypeVector:
      case kOpTypeMatrix:
      case kOpTypeArray:
      case kOpTypeStruct:
      case kOpTypePointer:
        types_[words[0]] = {op, {words.begin(), words.end()}};
        break;
      default:
        break;
    }
  }

  // Of a value of this type; 0 where it has no size.
  uint64_t Bytes(uint32_t id) const {
    const auto found = types_.find(id);
    if (found == types_.end()) return 0;
    const std::vector<uint32_t>& o = found->second.operands;
    switch (found->second.op) {
      case kOpTypeInt:
      case kOpTypeFloat:
        return o[1] / 8;
      case kOpTypeBool:
        return 4;
      case kOpTypePointer:
        return 8;
      case kOpTypeVector:
      case kOpTypeMatrix:  // of columns
        return uint64_t{o[2]} * Bytes(o[1]);
      case kOpTypeArray: {
        // Arrays in workgroup memory have no stride.
        const auto stride = strides_.find(o[0]);
        const auto length = constants_.find(o[2]);  // always there where Problem found none
        return (length == constants_.end() ? 0 : length->second) *
               (stride == strides_.end() ? Bytes(o[1]) : stride->second);
      }
      case kOpTypeStruct: {
        uint64_t end = 0;
        for (uint32_t i = 0; i + 1 < o.size(); ++i) {
          const auto offset = offsets_.find({o[0], i});
          end = std::max(offset == offsets_.end() ? end : offset->second, end) + Bytes(o[i + 1]);
        }
        return end;
      }
      default:
        return 0;
    }
  }

  // Of what a variable holds: its type is a pointer.
  uint64_t VariableBytes(uint32_t pointer) const {
    const auto found = types_.find(pointer);
    return found == types_.end() || found->second.op != kOpTypePointer ? 0 : Bytes(found->second.operands[2]);
  }

  std::vector<uint32_t> capabilities_;
  uint32_t local_size_[3] = {0, 0, 0};
  std::map<uint32_t, uint32_t> strides_, constants_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> offsets_;
  std::map<uint32_t, Type> types_;
  std::vector<std::pair<uint32_t, uint32_t>> variables_;  // type, storage class
};

}  // namespace

uint32_t sharedBytesOf(const std::vector<uint32_t>& words) {
  return static_cast<uint32_t>(Module(words).SharedBytes());
}

std::string checkSpirv(const std::vector<uint32_t>& words, uint32_t workgroup_size, uint32_t n_args,
                       const Profile& profile) {
  return Module(words).Problem(workgroup_size, n_args, profile);
}

}  // namespace qcc::gpu
