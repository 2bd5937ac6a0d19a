// A draw from the few tokens that top-k keeps (sample_row.h says what a draw is), in two launches:
//   chunks   keys, as the long form makes them; of each chunk the first top_k tokens in the order
//   token    one workgroup per row: the first top_k tokens of all chunks', among which are the row's; what
//            top-p and min-p keep of them, and the token that the random number hits
// A token is one number (Ranked), so the order is that of numbers, no two of which are equal. What comes
// first of many: a bound is found, the top_k-th of the threads' own first, and whatever is not behind it is
// ranked by counting what comes before it. Mostly that is little more than top_k tokens.
#include <string>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/sample_front.h"

namespace qcc::gpu {
namespace sample {
namespace {

constexpr int kFew = QRT_GPU_FEW_TOKENS;
// Of a thread in its chunk. At most top_k threads have tokens that are not behind the bound, so this bounds
// workgroup memory.
constexpr int kMostPerThread = 20;
// Of a chunk that the second launch takes at once: it goes on only with chunks that have more of the first.
constexpr int kTaken = 8;
static_assert(kFew <= kThreads && kFew % kTaken == 0);

Val TopK(Row& row) {
  return row.Option(Type::kI32, offsetof(qrt_gpu_sample, top_k));
}

// How many of the `count` first words come before the token.
Val Before(Builder& b, const SharedWide& words, Val count, Val ranked) {
  return b.For(b.I32(0), count, b.I32(1), {b.I32(0)}, [&](Val i, const std::vector<Val>& now) {
    return std::vector<Val>{now[0] + Select(LtU(ranked, words.Load(i)), b.I32(1), b.I32(0))};
  })[0];
}

// The top_k-th of the threads' `first` tokens; 0 where fewer have one. The top_k-th of all tokens does not
// come after it.
Val Bound(Builder& b, Val first, Val top_k) {
  const SharedWide firsts(b, kThreads), bound(b, 1);
  firsts.Store(b.Thread(), first);
  b.If(Eq(b.Thread(), 0), [&] { bound.Store(b.I32(0), b.I64(0)); });
  b.Barrier();
  const Val before = Before(b, firsts, b.I32(kThreads), first);
  b.If(And(Eq(before + 1, top_k), Ne(first, b.I64(0))), [&] { bound.Store(b.I32(0), first); });
  b.Barrier();
  return bound.Load(b.I32(0));
}

// Tokens of all threads, in no order.
class Pool {
 public:
  Pool(Builder& b, int words) : b_(b), words_(b, words), count_(b.AllocShared(Type::kI32, 1)) {}

  // The `kept` first words stay. Between barriers.
  void Begin(Val kept) {
    b_.If(Eq(b_.Thread(), 0), [&] { b_.StoreShared(count_, b_.I32(0), kept); });
  }
  void Keep(Val place, Val ranked) { words_.Store(place, ranked); }
  // If it is one, and not behind `bound`.
  void Offer(Val ranked, Val bound) {
    b_.If(And(Ne(ranked, b_.I64(0)), LeU(bound, ranked)),
          [&] { words_.Store(b_.AtomicAddShared(count_, b_.I32(0), b_.I32(1)), ranked); });
  }
  // Behind a barrier.
  Val count() { return b_.LoadShared(count_, b_.I32(0)); }
  // Calls `body` for the first top_k, each in one thread, with their places in the order.
  void ForFirst(Val top_k, const std::function<void(Val place, Val ranked)>& body) {
    const Val n = count();
    b_.For(b_.Thread(), n, b_.I32(kThreads), [&](Val i) {
      const Val ranked = words_.Load(i);
      const Val place = Before(b_, words_, n, ranked);
      b_.If(LtU(place, top_k), [&] { body(place, ranked); });
    });
  }

 private:
  Builder& b_;
  const SharedWide words_;
  const Shared count_;
};

// A chunk's first tokens by place, each beside those of the other chunks.
Val FirstAt(Row& row, Val place, Val chunk) {
  return (place * row.l.chunks + chunk) * 8;
}

// ---- chunks ----

// The tokens of this thread, at most kMostPerThread, without loops: they wait for memory together. Beyond the
// vocabulary its last one is read again, which is in the range of keys anyway and does not count else.
class Tokens {
 public:
  explicit Tokens(Row& row) : row_(row), b_(row.b), range_(NoKeys(row.b)) {
    for (int32_t i = 0; i < row.l.chunk; i += kThreads) {
      const Val id = row.chunk * row.l.chunk + row.thread + i;
      inside_.push_back(LtU(id, b_.I32(row.l.vocab)));
      ids_.push_back(MinU(id, b_.I32(row.l.vocab - 1)));
      keys_.push_back(row.KeyOfToken(ids_.back()));
      range_ = WithToken(row, range_, ids_.back(), keys_.back());
    }
  }

  const KeyRange& range() const { return range_; }

  // Through scratch, since it is other threads that penalize.
  void Penalize(Val count) {
    keys_ = When(b_, Ne(count, b_.I32(0)), keys_, [&] {
      for (size_t i = 0; i < keys_.size(); ++i) {
        b_.If(inside_[i], [&] { row_.SetKey(ids_[i], keys_[i]); });
      }
      b_.Barrier();
      sample::Penalize(row_, count);
      b_.Barrier();
      std::vector<Val> keys;
      keys.reserve(ids_.size());
      for (const Val id : ids_) keys.push_back(row_.Key(id));
      return keys;
    });
  }

  // 0 for those that cannot be chosen.
  std::vector<Val> Ranks() const {
    std::vector<Val> ranks;
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Val counts = And(inside_[i], Ne(keys_[i], b_.I32(kExcludedKey)));
      ranks.push_back(Select(counts, Ranked(keys_[i], ids_[i]), b_.I64(0)));
    }
    return ranks;
  }

 private:
  Row& row_;
  Builder& b_;
  KeyRange range_;
  std::vector<Val> inside_, ids_, keys_;
};

void EmitChunks(Builder& b, const Layout& l) {
  ForRow(b, l, b.BlockY(), b.BlockX(), [&](Row& row) {
    const Val top_k = TopK(row);
    const Val penalties = row.Option(Type::kI32, offsetof(qrt_gpu_sample, penalty_count));
    Tokens tokens(row);
    WideCollective collective(b);
    NoteRange(row, collective.Range(tokens.range()));
    tokens.Penalize(penalties);
    const std::vector<Val> ranks = tokens.Ranks();
    Val first = ranks[0];
    for (const Val ranked : ranks) first = MaxU(first, ranked);

    Pool pool(b, kFew * l.chunk / kThreads);
    pool.Begin(b.I32(0));
    const Val bound = Bound(b, first, top_k);
    for (const Val ranked : ranks) pool.Offer(ranked, bound);
    b.Barrier();
    const Val firsts = row.Scratch(l.firsts);
    pool.ForFirst(top_k,
                  [&](Val place, Val ranked) { b.Store(firsts, FirstAt(row, place, row.chunk), ranked); });
    b.If(And(LeU(pool.count(), row.thread), LtU(row.thread, top_k)),
         [&] { b.Store(firsts, FirstAt(row, row.thread, row.chunk), b.I64(0)); });
  });
}

// ---- token ----

// All that the second launch reads of its row before it knows more: memory is waited for once.
struct Read {
  Val top_k, limits_mass, top_p, max_distance, scale, random;
  std::vector<Val> taken;  // from the first place on
};

// Tokens at kTaken places from `begin` on of the chunk that this thread stands for.
std::vector<Val> TakenOf(Row& row, Val begin, Val top_k) {
  Builder& b = row.b;
  const std::vector<Val> none(kTaken, b.I64(0));
  return When(b, LtU(row.thread, b.I32(row.l.chunks)), none, [&] {
    std::vector<Val> taken;
    for (int i = 0; i < kTaken; ++i) {
      const Val place = begin + i;
      const Val at = FirstAt(row, MinU(place, top_k - 1), row.thread);
      const Val ranked = b.Load(Type::kI64, row.Scratch(row.l.firsts), at);
      taken.push_back(Select(LtU(place, top_k), ranked, b.I64(0)));
    }
    return taken;
  });
}

Read ReadRow(Row& row) {
  Read read;
  read.top_k = TopK(row);
  read.limits_mass = row.LimitsMass();
  read.top_p = row.Number(offsetof(qrt_gpu_sample, top_p));
  read.max_distance = row.Number(offsetof(qrt_gpu_sample, max_distance));
  read.scale = row.Number(offsetof(qrt_gpu_sample, scale));
  read.random = row.Number(offsetof(qrt_gpu_sample, random));
  read.taken = TakenOf(row, row.b.I32(0), read.top_k);
  return read;
}

// The row's first tokens in order, and how many.
struct First {
  SharedWide words;
  Val count;
};

// Finds them in rounds, each over the next places of all chunks. It goes on only while a chunk may have more
// of the first, which is seldom.
class Rounds {
 public:
  Rounds(Row& row, const Read& read) : row_(row), b_(row.b), read_(read) {
    b_.If(Eq(row.thread, 0), [&] { b_.StoreShared(unfinished_, b_.I32(0), b_.I32(0)); });
  }

  First Find() {
    std::vector<Val> begin = {b_.I32(0), b_.I32(0), Bound(b_, read_.taken[0], read_.top_k)};
    begin.insert(begin.end(), read_.taken.begin(), read_.taken.end());
    const std::vector<Val> end =
        b_.For(b_.I32(0), b_.I32(kFew), b_.I32(kTaken), begin, [&](Val place, const std::vector<Val>& now) {
          return When(b_, Eq(now[0], place), now, [&] {
            return Round(place + kTaken, now[1], now[2], {now.begin() + 3, now.end()});
          });
        });
    return {words_, end[1]};
  }

 private:
  // Where the next round begins, if there is one; tokens kept; the last of them if they are top_k, else 0;
  // what the next round takes.
  std::vector<Val> Round(Val next, Val kept, Val bound, const std::vector<Val>& taken) {
    pool_.Begin(kept);
    b_.Barrier();
    for (const Val ranked : taken) pool_.Offer(ranked, bound);
    b_.Barrier();
    pool_.ForFirst(read_.top_k, [&](Val place, Val ranked) { words_.Store(place, ranked); });
    const Val count = MinU(pool_.count(), read_.top_k);
    b_.Barrier();
    b_.If(LtU(row_.thread, count), [&] { pool_.Keep(row_.thread, words_.Load(row_.thread)); });
    const Val last = Select(Eq(count, read_.top_k), words_.Load(count - 1), b_.I64(0));
    b_.If(And(Ne(taken.back(), b_.I64(0)), LeU(last, taken.back())),
          [&] { b_.AtomicMaxSharedU(unfinished_, b_.I32(0), next); });
    b_.Barrier();
    const Val unfinished = b_.LoadShared(unfinished_, b_.I32(0));
    std::vector<Val> now = {unfinished, count, last};
    const std::vector<Val> more =
        When(b_, Eq(unfinished, next), taken, [&] { return TakenOf(row_, next, read_.top_k); });
    now.insert(now.end(), more.begin(), more.end());
    return now;
  }

  Row& row_;
  Builder& b_;
  const Read& read_;
  Pool pool_{b_, kFew + kThreads* kTaken};
  const SharedWide words_{b_, kFew};
  const Shared unfinished_ = b_.AllocShared(Type::kI32, 1);
};

// Writes the token: each thread stands for one of the first, in order.
void Choose(Row& row, WideCollective& collective, const Read& read, const First& first) {
  Builder& b = row.b;
  const Val ranked = first.words.Load(MinU(row.thread, first.count - 1));
  const Val id = IdOfRanked(ranked);
  const Val top = FixedOfKey(KeyOfRanked(first.words.Load(b.I32(0))));
  const Val distance = top - FixedOfKey(KeyOfRanked(ranked));
  Val stays = LtU(row.thread, first.count);
  // Top-p keeps those ahead of which there is less than what it needs.
  const std::vector<Val> mass = When(b, read.limits_mass, {b.I64(0), b.I64(1)}, [&]() -> std::vector<Val> {
    const Val weight = WeightOf(distance, b.I64(QRT_SAMPLING_LOG2E));
    const WideCollective::Sums sums = collective.Scan(Select(stays, weight, b.I64(0)));
    return {sums.before, MaxU(b.MulHighU(sums.total, read.top_p), b.I64(1))};
  });
  stays = And(stays, LtU(mass[0], mass[1]));
  stays = And(stays, b.Compare(Builder::Cmp::kLeS, distance, read.max_distance));
  const Val weight = Select(stays, WeightOf(distance, read.scale), b.I64(0));

  const SharedWide weights(b, kThreads);
  weights.Store(row.thread, weight);
  b.Barrier();
  // The random number goes over the tokens by rising id.
  const std::vector<Val> sums =
      b.For(b.I32(0), first.count, b.I32(1), {b.I64(0), b.I64(0)}, [&](Val i, const std::vector<Val>& now) {
        const Val other = weights.Load(i);
        const Val before = LtU(IdOfRanked(first.words.Load(i)), id);
        return std::vector<Val>{now[0] + Select(before, other, b.I64(0)), now[1] + other};
      });
  const Val wanted = b.MulHighU(sums[1], read.random);
  b.If(And(LeU(sums[0], wanted), LtU(wanted, sums[0] + weight)), [&] { row.Result(id); });
}

void EmitToken(Builder& b, const Layout& l) {
  ForRow(b, l, b.BlockX(), b.I32(0), [&](Row& row) {
    const Read read = ReadRow(row);
    WideCollective collective(b);
    const Val fault = FaultOfRow(row, collective);
    b.If(And(Eq(row.thread, 0), Ne(fault, b.I32(0))), [&] { row.Result(fault); });
    b.If(Eq(fault, 0), [&] { Choose(row, collective, read, Rounds(row, read).Find()); });
  });
}

}  // namespace
}  // namespace sample

std::vector<Launch> ExpandDrawFew(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                                  uint64_t* scratch_bytes) {
  using namespace sample;
  const Layout layout = LayoutOf(vocabulary, expansion.logits_stride());
  if (layout.chunk > kMostPerThread * kThreads) return {};
  std::vector<Launch> launches = LaunchesOf({{"few.chunks", EmitChunks}, {"few.token", EmitToken}}, layout,
                                            rows, vocabulary, expansion, scratch_bytes);
  const uint64_t firsts =
      static_cast<uint64_t>(rows) * static_cast<uint64_t>(layout.chunks) * QRT_GPU_FEW_TOKENS * 8;
  launches[0].write_bytes = launches[1].read_bytes = firsts;
  // A workgroup a row needs no room for more. Left to itself ptxas 13.0 for sm_90 takes 47 registers and
  // spills.
  launches[1].at_once = 4;
  return launches;
}

}  // namespace qcc::gpu
