// RUN: qcc-opt %s --qcc-fuse-swiglu --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func private @block_ffn
// CHECK: hir.fused.linear_swiglu %arg0 gate %arg1 up %arg2 : {{.*}} -> tensor<?x96xf32> {
// CHECK-COUNT-2: hir.linear
// CHECK: hir.swiglu
func.func private @block_ffn(%x: tensor<?x32xf32>, %wg: !hir.weight<96x32, q8_0>, %wu: !hir.weight<96x32, q8_0>) -> tensor<?x96xf32> {
  %g = hir.linear %x, %wg : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  %u = hir.linear %x, %wu : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  // expected-remark @below {{fused linear_swiglu: 3 ops}}
  %y = hir.swiglu %g, %u : tensor<?x96xf32>
  return %y : tensor<?x96xf32>
}

// -----

// CHECK-LABEL: func.func private @block_mixed
// CHECK-NOT: hir.fused
func.func private @block_mixed(%x: tensor<?x32xf32>, %wg: !hir.weight<96x32, q8_0>, %wu: !hir.weight<96x32, q4_0>) -> tensor<?x96xf32> {
  %g = hir.linear %x, %wg : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  %u = hir.linear %x, %wu : tensor<?x32xf32>, !hir.weight<96x32, q4_0>
  // expected-remark @below {{missed linear_swiglu: gate is q8_0, up is q4_0}}
  %y = hir.swiglu %g, %u : tensor<?x96xf32>
  return %y : tensor<?x96xf32>
}

// -----

// CHECK-LABEL: func.func private @block_no_linear
// CHECK-NOT: hir.fused
func.func private @block_no_linear(%x: tensor<?x32xf32>, %u: tensor<?x96xf32>, %wg: !hir.weight<96x32, q8_0>) -> tensor<?x96xf32> {
  %g = hir.linear %x, %wg : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  // expected-remark @below {{missed linear_swiglu: gate and up are not two linears next to it}}
  %y = hir.swiglu %g, %u : tensor<?x96xf32>
  return %y : tensor<?x96xf32>
}

// -----

// One linear for both is not two.
// CHECK-LABEL: func.func private @block_one_linear
// CHECK-NOT: hir.fused
func.func private @block_one_linear(%x: tensor<?x32xf32>, %wg: !hir.weight<96x32, q8_0>) -> tensor<?x96xf32> {
  %g = hir.linear %x, %wg : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  // expected-remark @below {{missed linear_swiglu: gate and up are not two linears next to it}}
  %y = hir.swiglu %g, %g : tensor<?x96xf32>
  return %y : tensor<?x96xf32>
}

// -----

// CHECK-LABEL: func.func private @block_two_inputs
// CHECK-NOT: hir.fused
func.func private @block_two_inputs(%x: tensor<?x32xf32>, %z: tensor<?x32xf32>, %wg: !hir.weight<96x32, q8_0>, %wu: !hir.weight<96x32, q8_0>) -> tensor<?x96xf32> {
  %g = hir.linear %x, %wg : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  %u = hir.linear %z, %wu : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  // expected-remark @below {{missed linear_swiglu: gate and up have different inputs}}
  %y = hir.swiglu %g, %u : tensor<?x96xf32>
  return %y : tensor<?x96xf32>
}

// -----

// CHECK-LABEL: func.func private @block_up_elsewhere
// CHECK-NOT: hir.fused
func.func private @block_up_elsewhere(%x: tensor<?x32xf32>, %wg: !hir.weight<96x32, q8_0>, %wu: !hir.weight<96x32, q8_0>) -> (tensor<?x96xf32>, tensor<?x96xf32>) {
  %g = hir.linear %x, %wg : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  %u = hir.linear %x, %wu : tensor<?x32xf32>, !hir.weight<96x32, q8_0>
  // expected-remark @below {{missed linear_swiglu: gate or up is needed elsewhere}}
  %y = hir.swiglu %g, %u : tensor<?x96xf32>
  return %y, %u : tensor<?x96xf32>, tensor<?x96xf32>
}
