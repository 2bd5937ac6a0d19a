// RUN: qcc-opt %s --qcc-fuse-moe --split-input-file --verify-diagnostics | FileCheck %s
// Passes behind it leave the body alone: it must stay what the kernel computes.
// RUN: qcc-opt %s --qcc-fuse-moe --qcc-fuse-swiglu --qcc-fuse-residual --split-input-file 2>/dev/null | FileCheck %s --check-prefix=LATER

// LATER-LABEL: func.func private @block_whole
// LATER-NEXT: hir.fused.moe
// LATER-NOT: hir.fused
// LATER: return

// CHECK-LABEL: func.func private @block_whole
// CHECK: %[[Y:.*]] = hir.fused.moe %arg9 router %arg1 softmax top_k 2 normalise true floor 6.1035{{.*}} scale 1.000000e+00 experts %arg9 gate %arg2 up %arg3 down %arg4 shared %arg9 gate %arg5 up %arg6 down %arg7 router %arg8 residual %arg0 : {{.*}} -> tensor<?x64xf32> {
// CHECK: hir.moe_route
// CHECK: hir.moe_experts
// CHECK: hir.swiglu
// CHECK: hir.scale_rows
// CHECK-COUNT-2: hir.add
// CHECK: hir.yield
// CHECK: return %[[Y]]
func.func private @block_whole(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 12 ops}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  %z = hir.add %res, %y : tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// -----

// Without a shared expert; the residual may stand on either side.
// CHECK-LABEL: func.func private @block_no_shared
// CHECK: hir.fused.moe %arg9 router %arg1 {{.*}} experts %arg9 gate %arg2 up %arg3 down %arg4 residual %arg0 :
func.func private @block_no_shared(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 4 ops}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %z = hir.add %e, %res : tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_alone
// CHECK: hir.fused.moe {{.*}} down %arg4 :
func.func private @block_alone(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 3 ops}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e : tensor<?x64xf32>
}

// -----

// The old residual is read after the sum: the sum stays outside.
// CHECK-LABEL: func.func private @block_residual_read
// CHECK: %[[Y:.*]] = hir.fused.moe {{.*}} router %arg8 :
// CHECK: hir.add %arg0, %[[Y]]
func.func private @block_residual_read(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 11 ops}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  %z = hir.add %res, %y : tensor<?x64xf32>
  %t = hir.add %res, %z : tensor<?x64xf32>
  return %t : tensor<?x64xf32>
}

// -----

// The experts read the residual itself, in another shape.
// CHECK-LABEL: func.func private @block_residual_of_itself
// CHECK: %[[Y:.*]] = hir.fused.moe {{.*}} : {{.*}} -> tensor<?x64xf32> {
// CHECK: hir.add %arg0, %[[Y]]
func.func private @block_residual_of_itself(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32> {
  %heads = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  %same = hir.reshape %heads : tensor<?x4x16xf32> -> tensor<?x64xf32>
  %l = hir.linear %same, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 3 ops}}
  %e = hir.moe_experts %same, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %y = hir.add %x, %e : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Rounded rows come from outside; hidden rows are rounded inside.
// CHECK-LABEL: func.func private @block_rounded
// CHECK: %[[Q:.*]] = hir.quantize %arg9
// CHECK: hir.fused.moe %arg9 router %arg1 {{.*}} experts %[[Q]] {{.*}} hidden_block 32 shared %[[Q]] {{.*}} shared_hidden_block 32 residual %arg0
func.func private @block_rounded(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 13 ops}}
  %e = hir.moe_experts %q, %ids, %w gate %g up %u down %d hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %q, %sg : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
  %b = hir.linear %q, %su : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %hq = hir.quantize %h block 32 : tensor<?x96xf32>
  %o = hir.linear %hq, %sd : tensor<?x96xf32, #hir.int8<32>>, !hir.weight<64x96, q8_0>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  %z = hir.add %res, %y : tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_given_ids
// CHECK-NOT: hir.fused
func.func private @block_given_ids(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>, %ids: tensor<?x2xi32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids0, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: ids and weights do not come from one route next to it}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_two_routes
// CHECK-NOT: hir.fused
func.func private @block_two_routes(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  %ids2, %w2 = hir.moe_route %l sigmoid top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: ids and weights do not come from one route next to it}}
  %e = hir.moe_experts %x, %ids, %w2 gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_route_read
// CHECK-NOT: hir.fused
func.func private @block_route_read(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x2xf32>) {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the routing is needed elsewhere}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e, %w : tensor<?x64xf32>, tensor<?x2xf32>
}

// -----

// CHECK-LABEL: func.func private @block_logits_given
// CHECK-NOT: hir.fused
func.func private @block_logits_given(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>, %l: tensor<?x8xf32>) -> tensor<?x64xf32> {
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the route's logits do not come from a linear}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_logits_read
// CHECK-NOT: hir.fused
func.func private @block_logits_read(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x8xf32>) {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the router's logits are needed elsewhere}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e, %l : tensor<?x64xf32>, tensor<?x8xf32>
}

// -----

// CHECK-LABEL: func.func private @block_shared_read
// CHECK-NOT: hir.fused
func.func private @block_shared_read(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the shared expert's result is needed elsewhere}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %y, %s : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_factor_given
// CHECK-NOT: hir.fused
func.func private @block_factor_given(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>, %f: tensor<?x1xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the shared expert's factor is not an activated linear of its own}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_factor_open
// CHECK-NOT: hir.fused
func.func private @block_factor_open(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the kernel does not execute this 'hir.activation': softplus instead of sigmoid}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation softplus %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_shared_no_swiglu
// CHECK-NOT: hir.fused
func.func private @block_shared_no_swiglu(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the shared expert's hidden rows are not a swiglu of two linears of its own}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.mul %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_shared_down
// CHECK-NOT: hir.fused
func.func private @block_shared_down(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the shared expert does not end with a linear of its own}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %c = hir.linear %x, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %x by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_shared_by
// CHECK-NOT: hir.fused
func.func private @block_shared_by(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the kernel does not execute this 'hir.linear': its input is not the router's}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %a = hir.linear %x, %sg : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %b = hir.linear %x, %su : tensor<?x64xf32>, !hir.weight<96x64, q8_0>
  %h = hir.swiglu %a, %b : tensor<?x96xf32>
  %o = hir.linear %h, %sd : tensor<?x96xf32>, !hir.weight<64x96, q8_0>
  %c = hir.linear %res, %sr : tensor<?x64xf32>, !hir.weight<1x64, f32>
  %f = hir.activation sigmoid %c : tensor<?x1xf32>
  %s = hir.scale_rows %o by %f : tensor<?x64xf32>, tensor<?x1xf32>
  %y = hir.add %e, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_f16_router
// CHECK-NOT: hir.fused
func.func private @block_f16_router(%res: tensor<?x64xf32>, %r: !hir.weight<8x64, f16>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>,
    %sg: !hir.weight<96x64, q8_0>, %su: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>, %sr: !hir.weight<1x64, f32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f16>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{missed moe: the kernel does not execute this 'hir.linear': its weight is not f32}}
  %e = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  return %e : tensor<?x64xf32>
}

// -----

// A row argument behind the first is the caller's, who may read it afterwards: the sum stays outside.
// CHECK-LABEL: func.func private @block_residual_given
// CHECK: %[[Y:.*]] = hir.fused.moe {{.*}} down %arg4 :
// CHECK: hir.add %arg5, %[[Y]]
func.func private @block_residual_given(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %e: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %l = hir.linear %x, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 3 ops}}
  %s = hir.moe_experts %x, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %z = hir.add %e, %s : tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// -----

// What reads the residual ahead of the experts must not move behind them.
// LATER-LABEL: func.func private @block_read_ahead
// LATER-COUNT-2: hir.linear %arg0
// LATER: hir.fused.moe
// LATER: hir.swiglu
func.func private @block_read_ahead(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %w0: !hir.weight<32x64, q8_0>, %w1: !hir.weight<32x64, q8_0>) -> (tensor<?x64xf32>, tensor<?x32xf32>) {
  %p = hir.linear %x, %w0 : tensor<?x64xf32>, !hir.weight<32x64, q8_0>
  %q = hir.linear %x, %w1 : tensor<?x64xf32>, !hir.weight<32x64, q8_0>
  %v = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %v, %r : tensor<?x64xf32>, !hir.weight<8x64, f32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // expected-remark @below {{fused moe: 4 ops}}
  %e = hir.moe_experts %v, %ids, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
  %z = hir.add %x, %e : tensor<?x64xf32>
  %s = hir.swiglu %p, %q : tensor<?x32xf32>
  return %z, %s : tensor<?x64xf32>, tensor<?x32xf32>
}
