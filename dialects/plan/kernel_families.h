// The table of kernel families in code: specs, roles, accesses and byte sizes of what a plan.dispatch may ask
// for. The rows are in kernel_families.def; kernel_families.md explains them. The dispatch verifier, the plan
// verifier and the targets read the same table.
#ifndef QCC_DIALECTS_PLAN_KERNEL_FAMILIES_H_
#define QCC_DIALECTS_PLAN_KERNEL_FAMILIES_H_

#include <optional>
#include <vector>

#include "dialects/formats/formats.h"
#include "dialects/plan/IR/Plan.h"

namespace qcc::plan {

// Typed reading of a dispatch's spec dictionary. The getters are for specs that checkSpec accepted.
class Spec {
 public:
  explicit Spec(mlir::DictionaryAttr dict) : dict(dict) {}
  int64_t integer(llvm::StringRef key) const;
  bool flag(llvm::StringRef key) const;
  llvm::StringRef string(llvm::StringRef key) const;
  Format format() const;  // of the key "format"

 private:
  mlir::DictionaryAttr dict;
};

enum class SpecType { Integer, F32, F64, Flag, String, Integers };

struct SpecKey {
  llvm::StringRef name;
  SpecType type;
  llvm::StringRef
      choices;  // String only: allowed values, '|' between them; "format": any name of formats.def
};

enum class Presence { Absent, Optional, Required };

// How the bytes of a role follow from the spec: `Rows` times the step's rows, `AnyRows` times a count of its
// own (rows that a selection reads, 16-row groups of an embedding table), or `Whole` once.
enum class Unit { Rows, AnyRows, Whole };

struct Role {
  llvm::StringRef name;
  Space space;
  bool mayBeLogits;  // the caller's output rows may stand in for the arena
  Unit (*unit)(const Spec&);
  Presence (*presence)(const Spec&);
  Access (*access)(const Spec&);
  int64_t (*bytes)(const Spec&);                 // per row or whole, see `unit`
  std::optional<Layout> (*layout)(const Spec&);  // of a weight role; none for a plan.constant
  int64_t (*cols)(const Spec&);  // of a weight role: columns of the matrix, values of a vector
};

struct Family {
  llvm::StringRef name;
  std::vector<SpecKey> spec;
  std::vector<Role> roles;

  const Role* role(llvm::StringRef name) const;
};

// All families, in the order of the table.
const std::vector<Family>& kernelFamilies();
// Null when there is no such family.
const Family* findKernelFamily(llvm::StringRef name);

// Every key present, of its type and among its choices; nothing else in the dictionary.
llvm::LogicalResult checkSpec(const Family& family, mlir::DictionaryAttr spec,
                              llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

// The row count that the `Rows` bindings of a dispatch agree on; 0 when it has none. The dispatch must be
// verified.
int64_t dispatchRows(DispatchOp op);

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_KERNEL_FAMILIES_H_
