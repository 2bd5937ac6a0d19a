// A draw as runtime/engine/sampler.h defines it. Top-k, top-p and min-p each keep a front of the tokens in
// the order (logit down, id up), so what is kept is one key, the front's last, and how many of the tokens
// with that key.
//
// Launches, workgroups over chunks of the vocabulary:
//   keys         logits after the penalties to keys; the highest key of each chunk
//   count 0..2   top-k: tokens per digit of the key, among those whose higher digits are the front's
//   mass 0..3    top-p: the same with weights
//   sum          weights, at the temperature, of each chunk's tokens in the front
//   token        one workgroup per row: the chunk, the thread's part and the token that the random number
//   falls on
// Each launch begins with choosing the digit from the sums of the one before, in every workgroup alike; the
// first workgroup notes what has been found so far for the next launch. All sums are of integers, so their
// order is free.
#include <algorithm>
#include <string>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/sample_math.h"
#include "codegen/gpu/kernels/step.h"
#include "runtime/abi/sampling.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kSampleWorkgroup;

struct Digit {
  int shift, bits;
  int bins() const { return 1 << bits; }
  // The digits above this one.
  int32_t above() const {
    return static_cast<int32_t>(shift + bits == 32 ? 0 : ~uint32_t{0} << (shift + bits));
  }
};
constexpr int kCountDigits = 3, kMassDigits = 4;
constexpr Digit kCount[kCountDigits] = {{21, 11}, {10, 11}, {0, 10}};
constexpr Digit kMass[kMassDigits] = {{24, 8}, {16, 8}, {8, 8}, {0, 8}};
// Copies of the sums of weights in workgroup memory: most tokens have the same few highest digits.
constexpr int kCopies = 4;

// What is known about a row: a note per launch. Offsets in bytes.
constexpr int kNotes = kCountDigits + kMassDigits + 1;
constexpr int kPrefix = 0;     // the digits found, zeros below
constexpr int kNeeded = 8;     // i64: what tokens with that prefix must still give
constexpr int kFrontKey = 16;  // of top-k
constexpr int kFrontTies = 20;
constexpr int kHighest = 24;
constexpr int kNoteBytes = 32;

// Scratch of a row: keys, then these. Offsets in bytes.
struct Layout {
  int32_t vocab, stride, chunk, chunks;
  int64_t maxima, notes, counts, masses, sums, ties, bytes;
};

Layout LayoutOf(int64_t vocab, int64_t stride) {
  Layout l;
  l.vocab = static_cast<int32_t>(vocab);
  l.stride = static_cast<int32_t>(stride);
  // At most kThreads chunks, of at least 8 tokens per thread.
  const int64_t per_thread = std::max<int64_t>(8, (vocab + kThreads * kThreads - 1) / (kThreads * kThreads));
  l.chunk = static_cast<int32_t>(per_thread * kThreads);
  l.chunks = static_cast<int32_t>((vocab + l.chunk - 1) / l.chunk);
  int64_t end = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t begin = end;
    end += (bytes + 15) / 16 * 16;
    return begin;
  };
  place(vocab * 4);
  l.maxima = place(l.chunks * 4);
  l.notes = place(kNotes * kNoteBytes);
  int64_t bins = 0;
  for (const Digit& digit : kCount) bins += digit.bins();
  l.counts = place(bins * 4);
  bins = 0;
  for (const Digit& digit : kMass) bins += digit.bins();
  l.masses = place(bins * 8);
  l.sums = place(l.chunks * 8);
  l.ties = place(l.chunks * 4);
  l.bytes = (end + 255) / 256 * 256;
  return l;
}

enum Argument { kStep, kSamples, kPenalties, kLogits, kScratch, kResults, kArguments };

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
        sample_(builder.Arg(kSamples) + builder.ExtendU(row) * builder.I64(sizeof(qrt_gpu_sample))) {}

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
void ForRow(Builder& b, const Layout& l, Val index, Val chunk, const std::function<void(Row&)>& body) {
  b.If(LtU(index, StepOuts(b.Arg(kStep))), [&] {
    Row row(b, l, index, chunk);
    body(row);
  });
}

// For uniform conditions: `then`'s values, or else these.
std::vector<Val> When(Builder& b, Val condition, const std::vector<Val>& otherwise,
                      const std::function<std::vector<Val>()>& then) {
  return b.IfElse(condition, then, [&] { return otherwise; });
}

Val Uniform(Builder& b, const Shared& words, int index) {
  return b.LoadShared(words, b.I32(index));
}

// ---- keys ----

Val HighestOfChunk(Row& row) {
  Builder& b = row.b;
  return row.ForIds({b.I32(0)}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
    return {MaxU(now[0], row.Key(id))};
  })[0];
}

// The penalties of this chunk's tokens.
void Penalize(Row& row, Val count) {
  Builder& b = row.b;
  const Val begin = row.Option(Type::kI32, offsetof(qrt_gpu_sample, penalty_begin));
  const Val repeat = row.Number(offsetof(qrt_gpu_sample, repeat));
  const Val repeat_inverse = row.Number(offsetof(qrt_gpu_sample, repeat_inverse));
  const Val presence = row.Number(offsetof(qrt_gpu_sample, presence));
  const Val frequency = row.Number(offsetof(qrt_gpu_sample, frequency));
  const Val first = row.chunk * row.l.chunk;
  const Val ids = MinU(b.I32(row.l.chunk), b.I32(row.l.vocab) - first);
  b.For(b.I32(0), count, b.I32(kThreads), [&](Val i) {
    const Val index = i + row.thread;
    b.If(LtU(index, count), [&] {
      const Val at = (begin + index) * sizeof(qrt_gpu_penalty);
      const Val token = b.Load(Type::kI32, b.Arg(kPenalties), at);
      b.If(LtU(token - first, ids), [&] {
        const Val key = KeyOfLogit(row.Logit(token));
        const Val times = b.Load(Type::kI32, b.Arg(kPenalties), at + offsetof(qrt_gpu_penalty, count));
        b.If(IsFiniteKey(key), [&] {
          const Val off = presence + frequency * b.ExtendU(times);
          row.SetKey(token, PenalizedKey(key, repeat, repeat_inverse, off));
        });
      });
    });
  });
}

void EmitKeys(Builder& b, const Layout& l) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) {
    // The sums of the digits start at 0.
    const int words = static_cast<int>((l.sums - l.counts) / 4);
    b.For(b.I32(0), b.I32(words), b.I32(l.chunks * kThreads), [&](Val i) {
      const Val word = i + row.chunk * kThreads + row.thread;
      b.If(LtU(word, b.I32(words)), [&] { b.Store(row.Scratch(l.counts), word * 4, b.I32(0)); });
    });
    const std::vector<Val> plain =
        row.ForIds({b.I32(0)}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
          const Val key = KeyOfLogit(row.Logit(id));
          row.SetKey(id, key);
          return {MaxU(now[0], key)};
        });
    const Val count = row.Option(Type::kI32, offsetof(qrt_gpu_sample, penalty_count));
    const std::vector<Val> mine = When(b, Ne(count, b.I32(0)), plain, [&]() -> std::vector<Val> {
      b.Barrier();
      Penalize(row, count);
      b.Barrier();
      return {HighestOfChunk(row)};
    });
    WideCollective collective(b);
    const Val highest = b.Truncate(collective.Max(b.ExtendU(mine[0])));
    b.If(Eq(row.thread, 0), [&] { b.Store(row.Scratch(l.maxima), row.chunk * 4, highest); });
  });
}

// ---- digits ----

struct Choice {
  Val digit;   // the one where the sum over it and those above reaches what is needed
  Val needed;  // of it
};

// `load`: the sum of a bin. `needed` gets the total of all and says what is needed: 1 to the total.
Choice ChooseDigit(Builder& b, const Digit& digit, const std::function<Val(Val bin)>& load,
                   const std::function<Val(Val total)>& needed) {
  const int per_thread = digit.bins() / kThreads;
  const Val top = b.I32(digit.bins() - 1) - b.Thread() * per_thread;
  const Val low = b.I32(0), high = b.I32(per_thread), step = b.I32(1);
  const Val sum = b.For(low, high, step, {b.I64(0)}, [&](Val j, const std::vector<Val>& now) {
    return std::vector<Val>{now[0] + load(top - j)};
  })[0];
  WideCollective collective(b);
  const WideCollective::Sums sums = collective.Scan(sum);
  const Val wanted = needed(sums.total);
  const Shared chosen = b.AllocShared(Type::kI32, 1);
  const SharedWide chosen_needed(b, 1);
  const Val here = And(b.Compare(Builder::Cmp::kLtU, sums.before, wanted), LeU(wanted, sums.before + sum));
  b.If(here, [&] {
    const std::vector<Val> found =
        b.For(low, high, step, {sums.before, top, wanted}, [&](Val j, const std::vector<Val>& now) {
          // Bins follow until the sum reaches what is wanted; the last that begins below it is the one.
          const Val begins_below = LtU(now[0], wanted);
          return std::vector<Val>{now[0] + load(top - j), Select(begins_below, top - j, now[1]),
                                  Select(begins_below, wanted - now[0], now[2])};
        });
    b.StoreShared(chosen, b.I32(0), found[1]);
    chosen_needed.Store(b.I32(0), found[2]);
  });
  b.Barrier();
  return {Uniform(b, chosen, 0), chosen_needed.Load(b.I32(0))};
}

int64_t CountsAt(const Layout& l, int digit) {
  int64_t at = l.counts;
  for (int i = 0; i < digit; ++i) at += int64_t{4} * kCount[i].bins();
  return at;
}
int64_t MassesAt(const Layout& l, int digit) {
  int64_t at = l.masses;
  for (int i = 0; i < digit; ++i) at += int64_t{8} * kMass[i].bins();
  return at;
}

Choice ChooseCount(Row& row, int digit, Val needed) {
  Builder& b = row.b;
  return ChooseDigit(
      b, kCount[digit],
      [&](Val bin) { return b.ExtendU(b.Load(Type::kI32, row.Scratch(CountsAt(row.l, digit)), bin * 4)); },
      // Of fewer tokens, all are kept.
      [&](Val total) { return digit == 0 ? MinU(needed, total) : needed; });
}

Choice ChooseMass(Row& row, int digit, Val needed) {
  Builder& b = row.b;
  return ChooseDigit(
      b, kMass[digit],
      [&](Val bin) { return b.Load(Type::kI64, row.Scratch(MassesAt(row.l, digit)), bin * 8); },
      [&](Val total) {
        if (digit != 0) return needed;
        return MaxU(b.MulHighU(total, row.Number(offsetof(qrt_gpu_sample, top_p))), b.I64(1));
      });
}

Val WithDigit(Val prefix, Val found, const Digit& digit) {
  return prefix | (found << digit.shift);
}

Val BinOf(Val key, const Digit& digit) {
  return ShrU(key, digit.shift) & (digit.bins() - 1);
}

void Clear(Builder& b, const Shared& words) {
  b.For(b.I32(0), b.I32(words.words), b.I32(kThreads),
        [&](Val i) { b.StoreShared(words, i + b.Thread(), b.I32(0)); });
  b.Barrier();
}

void EmitCount(Builder& b, const Layout& l, int digit) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) {
    Val highest, prefix = b.I32(0), needed;
    if (digit == 0) {
      const std::vector<Val> mine = When(
          b, LtU(row.thread, b.I32(l.chunks)), {b.I32(0)},
          [&]() -> std::vector<Val> { return {b.Load(Type::kI32, row.Scratch(l.maxima), row.thread * 4)}; });
      WideCollective collective(b);
      highest = b.Truncate(collective.Max(b.ExtendU(mine[0])));
      needed = b.ExtendU(row.Option(Type::kI32, offsetof(qrt_gpu_sample, top_k)));
    } else {
      highest = row.NoteWord(digit - 1, kHighest);
    }
    const Val active = And(row.LimitsCount(), IsFiniteKey(highest));
    if (digit != 0) {
      const std::vector<Val> found = When(b, active, {prefix, b.I64(0)}, [&]() -> std::vector<Val> {
        const Choice choice = ChooseCount(row, digit - 1, row.NoteNeeded(digit - 1));
        return {WithDigit(row.NoteWord(digit - 1, kPrefix), choice.digit, kCount[digit - 1]), choice.needed};
      });
      prefix = found[0];
      needed = found[1];
    }
    row.Note(digit, prefix, needed, b.I32(0), b.I32(0), highest);
    b.If(active, [&] {
      const Digit& d = kCount[digit];
      const Shared counts = b.AllocShared(Type::kI32, d.bins());
      Clear(b, counts);
      row.ForIds({}, [&](Val id, const std::vector<Val>& none) {
        const Val key = row.Key(id);
        b.If(And(Ne(key, b.I32(kExcludedKey)), Eq(key & d.above(), prefix)),
             [&] { b.AtomicAddShared(counts, BinOf(key, d), b.I32(1)); });
        return none;
      });
      b.Barrier();
      b.For(b.I32(0), b.I32(d.bins()), b.I32(kThreads), [&](Val i) {
        const Val bin = i + row.thread;
        const Val count = b.LoadShared(counts, bin);
        b.If(Ne(count, b.I32(0)), [&] { b.AtomicAdd(row.Scratch(CountsAt(l, digit)), bin * 4, count); });
      });
    });
  });
}

// Adds 64 bits in two halves, in any order: `add` adds 32 bits somewhere and returns the old ones, so each
// overflow of the lower half is seen by the one who causes it.
void AddWide(Builder& b, Val value, const std::function<Val(int half, Val)>& add) {
  const Val low = b.Truncate(value), high = b.Truncate(ShrU(value, 32));
  const Val old = add(0, low);
  const Val carried = high + Select(LtU(old + low, low), b.I32(1), b.I32(0));
  b.If(Ne(carried, b.I32(0)), [&] { add(1, carried); });
}

void EmitMass(Builder& b, const Layout& l, int digit) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) {
    const int stage = kCountDigits + digit, before = stage - 1;
    const Val highest = row.NoteWord(before, kHighest);
    const Val finite = IsFiniteKey(highest);
    Val prefix = b.I32(0), needed = b.I64(0), front_key, front_ties;
    if (digit == 0) {
      // Without top-k the front is all: keys above that of -infinity.
      const std::vector<Val> none = {b.I32(kExcludedKey), b.I32(0)};
      const std::vector<Val> front = When(b, And(row.LimitsCount(), finite), none, [&]() -> std::vector<Val> {
        const Choice choice = ChooseCount(row, kCountDigits - 1, row.NoteNeeded(before));
        return {WithDigit(row.NoteWord(before, kPrefix), choice.digit, kCount[kCountDigits - 1]),
                b.Truncate(choice.needed)};
      });
      front_key = front[0];
      front_ties = front[1];
    } else {
      front_key = row.NoteWord(before, kFrontKey);
      front_ties = row.NoteWord(before, kFrontTies);
    }
    const Val active = And(row.LimitsMass(), finite);
    if (digit != 0) {
      const std::vector<Val> found = When(b, active, {prefix, needed}, [&]() -> std::vector<Val> {
        const Choice choice = ChooseMass(row, digit - 1, row.NoteNeeded(before));
        return {WithDigit(row.NoteWord(before, kPrefix), choice.digit, kMass[digit - 1]), choice.needed};
      });
      prefix = found[0];
      needed = found[1];
    }
    row.Note(stage, prefix, needed, front_key, front_ties, highest);
    b.If(active, [&] {
      const Digit& d = kMass[digit];
      const Shared masses = b.AllocShared(Type::kI32, d.bins() * 2 * kCopies);
      Clear(b, masses);
      const Val top = FixedOfKey(highest), copy = row.thread & (kCopies - 1);
      const auto add = [&](Val key, const std::function<Val(Val)>& times) {
        const Val weight = times(WeightOf(top - FixedOfKey(key), b.I64(QRT_SAMPLING_LOG2E)));
        const Val at = BinOf(key, d) * (2 * kCopies) + copy;
        AddWide(b, weight,
                [&](int half, Val v) { return b.AtomicAddShared(masses, at + half * kCopies, v); });
      };
      const auto has_prefix = [&](Val key) { return Eq(key & d.above(), prefix); };
      row.ForIds({}, [&](Val id, const std::vector<Val>& none) {
        const Val key = row.Key(id);
        b.If(And(LtU(front_key, key), has_prefix(key)), [&] { add(key, [](Val w) { return w; }); });
        return none;
      });
      // Those at the end of top-k's front have equal weights: once for all chunks.
      b.If(And(Eq(row.chunk | row.thread, 0), And(Ne(front_ties, b.I32(0)), has_prefix(front_key))),
           [&] { add(front_key, [&](Val w) { return w * b.ExtendU(front_ties); }); });
      b.Barrier();
      b.For(b.I32(0), b.I32(d.bins()), b.I32(kThreads), [&](Val i) {
        const Val bin = i + row.thread;
        Val sum = b.I64(0);
        for (int c = 0; c < kCopies; ++c) {
          const Val at = bin * (2 * kCopies) + c;
          sum = sum +
                (b.ExtendU(b.LoadShared(masses, at)) | (b.ExtendU(b.LoadShared(masses, at + kCopies)) << 32));
        }
        b.If(Ne(sum, b.I64(0)), [&] {
          AddWide(b, sum, [&](int half, Val v) {
            return b.AtomicAdd(row.Scratch(MassesAt(l, digit)), bin * 8 + half * 4, v);
          });
        });
      });
    });
  });
}

// ---- the draw ----

// Tokens that stay: with keys above `key`, and the first `ties` of those with it; none further than
// max_distance from the highest.
struct Front {
  Val key, ties;
  Val top, max_distance, scale;
};

Front FrontOf(Row& row, Val key, Val ties, Val highest) {
  return {key, ties, FixedOfKey(highest), row.Number(offsetof(qrt_gpu_sample, max_distance)),
          row.Number(offsetof(qrt_gpu_sample, scale))};
}

Val WeightAbove(Builder& b, const Front& front, Val key) {
  const Val distance = front.top - FixedOfKey(key);
  return When(b, And(LtU(front.key, key), b.Compare(Builder::Cmp::kLeS, distance, front.max_distance)),
              {b.I64(0)}, [&]() -> std::vector<Val> { return {WeightOf(distance, front.scale)}; })[0];
}

void EmitSum(Builder& b, const Layout& l) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) {
    const int stage = kNotes - 1, before = stage - 1;
    const Val highest = row.NoteWord(before, kHighest);
    b.If(IsFiniteKey(highest), [&] {
      const Val top = FixedOfKey(highest);
      const std::vector<Val> counted = {row.NoteWord(before, kFrontKey), row.NoteWord(before, kFrontTies)};
      const std::vector<Val> last = When(b, row.LimitsMass(), counted, [&]() -> std::vector<Val> {
        const Choice choice = ChooseMass(row, kMassDigits - 1, row.NoteNeeded(before));
        const Val key = WithDigit(row.NoteWord(before, kPrefix), choice.digit, kMass[kMassDigits - 1]);
        // That digit weighs what is needed or more, so this is not 0.
        const Val weight = WeightOf(top - FixedOfKey(key), b.I64(QRT_SAMPLING_LOG2E));
        const Val ties = b.Binary(Builder::Op::kDivU, choice.needed + weight - 1, weight);
        return {key, b.Truncate(ties)};
      });
      const Val distance = top - FixedOfKey(last[0]);
      const Val max_distance = row.Number(offsetof(qrt_gpu_sample, max_distance));
      const Val near = b.Compare(Builder::Cmp::kLeS, distance, max_distance);
      const Val ties = Select(near, last[1], b.I32(0));
      row.Note(stage, last[0], b.I64(0), b.I32(0), ties, highest);

      const Front front = FrontOf(row, last[0], ties, highest);
      const std::vector<Val> mine =
          row.ForIds({b.I64(0), b.I32(0)}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
            const Val key = row.Key(id);
            return {now[0] + WeightAbove(b, front, key),
                    now[1] + Select(Eq(key, front.key), b.I32(1), b.I32(0))};
          });
      WideCollective collective(b);
      const Val sum = collective.Scan(mine[0]).total;
      const Val equal = b.Truncate(collective.Scan(b.ExtendU(mine[1])).total);
      b.If(Eq(row.thread, 0), [&] {
        b.Store(row.Scratch(l.sums), row.chunk * 8, sum);
        b.Store(row.Scratch(l.ties), row.chunk * 4, equal);
      });
    });
  });
}

struct Place {
  Val thread;  // whose part it falls into
  Val left;    // beyond that part's begin
  Val ties;    // that may still be kept there
};

// Each thread stands for a part of the row, in order: `sum` is the weight above the front's key, `equal` the
// tokens with that key, of which the first `ties` of all count with `tie_weight` each. `target` gets the
// total weight.
Place Find(Builder& b, WideCollective& collective, Val sum, Val equal, Val ties, Val tie_weight,
           const std::function<Val(Val total)>& target) {
  const Val equal_before = collective.Scan(b.ExtendU(equal)).before;
  const Val all = b.ExtendU(ties);
  const Val ties_left = all - MinU(equal_before, all);
  const Val weight = sum + MinU(b.ExtendU(equal), ties_left) * tie_weight;
  const WideCollective::Sums sums = collective.Scan(weight);
  const Val wanted = target(sums.total);
  const Shared words = b.AllocShared(Type::kI32, 2);
  const SharedWide left(b, 1);
  b.If(And(LeU(sums.before, wanted), LtU(wanted, sums.before + weight)), [&] {
    b.StoreShared(words, b.I32(0), b.Thread());
    b.StoreShared(words, b.I32(1), b.Truncate(ties_left));
    left.Store(b.I32(0), wanted - sums.before);
  });
  b.Barrier();
  return {Uniform(b, words, 0), left.Load(b.I32(0)), Uniform(b, words, 1)};
}

// Writes the token of the chosen chunk's chosen thread.
void Choose(Row& row, WideCollective& collective, const Front& front, Val tie_weight, const Place& chunk) {
  Builder& b = row.b;
  const int part = row.l.chunk / kThreads;
  const Val first = chunk.thread * row.l.chunk + row.thread * part;
  const Val end = MinU(first + part, b.I32(row.l.vocab));
  const auto for_ids = [&](const std::vector<Val>& carried,
                           const std::function<std::vector<Val>(Val, const std::vector<Val>&)>& body) {
    return b.For(b.I32(0), b.I32(part), b.I32(1), carried, [&](Val i, const std::vector<Val>& now) {
      return When(b, LtU(first + i, end), now, [&] { return body(first + i, now); });
    });
  };
  const std::vector<Val> mine =
      for_ids({b.I64(0), b.I32(0)}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
        const Val key = row.Key(id);
        return {now[0] + WeightAbove(b, front, key), now[1] + Select(Eq(key, front.key), b.I32(1), b.I32(0))};
      });
  const Place place =
      Find(b, collective, mine[0], mine[1], chunk.ties, tie_weight, [&](Val) { return chunk.left; });
  b.If(Eq(row.thread, place.thread), [&] {
    // What is left, ties that may be kept, and the token: the first whose weight is more than what is left.
    const std::vector<Val> found = for_ids(
        {place.left, place.ties, b.I32(-1)}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
          const Val key = row.Key(id);
          const Val equal = And(Eq(key, front.key), Ne(now[1], b.I32(0)));
          const Val weight = Select(equal, tie_weight, WeightAbove(b, front, key));
          const Val here = And(LtU(now[0], weight), Eq(now[2], b.I32(-1)));
          return {now[0] - weight, Select(equal, now[1] - 1, now[1]), Select(here, id, now[2])};
        });
    row.Result(found[2]);
  });
}

void EmitToken(Builder& b, const Layout& l) {
  ForRow(b, l, b.BlockX(), b.I32(0), [&](Row& row) {
    const int stage = kNotes - 1;
    // The last search's note, which is written whatever the logits are.
    const Val highest = row.NoteWord(stage - 1, kHighest);
    b.If(And(Eq(row.thread, 0), Eq(highest, kBadKey)), [&] { row.Result(b.I32(QRT_GPU_SAMPLE_BAD_LOGIT)); });
    b.If(And(Eq(row.thread, 0), Eq(highest, kExcludedKey)),
         [&] { row.Result(b.I32(QRT_GPU_SAMPLE_NO_TOKEN)); });
    b.If(IsFiniteKey(highest), [&] {
      const Front front =
          FrontOf(row, row.NoteWord(stage, kPrefix), row.NoteWord(stage, kFrontTies), highest);
      const Val tie_weight = WeightOf(front.top - FixedOfKey(front.key), front.scale);
      const std::vector<Val> mine =
          When(b, LtU(row.thread, b.I32(l.chunks)), {b.I64(0), b.I32(0)}, [&]() -> std::vector<Val> {
            return {b.Load(Type::kI64, row.Scratch(l.sums), row.thread * 8),
                    b.Load(Type::kI32, row.Scratch(l.ties), row.thread * 4)};
          });
      WideCollective collective(b);
      const Place chunk = Find(b, collective, mine[0], mine[1], front.ties, tie_weight, [&](Val total) {
        return b.MulHighU(total, row.Number(offsetof(qrt_gpu_sample, random)));
      });
      Choose(row, collective, front, tie_weight, chunk);
    });
  });
}

}  // namespace

std::vector<Launch> ExpandDraw(int64_t rows, int64_t vocab, Expansion& expansion, uint64_t* scratch_bytes) {
  const Layout layout = LayoutOf(vocab, expansion.logits_stride());
  const uint64_t n = static_cast<uint64_t>(rows), columns = static_cast<uint64_t>(vocab);
  const uint64_t logits_bytes = ((n - 1) * static_cast<uint64_t>(layout.stride) + columns) * 4;
  *scratch_bytes = n * static_cast<uint64_t>(layout.bytes);
  const std::string suffix = ".v" + std::to_string(vocab) + ".s" + std::to_string(layout.stride);

  std::vector<Launch> launches;
  const auto add = [&](const std::string& name, const std::function<void(Builder&, const Layout&)>& emit) {
    Launch launch;
    launch.name = "sample.draw." + name + suffix;
    launch.emit = [layout, emit](Builder& b) { emit(b, layout); };
    launch.workgroup_size = kThreads;
    launch.grid[0] = static_cast<uint32_t>(layout.chunks);
    launch.grid[1] = static_cast<uint32_t>(rows);
    launch.args = {StepArg(expansion),
                   StepSamplesArg(expansion),
                   StepPenaltiesArg(expansion),
                   {Space::kLogits, 0, logits_bytes},
                   {Space::kScratch, 0, *scratch_bytes},
                   {Space::kResults, 0, n * 4}};
    launch.barrier = true;
    launch.read_bytes = n * columns * 4;
    launches.push_back(std::move(launch));
  };
  add("keys", EmitKeys);
  launches.back().write_bytes = n * columns * 4;
  for (int i = 0; i < kCountDigits; ++i) {
    add("count" + std::to_string(i), [i](Builder& b, const Layout& l) { EmitCount(b, l, i); });
  }
  for (int i = 0; i < kMassDigits; ++i) {
    add("mass" + std::to_string(i), [i](Builder& b, const Layout& l) { EmitMass(b, l, i); });
  }
  add("sum", EmitSum);
  add("token", EmitToken);
  Launch& token = launches.back();
  token.grid[0] = static_cast<uint32_t>(rows);
  token.grid[1] = 1;
  token.read_bytes = n * static_cast<uint64_t>(layout.chunk) * 4;
  token.write_bytes = n * 4;
  return launches;
}

}  // namespace qcc::gpu
