// RUN: qcc-opt %s -split-input-file -qcc-kernel-to-spirv | FileCheck %s --check-prefixes=CHECK,PLAIN
// RUN: qcc-opt %s -split-input-file -qcc-kernel-to-spirv="subgroup=32 int-dot=true" | FileCheck %s --check-prefixes=CHECK,DOT

// Addresses, arguments, no contraction, and the dot product with and without the hardware's.
// PLAIN: spirv.module PhysicalStorageBuffer64 Vulkan requires #spirv.vce<v1.5, [Shader, Int64, PhysicalStorageBufferAddresses, VulkanMemoryModel], []>
// DOT: spirv.module PhysicalStorageBuffer64 Vulkan requires #spirv.vce<v1.5, [Shader, Int64, PhysicalStorageBufferAddresses, VulkanMemoryModel, DotProduct, DotProductInput4x8BitPacked], [SPV_KHR_integer_dot_product]>
// CHECK-DAG: spirv.GlobalVariable @args : !spirv.ptr<!spirv.struct<(i64 [0], i64 [8]), Block>, PushConstant>
// CHECK: spirv.func @main() "None"
gpu.module @kernel {
  gpu.func @main() kernel attributes {gx.args = 2 : i32, known_block_size = array<i32: 64, 1, 1>} {
    %base = gx.arg 1 : i64
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    // CHECK: %[[WIDE:.*]] = spirv.UConvert %{{.*}} : i32 to i64
    // CHECK: %[[SUM:.*]] = spirv.IAdd %{{.*}}, %[[WIDE]] : i64
    // CHECK: %[[PTR:.*]] = spirv.ConvertUToPtr %[[SUM]] : i64 to !spirv.ptr<vector<4xf32>, PhysicalStorageBuffer>
    // CHECK: spirv.Load "PhysicalStorageBuffer" %[[PTR]] ["Aligned", 16] : vector<4xf32>
    %v = gx.load %base[%t] : vector<4xf32>
    // CHECK: spirv.FMul {{.*}} {no_contraction} : vector<4xf32>
    %p = arith.mulf %v, %v : vector<4xf32>
    // CHECK: spirv.FAdd {{.*}} {no_contraction} : vector<4xf32>
    %s = arith.addf %p, %v : vector<4xf32>
    // CHECK: spirv.GL.Fma {{.*}} {no_contraction} : vector<4xf32>
    %f = math.fma %s, %v, %p : vector<4xf32>
    // DOT: spirv.SDot %{{.*}}, %{{.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
    // PLAIN-NOT: spirv.SDot
    // PLAIN-COUNT-8: spirv.BitFieldSExtract
    %d = gx.dot4 %t, %t, %t : i32
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned", 16] : vector<4xf32>
    gx.store %f, %base[%t] : vector<4xf32>
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned", 4] : i32
    gx.store %d, %base[%t] : i32
    gpu.return
  }
}
// CHECK: spirv.EntryPoint "GLCompute" @main
// CHECK: spirv.ExecutionMode @main "LocalSize", 64, 1, 1

// -----

// What lies behind a place is added to its address, last; a place where loads begin is none; halves are unpacked by bits.
// CHECK-LABEL: spirv.func @behind
gpu.module @kernel {
  gpu.func @behind() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    // CHECK: %[[WIDE:.*]] = spirv.UConvert %{{.*}} : i32 to i64
    // CHECK: %[[AT:.*]] = spirv.IAdd %{{.*}}, %[[WIDE]] : i64
    // CHECK: %[[MORE:.*]] = spirv.Constant 64 : i64
    // CHECK: spirv.IAdd %[[AT]], %[[MORE]] : i64
    // CHECK: spirv.Load "PhysicalStorageBuffer"
    // CHECK-NOT: spirv.ControlBarrier
    %x = gx.load %base[%t] {more = 64 : i32} : i32
    gx.begin_loads
    // CHECK-NOT: spirv.GL.UnpackHalf2x16
    %h = gx.half_to_f32 %x : f32
    gx.store %h, %base[%t] : f32
    gpu.return
  }
}

// -----

// A barrier for workgroup memory only: device memory stays private.
// CHECK-LABEL: spirv.func @shared_only
gpu.module @kernel {
  gpu.func @shared_only() workgroup(%m: memref<8xf32, #gpu.address_space<workgroup>>) kernel
      attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned", 4] : f32
    %x = gx.load %base[%t] : f32
    // CHECK: spirv.Store "Workgroup" %{{.*}}, %{{.*}} ["NonPrivatePointer"] : f32
    memref.store %x, %m[%thread] : memref<8xf32, #gpu.address_space<workgroup>>
    // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
    gpu.barrier
    // CHECK: spirv.Load "Workgroup" %{{.*}} ["NonPrivatePointer"] : f32
    %y = memref.load %m[%thread] : memref<8xf32, #gpu.address_space<workgroup>>
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned", 4] : f32
    gx.store %y, %base[%t] : f32
    gpu.return
  }
}

// -----

// Device memory that is written before a barrier and read after it.
// CHECK-LABEL: spirv.func @crossing
gpu.module @kernel {
  gpu.func @crossing() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
    gx.store %t, %base[%t] : i32
    // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|WorkgroupMemory|MakeAvailable|MakeVisible>
    gpu.barrier
    // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
    %x = gx.load %base[%t] : i32
    // CHECK: spirv.AtomicIAdd <QueueFamily> <None> %{{.*}}, %{{.*}} : !spirv.ptr<i32, PhysicalStorageBuffer>
    %old = gx.atomic_add %x, %base[%t] : i32
    gpu.return
  }
}

// -----

// Atomics write, and read, too: what they meet across a barrier is not private either.
// CHECK-LABEL: spirv.func @added_then_loaded
gpu.module @kernel {
  gpu.func @added_then_loaded() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %thread = gpu.thread_id x
    %t = arith.index_castui %thread : index to i32
    %old = gx.atomic_add %t, %base[%t] : i32
    // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|WorkgroupMemory|MakeAvailable|MakeVisible>
    gpu.barrier
    // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
    %x = gx.load %base[%t] : i32
    gx.store %x, %base[%old] : i32
    gpu.return
  }
}

// -----

// CHECK-LABEL: spirv.func @stored_then_added
gpu.module @kernel {
  gpu.func @stored_then_added() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %c0 = arith.constant 0 : i32
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
    gx.store %c0, %base[%c0] : i32
    // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|WorkgroupMemory|MakeAvailable|MakeVisible>
    gpu.barrier
    %old = gx.atomic_add %c0, %base[%c0] : i32
    gpu.return
  }
}

// -----

// Atomics alone need nothing of a barrier.
// CHECK-LABEL: spirv.func @added_twice
gpu.module @kernel {
  gpu.func @added_twice() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %c0 = arith.constant 0 : i32
    %old = gx.atomic_add %c0, %base[%c0] : i32
    // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
    gpu.barrier
    %more = gx.atomic_add %c0, %base[%c0] : i32
    // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned", 4] : i32
    gx.store %more, %base[%old] : i32
    gpu.return
  }
}

// -----

// The results of a loop are there although it may have no turn; its body is no part of the continue construct.
// CHECK-LABEL: spirv.func @loop
gpu.module @kernel {
  gpu.func @loop() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %thread = gpu.block_id y
    %n = arith.index_castui %thread : index to i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    // CHECK: %[[LAST:.*]] = spirv.Variable : !spirv.ptr<i32, Function>
    // CHECK: spirv.mlir.loop {
    // CHECK:   spirv.Branch ^[[HEADER:.*]](%{{.*}}, %{{.*}} : i32, i32)
    // CHECK: ^[[HEADER]](%{{.*}}: i32, %[[SUM:.*]]: i32):
    // CHECK:   spirv.Store "Function" %[[LAST]], %[[SUM]]
    // CHECK:   spirv.BranchConditional %{{.*}}, ^[[BODY:.*]], ^[[MERGE:.*]]
    // CHECK: ^[[BODY]]:
    // CHECK:   spirv.Branch ^[[NEXT:.*]]
    // CHECK: ^[[NEXT]]:
    // CHECK:   spirv.Branch ^[[HEADER]]
    // CHECK: ^[[MERGE]]:
    // CHECK:   spirv.mlir.merge
    // CHECK: spirv.Load "Function" %[[LAST]] : i32
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%a = %c1) -> (i32) : i32 {
      %b = arith.muli %a, %i : i32
      scf.yield %b : i32
    }
    gx.store %sum, %base[%c0] : i32
    gpu.return
  }
}

// -----

// Codes of a joined launch, of which a workgroup runs one: what one stores the other does not load.
// CHECK-LABEL: spirv.func @joined
// CHECK-NOT: Aligned|NonPrivatePointer
// CHECK-NOT: UniformMemory
gpu.module @kernel {
  gpu.func @joined() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %c5 = arith.constant 5 : i32
    %block = gpu.block_id x
    %at = arith.index_castui %block : index to i32
    %first = arith.cmpi slt, %at, %c3 : i32
    scf.if %first {
      %x = gx.load %base[%c0] : i32
      gpu.barrier
      gx.store %x, %base[%at] : i32
    }
    %begun = arith.cmpi sle, %c3, %at : i32
    %before = arith.cmpi slt, %at, %c5 : i32
    %second = arith.andi %begun, %before : i1
    scf.if %second {
      gpu.barrier
      %x = gx.load %base[%c0] : i32
      gpu.barrier
      gx.store %x, %base[%at] : i32
    }
    %last = arith.cmpi sge, %at, %c5 : i32
    scf.if %last {
      gpu.barrier
      %x = gx.load %base[%c0] : i32
      gx.store %x, %base[%at] : i32
    }
    gpu.return
  }
}

// -----

// A workgroup that may run both, and one of the codes that loads behind a barrier what it stored.
// CHECK-LABEL: spirv.func @overlapping
gpu.module @kernel {
  gpu.func @overlapping() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %block = gpu.block_id x
    %at = arith.index_castui %block : index to i32
    %first = arith.cmpi sle, %at, %c3 : i32
    scf.if %first {
      // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
      gx.store %at, %base[%at] : i32
    }
    %second = arith.cmpi sge, %at, %c3 : i32
    scf.if %second {
      gpu.barrier
      // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
      %x = gx.load %base[%c0] : i32
      gx.store %x, %base[%at] : i32
    }
    gpu.return
  }
}

// -----

// CHECK-LABEL: spirv.func @one_code_crosses
gpu.module @kernel {
  gpu.func @one_code_crosses() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %c0 = arith.constant 0 : i32
    %c3 = arith.constant 3 : i32
    %block = gpu.block_id x
    %at = arith.index_castui %block : index to i32
    %first = arith.cmpi slt, %at, %c3 : i32
    scf.if %first {
      gx.store %at, %base[%at] : i32
    }
    %second = arith.cmpi sle, %c3, %at : i32
    scf.if %second {
      gx.store %at, %base[%at] : i32
      // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|WorkgroupMemory|MakeAvailable|MakeVisible>
      gpu.barrier
      // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
      %x = gx.load %base[%c0] : i32
      gx.store %x, %base[%at] : i32
    }
    gpu.return
  }
}

// -----

// What one turn of a loop writes is ordered by the barrier of the next.
// CHECK-LABEL: spirv.func @after_loop
gpu.module @kernel {
  gpu.func @after_loop() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    scf.for %i = %c0 to %c4 step %c1 : i32 {
      // CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory|WorkgroupMemory|MakeAvailable|MakeVisible>
      gpu.barrier
      // CHECK: spirv.Store "PhysicalStorageBuffer" %{{.*}}, %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
      gx.store %i, %base[%c0] : i32
    }
    // CHECK: spirv.Load "PhysicalStorageBuffer" %{{.*}} ["Aligned|NonPrivatePointer", 4] : i32
    %x = gx.load %base[%c4] : i32
    gx.store %x, %base[%c1] : i32
    gpu.return
  }
}

// -----

// Cooperative matrices: two shapes in rows of `a`, two steps over columns, sums stored column by column.
// CHECK: requires #spirv.vce<v1.6, [Shader, Int64, PhysicalStorageBufferAddresses, VulkanMemoryModel, GroupNonUniform, CooperativeMatrixKHR, Int8], [SPV_KHR_cooperative_matrix]>
// CHECK-LABEL: spirv.func @matrices
gpu.module @kernel {
  gpu.func @matrices() workgroup(%m: memref<512xi32, #gpu.address_space<workgroup>>) kernel
      attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %at = arith.constant 0 : i32
    // CHECK-COUNT-4: spirv.KHR.CooperativeMatrixLoad {{.*}}, <RowMajor>, <NonPrivatePointer> : {{.*}} -> !spirv.coopmatrix<8x8xi8, Subgroup, MatrixA>
    // CHECK: spirv.KHR.CooperativeMatrixLoad {{.*}}, <ColumnMajor>, <NonPrivatePointer> : {{.*}} -> !spirv.coopmatrix<8x8xi8, Subgroup, MatrixB>
    gx.dot_tile %m[%at] by 4 rows 16, %m[%at] by 4 rows 8 columns 16 to %m[%at] by 16 shape [8, 8, 8]
      : memref<512xi32, #gpu.address_space<workgroup>>, memref<512xi32, #gpu.address_space<workgroup>>,
        memref<512xi32, #gpu.address_space<workgroup>>
    // CHECK: spirv.KHR.CooperativeMatrixMulAdd {{.*}}, <ASigned|BSigned|CSigned|ResultSigned>
    // CHECK: spirv.KHR.CooperativeMatrixStore {{.*}}, <ColumnMajor>, <NonPrivatePointer>
    gpu.return
  }
}
