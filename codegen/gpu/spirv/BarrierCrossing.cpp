#include "codegen/gpu/spirv/BarrierCrossing.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "codegen/gpu/IR/Gx.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace qcc::gpu {
namespace {

// Atomics are non-private by themselves, but what they meet on the other side of a barrier is not.
bool crosses(Region& region) {
  bool stored = false, added = false, storesOrdered = false, addsOrdered = false, crosses = false;
  region.walk<WalkOrder::PreOrder>([&](Operation* op) {
    if (isa<gx::StoreOp>(op)) stored = true;
    if (isa<gx::AtomicAddOp>(op)) added = true;
    if (isa<mlir::gpu::BarrierOp>(op)) {
      storesOrdered |= stored;
      addsOrdered |= added;
    }
    if (isa<gx::LoadOp>(op)) crosses |= storesOrdered || addsOrdered;
    if (isa<gx::AtomicAddOp>(op)) crosses |= storesOrdered;
    if (isa<scf::ForOp>(op)) {
      // Any order of these comes up when they go round together.
      bool store = false, add = false, barrier = false, load = false;
      op->walk([&](Operation* inner) {
        store |= isa<gx::StoreOp>(inner);
        add |= isa<gx::AtomicAddOp>(inner);
        barrier |= isa<mlir::gpu::BarrierOp>(inner);
        load |= isa<gx::LoadOp>(inner);
      });
      const bool stores = store || stored;
      crosses |= barrier && ((stores && (load || add)) || ((add || added) && load));
      storesOrdered |= barrier && store;
      addsOrdered |= barrier && add;
    }
  });
  return crosses;
}

// Workgroups [begin, end) of a dimension.
struct Places {
  mlir::gpu::Dimension dimension;
  int64_t begin = 0, end = std::numeric_limits<int64_t>::max();

  bool isApartFrom(const Places& other) const {
    return dimension == other.dimension && (end <= other.begin || other.end <= begin);
  }
};

// Which ones a condition lets in, if it asks for their number alone.
std::optional<Places> placesOf(Value condition) {
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    const std::optional<Places> a = placesOf(both.getLhs()), b = placesOf(both.getRhs());
    if (!a || !b || a->dimension != b->dimension) return std::nullopt;
    return Places{a->dimension, std::max(a->begin, b->begin), std::min(a->end, b->end)};
  }
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare) return std::nullopt;
  APInt number;
  const bool swapped = matchPattern(compare.getLhs(), m_ConstantInt(&number));
  Value place = swapped ? compare.getRhs() : compare.getLhs();
  if (!swapped && !matchPattern(compare.getRhs(), m_ConstantInt(&number))) return std::nullopt;
  if (auto cast = place.getDefiningOp<arith::IndexCastUIOp>()) place = cast.getIn();
  auto block = place.getDefiningOp<mlir::gpu::BlockIdOp>();
  if (!block) return std::nullopt;

  using P = arith::CmpIPredicate;
  const P predicate = compare.getPredicate();
  const bool equal = llvm::is_contained({P::sle, P::ule, P::sge, P::uge}, predicate);
  const bool less = llvm::is_contained({P::slt, P::ult, P::sle, P::ule}, predicate);
  if (!equal && !llvm::is_contained({P::slt, P::ult, P::sgt, P::ugt}, predicate)) return std::nullopt;
  Places places{block.getDimension()};
  // place < n, place <= n; n < place, n <= place.
  if (less != swapped) {
    places.end = number.getSExtValue() + (equal ? 1 : 0);
  } else {
    places.begin = number.getSExtValue() + (equal ? 0 : 1);
  }
  return places;
}

bool isLookedAt(Operation& op) {
  return op
      .walk([](Operation* inner) {
        return isa<gx::StoreOp, gx::LoadOp, gx::AtomicAddOp, mlir::gpu::BarrierOp>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

// Where all that is looked at lies in branches of which a workgroup runs one: these. Else nothing.
SmallVector<Region*> codesOf(mlir::gpu::GPUFuncOp kernel) {
  SmallVector<Region*> codes;
  SmallVector<Places> taken;
  for (Operation& op : kernel.getBody().front()) {
    if (!isLookedAt(op)) continue;
    auto branch = dyn_cast<scf::IfOp>(op);
    if (!branch || !branch.getElseRegion().empty()) return {};
    const std::optional<Places> places = placesOf(branch.getCondition());
    if (!places || !llvm::all_of(taken, [&](const Places& other) { return places->isApartFrom(other); }))
      return {};
    codes.push_back(&branch.getThenRegion());
    taken.push_back(*places);
  }
  return codes;
}

}  // namespace

bool deviceMemoryCrossesBarrier(mlir::gpu::GPUFuncOp kernel) {
  const SmallVector<Region*> codes = codesOf(kernel);
  if (codes.empty()) return crosses(kernel.getBody());
  return llvm::any_of(codes, [](Region* code) { return crosses(*code); });
}

}  // namespace qcc::gpu
