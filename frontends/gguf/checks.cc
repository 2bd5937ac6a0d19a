#include "frontends/gguf/checks.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/file_impl.h"

namespace qcc::gguf {
namespace {

uint64_t OffsetInFile(const File& file, std::string_view part) {
  return static_cast<uint64_t>(reinterpret_cast<const uint8_t*>(part.data()) - file.bytes().data());
}

absl::Status CheckLength(const File& file, std::string_view key, size_t length, size_t tokens) {
  if (length == tokens) return absl::OkStatus();
  return MakeError("Q1301",
                   Concat("key ", Quoted(key), " has ", length, " elements, expected ", tokens,
                          ", one for each of tokenizer.ggml.tokens"),
                   file.path(), kMakeAgain);
}

absl::Status CheckMerges(const File& file) {
  constexpr std::string_view kKey = "tokenizer.ggml.merges";
  if (!file.Has(kKey)) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string_view>> merges = file.GetStringArray(kKey);
  if (!merges.ok()) return merges.status();
  for (size_t i = 0; i < merges->size(); ++i) {
    std::string_view merge = (*merges)[i];
    size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos) {
      return MakeError(
          "Q1302",
          Concat("merge ", i, " is ", Quoted(merge), ", expected two pieces separated by exactly one space"),
          KeyWhere(file.path(), kKey, OffsetInFile(file, merge)), kMakeAgain);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNotSplit(const File& file) {
  constexpr std::string_view kKey = "split.count";
  if (!file.Has(kKey)) return absl::OkStatus();
  absl::StatusOr<int64_t> count = file.GetInt(kKey);
  if (!count.ok()) return count.status();
  if (*count <= 1) return absl::OkStatus();
  return MakeError("Q1401", Concat("the file is one of ", *count, " shards of a split model"), file.path(),
                   "open the file itself, beside its siblings");
}

absl::Status CheckVocabulary(const File& file) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
  constexpr std::string_view kScores = "tokenizer.ggml.scores";
  if (!file.Has(kTokens)) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string_view>> tokens = file.GetStringArray(kTokens);
  if (!tokens.ok()) return tokens.status();
  if (file.Has(kTypes)) {
    absl::StatusOr<std::vector<int64_t>> types = file.GetIntArray(kTypes);
    if (!types.ok()) return types.status();
    if (absl::Status s = CheckLength(file, kTypes, types->size(), tokens->size()); !s.ok()) return s;
  }
  if (file.Has(kScores)) {
    absl::StatusOr<std::vector<float>> scores = file.GetFloatArray(kScores);
    if (!scores.ok()) return scores.status();
    if (absl::Status s = CheckLength(file, kScores, scores->size(), tokens->size()); !s.ok()) return s;
  }
  absl::StatusOr<std::string_view> model = file.GetString("tokenizer.ggml.model");
  if (!model.ok() || *model != "gpt2") return absl::OkStatus();
  for (size_t i = 0; i < tokens->size(); ++i) {
    std::string_view token = (*tokens)[i];
    if (!IsValidUtf8(token)) {
      return MakeError("Q1303", Concat("token ", i, " is ", Quoted(token), ", which is not valid UTF-8 text"),
                       KeyWhere(file.path(), kTokens, OffsetInFile(file, token)), kMakeAgain);
    }
  }
  return CheckMerges(file);
}

absl::Status CheckFinite(const File& file, const Tensor& tensor) {
  const FormatInfo& info = format_info(tensor.format);
  const uint8_t* found =
      first_not_finite(tensor.format, tensor.data, static_cast<int64_t>(tensor.bytes) / info.block_bytes);
  if (found == nullptr) return absl::OkStatus();
  const uint64_t offset = tensor.file_offset + static_cast<uint64_t>(found - tensor.data);
  return MakeError("Q1214",
                   Concat("a weight is not finite (NaN or infinity) in a ", info.name,
                          info.block_elems > 1 ? " block" : " value"),
                   TensorWhere(file.PathOf(tensor), tensor.name, offset),
                   "the model is damaged; fetch it again");
}

}  // namespace qcc::gguf
