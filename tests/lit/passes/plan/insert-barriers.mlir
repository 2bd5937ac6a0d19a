// RUN: qcc-opt %s -qcc-insert-barriers | FileCheck %s
// Doing it again changes nothing.
// RUN: qcc-opt %s -qcc-insert-barriers -qcc-insert-barriers | FileCheck %s

// A barrier where a later dispatch touches what an earlier one wrote, or writes what it read; not between readers.
// CHECK-LABEL: plan.block @block
// CHECK-NEXT: "quantize"
// CHECK-NEXT: "add"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: "add"
// CHECK-NEXT: "quantize"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: "quantize"{{.*}}
// CHECK-NEXT: }
plan.block @block weights 0 state 0 kv 0 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>]
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 192, 64, readwrite>]
  // Writes what both read.
  plan.dispatch "add" {cols = 32 : i64} ["x", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<arena, 0, 128, readwrite>]
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 256, 128, read>, #plan.ref<arena, 384, 64, write>]
  // Overwrites it.
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 256, 128, read>, #plan.ref<arena, 384, 64, write>]
}
// CHECK-LABEL: plan.block @reader
// CHECK-NOT: plan.barrier
// CHECK-LABEL: plan.program @decode_1
plan.block @reader weights 0 state 0 kv 0 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 512, 128, read>, #plan.ref<arena, 640, 64, write>]
}
plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 768 {
  // CHECK-NEXT: "add"
  plan.dispatch "add" {cols = 32 : i64} ["x", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<arena, 512, 128, readwrite>]
  // Before its first barrier the block touches nothing that was written; its barriers order the rest.
  // CHECK-NEXT: plan.call @block
  plan.call @block weights 0 state 0 kv 0 layer "blk.0"
  // CHECK-NEXT: plan.call @reader
  plan.call @reader weights 0 state 0 kv 0 layer "blk.1"
  // It writes what it wrote the time before.
  // CHECK-NEXT: plan.barrier
  // CHECK-NEXT: plan.call @reader
  plan.call @reader weights 0 state 0 kv 0 layer "blk.2"
  // CHECK-NEXT: plan.barrier
  // CHECK-NEXT: "add"
  plan.dispatch "add" {cols = 32 : i64} ["x", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<arena, 512, 128, readwrite>]
}

// Attention waits for the store into its own layer's cache, not into another's.
// CHECK-LABEL: plan.block @store
// CHECK-LABEL: plan.block @attend
// CHECK-LABEL: plan.program @prefill_1
plan.block @store weights 128 state 0 kv 128 {
  plan.dispatch "qk_norm_rope_store" {eps = 1.0e-6 : f32, gated = false, head_dim = 16 : i64, kv = "f16", kv_heads = 2 : i64, q_heads = 4 : i64, rot_dims = 8 : i64} ["q", "k", "v", "q_norm", "k_norm", "rope", "out", "kv"] [#plan.ref<arena, 0, 256, read>, #plan.ref<arena, 256, 128, read>, #plan.ref<arena, 384, 128, read>, #plan.ref<weights, 0, 64, read>, #plan.ref<weights, 64, 64, read>, #plan.ref<arena, 512, 32, read>, #plan.ref<arena, 576, 256, write>, #plan.ref<kv, 0, 128, write>]
}
plan.block @attend weights 0 state 0 kv 128 {
  plan.dispatch "attention" {gated = false, head_dim = 16 : i64, kv = "f16", kv_heads = 2 : i64, q_heads = 4 : i64, scale = 0.25 : f32} ["q", "kv", "out"] [#plan.ref<arena, 0, 256, read>, #plan.ref<kv, 0, 128, read>, #plan.ref<arena, 832, 256, write>]
}
plan.program @prefill_1 tokens leaves "trunk" rows 1 arena 1088 {
  // CHECK-NEXT: plan.call @store
  plan.call @store weights 0 state 0 kv 0 layer "blk.0"
  // CHECK-NEXT: plan.call @attend
  plan.call @attend weights 0 state 0 kv 128 layer "blk.1"
  // CHECK-NEXT: plan.barrier
  // CHECK-NEXT: plan.call @attend
  plan.call @attend weights 0 state 0 kv 0 layer "blk.0"
}
