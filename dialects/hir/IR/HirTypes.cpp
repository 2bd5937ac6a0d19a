#include "dialects/hir/IR/Hir.h"

#include <limits>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/DialectImplementation.h"

#include "dialects/hir/IR/HirEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/hir/IR/HirTypes.cpp.inc"

using namespace mlir;

namespace qcc::hir {

void HirDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/hir/IR/HirTypes.cpp.inc"
      >();
}

// `4096x1024,`: static dimensions, then the comma before the next parameter.
static ParseResult parseDims(AsmParser& parser, SmallVectorImpl<int64_t>& dims) {
  return failure(parser.parseDimensionList(dims, /*allowDynamic=*/false, /*withTrailingX=*/false) ||
                 parser.parseComma());
}

Type WeightType::parse(AsmParser& parser) {
  SmallVector<int64_t> shape;
  std::string formatName;
  SMLoc begin = parser.getCurrentLocation();
  if (parser.parseLess() || parseDims(parser, shape)) return {};
  SMLoc formatLoc = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&formatName)) return {};
  std::optional<Format> format = format_from_name(formatName);
  if (!format) {
    InFlightDiagnostic error = parser.emitError(formatLoc, "unknown weight format '")
                               << formatName << "', expected one of";
    for (int i = 0; i < kFormatCount; ++i)
      error << ' ' << StringRef(format_info(static_cast<Format>(i)).name);
    return {};
  }
  if (parser.parseGreater()) return {};
  return parser.getChecked<WeightType>(begin, parser.getContext(), shape, *format);
}

void WeightType::print(AsmPrinter& printer) const {
  printer << '<';
  printer.printDimensionList(getShape());
  printer << ", " << StringRef(format_info(getFormat()).name) << '>';
}

LogicalResult WeightType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                 Format format) {
  const FormatInfo& info = format_info(format);
  if (shape.empty() || shape.size() > 4)
    return emitError() << "weight must have 1 to 4 dimensions, found " << shape.size();
  // The byte size of a row is rounded up in blocks, so elements * bytes per block bounds every size computed
  // here.
  int64_t elements = 1, bytes = 0;
  for (int64_t dim : shape) {
    if (dim < 1) return emitError() << "weight dimensions must be at least 1, found " << dim;
    if (llvm::MulOverflow(elements, dim, elements))
      return emitError() << "weight has more elements than fit in 64 bits";
  }
  if (shape.back() % info.block_elems != 0)
    return emitError() << "last dimension of a " << StringRef(info.name)
                       << " weight must be a multiple of its block " << info.block_elems << ", found "
                       << shape.back();
  if (llvm::MulOverflow(elements / info.block_elems, static_cast<int64_t>(info.block_bytes), bytes))
    return emitError() << "weight has more bytes than fit in 64 bits";
  return success();
}

int64_t WeightType::getNumElements() const {
  return llvm::product_of(getShape());
}

int64_t WeightType::getByteSize() const {
  const FormatInfo& info = format_info(getFormat());
  return getNumElements() / info.block_elems * info.block_bytes;
}

Type StateType::parse(AsmParser& parser) {
  std::string kindName;
  SmallVector<int64_t> shape;
  Type elementType;
  SMLoc begin = parser.getCurrentLocation();
  if (parser.parseLess()) return {};
  SMLoc kindLoc = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&kindName)) return {};
  std::optional<StateKind> kind = symbolizeStateKind(kindName);
  if (!kind) {
    parser.emitError(kindLoc, "unknown state kind '") << kindName << "', expected kv, conv, delta or trace";
    return {};
  }
  if (parser.parseComma() || parseDims(parser, shape) || parser.parseType(elementType) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<StateType>(begin, parser.getContext(), *kind, shape, elementType);
}

void StateType::print(AsmPrinter& printer) const {
  printer << '<' << stringifyStateKind(getKind()) << ", ";
  printer.printDimensionList(getShape());
  printer << ", " << getElementType() << '>';
}

LogicalResult StateType::verify(function_ref<InFlightDiagnostic()> emitError, StateKind kind,
                                ArrayRef<int64_t> shape, Type elementType) {
  size_t rank = kind == StateKind::Delta ? 3 : kind == StateKind::Trace ? 1 : 2;
  if (shape.size() != rank)
    return emitError() << stringifyStateKind(kind) << " state must have " << rank << " dimensions, found "
                       << shape.size();
  int64_t elements = 1;
  for (int64_t dim : shape) {
    if (dim < 1) return emitError() << "state dimensions must be at least 1, found " << dim;
    if (llvm::MulOverflow(elements, dim, elements) || elements > std::numeric_limits<int64_t>::max() / 8)
      return emitError() << "state has more bytes than fit in 64 bits";
  }
  if (kind == StateKind::KV ? !elementType.isF32() && !elementType.isF16() : !elementType.isF32())
    return emitError() << stringifyStateKind(kind) << " state must hold "
                       << (kind == StateKind::KV ? "f16 or f32" : "f32") << ", found " << elementType;
  return success();
}

}  // namespace qcc::hir
