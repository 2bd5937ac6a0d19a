#include "frontends/models/TensorTable.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "frontends/base/error.h"
#include "frontends/models/Metadata.h"

namespace qcc::models {

namespace {

std::string printDims(const gguf::Tensor& tensor) {
  return absl::StrCat(
      "{", absl::StrJoin(tensor.ne.begin(), tensor.ne.begin() + std::max(tensor.n_dims, 1), ", "), "}");
}

// "blk.3." of a tensor of that layer; empty: it is of none.
std::string layerOf(const std::string& name) {
  const size_t dot = name.starts_with("blk.") ? name.find('.', 4) : std::string::npos;
  return dot == std::string::npos ? "" : name.substr(0, dot + 1);
}

std::string whereOf(const gguf::File& file, const gguf::Tensor& tensor) {
  return absl::StrCat(file.PathOf(tensor), ", tensor ", tensor.name, ", data at byte ", tensor.file_offset);
}

}  // namespace

Linear piecesOf(const Linear& whole, RowPieces pieces, std::vector<int64_t> shape) {
  if (whole.weight.tensor == nullptr) return {};
  return {{whole.weight.tensor, std::move(shape), std::move(pieces), whole.weight.widened}, whole.scale};
}

void TensorTable::fail(absl::Status status) {
  if (refusals_ != nullptr) refusals_->push_back(status);
  if (status_.ok()) status_ = std::move(status);
}

const gguf::Tensor* TensorTable::require(std::span<const std::string> spellings) {
  if (!goesOn()) return nullptr;
  for (const std::string& name : spellings)
    if (const gguf::Tensor* tensor = file_.FindTensor(name)) return tensor;
  // Refused for its format already.
  for (const std::string& name : spellings) {
    const auto refused = foreignFormat_.find(name);
    if (refused == foreignFormat_.end()) continue;
    if (status_.ok()) status_ = refused->second->error;
    return nullptr;
  }
  const std::string names = absl::StrJoin(spellings, " or "), layer = layerOf(spellings.front());
  const auto ofLayer = [&](const gguf::Tensor& tensor) { return tensor.name.starts_with(layer); };
  const gguf::File* joined = layer.empty() ? nullptr : file_.joined();
  const bool ofJoined = joined != nullptr && std::ranges::any_of(joined->tensors(), ofLayer);
  const bool isNextn = !layer.empty() && spellings.front().find(".nextn.") == std::string::npos &&
                       file_.FindTensor(layer + "nextn.eh_proj.weight") != nullptr && !ofJoined;
  fail(MakeError("Q2005", absl::StrCat("tensor ", names, " is missing"),
                 absl::StrCat((ofJoined ? joined : &file_)->path(), ", tensor ", spellings.front()),
                 isNextn
                     ? "the layer has tensors of a NextN block: the key nextn_predict_layers does not count "
                       "it, or tensors of it are missing; convert or download the model again"
                     : "the hyper-parameters of the file ask for this tensor; convert or download the "
                       "model again"));
  return nullptr;
}

// `altNe1` >= 0 also accepts the dimensions with one of that extent put in after ne[0].
Weight TensorTable::checked(const gguf::Tensor* tensor, std::vector<int64_t> shape, bool f32Only,
                            int64_t altNe1) {
  if (tensor == nullptr) return {};
  used_.insert(tensor->name);  // also a wrong one: what it is for is known
  std::array<int64_t, 4> expected = {1, 1, 1, 1};
  std::reverse_copy(shape.begin(), shape.end(), expected.begin());
  std::array<int64_t, 4> alternative = expected;
  if (altNe1 >= 0) alternative = {expected[0], altNe1, expected[1], 1};
  if (tensor->ne != expected && tensor->ne != alternative) {
    fail(MakeError("Q2006",
                   absl::StrCat("tensor ", tensor->name, " has dimensions ", printDims(*tensor),
                                ", expected {", absl::StrJoin(shape.rbegin(), shape.rend(), ", "), "}"),
                   whereOf(file_, *tensor),
                   "tensor and hyper-parameters disagree; convert or download the model again"));
    return {};
  }
  const bool widened = f32Only && widens_to_f32(tensor->format);
  if (f32Only && !widened && tensor->format != Format::F32) {
    fail(MakeError("Q2007",
                   absl::StrCat("tensor ", tensor->name, " has format ",
                                text(format_info(tensor->format).name), ", expected f32, f16 or bf16"),
                   whereOf(file_, *tensor),
                   "norms, biases, gates, routers, convolutions and scales are never quantized; convert the "
                   "model again"));
    return {};
  }
  return {.tensor = tensor, .shape = std::move(shape), .widened = widened};
}

Weight TensorTable::matrix(const std::string& name, int64_t rows, int64_t columns) {
  return checked(require({&name, 1}), {rows, columns}, /*f32Only=*/false);
}

// The scales beside `name`: one number, or one for each expert.
Linear TensorTable::withScales(const std::string& name, Weight weight, int64_t experts) {
  Linear linear{std::move(weight), {}};
  const std::string base(absl::StripSuffix(name, "weight"));
  const auto numbers = [&](const std::string& companion) {
    const gguf::Tensor* tensor = goesOn() ? file_.FindTensor(companion) : nullptr;
    const bool one = tensor == nullptr || tensor->ne[0] == 1;
    return checked(tensor, {one ? 1 : experts}, /*f32Only=*/true);
  };
  linear.scale = numbers(base + "scale");
  numbers(base + "input_scale");
  return linear;
}

Linear TensorTable::linear(const std::string& name, int64_t rows, int64_t columns) {
  return withScales(name, matrix(name, rows, columns), /*experts=*/1);
}

Linear TensorTable::experts(const std::string& name, int64_t experts, int64_t rows, int64_t columns) {
  return withScales(name, checked(require({&name, 1}), {experts, rows, columns}, /*f32Only=*/false), experts);
}

Weight TensorTable::router(const std::string& name, int64_t rows, int64_t columns) {
  return checked(require({&name, 1}), {rows, columns}, /*f32Only=*/true);
}

Weight TensorTable::vector(std::initializer_list<std::string> spellings, int64_t size) {
  return checked(require(spellings), {size}, /*f32Only=*/true);
}

Weight TensorTable::vector(const std::string& name, int64_t size) {
  return checked(require({&name, 1}), {size}, /*f32Only=*/true);
}

Weight TensorTable::decays(const std::string& name, int64_t size) {
  Weight weight = vector(name, size);
  if (weight.tensor == nullptr) return weight;
  std::vector<float> values(size);
  decode_row(weight.tensor->format, weight.tensor->data, size, values.data());
  const auto grows = std::ranges::find_if(values, [](float value) { return value > 0; });
  if (grows == values.end()) return weight;
  fail(MakeError("Q2012",
                 absl::StrCat("value ", grows - values.begin(), " of tensor ", name, " is ", *grows,
                              ", expected at most 0"),
                 whereOf(file_, *weight.tensor),
                 "it holds -exp(A) of each head; a converter that left A as it was makes another model"));
  return {};
}

Weight TensorTable::convolution(const std::string& name, int64_t channels, int64_t taps) {
  return checked(require({&name, 1}), {channels, taps}, /*f32Only=*/true, /*altNe1=*/1);
}

std::vector<int64_t> TensorTable::ids(const std::string& name, int64_t size, int64_t limit) {
  const gguf::IntegerTensor* tensor = goesOn() ? file_.FindIntegers(name) : nullptr;
  if (tensor == nullptr) return {};
  used_.insert(tensor->name);
  const std::string where = absl::StrCat(file_.path(), ", tensor ", name);
  if (tensor->elements() != size) {
    fail(MakeError("Q2006",
                   absl::StrCat("tensor ", name, " has ", tensor->elements(), " ids, expected ", size), where,
                   "it has an id for each row of the draft's head"));
    return {};
  }
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < size; ++i) {
    ids.push_back(tensor->at(i));
    if (ids.back() >= 0 && ids.back() < limit) continue;
    fail(MakeError(
        "Q2011",
        absl::StrCat("id ", i, " of tensor ", name, " is ", ids.back(), ", expected 0 to ", limit - 1), where,
        "it names tokens of the model; convert or download the model again"));
    return {};
  }
  return ids;
}

void TensorTable::refuseLayersFrom(int64_t blocks) {
  constexpr std::string_view kLayer = "blk.";
  for (const gguf::Tensor& tensor : file_.tensors()) {
    if (!tensor.name.starts_with(kLayer)) continue;
    const char* number = tensor.name.data() + kLayer.size();
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(number, tensor.name.data() + tensor.name.size(), layer);
    if (error != std::errc() || *end != '.' || layer < blocks) continue;
    fail(MakeError("Q2004",
                   absl::StrCat("the last layer is blk.", blocks - 1,
                                " by their number (block_count), and there is a tensor ", tensor.name),
                   whereOf(file_, tensor),
                   "without that layer it would be another model; convert or download it again"));
    return;
  }
}

absl::Status TensorTable::finish(int64_t blocks, std::vector<std::string>& warnings) {
  if (!goesOn()) return status_;
  refuseLayersFrom(blocks);
  if (!goesOn()) return status_;
  struct Foreign {
    std::string_view part;
    bool suffix;  // else: anywhere in the name
    std::string_view meaning;
  };
  static constexpr Foreign kForeign[] = {
      {".scale", true, "a scale that multiplies another tensor"},
      {".input_scale", true, "a scale of another tensor's input"},
      {".bias", true, "a bias that this architecture does not have"},
      {".pestle.", false, "a factor of a factored (Pestle) linear layer"},
      {".lora_", false, "a low-rank adapter"},
      {"rope_freqs", false, "rotary frequencies per pair"},
      {"rope_factors", false, "rotary frequencies per pair"},
      {"attn_sinks", false, "attention sinks"},
      {"cls.", false, "the head of a classifier or reranker"},
  };
  // What a file may carry along, by how its names begin: the text model never reads it.
  struct Along {
    std::vector<std::string_view> prefixes;
    std::string_view meaning;
    int64_t count = 0;
  };
  Along along[] = {
      {{"v.", "mm."}, "of an image encoder (v.*, mm.*) not used: programs are made of text"},
      {{"mtp."}, "of a NextN block (mtp.*) not used: qcc reads one as a layer, blk.N.nextn.*"},
  };
  for (const gguf::Tensor& tensor : file_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    const auto starts = [&](std::string_view prefix) { return tensor.name.starts_with(prefix); };
    const auto part =
        std::ranges::find_if(along, [&](const Along& a) { return std::ranges::any_of(a.prefixes, starts); });
    if (part != std::end(along)) {
      ++part->count;
      continue;
    }
    bool refused = false;
    for (const Foreign& foreign : kForeign) {
      const bool matches = foreign.suffix ? tensor.name.ends_with(foreign.part)
                                          : tensor.name.find(foreign.part) != std::string::npos;
      if (!matches) continue;
      fail(MakeError(
          "Q2008",
          absl::StrCat("tensor ", tensor.name, " is ", text(foreign.meaning), ", which is not supported"),
          whereOf(file_, tensor),
          "leaving it out would give wrong output; use a file of the same model without it"));
      if (!goesOn()) return status_;
      refused = true;
      break;
    }
    if (!refused)
      warnings.push_back(absl::StrCat("tensor ", tensor.name, " is not used by this architecture"));
  }
  for (const auto& [prefixes, meaning, count] : along)
    if (count != 0)
      warnings.push_back(absl::StrCat(count, count == 1 ? " tensor " : " tensors ", text(meaning)));
  for (const gguf::IntegerTensor& tensor : file_.integer_tensors())
    if (!used_.contains(tensor.name))
      warnings.push_back(
          absl::StrCat("tensor ", tensor.name, " of integers is not used by this architecture"));
  return status_;
}

}  // namespace qcc::models
