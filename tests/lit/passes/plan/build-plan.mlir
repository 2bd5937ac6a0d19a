// Ops outside groups, a fused query-key-value matrix and qwen3's attention without gate; buffers have their own bytes
// and nothing is ordered yet.
// RUN: qcc-opt %s -qcc-select-functions="functions=trunk" -qcc-layout-weights -qcc-build-plan="decode=2 prefill=16 head=1" | FileCheck %s
// RUN: qcc-opt %s -qcc-select-functions="functions=trunk" -qcc-layout-weights -qcc-build-plan -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s --check-prefix=USUAL
// RUN: sed 's/2x16, f32>/2x16, f16>/g' %s | qcc-opt -qcc-select-functions="functions=trunk" -qcc-layout-weights -qcc-build-plan="decode=2 prefill=16 head=1" | FileCheck %s --check-prefix=HALF

// What reads the cache goes on as f32: f16 stays what it is, on every device.
// HALF: plan.state @blk.0.kv kv layer 0 [2, 16] f16 at 0 size 128
// HALF: "qk_norm_rope_store" {{.*}} kv = "f16"
// HALF: "attention" {{.*}} kv = "f16"

// USUAL: plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1
// USUAL: plan.program @decode_2 tokens leaves "trunk" gives chosen_logits rows 2
// USUAL: plan.program @decode_4 tokens leaves "trunk" gives chosen_logits rows 4
// USUAL: plan.program @decode_8 tokens leaves "trunk" gives chosen_logits rows 8
// USUAL: plan.program @prefill_32 tokens leaves "trunk" rows 32
// USUAL: plan.program @prefill_128 tokens leaves "trunk" rows 128
// USUAL: plan.program @prefill_512 tokens leaves "trunk" rows 512
// USUAL: plan.program @head_1 stream "trunk" gives chosen_logits rows 1
// USUAL: plan.program @head_8 stream "trunk" gives chosen_logits rows 8

// CHECK-NOT: func.func
// CHECK: plan.block @block_plain_decode_2 weights 57728 state 0 kv 256 {
// CHECK-NEXT: "norm" {cols = 64 : i64, eps = 9.99999997E-7 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 0, 256, read>, #plan.ref<arena, 576, 512, write>] {buffers = ["x", "", "block_plain.norm"]}
// Rows 0..63, 64..95 and 96..127 of one matrix: 16 KiB, 8 KiB, 8 KiB behind each other.
// CHECK-NEXT: "linear" {epilogue = "store", format = "f32", k = 64 : i64, n = 64 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 576, 512, read>, #plan.ref<weights, 256, 16384, read>, #plan.ref<arena, 1088, 512, write>] {buffers = ["block_plain.norm", "", "block_plain.linear"]}
// CHECK-NEXT: "linear" {{.*}} n = 32 : i64, {{.*}} #plan.ref<weights, 16640, 8192, read>, #plan.ref<arena, 1600, 256, write>]
// CHECK-NEXT: "linear" {{.*}} n = 32 : i64, {{.*}} #plan.ref<weights, 24832, 8192, read>, #plan.ref<arena, 1856, 256, write>]
// CHECK-NEXT: "qk_norm_rope_store" {{.*}} gated = false, {{.*}} kv = "f32"
// CHECK-SAME: {buffers = ["block_plain.linear", "block_plain.linear.1", "block_plain.linear.2", "", "", "rope", "block_plain.query", ""]}
// CHECK-NEXT: "attention" {gated = false, {{.*}} ["q", "kv", "out"]
// CHECK-NEXT: "linear" {epilogue = "store"{{.*}}"block_plain.linear.3"]}
// The sum takes the residual stream's place.
// CHECK-NEXT: "add" {cols = 64 : i64} ["x", "y"] {{.*}} {buffers = ["block_plain.linear.3", "x"]}
// CHECK-NEXT: "linear" {{.*}} n = 32 : i64
// CHECK-NEXT: "linear" {{.*}} n = 32 : i64
// CHECK-NEXT: "swiglu" {cols = 32 : i64} ["gate", "up", "out"]
// CHECK-NEXT: "linear" {epilogue = "add"{{.*}} {buffers = ["block_plain.swiglu", "", "x"]}
// CHECK-NEXT: }
// CHECK-NEXT: plan.program @decode_2 tokens leaves "trunk" gives chosen_logits rows 2
// CHECK-NOT: plan.barrier
// CHECK: plan.program @prefill_16
// CHECK: plan.program @head_1
module {
  func.func private @block_plain(%x: tensor<?x64xf32>, %rows: !hir.rows, %rope: tensor<?x8xf32>, %n: !hir.weight<64, f32>, %w: !hir.weight<128x64, f32>, %qn: !hir.weight<16, f32>, %kn: !hir.weight<16, f32>, %wo: !hir.weight<64x64, bf16>, %wg: !hir.weight<32x64, bf16>, %wu: !hir.weight<32x64, f16>, %wd: !hir.weight<64x32, f32>, %kv: !hir.state<kv, 2x16, f32>) -> tensor<?x64xf32> {
    %u = hir.rms_norm %x, %n eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
    %all = hir.linear %u, %w : tensor<?x64xf32>, !hir.weight<128x64, f32>
    %q0 = hir.slice %all[0, 64] : tensor<?x128xf32>
    %k0 = hir.slice %all[64, 32] : tensor<?x128xf32>
    %v0 = hir.slice %all[96, 32] : tensor<?x128xf32>
    %q = hir.fused.qk_norm_rope_store %q0 k %k0 v %v0 q_norm %qn k_norm %kn rope %rope state %kv rows %rows eps 1.0e-06 : (tensor<?x64xf32>, tensor<?x32xf32>, tensor<?x32xf32>, !hir.weight<16, f32>, !hir.weight<16, f32>, tensor<?x8xf32>, !hir.state<kv, 2x16, f32>, !hir.rows) -> tensor<?x4x16xf32> {
    ^bb0(%bq: tensor<?x64xf32>, %bk: tensor<?x32xf32>, %bv: tensor<?x32xf32>, %bqw: !hir.weight<16, f32>, %bkw: !hir.weight<16, f32>, %brope: tensor<?x8xf32>, %bkv: !hir.state<kv, 2x16, f32>, %brows: !hir.rows):
      %q1 = hir.reshape %bq : tensor<?x64xf32> -> tensor<?x4x16xf32>
      %k1 = hir.reshape %bk : tensor<?x32xf32> -> tensor<?x2x16xf32>
      %v = hir.reshape %bv : tensor<?x32xf32> -> tensor<?x2x16xf32>
      %q2 = hir.rms_norm %q1, %bqw eps 1.0e-06 : tensor<?x4x16xf32>, !hir.weight<16, f32>
      %q3 = hir.rope %q2, %brope : tensor<?x4x16xf32>, tensor<?x8xf32>
      %k2 = hir.rms_norm %k1, %bkw eps 1.0e-06 : tensor<?x2x16xf32>, !hir.weight<16, f32>
      %k = hir.rope %k2, %brope : tensor<?x2x16xf32>, tensor<?x8xf32>
      hir.kv_store %k, %v, %bkv, %brows : tensor<?x2x16xf32>, !hir.state<kv, 2x16, f32>
      hir.yield %q3 : tensor<?x4x16xf32>
    }
    %o = hir.fused.gated_attention %q state %kv rows %rows scale 0.25 : (tensor<?x4x16xf32>, !hir.state<kv, 2x16, f32>, !hir.rows) -> tensor<?x4x16xf32> {
    ^bb0(%bq: tensor<?x4x16xf32>, %bkv: !hir.state<kv, 2x16, f32>, %brows: !hir.rows):
      %o0 = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f32>
      hir.yield %o0 : tensor<?x4x16xf32>
    }
    %o1 = hir.reshape %o : tensor<?x4x16xf32> -> tensor<?x64xf32>
    %ol = hir.linear %o1, %wo : tensor<?x64xf32>, !hir.weight<64x64, bf16>
    %h = hir.add %ol, %x : tensor<?x64xf32>
    %gate = hir.linear %h, %wg : tensor<?x64xf32>, !hir.weight<32x64, bf16>
    %up = hir.linear %h, %wu : tensor<?x64xf32>, !hir.weight<32x64, f16>
    %sw = hir.swiglu %gate, %up : tensor<?x32xf32>
    %y = hir.fused.linear_residual %sw weight %wd residual %h : (tensor<?x32xf32>, !hir.weight<64x32, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
    ^bb0(%bx: tensor<?x32xf32>, %bw: !hir.weight<64x32, f32>, %br: tensor<?x64xf32>):
      %dn = hir.linear %bx, %bw : tensor<?x32xf32>, !hir.weight<64x32, f32>
      %sum = hir.add %dn, %br : tensor<?x64xf32>
      hir.yield %sum : tensor<?x64xf32>
    }
    return %y : tensor<?x64xf32>
  }
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
    %table = hir.param "token_embd.weight" : !hir.weight<40x64, f32>
    %rope = hir.rope_table %rows {inv_freq = array<f64: 1.0, 0.1, 0.01, 0.001>, sections = array<i64>, magnitude = 1.0 : f64} : tensor<?x8xf32>
    %x = hir.embed %table, %ids : !hir.weight<40x64, f32>, tensor<?xi32>
    %n = hir.param "blk.0.attn_norm.weight" : !hir.weight<64, f32>
    %w = hir.param "blk.0.attn_qkv.weight" : !hir.weight<128x64, f32>
    %qn = hir.param "blk.0.attn_q_norm.weight" : !hir.weight<16, f32>
    %kn = hir.param "blk.0.attn_k_norm.weight" : !hir.weight<16, f32>
    %wo = hir.param "blk.0.attn_output.weight" : !hir.weight<64x64, bf16>
    %wg = hir.param "blk.0.ffn_gate.weight" : !hir.weight<32x64, bf16>
    %wu = hir.param "blk.0.ffn_up.weight" : !hir.weight<32x64, f16>
    %wd = hir.param "blk.0.ffn_down.weight" : !hir.weight<64x32, f32>
    %kv = hir.state "blk.0.kv" : !hir.state<kv, 2x16, f32>
    %y = func.call @block_plain(%x, %rows, %rope, %n, %w, %qn, %kn, %wo, %wg, %wu, %wd, %kv) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, tensor<?x8xf32>, !hir.weight<64, f32>, !hir.weight<128x64, f32>, !hir.weight<16, f32>, !hir.weight<16, f32>, !hir.weight<64x64, bf16>, !hir.weight<32x64, bf16>, !hir.weight<32x64, f16>, !hir.weight<64x32, f32>, !hir.state<kv, 2x16, f32>) -> tensor<?x64xf32>
    return %y : tensor<?x64xf32>
  }
  func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x40xf32> {hir.logits}) {
    %n = hir.param "output_norm.weight" : !hir.weight<64, f32>
    %w = hir.param "output.weight" : !hir.weight<40x64, f32>
    %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
    %u = hir.rms_norm %s, %n eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
    %l = hir.linear %u, %w : tensor<?x64xf32>, !hir.weight<40x64, f32>
    return %l : tensor<?x40xf32>
  }
  // Not asked for: no program of it, and that it has no kernel does not matter.
  func.func @mtp(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
    %y = hir.mul %x, %x : tensor<?x64xf32>
    return %y : tensor<?x64xf32>
  }
}
