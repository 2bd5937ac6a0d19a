// Rows that others read afterwards are not added into, though nobody else in their function needs them.
// RUN: split-file %s %t
// RUN: qcc-opt %t/block.mlir -qcc-layout-weights -qcc-build-plan="decode=1 prefill=4" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s --check-prefix=BLOCK
// RUN: qcc-opt %t/taker.mlir -qcc-fuse-residual -qcc-layout-weights -qcc-build-plan="decode=4 prefill=4 head=4" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan 2>/dev/null | FileCheck %s --check-prefix=TAKER

//--- block.mlir
// What a block takes beside the stream: the next layer takes it again.
// BLOCK: plan.block @block_a_trunk_4
// BLOCK: "add" {{.*}} {buffers = ["embed", "block_a.swiglu"]}
// BLOCK: "add" {{.*}} {buffers = ["block_a.swiglu", "x"]}
func.func private @block_a(%x: tensor<?x64xf32>, %e: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %s = hir.swiglu %x, %x : tensor<?x64xf32>
  %b = hir.add %e, %s : tensor<?x64xf32>
  %d = hir.add %x, %b : tensor<?x64xf32>
  return %d : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %u = hir.param "u" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %e = hir.embed %u, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %e) {layer = "blk.0"} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %z = func.call @block_a(%y, %e) {layer = "blk.1"} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

//--- taker.mlir
// What a program leaves: another may take it.
// TAKER: plan.program @decode_4 tokens leaves "trunk" gives logits
// TAKER-NOT: arena, 0, 1024, readwrite
// TAKER: "add" {{.*}} {buffers = ["x", "linear"]}
// TAKER: plan.program @h1_4 stream "trunk"
// TAKER-NOT: arena, 0, 1024, readwrite
// TAKER: "add" {{.*}} {buffers = ["x", "linear"]}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  return %x : tensor<?x64xf32>
}
func.func @h1(%x: tensor<?x64xf32> {hir.left_by = @trunk}) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %w = hir.param "w" : !hir.weight<64x64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %u = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %d = hir.linear %u, %w : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %s = hir.add %x, %d : tensor<?x64xf32>
  %l = hir.linear %s, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
