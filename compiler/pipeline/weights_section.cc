#include "compiler/pipeline/weights_section.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/pack.h"
#include "dialects/plan/IR/PackLayout.h"
#include "dialects/plan/PlanSummary.h"

namespace qcc::compiler {
namespace {

// Enough for one write to the disk to be cheap, little enough for the caches between packing and writing.
constexpr int64_t kPieceBytes = 1 << 20;

class Packer {
 public:
  Packer(const gguf::File& file, ProgressSink& sink, WeightsProgress shown, ArtifactWriter::Append append)
      : file_(file), sink_(sink), shown_(shown), append_(append) {}

  absl::Status Weight(plan::WeightOp op);
  absl::Status Constant(plan::ConstantOp op);
  absl::Status PadTo(uint64_t offset);

 private:
  absl::Status Put(std::span<const uint8_t> bytes);

  const gguf::File& file_;
  ProgressSink& sink_;
  WeightsProgress shown_;
  ArtifactWriter::Append append_;
  uint64_t at_ = 0;
  std::vector<uint8_t> piece_;
};

absl::Status Packer::Put(std::span<const uint8_t> bytes) {
  if (absl::Status s = append_(bytes); !s.ok()) return s;
  at_ += bytes.size();
  sink_.Progress(shown_.before + at_, shown_.total, "B");
  if (sink_.Interrupted()) return absl::CancelledError("interrupted");
  return absl::OkStatus();
}

absl::Status Packer::PadTo(uint64_t offset) {
  if (offset < at_)
    return absl::InternalError(
        absl::StrCat("weight section: ", offset, " lies before the end of the last weight, ", at_));
  if (offset == at_) return absl::OkStatus();
  piece_.assign(offset - at_, 0);
  return Put(piece_);
}

// Which row of source `i` is a row of the weight: negative for one of zeros. Null: the same.
std::function<int64_t(int64_t)> TensorRow(plan::WeightOp op, size_t i) {
  const hir::RowPiecesAttr pieces = op.getPiecesOf(i);
  const auto picked = [pieces](int64_t row) { return pieces ? pieces.getTensorRow(row) : row; };
  if (!op.getPadded()) return pieces ? picked : std::function<int64_t(int64_t)>();
  const int64_t matrices = (*op.getPadded())[0], rows = (*op.getPadded())[1];
  const int64_t step = static_cast<int64_t>(op.getRows()) / matrices;
  return [picked, rows, step](int64_t row) {
    return row % step < rows ? picked(row / step * rows + row % step) : -1;
  };
}

absl::Status Packer::Weight(plan::WeightOp op) {
  layouts::Weight weight{.layout = plan::packLayout(op.getLayout()),
                         .format = {},
                         .rows = static_cast<int64_t>(op.getRows()),
                         .cols = static_cast<int64_t>(op.getCols()),
                         .sources = {},
                         .source_cols = op.getPadded() ? (*op.getPadded())[2] : 0};
  std::vector<std::vector<float>> widened;  // sources of fewer bits than the plan has them in
  widened.reserve(op.getSources().size());
  for (size_t i = 0; i < op.getSources().size(); ++i) {
    auto name = mlir::cast<mlir::StringAttr>(op.getSources()[i]).getValue();
    const gguf::Tensor* tensor = file_.FindTensor(std::string_view(name.data(), name.size()));
    if (!tensor)
      return absl::InternalError(absl::StrCat("plan names a tensor that the file lacks: ", name.str()));
    const uint8_t* data = tensor->data;
    weight.format = tensor->format;
    if (op.getFormat() == "f32" && widens_to_f32(tensor->format)) {
      weight.format = Format::F32;
      std::vector<float>& values = widened.emplace_back(tensor->elements());
      decode_row(tensor->format, data, tensor->elements(), values.data());
      data = reinterpret_cast<const uint8_t*>(values.data());
    }
    weight.sources.emplace_back(data, TensorRow(op, i));
  }
  const int64_t pieces = weight.pieces(), bytes = weight.piece_bytes();
  const int64_t step = std::max<int64_t>(1, kPieceBytes / bytes);
  for (int64_t begin = 0; begin < pieces; begin += step) {
    const int64_t end = std::min(pieces, begin + step);
    piece_.resize((end - begin) * bytes);
    layouts::Pack(weight, begin, end, piece_.data());
    if (absl::Status s = Put(piece_); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Packer::Constant(plan::ConstantOp op) {
  auto values = op.getValues();
  return Put({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(double)});
}

}  // namespace

std::vector<FormatSpec> SummarizeFormats(std::span<const LayoutPlan> plans, const gguf::File& file) {
  std::map<std::string, FormatSpec> byName;
  for (const LayoutPlan& plan : plans) {
    for (auto op : plan.module.get().getOps<plan::WeightOp>())
      byName[op.getFormat().str()].packed_bytes += op.getBytes();
  }
  std::set<const gguf::Tensor*> counted;  // plans, and a plan in two layouts, may have the same ones
  for (const LayoutPlan& plan : plans) {
    for (auto op : plan.module.get().getOps<plan::WeightOp>()) {
      FormatSpec& entry = byName[op.getFormat().str()];
      entry.name = op.getFormat().str();
      for (mlir::Attribute source : op.getSources()) {
        auto name = mlir::cast<mlir::StringAttr>(source).getValue();
        const gguf::Tensor* tensor = file.FindTensor(std::string_view(name.data(), name.size()));
        if (tensor == nullptr || !counted.insert(tensor).second) continue;
        entry.tensors += 1;
        entry.source_bytes += tensor->bytes;
      }
    }
  }
  std::vector<FormatSpec> formats;
  for (auto& [name, entry] : byName) formats.push_back(entry);
  return formats;
}

uint64_t NamedWeightBytes(mlir::ModuleOp fused) {
  std::set<std::array<const void*, 3>> counted;
  uint64_t bytes = 0;
  fused.walk([&](hir::ParamOp param) {
    const auto type = param.getResult().getType();
    if (param->use_empty()) return;
    // Other rows of one tensor are another weight.
    const std::array<const void*, 3> weight = {param.getNameAttr().getAsOpaquePointer(),
                                               param.getPiecesAttr().getAsOpaquePointer(),
                                               type.getAsOpaquePointer()};
    if (counted.insert(weight).second) bytes += static_cast<uint64_t>(type.getByteSize());
  });
  return bytes;
}

uint64_t PackedWeightBytes(std::span<const LayoutPlan> plans) {
  uint64_t bytes = 0;
  for (const LayoutPlan& plan : plans) bytes += plan::summarize(*plan.module).weightBytes;
  return bytes;
}

absl::Status WriteWeights(mlir::ModuleOp plan, uint64_t total, const gguf::File& file, ProgressSink& sink,
                          WeightsProgress shown, ArtifactWriter::Append append) {
  std::map<uint64_t, mlir::Operation*> byOffset;
  for (mlir::Operation& op : plan.getOps()) {
    if (auto weight = mlir::dyn_cast<plan::WeightOp>(op)) byOffset[weight.getOffset()] = &op;
    if (auto constant = mlir::dyn_cast<plan::ConstantOp>(op)) byOffset[constant.getOffset()] = &op;
  }
  Packer packer(file, sink, shown, append);
  for (auto& [offset, op] : byOffset) {
    if (absl::Status s = packer.PadTo(offset); !s.ok()) return s;
    auto weight = mlir::dyn_cast<plan::WeightOp>(op);
    absl::Status s = weight ? packer.Weight(weight) : packer.Constant(mlir::cast<plan::ConstantOp>(op));
    if (!s.ok()) return s;
  }
  return packer.PadTo(total);
}

}  // namespace qcc::compiler
