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

// -----

// A row argument behind the first is the caller's, who may read it afterwards; so are rows that another program left.
// CHECK-LABEL: func.func private @block_given
// CHECK-NOT: hir.fused
func.func private @block_given(%x: tensor<?x32xf32>, %e: tensor<?x32xf32>, %h: tensor<?x96xf32>, %w: !hir.weight<32x96, q8_0>) -> tensor<?x32xf32> {
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  // expected-remark @below {{missed linear_residual: the old residual is read after the sum}}
  %y = hir.add %e, %d : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
// CHECK-LABEL: func.func @taker
// CHECK-NOT: hir.fused
func.func @taker(%x: tensor<?x32xf32> {hir.left_by = @trunk}, %h: tensor<?x96xf32>, %w: !hir.weight<32x96, q8_0>) -> tensor<?x32xf32> {
  %d = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  // expected-remark @below {{missed linear_residual: the old residual is read after the sum}}
  %y = hir.add %x, %d : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// A linear that reads what another sum overwrites stays ahead of it.
// CHECK-LABEL: func.func private @block_two_sums
// CHECK: %[[L:.*]] = hir.linear %arg0, %arg2
// CHECK: %[[S:.*]] = hir.fused.linear_residual {{.*}} residual %arg0
// CHECK: hir.add %[[S]], %[[L]]
func.func private @block_two_sums(%x: tensor<?x32xf32>, %h: tensor<?x96xf32>, %v: !hir.weight<32x32, q8_0>, %w: !hir.weight<32x96, q8_0>) -> tensor<?x32xf32> {
  %l = hir.linear %x, %v : tensor<?x32xf32>, !hir.weight<32x32, q8_0>
  // expected-remark @below {{fused linear_residual: 2 ops}}
  %a = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  %s = hir.add %x, %a : tensor<?x32xf32>
  // expected-remark @below {{missed linear_residual: 'hir.fused.linear_residual' may overwrite an input in between}}
  %y = hir.add %s, %l : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// Also ahead of one that may still be fused.
// CHECK-LABEL: func.func private @block_sum_of_others
// CHECK-NOT: hir.fused
func.func private @block_sum_of_others(%x: tensor<?x32xf32>, %h: tensor<?x32xf32>, %v: !hir.weight<32x32, q8_0>) -> tensor<?x32xf32> {
  %l = hir.linear %x, %v : tensor<?x32xf32>, !hir.weight<32x32, q8_0>
  %a = hir.swiglu %h, %h : tensor<?x32xf32>
  // expected-remark @below {{missed linear_residual: neither side is a linear next to it}}
  %s = hir.add %x, %a : tensor<?x32xf32>
  // expected-remark @below {{missed linear_residual: 'hir.add' may overwrite an input in between}}
  %y = hir.add %s, %l : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// Of two linears either may be the one that adds.
// CHECK-LABEL: func.func private @block_left_linear
// CHECK: %[[A:.*]] = hir.linear %arg1, %arg2
// CHECK: hir.fused.linear_residual %arg1 weight %arg3 residual %[[A]]
func.func private @block_left_linear(%x: tensor<?x32xf32>, %h: tensor<?x96xf32>, %v: !hir.weight<32x96, q8_0>, %w: !hir.weight<32x96, q8_0>, %n: !hir.weight<32, f32>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %a = hir.linear %h, %v : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  %u = hir.rms_norm %a, %n eps 1.0e-6 : tensor<?x32xf32>, !hir.weight<32, f32>
  // expected-remark @below {{fused linear_residual: 2 ops}}
  %c = hir.linear %h, %w : tensor<?x96xf32>, !hir.weight<32x96, q8_0>
  %y = hir.add %c, %a : tensor<?x32xf32>
  return %y, %u : tensor<?x32xf32>, tensor<?x32xf32>
}
