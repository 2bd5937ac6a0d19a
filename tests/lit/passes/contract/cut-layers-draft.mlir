// A function that drafts, and one that prepares its rows, go with the last layer; what is left of the trunk there prepares none.
// RUN: qcc-opt %s -qcc-cut-layers='first=0 last=0' | FileCheck %s --check-prefix=BEGIN
// RUN: qcc-opt %s -qcc-cut-layers='first=1 last=1' | FileCheck %s --check-prefix=END
// RUN: qcc-opt %s -qcc-cut-layers='first=1 last=1' -qcc-layout-weights -qcc-build-plan="decode=1 prefill=16 head=8" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s --check-prefix=PLAN

// BEGIN: func.func @trunk
// BEGIN-NOT: func.func @{{head|prepare|guess}}

// END: func.func @trunk(%{{.*}}: tensor<?x64xf32>, %{{.*}}: !hir.rows)
// END: func.func @head
// END: func.func @prepare
// END: func.func @guess(%{{.*}}: tensor<?xi32>, %{{.*}}: tensor<?x64xf32>

// PLAN: plan.program @decode_1 given 64 leaves "trunk" gives chosen_logits rows 1
// PLAN: plan.program @prefill_16 given 64 leaves "trunk" rows 16
// PLAN: plan.program @head_8 stream "trunk"
// The final norm of the rows that are given, and no layer.
// PLAN: plan.program @guess_1 tokens given 64 leaves "guess" gives logits rows 1
// PLAN-NOT: layer "blk.1"
// PLAN: "norm"
// PLAN: "concat"
// PLAN: plan.program @guess_prefill_16 tokens given 64 leaves "guess" rows 16
// PLAN: plan.program @guess_next_1 tokens stream "guess" leaves "guess" gives logits rows 1
module attributes {hir.arch = "qwen35", hir.context_length = 128 : i64, hir.embedding_length = 64 : i64, hir.vocab_size = 40 : i64} {
  func.func private @block(%x: tensor<?x64xf32>, %rows: !hir.rows, %n: !hir.weight<64, f32>) -> tensor<?x64xf32> {
    %u = hir.rms_norm %x, %n eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
    %y = hir.add %x, %u : tensor<?x64xf32>
    return %y : tensor<?x64xf32>
  }
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<40x64, f32>
    %x = hir.embed %t, %ids : !hir.weight<40x64, f32>, tensor<?xi32>
    %n0 = hir.param "blk.0.norm" : !hir.weight<64, f32>
    %a = func.call @block(%x, %rows, %n0) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
    %n1 = hir.param "blk.1.norm" : !hir.weight<64, f32>
    %b = func.call @block(%a, %rows, %n1) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
    return %b : tensor<?x64xf32>
  }
  func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x40xf32> {hir.logits}) {
    %n = hir.param "output_norm.weight" : !hir.weight<64, f32>
    %w = hir.param "token_embd.weight" : !hir.weight<40x64, f32>
    %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
    %u = hir.rms_norm %s, %n eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
    %l = hir.linear %u, %w : tensor<?x64xf32>, !hir.weight<40x64, f32>
    return %l : tensor<?x40xf32>
  }
  func.func @prepare(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
    %n = hir.param "output_norm.weight" : !hir.weight<64, f32>
    %u = hir.rms_norm %x, %n eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
    return %u : tensor<?x64xf32>
  }
  func.func @guess(%ids: tensor<?xi32>, %h: tensor<?x64xf32>, %rows: !hir.rows) -> (tensor<?x40xf32> {hir.logits}, tensor<?x64xf32>) {
    %t = hir.param "token_embd.weight" : !hir.weight<40x64, f32>
    %p = hir.param "eh_proj.weight" : !hir.weight<64x128, f32>
    %n = hir.param "guess_norm.weight" : !hir.weight<64, f32>
    %e = hir.embed %t, %ids : !hir.weight<40x64, f32>, tensor<?xi32>
    %b = hir.concat %e, %h : tensor<?x64xf32>, tensor<?x64xf32>
    %z = hir.linear %b, %p : tensor<?x128xf32>, !hir.weight<64x128, f32>
    %u = hir.rms_norm %z, %n eps 1.0e-06 : tensor<?x64xf32>, !hir.weight<64, f32>
    %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<40x64, f32>
    return %l, %u : tensor<?x40xf32>, tensor<?x64xf32>
  }
}
