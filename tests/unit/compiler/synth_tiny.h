// Options of small models, of every kind of layer that an architecture has.
#ifndef QCC_TESTS_UNIT_COMPILER_SYNTH_TINY_H_
#define QCC_TESTS_UNIT_COMPILER_SYNTH_TINY_H_

#include <string>

#include "compiler/driver/synth.h"

namespace qcc::compiler {

inline SynthOptions Tiny(const std::string& arch) {
  SynthOptions o;
  o.arch = arch;
  o.preset.clear();
  for (const SynthPreset& preset : SynthPresets()) {  // the smallest: what is not overridden is its own
    if (preset.arch == arch && o.preset.empty()) o.preset = std::string(preset.name);
  }
  o.layers = 4;
  o.hidden = 256;
  if (arch == "qwen35" || arch == "qwen3") {
    o.ffn = 512;
  } else {
    o.experts = 6;
    o.experts_used = 2;
    o.expert_ffn = 256;
  }
  if (arch == "qwen35moe" || arch == "qwen3next") o.shared_ffn = 512;
  o.heads = 4;
  o.kv_heads = 2;
  o.head_dim = 64;
  o.vocab = 512;
  o.context = 1024;
  if (arch != "qwen3" && arch != "qwen3moe") {
    o.linear_key_heads = 2;
    o.linear_value_heads = 4;
    o.linear_head_dim = 64;
    o.mtp = true;
  }
  return o;
}

}  // namespace qcc::compiler

#endif  // QCC_TESTS_UNIT_COMPILER_SYNTH_TINY_H_
