// The launches of a draw (sample_row.h), and those that choose the token.
#include <string>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/sample_front.h"

namespace qcc::gpu {
namespace sample {
namespace {

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
      const FrontEnd last = EndOfFront(row, highest);
      const Val distance = top - FixedOfKey(last.key);
      const Val max_distance = row.Number(offsetof(qrt_gpu_sample, max_distance));
      const Val near = b.Compare(Builder::Cmp::kLeS, distance, max_distance);
      const Val ties = Select(near, last.ties, b.I32(0));
      row.Note(stage, last.key, b.I64(0), b.I32(0), ties, highest);

      const Front front = FrontOf(row, last.key, ties, highest);
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
  return {b.LoadShared(words, b.I32(0)), left.Load(b.I32(0)), b.LoadShared(words, b.I32(1))};
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
    WideCollective collective(b);
    const Val fault = FaultOfRow(row, collective);
    b.If(And(Eq(row.thread, 0), Ne(fault, b.I32(0))), [&] { row.Result(fault); });
    b.If(Eq(fault, 0), [&] {
      const Front front =
          FrontOf(row, row.NoteWord(stage, kPrefix), row.NoteWord(stage, kFrontTies), highest);
      const Val tie_weight = WeightOf(front.top - FixedOfKey(front.key), front.scale);
      const std::vector<Val> mine =
          When(b, LtU(row.thread, b.I32(l.chunks)), {b.I64(0), b.I32(0)}, [&]() -> std::vector<Val> {
            return {b.Load(Type::kI64, row.Scratch(l.sums), row.thread * 8),
                    b.Load(Type::kI32, row.Scratch(l.ties), row.thread * 4)};
          });
      const Place chunk = Find(b, collective, mine[0], mine[1], front.ties, tie_weight, [&](Val total) {
        return b.MulHighU(total, row.Number(offsetof(qrt_gpu_sample, random)));
      });
      Choose(row, collective, front, tie_weight, chunk);
    });
  });
}

}  // namespace
}  // namespace sample

std::vector<Launch> ExpandDraw(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                               uint64_t* scratch_bytes) {
  using namespace sample;
  const Layout layout = LayoutOf(vocabulary, expansion.logits_stride());
  std::vector<Kernel> kernels = {{"draw.keys", EmitKeys}};
  for (int i = 0; i < kCountDigits; ++i) {
    kernels.push_back(
        {"draw.count" + std::to_string(i), [i](Builder& b, const Layout& l) { EmitCount(b, l, i); }});
  }
  for (int i = 0; i < kMassDigits; ++i) {
    kernels.push_back(
        {"draw.mass" + std::to_string(i), [i](Builder& b, const Layout& l) { EmitMass(b, l, i); }});
  }
  kernels.push_back({"draw.sum", EmitSum});
  kernels.push_back({"draw.token", EmitToken});
  std::vector<Launch> launches = LaunchesOf(kernels, layout, rows, vocabulary, expansion, scratch_bytes);
  launches.front().write_bytes = launches.front().read_bytes;
  launches.back().read_bytes = static_cast<uint64_t>(rows) * static_cast<uint64_t>(layout.chunk) * 4;
  return launches;
}

}  // namespace qcc::gpu
