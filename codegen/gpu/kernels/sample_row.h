// A draw as runtime/engine/sampler.h defines it. Top-k, top-p and min-p each keep a front of the tokens in
// the order (logit down, id up), so what is kept is one key, the front's last, and how many of the tokens
// with that key.
//
// Where top-k keeps few tokens, two launches do (sample_few.cc). Else, workgroups over chunks of the
// vocabulary:
//   keys         logits after the penalties to keys, of tokens that may not be chosen as if -infinity; the
//                highest key of each chunk, and the range of keys before the penalties
//   count 0..2   top-k: tokens per digit of the key, among those whose higher digits are the front's
//   mass 0..3    top-p: the same with weights
//   sum          weights, at the temperature, of each chunk's tokens in the front
//   token        one workgroup per row: the chunk, the thread's part, the token that the random number hits
// Each launch begins with choosing the digit from the sums of the one before, in every workgroup alike; the
// first workgroup notes what has been found so far for the next launch. All sums are of integers, so their
// order is free.
#ifndef QCC_CODEGEN_GPU_KERNELS_SAMPLE_ROW_H_
#define QCC_CODEGEN_GPU_KERNELS_SAMPLE_ROW_H_

#include <functional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/sample_math.h"
#include "codegen/gpu/kernels/step.h"
#include "runtime/abi/sampling.h"

namespace qcc::gpu::sample {

inline constexpr int kThreads = kSampleWorkgroup;

struct Digit {
  int shift, bits;
  int bins() const { return 1 << bits; }
  // Mask of the digits above this one.
  int32_t above() const {
    return static_cast<int32_t>(shift + bits == 32 ? 0 : ~uint32_t{0} << (shift + bits));
  }
};
inline constexpr int kCountDigits = 3, kMassDigits = 4;
inline constexpr Digit kCount[kCountDigits] = {{21, 11}, {10, 11}, {0, 10}};
inline constexpr Digit kMass[kMassDigits] = {{24, 8}, {16, 8}, {8, 8}, {0, 8}};

// What is known about a row: a note per launch. Offsets in bytes.
inline constexpr int kNotes = kCountDigits + kMassDigits + 1;
inline constexpr int kPrefix = 0;     // the digits found, zeros below
inline constexpr int kNeeded = 8;     // i64: what tokens with that prefix must still give
inline constexpr int kFrontKey = 16;  // of top-k
inline constexpr int kFrontTies = 20;
inline constexpr int kHighest = 24;
inline constexpr int kNoteBytes = 32;

// Scratch of a row: keys, then these. Offsets in bytes. `firsts` is of the short form (sample_few.cc).
struct Layout {
  int32_t vocab, stride, chunk, chunks;
  bool some, several;  // not all columns may be chosen; more than one may
  int64_t ranges, maxima, notes, counts, masses, sums, ties, firsts, bytes;
};
Layout LayoutOf(const Vocabulary& vocabulary, int64_t stride);

// The last one only where not all tokens are choosable.
enum Argument { kStep, kSamples, kPenalties, kLogits, kScratch, kResults, kChoosable };

// One kernel's view of its row.
class Row {
 public:
  Row(Builder& builder, const Layout& layout, Val row, Val block)
      : b(builder),
        l(layout),
        chunk(block),
        thread(builder.Thread()),
        row_(row),
        scratch_(builder.Arg(kScratch) + builder.ExtendU(row) * builder.I64(layout.bytes)),
        sample_(builder.Arg(kSamples) + builder.ExtendU(row) * builder.I64(sizeof(qrt_gpu_entry))) {}

  Val Option(Type type, size_t offset) { return b.Load(type, sample_, b.I32(static_cast<int32_t>(offset))); }
  Val Number(size_t offset) { return Option(Type::kI64, offset); }
  Val LimitsCount() { return Ne(Option(Type::kI32, offsetof(qrt_gpu_sample, top_k)), b.I32(0)); }
  Val LimitsMass() {
    return Ne(Number(offsetof(qrt_gpu_sample, top_p)), b.I64(static_cast<int64_t>(QRT_SAMPLING_ALL)));
  }

  Val Scratch(int64_t offset) { return scratch_ + b.I64(offset); }
  Val Key(Val id) { return b.Load(Type::kI32, scratch_, id * 4); }
  void SetKey(Val id, Val key) { b.Store(scratch_, id * 4, key); }
  Val Logit(Val id) {
    const Val logits = b.Arg(kLogits) + b.ExtendU(row_) * b.I64(int64_t{4} * l.stride);
    return b.Load(Type::kI32, logits, id * 4);
  }
  // The key of its logit; excluded where the token may not be chosen.
  Val KeyOfToken(Val id) {
    const Val key = KeyOfLogit(Logit(id));
    return l.some ? Select(IsChoosable(b.Arg(kChoosable), id), key, b.I32(kExcludedKey)) : key;
  }
  void Result(Val token) { b.Store(b.Arg(kResults), row_ * 4, token); }

  Val NoteWord(int stage, int offset) {
    return b.Load(Type::kI32, Scratch(l.notes), b.I32(stage * kNoteBytes + offset));
  }
  Val NoteNeeded(int stage) {
    return b.Load(Type::kI64, Scratch(l.notes), b.I32(stage * kNoteBytes + kNeeded));
  }
  // For the next launch: one thread of the grid's row writes.
  void Note(int stage, Val prefix, Val needed, Val front_key, Val front_ties, Val highest) {
    b.If(Eq(chunk | thread, 0), [&] {
      const Val at = Scratch(l.notes);
      const int begin = stage * kNoteBytes;
      b.Store(at, b.I32(begin + kPrefix), prefix);
      b.Store(at, b.I32(begin + kNeeded), needed);
      b.Store(at, b.I32(begin + kFrontKey), front_key);
      b.Store(at, b.I32(begin + kFrontTies), front_ties);
      b.Store(at, b.I32(begin + kHighest), highest);
    });
  }

  // `body` for the ids of this workgroup's chunk, in turn among the threads.
  std::vector<Val> ForIds(const std::vector<Val>& carried,
                          const std::function<std::vector<Val>(Val id, const std::vector<Val>&)>& body) {
    const Val first = chunk * l.chunk + thread;
    return b.For(b.I32(0), b.I32(l.chunk), b.I32(kThreads), carried, [&](Val i, const std::vector<Val>& now) {
      const Val id = first + i;
      return b.IfElse(
          LtU(id, b.I32(l.vocab)), [&] { return body(id, now); }, [&] { return now; });
    });
  }

  Builder& b;
  const Layout& l;
  const Val chunk, thread;

 private:
  const Val row_, scratch_, sample_;
};

// Emits `body` for the rows of logits there are.
void ForRow(Builder& b, const Layout& l, Val index, Val chunk, const std::function<void(Row&)>& body);

// The range of this chunk's keys before the penalties, for the launch that asks FaultOfRow; one thread
// writes.
void NoteRange(Row& row, const KeyRange& range);
// QRT_GPU_SAMPLE_* or 0. All threads of the workgroup must call.
Val FaultOfRow(Row& row, WideCollective& collective);

// For uniform conditions: `then`'s values, or else these.
std::vector<Val> When(Builder& b, Val condition, const std::vector<Val>& otherwise,
                      const std::function<std::vector<Val>()>& then);

// Launches of the same arguments, workgroups over the chunks of each row; of the last, which writes the
// tokens, one workgroup per row.
struct Kernel {
  std::string name;
  std::function<void(Builder&, const Layout&)> emit;
};
std::vector<Launch> LaunchesOf(const std::vector<Kernel>& kernels, const Layout& layout, int64_t rows,
                               const Vocabulary& vocabulary, Expansion& expansion, uint64_t* scratch_bytes);

}  // namespace qcc::gpu::sample

#endif  // QCC_CODEGEN_GPU_KERNELS_SAMPLE_ROW_H_
