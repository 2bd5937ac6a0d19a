// Names of blocks and of programs may come to the same: @block_a_b for decode_1, @block_a for b_decode_1.
// RUN: qcc-opt %s -qcc-layout-weights -qcc-build-plan="decode=1 prefill=16 head=16" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s

// CHECK: plan.block @block_a_b_decode_1 
// CHECK: plan.program @decode_1 
// CHECK: plan.call @block_a_b_decode_1 {{.*}} layer "blk.0"
// CHECK: plan.block @block_a_b_decode_1_1 
// CHECK: plan.program @b_decode_1 
// CHECK: plan.call @block_a_b_decode_1_1 {{.*}} layer "blk.1"
func.func private @block_a_b(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func private @block_a(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %s = hir.swiglu %x, %x : tensor<?x64xf32>
  %y = hir.add %x, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a_b(%x) {layer = "blk.0"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}) -> (tensor<?x32xf32> {hir.logits}) {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %x, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
func.func @b(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x) {layer = "blk.1"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @b_head(%x: tensor<?x64xf32> {hir.left_by = @b}) -> (tensor<?x32xf32> {hir.logits}) {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %x, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
