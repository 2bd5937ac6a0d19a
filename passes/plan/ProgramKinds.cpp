#include "passes/plan/ProgramKinds.h"

using namespace mlir;

namespace qcc::passes {

const EntryPoint* ProgramKind::leaves() const {
  for (const EntryPoint& entry : llvm::reverse(functions))
    if (entry.left) return &entry;
  return nullptr;
}

// Blocks put their result in place of the rows that they take.
bool ProgramKind::overwritesRows() const {
  const EntryPoint& last = functions.back();
  if (functions.size() < 2 || !last.rows) return false;
  return llvm::any_of(last.rows.getUsers(), [](Operation* user) {
    return isa<func::CallOp>(user) ||
           (isa<hir::SelectRowsOp>(user) && llvm::any_of(user->getUsers(), llvm::IsaPred<func::CallOp>));
  });
}

SmallVector<ProgramKind> programKinds(ArrayRef<EntryPoint> entries, const Buckets& buckets) {
  SmallVector<ProgramKind> kinds;
  for (EntryPoint entry : entries) {
    if (!entry.leftBy.empty()) continue;
    SmallVector<EntryPoint> after;
    llvm::copy_if(entries, std::back_inserter(after),
                  [&](const EntryPoint& o) { return o.leftBy == entry.name(); });
    std::string name = entry.name().str();
    if (after.empty()) {
      kinds.push_back({name, {entry}, entry.logits ? buckets.token : buckets.many});
      continue;
    }
    // The model's first function is what people mean by decode and prefill.
    std::string prefix = kinds.empty() ? "" : name + "_";
    for (auto [i, next] : llvm::enumerate(after)) {
      std::string whole = i == 0 ? prefix + "decode" : name + "_" + next.name().str();
      kinds.push_back({whole, {entry, next}, buckets.token});
    }
    kinds.push_back({prefix + "prefill", {entry}, buckets.many});
    for (EntryPoint& next : after) kinds.push_back({next.name().str(), {next}, buckets.after});
  }
  return kinds;
}

}  // namespace qcc::passes
