#include "codegen/cpu/lower/SplitProgram.h"

#include <memory>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

Piece pieceOf(const Module& program, const std::string& name) {
  ValueToValueMapTy map;
  std::unique_ptr<Module> part = CloneModule(program, map, [&](const GlobalValue* value) {
    return !isa<Function>(value) || value->getName() == name;
  });
  // Of the others, what the function calls stays declared.
  for (Function& f : make_early_inc_range(*part))
    if (f.isDeclaration() && f.use_empty()) f.eraseFromParent();
  Piece piece{name, {}};
  raw_svector_ostream stream(piece.bitcode);
  WriteBitcodeToFile(*part, stream);
  return piece;
}

}  // namespace

std::vector<Piece> splitProgram(const Module& program, ArrayRef<std::string> entries) {
  std::vector<std::string> others;
  for (const Function& f : program)
    if (!f.isDeclaration() && !is_contained(entries, f.getName())) others.push_back(f.getName().str());
  llvm::sort(others);
  std::vector<Piece> pieces;
  for (const std::string& name : entries) pieces.push_back(pieceOf(program, name));
  for (const std::string& name : others) pieces.push_back(pieceOf(program, name));
  return pieces;
}

}  // namespace qcc::cpu
