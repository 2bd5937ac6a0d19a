// RUN: qcc-opt %s | qcc-opt | FileCheck %s

// CHECK: plan.weight @"blk.0.ffn_gate.weight+blk.0.ffn_up.weight" ["blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"] "q4_k" x16_pair 32 x 256 at 64 size 9472
plan.weight @"blk.0.ffn_gate.weight+blk.0.ffn_up.weight" ["blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"] "q4_k" x16_pair 32 x 256 at 64 size 9472
// CHECK: plan.weight @conv ["c"] "f32" conv_taps 96 x 4 at 9536 size 1536
plan.weight @conv ["c"] "f32" conv_taps 96 x 4 at 9536 size 1536
// CHECK: plan.constant @rope.inv_freq [1.000000e+00, 1.000000e-01] at 11072
plan.constant @rope.inv_freq [1.000000e+00, 1.000000e-01] at 11072
// CHECK: plan.state @blk.0.kv kv layer 0 [2, 16] f16 at 0 size 128
plan.state @blk.0.kv kv layer 0 [2, 16] f16 at 0 size 128
// CHECK: plan.state @blk.1.delta delta layer 1 [4, 8, 16] f32 at 64 size 2048
plan.state @blk.1.delta delta layer 1 [4, 8, 16] f32 at 64 size 2048
// CHECK: plan.state @blk.2.conv conv layer 2 [3, 96] f32 at 2112 size 6144 entry 384
plan.state @blk.2.conv conv layer 2 [3, 96] f32 at 2112 size 6144 entry 384
// CHECK: plan.state @blk.2.delta delta layer 2 [4, 8, 16] f32 at 8256 size 8192 entry 384
plan.state @blk.2.delta delta layer 2 [4, 8, 16] f32 at 8256 size 8192 entry 384
// CHECK: plan.block @b weights 0 state 0 kv 0 {
plan.block @b weights 0 state 0 kv 0 {
  // CHECK-NEXT: plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>] {buffers = ["a", "b"]}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>] {buffers = ["a", "b"]}
  // CHECK-NEXT: plan.barrier
  plan.barrier
}
// CHECK: plan.program @prefill_16 tokens leaves "trunk" rows 16 arena 2048 attributes {note = "kept"} {
plan.program @prefill_16 tokens leaves "trunk" rows 16 arena 2048 attributes {note = "kept"} {
  // CHECK-NEXT: plan.call @b weights 0 state 64 kv 0 layer "blk.1"
  plan.call @b weights 0 state 64 kv 0 layer "blk.1"
}
