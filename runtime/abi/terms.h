// The numbered terms of an artifact, in one place: compiler, file and runtime read them here. The FlatBuffers
// schemas and the compiler's dialects, which have languages of their own, repeat them and are checked against
// this list where they meet it (static_assert). Stand-alone C++.
//
// A list is X(Name, text, number): `Name` as in a schema, kName in C++; `text` for people; a number never
// gets another meaning.
#ifndef QRT_ABI_TERMS_H_
#define QRT_ABI_TERMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#define QRT_NUMERICS(X) \
  X(F32, "f32", 0)      \
  X(Int8, "int8", 1)

// B16, of KV: 16 bits a value, as its device has them: rows of integers on a CPU (integer_row.h), f16 on a
// GPU.
#define QRT_ELEMENTS(X) \
  X(F32, "f32", 0)      \
  X(F16, "f16", 1)      \
  X(B16, "b16", 2)

// Conv: the last rows before a convolution. Delta: the memory of a delta rule. KV: keys and values by token.
// Trace: the last row behind a layer, for people to look at.
#define QRT_STATE_KINDS(X) \
  X(Conv, "conv", 0)       \
  X(Delta, "delta", 1)     \
  X(KV, "kv", 2)           \
  X(Trace, "trace", 3)

// What a program takes, as bits. Tokens: an id per row. Given: f32 rows at offset 0 of the arena, placed
// there by the caller before the step. Stream: f32 rows at offset 0 of the arena, left there by another
// program of the same step.
#define QRT_INPUTS(X)    \
  X(Tokens, "tokens", 1) \
  X(Given, "given", 2)   \
  X(Stream, "stream", 4)

// What a program writes for the caller. ChosenLogits: logits of the rows that the step chooses. Logits: of
// every row.
#define QRT_OUTPUTS(X)                \
  X(Nothing, "nothing", 0)            \
  X(ChosenLogits, "chosen_logits", 1) \
  X(Logits, "logits", 2)

// What an argument of a GPU kernel is relative to (gpu_code.fbs).
#define QRT_GPU_SPACES(X)      \
  X(Immediate, "immediate", 0) \
  X(Weights, "weights", 1)     \
  X(Arena, "arena", 2)         \
  X(Step, "step", 3)           \
  X(Logits, "logits", 4)       \
  X(Constants, "constants", 5) \
  X(Results, "results", 6)     \
  X(Scratch, "scratch", 7)

#define QRT_GPU_SAMPLINGS(X) \
  X(Greedy, "greedy", 0)     \
  X(Draw, "draw", 1)         \
  X(Guess, "guess", 2)       \
  X(DrawFew, "draw_few", 3)

#define QRT_TERM(Name, text, number) k##Name = number,
#define QRT_TERM_NAME(Name, text, number) \
  case number:                            \
    return text;
#define QRT_TERM_COUNT(Name, text, number) +1
#define QRT_TERMS(Type, LIST)                                  \
  enum class Type : uint8_t { LIST(QRT_TERM) };                \
  constexpr const char* Name(Type value) {                     \
    switch (static_cast<int>(value)) {                         \
      LIST(QRT_TERM_NAME)                                      \
      default:                                                 \
        return "unknown";                                      \
    }                                                          \
  }                                                            \
  constexpr bool Known(Type value) {                           \
    return static_cast<int>(value) < (0 LIST(QRT_TERM_COUNT)); \
  }

// Checks that another enumeration numbers a list alike:
//   struct SameElement { using Other = abi::Element; QRT_ELEMENTS(QRT_SAME_NUMBER) };
#define QRT_SAME_NUMBER(Name, text, number) \
  static_assert(static_cast<int>(Other::Name) == number, "'" text "' has another number in terms.h");

namespace qrt {

// Each with Name(value), "unknown" for one that is not in the list, and (but for Input) Known(value).
QRT_TERMS(Numerics, QRT_NUMERICS)
QRT_TERMS(Element, QRT_ELEMENTS)
QRT_TERMS(StateKind, QRT_STATE_KINDS)
QRT_TERMS(Output, QRT_OUTPUTS)
QRT_TERMS(GpuSpace, QRT_GPU_SPACES)
QRT_TERMS(GpuSampling, QRT_GPU_SAMPLINGS)

enum Input : uint32_t { QRT_INPUTS(QRT_TERM) };
inline constexpr uint32_t kKnownInputs = kTokens | kGiven | kStream;

inline constexpr size_t kGpuSpaces = 0 QRT_GPU_SPACES(QRT_TERM_COUNT);

// What a program is, as far as choosing one goes: everything but its rows. Whoever runs programs asks for
// these facts and never for a name. A program with an input or output that a reader does not know is not for
// it.
struct ProgramFacts {
  uint32_t takes = 0;       // Input bits
  uint32_t given_cols = 0;  // with kGiven: floats of a row
  int32_t stream = -1;      // with kStream: the one it takes, a place in the manifest's list of streams
  int32_t leaves = -1;  // the stream that it leaves at offset 0 of the arena, a row for each row; -1: none
  Output gives = Output::kNothing;
  std::vector<uint32_t> advances;  // places in the manifest's list of states, rising

  bool operator==(const ProgramFacts&) const = default;
  bool gives_logits() const { return gives != Output::kNothing; }
};

// Layers that one device runs, of a model that several run (manifest.fbs: Part).
struct PartFacts {
  std::string target;
  uint32_t first_layer = 0, layers = 0;
  uint32_t states = 0, programs = 0, code = 0;  // entries of the manifest's lists
  uint64_t state_bytes = 0, kv_bytes_per_token = 0, weights_bytes = 0;

  bool operator==(const PartFacts&) const = default;
};
// The most parts of a model; each has sections of its own, of which a file has a limited number.
inline constexpr size_t kMaxParts = 8;

}  // namespace qrt

#endif  // QRT_ABI_TERMS_H_
