// How the threads of a step share the items of a dispatch.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/vec.h"

namespace qk {
namespace {

// Some kernels take items in pairs.
QK_INLINE int64_t even(int64_t items) {
  return items & ~int64_t{1};
}

// Pieces at the end of a thread's share that others may take, a bit each: few enough that the last ones to
// finish are soon done.
constexpr int64_t kPieces = QRT_SHARE_PIECES;
constexpr uint32_t kAll = (uint32_t{1} << kPieces) - 1;

// The share of a thread, of which it has the first three quarters for itself.
struct Share {
  int64_t begin, own_end, end;
  QK_INLINE Share of(int64_t items, int64_t thread, int64_t threads) {
    const int64_t begin = even(items * thread / threads);
    const int64_t end = thread + 1 == threads ? items : even(items * (thread + 1) / threads);
    return {begin, begin + even((end - begin) * 3 / 4), end};
  }
  QK_INLINE void piece(const Share& share, int64_t i, int64_t* range) {
    const int64_t rest = share.end - share.own_end;
    range[0] = share.own_end + even(rest * i / kPieces);
    range[1] = i + 1 == kPieces ? share.end : share.own_end + even(rest * (i + 1) / kPieces);
  }
};

// The next piece that nobody has taken: the thread's own, which lie behind what it has read; then others',
// from the last one on. What is taken of a share is said in its thread's line.
QK_INLINE bool take_piece(qrt_barrier* barrier, int64_t ticket, int64_t items, int64_t thread,
                          int64_t threads, int64_t* range) {
  const uint32_t phase = __atomic_load_n(&barrier->phase, __ATOMIC_RELAXED) << kPieces;
  for (int64_t i = 0; i < threads; ++i) {
    const int64_t whose = (thread + i) % threads;
    uint32_t* word = &barrier->taken[whose].pieces[ticket];
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
      const uint32_t taken = seen >> kPieces == phase >> kPieces ? seen & kAll : 0;
      if (taken == kAll) break;
      const uint32_t left = ~taken & kAll;
      const int64_t piece = whose == thread ? __builtin_ctz(left) : 31 - __builtin_clz(left);
      if (!__atomic_compare_exchange_n(word, &seen, phase | taken | uint32_t{1} << piece, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
      Share::piece(Share::of(items, whose, threads), piece, range);
      return true;
    }
  }
  return false;
}

// Of more threads than have lines: the last quarter of all items, a piece after the other.
QK_INLINE bool take_next(uint32_t* ticket, int64_t first, int64_t items, int64_t threads, int64_t* range) {
  const int64_t most = items / (4 * kPieces * threads), piece = most < 2 ? 1 : even(most + 1);
  range[0] = first + __atomic_fetch_add(ticket, 1, __ATOMIC_RELAXED) * piece;
  range[1] = range[0] + piece < items ? range[0] + piece : items;
  return range[0] < items;
}

}  // namespace
}  // namespace qk

// Three quarters are shared out evenly. The rest goes to whoever comes first: on machines that others use, or
// whose cores differ, equal shares take unequal time (two threads of a shared Zen 4 waited for each other up
// to a fifth of a kernel's time). What a thread takes of its own share continues what it reads: a piece from
// elsewhere begins with lines that nobody has asked for (Zen 5, two quiet cores, 0.8b Q4_K_M, a token over
// its LM head: 2.81 times as long; with all pieces from elsewhere 2.87, with even shares alone 2.83).
QK_EXPORT int64_t qk_share(const qrt_step_args* args, int64_t thread, int64_t threads, int64_t ticket,
                           int64_t items, int64_t round, int64_t* range) {
  using namespace qk;
  const int64_t each = ticket < 0 || threads == 1 ? 0 : even(items * 3 / (4 * threads));
  if (each == 0) {
    range[0] = items * thread / threads;
    range[1] = items * (thread + 1) / threads;
    return round == 0;
  }
  if (threads > int64_t{QRT_SHARING_THREADS}) {
    if (round != 0) return take_next(&args->barrier->tickets[ticket], each * threads, items, threads, range);
    range[0] = each * thread;
    range[1] = each * (thread + 1);
    return 1;
  }
  if (round != 0) return take_piece(args->barrier, ticket, items, thread, threads, range);
  const Share share = Share::of(items, thread, threads);
  range[0] = share.begin;
  range[1] = share.own_end;
  return 1;
}
