// RUN: qcc-opt %s | qcc-opt | FileCheck %s

// CHECK-LABEL: gpu.func @main
gpu.module @kernel {
  gpu.func @main() workgroup(%shared: memref<8xi32, #gpu.address_space<workgroup>>) kernel
      attributes {gx.args = 2 : i32, known_block_size = array<i32: 8, 1, 1>} {
    // CHECK: %[[BASE:.*]] = gx.arg 0 : i64
    %base = gx.arg 0 : i64
    %offset = arith.constant 16 : i32
    // CHECK: gx.load %[[BASE]][%{{.*}}] : i32
    %a = gx.load %base[%offset] : i32
    // CHECK: gx.load %[[BASE]][%{{.*}}] {more = 64 : i32} : i32
    %behind = gx.load %base[%offset] {more = 64 : i32} : i32
    // CHECK: gx.begin_loads
    gx.begin_loads
    // CHECK: gx.half_to_f32 %{{.*}} : f32
    %half = gx.half_to_f32 %behind : f32
    // CHECK: gx.load %[[BASE]][%{{.*}}] : vector<4xf32>
    %v = gx.load %base[%offset] : vector<4xf32>
    // CHECK: gx.load %[[BASE]][%{{.*}}] : i64
    %w = gx.load %base[%offset] : i64
    // CHECK: gx.dot4 %{{.*}}, %{{.*}}, %{{.*}} : i32
    %d = gx.dot4 %a, %a, %offset : i32
    // CHECK: gx.unpack_half %{{.*}} : vector<2xf32>
    %h = gx.unpack_half %d : vector<2xf32>
    %low = vector.extract %h[0] : f32 from vector<2xf32>
    // CHECK: gx.pack_half %{{.*}}, %{{.*}} : i32
    %p = gx.pack_half %low, %low : i32
    // CHECK: gx.atomic_add %{{.*}}, %[[BASE]][%{{.*}}] : i32
    %old = gx.atomic_add %p, %base[%offset] : i32
    // CHECK: gx.mma_s8({{.*}}) : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32)
    %m:4 = gx.mma_s8 (%a, %a, %a, %a), (%d, %d), (%p, %p, %p, %p)
      : (i32, i32, i32, i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32)
    // CHECK: gx.mma_f16({{.*}}) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
    %n:4 = gx.mma_f16 (%a, %a, %a, %a), (%d, %d), (%low, %low, %low, %low)
      : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
    // CHECK: gx.mma_bf16({{.*}}) : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
    %q:4 = gx.mma_bf16 (%a, %a, %a, %a), (%d, %d), (%low, %low, %low, %low)
      : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> (f32, f32, f32, f32)
    // CHECK: gx.dot_tile %{{.*}}[%{{.*}}] by 2 rows 8, %{{.*}}[%{{.*}}] by 4 rows 16 columns 8 to %{{.*}}[%{{.*}}] by 8 shape [8, 16, 8] : memref<8xi32, #gpu.address_space<workgroup>>, memref<8xi32, #gpu.address_space<workgroup>>, memref<8xi32, #gpu.address_space<workgroup>>
    gx.dot_tile %shared[%a] by 2 rows 8, %shared[%d] by 4 rows 16 columns 8 to %shared[%p] by 8 shape [8, 16, 8]
      : memref<8xi32, #gpu.address_space<workgroup>>, memref<8xi32, #gpu.address_space<workgroup>>,
        memref<8xi32, #gpu.address_space<workgroup>>
    // CHECK: gx.subgroup_barrier
    gx.subgroup_barrier
    // CHECK: gx.store %{{.*}}, %[[BASE]][%{{.*}}] : vector<4xf32>
    gx.store %v, %base[%offset] : vector<4xf32>
    gx.store %w, %base[%offset] : i64
    gx.store %old, %base[%offset] : i32
    gx.store %m#3, %base[%offset] : i32
    gx.store %n#3, %base[%offset] : f32
    gpu.return
  }
}
