// What looks at an attention's rows does not decide how its cache is kept: what is made of them does.
// RUN: qcc-opt %s -qcc-layout-weights | FileCheck %s

// CHECK: plan.state @blk.0.kv kv layer 0 [2, 16] b16
// CHECK: plan.state @blk.1.kv kv layer 1 [2, 16] f16
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, q8_0>, %kv: !hir.state<kv, 2x16, f16>, %last: !hir.state<trace, 64, f32>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  %o = hir.fused.gated_attention %q state %kv rows %rows scale 0.25 : (tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>, !hir.rows) -> tensor<?x64xf32> {
  ^bb0(%bq: tensor<?x4x16xf32>, %bkv: !hir.state<kv, 2x16, f16>, %brows: !hir.rows):
    %heads = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
    %flat = hir.reshape %heads : tensor<?x4x16xf32> -> tensor<?x64xf32>
    hir.yield %flat : tensor<?x64xf32>
  }
  hir.trace %o, %last, %rows : tensor<?x64xf32>, !hir.state<trace, 64, f32>
  %i = hir.quantize %o block 32 : tensor<?x64xf32>
  %d = hir.linear %i, %w : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, q8_0>
  %y = hir.add %x, %d : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func private @block_only_looked_at(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, q8_0>, %kv: !hir.state<kv, 2x16, f16>, %last: !hir.state<trace, 64, f32>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  %o = hir.fused.gated_attention %q state %kv rows %rows scale 0.25 : (tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>, !hir.rows) -> tensor<?x64xf32> {
  ^bb0(%bq: tensor<?x4x16xf32>, %bkv: !hir.state<kv, 2x16, f16>, %brows: !hir.rows):
    %heads = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
    %flat = hir.reshape %heads : tensor<?x4x16xf32> -> tensor<?x64xf32>
    hir.yield %flat : tensor<?x64xf32>
  }
  hir.trace %o, %last, %rows : tensor<?x64xf32>, !hir.state<trace, 64, f32>
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %w0 = hir.param "blk.0.w" : !hir.weight<64x64, q8_0>
  %kv0 = hir.state "blk.0.kv" : !hir.state<kv, 2x16, f16>
  %last0 = hir.state "blk.0.attention" : !hir.state<trace, 64, f32>
  %y = func.call @block_a(%x, %rows, %w0, %kv0, %last0) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, q8_0>, !hir.state<kv, 2x16, f16>, !hir.state<trace, 64, f32>) -> tensor<?x64xf32>
  %w1 = hir.param "blk.1.w" : !hir.weight<64x64, q8_0>
  %kv1 = hir.state "blk.1.kv" : !hir.state<kv, 2x16, f16>
  %last1 = hir.state "blk.1.attention" : !hir.state<trace, 64, f32>
  %z = func.call @block_only_looked_at(%y, %rows, %w1, %kv1, %last1) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, q8_0>, !hir.state<kv, 2x16, f16>, !hir.state<trace, 64, f32>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
