// A function that is given rows with its tokens, and another that prepares such rows of what a trunk leaves: the second
// begins the first's programs, has none of its own, and goes with it when functions are chosen.
// RUN: qcc-opt %s -qcc-select-functions="functions=trunk,guess" -qcc-layout-weights -qcc-build-plan="decode=1,4 prefill=16 head=8" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s
// RUN: qcc-opt %s -qcc-select-functions="functions=trunk" | FileCheck %s --check-prefix=TRUNK
// RUN: not qcc-opt %s -qcc-select-functions="functions=prepare" 2>&1 | FileCheck %s --check-prefix=NAMES

// CHECK-NOT: plan.program @prepare
// CHECK: plan.program @head_8
// The final norm of the rows that are given, then the norm of its own; the head.
// CHECK: plan.program @guess_4 tokens given 64 leaves "guess" gives logits rows 4
// CHECK: "norm"
// CHECK: "concat"
// CHECK: "linear"
// CHECK: "norm"
// CHECK: "linear" {{.*}}n = 40
// Without logits there is no head.
// CHECK: plan.program @guess_prefill_16 tokens given 64 leaves "guess" rows 16
// CHECK-NOT: n = 40
// From its own row, which is one already.
// CHECK: plan.program @guess_next_1 tokens stream "guess" leaves "guess" gives logits rows 1
// CHECK-NOT: "norm"
// CHECK: "concat"
// CHECK-NOT: plan.program
// TRUNK-NOT: @prepare
// NAMES: it has 'trunk', 'guess'
module attributes {hir.arch = "qwen35", hir.context_length = 128 : i64, hir.embedding_length = 64 : i64, hir.vocab_size = 40 : i64} {
  func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
    %t = hir.param "token_embd.weight" : !hir.weight<40x64, f32>
    %x = hir.embed %t, %ids : !hir.weight<40x64, f32>, tensor<?xi32>
    return %x : tensor<?x64xf32>
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
