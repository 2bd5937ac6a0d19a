#include "passes/Passes.h"

#include "dialects/layouts/layouts.h"
#include "llvm/ADT/MapVector.h"

namespace qcc::passes {
#define GEN_PASS_DEF_ASSIGNARENA
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// Time is counted in stages: the dispatches between two barriers run at the same time. A life covers whole
// stages.
struct Life {
  int64_t first, last;
};

struct Buffer {
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;  // bytes before the assignment
  SmallVector<Life> lives;
  int64_t placed = -1;

  int64_t size() const { return end - begin; }
  bool pinned() const { return begin == 0; }
  bool meets(const Buffer& other) const {
    return llvm::any_of(lives, [&](Life a) {
      return llvm::any_of(other.lives, [&](Life b) { return a.first <= b.last && b.first <= a.last; });
    });
  }
};

struct AssignArenaPass : impl::AssignArenaBase<AssignArenaPass> {
  using AssignArenaBase::AssignArenaBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::DenseMap<Operation*, plan::ProgramOp> owner;
    for (auto program : module.getOps<plan::ProgramOp>())
      if (failed(assign(program, owner))) return signalPassFailure();
  }

  LogicalResult assign(plan::ProgramOp program, llvm::DenseMap<Operation*, plan::ProgramOp>& owner) {
    llvm::MapVector<StringAttr, Buffer> buffers;
    llvm::SetVector<Operation*> bodies;  // the program and its blocks: whose references move
    bodies.insert(program);
    int64_t stage = 0;
    for (Operation& op : program.getBody().front()) {
      auto call = dyn_cast<plan::CallOp>(op);
      if (!call) {
        if (failed(step(op, stage, buffers))) return failure();
        continue;
      }
      auto block = SymbolTable::lookupNearestSymbolFrom<plan::BlockOp>(call, call.getBlockAttr());
      auto [it, isNew] = owner.try_emplace(block, program);
      if (it->second != program)
        return call.emitError("block '")
               << call.getBlock() << "' is called by two programs, '" << it->second.getSymName() << "' and '"
               << program.getSymName() << "': its buffers cannot be placed for both";
      bodies.insert(block);
      for (Operation& inner : block.getBody().front())
        if (failed(step(inner, stage, buffers))) return failure();
    }
    int64_t end = place(buffers);
    for (Operation* body : bodies) body->walk([&](plan::DispatchOp op) { move(op, buffers); });
    program.setArenaBytes(end);
    return success();
  }

  LogicalResult step(Operation& op, int64_t& stage, llvm::MapVector<StringAttr, Buffer>& buffers) {
    if (isa<plan::BarrierOp>(op)) {
      ++stage;
      return success();
    }
    auto dispatch = cast<plan::DispatchOp>(op);
    // What is read lives from its last full write on, also when this dispatch writes the same buffer again.
    for (bool writes : {false, true}) {
      for (auto [i, ref] : llvm::enumerate(dispatch.getBindings().getAsRange<plan::RefAttr>())) {
        if (ref.getSpace() != plan::Space::Arena || (ref.getAccess() == plan::Access::Write) != writes)
          continue;
        if (!dispatch.getBuffers())
          return dispatch.emitError("has arena bindings but does not name their buffers");
        Buffer& buffer = buffers[cast<StringAttr>((*dispatch.getBuffers())[i])];
        bool whole = ref.getOffset() <= buffer.begin && ref.getOffset() + ref.getBytes() >= buffer.end;
        buffer.begin = std::min(buffer.begin, ref.getOffset());
        buffer.end = std::max(buffer.end, ref.getOffset() + ref.getBytes());
        if (writes && whole)
          buffer.lives.push_back({stage, stage});
        else if (buffer.lives.empty())
          buffer.lives.push_back({0, stage});
        else
          buffer.lives.back().last = stage;
      }
    }
    return success();
  }

  // Lowest free offset, largest buffer first. Returns the bytes in use.
  int64_t place(llvm::MapVector<StringAttr, Buffer>& buffers) {
    SmallVector<Buffer*> order;
    for (auto& [name, buffer] : buffers) {
      if (buffer.pinned()) buffer.lives = {{0, std::numeric_limits<int64_t>::max()}};
      order.push_back(&buffer);
    }
    llvm::stable_sort(order, [](const Buffer* a, const Buffer* b) {
      return a->pinned() != b->pinned() ? a->pinned() : a->size() > b->size();
    });
    int64_t end = 0;
    SmallVector<const Buffer*> done;  // by offset
    for (Buffer* buffer : order) {
      int64_t at = 0;
      for (const Buffer* other : done)
        if (other->meets(*buffer) && at + buffer->size() > other->placed)
          at = std::max(at, layouts::AlignUp(other->placed + other->size(), plan::kAlignment));
      buffer->placed = at;
      end = std::max(end, layouts::AlignUp(at + buffer->size(), plan::kAlignment));
      done.insert(llvm::upper_bound(done, buffer,
                                    [](const Buffer* a, const Buffer* b) { return a->placed < b->placed; }),
                  buffer);
    }
    return end;
  }

  void move(plan::DispatchOp op, const llvm::MapVector<StringAttr, Buffer>& buffers) {
    SmallVector<Attribute> refs;
    for (auto [i, ref] : llvm::enumerate(op.getBindings().getAsRange<plan::RefAttr>())) {
      refs.push_back(ref);
      if (ref.getSpace() != plan::Space::Arena) continue;
      const Buffer& buffer = buffers.find(cast<StringAttr>((*op.getBuffers())[i]))->second;
      refs.back() =
          plan::RefAttr::get(op.getContext(), ref.getSpace(), buffer.placed + ref.getOffset() - buffer.begin,
                             ref.getBytes(), ref.getAccess());
    }
    op.setBindingsAttr(ArrayAttr::get(op.getContext(), refs));
  }
};
}  // namespace
}  // namespace qcc::passes
