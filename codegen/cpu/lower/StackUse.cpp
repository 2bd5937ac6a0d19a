#include "codegen/cpu/lower/StackUse.h"

#include <algorithm>
#include <memory>

#include "llvm/ADT/Twine.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/LLVMContext.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

// Beside its frame a function takes the return address, and up to 63 bytes where it aligns its frame to 64.
constexpr uint64_t kBesideFrame = 8 + 64;
constexpr uint64_t kUnderWay = ~uint64_t{0};

class Listener final : public DiagnosticHandler {
 public:
  explicit Listener(StringMap<uint64_t>& frames) : frames(frames) {}
  bool handleDiagnostics(const DiagnosticInfo& info) override {
    auto* size = dyn_cast<DiagnosticInfoStackSize>(&info);
    if (!size) return DiagnosticHandler::handleDiagnostics(info);
    uint64_t& frame = frames[size->getFunction().getName()];
    frame = std::max(frame, size->getStackSize());
    return true;
  }

 private:
  StringMap<uint64_t>& frames;
};

}  // namespace

void watchStack(Function& f) {
  f.addFnAttr("warn-stack-size", "0");
  f.addFnAttr("probe-stack", "inline-asm");
}

StackUse::StackUse(LLVMContext& context) {
  context.setDiagnosticHandler(std::make_unique<Listener>(frames));
}

Expected<uint64_t> StackUse::deepest(const Function& f, StringMap<uint64_t>& known) const {
  auto [it, fresh] = known.try_emplace(f.getName(), kUnderWay);
  if (!fresh && it->second == kUnderWay)
    return createStringError(inconvertibleErrorCode(), "'" + f.getName() + "' calls itself");
  if (!fresh) return it->second;
  uint64_t below = 0;
  for (const Instruction& instruction : instructions(f)) {
    auto* call = dyn_cast<CallBase>(&instruction);
    // Calls through pointers are the barrier's callbacks, which have their own share of the stack.
    const Function* callee = call ? call->getCalledFunction() : nullptr;
    if (!callee || callee->isDeclaration()) continue;
    Expected<uint64_t> bytes = deepest(*callee, known);
    if (!bytes) return bytes.takeError();
    below = std::max(below, *bytes);
  }
  uint64_t all = frames.lookup(f.getName()) + kBesideFrame + below;
  known[f.getName()] = all;
  return all;
}

Expected<uint64_t> StackUse::deepest(const Function& entry) const {
  StringMap<uint64_t> known;
  return deepest(entry, known);
}

std::pair<StringRef, uint64_t> StackUse::largest() const {
  auto found = std::max_element(frames.begin(), frames.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second < b.second : a.first() > b.first();
  });
  if (found == frames.end()) return {};
  return {found->first(), found->second};
}

}  // namespace qcc::cpu
