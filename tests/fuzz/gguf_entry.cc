#include "tests/fuzz/gguf_entry.h"

#include <memory>
#include <string_view>

#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "frontends/gguf/gguf.h"

namespace qcc::fuzz {

GgufResult FuzzGguf(std::span<const uint8_t> bytes) {
  GgufResult result;
  absl::StatusOr<std::unique_ptr<gguf::File>> opened = gguf::File::Parse(bytes, "fuzz.gguf");
  if (!opened.ok()) {
    result.error_has_code = !PartsOf(opened.status()).code.empty();
    return result;
  }
  result.accepted = true;
  const gguf::File& file = **opened;
  for (std::string_view key : file.keys()) {
    result.read += file.GetInt(key).ok();
    result.read += file.GetFloat(key).ok();
    result.read += file.GetBool(key).ok();
    if (auto v = file.GetString(key); v.ok() && !v->empty()) result.read += v->front() != v->back();
    if (auto v = file.GetIntArray(key); v.ok()) result.read += v->size();
    if (auto v = file.GetFloatArray(key); v.ok()) result.read += v->size();
    if (auto v = file.GetBoolArray(key); v.ok()) result.read += v->size();
    if (auto v = file.GetStringArray(key); v.ok()) {
      for (std::string_view s : *v) result.read += s.empty() ? 0 : static_cast<uint8_t>(s.back());
    }
  }
  for (const gguf::Tensor& tensor : file.tensors()) {
    result.read += gguf::CheckFinite(file, tensor).ok();
    result.read += file.FindTensor(tensor.name) == &tensor;
    result.read += tensor.elements() > 0;
  }
  return result;
}

}  // namespace qcc::fuzz
