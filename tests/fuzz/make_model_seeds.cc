// Writes the seed corpus of the fuzzers of the importer and the front half: `make_model_seeds
// tests/fuzz/corpus/model`. Run it again when the importer learns something that no seed shows it.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/fuzz/gguf_fields.h"
#include "tests/unit/models/tiny_model.h"

namespace {

using qcc::models::testing::MakeTiny;
using qcc::models::testing::TinyConfig;
using qcc::models::testing::TinyModel;
using qcc::models::testing::TinyTensor;

// The head alone: the fuzzers put zeros behind it.
bool Save(const std::string& folder, const std::string& name, const TinyModel& model) {
  const std::vector<uint8_t> bytes = model.serialize();
  const size_t end = qcc::fuzz::ReadHead(bytes).end;
  std::ofstream out(folder + "/" + name + ".gguf", std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(end));
  return out.good() && end != 0;
}

// Every matrix in a format whose block the row length fills.
TinyModel Quantised(TinyModel model, qcc::Format format) {
  for (TinyTensor& tensor : model.tensors) {
    if (tensor.ne.size() >= 2 && tensor.ne[0] % qcc::format_info(format).block_elems == 0 &&
        tensor.name.find("conv1d") == std::string::npos &&
        tensor.name.find("ffn_gate_inp") == std::string::npos) {
      tensor.format = format;
    }
  }
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_model_seeds FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  TinyConfig dense;
  dense.arch = "qwen3";
  dense.layers = 2;
  TinyConfig hybrid;
  hybrid.layers = 2;
  hybrid.interval = 2;
  TinyConfig wide = hybrid;  // rows of 128: int8 activations need more than 64
  wide.hidden = wide.ffn = 128;
  wide.vocab = 96;
  TinyConfig nextn = hybrid;
  nextn.nextn = 1;
  nextn.tied = false;
  TinyConfig experts = nextn;
  experts.arch = "qwen35moe";
  TinyConfig next = hybrid;
  next.arch = "qwen3next";
  bool ok = Save(folder, "dense", MakeTiny(dense));
  ok = Save(folder, "dense_q8_0", Quantised(MakeTiny(dense), qcc::Format::Q8_0)) && ok;
  ok = Save(folder, "hybrid", MakeTiny(hybrid)) && ok;
  ok = Save(folder, "hybrid_q4_0", Quantised(MakeTiny(wide), qcc::Format::Q4_0)) && ok;
  ok = Save(folder, "nextn_f16", Quantised(MakeTiny(nextn), qcc::Format::F16)) && ok;
  ok = Save(folder, "experts_q8_0", Quantised(MakeTiny(experts), qcc::Format::Q8_0)) && ok;
  ok = Save(folder, "next", MakeTiny(next)) && ok;
  if (!ok) std::fprintf(stderr, "cannot write into %s\n", folder.c_str());
  return ok ? 0 : 1;
}
