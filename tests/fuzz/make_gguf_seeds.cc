// Writes the seed corpus of the GGUF fuzzer: `make_gguf_seeds tests/fuzz/corpus/gguf`. Run it again when the
// reader learns something that no seed shows it.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "dialects/formats/formats.h"
#include "frontends/gguf/writer.h"
#include "tests/unit/gguf/bytes.h"

namespace {

using qcc::gguf::testing::Bytes;

bool Save(const std::string& folder, const std::string& name, const std::vector<uint8_t>& bytes) {
  std::ofstream out(folder + "/" + name + ".gguf", std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

// One small tensor of every format.
std::vector<uint8_t> EveryFormat() {
  qcc::gguf::Writer writer;
  writer.AddString("general.architecture", "qwen35");
  for (int i = 0; i < qcc::kFormatCount; ++i) {
    const qcc::FormatInfo& info = qcc::format_info(static_cast<qcc::Format>(i));
    writer.AddTensor(std::string("blk.") + std::to_string(i) + ".w", info.id, {info.block_elems, 2});
  }
  std::vector<uint8_t> bytes;
  absl::Status status = writer.WriteTo(
      [](const qcc::gguf::Writer::TensorInfo& info, const qcc::gguf::Writer::Sink& sink) {
        return sink(std::vector<uint8_t>(info.bytes, 0x11));
      },
      [&](std::span<const uint8_t> piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
        return absl::OkStatus();
      });
  return status.ok() ? bytes : std::vector<uint8_t>();
}

// What the tokenizer part of a model file looks like.
std::vector<uint8_t> Vocabulary() {
  Bytes b;
  b.Header(0, 6).KvStr("tokenizer.ggml.model", "gpt2").KvStr("tokenizer.ggml.pre", "qwen35");
  b.KvArray("tokenizer.ggml.tokens", 8, 3).Str("a").Str("\xc4\xa0").Str("<|im_end|>");
  b.KvArray("tokenizer.ggml.token_type", 5, 3).U32(1).U32(1).U32(3);
  b.KvArray("tokenizer.ggml.scores", 6, 3).U32(0).U32(0).U32(0);
  b.KvArray("tokenizer.ggml.merges", 8, 1).Str("a \xc4\xa0");
  return b.get();
}

// Alignment of its own, an empty tensor, a scalar, and data out of order.
std::vector<uint8_t> OddTensors() {
  Bytes b;
  b.Header(4, 2).KvU32("general.alignment", 64).Key("split.count", 2).Le<uint16_t>(1);
  b.TensorInfo("late", {2}, 0, 128).TensorInfo("early", {2, 1, 1, 1}, 1, 0);
  b.TensorInfo("empty", {0, 3}, 0, 64).TensorInfo("scalar", {}, 0, 64).Pad(64).Zeros(136);
  return b.get();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_gguf_seeds FOLDER\n");
    return 2;
  }
  std::string folder = argv[1];
  bool ok = Save(folder, "small_v3", qcc::gguf::testing::SmallFile(3).get());
  ok = Save(folder, "small_v2", qcc::gguf::testing::SmallFile(2).get()) && ok;
  ok = Save(folder, "every_format", EveryFormat()) && ok;
  ok = Save(folder, "vocabulary", Vocabulary()) && ok;
  ok = Save(folder, "odd_tensors", OddTensors()) && ok;
  ok = Save(folder, "bad_type", Bytes().Header(1, 0).TensorInfo("w", {256}, 15, 0).Pad().Zeros(292).get()) &&
       ok;
  ok = Save(folder, "header_only", Bytes().Header(0, 0).get()) && ok;
  if (!ok) std::fprintf(stderr, "cannot write into %s\n", folder.c_str());
  return ok ? 0 : 1;
}
