#include "compiler/pipeline/finite.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/hir/IR/Hir.h"
#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "llvm/ADT/StringSet.h"

namespace qcc::compiler {

namespace {

template <class T>
absl::Status CheckAllLogits(std::span<const T> values, int64_t vocab, int64_t past, const gguf::File& file) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](T v) { return std::isfinite(static_cast<float>(v)); });
  if (bad == values.end()) return absl::OkStatus();
  const int64_t at = bad - values.begin(), tokens = past + at / vocab + 1;
  return MakeError(
      "Q3006",
      absl::StrCat("the model's weights are finite, but its logits are not: that of token ", at % vocab,
                   " after ", tokens, tokens == 1 ? " token is " : " tokens is ", *bad),
      file.path(), "some value on the way is too large for f32; convert the model again");
}

// Some of a tensor's blocks: those of a large one take all threads, and not long after a Ctrl-C.
struct Piece {
  const gguf::Tensor* tensor;
  uint64_t at, bytes;
};

void AddPieces(const gguf::Tensor& tensor, std::vector<Piece>& pieces) {
  constexpr uint64_t kPieceBytes = uint64_t{16} << 20;
  const auto block = static_cast<uint64_t>(format_info(tensor.format).block_bytes);
  const uint64_t step = kPieceBytes / block * block;
  for (uint64_t at = 0; at < tensor.bytes; at += step) {
    pieces.push_back({&tensor, at, std::min(step, tensor.bytes - at)});
  }
}

absl::Status CheckPiece(const gguf::File& file, const Piece& piece) {
  gguf::Tensor part = *piece.tensor;
  part.data += piece.at;
  part.file_offset += piece.at;
  part.bytes = piece.bytes;
  return gguf::CheckFinite(file, part);
}

}  // namespace

absl::Status CheckWeights(mlir::ModuleOp module, const gguf::File& file,
                          const std::function<bool()>& interrupted,
                          const std::function<void(uint64_t, uint64_t)>& progress) {
  llvm::StringSet<> names;
  module.walk([&](hir::ParamOp param) { names.insert(param.getName()); });
  std::vector<Piece> pieces;
  uint64_t total = 0;
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (!names.contains(tensor.name)) continue;
    AddPieces(tensor, pieces);
    total += tensor.bytes;
  }
  std::vector<absl::Status> found(pieces.size());
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  const auto check = [&](size_t i) {
    found[i] =
        interrupted && interrupted() ? absl::CancelledError("interrupted") : CheckPiece(file, pieces[i]);
    done += pieces[i].bytes;
  };
  const auto work = [&] {
    for (size_t i; (i = next++) < pieces.size();) check(i);
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::thread::hardware_concurrency()) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads: those that there are do the work.
  }
  for (size_t i; (i = next++) < pieces.size();) {
    check(i);
    if (progress) progress(done, total);
  }
  for (std::thread& thread : threads) thread.join();
  if (progress && total > 0) progress(done, total);  // of what the others did last
  // The first in the file, whichever was found first.
  for (absl::Status& status : found) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckLogits(std::span<const float> values, int64_t vocab, int64_t past, const gguf::File& file) {
  return CheckAllLogits(values, vocab, past, file);
}
absl::Status CheckLogits(std::span<const double> values, int64_t vocab, int64_t past,
                         const gguf::File& file) {
  return CheckAllLogits(values, vocab, past, file);
}

}  // namespace qcc::compiler
