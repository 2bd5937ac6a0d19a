// A block of experts as dispatches: what runs beside what, the lists of experts, pieces of tensors, and the verifier's
// opinion of all of it.
// RUN: qcc-opt %s -split-input-file -qcc-select-functions="functions=trunk" -qcc-layout-weights -qcc-build-plan="decode=1 prefill=16 head=1" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s

// Gate and up are halves of one tensor: each is its rows of every expert, side by side they are a pair.
// CHECK-LABEL: plan.weight @"blk.0.gu[0:32/64]+blk.0.gu[32:32/64]"
// CHECK-SAME: pieces [#hir.row_pieces<8 groups of 64 rows, [0], [32]>, #hir.row_pieces<8 groups of 64 rows, [32], [32]>] "q8_0" x16_pair 256 x 64
// The experts' matrices are one, of the rows of all.
// CHECK: plan.weight @blk.0.d ["blk.0.d"] "q8_0" x16 512 x 32
// CHECK: plan.weight @blk.0.ds ["blk.0.ds"] "f32" f32 1 x 8

// One row: the lists come with the routing.
// CHECK: plan.block @block_a_decode_1
// CHECK-NEXT: plan.dispatch "linear" {{.*}}k = 64 : i64, n = 8 : i64, numerics = "f32"{{.*}}"block_a.router"]}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "moe_route" {cols = 64 : i64, experts = 8 : i64, gating = "softmax", norm_floor = 5.000000e-01 : f32, normalise = true, scale = 1.000000e+00 : f32, shared = false, top_k = 2 : i64} ["logits", "ids", "weights", "groups", "order"]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "moe_linear" {epilogue = "swiglu", experts = 8 : i64, format = "q8_0", k = 64 : i64, n = 32 : i64, numerics = "f32", scale_count = 1 : i64, top_k = 2 : i64, up_scale_count = 1 : i64} ["x", "w", "ids", "groups", "order", "y"]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "quantize" {cols = 64 : i64}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "moe_linear" {epilogue = "add", experts = 8 : i64, format = "q8_0", k = 32 : i64, n = 64 : i64, numerics = "int8", scale_count = 8 : i64, top_k = 2 : i64, up_scale_count = 1 : i64} ["xq", "w", "scale", "ids", "groups", "order", "weights", "y"]
// CHECK-SAME: "block_a.expert_weights", "x"]}
// CHECK-NEXT: }

// More rows are grouped by expert first.
// CHECK: plan.block @block_a_prefill_16
// CHECK: plan.dispatch "moe_route" {{.*}} ["logits", "ids", "weights"]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "moe_group" {experts = 8 : i64, top_k = 2 : i64} ["ids", "groups", "order"]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "moe_linear"
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %ds: !hir.weight<8, f32>) -> tensor<?x64xf32> {
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 0.5 scale 1.0 experts %x gate %g up %u down %d down_scale %ds hidden_block 32 residual %x : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<8, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bex: tensor<?x64xf32>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bds: !hir.weight<8, f32>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bx, %br : tensor<?x64xf32>, !hir.weight<8x64, f32>
    %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
    %e = hir.moe_experts %bex, %ids, %w gate %bg up %bu down %bd down_scale %bds hidden_block 32 : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<8, f32>) -> tensor<?x64xf32>
    %sum = hir.add %bres, %e : tensor<?x64xf32>
    hir.yield %sum : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %r = hir.param "blk.0.r" : !hir.weight<8x64, f32>
  %g = hir.param "blk.0.gu" pieces <8 groups of 64 rows, [0], [32]> : !hir.weight<8x32x64, q8_0>
  %u = hir.param "blk.0.gu" pieces <8 groups of 64 rows, [32], [32]> : !hir.weight<8x32x64, q8_0>
  %d = hir.param "blk.0.d" : !hir.weight<8x64x32, q8_0>
  %ds = hir.param "blk.0.ds" : !hir.weight<8, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %r, %g, %u, %d, %ds) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<8x64, f32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<8, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
