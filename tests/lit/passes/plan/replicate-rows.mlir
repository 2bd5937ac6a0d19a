// RUN: qcc-opt %s -split-input-file -qcc-replicate-rows -qcc-insert-barriers | FileCheck %s

// Every thread makes the int8 row for itself: the barrier between it and the linear is gone, the one behind the linear,
// which threads share, stays. What is not read any more lies free for the next row.
// CHECK-LABEL: plan.block @layer
// CHECK-NEXT: "norm"{{.*}}#plan.ref<arena, 0, 128, read>{{.*}}#plan.ref<thread, 0, 128, write>, #plan.ref<thread, 128, 64, write>{{.*}}replicated
// CHECK-NEXT: "linear"{{.*}}#plan.ref<thread, 128, 64, read>{{.*}}#plan.ref<arena, 384, 128, write>
// CHECK-NEXT: "linear"{{.*}}#plan.ref<thread, 0, 128, read>{{.*}}#plan.ref<arena, 512, 128, write>
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: "quantize"{{.*}}#plan.ref<arena, 384, 128, read>, #plan.ref<thread, 0, 64, write>]{{.*}}replicated
// CHECK-NEXT: "linear"{{.*}}#plan.ref<thread, 0, 64, read>{{.*}}#plan.ref<arena, 0, 128, readwrite>
// CHECK-NEXT: {{^ *}$}}
plan.block @layer weights 8448 state 0 kv 0 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>, #plan.ref<arena, 256, 64, write>] {buffers = ["x", "", "layer.norm", "layer.norm_q"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 32 : i64, n = 32 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [#plan.ref<arena, 256, 64, read>, #plan.ref<weights, 128, 1088, read>, #plan.ref<arena, 384, 128, write>] {buffers = ["layer.norm_q", "", "layer.a"]}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 1280, 4096, read>, #plan.ref<arena, 512, 128, write>] {buffers = ["layer.norm", "", "layer.b"]}
  plan.barrier
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 384, 128, read>, #plan.ref<arena, 640, 64, write>] {buffers = ["layer.a", "layer.quantized"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "add", format = "q8_0", k = 32 : i64, n = 32 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [#plan.ref<arena, 640, 64, read>, #plan.ref<weights, 5376, 1088, read>, #plan.ref<arena, 0, 128, readwrite>] {buffers = ["layer.quantized", "", "x"]}
}
// What the program itself keeps lies behind what its blocks use: it may be read behind a call.
// CHECK-LABEL: plan.program @decode_1
// CHECK: "norm"{{.*}}#plan.ref<thread, 192, 64, write>]{{.*}}replicated
// CHECK-NEXT: plan.call @layer
// CHECK: "linear"{{.*}}#plan.ref<thread, 192, 64, read>
plan.program @decode_1 tokens gives chosen_logits rows 1 arena 704 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 8448, 128, read>, #plan.ref<arena, 640, 64, write>] {buffers = ["x", "", "first_q"]}
  plan.call @layer weights 0 state 0 kv 0 layer "blk.0"
  plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 32 : i64, n = 32 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [#plan.ref<arena, 640, 64, read>, #plan.ref<weights, 8576, 1088, read>, #plan.ref<arena, 384, 128, write>] {buffers = ["first_q", "", "last"]}
}

// -----

// What stays as it is: what a program of several rows has, what another block reads, what is read ahead of it (of the
// layer before), what programs hand to each other, and what is large.
// CHECK-NOT: replicated
plan.block @many weights 0 state 0 kv 0 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 256, 256, read>, #plan.ref<arena, 512, 128, write>] {buffers = ["many.x", "many.q"]}
}
plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 704 {
  plan.call @many weights 0 state 0 kv 0 layer "blk.0"
}
plan.block @writes weights 0 state 0 kv 0 {
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>] {buffers = ["x", "handed"]}
}
plan.block @reads weights 1088 state 0 kv 0 {
  plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 32 : i64, n = 32 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [#plan.ref<arena, 128, 64, read>, #plan.ref<weights, 0, 1088, read>, #plan.ref<arena, 256, 128, write>] {buffers = ["handed", "", "reads.y"]}
  plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 32 : i64, n = 32 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [#plan.ref<arena, 384, 64, read>, #plan.ref<weights, 0, 1088, read>, #plan.ref<arena, 448, 128, write>] {buffers = ["reads.late", "", "reads.z"]}
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 384, 64, write>] {buffers = ["x", "reads.late"]}
}
plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 1048704 {
  plan.call @writes weights 0 state 0 kv 0 layer "blk.0"
  plan.call @reads weights 0 state 0 kv 0 layer "blk.0"
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 640, 128, read>, #plan.ref<arena, 0, 64, write>] {buffers = ["y", "handed on"]}
  plan.dispatch "quantize" {cols = 131072 : i64} ["x", "out_q"] [#plan.ref<arena, 128, 524288, read>, #plan.ref<arena, 524544, 196608, write>] {buffers = ["large", "large_q"]}
}
