// RUN: qcc-opt %s --qcc-quantize-activations --qcc-merge-linears --qcc-fuse-norm-quant --split-input-file --verify-diagnostics | FileCheck %s

// The two projections take int8 rows, the narrow gate projection keeps f32: all three stay one group.
// CHECK-LABEL: func.func private @block_in
// CHECK: %[[N:.*]], %[[I:.*]] = hir.fused.norm_quant %arg0 weight %arg1 eps 9.99999997E-7 : {{.*}} -> (tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>) {
// CHECK: hir.rms_norm
// CHECK: hir.quantize
// CHECK: hir.fused.merged_linear(%[[I]], %[[I]], %[[N]]) weights(%arg2, %arg3, %arg4) : {{.*}} -> (tensor<?x128xf32>, tensor<?x96xf32>, tensor<?x4xf32>) {
// CHECK: ^bb0(%[[A:[^:]*]]: tensor<?x64xf32, #hir.int8<32>>, %{{[^:]*}}: tensor<?x64xf32, #hir.int8<32>>, %[[C:[^:]*]]: tensor<?x64xf32>,
// CHECK: hir.linear %[[A]]
// CHECK: hir.linear %[[A]]
// CHECK: hir.linear %[[C]]
func.func private @block_in(%x: tensor<?x64xf32>, %nw: !hir.weight<64, f32>, %wa: !hir.weight<128x64, q8_0>, %wb: !hir.weight<96x64, q4_0>,
    %wc: !hir.weight<4x64, q8_0>) -> (tensor<?x128xf32>, tensor<?x96xf32>, tensor<?x4xf32>) {
  // expected-remark @below {{fused norm_quant: 2 ops}}
  %n = hir.rms_norm %x, %nw eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  // expected-remark @below {{fused merged_linear: 3 ops}}
  %a = hir.linear %n, %wa : tensor<?x64xf32>, !hir.weight<128x64, q8_0>
  %b = hir.linear %n, %wb : tensor<?x64xf32>, !hir.weight<96x64, q4_0>
  %c = hir.linear %n, %wc : tensor<?x64xf32>, !hir.weight<4x64, q8_0>
  return %a, %b, %c : tensor<?x128xf32>, tensor<?x96xf32>, tensor<?x4xf32>
}

// -----

// Plain formats have no integer codes: nothing is rounded, and one linear alone is no group.
// CHECK-LABEL: func.func private @block_plain
// CHECK-NOT: hir.quantize
// CHECK-NOT: hir.fused
func.func private @block_plain(%x: tensor<?x64xf32>, %w: !hir.weight<128x64, f16>) -> tensor<?x128xf32> {
  %a = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<128x64, f16>
  return %a : tensor<?x128xf32>
}

// -----

// CHECK-LABEL: func.func private @block_no_norm
// CHECK: hir.quantize
// CHECK-NOT: hir.fused
func.func private @block_no_norm(%x: tensor<?x64xf32>, %w: !hir.weight<128x64, q8_0>) -> tensor<?x128xf32> {
  // expected-remark @below {{missed norm_quant: the rounded value does not come from a norm}}
  %a = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<128x64, q8_0>
  return %a : tensor<?x128xf32>
}

// -----

// The group stands where its first linear stood: there the second one's weight is not there yet.
// CHECK-LABEL: func.func private @block_late_weight
// CHECK-NOT: hir.fused
func.func private @block_late_weight(%x: tensor<?x64xf32>, %wa: !hir.weight<128x64, f16>) -> (tensor<?x128xf32>, tensor<?x96xf32>) {
  // expected-remark @below {{missed merged_linear: 'hir.param' produces an input only after the group}}
  %a = hir.linear %x, %wa : tensor<?x64xf32>, !hir.weight<128x64, f16>
  %wb = hir.param "blk.0.late.weight" : !hir.weight<96x64, f16>
  %b = hir.linear %x, %wb : tensor<?x64xf32>, !hir.weight<96x64, f16>
  return %a, %b : tensor<?x128xf32>, tensor<?x96xf32>
}

// -----

// Linears on the f32 and on the int8 form of one value count as one input; here the int8 form comes too late.
// CHECK-LABEL: func.func private @block_late_quantize
// CHECK-NOT: hir.fused
func.func private @block_late_quantize(%x: tensor<?x64xf32>, %wa: !hir.weight<128x64, f16>, %wb: !hir.weight<96x64, q8_0>) -> (tensor<?x128xf32>, tensor<?x96xf32>) {
  // expected-remark @below {{missed merged_linear: 'hir.quantize' produces an input only after the group}}
  %a = hir.linear %x, %wa : tensor<?x64xf32>, !hir.weight<128x64, f16>
  // expected-remark @below {{missed norm_quant: the rounded value does not come from a norm}}
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  %b = hir.linear %q, %wb : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
  return %a, %b : tensor<?x128xf32>, tensor<?x96xf32>
}
