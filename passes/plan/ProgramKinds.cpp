#include "passes/plan/ProgramKinds.h"

using namespace mlir;

namespace qcc::passes {

const EntryPoint* ProgramKind::leaves() const {
  for (const EntryPoint& entry : llvm::reverse(functions))
    if (entry.left) return &entry;
  return nullptr;
}

// Blocks put their result in place of the rows that they take; nothing else does that with rows of another
// function (diesAt).
static bool goIntoBlock(Value rows) {
  return llvm::any_of(rows.getUsers(), [](Operation* user) {
    if (isa<hir::ReshapeOp, hir::SelectRowsOp>(user)) return goIntoBlock(user->getResult(0));
    return isa<func::CallOp>(user);
  });
}

bool ProgramKind::overwritesRows() const {
  const EntryPoint& last = functions.back();
  return functions.size() > 1 && last.rows && !prepares() && goIntoBlock(last.rows);
}

namespace {

// Of a function whose rows no other takes.
void addOwnKinds(EntryPoint& entry, ArrayRef<EntryPoint> entries, const Buckets& buckets,
                 SmallVector<ProgramKind>& kinds) {
  if (llvm::any_of(entries, [&](const EntryPoint& other) { return entry.preparesRowsOf(other); })) return;
  const std::string name = entry.name().str();
  SmallVector<EntryPoint, 2> functions;
  if (const EntryPoint* first = preparing(entry, entries)) functions.push_back(*first);
  functions.push_back(entry);
  kinds.push_back({name, functions, entry.logits ? buckets.token : buckets.many});
  if (entry.logits && entry.left) {
    functions.back().logits = {};
    kinds.push_back({name + "_prefill", functions, buckets.many});
  }
  if (functions.size() == 1 || !entry.left || entry.left.getType() != entry.rows.getType()) return;
  EntryPoint next = entry;
  next.leftBy = next.name();
  kinds.push_back({name + "_next", {next}, {buckets.token.front()}});
}

}  // namespace

SmallVector<ProgramKind> programKinds(ArrayRef<EntryPoint> entries, const Buckets& buckets) {
  SmallVector<ProgramKind> kinds;
  for (EntryPoint entry : entries) {
    if (!entry.leftBy.empty()) continue;
    SmallVector<EntryPoint> after;
    llvm::copy_if(entries, std::back_inserter(after),
                  [&](const EntryPoint& o) { return o.leftBy == entry.name(); });
    std::string name = entry.name().str();
    if (after.empty()) {
      addOwnKinds(entry, entries, buckets, kinds);
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
