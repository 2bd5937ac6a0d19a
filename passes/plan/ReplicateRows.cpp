#include "passes/Passes.h"

#include <optional>

#include "dialects/layouts/layouts.h"
#include "dialects/plan/kernel_families.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace qcc::passes {
#define GEN_PASS_DEF_REPLICATEROWS
#include "passes/Passes.h.inc"
namespace {
using namespace mlir;

// A thread's share of its second-level cache, in which it finds what it made.
constexpr int64_t kMostThreadBytes = 128 << 10;

// A binding of a dispatch, which is the `at`-th of its body.
struct Use {
  plan::DispatchOp op;
  unsigned binding;
  Block* body;
  int64_t at;

  plan::RefAttr ref() {
    ArrayAttr bindings = op.getBindings();
    return cast<plan::RefAttr>(bindings[binding]);
  }
};

// What a dispatch writes, and who reads it.
struct Value {
  Use written;
  SmallVector<Use> read;
  int64_t lastRead = 0;
};

// Of values that threads keep side by side.
struct Kept {
  int64_t begin, end, lastRead;
};

bool ofOneThread(plan::DispatchOp op) {
  return op.getFamily() == StringRef(plan::NormSpec::kFamily) ||
         op.getFamily() == StringRef(plan::QuantizeSpec::kFamily);
}

class Replication {
 public:
  Replication(plan::ProgramOp program, ModuleOp module) {
    llvm::SetVector<Block*> called;
    for (auto call : program.getBody().getOps<plan::CallOp>())
      called.insert(&module.lookupSymbol<plan::BlockOp>(call.getBlock()).getBody().front());
    bodies.append(called.begin(), called.end());
    bodies.push_back(&program.getBody().front());  // last: what it keeps lies behind what any block does
    for (Block* body : bodies) collect(*body);
  }

  void run() {
    for (Block* body : bodies) {
      const int64_t base = body == bodies.back() ? end : 0;
      SmallVector<Kept> kept;
      int64_t at = 0;
      for (auto op : body->getOps<plan::DispatchOp>()) replicate(op, at++, base, kept);
    }
  }

 private:
  void collect(Block& body) {
    int64_t at = 0;
    for (auto op : body.getOps<plan::DispatchOp>()) {
      for (auto [i, ref] : llvm::enumerate(op.getBindings().getAsRange<plan::RefAttr>()))
        if (ref.getSpace() == plan::Space::Arena && op.getBuffers())
          uses[cast<StringAttr>((*op.getBuffers())[i])].push_back({op, static_cast<unsigned>(i), &body, at});
      ++at;
    }
  }

  // What a dispatch writes there, if it is a value that only dispatches behind it in its body read.
  std::optional<Value> valueOf(plan::DispatchOp op, unsigned binding, Block* body, int64_t at) {
    Value value{{op, binding, body, at}, {}, at};
    const plan::RefAttr written = value.written.ref();
    if (written.getSpace() != plan::Space::Arena || !op.getBuffers()) return std::nullopt;
    if (written.getOffset() == 0) return std::nullopt;  // what programs hand to each other
    for (Use& use : uses.find(cast<StringAttr>((*op.getBuffers())[binding]))->second) {
      if (use.op == op && use.binding == binding) continue;
      const plan::RefAttr ref = use.ref();
      if (use.body != body || use.at <= at || ref.getAccess() != plan::Access::Read ||
          ref.getOffset() < written.getOffset() ||
          ref.getOffset() + ref.getBytes() > written.getOffset() + written.getBytes())
        return std::nullopt;
      value.read.push_back(use);
      value.lastRead = std::max(value.lastRead, use.at);
    }
    return value;
  }

  void replicate(plan::DispatchOp op, int64_t at, int64_t base, SmallVector<Kept>& kept) {
    if (!ofOneThread(op)) return;
    SmallVector<Value> values;
    for (auto [i, ref] : llvm::enumerate(op.getBindings().getAsRange<plan::RefAttr>())) {
      if (ref.getAccess() == plan::Access::Read) continue;
      std::optional<Value> value = valueOf(op, i, op->getBlock(), at);
      if (!value) return;
      values.push_back(std::move(*value));
    }
    llvm::erase_if(kept, [&](const Kept& k) { return k.lastRead < at; });
    SmallVector<Kept> all = kept, places;
    for (Value& value : values) {
      const Kept place = placeOf(value, base, all);
      if (place.end > kMostThreadBytes) return;
      places.push_back(place);
      all.insert(
          llvm::upper_bound(all, place, [](const Kept& a, const Kept& b) { return a.begin < b.begin; }),
          place);
    }
    for (auto [value, place] : llvm::zip_equal(values, places)) {
      end = std::max(end, place.end);
      move(value, place.begin);
    }
    kept = std::move(all);
    op.setReplicated(true);
  }

  // The lowest free bytes; `kept` is in order of place.
  static Kept placeOf(Value& value, int64_t base, ArrayRef<Kept> kept) {
    const int64_t size = layouts::AlignUp(value.written.ref().getBytes(), plan::kAlignment);
    int64_t begin = base;
    for (const Kept& other : kept)
      if (other.begin < begin + size && begin < other.end) begin = other.end;
    return {begin, begin + size, value.lastRead};
  }

  static void move(Value& value, int64_t to) {
    const int64_t from = value.written.ref().getOffset();
    rebind(value.written, from, to);
    for (Use& use : value.read) rebind(use, from, to);
  }
  static void rebind(Use& use, int64_t from, int64_t to) {
    plan::RefAttr ref = use.ref();
    SmallVector<Attribute> bindings(use.op.getBindings().getValue());
    bindings[use.binding] = plan::RefAttr::get(ref.getContext(), plan::Space::Thread,
                                               ref.getOffset() - from + to, ref.getBytes(), ref.getAccess());
    use.op.setBindingsAttr(ArrayAttr::get(ref.getContext(), bindings));
  }

  SmallVector<Block*> bodies;
  llvm::DenseMap<StringAttr, SmallVector<Use>> uses;  // of arena buffers, by name
  int64_t end = 0;                                    // bytes of a thread in use
};

struct ReplicateRowsPass : impl::ReplicateRowsBase<ReplicateRowsPass> {
  using ReplicateRowsBase::ReplicateRowsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto program : module.getOps<plan::ProgramOp>())
      if (program.getRows() == 1) Replication(program, module).run();
  }
};
}  // namespace
}  // namespace qcc::passes
