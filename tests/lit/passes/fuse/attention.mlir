// RUN: qcc-opt %s --qcc-fuse-qk-norm-rope-store --qcc-fuse-gated-attention --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func private @block_attn
// CHECK: %[[QG:.*]] = hir.reshape %arg0 : tensor<?x128xf32> -> tensor<?x2x64xf32>
// CHECK: %[[Q:.*]] = hir.fused.qk_norm_rope_store %[[QG]] k %arg1 v %arg2 q_norm %arg5 k_norm %arg6 rope %arg4 state %arg7 rows %arg3 eps 9.99999997E-7 : {{.*}} -> tensor<?x2x32xf32> {
// CHECK: hir.kv_store
// CHECK: hir.yield
// CHECK: hir.fused.gated_attention %[[Q]] gate %[[QG]] state %arg7 rows %arg3 scale 1.700000e-01 : {{.*}} -> tensor<?x64xf32> {
// CHECK: ^bb0(%[[BQ:[^:]*]]: tensor<?x2x32xf32>, %[[BG:[^:]*]]: tensor<?x2x64xf32>,
// CHECK-DAG: hir.attention %[[BQ]]
// CHECK-DAG: hir.slice %[[BG]][32, 32]
// CHECK: hir.mul
func.func private @block_attn(%qg: tensor<?x128xf32>, %k: tensor<?x32xf32>, %v: tensor<?x32xf32>, %rows: !hir.rows, %rope: tensor<?x16xf32>,
    %qw: !hir.weight<32, f32>, %kw: !hir.weight<32, f32>, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x64xf32> {
  %qh = hir.reshape %qg : tensor<?x128xf32> -> tensor<?x2x64xf32>
  %q0 = hir.slice %qh[0, 32] : tensor<?x2x64xf32>
  %gate = hir.slice %qh[32, 32] : tensor<?x2x64xf32>
  %kh = hir.reshape %k : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %vh = hir.reshape %v : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %q1 = hir.rms_norm %q0, %qw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %k1 = hir.rms_norm %kh, %kw eps 1.0e-6 : tensor<?x1x32xf32>, !hir.weight<32, f32>
  %q2 = hir.rope %q1, %rope : tensor<?x2x32xf32>, tensor<?x16xf32>
  %k2 = hir.rope %k1, %rope : tensor<?x1x32xf32>, tensor<?x16xf32>
  // expected-remark @below {{fused qk_norm_rope_store: 8 ops}}
  hir.kv_store %k2, %vh, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 5 ops}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %s = hir.activation sigmoid %gate : tensor<?x2x32xf32>
  %m = hir.mul %o, %s : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// qwen3 has no gate; keys that are not normed stay apart.
// CHECK-LABEL: func.func private @block_plain
// CHECK-NOT: hir.fused.qk_norm_rope_store
// CHECK: hir.fused.gated_attention
func.func private @block_plain(%q: tensor<?x2x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>, %rows: !hir.rows,
    %rope: tensor<?x32xf32>, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x64xf32> {
  %q2 = hir.rope %q, %rope : tensor<?x2x32xf32>, tensor<?x32xf32>
  %k2 = hir.rope %k, %rope : tensor<?x1x32xf32>, tensor<?x32xf32>
  // expected-remark @below {{missed qk_norm_rope_store: queries or keys have no norm in front of the rotation}}
  hir.kv_store %k2, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 2 ops}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %y = hir.reshape %o : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// A factor that is no sigmoid stays outside; the attention alone is still a group.
// CHECK-LABEL: func.func private @block_other_factor
// CHECK: hir.fused.gated_attention %arg0 state %arg3 rows %arg2 {{.*}} -> tensor<?x2x32xf32> {
// CHECK-NEXT: ^bb0
// CHECK-NEXT: hir.attention
// CHECK-NEXT: hir.yield
// CHECK: hir.activation silu
// CHECK: hir.mul
func.func private @block_other_factor(%q: tensor<?x2x32xf32>, %gate: tensor<?x2x32xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x2x32xf32> {
  // expected-remark @below {{missed gated_attention: the factor on the output is not a sigmoid gate of its own}}
  // expected-remark @below {{fused gated_attention: 1 ops}}
  %o = hir.attention %q, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %s = hir.activation silu %gate : tensor<?x2x32xf32>
  %m = hir.mul %o, %s : tensor<?x2x32xf32>
  return %m : tensor<?x2x32xf32>
}

// -----

// The same for a sigmoid that something else needs too: inside the group it would have to be computed twice.
// CHECK-LABEL: func.func private @block_shared_gate
// CHECK: hir.fused.gated_attention
// CHECK-NEXT: ^bb0
// CHECK-NEXT: hir.attention
// CHECK-NEXT: hir.yield
func.func private @block_shared_gate(%q: tensor<?x2x32xf32>, %gate: tensor<?x2x32xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 1x32, f16>)
    -> (tensor<?x2x32xf32>, tensor<?x2x32xf32>) {
  // expected-remark @below {{missed gated_attention: the factor on the output is not a sigmoid gate of its own}}
  // expected-remark @below {{fused gated_attention: 1 ops}}
  %o = hir.attention %q, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %s = hir.activation sigmoid %gate : tensor<?x2x32xf32>
  %m = hir.mul %o, %s : tensor<?x2x32xf32>
  return %m, %s : tensor<?x2x32xf32>, tensor<?x2x32xf32>
}

// -----

// CHECK-LABEL: func.func private @block_no_reader
// CHECK-NOT: hir.fused
func.func private @block_no_reader(%k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 1x32, f16>) {
  // expected-remark @below {{missed qk_norm_rope_store: no attention reads this cache afterwards}}
  hir.kv_store %k, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  return
}

// -----

// CHECK-LABEL: func.func private @block_no_rope
// CHECK-NOT: hir.fused.qk_norm_rope_store
func.func private @block_no_rope(%q: tensor<?x2x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>, %rows: !hir.rows,
    %rope: tensor<?x32xf32>, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x2x32xf32> {
  %k2 = hir.rope %k, %rope : tensor<?x1x32xf32>, tensor<?x32xf32>
  // expected-remark @below {{missed qk_norm_rope_store: queries or keys are not rotated}}
  hir.kv_store %k2, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 1 ops}}
  %o = hir.attention %q, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  return %o : tensor<?x2x32xf32>
}

// -----

// CHECK-LABEL: func.func private @block_two_tables
// CHECK-NOT: hir.fused.qk_norm_rope_store
func.func private @block_two_tables(%q: tensor<?x2x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>, %rows: !hir.rows, %rope: tensor<?x32xf32>,
    %other: tensor<?x32xf32>, %w: !hir.weight<32, f32>, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x2x32xf32> {
  %q1 = hir.rms_norm %q, %w eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %k1 = hir.rms_norm %k, %w eps 1.0e-6 : tensor<?x1x32xf32>, !hir.weight<32, f32>
  %q2 = hir.rope %q1, %rope : tensor<?x2x32xf32>, tensor<?x32xf32>
  %k2 = hir.rope %k1, %other : tensor<?x1x32xf32>, tensor<?x32xf32>
  // expected-remark @below {{missed qk_norm_rope_store: queries and keys are rotated by different tables}}
  hir.kv_store %k2, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 1 ops}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  return %o : tensor<?x2x32xf32>
}

// -----

// CHECK-LABEL: func.func private @block_keys_elsewhere
// CHECK-NOT: hir.fused.qk_norm_rope_store
func.func private @block_keys_elsewhere(%q: tensor<?x2x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>, %rows: !hir.rows, %rope: tensor<?x32xf32>,
    %w: !hir.weight<32, f32>, %kv: !hir.state<kv, 1x32, f16>) -> (tensor<?x2x32xf32>, tensor<?x1x32xf32>) {
  %q1 = hir.rms_norm %q, %w eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %k1 = hir.rms_norm %k, %w eps 1.0e-6 : tensor<?x1x32xf32>, !hir.weight<32, f32>
  %q2 = hir.rope %q1, %rope : tensor<?x2x32xf32>, tensor<?x32xf32>
  %k2 = hir.rope %k1, %rope : tensor<?x1x32xf32>, tensor<?x32xf32>
  // expected-remark @below {{missed qk_norm_rope_store: the rotated keys are needed elsewhere}}
  hir.kv_store %k2, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 1 ops}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  return %o, %k2 : tensor<?x2x32xf32>, tensor<?x1x32xf32>
}

// -----

// The group stands where the store stood, and the queries are wanted before.
// CHECK-LABEL: func.func private @block_queries_before
// CHECK-NOT: hir.fused.qk_norm_rope_store
func.func private @block_queries_before(%q: tensor<?x2x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>, %rows: !hir.rows, %rope: tensor<?x32xf32>,
    %w: !hir.weight<32, f32>, %kv: !hir.state<kv, 1x32, f16>) -> (tensor<?x2x32xf32>, tensor<?x64xf32>) {
  %q1 = hir.rms_norm %q, %w eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %k1 = hir.rms_norm %k, %w eps 1.0e-6 : tensor<?x1x32xf32>, !hir.weight<32, f32>
  %q2 = hir.rope %q1, %rope : tensor<?x2x32xf32>, tensor<?x32xf32>
  %k2 = hir.rope %k1, %rope : tensor<?x1x32xf32>, tensor<?x32xf32>
  %early = hir.reshape %q2 : tensor<?x2x32xf32> -> tensor<?x64xf32>
  // expected-remark @below {{missed qk_norm_rope_store: 'hir.reshape' needs an intermediate value before the group}}
  hir.kv_store %k2, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 1 ops}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  return %o, %early : tensor<?x2x32xf32>, tensor<?x64xf32>
}

// -----

// A group stands where its last op stood: no op of it may pass another that reads or writes the same cache.
// CHECK-LABEL: func.func private @block_store_between
// CHECK-NOT: hir.fused.gated_attention
func.func private @block_store_between(%q: tensor<?x2x32xf32>, %gate: tensor<?x2x32xf32>, %k: tensor<?x1x32xf32>, %v: tensor<?x1x32xf32>,
    %rows: !hir.rows, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x2x32xf32> {
  // expected-remark @below {{missed gated_attention: 'hir.kv_store' reaches the same state in between}}
  %o = hir.attention %q, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{missed qk_norm_rope_store: no attention reads this cache afterwards}}
  hir.kv_store %k, %v, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  %s = hir.activation sigmoid %gate : tensor<?x2x32xf32>
  %m = hir.mul %o, %s : tensor<?x2x32xf32>
  return %m : tensor<?x2x32xf32>
}

// -----

// One eps serves queries and keys.
// CHECK-LABEL: func.func private @block_two_eps
// CHECK-NOT: hir.fused.qk_norm_rope_store
func.func private @block_two_eps(%qg: tensor<?x128xf32>, %k: tensor<?x32xf32>, %v: tensor<?x32xf32>, %rows: !hir.rows, %rope: tensor<?x16xf32>,
    %qw: !hir.weight<32, f32>, %kw: !hir.weight<32, f32>, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x64xf32> {
  %qh = hir.reshape %qg : tensor<?x128xf32> -> tensor<?x2x64xf32>
  %q0 = hir.slice %qh[0, 32] : tensor<?x2x64xf32>
  %gate = hir.slice %qh[32, 32] : tensor<?x2x64xf32>
  %kh = hir.reshape %k : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %vh = hir.reshape %v : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %q1 = hir.rms_norm %q0, %qw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %k1 = hir.rms_norm %kh, %kw eps 1.0e-5 : tensor<?x1x32xf32>, !hir.weight<32, f32>
  %q2 = hir.rope %q1, %rope : tensor<?x2x32xf32>, tensor<?x16xf32>
  %k2 = hir.rope %k1, %rope : tensor<?x1x32xf32>, tensor<?x16xf32>
  // expected-remark @below {{missed qk_norm_rope_store: the kernel does not execute this 'hir.rms_norm': its eps differs from the queries'}}
  hir.kv_store %k2, %vh, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{fused gated_attention: 5 ops}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %s = hir.activation sigmoid %gate : tensor<?x2x32xf32>
  %m = hir.mul %o, %s : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Gates in front of the queries of each head.
// CHECK-LABEL: func.func private @block_gate_first
// CHECK-NOT: hir.fused
func.func private @block_gate_first(%qg: tensor<?x128xf32>, %k: tensor<?x32xf32>, %v: tensor<?x32xf32>, %rows: !hir.rows, %rope: tensor<?x16xf32>,
    %qw: !hir.weight<32, f32>, %kw: !hir.weight<32, f32>, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x64xf32> {
  %qh = hir.reshape %qg : tensor<?x128xf32> -> tensor<?x2x64xf32>
  %q0 = hir.slice %qh[32, 32] : tensor<?x2x64xf32>
  %gate = hir.slice %qh[0, 32] : tensor<?x2x64xf32>
  %kh = hir.reshape %k : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %vh = hir.reshape %v : tensor<?x32xf32> -> tensor<?x1x32xf32>
  %q1 = hir.rms_norm %q0, %qw eps 1.0e-6 : tensor<?x2x32xf32>, !hir.weight<32, f32>
  %k1 = hir.rms_norm %kh, %kw eps 1.0e-6 : tensor<?x1x32xf32>, !hir.weight<32, f32>
  %q2 = hir.rope %q1, %rope : tensor<?x2x32xf32>, tensor<?x16xf32>
  %k2 = hir.rope %k1, %rope : tensor<?x1x32xf32>, tensor<?x16xf32>
  // expected-remark @below {{missed qk_norm_rope_store: the kernel does not execute this 'hir.slice': queries are the first half of each head of 2 x 32}}
  hir.kv_store %k2, %vh, %kv, %rows : tensor<?x1x32xf32>, !hir.state<kv, 1x32, f16>
  // expected-remark @below {{missed gated_attention: the kernel does not execute this 'hir.activation': gates are the second half of each head of 2 x 32}}
  %o = hir.attention %q2, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %s = hir.activation sigmoid %gate : tensor<?x2x32xf32>
  %m = hir.mul %o, %s : tensor<?x2x32xf32>
  %y = hir.reshape %m : tensor<?x2x32xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// The factor may be one over flat rows.
// CHECK-LABEL: func.func private @block_flat_gate
// CHECK: hir.fused.gated_attention %arg0 gate %arg1 {{.*}} -> tensor<?x64xf32> {
// CHECK-NOT: hir.fused
// CHECK: return
func.func private @block_flat_gate(%q: tensor<?x2x32xf32>, %qg: tensor<?x128xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x64xf32> {
  %qh = hir.reshape %qg : tensor<?x128xf32> -> tensor<?x2x64xf32>
  %gate = hir.slice %qh[32, 32] : tensor<?x2x64xf32>
  // expected-remark @below {{fused gated_attention: 7 ops}}
  %o = hir.attention %q, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %flat = hir.reshape %o : tensor<?x2x32xf32> -> tensor<?x64xf32>
  %g = hir.reshape %gate : tensor<?x2x32xf32> -> tensor<?x64xf32>
  %s = hir.activation sigmoid %g : tensor<?x64xf32>
  %m = hir.mul %flat, %s : tensor<?x64xf32>
  return %m : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: func.func private @block_flat_other_factor
// CHECK: hir.fused.gated_attention {{.*}} -> tensor<?x64xf32> {
// CHECK: hir.mul
func.func private @block_flat_other_factor(%q: tensor<?x2x32xf32>, %s: tensor<?x64xf32>, %rows: !hir.rows, %kv: !hir.state<kv, 1x32, f16>) -> tensor<?x64xf32> {
  // expected-remark @below {{missed gated_attention: the factor on the output is not a sigmoid gate of its own}}
  // expected-remark @below {{fused gated_attention: 2 ops}}
  %o = hir.attention %q, %kv, %rows scale 0.17 : tensor<?x2x32xf32>, !hir.state<kv, 1x32, f16>
  %flat = hir.reshape %o : tensor<?x2x32xf32> -> tensor<?x64xf32>
  %m = hir.mul %flat, %s : tensor<?x64xf32>
  return %m : tensor<?x64xf32>
}
