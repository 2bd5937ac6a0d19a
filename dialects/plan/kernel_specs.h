// The table of kernel families as types, without MLIR: NameSpec has a family's constants, NameBindings<Ref>
// what stands behind its roles. Plan, code generators and tests share them; the rows are in
// kernel_families.def.
#ifndef QCC_DIALECTS_PLAN_KERNEL_SPECS_H_
#define QCC_DIALECTS_PLAN_KERNEL_SPECS_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dialects/formats/formats.h"
#include "dialects/layouts/layouts.h"
#include "dialects/layouts/sequence_state.h"

namespace qcc::plan {

// ---- the enumerations of specs, and what the textual IR calls their values: choicesOf(E{}) ----

#define QCC_CHOICE(Name, Id, text) Id,
#define QCC_CHOICES(Name, choices) enum class Name : uint8_t { choices };
#include "dialects/plan/kernel_families.def"

#define QCC_CHOICE(Name, Id, text) {Name::Id, text},
#define QCC_CHOICES(Name, choices)                              \
  struct Name##Choice {                                         \
    Name value;                                                 \
    std::string_view text;                                      \
  };                                                            \
  inline constexpr Name##Choice k##Name##Choices[] = {choices}; \
  constexpr const auto& choicesOf(Name) {                       \
    return k##Name##Choices;                                    \
  }
#include "dialects/plan/kernel_families.def"

template <class E>
concept Choice = requires(E e) {
  choicesOf(e);
};

// "swiglu" for Epilogue::Swiglu.
template <Choice E>
constexpr std::string_view textOf(E value) {
  for (const auto& choice : choicesOf(value))
    if (choice.value == value) return choice.text;
  return "";
}

// ---- NameBindings<Ref>: one member for each role; operator bool of a Ref says whether it is bound ----

#define QCC_FAMILY(name, Name) \
  template <class Ref>         \
  struct Name##Bindings {
#define QCC_WEIGHT(role, ...) Ref role{};
#define QCC_BUFFER(role, ...) Ref role{};
#define QCC_OUTPUT(role, ...) Ref role{};
#define QCC_STATE(role, ...) Ref role{};
#define QCC_KV(role, ...) Ref role{};
#define QCC_END(name, Name) \
  }                         \
  ;
#include "dialects/plan/kernel_families.def"

// ---- NameSpec: one member for each constant ----

#define QCC_FAMILY(name, Name)                         \
  struct Name##Spec {                                  \
    static constexpr std::string_view kFamily = #name; \
    template <class Ref>                               \
    using Bindings = Name##Bindings<Ref>;
#define QCC_INT(key) int64_t key = 0;
#define QCC_REAL(type, key) type key = 0;
#define QCC_FLAG(key) bool key = false;
#define QCC_ENUM(type, key) type key{};
#define QCC_LIST(key, count) std::vector<int64_t> key; /* `count` values, or none */
#define QCC_END(name, Name)                           \
  bool operator==(const Name##Spec&) const = default; \
  }                                                   \
  ;
#include "dialects/plan/kernel_families.def"

// The bindings of a family with the constants `Spec`.
template <class Spec, class Ref>
using BindingsOf = typename Spec::template Bindings<Ref>;

// Calls fn(name, member) for every constant, in the order of the table.
#define QCC_FAMILY(name, Name)                                                                              \
  template <class Spec, class Fn>                                                                           \
  requires std::same_as<std::remove_const_t<Spec>, Name##Spec> void forEachKey([[maybe_unused]] Spec& spec, \
                                                                               [[maybe_unused]] Fn&& fn) {
#define QCC_INT(key) fn(#key, spec.key);
#define QCC_REAL(type, key) fn(#key, spec.key);
#define QCC_FLAG(key) fn(#key, spec.key);
#define QCC_ENUM(type, key) fn(#key, spec.key);
#define QCC_LIST(key, count) fn(#key, spec.key);
#define QCC_END(name, Name) }
#include "dialects/plan/kernel_families.def"

// Entries of the list `key` of a spec where it has any.
#define QCC_FAMILY(name, Name)                                           \
  constexpr int64_t listEntries([[maybe_unused]] const Name##Spec& spec, \
                                [[maybe_unused]] std::string_view key) {
#define QCC_LIST(name, count) \
  if (key == #name) return count;
#define QCC_END(name, Name) \
  return 0;                 \
  }
#include "dialects/plan/kernel_families.def"

// Whether the family of a spec reads `field` of the step's arguments.
#define QCC_FAMILY(name, Name)                                        \
  constexpr bool readsOfStep([[maybe_unused]] const Name##Spec& spec, \
                             [[maybe_unused]] std::string_view field) {
#define QCC_STEP(type, name) \
  if (field == #name) return true;
#define QCC_END(name, Name) \
  return false;             \
  }
#include "dialects/plan/kernel_families.def"

// ---- roles ----

// OneOf: of the family's roles that say so, at least one is bound.
enum class Presence { Absent, Optional, OneOf, Required };

// How the bytes of a role follow from the spec: `Rows` times the step's rows, `AnyRows` times a count of its
// own (rows that a selection reads, 16-row groups of an embedding table), or `Whole` once.
enum class Unit { Rows, AnyRows, Whole };

// A role under one spec.
struct RoleExtent {
  std::string_view name;
  Presence presence;
  Unit unit;
  int64_t bytes;  // per row or whole, see `unit`
};

// Channels of the gated delta net's convolution: queries, keys and values.
constexpr int64_t gdnChannels(const GatedDeltaSpec& s) {
  return 2 * s.key_heads * s.key_dim + s.value_heads * s.value_dim;
}

// What a block of tokens keeps (dialects/layouts/sequence_state.h).
constexpr int64_t gdnConvStateBytes(const GatedDeltaSpec& s) {
  return 4 * layouts::kStateBlock * gdnChannels(s);
}
constexpr int64_t gdnDeltaStateBytes(const GatedDeltaSpec& s) {
  return 4 * (layouts::DeltaSlotFloats(s.value_heads, s.key_dim, s.value_dim) +
              layouts::kStateBlock *
                  layouts::DeltaEntry(s.key_heads, s.value_heads, s.key_dim, s.value_dim).floats);
}

// One K and one V row of all kv heads.
template <class Spec>
constexpr int64_t kvTokenBytes(const Spec& s) {
  return 2 * s.kv_heads * s.head_dim * (s.kv == KvElement::F32 ? 4 : 2);
}

// The lists of moe_group, i32: how many experts have rows, at [1] their ids, ascending, at [1 + experts]
// where the rows of each begin in `order`, and behind the last of these the number of all.
constexpr int64_t moeGroupsBytes(int64_t experts) {
  return 4 * (2 * experts + 2);
}

// Int8 rows that an activation is the sum of.
constexpr int64_t termsOf(Numerics numerics) {
  return numerics == Numerics::Int8x2 ? 2 : 1;
}

// Columns of a row that goes into a moe_linear: with `add`, one hidden row for each expert of the row.
constexpr int64_t moeInputCols(const MoeLinearSpec& s) {
  return s.epilogue == Epilogue::Add ? s.top_k * s.k : s.k;
}

// Calls fn(RoleExtent, member) for every role of `bindings`, in the order of the table.
#define QCC_FAMILY(name, Name)        \
  template <class Bindings, class Fn> \
  void forEachRole([[maybe_unused]] const Name##Spec& s, Bindings&& bindings, Fn&& fn) {
#define QCC_WEIGHT(role, element, unit, presence, layout, cols, bytes) \
  fn(RoleExtent{#role, presence, unit, bytes}, bindings.role);
#define QCC_BUFFER(role, element, unit, presence, access, bytes) \
  fn(RoleExtent{#role, presence, unit, bytes}, bindings.role);
#define QCC_OUTPUT(role, element, unit, presence, access, bytes) \
  fn(RoleExtent{#role, presence, unit, bytes}, bindings.role);
#define QCC_STATE(role, kind, bytes) \
  fn(RoleExtent{#role, Presence::Required, Unit::Whole, bytes}, bindings.role);
#define QCC_KV(role, access, bytes) \
  fn(RoleExtent{#role, Presence::Required, Unit::Whole, bytes}, bindings.role);
#define QCC_END(name, Name) }
#include "dialects/plan/kernel_families.def"

// Of `bytes` that a dispatch of a step of `rows` rows binds as a weight: how many it reads at most. All of
// them but where rows pick theirs.
template <class Spec>
constexpr int64_t weightBytesRead(const Spec&, int64_t bytes, [[maybe_unused]] int64_t rows) {
  return bytes;
}
inline int64_t weightBytesRead(const EmbedSpec& s, int64_t bytes, int64_t rows) {
  return std::min(bytes,
                  rows * layouts::X16Bytes(s.format, layouts::kGroupRows, s.cols) / layouts::kGroupRows);
}
constexpr int64_t weightBytesRead(const MoeLinearSpec& s, int64_t bytes, int64_t rows) {
  return bytes / s.experts * std::min(s.experts, rows * s.top_k);
}

// What is wrong with the bindings under `spec`, empty when nothing is: "needs role 'w'", "has no role 'x'
// with this spec". Code that takes bindings asks this before it reads one.
struct RoleFault {
  std::string_view role;
  bool missing = false;  // else it is bound though the spec has no such role
  explicit operator bool() const { return !role.empty(); }
};
template <class Spec, class Bindings>
RoleFault findRoleFault(const Spec& spec, const Bindings& bindings) {
  RoleFault fault;
  std::string_view one_of;
  bool has_one = false;
  forEachRole(spec, bindings, [&](const RoleExtent& role, const auto& ref) {
    const bool bound = static_cast<bool>(ref);
    if (role.presence == Presence::OneOf) {
      if (one_of.empty()) one_of = role.name;
      has_one |= bound;
    }
    const bool wrong = bound ? role.presence == Presence::Absent : role.presence == Presence::Required;
    if (wrong && !fault) fault = {role.name, !bound};
  });
  if (!one_of.empty() && !has_one && !fault) fault = {one_of, true};
  return fault;
}

// Calls fn(NameSpec()) for the family called so; false when there is none.
template <class Fn>
bool withFamily(std::string_view family, Fn&& fn) {
#define QCC_FAMILY(name, Name) \
  if (family == #name) {       \
    fn(Name##Spec());          \
    return true;               \
  }
#include "dialects/plan/kernel_families.def"
  return false;
}
// The same for every family, in the order of the table.
template <class Fn>
void forEachFamily(Fn&& fn) {
#define QCC_FAMILY(name, Name) fn(Name##Spec());
#include "dialects/plan/kernel_families.def"
}

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_KERNEL_SPECS_H_
