// RUN: qcc-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{index must lie in 0 .. 15, found 16}}
%a = gx.arg 16 : i64

// -----

// expected-error @below {{index must lie in 0 .. 15, found -1}}
%a = gx.arg -1 : i64

// -----

%a = gx.arg 0 : i64
%o = arith.constant 0 : i32
// expected-error @below {{must be i32, i64, f32 or a vector of 2 or 4 i32 or f32}}
%v = gx.load %a[%o] : f16

// -----

%a = gx.arg 0 : i64
%o = arith.constant 0 : i32
// expected-error @below {{must be i32, i64, f32 or a vector of 2 or 4 i32 or f32}}
%v = gx.load %a[%o] : vector<3xf32>

// -----

%a = gx.arg 0 : i64
%o = arith.constant 0 : i32
// expected-error @below {{attribute 'more' failed to satisfy constraint: 32-bit signless integer attribute whose value is non-negative}}
%v = gx.load %a[%o] {more = -4 : i32} : i32

// -----

%a = arith.constant 0 : i32
// expected-error @below {{wants 4, 2 and 4 words and gives 4, found 2, 2 and 4, giving 4}}
%m:4 = gx.mma_s8 (%a, %a), (%a, %a), (%a, %a, %a, %a) : (i32, i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32)

// -----

%a = arith.constant 0 : i32
%f = arith.constant 0.0 : f32
// expected-error @below {{wants 4, 2 and 4 words and gives 4, found 4, 2 and 2, giving 2}}
%m:2 = gx.mma_f16 (%a, %a, %a, %a), (%a, %a), (%f, %f) : (i32, i32, i32, i32, i32, i32, f32, f32) -> (f32, f32)

// -----

%a = arith.constant 0 : i32
%f = arith.constant 0.0 : f32
// expected-error @below {{wants 4, 2 and 4 words and gives 4, found 3, 2 and 4, giving 4}}
%m:4 = gx.mma_bf16 (%a, %a, %a), (%a, %a), (%f, %f, %f, %f) : (i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{a_rows is 12, no multiple of 8}}
  gx.dot_tile %s[%i] by 2 rows 12, %s[%i] by 2 rows 8 columns 8 to %s[%i] by 8 shape [8, 8, 8] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{b_rows is 8, no multiple of 16}}
  gx.dot_tile %s[%i] by 2 rows 8, %s[%i] by 2 rows 8 columns 8 to %s[%i] by 8 shape [8, 16, 8] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{columns is 0, no multiple of 8}}
  gx.dot_tile %s[%i] by 2 rows 8, %s[%i] by 2 rows 8 columns 0 to %s[%i] by 8 shape [8, 8, 8] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{columns is 6, no whole words of 4 bytes}}
  gx.dot_tile %s[%i] by 2 rows 8, %s[%i] by 2 rows 8 columns 6 to %s[%i] by 8 shape [8, 8, 6] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{shape wants three positive numbers, m, n and k, found [8, 8]}}
  gx.dot_tile %s[%i] by 2 rows 8, %s[%i] by 2 rows 8 columns 8 to %s[%i] by 8 shape [8, 8] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{b_stride is 3, no multiple of 2 words}}
  gx.dot_tile %s[%i] by 2 rows 8, %s[%i] by 3 rows 8 columns 8 to %s[%i] by 8 shape [8, 8, 8] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}

// -----

func.func @f(%s: memref<8xi32>, %i: i32) {
  // expected-error @below {{d_stride is 6, no multiple of 4 words}}
  gx.dot_tile %s[%i] by 8 rows 8, %s[%i] by 8 rows 8 columns 32 to %s[%i] by 6 shape [8, 8, 32] : memref<8xi32>, memref<8xi32>, memref<8xi32>
  return
}
