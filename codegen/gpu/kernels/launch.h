// How a dispatch of the plan becomes launches of GPU kernels: plain data, no MLIR.
//
// A family (dialects/plan/kernel_families.def) has one expansion for all GPUs, listed in gpu_kernels.def.
// It gets the dispatch's constants and bindings and returns the launches, in order, with barriers where one
// needs another's results. Launches with equal names share one kernel, so a name says every constant that
// `emit` uses.
#ifndef QCC_CODEGEN_GPU_KERNELS_LAUNCH_H_
#define QCC_CODEGEN_GPU_KERNELS_LAUNCH_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "dialects/plan/kernel_specs.h"
#include "runtime/abi/terms.h"

namespace qcc::gpu {

using Space = qrt::GpuSpace;

// a / b, rounded up. a >= 0, b > 0.
template <std::integral T>
constexpr T CeilDiv(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

// For Expansion::Refuse.
inline std::string MultiplesOf(int64_t n) {
  return "multiples of " + std::to_string(n);
}

struct Arg {
  Space space = Space::kImmediate;
  uint64_t value = 0;  // byte offset in the space, or the number itself
  uint64_t bytes = 0;  // bytes that may be touched; 0 for a number
  // The kernel adds 64-bit offsets to the address, so the range may be longer than kMaxBindingBytes.
  bool wide = false;
};
inline Arg Number(uint64_t value) {
  return {Space::kImmediate, value};
}

struct Launch {
  std::string name;  // "linear.q4_k.int8.k1024.add.r4": equal names, equal kernels
  std::function<void(Builder&)> emit;
  int workgroup_size = 128;
  uint32_t grid[3] = {1, 1, 1};
  std::vector<Arg> args;  // Builder::Arg(i)
  bool barrier = false;   // results of earlier launches of this dispatch are read
  bool awaits = false;    // `emit` calls Builder::AwaitEarlier itself
  // May become part of a larger launch (together.h): numbers among its arguments follow from the shape alone,
  // and it has at most so many bytes of workgroup memory.
  bool beside = false;
  int shared_bytes = 0;
  // Workgroups for which a multiprocessor of CUDA has registers; 0: ptxas decides, which may prefer spilling
  // a few of them to fewer workgroups.
  int at_once = 0;
  // Cost of a full bucket.
  uint64_t read_bytes = 0, write_bytes = 0;
  uint64_t kv_bytes = 0;  // read per token of the context
  uint64_t ops = 0;       // multiplications and additions
};

// The whole kernel of a launch: ahead of what it computes, what launches that overlap need.
inline void EmitKernel(Builder& b, const Launch& launch) {
  b.LetNextBegin();
  if (!launch.awaits) b.AwaitEarlier();
  launch.emit(b);
}

// One plan.dispatch of the family of `Spec`: what its roles are and mean is in
// dialects/plan/kernel_families.md. A role that is required under the spec is bound. State and kv bindings
// are numbers: the offset of the layer in the sequence's state, or per token in its kv; kernels add the
// address from the step's sequence.
template <class Spec>
struct Dispatch {
  Spec spec;
  plan::BindingsOf<Spec, std::optional<Arg>> bindings;
  int64_t rows = 0;  // bucket: most rows of the step; for rows = "out_rows" most rows of logits
};

// What an expansion may ask for besides launches.
class Expansion {
 public:
  virtual ~Expansion() = default;
  virtual const Profile& profile() const = 0;
  // Most rows of any program of the artifact: extent of the step block (runtime/abi/gpu_step.h).
  virtual int64_t max_rows() const = 0;
  // Floats from one row of logits to the next.
  virtual int64_t logits_stride() const = 0;
  // Arena bytes of this dispatch's own, aligned to 256; free again after it.
  virtual Arg Scratch(uint64_t bytes) = 0;
  // Bytes placed in the code's constants, aligned to 16; equal bytes are placed once.
  virtual Arg Constant(const std::vector<uint8_t>& bytes) = 0;

  // No launches: the family takes no such spec. `takes`: what it takes instead, for the error.
  std::vector<Launch> Refuse(std::string_view key, int64_t value, std::string_view takes) {
    refusal_ = std::string(key) + " = " + std::to_string(value) + ": it takes " + std::string(takes);
    return {};
  }
  std::vector<Launch> Refuse(std::string what) {
    refusal_ = std::move(what);
    return {};
  }
  // What was refused last, once.
  std::string TakeRefusal() { return std::exchange(refusal_, {}); }

 private:
  std::string refusal_;
};

// Bytes that one binding may span unless it is wide: 2^31, so that 32-bit byte offsets reach everything with
// room. Expansions cut larger weights into several launches at row groups.
inline constexpr uint64_t kMaxBindingBytes = uint64_t{1} << 31;

// For Expansion::Refuse.
inline constexpr std::string_view kUpToOneBinding =
    "up to 2147483648, in a format of fewer bits or with fewer columns";

// Most workgroups side by side: the least that Vulkan promises in each dimension, and CUDA's in y and z.
inline constexpr int64_t kMostWorkgroups = 65535;

// Empty: no native kernel for this spec on this profile; the compile fails and names the op, with what
// Expansion::Refuse was told.
template <class Spec>
using Expand = std::vector<Launch> (*)(const Dispatch<Spec>& dispatch, Expansion& expansion);

// What sampling chooses from: the columns of a row of logits, of which some stand for no token.
struct Vocabulary {
  int64_t size = 0;
  // As qrt_choosable_tokens (runtime/abi/tokenizer.h) writes them; empty: all. Other tokens' logits are never
  // looked at.
  std::vector<uint32_t> choosable;

  int64_t choices() const;  // how many may be chosen
};
// `choosable`, which is not empty, among the code's constants.
Arg ChoosableArg(const Vocabulary& vocabulary, Expansion& expansion);

// What heads leave of each 16 columns of logits, so that one launch can choose or guess greedily: the highest
// and the lowest key (sample_math.h) of those that may be chosen. i32 [rows][units, an even number][2].
struct UnitKeys {
  Arg keys;
  std::optional<Arg> choosable;  // if not all columns of the units are
};
UnitKeys UnitKeysOf(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion);

// Sampling (gpu_code.fbs: sample programs): one token for each of `rows` rows of logits, or QRT_GPU_SAMPLE_*,
// into Results. `scratch_bytes` receives what they need of space kScratch.
std::vector<Launch> ExpandGreedy(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                                 uint64_t* scratch_bytes);
// The same in one launch, behind programs that all leave UnitKeys.
std::vector<Launch> ExpandGreedyOfUnits(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                                        uint64_t* scratch_bytes);
std::vector<Launch> ExpandDraw(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                               uint64_t* scratch_bytes);
// The same where every row of the step has a top_k of 1 to QRT_GPU_FEW_TOKENS, in fewer launches. Empty: the
// vocabulary is too large for it.
std::vector<Launch> ExpandDrawFew(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                                  uint64_t* scratch_bytes);

// What a draft guesses from: the columns of its rows of logits, which lie `stride` floats apart.
struct DraftColumns {
  int64_t size = 0, stride = 0;
  std::vector<int32_t> tokens;  // of the columns; empty: the first by id

  Vocabulary all() const { return {size, {}}; }  // whose UnitKeys heads leave
};
// The token of the highest logit, the first column of equals; some token even where there is no such logit.
std::vector<Launch> ExpandGuess(int64_t rows, const DraftColumns& columns, Expansion& expansion,
                                uint64_t* scratch_bytes);
// The same in one launch, behind programs that all leave UnitKeys.
std::vector<Launch> ExpandGuessOfUnits(int64_t rows, const DraftColumns& columns, Expansion& expansion,
                                       uint64_t* scratch_bytes);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LAUNCH_H_
