// RUN: qcc-opt %s -split-input-file -verify-diagnostics -qcc-kernel-to-spirv

// What a kernel says of its arguments is checked before any is looked up.
gpu.module @kernel {
  gpu.func @main() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    // expected-error @below {{has index 1, the kernel's gx.args is 1}}
    %base = gx.arg 1 : i64
    %zero = arith.constant 0 : i32
    gx.store %zero, %base[%zero] : i32
    gpu.return
  }
}

// -----

gpu.module @kernel {
  gpu.func @main() kernel attributes {gx.args = 0 : i32, known_block_size = array<i32: 8, 1, 1>} {
    // expected-error @below {{has index 0, the kernel's gx.args is 0}}
    %base = gx.arg 0 : i64
    %zero = arith.constant 0 : i32
    gx.store %zero, %base[%zero] : i32
    gpu.return
  }
}

// -----

gpu.module @kernel {
  gpu.func @main() kernel attributes {gx.args = 1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    // expected-error @below {{has index 3, the kernel's gx.args is 1}}
    %base = gx.arg 3 : i64
    %zero = arith.constant 0 : i32
    gx.store %zero, %base[%zero] : i32
    gpu.return
  }
}

// -----

gpu.module @kernel {
  // expected-error @below {{gx.args must lie in 0 .. 16, found -1}}
  gpu.func @main() kernel attributes {gx.args = -1 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %zero = arith.constant 0 : i32
    gx.store %zero, %base[%zero] : i32
    gpu.return
  }
}

// -----

gpu.module @kernel {
  // expected-error @below {{gx.args must lie in 0 .. 16, found 17}}
  gpu.func @main() kernel attributes {gx.args = 17 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %zero = arith.constant 0 : i32
    gx.store %zero, %base[%zero] : i32
    gpu.return
  }
}

// -----

gpu.module @kernel {
  // expected-error @below {{gx.args must lie in 0 .. 16, found 2147483647}}
  gpu.func @main() kernel attributes {gx.args = 2147483647 : i32, known_block_size = array<i32: 8, 1, 1>} {
    %base = gx.arg 0 : i64
    %zero = arith.constant 0 : i32
    gx.store %zero, %base[%zero] : i32
    gpu.return
  }
}
