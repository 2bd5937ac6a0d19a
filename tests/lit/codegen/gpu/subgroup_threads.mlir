// RUN: qcc-opt %s -qcc-kernel-to-spirv="subgroup=32" | FileCheck %s

// Lanes are what shuffles take them for, however a driver counts the threads of a workgroup.
// CHECK-LABEL: spirv.func @lanes
gpu.module @kernel {
  gpu.func @lanes() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 64, 1, 1>} {
    %base = gx.arg 0 : i64
    // CHECK-DAG: %[[ID:.*]] = spirv.mlir.addressof @__builtin__SubgroupId__
    // CHECK-DAG: %[[SUBGROUP:.*]] = spirv.Load "Input" %[[ID]] : i32
    // CHECK-DAG: %[[LANE_ID:.*]] = spirv.mlir.addressof @__builtin__SubgroupLocalInvocationId__
    // CHECK-DAG: %[[LANE:.*]] = spirv.Load "Input" %[[LANE_ID]] : i32
    // CHECK: %[[FIRST:.*]] = spirv.IMul %[[SUBGROUP]], %{{.*}} : i32
    // CHECK: spirv.IAdd %[[FIRST]], %[[LANE]] : i32
    // CHECK-NOT: LocalInvocationId__ :
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %other, %valid = gpu.shuffle xor %t, %c1, %c32 : i32
    gx.store %other, %base[%t] : i32
    gpu.return
  }
}
