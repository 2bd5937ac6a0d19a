// Which part of a model a stage belongs to, for sums of times.
#ifndef RUNTIME_ARTIFACT_STAGE_GROUP_H_
#define RUNTIME_ARTIFACT_STAGE_GROUP_H_

#include <string_view>

namespace qrt {

// By the family that a specification begins with ("attention.fold {...": attention); "other": of no part, or
// none that is known. A test demands every family of dialects/plan/kernel_families.def.
constexpr const char* StageGroup(std::string_view specification) {
  struct Member {
    std::string_view family;
    const char* group;
  };
  constexpr Member kMembers[] = {{"attention", "attention"},  {"qk_norm_rope_store", "attention"},
                                 {"rope_table", "attention"}, {"gated_delta", "delta"},
                                 {"moe_route", "experts"},    {"moe_group", "experts"},
                                 {"moe_linear", "experts"},   {"linear", "linears"},
                                 {"swiglu", "linears"},       {"norm", "norms"},
                                 {"quantize", "norms"},       {"add", "norms"},
                                 {"concat", "norms"},         {"select_rows", "norms"},
                                 {"embed", "embedding"},      {"sample", "choice"},
                                 {"trace", "other"}};
  const std::string_view family = specification.substr(0, specification.find_first_of(" .{"));
  for (const Member& member : kMembers) {
    if (member.family == family) return member.group;
  }
  return "other";
}
constexpr bool IsLinear(std::string_view specification) {
  return specification.substr(0, specification.find_first_of(" .{")) == "linear";
}
// The linear that makes a program's logits.
inline constexpr const char kHeadGroup[] = "head";

}  // namespace qrt

#endif  // RUNTIME_ARTIFACT_STAGE_GROUP_H_
