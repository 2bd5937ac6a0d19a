// RUN: qcc-opt %s --qcc-defer-last-ffn --split-input-file --verify-diagnostics | FileCheck %s

// What works row by row on one value behind the attention moves; the output projection needs two and stays. The other layer
// keeps the whole block.
// CHECK-LABEL: func.func private @block_a(
// CHECK: hir.linear
// CHECK-LABEL: func.func private @block_a_mixer(
// CHECK-SAME: %arg0: tensor<?x64xf32>, %arg1: !hir.rows, %arg2: !hir.weight<64x64, f32>, %arg3: !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32>
// CHECK: hir.kv_store
// CHECK: hir.attention
// CHECK: %[[O:.*]] = hir.linear {{.*}}, %arg2
// CHECK-NEXT: %[[R:.*]] = hir.add %arg0, %[[O]]
// CHECK-NEXT: return %[[R]]
// CHECK-LABEL: func.func private @block_a_ffn(
// CHECK-SAME: %arg0: tensor<?x64xf32>, %arg1: !hir.weight<64, f32>, %arg2: !hir.weight<64x64, f32>) -> tensor<?x64xf32>
// CHECK-NEXT: %[[N:.*]] = hir.rms_norm %arg0, %arg1
// CHECK-NEXT: %[[F:.*]] = hir.linear %[[N]], %arg2
// CHECK-NEXT: %[[S:.*]] = hir.add %arg0, %[[F]]
// CHECK-NEXT: return %[[S]]
// CHECK-LABEL: func.func @trunk(
// CHECK: call @block_a({{.*}} {layer = "blk.0"}
// CHECK-NOT: hir.param "blk.1.norm"
// CHECK-NOT: hir.param "blk.1.ffn"
// CHECK: call @block_a_mixer({{.*}} {layer = "blk.1"}
// CHECK-LABEL: func.func @head(
// CHECK-NEXT: %[[C:.*]] = hir.select_rows %arg0, %arg1
// CHECK-DAG: %[[PN:.*]] = hir.param "blk.1.norm"
// CHECK-DAG: %[[PF:.*]] = hir.param "blk.1.ffn"
// CHECK: %[[Y:.*]] = call @block_a_ffn(%[[C]], %[[PN]], %[[PF]]) {layer = "blk.1"}
// CHECK: hir.rms_norm %[[Y]]
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %o: !hir.weight<64x64, f32>, %n: !hir.weight<64, f32>, %f: !hir.weight<64x64, f32>, %kv: !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x1x64xf32>
  hir.kv_store %q, %q, %kv, %rows : tensor<?x1x64xf32>, !hir.state<kv, 1x64, f16>
  %a = hir.attention %q, %kv, %rows scale 1.0 : tensor<?x1x64xf32>, !hir.state<kv, 1x64, f16>
  %h = hir.reshape %a : tensor<?x1x64xf32> -> tensor<?x64xf32>
  %p = hir.linear %h, %o : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %r = hir.add %x, %p : tensor<?x64xf32>
  %u = hir.rms_norm %r, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %d = hir.linear %u, %f : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %s = hir.add %r, %d : tensor<?x64xf32>
  return %s : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %o0 = hir.param "blk.0.o" : !hir.weight<64x64, f32>
  %n0 = hir.param "blk.0.norm" : !hir.weight<64, f32>
  %f0 = hir.param "blk.0.ffn" : !hir.weight<64x64, f32>
  %kv0 = hir.state "blk.0.kv" : !hir.state<kv, 1x64, f16>
  %y = func.call @block_a(%x, %rows, %o0, %n0, %f0, %kv0) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>, !hir.weight<64, f32>, !hir.weight<64x64, f32>, !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32>
  %o1 = hir.param "blk.1.o" : !hir.weight<64x64, f32>
  %n1 = hir.param "blk.1.norm" : !hir.weight<64, f32>
  %f1 = hir.param "blk.1.ffn" : !hir.weight<64x64, f32>
  %kv1 = hir.state "blk.1.kv" : !hir.state<kv, 1x64, f16>
  // expected-remark @below {{moved last_ffn: 3 ops behind the choice of rows}}
  %z = func.call @block_a(%y, %rows, %o1, %n1, %f1, %kv1) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>, !hir.weight<64, f32>, !hir.weight<64x64, f32>, !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %n = hir.param "n" : !hir.weight<64, f32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

// A fused group of experts works row by row, too. A block that nobody else calls goes.
// CHECK-NOT: func.func private @block_m(
// CHECK-LABEL: func.func private @block_m_mixer(
// CHECK: hir.attention
// CHECK-NOT: hir.fused.moe
// CHECK-LABEL: func.func private @block_m_ffn(
// CHECK: hir.fused.moe %arg0
// CHECK-LABEL: func.func @head(
// CHECK: call @block_m_ffn
func.func private @block_m(%x: tensor<?x64xf32>, %rows: !hir.rows, %r: !hir.weight<8x64, f32>, %g: !hir.weight<8x32x64, q8_0>, %u: !hir.weight<8x32x64, q8_0>, %d: !hir.weight<8x64x32, q8_0>, %kv: !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x1x64xf32>
  %a = hir.attention %q, %kv, %rows scale 1.0 : tensor<?x1x64xf32>, !hir.state<kv, 1x64, f16>
  %h = hir.reshape %a : tensor<?x1x64xf32> -> tensor<?x64xf32>
  %s = hir.add %x, %h : tensor<?x64xf32>
  %y = hir.fused.moe %s router %r softmax top_k 2 normalise true floor 0.5 scale 1.0 experts %s gate %g up %u down %d residual %s : (tensor<?x64xf32>, !hir.weight<8x64, f32>, tensor<?x64xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %br: !hir.weight<8x64, f32>, %bex: tensor<?x64xf32>, %bg: !hir.weight<8x32x64, q8_0>, %bu: !hir.weight<8x32x64, q8_0>, %bd: !hir.weight<8x64x32, q8_0>, %bres: tensor<?x64xf32>):
    %l = hir.linear %bx, %br : tensor<?x64xf32>, !hir.weight<8x64, f32>
    %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
    %e = hir.moe_experts %bex, %ids, %w gate %bg up %bu down %bd : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>) -> tensor<?x64xf32>
    %sum = hir.add %bres, %e : tensor<?x64xf32>
    hir.yield %sum : tensor<?x64xf32>
  }
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %r = hir.param "blk.0.r" : !hir.weight<8x64, f32>
  %g = hir.param "blk.0.g" : !hir.weight<8x32x64, q8_0>
  %u = hir.param "blk.0.u" : !hir.weight<8x32x64, q8_0>
  %d = hir.param "blk.0.d" : !hir.weight<8x64x32, q8_0>
  %kv = hir.state "blk.0.kv" : !hir.state<kv, 1x64, f16>
  // expected-remark @below {{moved last_ffn: 1 ops behind the choice of rows}}
  %y = func.call @block_m(%x, %rows, %r, %g, %u, %d, %kv) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<8x64, f32>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x32x64, q8_0>, !hir.weight<8x64x32, q8_0>, !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %s, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

// A draft is given finished rows of all tokens.
// CHECK-NOT: _mixer
func.func private @block_k(%x: tensor<?x64xf32>, %rows: !hir.rows, %f: !hir.weight<64x64, f32>, %kv: !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x1x64xf32>
  %a = hir.attention %q, %kv, %rows scale 1.0 : tensor<?x1x64xf32>, !hir.state<kv, 1x64, f16>
  %h = hir.reshape %a : tensor<?x1x64xf32> -> tensor<?x64xf32>
  %d = hir.linear %h, %f : tensor<?x64xf32>, !hir.weight<64x64, f32>
  return %d : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %f = hir.param "blk.0.f" : !hir.weight<64x64, f32>
  %kv = hir.state "blk.0.kv" : !hir.state<kv, 1x64, f16>
  // expected-remark @below {{kept last_ffn: @draft is given rows of all tokens}}
  %y = func.call @block_k(%x, %rows, %f, %kv) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>, !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %s, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
func.func @draft(%hidden: tensor<?x64xf32>) -> (tensor<?x32xf32> {hir.logits}) {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %hidden, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

// Whoever takes the rows takes all; the caller gets them; nothing works row by row at the end; everything does.
// CHECK-NOT: _mixer
func.func private @block_w(%x: tensor<?x64xf32>, %w: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  %y = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<64x64, f32>
  return %y : tensor<?x64xf32>
}
func.func private @block_n(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x4, f32>, %c: !hir.state<conv, 3x64, f32>) -> tensor<?x64xf32> {
  %y = hir.causal_conv1d %x, %w, %c, %rows : tensor<?x64xf32>, !hir.weight<64x4, f32>, !hir.state<conv, 3x64, f32>
  return %y : tensor<?x64xf32>
}
func.func @all(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, f32>
  // expected-remark @below {{kept last_ffn: @every takes the rows of all tokens}}
  %y = func.call @block_w(%x, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @every(%x: tensor<?x64xf32> {hir.left_by = @all}) -> (tensor<?x32xf32> {hir.logits}) {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %x, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
func.func @embedding(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %w = hir.param "blk.1.w" : !hir.weight<64x64, f32>
  // expected-remark @below {{kept last_ffn: @embedding gives its rows to the caller}}
  %y = func.call @block_w(%x, %w) {layer = "blk.1"} : (tensor<?x64xf32>, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @none(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %w = hir.param "blk.2.w" : !hir.weight<64x4, f32>
  %c = hir.state "blk.2.conv" : !hir.state<conv, 3x64, f32>
  // expected-remark @below {{kept last_ffn: nothing at the end of @block_n works row by row on one value}}
  %y = func.call @block_n(%x, %rows, %w, %c) {layer = "blk.2"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x4, f32>, !hir.state<conv, 3x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @none_head(%x: tensor<?x64xf32> {hir.left_by = @none}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %s, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
func.func @whole(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %w = hir.param "blk.3.w" : !hir.weight<64x64, f32>
  // expected-remark @below {{kept last_ffn: @block_w works row by row throughout}}
  %y = func.call @block_w(%x, %w) {layer = "blk.3"} : (tensor<?x64xf32>, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @whole_head(%x: tensor<?x64xf32> {hir.left_by = @whole}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %s, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

// Where rows are chosen twice there would be two calls of what is moved, and its weights are those of one layer.
// CHECK-NOT: _mixer
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %o: !hir.weight<64x64, f32>, %n: !hir.weight<64, f32>, %f: !hir.weight<64x64, f32>, %kv: !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x1x64xf32>
  hir.kv_store %q, %q, %kv, %rows : tensor<?x1x64xf32>, !hir.state<kv, 1x64, f16>
  %a = hir.attention %q, %kv, %rows scale 1.0 : tensor<?x1x64xf32>, !hir.state<kv, 1x64, f16>
  %h = hir.reshape %a : tensor<?x1x64xf32> -> tensor<?x64xf32>
  %p = hir.linear %h, %o : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %r = hir.add %x, %p : tensor<?x64xf32>
  %u = hir.rms_norm %r, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %d = hir.linear %u, %f : tensor<?x64xf32>, !hir.weight<64x64, f32>
  %s = hir.add %r, %d : tensor<?x64xf32>
  return %s : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %o0 = hir.param "blk.0.o" : !hir.weight<64x64, f32>
  %n0 = hir.param "blk.0.norm" : !hir.weight<64, f32>
  %f0 = hir.param "blk.0.ffn" : !hir.weight<64x64, f32>
  %kv0 = hir.state "blk.0.kv" : !hir.state<kv, 1x64, f16>
  // expected-remark @below {{kept last_ffn: the rows that @trunk leaves are chosen in 2 places}}
  %y = func.call @block_a(%x, %rows, %o0, %n0, %f0, %kv0) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>, !hir.weight<64, f32>, !hir.weight<64x64, f32>, !hir.state<kv, 1x64, f16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %n = hir.param "n.head" : !hir.weight<64, f32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
func.func @other(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %n = hir.param "n.other" : !hir.weight<64, f32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
