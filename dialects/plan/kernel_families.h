// Kernel specs and bindings in the plan dialect: a plan.dispatch from the structs of kernel_specs.h, the
// structs from a plan.dispatch, and what the verifiers know of roles. The rows are in kernel_families.def;
// kernel_families.md explains them.
#ifndef QCC_DIALECTS_PLAN_KERNEL_FAMILIES_H_
#define QCC_DIALECTS_PLAN_KERNEL_FAMILIES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/kernel_specs.h"

namespace qcc::plan {

// What is bound to a role: a range of a space. How it is accessed is in the table. Unbound without bytes.
struct Ref {
  Space space = Space::Arena;
  int64_t offset = 0;
  int64_t bytes = 0;
  std::string buffer;  // the value behind a range of the arena; empty in the other spaces
  explicit operator bool() const { return bytes != 0; }
};

// A role under one spec, with what only the plan knows of it.
struct Role {
  struct State {
    StateKind kind;
    Element element;
  };
  std::string_view name;
  Space space;
  bool mayBeLogits;  // the caller's output rows may stand in for the arena
  Unit unit;
  Presence presence;
  Access access;
  int64_t bytes;                 // per row or whole, see `unit`
  std::optional<Layout> layout;  // of a weight role; none for a plan.constant
  int64_t cols;                  // of a weight role: columns of the matrix, values of a vector
  std::optional<State> state;    // of a role in the state or the KV cache
};

// All roles of a family under a spec, also those that it has not (Presence::Absent), in the order of the
// table.
#define QCC_FAMILY(name, Name) std::vector<Role> rolesOf(const Name##Spec& spec);
#include "dialects/plan/kernel_families.def"
// The same of a spec in its textual form, which checkSpec accepted.
std::vector<Role> rolesOf(llvm::StringRef family, mlir::DictionaryAttr spec);
// A role of a verified dispatch that binds it.
Role roleOf(DispatchOp op, llvm::StringRef role);

// Every key of the family present, of its type and among its choices; nothing else in the dictionary. A
// family that the table lacks is an error, too.
llvm::LogicalResult checkSpec(llvm::StringRef family, mlir::DictionaryAttr spec,
                              llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

// ---- specs ----

// `spec` in its textual form.
#define QCC_FAMILY(name, Name) mlir::DictionaryAttr specAttr(mlir::Builder& b, const Name##Spec& spec);
#include "dialects/plan/kernel_families.def"

// The other way round, for a dictionary that checkSpec accepted: fills `spec`.
#define QCC_FAMILY(name, Name) void readSpec(mlir::DictionaryAttr dict, Name##Spec& spec);
#include "dialects/plan/kernel_families.def"

// ---- dispatches ----

// A dispatch of roles, in the order of the table.
struct BoundRole {
  Role role;
  const Ref* ref;
};
DispatchOp createDispatch(mlir::OpBuilder& b, mlir::Location loc, llvm::StringRef family,
                          mlir::DictionaryAttr spec, llvm::ArrayRef<BoundRole> roles);

// A dispatch of the family of `spec`. The op's verifier finds a role that is missing or not of this spec.
template <class Spec>
DispatchOp createDispatch(mlir::OpBuilder& b, mlir::Location loc, const Spec& spec,
                          const BindingsOf<Spec, Ref>& bindings) {
  std::vector<Role> roles = rolesOf(spec);
  llvm::SmallVector<BoundRole> bound;
  size_t i = 0;
  forEachRole(spec, bindings, [&](const RoleExtent&, const Ref& ref) {
    if (ref) bound.push_back({roles[i], &ref});
    ++i;
  });
  return createDispatch(b, loc, llvm::StringRef(Spec::kFamily), specAttr(b, spec), bound);
}

// What a verified dispatch binds to a role; unbound when nothing.
Ref refOf(DispatchOp op, llvm::StringRef role);

template <class Spec>
BindingsOf<Spec, Ref> bindingsOf(DispatchOp op, const Spec& spec) {
  BindingsOf<Spec, Ref> bindings;
  forEachRole(spec, bindings, [&](const RoleExtent& role, Ref& ref) { ref = refOf(op, role.name); });
  return bindings;
}

// Calls fn(NameSpec, NameBindings<Ref>) for a verified dispatch.
template <class Fn>
void visitDispatch(DispatchOp op, Fn&& fn) {
  llvm::StringRef family = op.getFamily();
  withFamily(std::string_view(family.data(), family.size()), [&](auto spec) {
    readSpec(op.getSpec(), spec);
    fn(std::as_const(spec), bindingsOf(op, spec));
  });
}

// The row count that the `Rows` bindings of a dispatch agree on; 0 when it has none. The dispatch must be
// verified.
int64_t dispatchRows(DispatchOp op);

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_KERNEL_FAMILIES_H_
