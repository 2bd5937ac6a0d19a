#include "passes/Passes.h"

#include "passes/fuse/Group.h"

namespace qcc::passes {
#define GEN_PASS_DEF_FUSEQKNORMROPESTORE
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;
constexpr StringLiteral kQkNormRopeStore = hir::FusedQkNormRopeStoreOp::getOperationName();

bool isHeadPreparation(Operation* op) {
  return isa<hir::SliceOp, hir::RopeOp, hir::RmsNormOp, hir::ReshapeOp>(op) && !isPartOfLinear(op);
}

// The attention that reads the cache this store fills.
hir::AttentionOp readerOf(hir::KvStoreOp store) {
  for (Operation* user : store.getState().getUsers())
    if (auto attention = dyn_cast<hir::AttentionOp>(user); attention && store->isBeforeInBlock(attention))
      return attention;
  return nullptr;
}

struct FuseQkNormRopeStorePass : impl::FuseQkNormRopeStoreBase<FuseQkNormRopeStorePass> {
  using FuseQkNormRopeStoreBase::FuseQkNormRopeStoreBase;

  void runOnOperation() override {
    for (hir::KvStoreOp store : collect<hir::KvStoreOp>(getOperation())) fuse(store);
  }

  void fuse(hir::KvStoreOp store) {
    hir::AttentionOp attention = readerOf(store);
    if (!attention) return reportMissed(store, kQkNormRopeStore, "no attention reads this cache afterwards");
    auto keyRope = store.getK().getDefiningOp<hir::RopeOp>();
    auto queryRope = attention.getQ().getDefiningOp<hir::RopeOp>();
    if (!keyRope || !queryRope)
      return reportMissed(store, kQkNormRopeStore, "queries or keys are not rotated");
    if (keyRope.getTable() != queryRope.getTable())
      return reportMissed(store, kQkNormRopeStore, "queries and keys are rotated by different tables");
    if (!keyRope.getX().getDefiningOp<hir::RmsNormOp>() || !queryRope.getX().getDefiningOp<hir::RmsNormOp>())
      return reportMissed(store, kQkNormRopeStore, "queries or keys have no norm in front of the rotation");

    OpSet ops;
    ops.insert(store);
    ops.insert(queryRope);
    growBackwards(ops, isHeadPreparation);
    if (!ops.contains(keyRope))
      return reportMissed(store, kQkNormRopeStore, "the rotated keys are needed elsewhere");
    fuseAndReport(kQkNormRopeStore, ops, store);
  }
};
}  // namespace
}  // namespace qcc::passes
