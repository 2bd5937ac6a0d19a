// RUN: qcc-opt %s --split-input-file --verify-diagnostics

func.func @param_name() {
  // expected-error @+1 {{'hir.param' op needs a name, found an empty one}}
  %w = hir.param "" : !hir.weight<64x32, q8_0>
  return
}

// -----

func.func @state_name() {
  // expected-error @+1 {{'hir.state' op needs a name, found an empty one}}
  %s = hir.state "" : !hir.state<kv, 2x16, f16>
  return
}

// -----

func.func @activation_features(%x: tensor<?x?xf32>) {
  // expected-error @+1 {{operand #0 must be [rows, features] or [rows, heads, head_dim] with positive static features, without encoding, of 32-bit float values, but got 'tensor<?x?xf32>'}}
  %y = hir.activation silu %x : tensor<?x?xf32>
  return
}

// -----

func.func @activation_element(%x: tensor<?x4xf16>) {
  // expected-error @+1 {{of 32-bit float values, but got 'tensor<?x4xf16>'}}
  %y = hir.activation silu %x : tensor<?x4xf16>
  return
}

// -----

func.func @activation_rank(%x: tensor<?xf32>) {
  // expected-error @+1 {{operand #0 must be [rows, features] or [rows, heads, head_dim]}}
  %y = hir.activation silu %x : tensor<?xf32>
  return
}

// -----

// Rounded values feed linear layers only.
func.func @activation_encoding(%x: tensor<?x32xf32, #hir.int8<32>>) {
  // expected-error @+1 {{without encoding, of 32-bit float values, but got 'tensor<?x32xf32, #hir.int8<32>>'}}
  %y = hir.activation silu %x : tensor<?x32xf32, #hir.int8<32>>
  return
}

// -----

func.func @activation_kind(%x: tensor<?x4xf32>) {
  // expected-error @+2 {{expected ::qcc::hir::ActivationKind to be one of: silu, sigmoid, softplus}}
  // expected-error @+1 {{failed to parse Hir_ActivationKindAttr}}
  %y = hir.activation tanh %x : tensor<?x4xf32>
  return
}

// -----

func.func @add(%x: tensor<?x4xf32>, %y: tensor<?x8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %z = "hir.add"(%x, %y) : (tensor<?x4xf32>, tensor<?x8xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @mul(%x: tensor<?x4xf32>, %y: tensor<?x8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %z = "hir.mul"(%x, %y) : (tensor<?x4xf32>, tensor<?x8xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @swiglu(%x: tensor<?x4xf32>, %y: tensor<?x8xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %z = "hir.swiglu"(%x, %y) : (tensor<?x4xf32>, tensor<?x8xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @embed_rank(%t: !hir.weight<64, f32>, %ids: tensor<?xi32>) {
  // expected-error @+1 {{'hir.embed' op table must have 2 dimensions, found 1}}
  %x = "hir.embed"(%t, %ids) : (!hir.weight<64, f32>, tensor<?xi32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @embed_ids(%t: !hir.weight<100x64, f32>, %ids: tensor<?xi64>) {
  // expected-error @+1 {{operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<?xi64>'}}
  %x = hir.embed %t, %ids : !hir.weight<100x64, f32>, tensor<?xi64>
  return
}

// -----

func.func @embed_result(%t: !hir.weight<100x64, f32>, %ids: tensor<?xi32>) {
  // expected-error @+2 {{'hir.embed' op failed to infer returned types}}
  // expected-error @+1 {{'hir.embed' op inferred type(s) 'tensor<?x64xf32>' are incompatible with return type(s) of operation 'tensor<?x32xf32>'}}
  %x = "hir.embed"(%t, %ids) : (!hir.weight<100x64, f32>, tensor<?xi32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @rms_norm_length(%x: tensor<?x64xf32>, %w: !hir.weight<32, f32>) {
  // expected-error @+1 {{'hir.rms_norm' op weight must have 64 elements (the last dimension of x), found 32}}
  %y = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<32, f32>
  return
}

// -----

func.func @rms_norm_rank(%x: tensor<?x64xf32>, %w: !hir.weight<1x64, f32>) {
  // expected-error @+1 {{'hir.rms_norm' op weight must have 1 dimension, found 2 in '!hir.weight<1x64, f32>'}}
  %y = hir.rms_norm %x, %w eps 1.0e-6 : tensor<?x64xf32>, !hir.weight<1x64, f32>
  return
}

// -----

func.func @rms_norm_eps(%x: tensor<?x64xf32>, %w: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.rms_norm' op eps must be positive and finite, found 0}}
  %y = hir.rms_norm %x, %w eps 0.0 : tensor<?x64xf32>, !hir.weight<64, f32>
  return
}

// -----

func.func @l2_norm_eps(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{'hir.l2_norm' op eps must be positive and finite, found -1}}
  %y = hir.l2_norm %x eps -1.0 : tensor<?x64xf32>
  return
}

// -----

func.func @l2_norm_form(%x: tensor<?x64xf32>) {
  // expected-error @+2 {{expected ::qcc::hir::L2Form to be one of: sum, max}}
  // expected-error @+1 {{failed to parse Hir_L2FormAttr parameter 'value'}}
  %y = hir.l2_norm %x eps 1.0 form mean : tensor<?x64xf32>
  return
}

// -----

func.func @quantize_features(%x: tensor<?x48xf32>) {
  // expected-error @+1 {{'hir.quantize' op features must be a multiple of the block 32, found 48}}
  %y = hir.quantize %x block 32 : tensor<?x48xf32>
  return
}

// -----

func.func @quantize_block(%x: tensor<?x48xf32>) {
  // expected-error @+1 {{'hir.quantize' op block must be at least 1, found 0}}
  %y = hir.quantize %x block 0 : tensor<?x48xf32>
  return
}

// -----

func.func @quantize_result(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{'hir.quantize' op result must have the encoding #hir.int8<32>, found 'tensor<?x64xf32, #hir.int8<16>>'}}
  %y = "hir.quantize"(%x) {block = 32 : i64} : (tensor<?x64xf32>) -> tensor<?x64xf32, #hir.int8<16>>
  return
}

// -----

func.func @linear_columns(%x: tensor<?x64xf32>, %w: !hir.weight<128x32, q8_0>) {
  // expected-error @+1 {{'hir.linear' op weight has 32 columns, x has 64 features}}
  %y = hir.linear %x, %w : tensor<?x64xf32>, !hir.weight<128x32, q8_0>
  return
}

// -----

func.func @linear_scale(%x: tensor<?x64xf32>, %w: !hir.weight<128x64, q8_0>, %s: !hir.weight<128, f32>) {
  // expected-error @+1 {{'hir.linear' op scale must be one f32 number, found '!hir.weight<128, f32>'}}
  %y = hir.linear %x, %w scale %s : tensor<?x64xf32>, !hir.weight<128x64, q8_0>, !hir.weight<128, f32>
  return
}

// -----

func.func @linear_rank(%x: tensor<?x64xf32>, %w: !hir.weight<64, f32>) {
  // expected-error @+1 {{'hir.linear' op weight must have 2 dimensions, found 1}}
  %y = "hir.linear"(%x, %w) : (tensor<?x64xf32>, !hir.weight<64, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @linear_inference(%x: tensor<?x4x16xf32>, %w: !hir.weight<128x32, q8_0>) {
  // expected-error @+1 {{'hir.linear' cannot infer its result type: needs [rows, features] and a weight of 2 dimensions}}
  %y = hir.linear %x, %w : tensor<?x4x16xf32>, !hir.weight<128x32, q8_0>
  return
}

// -----

func.func @reshape_rows(%x: tensor<8x64xf32>) {
  // expected-error @+1 {{'hir.reshape' op must keep the rows: x has 8, the result has ?}}
  %y = hir.reshape %x : tensor<8x64xf32> -> tensor<?x4x16xf32>
  return
}

// -----

func.func @reshape_elements(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{'hir.reshape' op must keep the elements of a row: x has 64, the result has 60}}
  %y = hir.reshape %x : tensor<?x64xf32> -> tensor<?x4x15xf32>
  return
}

// -----

func.func @slice_end(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{'hir.slice' op elements [40, 40 + 32) are not inside the last dimension of 64}}
  %y = hir.slice %x[40, 32] : tensor<?x64xf32>
  return
}

// -----

func.func @slice_begin(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{'hir.slice' op elements [-1, -1 + 32) are not inside the last dimension of 64}}
  %y = hir.slice %x[-1, 32] : tensor<?x64xf32>
  return
}

// -----

func.func @slice_overflow(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{are not inside the last dimension of 64}}
  %y = hir.slice %x[9223372036854775807, 32] : tensor<?x64xf32>
  return
}

// -----

func.func @slice_size(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{'hir.slice' op size must be at least 1, found 0}}
  %y = hir.slice %x[0, 0] : tensor<?x64xf32>
  return
}

// -----

func.func @concat_rows(%x: tensor<4x64xf32>, %y: tensor<5x64xf32>) {
  // expected-error @+1 {{'hir.concat' op lhs has 4 rows, rhs has 5}}
  %z = hir.concat %x, %y : tensor<4x64xf32>, tensor<5x64xf32>
  return
}

// -----

func.func @select_rows(%x: tensor<?x64xf32>, %i: tensor<?xf32>) {
  // expected-error @+1 {{operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<?xf32>'}}
  %y = hir.select_rows %x, %i : tensor<?x64xf32>, tensor<?xf32>
  return
}

// -----

func.func @conv_channels(%x: tensor<?x48xf32>, %w: !hir.weight<32x4, f32>, %s: !hir.state<conv, 3x48, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.causal_conv1d' op weight has 32 channels, x has 48}}
  %y = hir.causal_conv1d %x, %w, %s, %r : tensor<?x48xf32>, !hir.weight<32x4, f32>, !hir.state<conv, 3x48, f32>
  return
}

// -----

func.func @conv_rank(%x: tensor<?x48xf32>, %w: !hir.weight<48, f32>, %s: !hir.state<conv, 3x48, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.causal_conv1d' op weight must have 2 dimensions, found 1}}
  %y = hir.causal_conv1d %x, %w, %s, %r : tensor<?x48xf32>, !hir.weight<48, f32>, !hir.state<conv, 3x48, f32>
  return
}

// -----

func.func @conv_taps(%x: tensor<?x48xf32>, %w: !hir.weight<48x1, f32>, %s: !hir.state<conv, 3x48, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.causal_conv1d' op weight must have at least 2 taps, found 1}}
  %y = hir.causal_conv1d %x, %w, %s, %r : tensor<?x48xf32>, !hir.weight<48x1, f32>, !hir.state<conv, 3x48, f32>
  return
}

// -----

func.func @conv_state(%x: tensor<?x48xf32>, %w: !hir.weight<48x4, f32>, %s: !hir.state<conv, 4x48, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.causal_conv1d' op state must be 3x48 (taps - 1 x channels), found 4x48}}
  %y = hir.causal_conv1d %x, %w, %s, %r : tensor<?x48xf32>, !hir.weight<48x4, f32>, !hir.state<conv, 4x48, f32>
  return
}

// -----

func.func @conv_state_kind(%x: tensor<?x48xf32>, %w: !hir.weight<48x4, f32>, %s: !hir.state<kv, 3x48, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.causal_conv1d' op needs a conv state, found kv}}
  %y = hir.causal_conv1d %x, %w, %s, %r : tensor<?x48xf32>, !hir.weight<48x4, f32>, !hir.state<kv, 3x48, f32>
  return
}

// -----

func.func @decay_a(%a: tensor<?x4xf32>, %s: !hir.weight<3, f32>, %d: !hir.weight<4, f32>) {
  // expected-error @+1 {{'hir.gdn_decay' op ssm_a must have 4 elements (value heads of a), found 3}}
  %g = hir.gdn_decay %a, %s, %d : tensor<?x4xf32>, !hir.weight<3, f32>, !hir.weight<4, f32>
  return
}

// -----

func.func @decay_bias(%a: tensor<?x4xf32>, %s: !hir.weight<4, f32>, %d: !hir.weight<8, f32>) {
  // expected-error @+1 {{'hir.gdn_decay' op dt_bias must have 4 elements (value heads of a), found 8}}
  %g = hir.gdn_decay %a, %s, %d : tensor<?x4xf32>, !hir.weight<4, f32>, !hir.weight<8, f32>
  return
}

// -----

func.func @delta_heads(%q: tensor<?x2x8xf32>, %v: tensor<?x3x4xf32>, %g: tensor<?x3xf32>, %s: !hir.state<delta, 3x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.gated_delta' op value heads must be a multiple of the key heads, found 3 and 2}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.5 : tensor<?x2x8xf32>, tensor<?x3x4xf32>, tensor<?x3xf32>, !hir.state<delta, 3x8x4, f32>
  return
}

// -----

func.func @gated_delta_no_key_heads(%q: tensor<?x0x16xf32>, %v: tensor<?x4x16xf32>, %g: tensor<?x4xf32>, %r: !hir.rows) {
  %s = hir.state "s" : !hir.state<delta, 4x16x16, f32>
  // expected-error @+1 {{'hir.gated_delta' op operand #0 must be [rows, heads, head_dim] with positive static features}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.25 : tensor<?x0x16xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, !hir.state<delta, 4x16x16, f32>
  return
}

// -----

func.func @delta_gates(%q: tensor<?x2x8xf32>, %v: tensor<?x4x4xf32>, %g: tensor<?x2xf32>, %s: !hir.state<delta, 4x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.gated_delta' op g and beta must have 4 value heads, found 2}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.5 : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x2xf32>, !hir.state<delta, 4x8x4, f32>
  return
}

// -----

func.func @delta_state(%q: tensor<?x2x8xf32>, %v: tensor<?x4x4xf32>, %g: tensor<?x4xf32>, %s: !hir.state<delta, 4x4x8, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.gated_delta' op state must be 4x8x4 (value_heads x key_dim x value_dim), found 4x4x8}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.5 : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x4x8, f32>
  return
}

// -----

func.func @delta_rows(%q: tensor<5x2x8xf32>, %v: tensor<6x4x4xf32>, %g: tensor<5x4xf32>, %s: !hir.state<delta, 4x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.gated_delta' op v has 6 rows, q has 5}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.5 : tensor<5x2x8xf32>, tensor<6x4x4xf32>, tensor<5x4xf32>, !hir.state<delta, 4x8x4, f32>
  return
}

// -----

func.func @delta_gate_rows(%q: tensor<5x2x8xf32>, %v: tensor<5x4x4xf32>, %g: tensor<4x4xf32>, %s: !hir.state<delta, 4x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.gated_delta' op g has 4 rows, q has 5}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.5 : tensor<5x2x8xf32>, tensor<5x4x4xf32>, tensor<4x4xf32>, !hir.state<delta, 4x8x4, f32>
  return
}

// -----

func.func @delta_scale(%q: tensor<?x2x8xf32>, %v: tensor<?x4x4xf32>, %g: tensor<?x4xf32>, %s: !hir.state<delta, 4x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.gated_delta' op scale must be positive and finite, found 0}}
  %o = hir.gated_delta %q, %q, %v, %g, %g, %s, %r scale 0.0 : tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x4, f32>
  return
}

// -----

func.func @delta_key(%q: tensor<?x2x8xf32>, %k: tensor<?x4x8xf32>, %v: tensor<?x4x4xf32>, %g: tensor<?x4xf32>, %s: !hir.state<delta, 4x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{failed to verify that all of {q, k} have same type}}
  %o = "hir.gated_delta"(%q, %k, %v, %g, %g, %s, %r) {scale = 0.5 : f32} : (tensor<?x2x8xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, !hir.state<delta, 4x8x4, f32>, !hir.rows) -> tensor<?x4x4xf32>
  return
}

// -----

func.func @delta_beta(%q: tensor<?x2x8xf32>, %v: tensor<?x4x4xf32>, %g: tensor<?x4xf32>, %b: tensor<?x2xf32>, %s: !hir.state<delta, 4x8x4, f32>, %r: !hir.rows) {
  // expected-error @+1 {{failed to verify that all of {g, beta} have same type}}
  %o = "hir.gated_delta"(%q, %q, %v, %g, %b, %s, %r) {scale = 0.5 : f32} : (tensor<?x2x8xf32>, tensor<?x2x8xf32>, tensor<?x4x4xf32>, tensor<?x4xf32>, tensor<?x2xf32>, !hir.state<delta, 4x8x4, f32>, !hir.rows) -> tensor<?x4x4xf32>
  return
}

// -----

func.func @table_pairs(%r: !hir.rows) {
  // expected-error @+1 {{'hir.rope_table' op inv_freq must have at least one pair, found none}}
  %t = hir.rope_table %r {inv_freq = array<f64>, sections = array<i64>, magnitude = 1.0 : f64} : tensor<?x2xf32>
  return
}

// -----

func.func @table_features(%r: !hir.rows) {
  // expected-error @+1 {{'hir.rope_table' op result must have 4 features (2 * pairs), found 2}}
  %t = hir.rope_table %r {inv_freq = array<f64: 1.0, 0.5>, sections = array<i64>, magnitude = 1.0 : f64} : tensor<?x2xf32>
  return
}

// -----

func.func @table_frequency(%r: !hir.rows) {
  // expected-error @+1 {{'hir.rope_table' op inv_freq must be finite, found}}
  %t = hir.rope_table %r {inv_freq = array<f64: 0x7FF0000000000000>, sections = array<i64>, magnitude = 1.0 : f64} : tensor<?x2xf32>
  return
}

// -----

func.func @table_magnitude(%r: !hir.rows) {
  // expected-error @+1 {{'hir.rope_table' op magnitude must be positive and finite, found 0}}
  %t = hir.rope_table %r {inv_freq = array<f64: 1.0>, sections = array<i64>, magnitude = 0.0 : f64} : tensor<?x2xf32>
  return
}

// -----

func.func @table_sections(%r: !hir.rows) {
  // expected-error @+1 {{'hir.rope_table' op sections must be empty or [t, h, w, e], found 3 entries}}
  %t = hir.rope_table %r {inv_freq = array<f64: 1.0>, sections = array<i64: 1, 1, 1>, magnitude = 1.0 : f64} : tensor<?x2xf32>
  return
}

// -----

func.func @table_section(%r: !hir.rows) {
  // expected-error @+1 {{'hir.rope_table' op sections must not be negative, found -1}}
  %t = hir.rope_table %r {inv_freq = array<f64: 1.0>, sections = array<i64: 1, -1, 1, 0>, magnitude = 1.0 : f64} : tensor<?x2xf32>
  return
}

// -----

func.func @rope_dims(%x: tensor<?x4x16xf32>, %t: tensor<?x32xf32>) {
  // expected-error @+1 {{'hir.rope' op rotates 32 dimensions of heads that have 16}}
  %y = hir.rope %x, %t : tensor<?x4x16xf32>, tensor<?x32xf32>
  return
}

// -----

func.func @rope_pairs(%x: tensor<?x4x16xf32>, %t: tensor<?x7xf32>) {
  // expected-error @+1 {{'hir.rope' op table must hold cos and sin of each pair, found 7 features}}
  %y = hir.rope %x, %t : tensor<?x4x16xf32>, tensor<?x7xf32>
  return
}

// -----

func.func @rope_rows(%x: tensor<3x4x16xf32>, %t: tensor<2x8xf32>) {
  // expected-error @+1 {{'hir.rope' op table has 2 rows, x has 3}}
  %y = hir.rope %x, %t : tensor<3x4x16xf32>, tensor<2x8xf32>
  return
}

// -----

func.func @store_shape(%k: tensor<?x2x16xf32>, %s: !hir.state<kv, 4x16, f16>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.kv_store' op state must be 2x16 (kv_heads x head_dim of k), found 4x16}}
  hir.kv_store %k, %k, %s, %r : tensor<?x2x16xf32>, !hir.state<kv, 4x16, f16>
  return
}

// -----

func.func @store_kind(%k: tensor<?x2x16xf32>, %s: !hir.state<conv, 2x16, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.kv_store' op needs a kv state, found conv}}
  hir.kv_store %k, %k, %s, %r : tensor<?x2x16xf32>, !hir.state<conv, 2x16, f32>
  return
}

// -----

func.func @store_types(%k: tensor<?x2x16xf32>, %v: tensor<?x2x8xf32>, %s: !hir.state<kv, 2x16, f16>, %r: !hir.rows) {
  // expected-error @+1 {{failed to verify that all of {k, v} have same type}}
  "hir.kv_store"(%k, %v, %s, %r) : (tensor<?x2x16xf32>, tensor<?x2x8xf32>, !hir.state<kv, 2x16, f16>, !hir.rows) -> ()
  return
}

// -----

func.func @trace_kind(%x: tensor<?x16xf32>, %s: !hir.state<conv, 3x16, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.trace' op needs a trace state, found conv}}
  hir.trace %x, %s, %r : tensor<?x16xf32>, !hir.state<conv, 3x16, f32>
  return
}

// -----

func.func @trace_width(%x: tensor<?x16xf32>, %s: !hir.state<trace, 17, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.trace' op state must be 16 (the features of x), found 17}}
  hir.trace %x, %s, %r : tensor<?x16xf32>, !hir.state<trace, 17, f32>
  return
}

// -----

func.func @attention_heads(%q: tensor<?x5x16xf32>, %s: !hir.state<kv, 2x16, f16>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.attention' op query heads must be a multiple of the kv heads, found 5 and 2}}
  %o = hir.attention %q, %s, %r scale 0.25 : tensor<?x5x16xf32>, !hir.state<kv, 2x16, f16>
  return
}

// -----

func.func @attention_dim(%q: tensor<?x4x32xf32>, %s: !hir.state<kv, 2x16, f16>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.attention' op head_dim of q is 32, of the state 16}}
  %o = hir.attention %q, %s, %r scale 0.25 : tensor<?x4x32xf32>, !hir.state<kv, 2x16, f16>
  return
}

// -----

func.func @attention_kind(%q: tensor<?x4x16xf32>, %s: !hir.state<conv, 2x16, f32>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.attention' op needs a kv state, found conv}}
  %o = hir.attention %q, %s, %r scale 0.25 : tensor<?x4x16xf32>, !hir.state<conv, 2x16, f32>
  return
}

// -----

func.func @attention_scale(%q: tensor<?x4x16xf32>, %s: !hir.state<kv, 2x16, f16>, %r: !hir.rows) {
  // expected-error @+1 {{'hir.attention' op scale must be positive and finite, found -2.500000e-01}}
  %o = hir.attention %q, %s, %r scale -0.25 : tensor<?x4x16xf32>, !hir.state<kv, 2x16, f16>
  return
}

// -----

func.func @pieces_rows() {
  // expected-error @+1 {{'hir.param' op pieces have 4 rows, '!hir.weight<6x32, q8_0>' has 6}}
  %w = hir.param "w" pieces <2 groups of 4 rows, [2], [2]> : !hir.weight<6x32, q8_0>
  return
}

// -----

func.func @pieces_inside() {
  // expected-error @+1 {{rows [3, 3 + 2) are not inside a group of 4}}
  %w = hir.param "w" pieces <2 groups of 4 rows, [3], [2]> : !hir.weight<4x32, q8_0>
  return
}

// -----

func.func @pieces_pairs() {
  // expected-error @+1 {{row pieces need a begin and a count for each piece, found 2 and 1}}
  %w = hir.param "w" pieces <2 groups of 4 rows, [0, 1], [2]> : !hir.weight<4x32, q8_0>
  return
}

// -----

func.func @pieces_groups() {
  // expected-error @+1 {{row pieces need groups and rows of a group, found 0 and 4}}
  %w = hir.param "w" pieces <0 groups of 4 rows, [0], [2]> : !hir.weight<4x32, q8_0>
  return
}

// -----

func.func @route_none(%l: tensor<?x8xf32>) {
  // expected-error @+1 {{'hir.moe_route' op top_k must be 1 to the 8 experts, found 0}}
  %ids, %w = hir.moe_route %l softmax top_k 0 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
  return
}

// -----

func.func @route_more(%l: tensor<?x8xf32>) {
  // expected-error @+1 {{'hir.moe_route' op top_k must be 1 to the 8 experts, found 9}}
  %ids, %w = hir.moe_route %l softmax top_k 9 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
  return
}

// -----

func.func @route_floor(%l: tensor<?x8xf32>) {
  // expected-error @+1 {{'hir.moe_route' op floor must be positive and finite, found 0}}
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.0 scale 1.0 : tensor<?x8xf32>
  return
}

// -----

func.func @route_scale(%l: tensor<?x8xf32>) {
  // expected-error @+1 {{'hir.moe_route' op scale must be positive and finite, found 0}}
  %ids, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 0.0 : tensor<?x8xf32>
  return
}

// -----

func.func @route_gating(%l: tensor<?x8xf32>) {
  // expected-error @+2 {{expected ::qcc::hir::Gating to be one of: softmax, sigmoid}}
  // expected-error @+1 {{failed to parse Hir_GatingAttr}}
  %ids, %w = hir.moe_route %l relu top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x8xf32>
  return
}

// -----

func.func @experts_gate(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: !hir.weight<8x32x32, f32>, %d: !hir.weight<8x64x32, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op gate must be experts x width x 64 (features of x), found '!hir.weight<8x32x32, f32>'}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x32, f32>, !hir.weight<8x32x32, f32>, !hir.weight<8x64x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_up(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: !hir.weight<8x32x64, f32>, %u: !hir.weight<7x32x64, f32>, %d: !hir.weight<8x64x32, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op up must be 8x32x64 as gate, found '!hir.weight<7x32x64, f32>'}}
  %y = hir.moe_experts %x, %i, %w gate %g up %u down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, f32>, !hir.weight<7x32x64, f32>, !hir.weight<8x64x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_down(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x64x16, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op down must be 8 x features x 32, found '!hir.weight<8x64x16, f32>'}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x64x16, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_used(%x: tensor<?x64xf32>, %i: tensor<?x9xi32>, %w: tensor<?x9xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x64x32, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op a row must use 1 to the 8 experts, found 9}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x9xi32>, tensor<?x9xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x64x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_weights(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x3xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x64x32, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op has 2 ids of a row, but 3 weights}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x3xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x64x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_ids(%x: tensor<?x64xf32>, %i: tensor<?x2xi64>, %w: tensor<?x2xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x64x32, f32>) {
  // expected-error @+1 {{operand #1 must be [rows, experts of a row] ids, as many for each row, of 32-bit signless integer values, but got 'tensor<?x2xi64>'}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi64>, tensor<?x2xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x64x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_scale(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x64x32, f32>, %s: !hir.weight<2, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op up_scale must be one f32 number or 8, found '!hir.weight<2, f32>'}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d up_scale %s : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x64x32, f32>, !hir.weight<2, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_block(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: !hir.weight<8x48x64, f32>, %d: !hir.weight<8x64x48, f32>) {
  // expected-error @+1 {{'hir.moe_experts' op width must be a multiple of hidden_block 32, found 48}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d hidden_block 32 : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x48x64, f32>, !hir.weight<8x48x64, f32>, !hir.weight<8x64x48, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @experts_result(%x: tensor<?x64xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x48x32, f32>) {
  // expected-error @+2 {{'hir.moe_experts' op failed to infer returned types}}
  // expected-error @+1 {{'hir.moe_experts' op inferred type(s) 'tensor<?x48xf32>' are incompatible with return type(s) of operation 'tensor<?x64xf32>'}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x48x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @scale_rows_factors(%x: tensor<?x64xf32>, %f: tensor<?x2xf32>) {
  // expected-error @+1 {{'hir.scale_rows' op factors must be one number for each row, found 2}}
  %y = hir.scale_rows %x by %f : tensor<?x64xf32>, tensor<?x2xf32>
  return
}

// -----

func.func @scale_rows_rows(%x: tensor<3x64xf32>, %f: tensor<2x1xf32>) {
  // expected-error @+1 {{'hir.scale_rows' op factors has 2 rows, x has 3}}
  %y = hir.scale_rows %x by %f : tensor<3x64xf32>, tensor<2x1xf32>
  return
}

// -----

func.func @reshape_overflow(%x: tensor<?x1xf32>) {
  // expected-error @+1 {{'hir.reshape' op has rows of more elements than fit in 64 bits}}
  %y = hir.reshape %x : tensor<?x1xf32> -> tensor<?x4294967296x4294967296xf32>
  return
}

// -----

func.func @moe_route_of_others(%x: tensor<?x64xf32>, %l: tensor<?x10xf32>, %g: !hir.weight<8x32x64, f32>, %d: !hir.weight<8x64x32, f32>) {
  %i, %w = hir.moe_route %l softmax top_k 2 normalise true floor 0.5 scale 1.0 : tensor<?x10xf32>
  // expected-error @+1 {{'hir.moe_experts' op ids are chosen among 10 experts, gate has 8}}
  %y = hir.moe_experts %x, %i, %w gate %g up %g down %d : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, !hir.weight<8x32x64, f32>, !hir.weight<8x32x64, f32>, !hir.weight<8x64x32, f32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @row_pieces_overflow() {
  // expected-error @+1 {{row pieces have more rows than fit in 64 bits}}
  %w = hir.param "w" pieces #hir.row_pieces<2305843009213693952 groups of 3 rows, [0, 0], [2, 2]> : !hir.weight<4x64, f32>
  return
}
