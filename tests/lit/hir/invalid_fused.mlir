// A body that says something else than its op, and one that no kernel executes.
// RUN: qcc-opt %s -split-input-file -verify-diagnostics

func.func @arguments(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.fused.norm_quant' op body takes ('tensor<?x64xf32>'), has operands of types ('tensor<?x64xf32>', '!hir.weight<64, f32>')}}
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>):
    %bn = hir.param "n" : !hir.weight<64, f32>
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
    hir.yield %q : tensor<?x64xf32, #hir.int8<32>>
  }
  return
}

// -----

func.func @yield_types(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.fused.norm_quant' op yields 1 values of types ('tensor<?x64xf32>'), has 1 results of types ('tensor<?x64xf32, #hir.int8<32>>')}}
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
    hir.yield %norm : tensor<?x64xf32>
  }
  return
}

// -----

func.func @terminator(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    // expected-error @+1 {{block with no terminator}}
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
  }
  return
}

// -----

func.func @eps(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.fused.norm_quant' op attribute "eps" is 9.99999974E-6 : f32, its body has 9.99999997E-7 : f32}}
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-5 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
    hir.yield %q : tensor<?x64xf32, #hir.int8<32>>
  }
  return
}

// -----

func.func @two_norms(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.fused.norm_quant' op the kernel does not execute this 'hir.rms_norm': it is a second one}}
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %norm2 = hir.rms_norm %norm, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
    hir.yield %q : tensor<?x64xf32, #hir.int8<32>>
  }
  return
}

// -----

func.func @no_norm(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.fused.norm_quant' op has no 'hir.rms_norm'}}
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.add %bx, %bx : tensor<?x64xf32>
    %q = hir.quantize %norm block 32 : tensor<?x64xf32>
    hir.yield %q : tensor<?x64xf32, #hir.int8<32>>
  }
  return
}

// -----

func.func @not_its_norm(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.fused.norm_quant' op the kernel does not execute this 'hir.quantize': it does not read the norm}}
  %u = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %norm = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %q = hir.quantize %bx block 32 : tensor<?x64xf32>
    hir.yield %q : tensor<?x64xf32, #hir.int8<32>>
  }
  return
}

// -----

func.func @merged_operand(%u_1: tensor<?x64xf32, #hir.int8<32>>, %u_0: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %b: !hir.weight<64x64, q8_0>, %s: !hir.weight<1, f32>, %t: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.merged_linear' op operand 'weights' is not what its body uses in that place}}
  %p:3 = hir.fused.merged_linear(%u_1, %u_1, %u_0) weights(%a, %b, %a) scales(%s, %t) attributes {note = "kept", scaled = array<i64: 0, 2>} : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>, !hir.weight<1, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  ^bb0(%x0: tensor<?x64xf32, #hir.int8<32>>, %x1: tensor<?x64xf32, #hir.int8<32>>, %x2: tensor<?x64xf32>, %w0: !hir.weight<64x64, q8_0>, %w1: !hir.weight<64x64, q8_0>, %w2: !hir.weight<64x64, q8_0>, %s0: !hir.weight<1, f32>, %s2: !hir.weight<1, f32>):
    %y0 = hir.linear %x0, %w2 scale %s0 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y1 = hir.linear %x0, %w2 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
    %y2 = hir.linear %x2, %w0 scale %s2 : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    hir.yield %y0, %y1, %y2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
  }
  return
}

// -----

func.func @merged_scale(%u_1: tensor<?x64xf32, #hir.int8<32>>, %u_0: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %b: !hir.weight<64x64, q8_0>, %s: !hir.weight<1, f32>, %t: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.merged_linear' op attribute "scaled" is array<i64: 0, 2>, its body has array<i64: 1, 2>}}
  %p:3 = hir.fused.merged_linear(%u_1, %u_1, %u_0) weights(%a, %b, %a) scales(%s, %t) attributes {note = "kept", scaled = array<i64: 0, 2>} : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>, !hir.weight<1, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  ^bb0(%x0: tensor<?x64xf32, #hir.int8<32>>, %x1: tensor<?x64xf32, #hir.int8<32>>, %x2: tensor<?x64xf32>, %w0: !hir.weight<64x64, q8_0>, %w1: !hir.weight<64x64, q8_0>, %w2: !hir.weight<64x64, q8_0>, %s0: !hir.weight<1, f32>, %s2: !hir.weight<1, f32>):
    %y0 = hir.linear %x0, %w2 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
    %y1 = hir.linear %x0, %w1 scale %s0 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y2 = hir.linear %x2, %w0 scale %s2 : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    hir.yield %y0, %y1, %y2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
  }
  return
}

// -----

func.func @merged_order(%u_1: tensor<?x64xf32, #hir.int8<32>>, %u_0: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %b: !hir.weight<64x64, q8_0>, %s: !hir.weight<1, f32>, %t: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.merged_linear' op gives 3 values that are not the results of its kernel}}
  %p:3 = hir.fused.merged_linear(%u_1, %u_1, %u_0) weights(%a, %b, %a) scales(%s, %t) attributes {note = "kept", scaled = array<i64: 0, 2>} : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>, !hir.weight<1, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>) {
  ^bb0(%x0: tensor<?x64xf32, #hir.int8<32>>, %x1: tensor<?x64xf32, #hir.int8<32>>, %x2: tensor<?x64xf32>, %w0: !hir.weight<64x64, q8_0>, %w1: !hir.weight<64x64, q8_0>, %w2: !hir.weight<64x64, q8_0>, %s0: !hir.weight<1, f32>, %s2: !hir.weight<1, f32>):
    %y0 = hir.linear %x0, %w2 scale %s0 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y1 = hir.linear %x0, %w1 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
    %y2 = hir.linear %x2, %w0 scale %s2 : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    hir.yield %y1, %y0, %y2 : tensor<?x64xf32>, tensor<?x64xf32>, tensor<?x64xf32>
  }
  return
}

// -----

func.func @swiglu_inputs(%p_0: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %b: !hir.weight<64x64, q8_0>, %s: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.linear_swiglu' op operand 'gate' is not what its body uses in that place}}
  %sw = hir.fused.linear_swiglu %p_0 gate %a up %b up_scale %s : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %ba: !hir.weight<64x64, q8_0>, %bb: !hir.weight<64x64, q8_0>, %bs: !hir.weight<1, f32>):
    %gate = hir.linear %bx, %bb : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
    %up = hir.linear %bx, %ba scale %bs : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y = hir.swiglu %gate, %up : tensor<?x64xf32>
    hir.yield %y : tensor<?x64xf32>
  }
  return
}

// -----

func.func @swiglu_one(%p_0: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %b: !hir.weight<64x64, q8_0>, %s: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.linear_swiglu' op the kernel does not execute this 'hir.linear': it is gate and up at once}}
  %sw = hir.fused.linear_swiglu %p_0 gate %a up %b up_scale %s : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %ba: !hir.weight<64x64, q8_0>, %bb: !hir.weight<64x64, q8_0>, %bs: !hir.weight<1, f32>):
    %gate = hir.linear %bx, %ba : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
    %up = hir.linear %bx, %bb scale %bs : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y = hir.swiglu %up, %up : tensor<?x64xf32>
    hir.yield %y : tensor<?x64xf32>
  }
  return
}

// -----

func.func @residual_itself(%sw: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %x: tensor<?x64xf32>, %s: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.linear_residual' op the kernel does not execute this 'hir.add': it does not add the linear to another value}}
  %r = hir.fused.linear_residual %sw weight %a residual %x scale %s : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, tensor<?x64xf32>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %bw: !hir.weight<64x64, q8_0>, %br: tensor<?x64xf32>, %bs: !hir.weight<1, f32>):
    %d = hir.linear %bx, %bw scale %bs : tensor<?x64xf32>, !hir.weight<64x64, q8_0>, !hir.weight<1, f32>
    %y = hir.add %d, %d : tensor<?x64xf32>
    hir.yield %y : tensor<?x64xf32>
  }
  return
}

// -----

func.func @residual_scale(%sw: tensor<?x64xf32>, %a: !hir.weight<64x64, q8_0>, %x: tensor<?x64xf32>, %s: !hir.weight<1, f32>) {
  // expected-error @+1 {{'hir.fused.linear_residual' op has 4 operands, its body uses 3}}
  %r = hir.fused.linear_residual %sw weight %a residual %x scale %s : (tensor<?x64xf32>, !hir.weight<64x64, q8_0>, tensor<?x64xf32>, !hir.weight<1, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %bw: !hir.weight<64x64, q8_0>, %br: tensor<?x64xf32>, %bs: !hir.weight<1, f32>):
    %d = hir.linear %bx, %bw : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
    %y = hir.add %d, %br : tensor<?x64xf32>
    hir.yield %y : tensor<?x64xf32>
  }
  return
}

// -----

func.func @delta_gates(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op operand 'alpha' is not what its body uses in that place}}
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
    %g = hir.gdn_decay %bb, %bw, %bdt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
    %beta = hir.activation sigmoid %ba : tensor<?x2xf32>
    %o0 = hir.gated_delta %q, %k, %v, %g, %beta, %bds, %brows scale 0.5 : tensor<?x1x2xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, !hir.state<delta, 2x2x2, f32>
    %o1 = hir.rms_norm %o0, %bnw eps 1.0e-5 : tensor<?x2x2xf32>, !hir.weight<2, f32>
    %s = hir.activation silu %bz : tensor<?x2x2xf32>
    %m = hir.mul %s, %o1 : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return
}

// -----

func.func @delta_heads(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op the kernel does not execute this 'hir.l2_norm' of tensor<?x2xf32>: its result is needed as tensor<?x1x2xf32>}}
  %o = hir.fused.gated_delta %qkv z %z alpha %a beta %b conv %cw ssm_a %w dt_bias %w norm %w states %cs, %ds rows %rows l2_eps 1.0e-6 l2_form max norm_eps 1.0e-5 scale 0.5 : (tensor<?x8xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, !hir.weight<8x4, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.state<conv, 3x8, f32>, !hir.state<delta, 2x2x2, f32>, !hir.rows) -> tensor<?x4xf32> {
  ^bb0(%bqkv: tensor<?x8xf32>, %bz: tensor<?x2x2xf32>, %ba: tensor<?x2xf32>, %bb: tensor<?x2xf32>, %bcw: !hir.weight<8x4, f32>, %bw: !hir.weight<2, f32>, %bdt: !hir.weight<2, f32>, %bnw: !hir.weight<2, f32>, %bcs: !hir.state<conv, 3x8, f32>, %bds: !hir.state<delta, 2x2x2, f32>, %brows: !hir.rows):
    %c0 = hir.causal_conv1d %bqkv, %bcw, %bcs, %brows : tensor<?x8xf32>, !hir.weight<8x4, f32>, !hir.state<conv, 3x8, f32>
    %c = hir.activation silu %c0 : tensor<?x8xf32>
    %q0 = hir.slice %c[0, 2] : tensor<?x8xf32>
    %k0 = hir.slice %c[2, 2] : tensor<?x8xf32>
    %v0 = hir.slice %c[4, 4] : tensor<?x8xf32>
    %q1 = hir.l2_norm %q0 eps 1.0e-6 form max : tensor<?x2xf32>
    %k1 = hir.reshape %k0 : tensor<?x2xf32> -> tensor<?x1x2xf32>
    %v = hir.reshape %v0 : tensor<?x4xf32> -> tensor<?x2x2xf32>
    %q = hir.reshape %q1 : tensor<?x2xf32> -> tensor<?x1x2xf32>
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
  return
}

// -----

func.func @delta_form(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op the kernel does not execute this 'hir.l2_norm': its form differs from the queries'}}
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
    %k = hir.l2_norm %k1 eps 1.0e-6 : tensor<?x1x2xf32>
    %g = hir.gdn_decay %ba, %bw, %bdt : tensor<?x2xf32>, !hir.weight<2, f32>, !hir.weight<2, f32>
    %beta = hir.activation sigmoid %bb : tensor<?x2xf32>
    %o0 = hir.gated_delta %q, %k, %v, %g, %beta, %bds, %brows scale 0.5 : tensor<?x1x2xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, !hir.state<delta, 2x2x2, f32>
    %o1 = hir.rms_norm %o0, %bnw eps 1.0e-5 : tensor<?x2x2xf32>, !hir.weight<2, f32>
    %s = hir.activation silu %bz : tensor<?x2x2xf32>
    %m = hir.mul %s, %o1 : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return
}

// -----

func.func @delta_forms(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op attribute "l2_form" is #hir<l2_form sum>, its body has #hir<l2_form max>}}
  %o = hir.fused.gated_delta %qkv z %z alpha %a beta %b conv %cw ssm_a %w dt_bias %w norm %w states %cs, %ds rows %rows l2_eps 1.0e-6 l2_form sum norm_eps 1.0e-5 scale 0.5 : (tensor<?x8xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, !hir.weight<8x4, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.state<conv, 3x8, f32>, !hir.state<delta, 2x2x2, f32>, !hir.rows) -> tensor<?x4xf32> {
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
  return
}

// -----

func.func @delta_slices(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op the kernel does not execute this 'hir.slice': expected [0, 2]: queries, keys, values in turn}}
  %o = hir.fused.gated_delta %qkv z %z alpha %a beta %b conv %cw ssm_a %w dt_bias %w norm %w states %cs, %ds rows %rows l2_eps 1.0e-6 l2_form max norm_eps 1.0e-5 scale 0.5 : (tensor<?x8xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, !hir.weight<8x4, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.state<conv, 3x8, f32>, !hir.state<delta, 2x2x2, f32>, !hir.rows) -> tensor<?x4xf32> {
  ^bb0(%bqkv: tensor<?x8xf32>, %bz: tensor<?x2x2xf32>, %ba: tensor<?x2xf32>, %bb: tensor<?x2xf32>, %bcw: !hir.weight<8x4, f32>, %bw: !hir.weight<2, f32>, %bdt: !hir.weight<2, f32>, %bnw: !hir.weight<2, f32>, %bcs: !hir.state<conv, 3x8, f32>, %bds: !hir.state<delta, 2x2x2, f32>, %brows: !hir.rows):
    %c0 = hir.causal_conv1d %bqkv, %bcw, %bcs, %brows : tensor<?x8xf32>, !hir.weight<8x4, f32>, !hir.state<conv, 3x8, f32>
    %c = hir.activation silu %c0 : tensor<?x8xf32>
    %q0 = hir.slice %c[2, 2] : tensor<?x8xf32>
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
  return
}

// -----

func.func @delta_gate(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op the kernel does not execute this 'hir.activation': sigmoid instead of silu}}
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
    %s = hir.activation sigmoid %bz : tensor<?x2x2xf32>
    %m = hir.mul %s, %o1 : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return
}

// -----

func.func @delta_beta(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op needs 'hir.activation' in front of 'hir.gated_delta', found an argument}}
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
    %o0 = hir.gated_delta %q, %k, %v, %g, %bb, %bds, %brows scale 0.5 : tensor<?x1x2xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, !hir.state<delta, 2x2x2, f32>
    %o1 = hir.rms_norm %o0, %bnw eps 1.0e-5 : tensor<?x2x2xf32>, !hir.weight<2, f32>
    %s = hir.activation silu %bz : tensor<?x2x2xf32>
    %m = hir.mul %s, %o1 : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return
}

// -----

func.func @delta_scale(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op attribute "scale" is 2.500000e-01 : f32, its body has 5.000000e-01 : f32}}
  %o = hir.fused.gated_delta %qkv z %z alpha %a beta %b conv %cw ssm_a %w dt_bias %w norm %w states %cs, %ds rows %rows l2_eps 1.0e-6 l2_form max norm_eps 1.0e-5 scale 0.25 : (tensor<?x8xf32>, tensor<?x2x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>, !hir.weight<8x4, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.weight<2, f32>, !hir.state<conv, 3x8, f32>, !hir.state<delta, 2x2x2, f32>, !hir.rows) -> tensor<?x4xf32> {
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
  return
}

// -----

func.func @delta_extra(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op the kernel does not execute this 'hir.add': it is not part of what the kernel computes}}
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
    %extra = hir.add %o1, %o1 : tensor<?x2x2xf32>
    %m = hir.mul %s, %o1 : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return
}

// -----

func.func @delta_silu(%qkv: tensor<?x8xf32>, %z: tensor<?x2x2xf32>, %a: tensor<?x2xf32>, %b: tensor<?x2xf32>, %cw: !hir.weight<8x4, f32>, %w: !hir.weight<2, f32>, %cs: !hir.state<conv, 3x8, f32>, %ds: !hir.state<delta, 2x2x2, f32>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_delta' op the kernel does not execute this 'hir.mul': it does not gate the norm}}
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
    %m = hir.mul %s, %s : tensor<?x2x2xf32>
    %y = hir.reshape %m : tensor<?x2x2xf32> -> tensor<?x4xf32>
    hir.yield %y : tensor<?x4xf32>
  }
  return
}

// -----

func.func @qk_eps(%qg: tensor<?x64xf32>, %k: tensor<?x16xf32>, %w: !hir.weight<16, f32>, %rope: tensor<?x8xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.qk_norm_rope_store' op the kernel does not execute this 'hir.rms_norm': its eps differs from the queries'}}
  %q = hir.fused.qk_norm_rope_store %qg k %k v %k q_norm %w k_norm %w rope %rope state %kv rows %rows eps 1.0e-6 : (tensor<?x64xf32>, tensor<?x16xf32>, tensor<?x16xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x64xf32>, %bk: tensor<?x16xf32>, %bv: tensor<?x16xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %q0 = hir.reshape %bq : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %q1 = hir.slice %q0[0, 16] : tensor<?x2x32xf32>
    %k1 = hir.reshape %bk : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %v = hir.reshape %bv : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %q2 = hir.rms_norm %q1, %bqw eps 1.0e-6 : tensor<?x2x16xf32>, !hir.weight<16, f32>
    %k2 = hir.rms_norm %k1, %bkw eps 1.0e-5 : tensor<?x1x16xf32>, !hir.weight<16, f32>
    %q3 = hir.rope %q2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
    %k3 = hir.rope %k2, %brope : tensor<?x1x16xf32>, tensor<?x8xf32>
    hir.kv_store %k3, %v, %bkv, %brows : tensor<?x1x16xf32>, !hir.state<kv, 1x16, f16>
    hir.yield %q3 : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @qk_halves(%qg: tensor<?x64xf32>, %k: tensor<?x16xf32>, %w: !hir.weight<16, f32>, %rope: tensor<?x8xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.qk_norm_rope_store' op the kernel does not execute this 'hir.slice': queries are the first half of each head of 2 x 16}}
  %q = hir.fused.qk_norm_rope_store %qg k %k v %k q_norm %w k_norm %w rope %rope state %kv rows %rows eps 1.0e-6 : (tensor<?x64xf32>, tensor<?x16xf32>, tensor<?x16xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x64xf32>, %bk: tensor<?x16xf32>, %bv: tensor<?x16xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %q0 = hir.reshape %bq : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %q1 = hir.slice %q0[16, 16] : tensor<?x2x32xf32>
    %k1 = hir.reshape %bk : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %v = hir.reshape %bv : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %q2 = hir.rms_norm %q1, %bqw eps 1.0e-6 : tensor<?x2x16xf32>, !hir.weight<16, f32>
    %k2 = hir.rms_norm %k1, %bkw eps 1.0e-6 : tensor<?x1x16xf32>, !hir.weight<16, f32>
    %q3 = hir.rope %q2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
    %k3 = hir.rope %k2, %brope : tensor<?x1x16xf32>, tensor<?x8xf32>
    hir.kv_store %k3, %v, %bkv, %brows : tensor<?x1x16xf32>, !hir.state<kv, 1x16, f16>
    hir.yield %q3 : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @qk_quarters(%qg: tensor<?x128xf32>, %k: tensor<?x16xf32>, %w: !hir.weight<16, f32>, %rope: tensor<?x8xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.qk_norm_rope_store' op the kernel does not execute this 'hir.slice': queries are the first half of each head of 2 x 16}}
  %q = hir.fused.qk_norm_rope_store %qg k %k v %k q_norm %w k_norm %w rope %rope state %kv rows %rows eps 1.0e-6 : (tensor<?x128xf32>, tensor<?x16xf32>, tensor<?x16xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x128xf32>, %bk: tensor<?x16xf32>, %bv: tensor<?x16xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %q0 = hir.reshape %bq : tensor<?x128xf32> -> tensor<?x4x32xf32>
    %cut = hir.slice %q0[0, 8] : tensor<?x4x32xf32>
    %q1 = hir.reshape %cut : tensor<?x4x8xf32> -> tensor<?x2x16xf32>
    %k1 = hir.reshape %bk : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %v = hir.reshape %bv : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %q2 = hir.rms_norm %q1, %bqw eps 1.0e-6 : tensor<?x2x16xf32>, !hir.weight<16, f32>
    %k2 = hir.rms_norm %k1, %bkw eps 1.0e-6 : tensor<?x1x16xf32>, !hir.weight<16, f32>
    %q3 = hir.rope %q2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
    %k3 = hir.rope %k2, %brope : tensor<?x1x16xf32>, tensor<?x8xf32>
    hir.kv_store %k3, %v, %bkv, %brows : tensor<?x1x16xf32>, !hir.state<kv, 1x16, f16>
    hir.yield %q3 : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @qk_swapped(%qg: tensor<?x64xf32>, %k: tensor<?x16xf32>, %w: !hir.weight<16, f32>, %other: !hir.weight<16, f32>, %rope: tensor<?x8xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.qk_norm_rope_store' op operand 'q_norm' is not what its body uses in that place}}
  %q = hir.fused.qk_norm_rope_store %qg k %k v %k q_norm %other k_norm %w rope %rope state %kv rows %rows eps 1.0e-6 : (tensor<?x64xf32>, tensor<?x16xf32>, tensor<?x16xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x64xf32>, %bk: tensor<?x16xf32>, %bv: tensor<?x16xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %q0 = hir.reshape %bq : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %q1 = hir.slice %q0[0, 16] : tensor<?x2x32xf32>
    %k1 = hir.reshape %bk : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %v = hir.reshape %bv : tensor<?x16xf32> -> tensor<?x1x16xf32>
    %q2 = hir.rms_norm %q1, %bkw eps 1.0e-6 : tensor<?x2x16xf32>, !hir.weight<16, f32>
    %k2 = hir.rms_norm %k1, %bkw eps 1.0e-6 : tensor<?x1x16xf32>, !hir.weight<16, f32>
    %q3 = hir.rope %q2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
    %k3 = hir.rope %k2, %brope : tensor<?x1x16xf32>, tensor<?x8xf32>
    hir.kv_store %k3, %v, %bkv, %brows : tensor<?x1x16xf32>, !hir.state<kv, 1x16, f16>
    hir.yield %q3 : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @attention_gate(%q: tensor<?x2x16xf32>, %qg: tensor<?x64xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_attention' op the kernel does not execute this 'hir.activation': gates are the second half of each head of 2 x 16}}
  %o = hir.fused.gated_attention %q gate %qg state %kv rows %rows scale 0.25 : (tensor<?x2x16xf32>, tensor<?x64xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x2x16xf32>, %bg: tensor<?x64xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x2x16xf32>, !hir.state<kv, 1x16, f16>
    %g0 = hir.reshape %bg : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %g1 = hir.slice %g0[0, 16] : tensor<?x2x32xf32>
    %g2 = hir.activation sigmoid %g1 : tensor<?x2x16xf32>
    %o1 = hir.mul %g2, %o0 : tensor<?x2x16xf32>
    hir.yield %o1 : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @attention_silu(%q: tensor<?x2x16xf32>, %qg: tensor<?x64xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_attention' op the kernel does not execute this 'hir.activation': silu instead of sigmoid}}
  %o = hir.fused.gated_attention %q gate %qg state %kv rows %rows scale 0.25 : (tensor<?x2x16xf32>, tensor<?x64xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x2x16xf32>, %bg: tensor<?x64xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x2x16xf32>, !hir.state<kv, 1x16, f16>
    %g0 = hir.reshape %bg : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %g1 = hir.slice %g0[16, 16] : tensor<?x2x32xf32>
    %g2 = hir.activation silu %g1 : tensor<?x2x16xf32>
    %o1 = hir.mul %g2, %o0 : tensor<?x2x16xf32>
    hir.yield %o1 : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @attention_result(%q: tensor<?x2x16xf32>, %qg: tensor<?x64xf32>, %kv: !hir.state<kv, 1x16, f16>, %rows: !hir.rows) {
  // expected-error @+1 {{'hir.fused.gated_attention' op the kernel does not execute this 'hir.attention': it is not what is needed of these ops}}
  %o = hir.fused.gated_attention %q gate %qg state %kv rows %rows scale 0.25 : (tensor<?x2x16xf32>, tensor<?x64xf32>, !hir.state<kv, 1x16, f16>, !hir.rows) -> tensor<?x2x16xf32> {
  ^bb0(%bq: tensor<?x2x16xf32>, %bg: tensor<?x64xf32>, %bkv: !hir.state<kv, 1x16, f16>, %brows: !hir.rows):
    %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x2x16xf32>, !hir.state<kv, 1x16, f16>
    %g0 = hir.reshape %bg : tensor<?x64xf32> -> tensor<?x2x32xf32>
    %g1 = hir.slice %g0[16, 16] : tensor<?x2x32xf32>
    %g2 = hir.activation sigmoid %g1 : tensor<?x2x16xf32>
    %o1 = hir.mul %g2, %o0 : tensor<?x2x16xf32>
    hir.yield %bq : tensor<?x2x16xf32>
  }
  return
}

// -----

func.func @yield_parent(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'hir.yield' op expects parent op to be one of 'hir.fused.norm_quant, hir.fused.merged_linear, hir.fused.linear_swiglu, hir.fused.linear_residual, hir.fused.gated_delta, hir.fused.qk_norm_rope_store, hir.fused.gated_attention, hir.fused.moe'}}
  hir.yield
}

// -----

func.func @moe_top_k(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op attribute "top_k" is 3 : i64, its body has 2 : i64}}
  %y = hir.fused.moe %x router %r softmax top_k 3 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_gating(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op attribute "gating" is #hir<gating sigmoid>, its body has #hir<gating softmax>}}
  %y = hir.fused.moe %x router %r sigmoid top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_block(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op attribute "hidden_block" is 64 : i64, its body has 32 : i64}}
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 64 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_no_experts(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op has no 'hir.moe_experts'}}
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bq: tensor<?x64xf32, #hir.int8<32>>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bus: !hir.weight<1, f32>, %bsq: tensor<?x64xf32, #hir.int8<32>>, %bsg: !hir.weight<96x64, q8_0>, %bsu: !hir.weight<96x64, q8_0>, %bsd: !hir.weight<64x96, q8_0>, %bsr: !hir.weight<1x64, f32>, %bsds: !hir.weight<1, f32>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bx, %br : tensor<?x64xf32>, !hir.weight<8x64, f32>
    %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
    %e = hir.add %bx, %bx : tensor<?x64xf32>
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_other_weights(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.moe_experts': its weights are not those of the ids}}
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bq: tensor<?x64xf32, #hir.int8<32>>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bus: !hir.weight<1, f32>, %bsq: tensor<?x64xf32, #hir.int8<32>>, %bsg: !hir.weight<96x64, q8_0>, %bsu: !hir.weight<96x64, q8_0>, %bsd: !hir.weight<64x96, q8_0>, %bsr: !hir.weight<1x64, f32>, %bsds: !hir.weight<1, f32>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bx, %br : tensor<?x64xf32>, !hir.weight<8x64, f32>
    %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
    %w2 = hir.activation silu %w : tensor<?x2xf32>
    %e = hir.moe_experts %bq, %ids, %w2 gate %bg up %bu down %bd up_scale %bus hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>) -> tensor<?x64xf32>
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_router_scale(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.linear': it has a scale}}
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bq: tensor<?x64xf32, #hir.int8<32>>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bus: !hir.weight<1, f32>, %bsq: tensor<?x64xf32, #hir.int8<32>>, %bsg: !hir.weight<96x64, q8_0>, %bsu: !hir.weight<96x64, q8_0>, %bsd: !hir.weight<64x96, q8_0>, %bsr: !hir.weight<1x64, f32>, %bsds: !hir.weight<1, f32>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bx, %br scale %bus : tensor<?x64xf32>, !hir.weight<8x64, f32>, !hir.weight<1, f32>
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_rounded_router(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.linear': its input is rounded}}
  %y = hir.fused.moe %x router %r softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 experts %q gate %g up %g down %d up_scale %s hidden_block 32 shared %q gate %sg up %sg down %sd router %sr shared_down_scale %s shared_hidden_block 32 residual %res : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.weight<1, f32>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.weight<1x64, f32>, !hir.weight<1, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bq: tensor<?x64xf32, #hir.int8<32>>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bus: !hir.weight<1, f32>, %bsq: tensor<?x64xf32, #hir.int8<32>>, %bsg: !hir.weight<96x64, q8_0>, %bsu: !hir.weight<96x64, q8_0>, %bsd: !hir.weight<64x96, q8_0>, %bsr: !hir.weight<1x64, f32>, %bsds: !hir.weight<1, f32>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bq, %br : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<8x64, f32>
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
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_open_gate(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.activation': silu instead of sigmoid}}
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
    %sf = hir.activation silu %sl : tensor<?x1xf32>
    %ss = hir.scale_rows %so by %sf : tensor<?x64xf32>, tensor<?x1xf32>
    %sum = hir.add %e, %ss : tensor<?x64xf32>
    %out = hir.add %bres, %sum : tensor<?x64xf32>
    hir.yield %out : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_shared_input(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.linear': its input is not the router's}}
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
    %sl = hir.linear %bres, %bsr : tensor<?x64xf32>, !hir.weight<1x64, f32>
    %sf = hir.activation sigmoid %sl : tensor<?x1xf32>
    %ss = hir.scale_rows %so by %sf : tensor<?x64xf32>, tensor<?x1xf32>
    %sum = hir.add %e, %ss : tensor<?x64xf32>
    %out = hir.add %bres, %sum : tensor<?x64xf32>
    hir.yield %out : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_shared_first(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.scale_rows': it is not what is added to the experts' sum}}
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
    %sum = hir.add %e, %bres : tensor<?x64xf32>
    %out = hir.add %ss, %sum : tensor<?x64xf32>
    hir.yield %out : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}

// -----

func.func @moe_residual_twice(%x: tensor<?x64xf32>, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %sg: !hir.weight<96x64, q8_0>, %sd: !hir.weight<64x96, q8_0>,
                   %sr: !hir.weight<1x64, f32>, %s: !hir.weight<1, f32>, %res: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @+1 {{'hir.fused.moe' op the kernel does not execute this 'hir.add': it does not add the sum to another value}}
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
    %out = hir.add %so, %sum : tensor<?x64xf32>
    hir.yield %out : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}
