// RUN: qcc-opt %s --qcc-fuse-residual --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func private @block_out
// CHECK: hir.fused.linear_residual %arg1 weight %arg2 residual %arg0 : {{.*}} -> tensor<?x32xf32> {
// CHECK: hir.linear
// CHECK: hir.add
func.func private @block_out(%x: tensor<?x32xf32>, %h: tensor<?x96xf32>, %w: !hir.weight<32x96, q8_0>) -> tensor<?x32xf32> {
  // expected-remark @below {{fused linear_residual: 2 ops}}
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  %y = hir.add %x, %d : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// The kernel would overwrite a residual that is still needed.
// CHECK-LABEL: func.func private @block_reused
// CHECK-NOT: hir.fused
func.func private @block_reused(%x: tensor<?x32xf32>, %h: tensor<?x96xf32>, %w: !hir.weight<32x96, q8_0>) -> tensor<?x32xf32> {
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  // expected-remark @below {{missed linear_residual: the old residual is read after the sum}}
  %y = hir.add %x, %d : tensor<?x32xf32>
  // expected-remark @below {{missed linear_residual: neither side is a linear next to it}}
  %z = hir.add %x, %y : tensor<?x32xf32>
  return %z : tensor<?x32xf32>
}

// -----

// CHECK-LABEL: func.func private @block_linear_elsewhere
// CHECK-NOT: hir.fused
func.func private @block_linear_elsewhere(%x: tensor<?x32xf32>, %h: tensor<?x96xf32>, %w: !hir.weight<32x96, q8_0>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  // expected-remark @below {{missed linear_residual: the linear's result is needed elsewhere}}
  %y = hir.add %x, %d : tensor<?x32xf32>
  return %y, %d : tensor<?x32xf32>, tensor<?x32xf32>
}
