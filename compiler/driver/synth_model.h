// What a synthetic model consists of: metadata keys, and tensors with their formats and distributions.
#ifndef QCC_COMPILER_DRIVER_SYNTH_MODEL_H_
#define QCC_COMPILER_DRIVER_SYNTH_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/synth.h"
#include "dialects/formats/formats.h"
#include "frontends/gguf/writer.h"

namespace qcc::compiler {

// How the values of a tensor are drawn.
enum class Draw {
  kNormal,     // normal, mean 0, deviation `scale`
  kAroundOne,  // normal, mean 1, deviation `scale`: weights of norms
  kDecay,      // uniform in [-8, -0.1]: ssm_a = -exp(A_log)
  kConstant,   // `scale` itself
  kTimeStep,   // softplus^-1 of a step that is log-uniform in [0.001, 0.1]: ssm_dt
};

// What decides the format of a tensor in a mix.
enum class TensorRole {
  kVector,  // stays in f32: norms, gates, routers
  kMatrix,
  kEmbedding,
  kOutput,
  kValue,  // attn_v and attn_qkv
  kQueryKey,
  kAttnOutput,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  // Of all experts of a layer, and of its shared one: the rules of the three above, counted by themselves.
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown
};

struct SynthTensor {
  std::string name;
  std::vector<int64_t> ne;  // GGUF order
  TensorRole role;
  Draw draw;
  float scale;
  Format format = Format::F32;
};

struct Mix;

// All tensors in file order, with the formats that `mix` gives them.
std::vector<SynthTensor> SynthTensors(const SynthConfig& config, const Mix& mix);

// general.* and <arch>.* keys.
void AddModelKeys(const SynthConfig& config, const SynthOptions& options, const Mix& mix,
                  gguf::Writer& writer);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_SYNTH_MODEL_H_
