/* A toy model as native code: what codegen makes from a real one, small enough to write by hand.
 * Freestanding; linked to a flat blob by qrt_toy_model.ld. Its logits depend on the weights, every token, its
 * position, the state and all of the KV. Greedy sampling from them writes words, an e with an accent now and
 * then, and ends. Programs: decode_1, decode_4, prefill_16, prefill_64, head_8. Vocabulary 272: 0..255 are
 * bytes, 264 ends a turn, behind 1 every logit is NaN. A thread that has another floating-point environment
 * than what a process begins with gives logits of 0. */
#include "runtime/abi/program.h"

enum { kVocab = 272, kStride = 288, kPlanes = 4, kRow = 16, kStateOffset = 1024 };

_Static_assert(QRT_CODE_MAGIC == 0x31434351 && QRT_PROGRAM_ABI == 9, "the header below says so");
__asm__(
    ".section .head, \"a\"\n"
    "toy_header: .long 0x31434351, 9, 5, 64, 2, 0\n"
    ".long toy_decode - toy_header, toy_decode - toy_header, toy_prefill - toy_header, toy_prefill - "
    "toy_header,"
    " toy_head - toy_header\n"
    ".text\n");

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15u);
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}

static void barrier(qrt_barrier* b, uint32_t threads) {
  if (threads == 1) return;
  const uint32_t seen = __atomic_load_n(&b->phase, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == threads) {
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->phase, seen + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&b->sleepers, __ATOMIC_SEQ_CST) != 0) b->wake(b->ctx, &b->phase);
    return;
  }
  for (int i = 0; i < 100; ++i) {
    if (__atomic_load_n(&b->phase, __ATOMIC_ACQUIRE) != seen) return;
  }
  __atomic_add_fetch(&b->sleepers, 1, __ATOMIC_SEQ_CST);
  b->wait(b->ctx, &b->phase, seen);
  __atomic_sub_fetch(&b->sleepers, 1, __ATOMIC_RELAXED);
}

struct row {
  uint64_t hash;
  uint64_t token;
};

/* Two stages, of which decode programs tell: the rows of the trunk, and what waits behind their logits. */
static void end_stage(const qrt_step_args* args, uint32_t thread, int stage) {
  if (args->stage_clocks == 0) return;
  if (args->stage_clock_stride < 128 || (args->stage_clock_stride & 63) != 0) __builtin_trap();
  qrt_stage_clock* clock =
      (qrt_stage_clock*)(args->stage_clocks + (int64_t)thread * args->stage_clock_stride);
  const uint64_t now = __builtin_ia32_rdtsc();
  if (stage >= 0) {
    clock->stages[stage].ticks += now - clock->last;
    clock->stages[stage].runs += 1;
  }
  clock->last = now;
}

static void trunk(const qrt_step_args* args, uint32_t thread, uint32_t threads) {
  struct row* rows = (struct row*)args->arena;
  uint64_t weights = 0;
  for (int i = 0; i < 5000; ++i) weights = weights * 31 + args->weights[i];
  for (int64_t s = thread; s < args->n_seqs; s += threads) {
    const qrt_seq* seq = &args->seqs[s];
    uint64_t* state = (uint64_t*)(seq->state + kStateOffset);
    for (int64_t i = 0; i < seq->row_count; ++i) {
      const int64_t at = seq->past + i;
      const uint64_t token = (uint64_t)args->tokens[seq->row_begin + i];
      *state =
          mix(*state + weights, token * 1000003 + (uint64_t)args->positions[4 * (seq->row_begin + i) + 3]);
      uint64_t sum = *state;
      for (int plane = 0; plane < kPlanes; ++plane) {
        uint8_t* base = seq->kv + (int64_t)plane * kRow * seq->kv_capacity;
        *(uint64_t*)(base + at * kRow) = mix(token, (uint64_t)(at * kPlanes + plane));
        *(uint64_t*)(base + at * kRow + 8) = mix(*state, (uint64_t)plane);
        for (int64_t j = 0; j <= at; ++j) {
          sum += *(uint64_t*)(base + j * kRow) * (uint64_t)(j + 1) ^ *(uint64_t*)(base + j * kRow + 8);
        }
      }
      rows[seq->row_begin + i].hash = sum;
      rows[seq->row_begin + i].token = token;
    }
  }
  /* The scratch is as promised, and what a thread leaves there no other has changed behind a barrier. */
  uint8_t* const own = args->scratch + (int64_t)thread * args->scratch_stride;
  if (((uintptr_t)own & 63) != 0 || args->scratch_stride < 64) __builtin_trap();
  for (int i = 0; i < 64; ++i) ((volatile uint8_t*)own)[i] = (uint8_t)(thread * 17 + (uint32_t)i);
  barrier(args->barrier, threads);
  for (int i = 0; i < 64; ++i) {
    if (((volatile uint8_t*)own)[i] != (uint8_t)(thread * 17 + (uint32_t)i)) __builtin_trap();
  }
}

static float logit(const struct row* row, uint32_t v) {
  const float noise = (float)(mix(row->hash, v) >> 40) / 16777216.0f;
  if (row->token == 0xC3) return v == 0xA9 ? 10 + noise : noise; /* the second byte of an e with an accent */
  if (row->token == 1) return __builtin_nanf("");
  if (v == 264) return row->hash % 23 == 0 ? 20 + noise : noise;
  if (v == 0xC3) return row->hash % 7 == 0 ? 8 + noise : noise;
  return (v >= 'a' && v <= 'z') || v == ' ' ? 4 + noise : noise;
}

__attribute__((used)) void toy_head(const qrt_step_args* args, uint32_t thread, uint32_t threads) {
  const struct row* rows = (const struct row*)args->arena;
  const int own = (__builtin_ia32_stmxcsr() & ~63u) == 0x1f80; /* whatever flags have been raised */
  for (int64_t o = 0; o < args->n_out; ++o) {
    for (uint32_t v = thread; v < kVocab; v += threads) {
      args->logits[o * kStride + v] = own ? logit(&rows[args->out_rows[o]], v) : 0;
    }
  }
  barrier(args->barrier, threads);
}

__attribute__((used)) void toy_prefill(const qrt_step_args* args, uint32_t thread, uint32_t threads) {
  trunk(args, thread, threads);
}

__attribute__((used)) void toy_decode(const qrt_step_args* args, uint32_t thread, uint32_t threads) {
  end_stage(args, thread, -1);
  trunk(args, thread, threads);
  end_stage(args, thread, 0);
  toy_head(args, thread, threads);
  end_stage(args, thread, 1);
}
