// RUN: qcc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{unknown weight format 'q4_9', expected one of f32 f16 bf16 q4_0 q4_1 q8_0 q4_k q5_k q6_k}}
func.func @format(%0: !hir.weight<4x32, q4_9>) { return }

// -----

// expected-error @+1 {{last dimension of a q8_0 weight must be a multiple of its block 32, found 48}}
func.func @block(%0: !hir.weight<4x48, q8_0>) { return }

// -----

// expected-error @+1 {{last dimension of a q4_k weight must be a multiple of its block 256, found 128}}
func.func @super_block(%0: !hir.weight<4x128, q4_k>) { return }

// -----

// expected-error @+1 {{weight must have 1 to 4 dimensions, found 5}}
func.func @rank(%0: !hir.weight<1x2x3x4x5, f32>) { return }

// -----

// expected-error @+1 {{weight dimensions must be at least 1, found 0}}
func.func @zero(%0: !hir.weight<0x32, f32>) { return }

// -----

// expected-error @+1 {{weight has more elements than fit in 64 bits}}
func.func @elements(%0: !hir.weight<4294967296x4294967296, f32>) { return }

// -----

// expected-error @+1 {{weight has more bytes than fit in 64 bits}}
func.func @bytes(%0: !hir.weight<2147483648x4294967295, f32>) { return }

// -----

// expected-error @+1 {{expected static shape}}
func.func @dynamic(%0: !hir.weight<?x32, f32>) { return }

// -----

// expected-error @+1 {{unknown state kind 'kvs', expected kv, conv, delta or trace}}
func.func @kind(%0: !hir.state<kvs, 2x16, f16>) { return }

// -----

// expected-error @+1 {{kv state must have 2 dimensions, found 3}}
func.func @kv_rank(%0: !hir.state<kv, 2x16x3, f16>) { return }

// -----

// expected-error @+1 {{delta state must have 3 dimensions, found 2}}
func.func @delta_rank(%0: !hir.state<delta, 2x16, f32>) { return }

// -----

// expected-error @+1 {{state dimensions must be at least 1, found 0}}
func.func @state_zero(%0: !hir.state<conv, 0x16, f32>) { return }

// -----

// expected-error @+1 {{state has more bytes than fit in 64 bits}}
func.func @state_size(%0: !hir.state<conv, 4294967296x1073741824, f32>) { return }

// -----

// expected-error @+1 {{kv state must hold f16 or f32, found 'bf16'}}
func.func @kv_element(%0: !hir.state<kv, 2x16, bf16>) { return }

// -----

// expected-error @+1 {{delta state must hold f32, found 'f16'}}
func.func @delta_element(%0: !hir.state<delta, 2x16x16, f16>) { return }

// -----

// expected-error @+1 {{conv state must hold f32, found 'f16'}}
func.func @conv_element(%0: !hir.state<conv, 3x16, f16>) { return }

// -----

// expected-error @+1 {{int8 block must be at least 1, found 0}}
func.func @int8_block(%0: tensor<?x64xf32, #hir.int8<0>>) { return }

// -----

// expected-error @+1 {{int8 encoding needs features that are a multiple of the block 32, found 48}}
func.func @int8_features(%0: tensor<?x48xf32, #hir.int8<32>>) { return }

// -----

// expected-error @+1 {{int8 encoding needs features that are a multiple of the block 32, found ?}}
func.func @int8_dynamic(%0: tensor<?x?xf32, #hir.int8<32>>) { return }

// -----

// expected-error @+1 {{int8 encoding needs [rows, features], found rank 3}}
func.func @int8_rank(%0: tensor<?x2x32xf32, #hir.int8<32>>) { return }

// -----

// expected-error @+1 {{int8 encoding stands for f32 values, found element type 'f16'}}
func.func @int8_element(%0: tensor<?x32xf16, #hir.int8<32>>) { return }
