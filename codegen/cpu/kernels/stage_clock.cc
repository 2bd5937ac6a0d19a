// Where the time of a step goes, where somebody asks.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/vec.h"

QK_EXPORT void qk_end_stage(const qrt_step_args* args, int64_t thread, int64_t stage) {
  if (args->stage_clocks == nullptr) return;
  auto* clock = reinterpret_cast<qrt_stage_clock*>(args->stage_clocks + thread * args->stage_clock_stride);
  const uint64_t now = __builtin_ia32_rdtsc();
  if (stage >= 0) {
    clock->stages[stage].ticks += now - clock->last;
    clock->stages[stage].runs += 1;
  }
  clock->last = now;
}
