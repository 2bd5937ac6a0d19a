// A block behind the choice of rows. Where the rows come from another program they are copied, and the block runs on the chosen
// ones; where the program made them itself, it runs on all of them, the norm behind it picks, and none are left.
// RUN: qcc-opt %s -qcc-layout-weights -qcc-build-plan="decode=2 prefill=4 head=1" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s

// CHECK: plan.block @block_f_decode_2
// CHECK-NEXT: "norm" {{.*}} source = "rows"} {{.*}}[#plan.ref<arena, 0, 512, read>
// CHECK: plan.program @decode_2 tokens gives chosen_logits rows 2
// CHECK-NOT: "select_rows"
// CHECK: plan.call @block_f_decode_2 {{.*}}layer "blk.0"
// CHECK: "norm" {{.*}} source = "out_rows"} {{.*}}[#plan.ref<arena, 0, 512, read>
// CHECK: rows = "out_rows"} {{.*}}#plan.ref<logits, 0, 256, write>]
// CHECK: plan.program @prefill_4 tokens leaves "trunk" rows 4
// CHECK-NEXT: "embed"
// CHECK-NEXT: {{^  }$}}
// CHECK: plan.block @block_f_head_1
// CHECK-NEXT: "norm" {{.*}} source = "rows"} {{.*}}[#plan.ref<arena, [[S:[0-9]+]], 256, read>
// CHECK: plan.program @head_1 stream "trunk" gives chosen_logits rows 1
// CHECK-NEXT: "select_rows" {cols = 64 : i64} ["x", "out"] [#plan.ref<arena, 0, 1024, read>, #plan.ref<arena, [[S]], 256, write>]
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: plan.call @block_f_head_1 {{.*}}layer "blk.0"
// CHECK-NEXT: plan.barrier
// CHECK-NEXT: "norm" {{.*}} source = "rows"} {{.*}}[#plan.ref<arena, [[S]], 256, read>
// CHECK: rows = "out_rows"} {{.*}}#plan.ref<logits, 0, 128, write>]
func.func private @block_f(%x: tensor<?x64xf32>, %n: !hir.weight<64, f32>, %f: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  %u = hir.rms_norm %x, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %d = hir.linear %u, %f : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %s = hir.add %x, %d : tensor<?x64xf32>
  return %s : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  return %x : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %pn = hir.param "blk.0.norm" : !hir.weight<64, f32>
  %pf = hir.param "blk.0.ffn" : !hir.weight<64x64, f32>
  %y = func.call @block_f(%s, %pn, %pf) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.weight<64, f32>, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  %n = hir.param "n" : !hir.weight<64, f32>
  %u = hir.rms_norm %y, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
