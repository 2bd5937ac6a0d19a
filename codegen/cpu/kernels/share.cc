// How the threads of a step share the items of a dispatch.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/vec.h"

namespace qk {
namespace {

// Items that one thread is given at a time: few enough that the last ones to finish are soon done, even, as
// some kernels take items in pairs.
QK_INLINE int64_t piece_of(int64_t items, int64_t threads) {
  const int64_t piece = items / (16 * threads);
  return piece < 2 ? 1 : (piece + 1) & ~int64_t{1};
}

}  // namespace
}  // namespace qk

QK_EXPORT int64_t qk_share(const qrt_step_args* args, int64_t thread, int64_t threads, int64_t ticket,
                           int64_t items, int64_t round, int64_t* range) {
  // Three quarters are shared out evenly, which each thread reads in one run. The rest goes to whoever comes
  // first: on machines that others use, or whose cores differ, equal shares take unequal time (two threads of
  // a shared Zen 4 waited for each other up to a fifth of a kernel's time).
  const int64_t each = ticket < 0 || threads == 1 ? 0 : (items * 3 / (4 * threads)) & ~int64_t{1};
  if (each == 0) {
    range[0] = items * thread / threads;
    range[1] = items * (thread + 1) / threads;
    return round == 0;
  }
  if (round == 0) {
    range[0] = each * thread;
    range[1] = each * (thread + 1);
    return 1;
  }
  const int64_t piece = qk::piece_of(items, threads);
  const uint32_t taken = __atomic_fetch_add(&args->barrier->tickets[ticket], 1, __ATOMIC_RELAXED);
  range[0] = each * threads + taken * piece;
  range[1] = range[0] + piece < items ? range[0] + piece : items;
  return range[0] < items;
}
