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
  %a = hir.linear %x, %wa : tensor<?x64xf32>, !hir.weight<128x64, f16>
  %wb = hir.param "blk.0.late.weight" : !hir.weight<96x64, f16>
  // expected-remark @below {{missed merged_linear: 'hir.param' produces an input only after the group}}
  %b = hir.linear %x, %wb : tensor<?x64xf32>, !hir.weight<96x64, f16>
  return %a, %b : tensor<?x128xf32>, tensor<?x96xf32>
}

// -----

// Only that one stays outside.
// CHECK-LABEL: func.func private @block_one_late_weight
// CHECK: hir.fused.merged_linear(%arg0, %arg0) weights(%arg1, %arg2)
// CHECK: hir.param
// CHECK-NEXT: hir.linear %arg0
func.func private @block_one_late_weight(%x: tensor<?x64xf32>, %wa: !hir.weight<128x64, f16>, %wc: !hir.weight<32x64, f16>) -> (tensor<?x128xf32>, tensor<?x96xf32>, tensor<?x32xf32>) {
  // expected-remark @below {{fused merged_linear: 2 ops}}
  %a = hir.linear %x, %wa : tensor<?x64xf32>, !hir.weight<128x64, f16>
  %wb = hir.param "blk.0.late.weight" : !hir.weight<96x64, f16>
  // expected-remark @below {{missed merged_linear: 'hir.param' produces an input only after the group}}
  %b = hir.linear %x, %wb : tensor<?x64xf32>, !hir.weight<96x64, f16>
  %c = hir.linear %x, %wc : tensor<?x64xf32>, !hir.weight<32x64, f16>
  return %a, %b, %c : tensor<?x128xf32>, tensor<?x96xf32>, tensor<?x32xf32>
}

// -----

// Logits stay alone, whole or cut: programs that give none leave their matrix out.
// CHECK-LABEL: func.func @gives_logits
// CHECK-COUNT-3: hir.linear %arg0
func.func @gives_logits(%x: tensor<?x64xf32>, %w: !hir.weight<128x64, f16>, %v: !hir.weight<64x64, f16>) -> (tensor<?x128xf32> {hir.logits}, tensor<?x96xf32> {hir.logits}, tensor<?x64xf32>) {
  %l = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<128x64, f16>
  %m = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<128x64, f16>
  %cut = hir.slice %m[0, 96] : tensor<?x128xf32>
  %y = hir.linear %x, %v : tensor<?x64xf32>, !hir.weight<64x64, f16>
  return %l, %cut, %y : tensor<?x128xf32>, tensor<?x96xf32>, tensor<?x64xf32>
}

// -----

// Linears on the f32 and on the int8 form of one value count as one input; here the int8 form comes too late.
// CHECK-LABEL: func.func private @block_late_quantize
// CHECK-NOT: hir.fused
func.func private @block_late_quantize(%x: tensor<?x64xf32>, %wa: !hir.weight<128x64, f16>, %wb: !hir.weight<96x64, q8_0>) -> (tensor<?x128xf32>, tensor<?x96xf32>) {
  %a = hir.linear %x, %wa : tensor<?x64xf32>, !hir.weight<128x64, f16>
  // expected-remark @below {{missed norm_quant: the rounded value does not come from a norm}}
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-remark @below {{missed merged_linear: 'hir.quantize' produces an input only after the group}}
  %b = hir.linear %q, %wb : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
  return %a, %b : tensor<?x128xf32>, tensor<?x96xf32>
}

// -----

// Experts take one rounded copy and round their hidden rows; the router, of however many experts, takes the plain rows.
// CHECK-LABEL: func.func private @block_experts
// CHECK: %[[Q:.*]] = hir.quantize %arg0 block 32
// CHECK: hir.linear %arg0, %arg1
// CHECK: hir.moe_experts %[[Q]], {{.*}} gate %arg2 up %arg2 down %arg3 hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>
func.func private @block_experts(%x: tensor<?x64xf32>, %r: !hir.weight<96x64, q8_0>, %g: !hir.weight<96x32x64, q8_0>, %d: !hir.weight<96x64x32, q4_0>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x96xf32>
  // expected-remark @below {{missed norm_quant: the rounded value does not come from a norm}}
  %y = hir.moe_experts %x, %ids, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<96x32x64, q8_0>, !hir.weight<96x32x64, q8_0>, !hir.weight<96x64x32, q4_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// What has no integer codes is not rounded for: here the input, as `up` would not read codes.
// CHECK-LABEL: func.func private @block_experts_mixed
// CHECK-NOT: hir.quantize
// CHECK: hir.moe_experts %arg0, {{.*}} down %arg4 hidden_block 32 :
func.func private @block_experts_mixed(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, f16>, %d: !hir.weight<8x64x32, q4_0>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
  %y = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, f16>, !hir.weight<8x64x32, q4_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Nor for a shared expert of which gate or up has none: they have one input.
// CHECK-LABEL: func.func private @block_shared_mixed
// CHECK: %[[Q:.*]] = hir.quantize %arg0 block 32
// CHECK: hir.fused.merged_linear(%arg0, %arg0, %arg0) weights(%arg1, %arg4, %arg5)
// CHECK: hir.moe_experts %[[Q]],
func.func private @block_shared_mixed(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q4_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, f16>) -> (tensor<?x64xf32>, tensor<?x96xf32>) {
  // expected-remark @below {{fused merged_linear: 3 ops}}
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed norm_quant: the rounded value does not come from a norm}}
  %y = hir.moe_experts %x, %ids, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q4_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, f16>
  %s = hir.swiglu %a, %b : tensor<?x96xf32>
  return %y, %s : tensor<?x64xf32>, tensor<?x96xf32>
}

// -----

// Ahead of a router inputs are rounded to two terms; the experts' own to one, and so those of a shared expert.
// CHECK-LABEL: func.func private @block_ahead_of_experts
// CHECK: hir.fused.norm_quant {{.*}} -> tensor<?x64xf32, #hir.int8<32, 2>>
// CHECK: hir.quantize {{.*}} block 32 terms 2
// CHECK: hir.linear {{.*}} tensor<?x64xf32, #hir.int8<32, 2>>
// CHECK: hir.fused.norm_quant {{.*}} -> (tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>)
// CHECK: hir.moe_experts {{.*}} hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>,
// CHECK-NOT: terms 2
// CHECK: return
func.func private @block_ahead_of_experts(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>, %wa: !hir.weight<128x64, q8_0>, %r: !hir.weight<8x64, f32>,
    %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>) -> (tensor<?x128xf32>, tensor<?x64xf32>) {
  // expected-remark @below {{fused norm_quant: 2 ops}}
  %u = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %a = hir.linear %u, %wa : tensor<?x64xf32>, !hir.weight<128x64, q8_0>
  // expected-remark @below {{fused norm_quant: 2 ops}}
  %v = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  // expected-remark @below {{fused merged_linear: 3 ops}}
  %l = hir.linear %v, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
  %e = hir.moe_experts %v, %ids, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %p = hir.linear %v, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %q = hir.linear %v, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %p, %q : tensor<?x96xf32>
  %s = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %a, %y : tensor<?x128xf32>, tensor<?x64xf32>
}
