// RUN: qcc-opt %s -split-input-file -qcc-kernel-to-spirv="subgroup=32" | FileCheck %s

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

// -----

// A barrier of the subgroup orders workgroup memory only, and threads are counted as it counts them: a store ahead of it
// leaves device memory private.
// CHECK: spirv.module {{.*}}#spirv.vce<v1.5, [{{.*}}GroupNonUniform]
// CHECK-LABEL: spirv.func @meet
gpu.module @kernel {
  gpu.func @meet() workgroup(%m: memref<64xi32, #gpu.address_space<workgroup>>) kernel
      attributes {gx.args = 1 : i32, known_block_size = array<i32: 64, 1, 1>} {
    %base = gx.arg 0 : i64
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned", 4] : i32
    gx.store %t, %base[%t] : i32
    memref.store %t, %m[%thread] : memref<64xi32, #gpu.address_space<workgroup>>
    // CHECK: spirv.ControlBarrier <Subgroup>, <Subgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
    gx.subgroup_barrier
    // CHECK: spirv.Load "Workgroup" %{{.*}} ["NonPrivatePointer"] : i32
    %y = memref.load %m[%thread] : memref<64xi32, #gpu.address_space<workgroup>>
    // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned", 4] : i32
    %x = gx.load %base[%t] : i32
    %sum = arith.addi %x, %y : i32
    gx.store %sum, %base[%t] : i32
    gpu.return
  }
}
