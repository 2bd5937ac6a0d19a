// What no kernel executes is an error that names the op.
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-layout-weights -qcc-build-plan="decode=1 prefill=16 head=1"

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  // expected-error @below {{no kernel for 'hir.mul' on target cpu}}
  %y = hir.mul %x, %x : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  %y = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<64x64, f32>
  // expected-error @below {{a block must return the residual stream in place of its first argument}}
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

// In another shape is needed as well.
func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, q8_0>) -> tensor<?x64xf32> {
  %b = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
  %heads = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  // expected-error @below {{no kernel for 'hir.add' on target cpu whose operands are both needed afterwards}}
  %c = hir.add %x, %b : tensor<?x64xf32>
  %d = hir.reshape %heads : tensor<?x4x16xf32> -> tensor<?x64xf32>
  %e = hir.swiglu %d, %b : tensor<?x64xf32>
  %y = hir.add %c, %e : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, q8_0>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, q8_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, q8_0>) -> tensor<?x64xf32> {
  %a = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
  %b = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<64x64, q8_0>
  %c = hir.add %x, %a : tensor<?x64xf32>
  %d = hir.add %c, %b : tensor<?x64xf32>
  // expected-error @below {{no kernel for 'hir.add' on target cpu whose operands are both needed afterwards}}
  %e = hir.add %d, %b : tensor<?x64xf32>
  %f = hir.swiglu %d, %b : tensor<?x64xf32>
  %y = hir.add %e, %f : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, q8_0>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, q8_0>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<24x64, f32>, %wd: !hir.weight<64x24, f32>) -> tensor<?x64xf32> {
  %a = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<24x64, f32>
  // expected-error @below {{no kernel for 'hir.linear' on target cpu with rows of 24 values: it takes multiples of 16}}
  %b = hir.linear %a, %wd : tensor<?x24xf32>, !hir.weight<64x24, f32>
  %y = hir.add %x, %b : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<24x64, f32>
  %wd = hir.param "blk.0.wd" : !hir.weight<64x24, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w, %wd) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<24x64, f32>, !hir.weight<64x24, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  %a = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<64x64, f32>
  // expected-error @below {{no kernel for a slice [8, 56] of a linear of 64 rows on target cpu: matrices are cut at multiples of 16}}
  %s = hir.slice %a[8, 56] : tensor<?x64xf32>
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %s = hir.slice %x[0, 32] : tensor<?x64xf32>
  %t = hir.slice %x[32, 32] : tensor<?x64xf32>
  // expected-error @below {{no kernel for 'hir.swiglu' on target cpu with an operand from 'hir.slice', which is not stored}}
  %a = hir.swiglu %s, %t : tensor<?x32xf32>
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  // expected-error @below {{no kernel for 'hir.quantize' with block 64 on target cpu; it rounds blocks of 32}}
  %a = hir.quantize %x block 64 : tensor<?x64xf32>
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  %a = hir.quantize %x block 32 : tensor<?x64xf32>
  // expected-error @below {{no kernel for 'hir.linear' of int8 rows with f32 weights on target cpu}}
  %b = hir.linear %a, %w : tensor<?x64xf32, #hir.int8<32>>, !hir.weight<64x64, f32>
  %y = hir.add %x, %b : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %n: !hir.weight<16, f32>) -> tensor<?x64xf32> {
  %a = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  // expected-error @below {{no kernel for 'hir.rms_norm' over heads on target cpu}}
  %b = hir.rms_norm %a, %n eps 1.0e-6 : tensor<?x4x16xf32>, !hir.weight<16, f32>
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %n = hir.param "blk.0.n" : !hir.weight<16, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %n) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<16, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  // expected-error @below {{'hir.fused.linear_residual' adds in place, but the residual is needed afterwards}}
  %a = hir.fused.linear_residual %x weight %w residual %x : (tensor<?x64xf32>, !hir.weight<64x64, f32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %bw: !hir.weight<64x64, f32>, %br: tensor<?x64xf32>):
    %l = hir.linear %bx, %bw : tensor<?x64xf32>, !hir.weight<64x64, f32>
    %s = hir.add %bx, %l : tensor<?x64xf32>
    hir.yield %s : tensor<?x64xf32>
  }
  %y = hir.add %x, %a : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %w: !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  // expected-error @below {{'hir.fused.linear_swiglu' op needs 'hir.linear' in front of 'hir.swiglu', found 'hir.mul'}}
  %a = hir.fused.linear_swiglu %x gate %w up %w : (tensor<?x64xf32>, !hir.weight<64x64, f32>, !hir.weight<64x64, f32>) -> tensor<?x64xf32> {
  ^bb0(%bx: tensor<?x64xf32>, %bg: !hir.weight<64x64, f32>, %bu: !hir.weight<64x64, f32>):
    %g = hir.linear %bx, %bg : tensor<?x64xf32>, !hir.weight<64x64, f32>
    %m = hir.mul %bx, %bx : tensor<?x64xf32>
    %s = hir.swiglu %g, %m : tensor<?x64xf32>
    hir.yield %s : tensor<?x64xf32>
  }
  %y = hir.add %x, %a : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %w = hir.param "blk.0.w" : !hir.weight<64x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %w) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64x64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %n: !hir.weight<64, f32>) -> tensor<?x64xf32> {
  // expected-error @below {{'hir.fused.norm_quant' op the kernel does not execute this 'hir.activation': it is not part of what the kernel computes}}
  %a = hir.fused.norm_quant %x weight %n eps 1.0e-6 : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32, #hir.int8<32>> {
  ^bb0(%bx: tensor<?x64xf32>, %bn: !hir.weight<64, f32>):
    %u = hir.rms_norm %bx, %bn eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
    %s = hir.activation silu %u : tensor<?x64xf32>
    %q = hir.quantize %u block 32 : tensor<?x64xf32>
    hir.yield %q : tensor<?x64xf32, #hir.int8<32>>
  }
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %n = hir.param "blk.0.n" : !hir.weight<64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %n) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.weight<64, f32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 2x16, f16>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  // expected-error @below {{'hir.fused.gated_attention' op the kernel does not execute this 'hir.activation': silu instead of sigmoid}}
  %a = hir.fused.gated_attention %q state %kv rows %rows scale 0.25 : (tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>, !hir.rows) -> tensor<?x4x16xf32> {
  ^bb0(%bq: tensor<?x4x16xf32>, %bkv: !hir.state<kv, 2x16, f16>, %brows: !hir.rows):
    %o = hir.attention %bq, %bkv, %brows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
    %g = hir.activation silu %bq : tensor<?x4x16xf32>
    %m = hir.mul %o, %g : tensor<?x4x16xf32>
    hir.yield %m : tensor<?x4x16xf32>
  }
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %kv = hir.state "blk.0.kv" : !hir.state<kv, 2x16, f16>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %kv) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.state<kv, 2x16, f16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 2x16, f16>) -> tensor<?x64xf32> {
  %q = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x16xf32>
  // expected-error @below {{no kernel for 'hir.attention' on target cpu}}
  %a = hir.attention %q, %kv, %rows scale 0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %kv = hir.state "blk.0.kv" : !hir.state<kv, 2x16, f16>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows, %kv) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows, !hir.state<kv, 2x16, f16>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %y = func.call @block_a(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  // expected-error @below {{no kernel for 'hir.linear' on target cpu with selected rows}}
  %l = hir.linear %s, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  return %x : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x64xf32> {hir.logits}) {
  // expected-error @below {{no kernel for logits that do not come from 'hir.linear' on target cpu}}
  return %x : tensor<?x64xf32>
}

// -----

func.func private @block_a(%rows: !hir.rows, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  // expected-error @below {{a block takes the residual stream first, but 'block_a' takes '!hir.rows'}}
  %y = func.call @block_a(%rows, %x) {layer = "blk.0"} : (!hir.rows, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  return %x, %x : tensor<?x64xf32>, tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  // expected-error @below {{a block returns the residual stream alone, but 'block_a' returns 2 values}}
  %y:2 = func.call @block_a(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> (tensor<?x64xf32>, tensor<?x64xf32>)
  return %y#0 : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  // expected-error @below {{'block_a' puts its result in place of the residual stream, which is needed afterwards}}
  %y = func.call @block_a(%x, %rows) {layer = "blk.0"} : (tensor<?x64xf32>, !hir.rows) -> tensor<?x64xf32>
  %z = hir.add %x, %y : tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %s = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %s, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %l = hir.linear %u, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func private @block_a(%x: tensor<?x64xf32>, %e: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %s = hir.swiglu %x, %x : tensor<?x64xf32>
  %y = hir.add %x, %s : tensor<?x64xf32>
  %z = hir.swiglu %y, %e : tensor<?x64xf32>
  %r = hir.add %y, %z : tensor<?x64xf32>
  return %r : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  // expected-error @below {{'block_a' puts its result in place of the residual stream, which it takes again as argument 1}}
  %y = func.call @block_a(%x, %x) {layer = "blk.0"} : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Chosen rows lie among the others.
func.func private @block_a(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %s = hir.swiglu %x, %x : tensor<?x64xf32>
  %y = hir.add %x, %s : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  return %x : tensor<?x64xf32>
}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}, %out_rows: tensor<?xi32>) -> (tensor<?x32xf32> {hir.logits}) {
  %n = hir.param "n" : !hir.weight<64, f32>
  %t = hir.param "t" : !hir.weight<32x128, f32>
  %a = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  // expected-error @below {{'block_a' puts its result in place of the residual stream, which is needed afterwards}}
  %b = func.call @block_a(%a) {layer = "blk.0"} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %c = hir.select_rows %x, %out_rows : tensor<?x64xf32>, tensor<?xi32>
  %u = hir.rms_norm %b, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %v = hir.rms_norm %c, %n eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<64, f32>
  %w = hir.concat %u, %v : tensor<?x64xf32>, tensor<?x64xf32>
  %l = hir.linear %w, %t : tensor<?x128xf32>, !hir.weight<32x128, f32>
  return %l : tensor<?x32xf32>
}

// -----

func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %u = hir.param "u" : !hir.weight<32x64, f32>
  %a = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  %b = hir.embed %u, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  // expected-error @below {{no kernel for 'hir.add' on target cpu that begins the residual stream: the sum takes the place of an operand}}
  %x = hir.add %a, %b : tensor<?x64xf32>
  return %x : tensor<?x64xf32>
}

// -----

func.func @trunk(%ids: tensor<?xi32>, %rows: !hir.rows) -> tensor<?x64xf32> {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %x = hir.embed %t, %ids : !hir.weight<32x64, f32>, tensor<?xi32>
  return %x : tensor<?x64xf32>
}
// expected-error @below {{@head takes all rows that @trunk leaves, of which there are up to 16, in a program of 1: option 'head' needs 16 alone}}
func.func @head(%x: tensor<?x64xf32> {hir.left_by = @trunk}) -> (tensor<?x32xf32> {hir.logits}) {
  %t = hir.param "t" : !hir.weight<32x64, f32>
  %l = hir.linear %x, %t : tensor<?x64xf32>, !hir.weight<32x64, f32>
  return %l : tensor<?x32xf32>
}
