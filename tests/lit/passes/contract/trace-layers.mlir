// Each call of a block gets a state of its own, where the block leaves the last row of its result.
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-trace-layers | FileCheck %s
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-trace-layers=all=true | FileCheck %s --check-prefix=ALL

// CHECK-LABEL: func.func private @block_a
// CHECK-SAME: %[[X:arg0]]: tensor<?x64xf32>, %[[ROWS:arg1]]: !hir.rows, %arg2: !hir.weight<64, f32>, %[[S:arg3]]: !hir.state<trace, 64, f32>
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64, f32>) -> tensor<?x64xf32> {
  %n = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  // CHECK: %[[SUM:.*]] = hir.add
  %y = hir.add %x, %n : tensor<?x64xf32>
  // CHECK: hir.trace %[[SUM]], %[[S]], %[[ROWS]]
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @trunk
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %e = hir.param "token_embd.weight" : !hir.weight<100x64, f32>
  %w = hir.param "norm" : !hir.weight<64, f32>
  %x = hir.embed %e, %ids : !hir.weight<100x64, f32>, tensor<?xi32>
  // CHECK: %[[S0:.*]] = hir.state "blk.0.l_out" : !hir.state<trace, 64, f32>
  // CHECK: call @block_a({{.*}}, %[[S0]]) {layer = "blk.0"}
  %y = call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
  // CHECK: %[[S1:.*]] = hir.state "blk.1.l_out" : !hir.state<trace, 64, f32>
  // CHECK: call @block_a({{.*}}, %[[S1]]) {layer = "blk.1"}
  %z = call @block_a(%y, %rows, %w) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}

// -----

// Values with a role, by what their ops are about; views and what a linear is sliced into are none.
// ALL-LABEL: func.func private @block_d
// ALL-SAME: !hir.state<trace, 64, f32>, %{{.*}}: !hir.state<trace, 32, f32>, %[[OUT:arg[0-9]+]]: !hir.state<trace, 64, f32>)
// CHECK-LABEL: func.func private @block_d
func.func private @block_d(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64, f32>, %up: !hir.weight<32x64, f32>, %down: !hir.weight<64x32, f32>) -> tensor<?x64xf32> {
  // ALL: %[[N:.*]] = hir.rms_norm
  // ALL-NEXT: hir.trace %[[N]]
  // CHECK: hir.rms_norm
  // CHECK-NEXT: hir.linear
  %n = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32> loc("blk.*.ffn_norm.weight")
  // ALL: %[[UP:.*]] = hir.linear
  // ALL-NEXT: hir.trace %[[UP]]
  %u = hir.linear %n, %up : tensor<?x64xf32>, !hir.weight<32x64, f32> loc("blk.*.ffn_up.weight")
  %h = hir.reshape %u : tensor<?x32xf32> -> tensor<?x4x8xf32> loc("blk.*.ffn_up.weight")
  %f = hir.reshape %h : tensor<?x4x8xf32> -> tensor<?x32xf32> loc("blk.*.ffn_up.weight")
  %o = hir.linear %f, %down : tensor<?x32xf32>, !hir.weight<64x32, f32> loc("blk.*.no_role.weight")
  // ALL: %[[SUM:.*]] = hir.add
  // ALL-NEXT: hir.trace %[[SUM]], %[[OUT]]
  %y = hir.add %x, %o : tensor<?x64xf32> loc("blk.*.ffn_down.weight")
  return %y : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64, f32>, %up: !hir.weight<32x64, f32>, %down: !hir.weight<64x32, f32>) -> tensor<?x64xf32> {
  // ALL: hir.state "blk.3.ffn_norm"
  // ALL: hir.state "blk.3.ffn_up"
  // ALL: hir.state "blk.3.l_out"
  %y = call @block_d(%x, %rows, %w, %up, %down) {layer = "blk.3"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>, !hir.weight<32x64, f32>, !hir.weight<64x32, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// expected-error @below {{cannot trace 'block_b': it does not know the step's rows}}
func.func private @block_b(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = hir.add %x, %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = call @block_b(%x) {layer = "blk.0"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// expected-error @below {{cannot trace 'block_c': it does not return the residual stream alone}}
func.func private @block_c(%x: tensor<?x64xf32>, %rows: !hir.rows) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  return %x, %x : tensor<?x64xf32>, tensor<?x64xf32>
}
func.func @trunk(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %y, %z = call @block_c(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> (tensor<?x64xf32>, tensor<?x64xf32>)
  return %y : tensor<?x64xf32>
}

// -----

// A call that does not say of which layer it is.
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64, f32>) -> tensor<?x64xf32> {
  %y = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  return %y : tensor<?x64xf32>
}

func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %e = hir.param "token_embd.weight" : !hir.weight<100x64, f32>
  %w = hir.param "norm" : !hir.weight<64, f32>
  %x = hir.embed %e, %ids : !hir.weight<100x64, f32>, tensor<?xi32>
  // expected-error @below {{a layer's call needs the attribute 'layer'}}
  %y = call @block_a(%x, %rows, %w) : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
