// Every fused op through the parser and printer, in the custom and in the generic form.
// RUN: qcc-opt %s | FileCheck %s
// RUN: qcc-opt %s | qcc-opt | FileCheck %s
// RUN: qcc-opt --mlir-print-op-generic %s | qcc-opt | FileCheck %s

// CHECK-LABEL: func.func @linears
func.func @linears(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>, %a: !hir.weight<64x64, q8_0>, %b: !hir.weight<64x64, q8_0>,
                   %s: !hir.weight<1, f32>, %t: !hir.weight<1, f32>) -> tensor<?x64xf32> {
  // CHECK: %[[U:.*]], %[[I:.*]] = hir.fused.norm_quant %arg0 weight %arg1 eps 9.99999997E-7 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<?x64xf32>, %{{.*}}: !hir.weight<64, f32>):
  // CHECK: hir.yield %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>
  %u:2 = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>) {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
    hir.yield %norm, %q : tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>
  }
  // Two arguments for one value may stand in for each other.
  // CHECK: %[[P:.*]]:3 = hir.fused.merged_linear(%[[I]], %[[I]], %[[U]]) weights(%arg2, %arg3, %arg2) scales(%arg4, %arg5) attributes {note = "kept", scaled = array<i64: 0, 2>} :
  %p:3 = hir.fused.merged_linear(%u#1, %u#1, %u#0) weights(%a, %b, %a) scales(%s, %t) attributes {note = "kept", scaled = array<i64: 0, 2>} : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>, !hir.weight<1, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  ^bb0(%x0: tensor<?x64xf32, #hir.int8<32>>, %x1: tensor<?x64xf32, #hir.int8<32>>, %x2: tensor<?x64xf32>, %w0: !hir.weight<64x64, q8_0>, %w1: !hir.weight<64x64, q8_0>, %w2: !hir.weight<64x64, q8_0>, %s0: !hir.weight<1, f32>, %s2: !hir.weight<1, f32>):
    %y0 = hir.linear %x0, %w2 scale %s0 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y1 = hir.linear %x0, %w1 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
    %y2 = hir.linear %x2, %w0 scale %s2 : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    hir.yield %y0, %y1, %y2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
  }
  // CHECK: %[[S:.*]] = hir.fused.linear_swiglu %[[P]]#0 gate %arg2 up %arg3 up_scale %arg4 : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  %sw = hir.fused.linear_swiglu %p#0 gate %a up %b up_scale %s : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %ba: !hir.weight<64x64, q8_0>, %bb: !hir.weight<64x64, q8_0>, %bs: !hir.weight<1, f32>):
    %gate = hir.linear %bx, %ba : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
    %up = hir.linear %bx, %bb scale %bs : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y = hir.swiglu %gate, %up : tensor<?x64xf32>
    hir.yield %y : tensor<?x64xf32>
  }
  // CHECK: hir.fused.linear_residual %[[S]] weight %arg2 residual %arg0 scale %arg4 : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, tensor<?x64xf32>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  %r = hir.fused.linear_residual %sw weight %a residual %x scale %s : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, tensor<?x64xf32>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %bw: !hir.weight<64x64, q8_0>, %br: tensor<?x64xf32>, %bs: !hir.weight<1, f32>):
    %d = hir.linear %bx, %bw scale %bs : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y = hir.add %d, %br : tensor<?x64xf32>
    hir.yield %y : tensor<?x64xf32>
  }
  return %r : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @delta_net
func.func @delta_net(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>,
                     %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) -> tensor<?x4xf32> {
  // CHECK: hir.fused.gated_delta %arg0 z %arg1 alpha %arg2 beta %arg3 conv %arg4 ssm_a %arg5 dt_bias %arg5 norm %arg5 states %arg6, %arg7 rows %arg8 l2_eps 9.99999997E-7 l2_form max norm_eps 9.99999974E-6 scale 5.000000e-01 :
  %o = hir.fused.gated_delta %qkv z %z alpha %a beta %b conv %cw ssm_a %w dt_bias %w norm %w states %cs, %ds rows %rows l2_eps 1.0e-6 l2_form max norm_eps 1.0e-5 scale 0.5 : (tensor<?x8xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, !hir.weight<8x4, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.state<conv, 3x8, f32>, !hir.state<delta, 2x2x2, f32>, !hir.rows) -> tensor<?x4xf32> {
  ^bb0(%bqkv: tensor<?x8xf32>, %bz: tensor<?x2x2xf32>, %ba: tensor<?x2xf32>, %bb: tensor<?x2xf32>, %bcw: !hir.weight<8x4, f32>, %bw: !hir.weight<2, f32>, %bdt: !hir.weight<2, f32>, %bnw: !hir.weight<2, f32>, %bcs: !hir.state<conv, 3x8, f32>, %bds: !hir.state<delta, 2x2x2, f32>, %brows: !hir.rows):
    %c0 = hir.causal_conv1d %bqkv, %bcw, %bcs, %brows : tensor<?x8xf32>, !hir.weight<8x4, f32>, !hir.state<conv, 3x8, f32>
    %c = hir.activation silu %c0 : tensor<?x8xf32>
    %q0 = hir.slice %c[0, 2] : tensor<?x8xf32>
    %k0 = hir.slice %c[2, 2] : tensor<?x8xf32>
    %v0 = hir.slice %c[4, 4] : tensor<?x8xf32>
    %q1 = hir.reshape %q0 : tensor<?x2xf32> -> tensor<?x1x2xf32>
    %k1 = hir.reshape %k0 : tensor<?x2xf32> -> tensor<?x1x2xf32>
    %v = hir.reshape %v0 : tensor<?x4xf32> -> tensor<?x2x2xf32>
    %q = hir.l2_norm %q1 eps 1.0e-6 form max : tensor<?x1x2xf32>
    %k = hir.l2_norm %k1 eps 1.0e-6 form max : tensor<?x1x2xf32>
    %g = hir.gdn_decay %ba, %bw, %bdt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
    %beta = hir.activation sigmoid %bb : tensor<?x2xf32>
    %o0 = hir.gated_delta %q, %k, %v, %g, %beta, %bds, %brows scale 0.5 : tensor<?x1x2xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, !hir.state<delta, 2x2x2, f32>
    %o1 = hir.rms_norm %o0, %bnw eps 1.0e-5 : tensor<?x2x2xf32>, !hir.weight<2, f32>
    %s = hir.activation silu %bz : tensor<?x2x2xf32>
    %m = hir.mul %s, %o1 : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return %o : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%qg: tensor<?x64xf32>, %k: tensor<?x16xf32>, %w: !hir.weight<16, f32>, %rope: tensor<?x8xf32>,
                     %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) -> tensor<?x2x16xf32> {
  // CHECK: %[[Q:.*]] = hir.fused.qk_norm_rope_store %arg0 k %arg1 v %arg1 q_norm %arg2 k_norm %arg2 rope %arg3 state %arg4 rows %arg5 eps 9.99999997E-7 :
  %q = hir.fused.qk_norm_rope_store %qg k %k v %k q_norm %w k_norm %w rope %rope state %kv rows %rows eps 1.0e-6 : (tensor<?x64xf32>, tensor<?x16xf32>, tensor<?x16xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x64xf32>, %bk: tensor<?x16xf32>, %bv: tensor<?x16xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %q0 = hir.reshape %bq : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %q1 = hir.slice %q0[0, 16] : tensor<?x2x32xf32>
    %k1 = hir.reshape %bk : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %v = hir.reshape %bv : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %q2 = hir.rms_norm %q1, %bqw eps 1.0e-6 : tensor<?x2x16xf32>, !hir.weight<16, f32>
    %k2 = hir.rms_norm %k1, %bkw eps 1.0e-6 : tensor<?x1x16xf32>, !hir.weight<16, f32>
    %q3 = hir.rope %q2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
    %k3 = hir.rope %k2, %brope : tensor<?x1x16xf32>, tensor<?x8xf32>
    hir.kv_store %k3, %v, %bkv, %brows : tensor<?x1x16xf32>, !hir.state<kv, 1x16, f16>
    hir.yield %q3 : tensor<?x2x16xf32>
  }
  // CHECK: %[[O:.*]] = hir.fused.gated_attention %[[Q]] gate %arg0 state %arg4 rows %arg5 scale 2.500000e-01 :
  %o = hir.fused.gated_attention %q gate %qg state %kv rows %rows scale 0.25 : (tensor<?x2x16xf32>, tensor<?x64xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x2x16xf32>, %bg: tensor<?x64xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x2x16xf32>, !hir.state<kv, 1x16, f16>
    %g0 = hir.reshape %bg : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %g1 = hir.slice %g0[16, 16] : tensor<?x2x32xf32>
    %g2 = hir.activation sigmoid %g1 : tensor<?x2x16xf32>
    %o1 = hir.mul %g2, %o0 : tensor<?x2x16xf32>
    hir.yield %o1 : tensor<?x2x16xf32>
  }
  // CHECK: hir.fused.gated_attention %[[O]] state %arg4 rows %arg5 scale 2.500000e-01 :
  %p = hir.fused.gated_attention %o state %kv rows %rows scale 0.25 : (tensor<?x2x16xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x2x16xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x2x16xf32>, !hir.state<kv, 1x16, f16>
    hir.yield %o0 : tensor<?x2x16xf32>
  }
  return %p : tensor<?x2x16xf32>
}

// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // CHECK: %[[Y:.*]] = hir.fused.moe %arg0 router %arg1 softmax top_k 2 normalise true floor 6.1035{{.*}} scale 1.000000e+00 experts %[[Q:.*]] gate %arg2 up %arg2 down %arg3 up_scale %arg7 hidden_block 32 shared %[[Q]] gate %arg4 up %arg4 down %arg5 router %arg6 shared_down_scale %arg7 shared_hidden_block 32 residual %arg8 :
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bq: tensor<?x64xf32, #hir.int8<32>>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bus: !hir.weight<1, f32>, %bsq: tensor<?x64xf32, #hir.int8<32>>, %bsg: !hir.weight<96x64, q8_0>, %bsu: !hir.weight<96x64, q8_0>, %bsd: !hir.weight<64x96, q8_0>, %bsr: !hir.weight<1x64, f32>, %bsds: !hir.weight<1, f32>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bx, %br : tensor<?x64xf32>, !hir.weight<8x64, f32>
    %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
    %e = hir.moe_experts %bq, %ids, %w gate %bg up %bu down %bd up_scale %bus hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>) -> tensor<?x64xf32>
    %sg0 = hir.linear %bsq, %bsg : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
    %su0 = hir.linear %bsq, %bsu : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
    %sh = hir.swiglu %sg0, %su0 : tensor<?x96xf32>
    %shq = hir.quantize %sh block 32 : tensor<?x96xf32>
    %so = hir.linear %shq, %bsd scale %bsds : tensor<?x96xf32, #hir.int8<32>>, !hir.weight<64x96, q8_0>, !hir.weight<1, f32>
    %sl = hir.linear %bx, %bsr : tensor<?x64xf32>, !hir.weight<1x64, f32>
    %sf = hir.activation sigmoid %sl : tensor<?x1xf32>
    %ss = hir.scale_rows %so by %sf : tensor<?x64xf32>, tensor<?x1xf32>
    %sum = hir.add %e, %ss : tensor<?x64xf32>
    %out = hir.add %bres, %sum : tensor<?x64xf32>
    hir.yield %out : tensor<?x64xf32>
  }
  // CHECK: hir.fused.moe %arg0 router %arg1 sigmoid top_k 8 normalise false floor 5.000000e-01 scale 2.500000e+00 experts %arg0 gate %arg2 up %arg2 down %arg3 :
  %z = hir.fused.moe %x router %r sigmoid top_k 8 normalise false floor 5.0e-01 scale 2.5 experts %x gate %g up %g down %d : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bex: tensor<?x64xf32>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>):
    %l = hir.linear %bx, %br : tensor<?x64xf32>, !hir.weight<8x64, f32>
    %ids, %w = hir.moe_route %l sigmoid top_k 8 normalise false floor 0.5 scale 2.5 : tensor<?x8xf32>
    %e = hir.moe_experts %bx, %ids, %w gate %bg up %bg down %bd : (tensor<?x64xf32>, tensor<?x8xi32>, tensor<?x8xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
    hir.yield %e : tensor<?x64xf32>
  }
  return %y, %z : tensor<?x64xf32>, tensor<?x64xf32>
}
