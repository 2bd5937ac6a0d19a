// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-assign-arena | FileCheck %s

// "a" is dead when "c" is written, two barriers later: they share. "b" is live with both. "x" at offset 0 stays.
// CHECK: plan.block @block
// CHECK: ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>] {buffers = ["x", "a"]}
// CHECK: ["x", "y"] {{.*}}#plan.ref<arena, 192, 64, readwrite>] {buffers = ["x", "b"]}
// CHECK: ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>] {buffers = ["x", "c"]}
// CHECK: plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 256
module {
  plan.block @block weights 0 state 0 kv 0 {
    plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>] {buffers = ["x", "a"]}
    plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 192, 64, readwrite>] {buffers = ["x", "b"]}
    plan.barrier
    plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 256, 64, write>] {buffers = ["x", "c"]}
  }
  plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 320 {
    plan.call @block weights 0 state 0 kv 0 layer "blk.0"
    plan.barrier
    plan.call @block weights 0 state 0 kv 0 layer "blk.1"
  }
}

// -----

// Without a barrier in between, both run at the same time: no sharing, although "a" is never read.
// CHECK: #plan.ref<arena, 128, 64, write>] {buffers = ["x", "a"]}
// CHECK: #plan.ref<arena, 192, 64, write>] {buffers = ["x", "c"]}
plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 320 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>] {buffers = ["x", "a"]}
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 192, 64, write>] {buffers = ["x", "c"]}
}

// -----

// What is live across calls ("rope" of all layers, say) does not share with anything of a block.
// CHECK: plan.block @block
// CHECK: #plan.ref<arena, 192, 64, write>] {buffers = ["x", "a"]}
// CHECK: #plan.ref<arena, 128, 64, readwrite>] {buffers = ["x", "kept"]}
// CHECK: #plan.ref<arena, 128, 64, readwrite>] {buffers = ["x", "kept"]}
module {
  plan.block @block weights 0 state 0 kv 0 {
    plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 256, 64, write>] {buffers = ["x", "a"]}
  }
  plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 320 {
    plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 128, 64, readwrite>] {buffers = ["x", "kept"]}
    plan.barrier
    plan.call @block weights 0 state 0 kv 0 layer "blk.0"
    plan.barrier
    plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 128, 64, readwrite>] {buffers = ["x", "kept"]}
  }
}

// -----

module {
  plan.block @block weights 0 state 0 kv 0 {
    plan.barrier
  }
  plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 0 {
    plan.call @block weights 0 state 0 kv 0 layer "blk.0"
  }
  plan.program @decode_2 tokens leaves "trunk" gives chosen_logits rows 2 arena 0 {
    // expected-error @below {{block 'block' is called by two programs, 'decode_1' and 'decode_2': its buffers cannot be placed for both}}
    plan.call @block weights 0 state 0 kv 0 layer "blk.0"
  }
}

// -----

plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 320 {
  // expected-error @below {{has arena bindings but does not name their buffers}}
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>]
}
