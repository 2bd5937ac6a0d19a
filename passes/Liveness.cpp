#include "passes/Liveness.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace qcc::passes {

bool diesAt(Value value, Operation* op) {
  return llvm::all_of(value.getUsers(), [&](Operation* user) {
    Operation* inBlock = op->getBlock()->findAncestorOpInBlock(*user);
    return inBlock && (inBlock == op || inBlock->isBeforeInBlock(op));
  });
}

}  // namespace qcc::passes
