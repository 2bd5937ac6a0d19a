// RUN: qcc-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{offset must be a non-negative multiple of 64, found 32}}
plan.weight @w ["t"] "f32" f32 1 x 16 at 32 size 64

// -----

// expected-error @below {{has unknown format 'q3_x'}}
plan.weight @w ["t"] "q3_x" x16 16 x 256 at 0 size 64

// -----

// expected-error @below {{layout x16_pair packs 2 tensors, found 1}}
plan.weight @w ["t"] "f32" x16_pair 16 x 16 at 0 size 64

// -----

// expected-error @below {{of 20 x 32 in layout x16 has 1088 bytes, found size 1024}}
plan.weight @w ["t"] "q8_0" x16 20 x 32 at 0 size 1024

// -----

// expected-error @below {{columns (16) must be a multiple of the block (32) of q8_0}}
plan.weight @w ["t"] "q8_0" x16 16 x 16 at 0 size 544

// -----

// expected-error @below {{shape must be positive, found 0 x 16}}
plan.weight @w ["t"] "f32" f32 0 x 16 at 0 size 64

// -----

// expected-error @below {{size must be positive, found 0}}
plan.constant @c [] at 0

// -----

// expected-error @+2 {{expected ::qcc::plan::StateKind to be one of: conv, delta, kv}}
// expected-error @+1 {{failed to parse Plan_StateKindAttr parameter 'value'}}
plan.state @s ssm layer 0 [3, 16] f32 at 0 size 192

// -----

// expected-error @below {{kind delta has rank 3, found 2}}
plan.state @s delta layer 0 [3, 16] f32 at 0 size 192

// -----

// expected-error @below {{of this shape has 64 bytes per token, found size 32}}
plan.state @s kv layer 0 [1, 16] f16 at 0 size 32

// -----

// expected-error @+2 {{expected ::qcc::plan::Element to be one of: f32, f16}}
// expected-error @+1 {{failed to parse Plan_ElementAttr parameter 'value'}}
plan.state @s kv layer 0 [1, 16] q8_0 at 0 size 32

// -----

// expected-error @below {{rows must be positive, found 0}}
plan.program @p tokens leaves "trunk" gives chosen_logits rows 0 arena 0 {
  plan.barrier
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{may not stand in a plan.block}}
  plan.constant @c [1.0] at 0
}

// -----

plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 0 {
  // expected-error @below {{calls @b, which is not a plan.block}}
  plan.call @b weights 0 state 0 kv 0 layer "blk.0"
}

// -----

// expected-error @below {{a reference needs offset >= 0 and bytes > 0, found offset 0, bytes 0}}
module attributes {a = #plan.ref<arena, 0, 0, read>} {
}

// -----

// expected-error @below {{a reference needs an end that fits in 64 bits, found offset 9223372036854775744, bytes 128}}
module attributes {a = #plan.ref<arena, 9223372036854775744, 128, write>} {
}

// -----

// expected-error @below {{end must fit in 64 bits, found offset 9223372036854775744 and size 64}}
plan.weight @w ["t"] "f32" f32 1 x 16 at 9223372036854775744 size 64

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{unknown kernel family 'softmax'}}
  plan.dispatch "softmax" {} [] []
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{family 'add' needs spec key 'cols' (i64)}}
  plan.dispatch "add" {} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{spec key 'cols' of family 'add' must be i64, found 16 : i32}}
  plan.dispatch "add" {cols = 16 : i32} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{spec key 'cols' of family 'add' must be positive, found 0}}
  plan.dispatch "add" {cols = 0 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{family 'add' has no spec key 'rows'}}
  plan.dispatch "add" {cols = 16 : i64, rows = 1 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{has 1 roles but 2 bindings}}
  plan.dispatch "add" {cols = 16 : i64} ["x"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{has 2 bindings but 1 buffers}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>] {buffers = ["a"]}
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{binding of role 'x' must be a #plan.ref, found 7 : i64}}
  plan.dispatch "add" {cols = 16 : i64} ["x"] [7]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{family 'add' has no role 'z' with this spec}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "z"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'x' is bound twice}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "x"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, read>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{family 'add' needs role 'y'}}
  plan.dispatch "add" {cols = 16 : i64} ["x"] [#plan.ref<arena, 0, 64, read>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'y' must be readwrite, found write}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'x' must be in space arena, found state}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<state, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'y' has 64 bytes per row and 2 rows, found 64}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'x' has 64 bytes per row, found 100}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 100, read>, #plan.ref<arena, 128, 64, readwrite>]
}

// -----

plan.program @p tokens leaves "trunk" rows 2 arena 0 {
  // expected-error @below {{is for 1 rows in a program of 2}}
  plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{family 'norm' needs role 'out' or 'out_q'}}
  plan.dispatch "norm" {cols = 16 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight"] [#plan.ref<arena, 0, 64, read>, #plan.ref<weights, 0, 64, read>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{spec key 'source' of family 'norm' must be one of rows|out_rows, found "all"}}
  plan.dispatch "norm" {cols = 16 : i64, eps = 1.0e-6 : f32, source = "all"} ["x", "weight"] [#plan.ref<arena, 0, 64, read>, #plan.ref<weights, 0, 64, read>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'weight' has 64 bytes, found 128}}
  plan.dispatch "norm" {cols = 16 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 64, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 64, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'x' must be a multiple of 64 bytes, found 96}}
  plan.dispatch "norm" {cols = 16 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 96, read>, #plan.ref<weights, 0, 64, read>, #plan.ref<arena, 128, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{spec key 'format' of family 'linear' must be a format of the table, found "iq1_x"}}
  plan.dispatch "linear" {epilogue = "store", format = "iq1_x", k = 32 : i64, n = 16 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 544, read>, #plan.ref<arena, 128, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{family 'linear' has no role 'x' with this spec}}
  plan.dispatch "linear" {epilogue = "store", format = "q8_0", k = 32 : i64, n = 16 : i64, numerics = "int8", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 544, read>, #plan.ref<arena, 128, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'w' has 1088 bytes, found 544}}
  plan.dispatch "linear" {epilogue = "swiglu", format = "q8_0", k = 32 : i64, n = 16 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 544, read>, #plan.ref<arena, 128, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'y' must be readwrite, found write}}
  plan.dispatch "linear" {epilogue = "add", format = "q8_0", k = 32 : i64, n = 16 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 544, read>, #plan.ref<arena, 128, 64, write>]
}

// -----

// expected-error @below {{takes nothing: expected tokens, given rows or a stream}}
plan.program @p gives logits rows 1 arena 0 {
}

// -----

// expected-error @below {{takes given rows and a stream, which both lie at the arena's begin}}
plan.program @p tokens given 32 stream "s" rows 1 arena 0 {
}

// -----

// expected-error @below {{given rows must have a positive width, found 0}}
plan.program @p given 0 leaves "s" rows 1 arena 0 {
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'table' comes to 0 bytes with this spec, expected a positive size}}
  plan.dispatch "embed" {cols = 128 : i64, format = "q4_k"} ["table", "out"] [#plan.ref<weights, 0, 64, read>, #plan.ref<arena, 0, 512, write>]
}

// -----

// expected-error @below {{of 4611686018427387904 x 32 has more bytes than fit in 64 bits}}
plan.weight @w ["t"] "f32" f32 4611686018427387904 x 32 at 0 size 64

// -----

// expected-error @below {{of 9223372036854775807 x 1 has more bytes than fit in 64 bits}}
plan.weight @w ["t"] "f32" x16 9223372036854775807 x 1 at 0 size 64

// -----

// expected-error @below {{of this shape has more bytes than fit in 64 bits}}
plan.state @s delta layer 0 [4294967296, 4294967296, 16] f32 at 0 size 64

// -----

// expected-error @below {{kind kv has no entries, found 64 bytes}}
plan.state @s kv layer 0 [1, 16] f16 at 0 size 1088 entry 64

// -----

// expected-error @below {{of this shape keeps 384 bytes of each token, found entries of 64}}
plan.state @s conv layer 0 [3, 96] f32 at 0 size 1024 entry 64

// -----

// expected-error @below {{has entries of more bytes than fit in 64 bits, or of less than none: 9223372036854775807}}
plan.state @s delta layer 0 [1, 4, 4] f32 at 0 size 64 entry 9223372036854775807

// -----

// expected-error @below {{of this shape has 8192 bytes, found size 8128}}
plan.state @s delta layer 0 [4, 8, 16] f32 at 0 size 8128 entry 384

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{spec of family 'add' has numbers too large for the bytes of its roles to fit in 64 bits}}
  plan.dispatch "add" {cols = 4611686018427387920 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'b' has 16384 bytes per row and 1125899906842625 rows, found 16384}}
  plan.dispatch "concat" {a_cols = 1024 : i64, b_cols = 4096 : i64} ["a", "b", "out"] [#plan.ref<arena, 0, 4611686018427392000, read>, #plan.ref<arena, 0, 16384, read>, #plan.ref<arena, 0, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'out_q' is written to thread, which only a replicated dispatch does}}
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<thread, 0, 64, write>]
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'out_q' is written to arena, though each thread writes what a replicated dispatch does}}
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 64, write>] {replicated}
}

// -----

plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{role 'x' must be in space arena, found weights}}
  plan.dispatch "quantize" {cols = 32 : i64} ["x", "out_q"] [#plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 64, write>]
}
