#include "codegen/gpu/IR/Gx.h"

#include <algorithm>
#include <utility>

#include "llvm/ADT/StringExtras.h"

#include "codegen/gpu/IR/GxDialect.cpp.inc"

#define GET_OP_CLASSES
#include "codegen/gpu/IR/GxOps.cpp.inc"

using namespace mlir;

namespace qcc::gx {

void GxDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "codegen/gpu/IR/GxOps.cpp.inc"
      >();
}

LogicalResult ArgOp::verify() {
  int32_t index = static_cast<int32_t>(getIndex());
  if (index < 0 || index >= kMaxArgs)
    return emitOpError() << "index must lie in 0 .. " << kMaxArgs - 1 << ", found " << index;
  return success();
}

FailureOr<int32_t> argsOf(Operation* kernel) {
  auto attribute = kernel->getAttrOfType<IntegerAttr>("gx.args");
  const APInt count = attribute ? attribute.getValue() : APInt(32, 0);
  if (count.isNegative() || count.ugt(kMaxArgs)) {
    return kernel->emitError() << "gx.args must lie in 0 .. " << kMaxArgs << ", found "
                               << llvm::toString(count, 10, /*Signed=*/true);
  }
  const auto args = static_cast<int32_t>(count.getZExtValue());
  auto beyond = [&](ArgOp op) {
    if (static_cast<int32_t>(op.getIndex()) < args) return WalkResult::advance();
    op.emitOpError() << "has index " << op.getIndex() << ", the kernel's gx.args is " << args;
    return WalkResult::interrupt();
  };
  if (kernel->walk(beyond).wasInterrupted()) return failure();
  return args;
}

template <typename OpTy>
static LogicalResult verifyFragments(OpTy op) {
  if (op.getA().size() != 4 || op.getB().size() != 2 || op.getC().size() != 4 || op.getResults().size() != 4)
    return op.emitOpError() << "wants 4, 2 and 4 words and gives 4, found " << op.getA().size() << ", "
                            << op.getB().size() << " and " << op.getC().size() << ", giving "
                            << op.getResults().size();
  return success();
}

LogicalResult MmaS8Op::verify() {
  return verifyFragments(*this);
}
LogicalResult MmaF16Op::verify() {
  return verifyFragments(*this);
}
LogicalResult MmaBf16Op::verify() {
  return verifyFragments(*this);
}

LogicalResult DotTileOp::verify() {
  auto shape = getShape();
  if (shape.size() != 3 || llvm::any_of(shape, [](int32_t n) { return n <= 0; }))
    return emitOpError() << "shape wants three positive numbers, m, n and k, found [" << shape << "]";
  int32_t rows[3] = {static_cast<int32_t>(getARows()), static_cast<int32_t>(getBRows()),
                     static_cast<int32_t>(getColumns())};
  StringRef names[3] = {"a_rows", "b_rows", "columns"};
  for (int i = 0; i < 3; ++i) {
    if (rows[i] <= 0 || rows[i] % shape[i] != 0)
      return emitOpError() << names[i] << " is " << rows[i] << ", no multiple of " << shape[i];
  }
  if (rows[2] % 4 != 0) return emitOpError() << "columns is " << rows[2] << ", no whole words of 4 bytes";
  // Where Vulkan lets rows of a device's matrices begin.
  auto wordsOf = [](int32_t bytes) { return std::max(std::min(16, bytes) / 4, 1); };
  const std::pair<StringRef, std::pair<uint32_t, int32_t>> strides[3] = {
      {"a_stride", {getAStride(), wordsOf(shape[2])}},
      {"b_stride", {getBStride(), wordsOf(shape[2])}},
      {"d_stride", {getDStride(), wordsOf(4 * shape[0])}}};
  for (const auto& [name, stride] : strides) {
    if (static_cast<int32_t>(stride.first) % stride.second != 0)
      return emitOpError() << name << " is " << stride.first << ", no multiple of " << stride.second
                           << " words";
  }
  return success();
}

}  // namespace qcc::gx
