#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"

namespace qcc::passes {
#define GEN_PASS_DEF_INSERTBARRIERS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// Bytes that a dispatch touches. The weight section is only read and left out, what a thread has for itself
// touches no other.
struct Touch {
  plan::Space space;
  int64_t begin, end;
  bool writes;
};
using Touches = SmallVector<Touch>;

bool conflict(const Touch& a, const Touch& b) {
  return a.space == b.space && a.begin < b.end && b.begin < a.end && (a.writes || b.writes);
}
bool conflict(const Touches& a, const Touches& b) {
  return llvm::any_of(
      a, [&](const Touch& x) { return llvm::any_of(b, [&](const Touch& y) { return conflict(x, y); }); });
}

Touches touchesOf(plan::DispatchOp op) {
  Touches touches;
  for (auto ref : op.getBindings().getAsRange<plan::RefAttr>())
    if (ref.getSpace() != plan::Space::Weights && ref.getSpace() != plan::Space::Thread)
      touches.push_back({ref.getSpace(), ref.getOffset(), ref.getOffset() + ref.getBytes(),
                         ref.getAccess() != plan::Access::Read});
  return touches;
}

// What the outside of a body sees of it: touches before its first and behind its last barrier.
struct Border {
  Touches entry, exit;
  bool hasBarrier = false;

  Border at(plan::CallOp call) const {
    Border moved = *this;
    for (Touches* touches : {&moved.entry, &moved.exit})
      for (Touch& t : *touches) {
        int64_t base = t.space == plan::Space::State ? call.getState()
                       : t.space == plan::Space::KV  ? call.getKv()
                                                     : 0;
        t.begin += base;
        t.end += base;
      }
    return moved;
  }
};

struct InsertBarriersPass : impl::InsertBarriersBase<InsertBarriersPass> {
  using InsertBarriersBase::InsertBarriersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    module.walk([](plan::BarrierOp op) { op.erase(); });
    llvm::DenseMap<StringAttr, Border> blocks;
    for (auto block : module.getOps<plan::BlockOp>()) {
      Border border = insert(block.getBody().front(), blocks);
      blocks[block.getSymNameAttr()] = std::move(border);
    }
    for (auto program : module.getOps<plan::ProgramOp>()) insert(program.getBody().front(), blocks);
  }

  Border insert(Block& body, const llvm::DenseMap<StringAttr, Border>& blocks) {
    Border border;
    Touches pending;
    auto barrier = [&](Operation* before) {
      OpBuilder b(before);
      plan::BarrierOp::create(b, before->getLoc());
      if (!border.hasBarrier) border.entry = pending;
      border.hasBarrier = true;
      pending.clear();
    };
    for (Operation& op : llvm::make_early_inc_range(body)) {
      if (auto dispatch = dyn_cast<plan::DispatchOp>(op)) {
        Touches touches = touchesOf(dispatch);
        if (conflict(pending, touches)) barrier(&op);
        llvm::append_range(pending, touches);
      } else if (auto call = dyn_cast<plan::CallOp>(op)) {
        Border inner = blocks.lookup(call.getBlockAttr().getAttr()).at(call);
        if (conflict(pending, inner.entry)) barrier(&op);
        // The block's own barriers also order what was pending in front of it.
        if (inner.hasBarrier)
          pending = inner.exit;
        else
          llvm::append_range(pending, inner.exit);
      }
    }
    border.exit = pending;
    if (!border.hasBarrier) border.entry = pending;
    return border;
  }
};
}  // namespace
}  // namespace qcc::passes
