#include "compiler/pipeline/weights_section.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "codegen/cpu/pack/pack.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::compiler {
namespace {

// Enough for one write to the disk to be cheap, little enough to stay in the L2 cache's neighbourhood.
constexpr int64_t kPieceBytes = 1 << 20;

class Packer {
 public:
  Packer(const gguf::File& file, ProgressSink& sink, uint64_t total, ArtifactWriter::Append append)
      : file_(file), sink_(sink), total_(total), append_(append) {}

  absl::Status Weight(plan::WeightOp op);
  absl::Status Constant(plan::ConstantOp op);
  absl::Status PadTo(uint64_t offset);

 private:
  absl::Status Groups(Format format, std::span<const cpu::MatrixPart> first,
                      std::span<const cpu::MatrixPart> second, int64_t rows, int64_t cols);
  absl::Status Put(std::span<const uint8_t> bytes);

  const gguf::File& file_;
  ProgressSink& sink_;
  uint64_t total_;
  ArtifactWriter::Append append_;
  uint64_t at_ = 0;
  std::vector<uint8_t> piece_;
};

absl::Status Packer::Put(std::span<const uint8_t> bytes) {
  if (absl::Status s = append_(bytes); !s.ok()) return s;
  at_ += bytes.size();
  sink_.Progress(at_, total_, "B");
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

absl::Status Packer::Groups(Format format, std::span<const cpu::MatrixPart> first,
                            std::span<const cpu::MatrixPart> second, int64_t rows, int64_t cols) {
  const int64_t groups = plan::align_up(rows, plan::kGroupRows) / plan::kGroupRows;
  const int64_t group_bytes = plan::x16_bytes(format, plan::kGroupRows, cols) * (second.empty() ? 1 : 2);
  const int64_t step = std::max<int64_t>(1, kPieceBytes / group_bytes);
  for (int64_t begin = 0; begin < groups; begin += step) {
    const int64_t end = std::min(groups, begin + step);
    piece_.resize((end - begin) * group_bytes);
    if (second.empty())
      cpu::pack_x16(format, first, cols, begin, end, piece_.data());
    else
      cpu::pack_x16_pair(format, first, second, cols, begin, end, piece_.data());
    if (absl::Status s = Put(piece_); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Packer::Weight(plan::WeightOp op) {
  std::vector<const gguf::Tensor*> tensors;
  for (mlir::Attribute source : op.getSources()) {
    auto name = mlir::cast<mlir::StringAttr>(source).getValue();
    const gguf::Tensor* tensor = file_.FindTensor(std::string_view(name.data(), name.size()));
    if (!tensor)
      return absl::InternalError(absl::StrCat("plan names a tensor that the file lacks: ", name.str()));
    tensors.push_back(tensor);
  }
  const Format format = tensors[0]->format;
  const int64_t rows = op.getRows(), cols = op.getCols();
  switch (op.getLayout()) {
    case plan::Layout::X16:
    case plan::Layout::X16Pair: {
      std::vector<cpu::MatrixPart> parts;
      for (const gguf::Tensor* tensor : tensors) parts.push_back({tensor->data, rows});
      auto all = std::span<const cpu::MatrixPart>(parts);
      bool pair = op.getLayout() == plan::Layout::X16Pair;
      return Groups(format, all.first(1), pair ? all.subspan(1) : all.first(0), rows, cols);
    }
    case plan::Layout::F32: {
      std::vector<float> values(rows * cols);
      cpu::pack_f32(format, tensors[0]->data, rows * cols, values.data());
      return Put({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
    }
    case plan::Layout::ConvTaps: {
      std::vector<float> values(rows * cols);  // rows = channels, cols = taps
      cpu::pack_conv_taps(format, tensors[0]->data, rows, cols, 0, rows, values.data());
      return Put({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
    }
  }
  return absl::InternalError("unknown pack layout");
}

absl::Status Packer::Constant(plan::ConstantOp op) {
  auto values = op.getValues();
  return Put({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(double)});
}

}  // namespace

std::vector<FormatSpec> SummarizeFormats(mlir::ModuleOp plan, const gguf::File& file) {
  std::map<std::string, FormatSpec> byName;
  for (auto op : plan.getOps<plan::WeightOp>()) {
    FormatSpec& entry = byName[op.getFormat().str()];
    entry.name = op.getFormat().str();
    entry.packed_bytes += op.getBytes();
    for (mlir::Attribute source : op.getSources()) {
      auto name = mlir::cast<mlir::StringAttr>(source).getValue();
      if (const gguf::Tensor* tensor = file.FindTensor(std::string_view(name.data(), name.size()))) {
        entry.tensors += 1;
        entry.source_bytes += tensor->bytes;
      }
    }
  }
  std::vector<FormatSpec> formats;
  for (auto& [name, entry] : byName) formats.push_back(entry);
  return formats;
}

absl::Status WriteWeights(mlir::ModuleOp plan, uint64_t total, const gguf::File& file, ProgressSink& sink,
                          ArtifactWriter::Append append) {
  std::map<uint64_t, mlir::Operation*> byOffset;
  for (mlir::Operation& op : plan.getOps()) {
    if (auto weight = mlir::dyn_cast<plan::WeightOp>(op)) byOffset[weight.getOffset()] = &op;
    if (auto constant = mlir::dyn_cast<plan::ConstantOp>(op)) byOffset[constant.getOffset()] = &op;
  }
  Packer packer(file, sink, total, append);
  for (auto& [offset, op] : byOffset) {
    if (absl::Status s = packer.PadTo(offset); !s.ok()) return s;
    auto weight = mlir::dyn_cast<plan::WeightOp>(op);
    absl::Status s = weight ? packer.Weight(weight) : packer.Constant(mlir::cast<plan::ConstantOp>(op));
    if (!s.ok()) return s;
  }
  return packer.PadTo(total);
}

}  // namespace qcc::compiler
