// Which layers stay, and what begins and ends the function that has them.
// RUN: qcc-opt %s -qcc-cut-layers='first=0 last=0' | FileCheck %s --check-prefix=BEGIN
// RUN: qcc-opt %s -qcc-cut-layers='first=1 last=1' | FileCheck %s --check-prefix=MIDDLE
// RUN: qcc-opt %s -qcc-cut-layers='first=2 last=2' | FileCheck %s --check-prefix=END
// RUN: qcc-opt %s -qcc-cut-layers='first=0 last=2' | FileCheck %s --check-prefix=WHOLE
// RUN: not qcc-opt %s -qcc-cut-layers='first=1 last=3' 2>&1 | FileCheck %s --check-prefix=RANGE
// RANGE: cannot keep layers 1 to 3: the model has layers 0 to 2

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %rope: tensor<?x8xf32>, %w: !hir.weight<64, f32>) -> tensor<?x64xf32> {
  %n = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %y = hir.add %x, %n : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// The table goes to each part that has a layer which turns; the embedding and the head to one.
// BEGIN-LABEL: func.func @trunk
// BEGIN-SAME: (%arg0: tensor<?xi32>, %arg1: !hir.rows) -> tensor<?x64xf32>
// BEGIN: hir.embed
// BEGIN: hir.rope_table
// BEGIN: "blk.0.norm"
// BEGIN: %[[LEFT:.*]] = call @block_a({{.*}}) {layer = "blk.0"}
// BEGIN-NOT: blk.1
// BEGIN: return %[[LEFT]]
// BEGIN-NOT: @head

// MIDDLE-LABEL: func.func @trunk
// MIDDLE-SAME: (%[[GIVEN:.*]]: tensor<?x64xf32>, %[[ROWS:.*]]: !hir.rows) -> tensor<?x64xf32>
// MIDDLE-NOT: hir.embed
// MIDDLE-NOT: blk.0
// MIDDLE: %[[ROPE:.*]] = hir.rope_table %[[ROWS]]
// MIDDLE: %[[LEFT:.*]] = call @block_a(%[[GIVEN]], %[[ROWS]], %[[ROPE]], {{.*}}) {layer = "blk.1"}
// MIDDLE-NOT: blk.2
// MIDDLE: return %[[LEFT]]
// MIDDLE-NOT: @head

// END-LABEL: func.func @trunk
// END-SAME: (%[[GIVEN:.*]]: tensor<?x64xf32>, %{{.*}}: !hir.rows) -> tensor<?x64xf32>
// END-NOT: blk.1
// END: call @block_a(%[[GIVEN]], {{.*}}) {layer = "blk.2"}
// END: func.func @head(%{{.*}}: tensor<?x64xf32> {hir.left_by = @trunk}

// WHOLE-LABEL: func.func @trunk
// WHOLE-SAME: (%arg0: tensor<?xi32>, %arg1: !hir.rows)
// WHOLE: {layer = "blk.0"}
// WHOLE: {layer = "blk.1"}
// WHOLE: {layer = "blk.2"}
// WHOLE: func.func @head
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %e = hir.param "token_embd.weight" : !hir.weight<100x64, f32>
  %x = hir.embed %e, %ids : !hir.weight<100x64, f32>, tensor<?xi32>
  %rope = hir.rope_table %rows {inv_freq = array<f64: 1.0, 0.5, 0.25, 0.125>, magnitude = 1.0 : f64, sections = array<i64: 4, 0, 0, 0>} : tensor<?x8xf32>
  %w0 = hir.param "blk.0.norm" : !hir.weight<64, f32>
  %a = call @block_a(%x, %rows, %rope, %w0) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, tensor<?x8xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32>
  %w1 = hir.param "blk.1.norm" : !hir.weight<64, f32>
  %b = call @block_a(%a, %rows, %rope, %w1) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, tensor<?x8xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32>
  %w2 = hir.param "blk.2.norm" : !hir.weight<64, f32>
  %c = call @block_a(%b, %rows, %rope, %w2) {layer = "blk.2"} : (tensor<?x64xf32>, !hir.rows, tensor<?x8xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32>
  return %c : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %ids: tensor<?xi32>) -> (tensor<?x100xf32> {hir.logits}) {
  %s = hir.select_rows %x, %ids : tensor<?x64xf32>, tensor<?xi32>
  %e = hir.param "token_embd.weight" : !hir.weight<100x64, f32>
  %l = hir.linear %s, %e : tensor<?x64xf32>, !hir.weight<100x64, f32>
  return %l : tensor<?x100xf32>
}
