// A number beside a weight is a weight of its own, bound to the linear that it scales: in a pair either half may have
// one, and every piece of a matrix that is cut has its matrix's.
// RUN: qcc-opt %s -qcc-fuse-swiglu -qcc-fuse-residual -qcc-merge-linears -qcc-layout-weights -qcc-build-plan="decode=1 prefill=16 head=1" -qcc-insert-barriers -qcc-assign-arena -qcc-verify-plan | FileCheck %s

// CHECK: plan.weight @blk.0.wa.scale ["blk.0.wa.scale"] "f32" f32 1 x 1 at [[A:[0-9]+]] size 4
// CHECK-NOT: blk.0.wb.scale
// CHECK: plan.weight @"blk.0.wg+blk.0.wu"
// CHECK-NEXT: plan.weight @blk.0.wu.scale {{.*}} size 4
// CHECK: plan.weight @blk.0.wd.scale {{.*}} size 4
// CHECK: plan.weight @output.scale {{.*}} size 4
// CHECK-LABEL: plan.block @block_a_decode_1
// CHECK: "linear" {{.*}} n = 16 : i64, {{.*}} ["x", "w", "scale", "y"] [{{.*}}, #plan.ref<weights, [[W:[0-9]+]], 4096, read>, #plan.ref<weights, [[S:[0-9]+]], 4, read>, {{.*}}]
// CHECK-NEXT: "linear" {{.*}} n = 48 : i64, {{.*}} ["x", "w", "scale", "y"] [{{.*}}, #plan.ref<weights, {{[0-9]+}}, 12288, read>, #plan.ref<weights, [[S]], 4, read>, {{.*}}]
// CHECK-NEXT: "linear" {{.*}} ["x", "w", "y"]
// CHECK: "linear" {epilogue = "swiglu", {{.*}} ["x", "w", "up_scale", "y"]
// CHECK: "linear" {epilogue = "add", {{.*}} ["x", "w", "scale", "y"]
// CHECK-LABEL: plan.program @head_1
// CHECK: "linear" {{.*}} ["x", "w", "scale", "y"] {{.*}} #plan.ref<logits
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %wa: !hir.weight<64x64, f32>, %sa: !hir.weight<1, f32>, %wb: !hir.weight<64x64, f32>, %wg: !hir.weight<48x64, f32>, %wu: !hir.weight<48x64, f32>, %su: !hir.weight<1, f32>,
    %wd: !hir.weight<64x48, f32>, %sd: !hir.weight<1, f32>) -> tensor<?x64xf32> {
  %a = hir.linear %x, %wa scale %sa : tensor<?x64xf32>, !hir.weight<64x64, f32>, !hir.weight<1, f32>
  %b = hir.linear %x, %wb : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %a0 = hir.slice %a[0, 16] : tensor<?x64xf32>
  %a1 = hir.slice %a[16, 48] : tensor<?x64xf32>
  %g = hir.linear %b, %wg : tensor<?x64xf32>, !hir.weight<48x64, f32>
  %u = hir.linear %b, %wu scale %su : tensor<?x64xf32>, !hir.weight<48x64, f32>, !hir.weight<1, f32>
  %h = hir.swiglu %g, %u : tensor<?x48xf32>
  %d = hir.linear %h, %wd scale %sd : tensor<?x48xf32>, !hir.weight<64x48, f32>, !hir.weight<1, f32>
  %y = hir.add %x, %d : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %wa = hir.param "blk.0.wa" : !hir.weight<64x64, f32>
  %sa = hir.param "blk.0.wa.scale" : !hir.weight<1, f32>
  %wb = hir.param "blk.0.wb" : !hir.weight<64x64, f32>
  %wg = hir.param "blk.0.wg" : !hir.weight<48x64, f32>
  %wu = hir.param "blk.0.wu" : !hir.weight<48x64, f32>
  %su = hir.param "blk.0.wu.scale" : !hir.weight<1, f32>
  %wd = hir.param "blk.0.wd" : !hir.weight<64x48, f32>
  %sd = hir.param "blk.0.wd.scale" : !hir.weight<1, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %wa, %sa, %wb, %wg, %wu, %su, %wd, %sd) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>, !hir.weight<1, f32>, !hir.weight<64x64, f32>, !hir.weight<48x64, f32>, !hir.weight<48x64, f32>, !hir.weight<1, f32>, !hir.weight<64x48, f32>, !hir.weight<1, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "output" : !hir.weight<32x64, f32>
  %ts = hir.param "output.scale" : !hir.weight<1, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t scale %ts : tensor<?x64xf32>, !hir.weight<32x64, f32>, !hir.weight<1, f32>
  return %l : tensor<?x32xf32>
}
