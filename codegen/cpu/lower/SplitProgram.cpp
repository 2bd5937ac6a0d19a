#include "codegen/cpu/lower/SplitProgram.h"

#include <functional>
#include <memory>

#include "codegen/cpu/lower/LowerToLlvm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

bool isSpecialised(const Function& f) {
  return f.getName().starts_with(kSpecialised);
}

SmallVector<char, 0> bitcodeOf(const Module& program, const std::function<bool(const Function&)>& taken) {
  ValueToValueMapTy map;
  std::unique_ptr<Module> part = CloneModule(program, map, [&](const GlobalValue* value) {
    auto* function = dyn_cast<Function>(value);
    return !function || taken(*function);
  });
  // Of the others, what the piece calls stays declared.
  for (Function& f : make_early_inc_range(*part))
    if (f.isDeclaration() && f.use_empty()) f.eraseFromParent();
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  WriteBitcodeToFile(*part, stream);
  return bytes;
}

}  // namespace

std::vector<Piece> splitProgram(const Module& program, ArrayRef<std::string> entries) {
  std::vector<Piece> pieces;
  pieces.push_back({entries.vec(), bitcodeOf(program, [](const Function& f) { return !isSpecialised(f); })});
  std::vector<std::string> names;
  for (const Function& f : program)
    if (!f.isDeclaration() && isSpecialised(f)) names.push_back(f.getName().str());
  llvm::sort(names);
  for (const std::string& name : names)
    pieces.push_back({{name}, bitcodeOf(program, [&](const Function& f) { return f.getName() == name; })});
  return pieces;
}

}  // namespace qcc::cpu
