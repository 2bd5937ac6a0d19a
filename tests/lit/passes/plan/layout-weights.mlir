// RUN: qcc-opt %S/tiny-model.mlir -qcc-layout-weights | FileCheck %s
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-layout-weights

// In the order of use; the table is also the head's matrix and stored once.
// CHECK: plan.weight @token_embd.weight ["token_embd.weight"] "q8_0" x16 40 x 64 at 0 size 3264
// CHECK-NEXT: plan.constant @rope.inv_freq [1.000000e+00, 1.000000e-01, 1.000000e-02, 1.000000e-03] at 3264
// CHECK-NEXT: plan.weight @blk.0.attn_norm.weight ["blk.0.attn_norm.weight"] "f32" f32 1 x 64 at 3328 size 256
// CHECK-NEXT: plan.weight @blk.0.attn_qkv.weight ["blk.0.attn_qkv.weight"] "q8_0" x16 96 x 64 at 3584 size 6528
// CHECK: plan.weight @blk.0.ssm_beta.weight ["blk.0.ssm_beta.weight"] "f32" x16 4 x 64 at 14464 size 4096
// CHECK: plan.weight @blk.0.ssm_conv1d.weight ["blk.0.ssm_conv1d.weight"] "f32" conv_taps 96 x 4 at 22656 size 1536
// CHECK: plan.weight @"blk.0.ffn_gate.weight+blk.0.ffn_up.weight" ["blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"] "q8_0" x16_pair 96 x 64 at 28992 size 13056
// CHECK: plan.state @blk.0.conv conv layer 0 [3, 96] f32 at 0 size 6144 entry 384
// CHECK-NEXT: plan.state @blk.0.delta delta layer 0 [4, 8, 16] f32 at 6144 size 8192 entry 384
// CHECK: plan.state @blk.1.kv kv layer 1 [2, 16] b16 at 0 size 128
// The same distances as in layer 0: 28992 - 3328 = 92032 - 66368.
// CHECK: plan.weight @"blk.2.ffn_gate.weight+blk.2.ffn_up.weight" {{.*}} at 92032 size 13056
// CHECK: plan.state @blk.2.conv conv layer 2 [3, 96] f32 at 14336 size 6144 entry 384
// CHECK: plan.weight @output_norm.weight
// CHECK-NOT: plan.weight

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %n: !hir.weight<64, f32>) -> tensor<?x64xf32> {
  // expected-error @below {{weight 'blk.0.norm' is used by a layer and somewhere else}}
  %y = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %n = hir.param "blk.0.norm" : !hir.weight<64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %a = func.call @block_a(%x, %rows, %n) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
  %b = func.call @block_a(%a, %rows, %n) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
  return %b : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x64xf32> {hir.logits}) {
  return %x : tensor<?x64xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  // expected-error @below {{call of 'block_a' needs an attribute layer = "blk.N"}}
  %a = func.call @block_a(%x, %rows) {layer = "first"} : (tensor<?x64xf32>, !hir.rows) -> tensor<?x64xf32>
  return %a : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x64xf32> {hir.logits}) {
  return %x : tensor<?x64xf32>
}

// -----

// expected-error @below {{model contract: no public function begins a step, by tokens or rows of the caller's}}
module {
}
