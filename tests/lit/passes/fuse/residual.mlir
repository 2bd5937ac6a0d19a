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

// Nor one that is needed in another shape.
// CHECK-LABEL: func.func private @block_reshaped
// CHECK-NOT: hir.fused
func.func private @block_reshaped(%x: tensor<?x32xf32>, %h: tensor<?x96xf32>, %w: !hir.weight<32x96, q8_0>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %heads = hir.reshape %x : tensor<?x32xf32> -> tensor<?x2x16xf32>
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  // expected-remark @below {{missed linear_residual: the old residual is read after the sum}}
  %y = hir.add %x, %d : tensor<?x32xf32>
  %old = hir.reshape %heads : tensor<?x2x16xf32> -> tensor<?x32xf32>
  return %y, %old : tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

// Equal slices of a linear lie in one place.
// CHECK-LABEL: func.func private @block_equal_slices
// CHECK-NOT: hir.fused
func.func private @block_equal_slices(%h: tensor<?x96xf32>, %v: !hir.weight<64x96, q8_0>, %w: !hir.weight<32x96, q8_0>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %both = hir.linear %h, %v : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %x = hir.slice %both[0, 32] : tensor<?x64xf32>
  %same = hir.slice %both[0, 32] : tensor<?x64xf32>
  %other = hir.slice %both[32, 32] : tensor<?x64xf32>
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  // expected-remark @below {{missed linear_residual: the old residual is read after the sum}}
  %y = hir.add %x, %d : tensor<?x32xf32>
  // expected-remark @below {{missed linear_residual: neither side is a linear next to it}}
  %z = hir.add %other, %same : tensor<?x32xf32>
  return %y, %z : tensor<?x32xf32>, tensor<?x32xf32>
}

// -----

// It would overwrite what it reads.
// CHECK-LABEL: func.func private @block_of_itself
// CHECK-NOT: hir.fused
func.func private @block_of_itself(%x: tensor<?x32xf32>, %w: !hir.weight<32x32, q8_0>) -> tensor<?x32xf32> {
  %d = hir.linear %x, %w : tensor<?x32xf32>, !hir.weight<32x32, q8_0>
  // expected-remark @below {{missed linear_residual: the linear reads the residual}}
  %y = hir.add %x, %d : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
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
