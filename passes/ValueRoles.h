// What the values inside of a layer are called, whatever passes have made of the ops that compute them.
#ifndef QCC_PASSES_VALUE_ROLES_H_
#define QCC_PASSES_VALUE_ROLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Value.h"

namespace qcc::passes {

// The name of what a layer returns.
inline constexpr llvm::StringLiteral kLayerOutput = "l_out";

// The role of a value of a block, as other runtimes call it: "attn_norm", "Qcur", "ffn_out". By the op that
// computes it and the tensor that this op is about; of a fused op's result by what its body yields. Empty: it
// has none.
llvm::StringRef valueRole(mlir::Value value);

// Whether a value is rows that lie one behind the other, where it is stored at all: no view, and not padded,
// as linears of few columns leave them.
bool isDenseRows(mlir::Value value);

// A role that some layers have and no state keeps.
struct LostRole {
  std::string role;
  // Kind of the fused op that computes it and never stores it, or what reads it where it is no dense rows;
  // empty: it is stored, and not kept.
  std::string into;
  std::vector<uint32_t> layers;  // rising
};

// Of all layers, in the order in which they are computed.
std::vector<LostRole> lostRoles(mlir::ModuleOp module);

}  // namespace qcc::passes

#endif  // QCC_PASSES_VALUE_ROLES_H_
