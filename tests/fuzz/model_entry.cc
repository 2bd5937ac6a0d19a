#include "tests/fuzz/model_entry.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "frontends/base/error.h"
#include "tests/fuzz/gguf_fields.h"

// MLIR and LLVM keep what they made until the process ends, and poison memory in code that is inlined here
// whose other half, in the shared library, takes no poison away.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:allow_user_poisoning=0";
}
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace qcc::fuzz {
namespace {

constexpr size_t kDataBytes = 256 << 10;  // more than a seed's tensors take

// A number in place of one that stands there: near it, or one that other code likes to be wrong about.
uint64_t Instead(uint64_t value, std::minstd_rand& random) {
  constexpr uint64_t kOdd[] = {
      0,     1,          2,          3,          4,          8,          15,
      16,    31,         32,         33,         64,         127,        128,
      255,   256,        65535,      0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 32,
      ~0ull, 1ull << 63, 0x3f800000, 0x7f800000, 0x7fc00000, 0xbf800000};
  switch (random() % 5) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return value * 2;
    case 3:
      return value / 2;
    default:
      return kOdd[random() % std::size(kOdd)];
  }
}

}  // namespace

ModelFile OpenHead(std::span<const uint8_t> head) {
  ModelFile model;
  model.bytes.assign(head.begin(), head.end());
  model.bytes.resize(head.size() + kDataBytes);
  absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::Parse(model.bytes, "fuzz.gguf");
  if (file.ok())
    model.file = *std::move(file);
  else
    CheckRefusal(file.status());
  return model;
}

mlir::OwningOpRef<mlir::ModuleOp> Import(mlir::MLIRContext& context, const gguf::File& file,
                                         models::KvElement kv) {
  models::ImportOptions options;
  options.kv = kv;
  absl::StatusOr<models::ImportResult> imported = models::ImportModel(context, file, options);
  if (imported.ok()) return std::move(imported->module);
  CheckRefusal(imported.status());
  return nullptr;
}

void CheckRefusal(const absl::Status& status) {
  const std::string code = PartsOf(status).code;
  if (!code.empty() && code[1] != '9') return;  // Q9xxx: a bug in qcc
  std::fprintf(stderr, "refused without a reason: %s\n", status.ToString().c_str());
  __builtin_trap();
}

}  // namespace qcc::fuzz

// Half of the mutations change one number of the head and leave the rest as it is, most of which then still
// holds.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const qcc::fuzz::GgufHead head = qcc::fuzz::ReadHead({data, size});
  if (head.fields.empty()) return LLVMFuzzerMutate(data, size, max_size);
  for (size_t changes = 1 + random() % 3; changes-- > 0;) {
    const qcc::fuzz::Field& field = head.fields[random() % head.fields.size()];
    uint64_t value = 0;
    std::memcpy(&value, data + field.offset, field.bytes);
    if (random() % 4 == 0) {  // what stands elsewhere in the file
      const qcc::fuzz::Field& other = head.fields[random() % head.fields.size()];
      std::memcpy(&value, data + other.offset, std::min(other.bytes, field.bytes));
    } else {
      value = qcc::fuzz::Instead(value, random);
    }
    std::memcpy(data + field.offset, &value, field.bytes);
  }
  return size;
}
