// RUN: qcc-opt %s --qcc-fuse-gated-delta --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func private @block_gdn
// CHECK: %[[G:.*]] = hir.fused.gated_delta %arg0 z %arg1 alpha %arg2 beta %arg3 conv %arg5 ssm_a %arg6 dt_bias %arg7 norm %arg8 states %arg9, %arg10 rows %arg4 l2_eps 9.99999997E-7 l2_form sum norm_eps 9.99999997E-7 scale 1.700000e-01 : {{.*}} -> tensor<?x64xf32> {
// CHECK: hir.causal_conv1d
// CHECK: hir.activation silu
// CHECK-COUNT-2: hir.l2_norm
// CHECK: hir.gated_delta
// CHECK: hir.rms_norm
// CHECK: hir.mul
// CHECK: hir.yield
// CHECK: return %[[G]]
func.func private @block_gdn(%qkv: tensor<?x128xf32>, %z: tensor<?x64xf32>, %alpha: tensor<?x2xf32>, %beta: tensor<?x2xf32>,
    %rows: !hir.rows, %cw: !hir.weight<128x4, f32>, %a: !hir.weight<2, f32>, %dt: !hir.weight<2, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>) -> tensor<?x64xf32> {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %s = hir.activation silu %c : tensor<?x128xf32>
  %q0 = hir.slice %s[0, 32] : tensor<?x128xf32>
  %k0 = hir.slice %s[32, 32] : tensor<?x128xf32>
  %v0 = hir.slice %s[64, 64] : tensor<?x128xf32>
  %q1 = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x1x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x1x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
  %b = hir.activation sigmoid %beta : tensor<?x2xf32>
  // expected-remark @below {{fused gated_delta: 18 ops}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %zs = hir.activation silu %z : tensor<?x64xf32>
  %zh = hir.reshape %zs : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %m = hir.mul %n, %zh : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Without the gated norm there is no kernel for it: the pass says so and leaves the ops alone.
// CHECK-LABEL: func.func private @block_no_norm
// CHECK-NOT: hir.fused
func.func private @block_no_norm(%q: tensor<?x1x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x2x32xf32>, %g: tensor<?x2xf32>,
    %b: tensor<?x2xf32>, %ds: !hir.state<delta, 2x32x32, f32>, %rows: !hir.rows) -> tensor<?x2x32xf32> {
  // expected-remark @below {{missed gated_delta: the recurrence is not followed by a norm alone}}
  %o = hir.gated_delta %q, %k, %v, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  return %o : tensor<?x2x32xf32>
}

// -----

// CHECK-LABEL: func.func private @block_no_gate
// CHECK-NOT: hir.fused
func.func private @block_no_gate(%q: tensor<?x1x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x2x32xf32>, %g: tensor<?x2xf32>, %b: tensor<?x2xf32>,
    %nw: !hir.weight<32, f32>, %ds: !hir.state<delta, 2x32x32, f32>, %rows: !hir.rows) -> tensor<?x2x32xf32> {
  // expected-remark @below {{missed gated_delta: the norm is not followed by its gate alone}}
  %o = hir.gated_delta %q, %k, %v, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  return %n : tensor<?x2x32xf32>
}

// -----

// The kernel convolves its own input: q, k and v that come from elsewhere, or from a convolution that others read too, are not its.
// CHECK-LABEL: func.func private @block_no_conv
// CHECK-NOT: hir.fused
func.func private @block_no_conv(%q: tensor<?x1x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x2x32xf32>, %z: tensor<?x2x32xf32>, %g: tensor<?x2xf32>, %b: tensor<?x2xf32>,
    %nw: !hir.weight<32, f32>, %ds: !hir.state<delta, 2x32x32, f32>, %rows: !hir.rows) -> tensor<?x2x32xf32> {
  // expected-remark @below {{missed gated_delta: q, k and v do not come from one convolution of their own}}
  %o = hir.gated_delta %q, %k, %v, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %s = hir.activation silu %z : tensor<?x2x32xf32>
  %m = hir.mul %n, %s : tensor<?x2x32xf32>
  return %m : tensor<?x2x32xf32>
}

// -----

// CHECK-LABEL: func.func private @block_shared_conv
// CHECK-NOT: hir.fused
func.func private @block_shared_conv(%qkv: tensor<?x128xf32>, %z: tensor<?x2x32xf32>, %g: tensor<?x2xf32>, %b: tensor<?x2xf32>, %rows: !hir.rows,
    %cw: !hir.weight<128x4, f32>, %nw: !hir.weight<32, f32>, %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>)
    -> (tensor<?x2x32xf32>, tensor<?x128xf32>) {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %q0 = hir.slice %c[0, 32] : tensor<?x128xf32>
  %k0 = hir.slice %c[32, 32] : tensor<?x128xf32>
  %v0 = hir.slice %c[64, 64] : tensor<?x128xf32>
  %q = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  // expected-remark @below {{missed gated_delta: q, k and v do not come from one convolution of their own}}
  %o = hir.gated_delta %q, %k, %v, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %s = hir.activation silu %z : tensor<?x2x32xf32>
  %m = hir.mul %n, %s : tensor<?x2x32xf32>
  return %m, %c : tensor<?x2x32xf32>, tensor<?x128xf32>
}

// -----

// What the kernel would compute otherwise is no group: here the keys come first, ...
// CHECK-LABEL: func.func private @block_swapped
// CHECK-NOT: hir.fused
func.func private @block_swapped(%qkv: tensor<?x128xf32>, %z: tensor<?x64xf32>, %alpha: tensor<?x2xf32>, %beta: tensor<?x2xf32>,
    %rows: !hir.rows, %cw: !hir.weight<128x4, f32>, %a: !hir.weight<2, f32>, %dt: !hir.weight<2, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>) -> tensor<?x64xf32> {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %s = hir.activation silu %c : tensor<?x128xf32>
  %q0 = hir.slice %s[32, 32] : tensor<?x128xf32>
  %k0 = hir.slice %s[0, 32] : tensor<?x128xf32>
  %v0 = hir.slice %s[64, 64] : tensor<?x128xf32>
  %q1 = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x1x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x1x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
  %b = hir.activation sigmoid %beta : tensor<?x2xf32>
  // expected-remark @below {{missed gated_delta: the kernel does not execute this 'hir.slice': expected [0, 32]: queries, keys, values in turn}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %zs = hir.activation silu %z : tensor<?x64xf32>
  %zh = hir.reshape %zs : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %m = hir.mul %n, %zh : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// ... and here keys and queries have unit length in different ways.
// CHECK-LABEL: func.func private @block_two_eps
// CHECK-NOT: hir.fused
func.func private @block_two_eps(%qkv: tensor<?x128xf32>, %z: tensor<?x64xf32>, %alpha: tensor<?x2xf32>, %beta: tensor<?x2xf32>,
    %rows: !hir.rows, %cw: !hir.weight<128x4, f32>, %a: !hir.weight<2, f32>, %dt: !hir.weight<2, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>) -> tensor<?x64xf32> {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %s = hir.activation silu %c : tensor<?x128xf32>
  %q0 = hir.slice %s[0, 32] : tensor<?x128xf32>
  %k0 = hir.slice %s[32, 32] : tensor<?x128xf32>
  %v0 = hir.slice %s[64, 64] : tensor<?x128xf32>
  %q1 = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x1x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-5 : tensor<?x1x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
  %b = hir.activation sigmoid %beta : tensor<?x2xf32>
  // expected-remark @below {{missed gated_delta: the kernel does not execute this 'hir.l2_norm': its eps differs from the queries'}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %zs = hir.activation silu %z : tensor<?x64xf32>
  %zh = hir.reshape %zs : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %m = hir.mul %n, %zh : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// A linear that is cut into pieces is run in pieces, so the cuts stay with it.
// CHECK-LABEL: func.func private @block_cut
// CHECK: %[[B:.*]] = hir.slice %{{.*}}[0, 2]
// CHECK: %[[A:.*]] = hir.slice %{{.*}}[16, 2]
// CHECK: hir.fused.gated_delta %arg2 z %arg3 alpha %[[A]] beta %[[B]]
func.func private @block_cut(%x: tensor<?x16xf32>, %w: !hir.weight<32x16, f32>, %qkv: tensor<?x128xf32>, %z: tensor<?x64xf32>,
    %rows: !hir.rows, %cw: !hir.weight<128x4, f32>, %a: !hir.weight<2, f32>, %dt: !hir.weight<2, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>) -> tensor<?x64xf32> {
  %ab = hir.linear %x, %w : tensor<?x16xf32>, !hir.weight<32x16, f32>
  %beta = hir.slice %ab[0, 2] : tensor<?x32xf32>
  %alpha = hir.slice %ab[16, 2] : tensor<?x32xf32>
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %s = hir.activation silu %c : tensor<?x128xf32>
  %q0 = hir.slice %s[0, 32] : tensor<?x128xf32>
  %k0 = hir.slice %s[32, 32] : tensor<?x128xf32>
  %v0 = hir.slice %s[64, 64] : tensor<?x128xf32>
  %q1 = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x1x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x1x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
  %b = hir.activation sigmoid %beta : tensor<?x2xf32>
  // expected-remark @below {{fused gated_delta: 18 ops}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %zs = hir.activation silu %z : tensor<?x64xf32>
  %zh = hir.reshape %zs : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %m = hir.mul %n, %zh : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// The order of the heads is the kernel's: it is on the group.
// CHECK-LABEL: func.func private @block_grouped
// CHECK: hir.fused.gated_delta {{.*}} scale 1.700000e-01 heads grouped :
func.func private @block_grouped(%qkv: tensor<?x256xf32>, %z: tensor<?x128xf32>, %alpha: tensor<?x4xf32>, %beta: tensor<?x4xf32>,
    %rows: !hir.rows, %cw: !hir.weight<256x4, f32>, %a: !hir.weight<4, f32>, %dt: !hir.weight<4, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x256, f32>, %ds: !hir.state<delta, 4x32x32, f32>) -> tensor<?x128xf32> {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x256xf32>, !hir.weight<256x4, f32>, !hir.state<conv, 3x256, f32>
  %s = hir.activation silu %c : tensor<?x256xf32>
  %q0 = hir.slice %s[0, 64] : tensor<?x256xf32>
  %k0 = hir.slice %s[64, 64] : tensor<?x256xf32>
  %v0 = hir.slice %s[128, 128] : tensor<?x256xf32>
  %q1 = hir.reshape %q0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x128xf32> -> tensor<?x4x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x2x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x2x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x4xf32>, !hir.weight<4, f32>, !hir.weight<4, f32>
  %b = hir.activation sigmoid %beta : tensor<?x4xf32>
  // expected-remark @below {{fused gated_delta: 18 ops}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 heads grouped : tensor<?x2x32xf32>, tensor<?x4x32xf32>, tensor<?x4xf32>, !hir.state<delta, 4x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x4x32xf32>, !hir.weight<32, f32>
  %zs = hir.activation silu %z : tensor<?x128xf32>
  %zh = hir.reshape %zs : tensor<?x128xf32> -> tensor<?x4x32xf32>
  %m = hir.mul %n, %zh : tensor<?x4x32xf32>
  %y = hir.reshape %m : tensor<?x4x32xf32> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// -----

// The gate may be one over flat rows.
// CHECK-LABEL: func.func private @block_flat_gate
// CHECK: hir.fused.gated_delta %arg0 z %arg1 alpha %arg2 beta %arg3 {{.*}} -> tensor<?x64xf32> {
// CHECK-NOT: hir.fused
// CHECK: return
func.func private @block_flat_gate(%qkv: tensor<?x128xf32>, %z: tensor<?x64xf32>, %alpha: tensor<?x2xf32>, %beta: tensor<?x2xf32>,
    %rows: !hir.rows, %cw: !hir.weight<128x4, f32>, %a: !hir.weight<2, f32>, %dt: !hir.weight<2, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>) -> tensor<?x64xf32> {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %s = hir.activation silu %c : tensor<?x128xf32>
  %q0 = hir.slice %s[0, 32] : tensor<?x128xf32>
  %k0 = hir.slice %s[32, 32] : tensor<?x128xf32>
  %v0 = hir.slice %s[64, 64] : tensor<?x128xf32>
  %q1 = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x1x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x1x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
  %b = hir.activation sigmoid %beta : tensor<?x2xf32>
  // expected-remark @below {{fused gated_delta: 17 ops}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %nf = hir.reshape %n : tensor<?x2x32xf32> -> tensor<?x64xf32>
  %zs = hir.activation silu %z : tensor<?x64xf32>
  %m = hir.mul %nf, %zs : tensor<?x64xf32>
  return %m : tensor<?x64xf32>
}

// -----

// Its kernel takes a number for each row and head, not heads of one.
// CHECK-LABEL: func.func private @block_beta_heads
// CHECK-NOT: hir.fused
func.func private @block_beta_heads(%qkv: tensor<?x128xf32>, %z: tensor<?x64xf32>, %alpha: tensor<?x2xf32>, %beta: tensor<?x2x1xf32>,
    %rows: !hir.rows, %cw: !hir.weight<128x4, f32>, %a: !hir.weight<2, f32>, %dt: !hir.weight<2, f32>, %nw: !hir.weight<32, f32>,
    %cs: !hir.state<conv, 3x128, f32>, %ds: !hir.state<delta, 2x32x32, f32>) -> tensor<?x64xf32> {
  %c = hir.causal_conv1d %qkv, %cw, %cs, %rows : tensor<?x128xf32>, !hir.weight<128x4, f32>, !hir.state<conv, 3x128, f32>
  %s = hir.activation silu %c : tensor<?x128xf32>
  %q0 = hir.slice %s[0, 32] : tensor<?x128xf32>
  %k0 = hir.slice %s[32, 32] : tensor<?x128xf32>
  %v0 = hir.slice %s[64, 64] : tensor<?x128xf32>
  %q1 = hir.reshape %q0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %k1 = hir.reshape %k0 : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %v1 = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x2x32xf32>
  %q2 = hir.l2_norm %q1 eps 1.0e-6 : tensor<?x1x32xf32>
  %k2 = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x1x32xf32>
  %g = hir.gdn_decay %alpha, %a, %dt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
  %b0 = hir.activation sigmoid %beta : tensor<?x2x1xf32>
  %b = hir.reshape %b0 : tensor<?x2x1xf32> -> tensor<?x2xf32>
  // expected-remark @below {{missed gated_delta: the kernel does not execute this 'hir.activation': it is of 3 dimensions, a number for each row and head is needed}}
  %o = hir.gated_delta %q2, %k2, %v1, %g, %b, %ds, %rows scale 0.17 : tensor<?x1x32xf32>, tensor<?x2x32xf32>, tensor<?x2xf32>, !hir.state<delta, 2x32x32, f32>
  %n = hir.rms_norm %o, %nw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %nf = hir.reshape %n : tensor<?x2x32xf32> -> tensor<?x64xf32>
  %zs = hir.activation silu %z : tensor<?x64xf32>
  %m = hir.mul %nf, %zs : tensor<?x64xf32>
  return %m : tensor<?x64xf32>
}
