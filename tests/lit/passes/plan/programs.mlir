// Programs follow from what the public functions of a model take and give: none of the names here is known to a pass.
// RUN: qcc-opt %s -qcc-layout-weights -qcc-build-plan="decode=2 prefill=4 head=1,8" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s
// RUN: qcc-opt %s -qcc-select-functions="functions=score,draft" | FileCheck %s --check-prefix=SOME
// RUN: qcc-opt %s -qcc-select-functions="functions=first,check" -qcc-layout-weights -qcc-build-plan="decode=2 prefill=4 head=1,8" | FileCheck %s --check-prefix=PLAN
// RUN: not qcc-opt %s -qcc-select-functions="functions=first,vision" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not qcc-opt %s -qcc-select-functions="functions=last" 2>&1 | FileCheck %s --check-prefix=AFTER

// SOME-NOT: @first
// SOME-NOT: @last
// SOME: func.func @score
// SOME-NOT: @check
// SOME: func.func @draft
// PLAN-NOT: "n.draft"
// PLAN-COUNT-5: plan.program
// PLAN-NOT: plan.program
// UNKNOWN: error: the model has no function 'vision' that programs could be made of; it has 'first', 'score', 'check', 'draft'
// AFTER: error: the model has no function 'last'

// Tokens to logits of chosen rows, whole and in two parts.
// CHECK: plan.program @decode_2 tokens leaves "first" gives chosen_logits rows 2 arena
// CHECK: "norm" {{.*}} source = "out_rows"}
// CHECK: rows = "out_rows"} {{.*}}#plan.ref<logits, 0, 256, write>]
// CHECK: plan.program @prefill_4 tokens leaves "first" rows 4 arena
// CHECK-NEXT: "embed"
// CHECK-NOT: plan.dispatch
// The rows of the largest program that leaves them.
// CHECK: plan.program @last_1 stream "first" gives chosen_logits rows 1 arena 1280 {
// CHECK: plan.program @last_8 stream "first" gives chosen_logits rows 8 arena 3072 {
// An embedding: it gives nothing that a token is drawn from, so it gets the large buckets.
// CHECK: plan.program @score_4 tokens leaves "score" rows 4 arena
// CHECK-NOT: logits
// Verification: logits of every row.
// CHECK: plan.program @check_2 tokens gives logits rows 2 arena
// CHECK: "norm" {{.*}} source = "rows"}
// CHECK: rows = "rows"} {{.*}}#plan.ref<logits, 0, 256, write>]
// A draft: a hidden row and a token; the rows that it leaves take the place of those that it was given.
// CHECK: plan.program @draft_2 tokens given 64 leaves "draft" gives logits rows 2 arena
// CHECK: "norm" {{.*}}["x", "weight", "out"] [#plan.ref<arena, 0, 512, read>
// CHECK: "concat" {a_cols = 64 : i64, b_cols = 64 : i64} ["a", "b", "out"]
// CHECK: "norm" {{.*}}["x", "weight", "out"] [{{.*}}, #plan.ref<arena, 0, 512, write>] {{{.*}}"x"]}
module attributes {hir.arch = "toy", hir.vocab_size = 32 : i64, hir.context_length = 64 : i64, hir.embedding_length = 64 : i64} {
  func.func @first(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
    %t = hir.param "t" : !hir.weight<32x64, f32>
    %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
    return %x : tensor<?x64xf32>
  }
  func.func @score(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
    %t = hir.param "t" : !hir.weight<32x64, f32>
    %n = hir.param "n.score" : !hir.weight<64, f32>
    %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
    %u = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    return %u : tensor<?x64xf32>
  }
  // Stands before nothing that it needs: the order of functions does not matter.
  func.func @last(%x: tensor<?x64xf32> {hir.left_by = @first}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
    %t = hir.param "t" : !hir.weight<32x64, f32>
    %n = hir.param "n" : !hir.weight<64, f32>
    %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
    %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
    return %l : tensor<?x32xf32>
  }
  func.func @check(%ids: tensor<?xi32>, %rows: !hir.rows) -> (tensor<?x32xf32> {hir.logits}) {
    %t = hir.param "t" : !hir.weight<32x64, f32>
    %n = hir.param "n" : !hir.weight<64, f32>
    %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
    %u = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
    return %l : tensor<?x32xf32>
  }
  func.func @draft(%ids: tensor<?xi32>, %hidden: tensor<?x64xf32>, %rows: !hir.rows) -> (tensor<?x32xf32> {hir.logits}, tensor<?x64xf32>) {
    %t = hir.param "t" : !hir.weight<32x64, f32>
    %nd = hir.param "n.draft" : !hir.weight<64, f32>
    %n = hir.param "n" : !hir.weight<64, f32>
    %e = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
    %h = hir.rms_norm %hidden, %nd eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %both = hir.concat %e, %h : tensor<?x64xf32>, tensor<?x64xf32>
    %p = hir.param "eh.draft" : !hir.weight<64x128, f32>
    %z = hir.linear %both, %p : tensor<?x128xf32>, !hir.weight<64x128, f32>
    %u = hir.rms_norm %z, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
    return %l, %u : tensor<?x32xf32>, tensor<?x64xf32>
  }
}
