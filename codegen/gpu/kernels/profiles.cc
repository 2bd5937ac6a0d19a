#include "codegen/gpu/kernels/profiles.h"

namespace qcc::gpu {
namespace {

constexpr int kLeastThreads = QRT_VULKAN_THREADS, kLeastShared = QRT_VULKAN_SHARED_BYTES;
// 16 threads for each of as many parts as linears have at most (LinearSpec::parts). Of subgroups of 8 some of
// Intel's GPUs have 56 in a workgroup.
constexpr int kWideThreads = 512, kNarrowThreads = 256;
// Bytes of workgroup memory: eight rows of 2048 columns that a linear makes for itself take 22.5 KiB.
constexpr int kMoreShared = 32768;

std::vector<std::string> Features(const Profile& profile, std::string_view chip) {
  std::vector<std::string> features;
  if (chip.substr(0, 3) == "sm_") features.push_back("sm-" + std::string(chip.substr(3)));
  if (profile.subgroup != 0) features.push_back("subgroup-" + std::to_string(profile.subgroup));
  if (profile.int_dot) features.push_back("int-dot");
  const MatrixUnits& units = profile.matrix;
  if (units.kind == MatrixUnits::Kind::kMma) features.push_back("matrix");
  if (units.kind == MatrixUnits::Kind::kCooperative) {
    features.push_back("matrix-" + std::to_string(units.m) + "x" + std::to_string(units.n) + "x" +
                       std::to_string(units.k));
  }
  if (!chip.empty()) return features;  // of CUDA a compute capability says the rest
  if (profile.max_workgroup > kLeastThreads)
    features.push_back("threads-" + std::to_string(profile.max_workgroup));
  if (profile.max_shared > kLeastShared) features.push_back("shared-" + std::to_string(profile.max_shared));
  return features;
}

constexpr MatrixUnits None() {
  return {};
}
constexpr MatrixUnits Mma() {
  return {MatrixUnits::Kind::kMma, 16, 8, 32};
}
constexpr MatrixUnits Cooperative(int m, int n, int k) {
  return {MatrixUnits::Kind::kCooperative, m, n, k};
}

// Threads of small subgroups are those of CPUs, which hide latency themselves, and of older GPUs of Intel.
constexpr LoadsAhead Ahead(int subgroup, std::string_view chip) {
  constexpr int kLeastSubgroup = 16;
  if (!chip.empty()) return LoadsAhead::kAlways;
  return subgroup >= kLeastSubgroup ? LoadsAhead::kLittleCode : LoadsAhead::kNever;
}

constexpr bool DividesExactly(std::string_view target) {
  return target == "cuda";
}

std::vector<ProfileInfo> MakeProfiles() {
  std::vector<ProfileInfo> table;
#define QCC_GPU_PROFILE(target, name, subgroup, int_dot, matrix, max_workgroup, max_shared, overlap, chip, \
                        by_default, needs)                                                                 \
  table.push_back({{name, subgroup, int_dot, matrix, max_workgroup, max_shared, overlap,                   \
                    Ahead(subgroup, chip), DividesExactly(target)},                                        \
                   target,                                                                                 \
                   chip,                                                                                   \
                   by_default,                                                                             \
                   needs,                                                                                  \
                   {}});
#include "codegen/gpu/kernels/profiles.def"
#undef QCC_GPU_PROFILE
  for (ProfileInfo& info : table) info.features = Features(info.profile, info.chip);
  return table;
}

}  // namespace

const std::vector<ProfileInfo>& Profiles() {
  static const std::vector<ProfileInfo> table = MakeProfiles();
  return table;
}

const ProfileInfo* FindProfile(std::string_view name) {
  for (const ProfileInfo& info : Profiles())
    if (info.profile.name == name) return &info;
  return nullptr;
}

}  // namespace qcc::gpu
