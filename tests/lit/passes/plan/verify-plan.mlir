// Handmade plans, each with one fault.
// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-verify-plan

// A whole plan: no complaint.
plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}
plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 256, write>] {buffers = ["", "x"]}
}
plan.program @head_1 stream "trunk" gives chosen_logits rows 1 arena 384 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 256, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 256, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  // expected-error @below {{in program 'p': 'norm' reads arena [0, 128) that 'embed' writes, without a barrier in between}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  // expected-error @below {{in program 'p': 'linear' reads arena [128, 256) that 'norm' writes, without a barrier in between}}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 192 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'out' of 'norm': arena [128, 256) lies outside the arena of 192 bytes}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'out' of 'norm': arena [160, 288) is not aligned to 64}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 160, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 160, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': 'norm' reads 'y' at arena [128, 256), but byte 128 holds nothing yet}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 256, 128, write>] {buffers = ["y", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 256, 128, write>] {buffers = ["x", "", "a"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 256, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 64, 128, write>] {buffers = ["a", "", "b"]}
  plan.barrier
  // expected-error @below {{in program 'p': 'add' reads 'x' at arena [0, 128), but byte 64 holds 'b'}}
  plan.dispatch "add" {cols = 32 : i64} ["x", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 256, 128, readwrite>] {buffers = ["x", "a"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': 'norm' writes arena [64, 128) that it also binds elsewhere}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 64, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 64, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'weight' of 'norm': weights [8192, 8320) lies in no weight}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 8192, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'weight' of 'norm': weights [4160, 4288) lies in no weight}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4160, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'weight' of 'norm' finds 'table' in layout x16 instead of f32}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.weight @wide ["w"] "f32" x16 32 x 64 at 8192 size 8192
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'w' of 'linear' finds 'wide' with 64 columns instead of 32}}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 8192, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.weight @half ["w"] "bf16" x16 32 x 32 at 8192 size 2048
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'w' of 'linear' finds 'half' in format bf16 instead of f32}}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 16 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 8192, 2048, read>, #plan.ref<logits, 0, 64, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'w' of 'linear' finds 'table' at byte 64, inside a group of rows}}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 16 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 64, 2048, read>, #plan.ref<logits, 0, 64, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
// expected-error @below {{'second' overlaps 'norm'}}
plan.weight @second ["n2"] "f32" f32 1 x 32 at 4160 size 128

// -----

plan.state @a conv layer 0 [3, 16] f32 at 0 size 192
// expected-error @below {{'b' overlaps 'a'}}
plan.state @b conv layer 1 [3, 16] f32 at 128 size 192

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
// expected-error @below {{program 'p' gives chosen_logits, but writes no logits}}
plan.program @p tokens leaves "trunk" gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
// expected-error @below {{program 'p' gives nothing, but writes logits of every row}}
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.block @b weights 0 state 0 kv 0 {
  // expected-error @below {{in program 'p', layer 'blk.0': 'add' is for 1 rows, the program for 2}}
  plan.dispatch "add" {cols = 32 : i64} ["x", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 128, readwrite>] {buffers = ["x", "y"]}
}
plan.program @p tokens leaves "trunk" rows 2 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 256, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.call @b weights 0 state 0 kv 0 layer "blk.0"
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.block @b weights 128 state 0 kv 0 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p', layer 'blk.0': weights [4160, 4288) lies outside the artifact's 4224 bytes}}
  plan.call @b weights 4160 state 0 kv 0 layer "blk.0"
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.block @b weights 128 state 0 kv 0 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p', layer 'blk.0': weights base 100 is not a multiple of 64}}
  plan.call @b weights 100 state 0 kv 0 layer "blk.0"
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.block @b weights 64 state 0 kv 0 {
  // expected-error @below {{in block 'b': weights [0, 128) lies outside the block's 64 bytes}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.block @b weights 128 state 0 kv 0 {
  // expected-error @below {{in program 'p', layer 'blk.0': role 'weight' of 'norm' finds 'table' in layout x16 instead of f32}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.call @b weights 0 state 0 kv 0 layer "blk.0"
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 256, write>] {buffers = ["", "x"]}
}
plan.program @head_1 stream "trunk" gives chosen_logits rows 1 arena 384 {
  // expected-error @below {{in program 'head_1': reads arena [0, 128), but program 'prefill_2' leaves 2 rows up to 256}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 256, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @prefill_1 tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "a"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 128, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["a", "", "b"]}
}
plan.program @head_1 stream "trunk" gives chosen_logits rows 1 arena 384 {
  // expected-error @below {{in program 'head_1': reads 'x' at arena [0, 128), but program 'prefill_1' leaves 'b' at 0}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 256, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 256, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.state @l0 kv layer 0 [1, 8] f32 at 0 size 64
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'kv' of 'attention': kv [0, 64) holds f32}}
  plan.dispatch "attention" {gated = false, head_dim = 16 : i64, kv = "f16", kv_heads = 1 : i64, q_heads = 2 : i64, scale = 0.25 : f32} ["q", "kv", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<kv, 0, 64, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "o"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.state @l0 kv layer 0 [1, 16] b16 at 0 size 64
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'kv' of 'attention': kv [0, 64) holds b16}}
  plan.dispatch "attention" {gated = false, head_dim = 16 : i64, kv = "f16", kv_heads = 1 : i64, q_heads = 2 : i64, scale = 0.25 : f32} ["q", "kv", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<kv, 0, 64, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "o"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.state @l0 kv layer 0 [1, 16] f16 at 0 size 64
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'kv' of 'attention': kv [64, 128) is not a state}}
  plan.dispatch "attention" {gated = false, head_dim = 16 : i64, kv = "f16", kv_heads = 1 : i64, q_heads = 2 : i64, scale = 0.25 : f32} ["q", "kv", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<kv, 64, 64, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "o"]}
}

// -----

plan.state @s delta layer 0 [1, 3, 64] f32 at 0 size 768
plan.program @p tokens rows 1 arena 320 {
  // expected-error @below {{in program 'p': role 'conv_state' of 'gated_delta': state [0, 768) is the state 's' of another kind}}
  plan.dispatch "gated_delta" {heads = "tiled", key_dim = 4 : i64, key_heads = 1 : i64, l2_eps = 1.0e-6 : f32, l2_form = "sum", ld_ab = 1 : i64, norm_eps = 1.0e-6 : f32, scale = 0.5 : f32, taps = 2 : i64, value_dim = 4 : i64, value_heads = 1 : i64} ["conv_state", "delta_state", "qkv", "z", "alpha", "beta", "conv_w", "ssm_a", "dt_bias", "norm_w", "out"] [#plan.ref<state, 0, 768, readwrite>, #plan.ref<state, 768, 1088, readwrite>, #plan.ref<arena, 0, 48, read>, #plan.ref<arena, 64, 16, read>, #plan.ref<arena, 128, 4, read>, #plan.ref<arena, 192, 4, read>, #plan.ref<weights, 0, 96, read>, #plan.ref<weights, 128, 4, read>, #plan.ref<weights, 192, 4, read>, #plan.ref<weights, 256, 16, read>, #plan.ref<arena, 256, 16, write>] {buffers = ["", "", "qkv", "z", "a", "b", "", "", "", "", "o"]}
}

// -----

plan.state @s conv layer 0 [1, 384] f16 at 0 size 768
plan.program @p tokens rows 1 arena 320 {
  // expected-error @below {{in program 'p': role 'conv_state' of 'gated_delta': state [0, 768) holds f16}}
  plan.dispatch "gated_delta" {heads = "tiled", key_dim = 4 : i64, key_heads = 1 : i64, l2_eps = 1.0e-6 : f32, l2_form = "sum", ld_ab = 1 : i64, norm_eps = 1.0e-6 : f32, scale = 0.5 : f32, taps = 2 : i64, value_dim = 4 : i64, value_heads = 1 : i64} ["conv_state", "delta_state", "qkv", "z", "alpha", "beta", "conv_w", "ssm_a", "dt_bias", "norm_w", "out"] [#plan.ref<state, 0, 768, readwrite>, #plan.ref<state, 768, 1088, readwrite>, #plan.ref<arena, 0, 48, read>, #plan.ref<arena, 64, 16, read>, #plan.ref<arena, 128, 4, read>, #plan.ref<arena, 192, 4, read>, #plan.ref<weights, 0, 96, read>, #plan.ref<weights, 128, 4, read>, #plan.ref<weights, 192, 4, read>, #plan.ref<weights, 256, 16, read>, #plan.ref<arena, 256, 16, write>] {buffers = ["", "", "qkv", "z", "a", "b", "", "", "", "", "o"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  // expected-error @below {{in program 'p': 'embed' does not name its arena buffers}}
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>]
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
// expected-error @below {{program 'p' gives chosen_logits, but writes logits of every row}}
plan.program @p tokens gives chosen_logits rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["x", "", ""]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
// expected-error @below {{program 'p' leaves stream 's', but nothing lies at the arena's begin}}
plan.program @p tokens leaves "s" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["", "x"]}
}

// -----

plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.program @p given 32 leaves "s" rows 1 arena 256 {
  // expected-error @below {{in program 'p': 'embed' reads tokens, which the program does not take}}
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
}

// -----

// Given rows are there from the start; nothing else is.
plan.weight @norm ["n"] "f32" f32 1 x 32 at 0 size 128
plan.program @p given 32 leaves "s" rows 2 arena 768 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 256, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 256, 256, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  // expected-error @below {{in program 'p': 'add' reads 'y' at arena [512, 768), but byte 512 holds nothing yet}}
  plan.dispatch "add" {cols = 32 : i64} ["x", "y"] [#plan.ref<arena, 512, 256, read>, #plan.ref<arena, 256, 256, readwrite>] {buffers = ["y", "n"]}
}

// -----

// A program's rows are handed to those that take them, and to no other.
plan.weight @norm ["n"] "f32" f32 1 x 32 at 0 size 128
plan.weight @table ["t"] "f32" x16 32 x 32 at 128 size 4096
plan.program @other tokens leaves "other" rows 4 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 128, 4096, read>, #plan.ref<arena, 0, 512, write>] {buffers = ["", "y"]}
}
plan.program @p tokens leaves "s" rows 4 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 128, 4096, read>, #plan.ref<arena, 0, 512, write>] {buffers = ["", "z"]}
}
plan.program @h stream "s" gives chosen_logits rows 1 arena 640 {
  // expected-error @below {{in program 'h': reads 'x' at arena [0, 512), but program 'p' leaves 'z' at 0}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 512, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 512, 128, write>] {buffers = ["x", "", "n"]}
  plan.barrier
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<arena, 512, 128, read>, #plan.ref<weights, 128, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
}

// -----

plan.weight @norm ["n"] "f32" f32 1 x 32 at 0 size 128
// expected-error @below {{program 'h' takes stream 's', which no program leaves}}
plan.program @h stream "s" rows 1 arena 256 {
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "n"]}
}

// -----

// Only where rows of another program are chosen has a step as many rows as it chooses.
plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.program @p tokens leaves "trunk" rows 1 arena 256 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': 'select_rows' is for programs that take rows of another}}
  plan.dispatch "select_rows" {cols = 32 : i64} ["x", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "s"]}
}

// -----

// What threads keep for themselves is followed like the arena, and needs no barrier.
plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @decode_1 tokens leaves "trunk" gives chosen_logits rows 1 arena 128 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = ["", "x"]}
  plan.barrier
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<thread, 0, 128, write>] {buffers = ["x", "", "n"], replicated}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<thread, 0, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["n", "", ""]}
  plan.barrier
  // expected-error @below {{in program 'decode_1': 'linear' reads 'm' at thread [0, 128), but byte 0 holds 'n'}}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "out_rows"} ["x", "w", "y"] [#plan.ref<thread, 0, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 0, 128, write>] {buffers = ["m", "", ""]}
}

// -----

plan.weight @norm ["n"] "f32" f32 1 x 32 at 0 size 128
plan.program @p given 32 leaves "trunk" rows 1 arena 128 {
  // expected-error @below {{in program 'p': role 'out' of 'norm': thread [32, 160) is not aligned to 64}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 128, read>, #plan.ref<thread, 32, 128, write>] {buffers = ["x", "", "n"], replicated}
}

// -----

plan.weight @w ["w"] "f32" x16 32 x 32 at 0 size 4096
plan.block @b weights 4096 state 0 kv 0 {
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 128, 128, write>] {buffers = ["x", "", "y"]}
}
plan.program @p given 32 leaves "trunk" rows 1 arena 256 {
  // expected-error @below {{in program 'p', layer 'blk.0': weights [9223372036854775744, 9223372036854775807) lies outside the artifact's 4096 bytes}}
  plan.call @b weights 9223372036854775744 state 0 kv 0 layer "blk.0"
}

// -----

plan.weight @w ["w"] "f32" x16 32 x 32 at 0 size 4096
plan.program @p given 32 gives logits rows 1 arena 128 {
  // expected-error @below {{in program 'p': role 'y' of 'linear': logits [128, 256) is not at the begin of the caller's rows}}
  plan.dispatch "linear" {epilogue = "store", format = "f32", k = 32 : i64, n = 32 : i64, numerics = "f32", rows = "rows"} ["x", "w", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 0, 4096, read>, #plan.ref<logits, 128, 128, write>] {buffers = ["x", "", ""]}
}

// -----

// Any of a step's rows may be chosen.
plan.weight @table ["t"] "f32" x16 32 x 32 at 0 size 4096
plan.weight @norm ["n"] "f32" f32 1 x 32 at 4096 size 128
plan.program @p tokens leaves "trunk" gives chosen_logits rows 2 arena 512 {
  plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 256, write>] {buffers = ["", "x"]}
  plan.barrier
  // expected-error @below {{in program 'p': role 'x' of 'norm' has 1 rows of the program's 2}}
  plan.dispatch "norm" {cols = 32 : i64, eps = 1.0e-6 : f32, source = "out_rows"} ["x", "weight", "out"] [#plan.ref<arena, 0, 128, read>, #plan.ref<weights, 4096, 128, read>, #plan.ref<arena, 256, 256, write>] {buffers = ["x", "", "n"]}
}
