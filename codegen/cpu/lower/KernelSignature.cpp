#include "codegen/cpu/lower/KernelSignature.h"

#include <algorithm>
#include <optional>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/Support/raw_ostream.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

Error disagree(StringRef kernel, const Twine& what) {
  return createStringError(inconvertibleErrorCode(), "kernel '" + kernel + "': " + what +
                                                         "; the kernels' bitcode is not of this compiler");
}

// The text behind <kernel>_signature, if there is one.
std::optional<StringRef> signatureOf(const Module& kernels, StringRef kernel) {
  const GlobalVariable* pointer = kernels.getGlobalVariable((kernel + "_signature").str());
  if (!pointer || !pointer->hasInitializer()) return std::nullopt;
  auto* text = dyn_cast<GlobalVariable>(pointer->getInitializer()->stripPointerCasts());
  if (!text || !text->hasInitializer()) return std::nullopt;
  auto* bytes = dyn_cast<ConstantDataSequential>(text->getInitializer());
  if (!bytes || !bytes->isCString()) return std::nullopt;
  return bytes->getAsCString();
}

std::string typeText(const Function& f) {
  std::string text;
  raw_string_ostream(text) << *f.getFunctionType();
  return text;
}

Error compareFields(StringRef kernel, StringRef filled, StringRef read) {
  SmallVector<StringRef> ours, theirs;
  filled.split(ours, ';', -1, /*KeepEmpty=*/false);
  read.split(theirs, ';', -1, /*KeepEmpty=*/false);
  size_t most = std::max(ours.size(), theirs.size());
  auto at = [](ArrayRef<StringRef> fields, size_t i) { return i < fields.size() ? fields[i] : "no field"; };
  for (size_t i = 0; i < most; ++i)
    if (at(ours, i) != at(theirs, i))
      return disagree(kernel, "field " + Twine(i) + " of its arguments is '" + at(ours, i) +
                                  "' where it is called, '" + at(theirs, i) + "' in the kernel");
  return Error::success();
}

}  // namespace

Error checkKernelSignatures(const Module& program, const Module& kernels) {
  for (const Function& declared : program) {
    if (!declared.isDeclaration() || declared.isIntrinsic()) continue;
    StringRef name = declared.getName();
    const Function* kernel = kernels.getFunction(name);
    if (!kernel || kernel->isDeclaration()) return disagree(name, "there is none of this name");
    if (kernel->getFunctionType() != declared.getFunctionType())
      return disagree(name, "it is called as " + Twine(typeText(declared)) + ", and is " + typeText(*kernel));
    std::optional<StringRef> read = signatureOf(kernels, name);
    bool fills = declared.hasFnAttribute(kKernelArgsAttr);
    if (fills != read.has_value())
      return disagree(name,
                      fills ? "it says nothing of its arguments" : "it is called without its arguments");
    if (!fills) continue;
    if (Error e = compareFields(name, declared.getFnAttribute(kKernelArgsAttr).getValueAsString(), *read))
      return e;
  }
  return Error::success();
}

}  // namespace qcc::cpu
