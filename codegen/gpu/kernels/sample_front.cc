#include "codegen/gpu/kernels/sample_front.h"

namespace qcc::gpu::sample {
namespace {

// Copies of the sums of weights in workgroup memory: most tokens have the same few highest digits.
constexpr int kCopies = 4;

// ---- keys ----

Val HighestOfChunk(Row& row) {
  Builder& b = row.b;
  return row.ForIds({b.I32(0)}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
    return {MaxU(now[0], row.Key(id))};
  })[0];
}

// Keys of this thread's tokens, before the penalties; their range.
KeyRange MakeKeys(Row& row) {
  Builder& b = row.b;
  const KeyRange none = NoKeys(b);
  const std::vector<Val> all =
      row.ForIds({none.lowest, none.highest}, [&](Val id, const std::vector<Val>& now) -> std::vector<Val> {
        const Val key = row.KeyOfToken(id);
        row.SetKey(id, key);
        const KeyRange range = WithToken(row, {now[0], now[1]}, id, key);
        return {range.lowest, range.highest};
      });
  return {all[0], all[1]};
}

}  // namespace

KeyRange WithToken(Row& row, const KeyRange& range, Val id, Val key) {
  if (!row.l.some) return With(range, key);
  return WithIf(IsChoosable(row.b.Arg(kChoosable), id), range, key);
}

void Penalize(Row& row, Val count) {
  Builder& b = row.b;
  const Val penalties = StepPenalties(b.Arg(kPenalties));
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
      const Val token = b.Load(Type::kI32, penalties, at);
      b.If(LtU(token - first, ids), [&] {
        const Val key = row.KeyOfToken(token);
        const Val times = b.Load(Type::kI32, penalties, at + offsetof(qrt_gpu_penalty, count));
        b.If(IsFiniteKey(key), [&] {
          const Val off = presence + frequency * b.ExtendU(times);
          row.SetKey(token, PenalizedKey(key, repeat, repeat_inverse, off));
        });
      });
    });
  });
}

namespace {

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
  return {b.LoadShared(chosen, b.I32(0)), chosen_needed.Load(b.I32(0))};
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

// Adds 64 bits in two halves, in any order: `add` adds 32 bits somewhere and returns the old ones, so each
// overflow of the lower half is seen by the one who causes it.
void AddWide(Builder& b, Val value, const std::function<Val(int half, Val)>& add) {
  const Val low = b.Truncate(value), high = b.Truncate(ShrU(value, 32));
  const Val old = add(0, low);
  const Val carried = high + Select(LtU(old + low, low), b.I32(1), b.I32(0));
  b.If(Ne(carried, b.I32(0)), [&] { add(1, carried); });
}

}  // namespace

void EmitKeys(Builder& b, const Layout& l) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) {
    // The sums of the digits start at 0.
    const int words = static_cast<int>((l.sums - l.counts) / 4);
    b.For(b.I32(0), b.I32(words), b.I32(l.chunks * kThreads), [&](Val i) {
      const Val word = i + row.chunk * kThreads + row.thread;
      b.If(LtU(word, b.I32(words)), [&] { b.Store(row.Scratch(l.counts), word * 4, b.I32(0)); });
    });
    const KeyRange keys = MakeKeys(row);
    WideCollective collective(b);
    const KeyRange range = collective.Range(keys);
    const std::vector<Val> plain = {keys.highest};
    const Val count = row.Option(Type::kI32, offsetof(qrt_gpu_sample, penalty_count));
    const std::vector<Val> mine = When(b, Ne(count, b.I32(0)), plain, [&]() -> std::vector<Val> {
      b.Barrier();
      Penalize(row, count);
      b.Barrier();
      return {HighestOfChunk(row)};
    });
    const Val highest = b.Truncate(collective.Max(b.ExtendU(mine[0])));
    b.If(Eq(row.thread, 0), [&] { b.Store(row.Scratch(l.maxima), row.chunk * 4, highest); });
    NoteRange(row, range);
  });
}

namespace {

// The tokens of the chunk with the keys that begin with `prefix`, by digit.
void CountDigit(Row& row, int digit, Val prefix) {
  Builder& b = row.b;
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
    b.If(Ne(count, b.I32(0)), [&] { b.AtomicAdd(row.Scratch(CountsAt(row.l, digit)), bin * 4, count); });
  });
}

void CountRow(Row& row, int digit) {
  Builder& b = row.b;
  Val highest, prefix = b.I32(0), needed;
  if (digit == 0) {
    const std::vector<Val> mine =
        When(b, LtU(row.thread, b.I32(row.l.chunks)), {b.I32(0)}, [&]() -> std::vector<Val> {
          return {b.Load(Type::kI32, row.Scratch(row.l.maxima), row.thread * 4)};
        });
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
  b.If(active, [&] { CountDigit(row, digit, prefix); });
}

// Top-k's front: the keys above `key`, and `ties` of those with it.
struct CountFront {
  Val key, ties;
};

CountFront FrontOfCount(Row& row, int digit, Val finite) {
  Builder& b = row.b;
  const int before = kCountDigits + digit - 1;
  if (digit != 0) {
    const Val key = row.NoteWord(before, kFrontKey);
    return {key, row.NoteWord(before, kFrontTies)};
  }
  // Without top-k the front is all: keys above that of -infinity.
  const std::vector<Val> none = {b.I32(kExcludedKey), b.I32(0)};
  const std::vector<Val> front = When(b, And(row.LimitsCount(), finite), none, [&]() -> std::vector<Val> {
    const Choice choice = ChooseCount(row, kCountDigits - 1, row.NoteNeeded(before));
    return {WithDigit(row.NoteWord(before, kPrefix), choice.digit, kCount[kCountDigits - 1]),
            b.Truncate(choice.needed)};
  });
  return {front[0], front[1]};
}

// The weights of top-k's front with the keys that begin with `prefix`, by digit.
class MassDigit {
 public:
  MassDigit(Row& row, int digit, Val prefix, Val highest)
      : b_(row.b), row_(row), digit_(digit), prefix_(prefix) {
    Clear(b_, masses_);
    top_ = FixedOfKey(highest);
    copy_ = row.thread & (kCopies - 1);
  }

  void Sum(const CountFront& front) {
    row_.ForIds({}, [&](Val id, const std::vector<Val>& none) {
      const Val key = row_.Key(id);
      b_.If(And(LtU(front.key, key), HasPrefix(key)), [&] { Add(key, Val()); });
      return none;
    });
    // Those at the end of top-k's front have equal weights: once for all chunks.
    b_.If(And(Eq(row_.chunk | row_.thread, 0), And(Ne(front.ties, b_.I32(0)), HasPrefix(front.key))),
          [&] { Add(front.key, front.ties); });
    b_.Barrier();
    b_.For(b_.I32(0), b_.I32(d_.bins()), b_.I32(kThreads), [&](Val i) { Publish(i + row_.thread); });
  }

 private:
  Val HasPrefix(Val key) const { return Eq(key & d_.above(), prefix_); }
  // `times` the token's weight; null: once.
  void Add(Val key, Val times) {
    const Val once = WeightOf(top_ - FixedOfKey(key), b_.I64(QRT_SAMPLING_LOG2E));
    const Val weight = times ? once * b_.ExtendU(times) : once;
    const Val at = BinOf(key, d_) * (2 * kCopies) + copy_;
    AddWide(b_, weight, [&](int half, Val v) { return b_.AtomicAddShared(masses_, at + half * kCopies, v); });
  }
  void Publish(Val bin) {
    Val sum = b_.I64(0);
    for (int c = 0; c < kCopies; ++c) {
      const Val at = bin * (2 * kCopies) + c;
      sum = sum + (b_.ExtendU(b_.LoadShared(masses_, at)) |
                   (b_.ExtendU(b_.LoadShared(masses_, at + kCopies)) << 32));
    }
    b_.If(Ne(sum, b_.I64(0)), [&] {
      AddWide(b_, sum, [&](int half, Val v) {
        return b_.AtomicAdd(row_.Scratch(MassesAt(row_.l, digit_)), bin * 8 + half * 4, v);
      });
    });
  }

  Builder& b_;
  Row& row_;
  const int digit_;
  const Val prefix_;
  const Digit& d_ = kMass[digit_];
  const Shared masses_ = b_.AllocShared(Type::kI32, d_.bins() * 2 * kCopies);
  Val top_, copy_;
};

void MassRow(Row& row, int digit) {
  Builder& b = row.b;
  const int stage = kCountDigits + digit, before = stage - 1;
  const Val highest = row.NoteWord(before, kHighest);
  const Val finite = IsFiniteKey(highest);
  Val prefix = b.I32(0), needed = b.I64(0);
  const CountFront front = FrontOfCount(row, digit, finite);
  const Val active = And(row.LimitsMass(), finite);
  if (digit != 0) {
    const std::vector<Val> found = When(b, active, {prefix, needed}, [&]() -> std::vector<Val> {
      const Choice choice = ChooseMass(row, digit - 1, row.NoteNeeded(before));
      return {WithDigit(row.NoteWord(before, kPrefix), choice.digit, kMass[digit - 1]), choice.needed};
    });
    prefix = found[0];
    needed = found[1];
  }
  row.Note(stage, prefix, needed, front.key, front.ties, highest);
  b.If(active, [&] { MassDigit(row, digit, prefix, highest).Sum(front); });
}

}  // namespace

void EmitCount(Builder& b, const Layout& l, int digit) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) { CountRow(row, digit); });
}

void EmitMass(Builder& b, const Layout& l, int digit) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) { MassRow(row, digit); });
}

FrontEnd EndOfFront(Row& row, Val highest) {
  Builder& b = row.b;
  const int before = kCountDigits + kMassDigits - 1;
  const std::vector<Val> counted = {row.NoteWord(before, kFrontKey), row.NoteWord(before, kFrontTies)};
  const std::vector<Val> end = When(b, row.LimitsMass(), counted, [&]() -> std::vector<Val> {
    const Choice choice = ChooseMass(row, kMassDigits - 1, row.NoteNeeded(before));
    const Val key = WithDigit(row.NoteWord(before, kPrefix), choice.digit, kMass[kMassDigits - 1]);
    // That digit weighs what is needed or more, so this is not 0.
    const Val weight = WeightOf(FixedOfKey(highest) - FixedOfKey(key), b.I64(QRT_SAMPLING_LOG2E));
    const Val ties = b.Binary(Builder::Op::kDivU, choice.needed + weight - 1, weight);
    return {key, b.Truncate(ties)};
  });
  return {end[0], end[1]};
}

}  // namespace qcc::gpu::sample
