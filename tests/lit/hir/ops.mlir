// Every op and type of hir, through the parser and printer, in the custom and in the generic form.
// RUN: qcc-opt %s | FileCheck %s
// RUN: qcc-opt %s | qcc-opt | FileCheck %s
// RUN: qcc-opt --mlir-print-op-generic %s | qcc-opt | FileCheck %s

// CHECK-LABEL: func.func @types
// CHECK-SAME: !hir.weight<8, f32>
// CHECK-SAME: !hir.weight<4x8, f16>
// CHECK-SAME: !hir.weight<4x8, bf16>
// CHECK-SAME: !hir.weight<2x3x32, q4_0>
// CHECK-SAME: !hir.weight<2x3x4x32, q4_1>
// CHECK-SAME: !hir.weight<4096x1024, q8_0>
// CHECK-SAME: !hir.weight<8x256, q4_k>
// CHECK-SAME: !hir.weight<8x256, q5_k>
// CHECK-SAME: !hir.weight<8x512, q6_k>
func.func @types(%0: !hir.weight<8, f32>, %1: !hir.weight<4x8, f16>, %2: !hir.weight<4x8, bf16>,
                 %3: !hir.weight<2x3x32, q4_0>, %4: !hir.weight<2x3x4x32, q4_1>, %5: !hir.weight<4096x1024, q8_0>,
                 %6: !hir.weight<8x256, q4_k>, %7: !hir.weight<8x256, q5_k>, %8: !hir.weight<8x512, q6_k>) {
  return
}

// CHECK-LABEL: func.func @states
// CHECK-SAME: !hir.state<kv, 2x256, f16>
// CHECK-SAME: !hir.state<kv, 2x256, f32>
// CHECK-SAME: !hir.state<conv, 3x6144, f32>
// CHECK-SAME: !hir.state<delta, 16x128x128, f32>
// CHECK-SAME: !hir.rows
// CHECK-SAME: tensor<?x64xf32, #hir.int8<32>>
func.func @states(%0: !hir.state<kv, 2x256, f16>, %1: !hir.state<kv, 2x256, f32>, %2: !hir.state<conv, 3x6144, f32>,
                  %3: !hir.state<delta, 16x128x128, f32>, %4: !hir.rows, %5: tensor<?x64xf32, #hir.int8<32>>) {
  return
}

// CHECK-LABEL: func.func @handles
func.func @handles() -> (!hir.weight<64x32, q8_0>, !hir.state<kv, 2x16, f16>) {
  // CHECK: hir.param "blk.0.attn_q.weight" : !hir.weight<64x32, q8_0>
  %w = hir.param "blk.0.attn_q.weight" : !hir.weight<64x32, q8_0>
  // CHECK: hir.param "blk.0.ssm_ba.weight" pieces <2 groups of 4 rows, [2], [2]> : !hir.weight<4x32, q8_0>
  %p = hir.param "blk.0.ssm_ba.weight" pieces <2 groups of 4 rows, [2], [2]> : !hir.weight<4x32, q8_0>
  // CHECK: hir.param "blk.0.ssm_in.weight" pieces <2 groups of 12 rows, [0, 2, 4], [2, 2, 4]> : !hir.weight<16x32, f32>
  %q = hir.param "blk.0.ssm_in.weight" pieces <2 groups of 12 rows, [0, 2, 4], [2, 2, 4]> : !hir.weight<16x32, f32>
  // CHECK: hir.state "blk.3.kv" : !hir.state<kv, 2x16, f16>
  %s = hir.state "blk.3.kv" : !hir.state<kv, 2x16, f16>
  return %w, %s : !hir.weight<64x32, q8_0>, !hir.state<kv, 2x16, f16>
}

// CHECK-LABEL: func.func @plain
func.func @plain(%ids: tensor<?xi32>, %wanted: tensor<2xi32>, %table: !hir.weight<100x64, q8_0>,
                 %norm: !hir.weight<64, f32>, %up: !hir.weight<128x64, q4_0>, %scale: !hir.weight<1, f32>) -> tensor<2x192xf32> {
  // CHECK: %[[X:.*]] = hir.embed %{{.*}}, %{{.*}} : !hir.weight<100x64, q8_0>, tensor<?xi32>
  %x = hir.embed %table, %ids : !hir.weight<100x64, q8_0>, tensor<?xi32>
  // CHECK: %[[N:.*]] = hir.rms_norm %[[X]], %{{.*}} eps 9.99999997E-7 : tensor<?x64xf32>, !hir.weight<64, f32>
  %n = hir.rms_norm %x, %norm eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  // CHECK: hir.l2_norm %[[N]] eps 9.99999997E-7 : tensor<?x64xf32>
  %l = hir.l2_norm %n eps 1.0e-6 : tensor<?x64xf32>
  // CHECK: hir.l2_norm %[[N]] eps 9.99999997E-7 form max : tensor<?x64xf32>
  %l_max = hir.l2_norm %n eps 1.0e-6 form max : tensor<?x64xf32>
  // The default is not printed.
  // CHECK: hir.l2_norm %[[N]] eps 9.99999997E-7 : tensor<?x64xf32>
  %l_sum = hir.l2_norm %n eps 1.0e-6 form sum : tensor<?x64xf32>
  // CHECK: %[[Q:.*]] = hir.quantize %{{.*}} block 32 : tensor<?x64xf32>
  %q = hir.quantize %l block 32 : tensor<?x64xf32>
  // CHECK: hir.linear %[[Q]], %{{.*}} : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<128x64, q4_0>
  %a = hir.linear %q, %up : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<128x64, q4_0>
  // CHECK: hir.linear %[[N]], %{{.*}} : tensor<?x64xf32>, !hir.weight<128x64, q4_0>
  %b = hir.linear %n, %up : tensor<?x64xf32>, !hir.weight<128x64, q4_0>
  // CHECK: hir.linear %[[N]], %{{.*}} scale %{{.*}} : tensor<?x64xf32>, !hir.weight<128x64, q4_0>, !hir.weight<1, f32>
  %b_scaled = hir.linear %n, %up scale %scale : tensor<?x64xf32>, !hir.weight<128x64, q4_0>, !hir.weight<1, f32>
  // CHECK: hir.add %{{.*}}, %{{.*}} : tensor<?x128xf32>
  %c = hir.add %a, %b : tensor<?x128xf32>
  // CHECK: hir.mul %{{.*}}, %{{.*}} : tensor<?x128xf32>
  %d = hir.mul %c, %b : tensor<?x128xf32>
  // CHECK: hir.activation silu %{{.*}} : tensor<?x128xf32>
  %e = hir.activation silu %d : tensor<?x128xf32>
  // CHECK: hir.activation sigmoid %{{.*}} : tensor<?x128xf32>
  %f = hir.activation sigmoid %e : tensor<?x128xf32>
  // CHECK: hir.activation softplus %{{.*}} : tensor<?x128xf32>
  %g = hir.activation softplus %f : tensor<?x128xf32>
  // CHECK: hir.swiglu %{{.*}}, %{{.*}} : tensor<?x128xf32>
  %h = hir.swiglu %g, %b : tensor<?x128xf32>
  // CHECK: hir.reshape %{{.*}} : tensor<?x128xf32> -> tensor<?x4x32xf32>
  %i = hir.reshape %h : tensor<?x128xf32> -> tensor<?x4x32xf32>
  // CHECK: hir.slice %{{.*}}[16, 16] : tensor<?x4x32xf32>
  %j = hir.slice %i[16, 16] : tensor<?x4x32xf32>
  // CHECK: hir.reshape %{{.*}} : tensor<?x4x16xf32> -> tensor<?x64xf32>
  %k = hir.reshape %j : tensor<?x4x16xf32> -> tensor<?x64xf32>
  // CHECK: hir.concat %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<?x128xf32>
  %l2 = hir.concat %k, %h : tensor<?x64xf32>, tensor<?x128xf32>
  // CHECK: hir.select_rows %{{.*}}, %{{.*}} : tensor<?x192xf32>, tensor<2xi32>
  %m = hir.select_rows %l2, %wanted : tensor<?x192xf32>, tensor<2xi32>
  return %m : tensor<2x192xf32>
}

// CHECK-LABEL: func.func @delta
func.func @delta(%x: tensor<?x48xf32>, %qk: tensor<?x2x8xf32>, %v: tensor<?x4x4xf32>, %a: tensor<?x4xf32>,
                 %rows: !hir.rows, %w: !hir.weight<48x4, f32>, %ssm_a: !hir.weight<4, f32>, %dt: !hir.weight<4, f32>,
                 %conv: !hir.state<conv, 3x48, f32>, %state: !hir.state<delta, 4x8x4, f32>) -> tensor<?x4x4xf32> {
  // CHECK: hir.causal_conv1d %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x48xf32>, !hir.weight<48x4, f32>, !hir.state<conv, 3x48, f32>
  %c = hir.causal_conv1d %x, %w, %conv, %rows : tensor<?x48xf32>, !hir.weight<48x4, f32>, !hir.state<conv, 3x48, f32>
  // CHECK: hir.gdn_decay %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x4xf32>, !hir.weight<4, f32>, !hir.weight<4, f32>
  %g = hir.gdn_decay %a, %ssm_a, %dt : tensor<?x4xf32>, !hir.weight<4, f32>, !hir.weight<4, f32>
  // CHECK: hir.gated_delta %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scale 2.500000e-01 : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x4, f32>
  %o = hir.gated_delta %qk, %qk, %v, %g, %a, %state, %rows scale 0.25
      : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x4, f32>
  // CHECK: hir.gated_delta %{{.*}} scale 2.500000e-01 heads grouped : tensor<?x2x8xf32>
  %p = hir.gated_delta %qk, %qk, %o, %g, %a, %state, %rows scale 0.25 heads grouped
      : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x4, f32>
  // The default is not printed.
  // CHECK: hir.gated_delta %{{.*}} scale 2.500000e-01 : tensor<?x2x8xf32>
  %r = hir.gated_delta %qk, %qk, %p, %g, %a, %state, %rows scale 0.25 heads tiled
      : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x4, f32>
  return %r : tensor<?x4x4xf32>
}

// CHECK-LABEL: func.func @trace
func.func @trace(%x: tensor<?x16xf32>, %rows: !hir.rows) {
  // CHECK: %[[S:.*]] = hir.state "blk.0.trace" : !hir.state<trace, 16, f32>
  %s = hir.state "blk.0.trace" : !hir.state<trace, 16, f32>
  // CHECK: hir.trace %arg0, %[[S]], %arg1 : tensor<?x16xf32>, !hir.state<trace, 16, f32>
  hir.trace %x, %s, %rows : tensor<?x16xf32>, !hir.state<trace, 16, f32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x4x16xf32>, %k: tensor<?x2x16xf32>, %rows: !hir.rows,
                     %kv: !hir.state<kv, 2x16, f16>) -> tensor<?x4x16xf32> {
  // CHECK: hir.rope_table %{{.*}} {inv_freq = array<f64: 1.000000e+00, 1.000000e-01, 1.000000e-02, 1.000000e-03>, magnitude = 1.000000e+00 : f64, sections = array<i64: 2, 1, 1, 0>} : tensor<?x8xf32>
  %t = hir.rope_table %rows {inv_freq = array<f64: 1.0, 0.1, 0.01, 0.001>, sections = array<i64: 2, 1, 1, 0>,
                             magnitude = 1.0 : f64} : tensor<?x8xf32>
  // CHECK: sections = array<i64>
  %u = hir.rope_table %rows {inv_freq = array<f64: 1.0>, sections = array<i64>, magnitude = 1.5 : f64} : tensor<?x2xf32>
  // CHECK: hir.rope %{{.*}}, %{{.*}} : tensor<?x4x16xf32>, tensor<?x8xf32>
  %r = hir.rope %q, %t : tensor<?x4x16xf32>, tensor<?x8xf32>
  // CHECK: hir.kv_store %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x2x16xf32>, !hir.state<kv, 2x16, f16>
  hir.kv_store %k, %k, %kv, %rows : tensor<?x2x16xf32>, !hir.state<kv, 2x16, f16>
  // CHECK: hir.attention %{{.*}}, %{{.*}}, %{{.*}} scale 2.500000e-01 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
  %o = hir.attention %r, %kv, %rows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
  return %o : tensor<?x4x16xf32>
}

// CHECK-LABEL: func.func @experts
func.func @experts(%x: tensor<?x64xf32>, %router: !hir.weight<8x64, f32>, %gate: !hir.weight<8x32x64, q8_0>,
                   %up: !hir.weight<8x32x64, f16>, %down: !hir.weight<8x96x32, q4_0>, %one: !hir.weight<1, f32>,
                   %each: !hir.weight<8, f32>, %factor: tensor<?x1xf32>) -> tensor<?x96xf32> {
  %l = hir.linear %x, %router : tensor<?x64xf32>, !hir.weight<8x64, f32>
  // CHECK: hir.moe_route %{{.*}} softmax top_k 2 normalise true floor 6.1035{{.*}} scale 1.000000e+00 : tensor<?x8xf32>
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 6.103515625e-05 scale 1.0 : tensor<?x8xf32>
  // CHECK: hir.moe_route %{{.*}} sigmoid top_k 8 normalise false floor 5.000000e-01 scale 2.500000e+00 : tensor<?x8xf32>
  %ids2, %w2 = hir.moe_route %l sigmoid top_k 8 normalise false floor 0.5 scale 2.5 : tensor<?x8xf32>
  // CHECK: hir.moe_experts %{{.*}}, %{{.*}}, %{{.*}} gate %{{.*}} up %{{.*}} down %{{.*}} : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, f16>, !hir.weight<8x96x32, q4_0>) -> tensor<?x96xf32>
  %y = hir.moe_experts %x, %ids, %w gate %gate up %up down %down : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, f16>, !hir.weight<8x96x32, q4_0>) -> tensor<?x96xf32>
  %q = hir.quantize %x block 32 : tensor<?x64xf32>
  // CHECK: hir.moe_experts %{{.*}} down %{{.*}} gate_scale %{{.*}} up_scale %{{.*}} down_scale %{{.*}} hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x8xi32>
  %z = hir.moe_experts %q, %ids2, %w2 gate %gate up %gate down %down gate_scale %one up_scale %each down_scale %each hidden_block 32 : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x8xi32>, tensor<?x8xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x96x32, q4_0>, !hir.weight<1, f32>, !hir.weight<8, f32>, !hir.weight<8, f32>) -> tensor<?x96xf32>
  // CHECK: hir.scale_rows %{{.*}} by %{{.*}} : tensor<?x96xf32>, tensor<?x1xf32>
  %s = hir.scale_rows %z by %factor : tensor<?x96xf32>, tensor<?x1xf32>
  %r = hir.add %y, %s : tensor<?x96xf32>
  return %r : tensor<?x96xf32>
}
