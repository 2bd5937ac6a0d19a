// One gated delta net block, one attention block, trunk and head, as the fusion passes leave them (numerics int8), from
// fused hir to a verified plan. The other tests of this folder start from this file, too.
// RUN: qcc-opt %s -qcc-layout-weights -qcc-build-plan="decode=1,4 prefill=16 head=8" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s
// The copy of it that a CPU runs is a right plan, too.
// RUN: qcc-opt %s -qcc-layout-weights -qcc-build-plan="decode=1,4 prefill=16 head=8" -qcc-insert-barriers -qcc-assign-arena -qcc-replicate-rows -qcc-insert-barriers -qcc-verify-plan | FileCheck %s --check-prefix=CPU
// RUN: sed -e 's/hir.l2_norm .* eps 1.0e-06/& form max/' -e 's/l2_form sum/l2_form max/' %s | qcc-opt -qcc-layout-weights -qcc-build-plan="decode=1,4 prefill=16 head=8" | FileCheck %s --check-prefix=MAX
// RUN: sed 's/%%k = hir.l2_norm .* eps 1.0e-06/& form max/' %s | not qcc-opt -qcc-layout-weights -qcc-build-plan="decode=1,4 prefill=16 head=8" 2>&1 | FileCheck %s --check-prefix=MIXED

// CPU-LABEL: plan.block @block_deltanet_decode_1
// CPU: "norm"{{.*}}replicated
// CPU-LABEL: plan.block @block_deltanet_decode_4
// CPU-NOT: replicated

// MAX-LABEL: plan.block @block_deltanet_decode_4
// MAX: plan.dispatch "gated_delta" {{.*}}l2_form = "max"
// MIXED: error: {{.*}}its form differs from the queries'

// CHECK-LABEL: plan.block @block_deltanet_decode_4 weights 45248 state 14336 kv 0 {
// The norm feeds int8 and f32 linears, which need no barrier among themselves.
// CHECK-NEXT: plan.dispatch "norm" {{.*}}["x", "weight", "out", "out_q"] [#plan.ref<arena, 0, 1024, read>, #plan.ref<weights, 0, 256, read>, #plan.ref<arena, 2560, 1024, write>, #plan.ref<arena, 4608, 512, write>] {buffers = ["x", "", "block_deltanet.norm", "block_deltanet.norm_q"]}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 64 : i64, n = 96 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [#plan.ref<arena, 4608, 512, read>, #plan.ref<weights, 256, 6528, read>, #plan.ref<arena, 1024, 1536, write>]
// CHECK-NEXT: plan.dispatch "linear" {{.*}} n = 64 : i64, numerics = "int8"
// CHECK-NEXT: plan.dispatch "linear" {{.*}} format = "f32", k = 64 : i64, n = 4 : i64, numerics = "f32"
// CHECK-NEXT: plan.dispatch "linear" {{.*}} format = "f32", k = 64 : i64, n = 4 : i64, numerics = "f32"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "gated_delta" {heads = "tiled", key_dim = 8 : i64, key_heads = 2 : i64, l2_eps = 9.99999997E-7 : f32, l2_form = "sum", ld_ab = 16 : i64, norm_eps = 9.99999997E-7 : f32, scale = 0.353553385 : f32, taps = 4 : i64, value_dim = 16 : i64, value_heads = 4 : i64}
// CHECK-SAME: #plan.ref<state, 0, 6144, readwrite>, #plan.ref<state, 6144, 8192, readwrite>
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "quantize"
// CHECK-NEXT: plan.barrier
// The residual stream is updated in place.
// CHECK-NEXT: plan.dispatch "linear" {epilogue = "add"{{.*}}#plan.ref<arena, 0, 1024, readwrite>] {buffers = ["block_deltanet.quantized", "", "x"]}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "norm" {{.*}}["x", "weight", "out_q"]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "linear" {epilogue = "swiglu", format = "q8_0", k = 64 : i64, n = 96 : i64, numerics = "int8", rows = "rows"} ["xq", "w", "y"] [{{.*}}, #plan.ref<weights, 25664, 13056, read>, {{.*}}]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "quantize" {cols = 96 : i64}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "linear" {epilogue = "add"{{.*}}"x"]}
// CHECK-NEXT: }
// CHECK-NEXT: plan.block @block_attention_decode_4 weights 17792 state 0 kv 128 {
// What reads this cache goes on as int8 rows.
// CHECK: plan.dispatch "qk_norm_rope_store" {eps = 9.99999997E-7 : f32, gated = true, head_dim = 16 : i64, kv = "b16", kv_heads = 2 : i64, q_heads = 4 : i64, rot_dims = 8 : i64} ["q", "k", "v", "q_norm", "k_norm", "rope", "out", "kv"]
// CHECK-SAME: #plan.ref<kv, 0, 128, write>] {buffers = ["block_attention.linear", "block_attention.linear.1", "block_attention.linear.2", "", "", "rope", "block_attention.query", ""]}
// CHECK-NEXT: plan.barrier
// The gate is the interleaved half of the query projection.
// CHECK-NEXT: plan.dispatch "attention" {gated = true, head_dim = 16 : i64, kv = "b16", kv_heads = 2 : i64, q_heads = 4 : i64, scale = 2.500000e-01 : f32} ["q", "gate", "kv", "out"]
// CHECK-SAME: {buffers = ["block_attention.query", "block_attention.linear", "", "block_attention.attention"]}
// CHECK: plan.program @decode_4 tokens leaves "trunk" gives chosen_logits rows 4 arena 5760 {
// CHECK-NEXT: plan.dispatch "embed" {{.*}}#plan.ref<arena, 0, 1024, write>]
// CHECK-NEXT: plan.dispatch "rope_table" {magnitude = 1.000000e+00 : f64, pairs = 4 : i64, sections = array<i64: 2, 1, 1, 0>}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.call @block_deltanet_decode_4 weights 3328 state 0 kv 0 layer "blk.0"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.call @block_attention_decode_4 weights 48576 state 0 kv 0 layer "blk.1"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.call @block_deltanet_decode_4 weights 66368 state 14336 kv 0 layer "blk.2"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "norm" {{.*}} source = "out_rows"}
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.dispatch "linear" {{.*}} n = 40 : i64, numerics = "int8", rows = "out_rows"} {{.*}} #plan.ref<logits, 0, 768, write>] {buffers = ["norm_q", "", ""]}
// CHECK-NEXT: }

// Prefill stops at the residual stream, at offset 0 of the arena, where the head program finds it.
// CHECK: plan.program @prefill_16 tokens leaves "trunk" rows 16 arena {{[0-9]+}} {
// CHECK-NOT: logits
// CHECK: plan.program @head_8 stream "trunk" gives chosen_logits rows 8 arena 5120 {
// CHECK-NEXT: plan.dispatch "norm" {{.*}} source = "out_rows"} ["x", "weight", "out_q"] [#plan.ref<arena, 0, 4096, read>
module attributes {hir.arch = "qwen35", hir.vocab_size = 40 : i64, hir.context_length = 128 : i64, hir.embedding_length = 64 : i64} {
  func.func private @block_deltanet(%x: tensor<?x64xf32>, %rows: !hir.rows, %an: !hir.weight<64, f32>, %wqkv: !hir.weight<96x64, q8_0>, %wz: !hir.weight<64x64, q8_0>, %wb: !hir.weight<4x64, f32>, %wa: !hir.weight<4x64, f32>, %cw: !hir.weight<96x4, f32>, %a: !hir.weight<4, f32>, %dt: !hir.weight<4, f32>, %sn: !hir.weight<16, f32>, %wo: !hir.weight<64x64, q8_0>, %fn: !hir.weight<64, f32>, %wg: !hir.weight<96x64, q8_0>, %wu: !hir.weight<96x64, q8_0>, %wd: !hir.weight<64x96, q8_0>, %conv: !hir.state<conv, 3x96, f32>, %delta: !hir.state<delta, 4x8x16, f32>) -> tensor<?x64xf32> {
    %u:2 = hir.fused.norm_quant %x weight %an eps 1.0e-06 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> (tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>) {
    ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
      %n = hir.rms_norm %bx, %bn eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
      %i = hir.quantize %n block 32 : tensor<?x64xf32>
      hir.yield %n, %i : tensor<?x64xf32>, tensor<?x64xf32, #hir.int8<32>>
    }
    %p:4 = hir.fused.merged_linear(%u#1, %u#1, %u#0, %u#0) weights(%wqkv, %wz, %wb, %wa) : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32>, tensor<?x64xf32>, !hir.weight<96x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<4x64, f32>, !hir.weight<4x64, f32>) -> (tensor<?x96xf32>, tensor<?x64xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
    ^bb0(%bx0: tensor<?x64xf32, #hir.int8<32>>, %bx1: tensor<?x64xf32, #hir.int8<32>>, %bx2: tensor<?x64xf32>, %bx3: tensor<?x64xf32>, %bw0: !hir.weight<96x64, q8_0>, %bw1: !hir.weight<64x64, q8_0>, %bw2: !hir.weight<4x64, f32>, %bw3: !hir.weight<4x64, f32>):
      %qkv = hir.linear %bx0, %bw0 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
      %z = hir.linear %bx0, %bw1 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
      %b = hir.linear %bx2, %bw2 : tensor<?x64xf32>, !hir.weight<4x64, f32>
      %al = hir.linear %bx2, %bw3 : tensor<?x64xf32>, !hir.weight<4x64, f32>
      hir.yield %qkv, %z, %b, %al : tensor<?x96xf32>, tensor<?x64xf32>, tensor<?x4xf32>, tensor<?x4xf32>
    }
    %o = hir.fused.gated_delta %p#0 z %p#1 alpha %p#3 beta %p#2 conv %cw ssm_a %a dt_bias %dt norm %sn states %conv, %delta rows %rows l2_eps 1.0e-06 l2_form sum norm_eps 1.0e-06 scale 0.35355338 : (tensor<?x96xf32>, tensor<?x64xf32>, tensor<?x4xf32>, tensor<?x4xf32>, !hir.weight<96x4, f32>, !hir.weight<4, f32>, !hir.weight<4, f32>, !hir.weight<16, f32>, !hir.state<conv, 3x96, f32>, !hir.state<delta, 4x8x16, f32>, !hir.rows) -> tensor<?x64xf32> {
    ^bb0(%bqkv: tensor<?x96xf32>, %bz: tensor<?x64xf32>, %bal: tensor<?x4xf32>, %bbe: tensor<?x4xf32>, %bcw: !hir.weight<96x4, f32>, %ba: !hir.weight<4, f32>, %bdt: !hir.weight<4, f32>, %bnw: !hir.weight<16, f32>, %bcs: !hir.state<conv, 3x96, f32>, %bds: !hir.state<delta, 4x8x16, f32>, %brows: !hir.rows):
      %c0 = hir.causal_conv1d %bqkv, %bcw, %bcs, %brows : tensor<?x96xf32>, !hir.weight<96x4, f32>, !hir.state<conv, 3x96, f32>
      %c = hir.activation silu %c0 : tensor<?x96xf32>
      %q0 = hir.slice %c[0, 16] : tensor<?x96xf32>
      %k0 = hir.slice %c[16, 16] : tensor<?x96xf32>
      %v0 = hir.slice %c[32, 64] : tensor<?x96xf32>
      %q1 = hir.reshape %q0 : tensor<?x16xf32> -> tensor<?x2x8xf32>
      %q = hir.l2_norm %q1 eps 1.0e-06 : tensor<?x2x8xf32>
      %k1 = hir.reshape %k0 : tensor<?x16xf32> -> tensor<?x2x8xf32>
      %k = hir.l2_norm %k1 eps 1.0e-06 : tensor<?x2x8xf32>
      %v = hir.reshape %v0 : tensor<?x64xf32> -> tensor<?x4x16xf32>
      %g = hir.gdn_decay %bal, %ba, %bdt : tensor<?x4xf32>, !hir.weight<4, f32>, !hir.weight<4, f32>
      %beta = hir.activation sigmoid %bbe : tensor<?x4xf32>
      %o0 = hir.gated_delta %q, %k, %v, %g, %beta, %bds, %brows scale 0.35355338 : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x16, f32>
      %o1 = hir.rms_norm %o0, %bnw eps 1.0e-06 : tensor<?x4x16xf32>, !hir.weight<16, f32>
      %z1 = hir.reshape %bz : tensor<?x64xf32> -> tensor<?x4x16xf32>
      %zs = hir.activation silu %z1 : tensor<?x4x16xf32>
      %o2 = hir.mul %o1, %zs : tensor<?x4x16xf32>
      %o3 = hir.reshape %o2 : tensor<?x4x16xf32> -> tensor<?x64xf32>
      hir.yield %o3 : tensor<?x64xf32>
    }
    %oq = hir.quantize %o block 32 : tensor<?x64xf32>
    %h = hir.fused.linear_residual %oq weight %wo residual %x : (tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>, tensor<?x64xf32>) -> tensor<?x64xf32> {
    ^bb0(%bx: tensor<?x64xf32, #hir.int8<32>>, %bw: !hir.weight<64x64, q8_0>, %br: tensor<?x64xf32>):
      %ol = hir.linear %bx, %bw : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
      %sum = hir.add %br, %ol : tensor<?x64xf32>
      hir.yield %sum : tensor<?x64xf32>
    }
    %fu = hir.fused.norm_quant %h weight %fn eps 1.0e-06 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
    ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
      %n = hir.rms_norm %bx, %bn eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
      %i = hir.quantize %n block 32 : tensor<?x64xf32>
      hir.yield %i : tensor<?x64xf32, #hir.int8<32>>
    }
    %hid = hir.fused.linear_swiglu %fu gate %wg up %wu : (tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>) -> tensor<?x96xf32> {
    ^bb0(%bx: tensor<?x64xf32, #hir.int8<32>>, %bg: !hir.weight<96x64, q8_0>, %bu: !hir.weight<96x64, q8_0>):
      %gate = hir.linear %bx, %bg : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
      %up = hir.linear %bx, %bu : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<96x64, q8_0>
      %sw = hir.swiglu %gate, %up : tensor<?x96xf32>
      hir.yield %sw : tensor<?x96xf32>
    }
    %hq = hir.quantize %hid block 32 : tensor<?x96xf32>
    %y = hir.fused.linear_residual %hq weight %wd residual %h : (tensor<?x96xf32, #hir.int8<32>>, !hir.weight<64x96, q8_0>, tensor<?x64xf32>) -> tensor<?x64xf32> {
    ^bb0(%bx: tensor<?x96xf32, #hir.int8<32>>, %bw: !hir.weight<64x96, q8_0>, %br: tensor<?x64xf32>):
      %dn = hir.linear %bx, %bw : tensor<?x96xf32, #hir.int8<32>>, !hir.weight<64x96, q8_0>
      %sum = hir.add %br, %dn : tensor<?x64xf32>
      hir.yield %sum : tensor<?x64xf32>
    }
    return %y : tensor<?x64xf32>
  }
  func.func private @block_attention(%x: tensor<?x64xf32>, %rows: !hir.rows, %rope: tensor<?x8xf32>, %an: !hir.weight<64, f32>, %wq: !hir.weight<128x64, q8_0>, %wk: !hir.weight<32x64, q8_0>, %wv: !hir.weight<32x64, q8_0>, %qn: !hir.weight<16, f32>, %kn: !hir.weight<16, f32>, %wo: !hir.weight<64x64, q8_0>, %kv: !hir.state<kv, 2x16, f16>) -> tensor<?x64xf32> {
    %u = hir.fused.norm_quant %x weight %an eps 1.0e-06 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
    ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
      %n = hir.rms_norm %bx, %bn eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
      %i = hir.quantize %n block 32 : tensor<?x64xf32>
      hir.yield %i : tensor<?x64xf32, #hir.int8<32>>
    }
    %p:3 = hir.fused.merged_linear(%u, %u, %u) weights(%wq, %wk, %wv) : (tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, tensor<?x64xf32, #hir.int8<32>>, !hir.weight<128x64, q8_0>, !hir.weight<32x64, q8_0>, !hir.weight<32x64, q8_0>) -> (tensor<?x128xf32>, tensor<?x32xf32>, tensor<?x32xf32>) {
    ^bb0(%bx0: tensor<?x64xf32, #hir.int8<32>>, %bx1: tensor<?x64xf32, #hir.int8<32>>, %bx2: tensor<?x64xf32, #hir.int8<32>>, %bw0: !hir.weight<128x64, q8_0>, %bw1: !hir.weight<32x64, q8_0>, %bw2: !hir.weight<32x64, q8_0>):
      %q0 = hir.linear %bx0, %bw0 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<128x64, q8_0>
      %k0 = hir.linear %bx0, %bw1 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<32x64, q8_0>
      %v0 = hir.linear %bx0, %bw2 : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<32x64, q8_0>
      hir.yield %q0, %k0, %v0 : tensor<?x128xf32>, tensor<?x32xf32>, tensor<?x32xf32>
    }
    %both = hir.reshape %p#0 : tensor<?x128xf32> -> tensor<?x4x32xf32>
    %q = hir.fused.qk_norm_rope_store %both k %p#1 v %p#2 q_norm %qn k_norm %kn rope %rope state %kv rows %rows eps 1.0e-06 : (tensor<?x4x32xf32>, tensor<?x32xf32>, tensor<?x32xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 2x16, f16>, !hir.rows) -> tensor<?x4x16xf32> {
    ^bb0(%bq: tensor<?x4x32xf32>, %bk: tensor<?x32xf32>, %bv: tensor<?x32xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 2x16, f16>, %brows: !hir.rows):
      %q1 = hir.slice %bq[0, 16] : tensor<?x4x32xf32>
      %k1 = hir.reshape %bk : tensor<?x32xf32> -> tensor<?x2x16xf32>
      %v = hir.reshape %bv : tensor<?x32xf32> -> tensor<?x2x16xf32>
      %q2 = hir.rms_norm %q1, %bqw eps 1.0e-06 : tensor<?x4x16xf32>, !hir.weight<16, f32>
      %q3 = hir.rope %q2, %brope : tensor<?x4x16xf32>, tensor<?x8xf32>
      %k2 = hir.rms_norm %k1, %bkw eps 1.0e-06 : tensor<?x2x16xf32>, !hir.weight<16, f32>
      %k = hir.rope %k2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
      hir.kv_store %k, %v, %bkv, %brows : tensor<?x2x16xf32>, !hir.state<kv, 2x16, f16>
      hir.yield %q3 : tensor<?x4x16xf32>
    }
    %o = hir.fused.gated_attention %q gate %both state %kv rows %rows scale 0.25 : (tensor<?x4x16xf32>, tensor<?x4x32xf32>, !hir.state<kv, 2x16, f16>, !hir.rows) -> tensor<?x64xf32> {
    ^bb0(%bq: tensor<?x4x16xf32>, %bgate: tensor<?x4x32xf32>, %bkv: !hir.state<kv, 2x16, f16>, %brows: !hir.rows):
      %g1 = hir.slice %bgate[16, 16] : tensor<?x4x32xf32>
      %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
      %gs = hir.activation sigmoid %g1 : tensor<?x4x16xf32>
      %o1 = hir.mul %o0, %gs : tensor<?x4x16xf32>
      %o2 = hir.reshape %o1 : tensor<?x4x16xf32> -> tensor<?x64xf32>
      hir.yield %o2 : tensor<?x64xf32>
    }
    %oq = hir.quantize %o block 32 : tensor<?x64xf32>
    %y = hir.fused.linear_residual %oq weight %wo residual %x : (tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>, tensor<?x64xf32>) -> tensor<?x64xf32> {
    ^bb0(%bx: tensor<?x64xf32, #hir.int8<32>>, %bw: !hir.weight<64x64, q8_0>, %br: tensor<?x64xf32>):
      %ol = hir.linear %bx, %bw : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
      %sum = hir.add %br, %ol : tensor<?x64xf32>
      hir.yield %sum : tensor<?x64xf32>
    }
    return %y : tensor<?x64xf32>
  }
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
    %table = hir.param "token_embd.weight" : !hir.weight<40x64, q8_0>
    %x0 = hir.embed %table, %ids : !hir.weight<40x64, q8_0>, tensor<?xi32>
    %rope = hir.rope_table %rows {inv_freq = array<f64: 1.0, 0.1, 0.01, 0.001>, sections = array<i64: 2, 1, 1, 0>, magnitude = 1.0 : f64} : tensor<?x8xf32>
    %an0 = hir.param "blk.0.attn_norm.weight" : !hir.weight<64, f32>
    %wqkv0 = hir.param "blk.0.attn_qkv.weight" : !hir.weight<96x64, q8_0>
    %wz0 = hir.param "blk.0.attn_gate.weight" : !hir.weight<64x64, q8_0>
    %wb0 = hir.param "blk.0.ssm_beta.weight" : !hir.weight<4x64, f32>
    %wa0 = hir.param "blk.0.ssm_alpha.weight" : !hir.weight<4x64, f32>
    %cw0 = hir.param "blk.0.ssm_conv1d.weight" : !hir.weight<96x4, f32>
    %a0 = hir.param "blk.0.ssm_a" : !hir.weight<4, f32>
    %dt0 = hir.param "blk.0.ssm_dt.bias" : !hir.weight<4, f32>
    %sn0 = hir.param "blk.0.ssm_norm.weight" : !hir.weight<16, f32>
    %wo0 = hir.param "blk.0.ssm_out.weight" : !hir.weight<64x64, q8_0>
    %fn0 = hir.param "blk.0.ffn_norm.weight" : !hir.weight<64, f32>
    %wg0 = hir.param "blk.0.ffn_gate.weight" : !hir.weight<96x64, q8_0>
    %wu0 = hir.param "blk.0.ffn_up.weight" : !hir.weight<96x64, q8_0>
    %wd0 = hir.param "blk.0.ffn_down.weight" : !hir.weight<64x96, q8_0>
    %conv0 = hir.state "blk.0.conv" : !hir.state<conv, 3x96, f32>
    %delta0 = hir.state "blk.0.delta" : !hir.state<delta, 4x8x16, f32>
    %x1 = func.call @block_deltanet(%x0, %rows, %an0, %wqkv0, %wz0, %wb0, %wa0, %cw0, %a0, %dt0, %sn0, %wo0, %fn0, %wg0, %wu0, %wd0, %conv0, %delta0) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>, !hir.weight<96x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<4x64, f32>, !hir.weight<4x64, f32>, !hir.weight<96x4, f32>, !hir.weight<4, f32>, !hir.weight<4, f32>, !hir.weight<16, f32>, !hir.weight<64x64, q8_0>, !hir.weight<64, f32>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.state<conv, 3x96, f32>, !hir.state<delta, 4x8x16, f32>) -> tensor<?x64xf32>
    %an1 = hir.param "blk.1.attn_norm.weight" : !hir.weight<64, f32>
    %wq1 = hir.param "blk.1.attn_q.weight" : !hir.weight<128x64, q8_0>
    %wk1 = hir.param "blk.1.attn_k.weight" : !hir.weight<32x64, q8_0>
    %wv1 = hir.param "blk.1.attn_v.weight" : !hir.weight<32x64, q8_0>
    %qn1 = hir.param "blk.1.attn_q_norm.weight" : !hir.weight<16, f32>
    %kn1 = hir.param "blk.1.attn_k_norm.weight" : !hir.weight<16, f32>
    %wo1 = hir.param "blk.1.attn_output.weight" : !hir.weight<64x64, q8_0>
    %kv1 = hir.state "blk.1.kv" : !hir.state<kv, 2x16, f16>
    %x2 = func.call @block_attention(%x1, %rows, %rope, %an1, %wq1, %wk1, %wv1, %qn1, %kn1, %wo1, %kv1) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, tensor<?x8xf32>, !hir.weight<64, f32>, !hir.weight<128x64, q8_0>, !hir.weight<32x64, q8_0>, !hir.weight<32x64, q8_0>, !hir.weight<16, f32>, !hir.weight<16, f32>, !hir.weight<64x64, q8_0>, !hir.state<kv, 2x16, f16>) -> tensor<?x64xf32>
    %an2 = hir.param "blk.2.attn_norm.weight" : !hir.weight<64, f32>
    %wqkv2 = hir.param "blk.2.attn_qkv.weight" : !hir.weight<96x64, q8_0>
    %wz2 = hir.param "blk.2.attn_gate.weight" : !hir.weight<64x64, q8_0>
    %wb2 = hir.param "blk.2.ssm_beta.weight" : !hir.weight<4x64, f32>
    %wa2 = hir.param "blk.2.ssm_alpha.weight" : !hir.weight<4x64, f32>
    %cw2 = hir.param "blk.2.ssm_conv1d.weight" : !hir.weight<96x4, f32>
    %a2 = hir.param "blk.2.ssm_a" : !hir.weight<4, f32>
    %dt2 = hir.param "blk.2.ssm_dt.bias" : !hir.weight<4, f32>
    %sn2 = hir.param "blk.2.ssm_norm.weight" : !hir.weight<16, f32>
    %wo2 = hir.param "blk.2.ssm_out.weight" : !hir.weight<64x64, q8_0>
    %fn2 = hir.param "blk.2.ffn_norm.weight" : !hir.weight<64, f32>
    %wg2 = hir.param "blk.2.ffn_gate.weight" : !hir.weight<96x64, q8_0>
    %wu2 = hir.param "blk.2.ffn_up.weight" : !hir.weight<96x64, q8_0>
    %wd2 = hir.param "blk.2.ffn_down.weight" : !hir.weight<64x96, q8_0>
    %conv2 = hir.state "blk.2.conv" : !hir.state<conv, 3x96, f32>
    %delta2 = hir.state "blk.2.delta" : !hir.state<delta, 4x8x16, f32>
    %x3 = func.call @block_deltanet(%x2, %rows, %an2, %wqkv2, %wz2, %wb2, %wa2, %cw2, %a2, %dt2, %sn2, %wo2, %fn2, %wg2, %wu2, %wd2, %conv2, %delta2) {layer = "blk.2"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>, !hir.weight<96x64, q8_0>, !hir.weight<64x64, q8_0>, !hir.weight<4x64, f32>, !hir.weight<4x64, f32>, !hir.weight<96x4, f32>, !hir.weight<4, f32>, !hir.weight<4, f32>, !hir.weight<16, f32>, !hir.weight<64x64, q8_0>, !hir.weight<64, f32>, !hir.weight<96x64, q8_0>, !hir.weight<96x64, q8_0>, !hir.weight<64x96, q8_0>, !hir.state<conv, 3x96, f32>, !hir.state<delta, 4x8x16, f32>) -> tensor<?x64xf32>
    return %x3 : tensor<?x64xf32>
  }
  func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x40xf32> {hir.logits}) {
    %n = hir.param "output_norm.weight" : !hir.weight<64, f32>
    %w = hir.param "token_embd.weight" : !hir.weight<40x64, q8_0>
    %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
    %u = hir.fused.norm_quant %s weight %n eps 1.0e-06 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
    ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
      %f = hir.rms_norm %bx, %bn eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
      %i = hir.quantize %f block 32 : tensor<?x64xf32>
      hir.yield %i : tensor<?x64xf32, #hir.int8<32>>
    }
    %l = hir.linear %u, %w : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<40x64, q8_0>
    return %l : tensor<?x40xf32>
  }
}
