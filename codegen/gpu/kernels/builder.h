// The language that GPU kernels are written in: C++ that emits MLIR's gpu, arith, math and scf dialects and
// our own gx ops (codegen/gpu/IR). No MLIR header is needed to write a kernel. One source serves SPIR-V and
// PTX.
//
// Rules of the language:
// * Values are scalars or short vectors of i32, i64, f32, and i1 conditions. Device memory is reached by a
// 64-bit
//   address plus a 32-bit unsigned byte offset, in words of 4 bytes (vectors are aligned to their size).
// * Float operators are exactly what is written: no contraction, no reassociation. Fma is fused on every
// target
//   that can. So a value depends on its own inputs only, whatever variant of a kernel computes it.
// * A workgroup is one-dimensional. Nothing may depend on the size of a subgroup but through Profile.
// * C++ loops unroll; For makes a loop in the kernel. Barrier must be reached by all threads of a workgroup.
#ifndef QCC_CODEGEN_GPU_KERNELS_BUILDER_H_
#define QCC_CODEGEN_GPU_KERNELS_BUILDER_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/abi/gpu_limits.h"

namespace qcc::gpu {

// Units that multiply matrices of signed bytes; those of kind kMma multiply half floats and bf16, too.
struct MatrixUnits {
  enum class Kind : uint8_t {
    kNone,
    kMma,         // mma.sync of PTX, in fragments that the kernel has in registers (Builder::Mma...)
    kCooperative  // cooperative matrices of Vulkan, from workgroup memory to it (Builder::DotTile)
  };
  Kind kind = Kind::kNone;
  int m = 0, n = 0, k = 0;  // kCooperative: a device's shape, m x n sums over k columns
};

// Whether code asks for the memory of several steps before it computes the first (Builder::BeginLoads), which
// writes the steps out. kLittleCode: only where they are short, as Vulkan's drivers compile them on the
// machines of users.
enum class LoadsAhead : uint8_t { kNever, kLittleCode, kAlways };

// What code is built for. The runtime picks the best that the device can run
// (docs/reference/gpu-profiles.md).
struct Profile {
  std::string name;      // "sg32-dot"
  int subgroup = 0;      // 8, 16, 32, 64; 0: no subgroup operation may be used
  bool int_dot = false;  // packed 4 x 8-bit dot product in hardware; else it is spelled out
  MatrixUnits matrix;
  int max_workgroup = QRT_VULKAN_THREADS;    // threads
  int max_shared = QRT_VULKAN_SHARED_BYTES;  // bytes of workgroup memory
  // A launch may begin while the one before it runs: kernels wait for it themselves (Builder::AwaitEarlier).
  bool overlap = false;
  LoadsAhead loads_ahead = LoadsAhead::kNever;
  // DivF rounds correctly, as div.rn of PTX does; Vulkan's OpFDiv may be 2.5 ulp off.
  bool exact_division = false;
};

enum class Type : uint8_t { kBool, kI32, kI64, kF32, kI32x2, kI32x4, kF32x2, kF32x4 };

class Builder;

// A value of the kernel. Cheap to copy; belongs to its Builder.
class Val {
 public:
  Val() = default;
  Val(Builder* builder, void* value, Type type) : builder_(builder), value_(value), type_(type) {}
  Builder* builder() const { return builder_; }
  void* value() const { return value_; }  // mlir::Value's opaque pointer
  Type type() const { return type_; }
  explicit operator bool() const { return value_ != nullptr; }

 private:
  Builder* builder_ = nullptr;
  void* value_ = nullptr;
  Type type_ = Type::kI32;
};

// Workgroup memory: `words` 4-byte elements of one type (kI32 or kF32).
struct Shared {
  int id = -1;
  Type type = Type::kF32;
  int words = 0;
};

// Rows of a matrix in workgroup memory of i32: row r begins at word at + r * stride.
struct SharedRows {
  Shared memory;
  Val at;  // i32, the same in all threads of a subgroup
  int stride = 0;
};

class Builder {
 public:
  virtual ~Builder() = default;
  virtual const Profile& profile() const = 0;

  // The kernel's arguments and place.
  virtual Val Arg(int index) = 0;  // i64
  virtual Val BlockX() = 0;        // i32
  virtual Val BlockY() = 0;
  virtual Val BlockZ() = 0;
  virtual Val Thread() = 0;  // i32, 0 .. workgroup_size - 1

  virtual Val I32(int32_t value) = 0;
  virtual Val I64(int64_t value) = 0;
  virtual Val F32(float value) = 0;

  // Device memory at base (i64 address) + byte_offset (i32, taken as unsigned). `type`: kI32, kI64, kF32 or a
  // vector; kI64 needs an alignment of 8, vectors their size.
  // `more` >= 0 bytes behind: loads from one place share its address.
  virtual Val Load(Type type, Val base, Val byte_offset, int32_t more) = 0;
  Val Load(Type type, Val base, Val byte_offset) { return Load(type, base, byte_offset, 0); }
  // Where code begins loads (Profile::loads_ahead; nothing elsewhere). All threads of a subgroup come here
  // together: what was loaded is asked for before what follows is computed, so that a thread waits for memory
  // once, not once for each load.
  virtual void BeginLoads() = 0;
  virtual void Store(Val base, Val byte_offset, Val value) = 0;

  // Vectors.
  virtual Val Extract(Val vector, int lane) = 0;
  virtual Val Vector(const std::vector<Val>& lanes) = 0;  // 2 or 4 scalars

  // Workgroup memory.
  virtual Shared AllocShared(Type type, int words) = 0;
  virtual Val LoadShared(const Shared& shared, Val index) = 0;
  virtual void StoreShared(const Shared& shared, Val index, Val value) = 0;
  // i32 only; returns the old value. Order of execution is not defined: use where the result does not depend
  // on it.
  virtual Val AtomicAddShared(const Shared& shared, Val index, Val value) = 0;
  virtual Val AtomicMaxSharedU(const Shared& shared, Val index, Val value) = 0;
  // All threads of the workgroup meet; workgroup memory and device memory written before are visible after,
  // to the workgroup.
  virtual void Barrier() = 0;

  // Where launches overlap (Profile::overlap; nothing elsewhere). A kernel calls AwaitEarlier once, in all
  // threads: what earlier launches wrote may be read behind it only, and nothing be written before. Weights,
  // constants and the step block, which no launch writes, may be read at any time; Prefetch asks for the line
  // at base + byte_offset, which lies in an argument's range, and is no access.
  virtual void AwaitEarlier() = 0;
  virtual void Prefetch(Val base, Val byte_offset) = 0;
  // The next launch may begin as soon as all workgroups of this one have come here.
  virtual void LetNextBegin() = 0;

  // Device memory atomics (i32), old value returned.
  virtual Val AtomicAdd(Val base, Val byte_offset, Val value) = 0;

  // Control flow. Bodies emit into the builder while they run.
  virtual void If(Val condition, const std::function<void()>& then) = 0;
  virtual std::vector<Val> IfElse(Val condition, const std::function<std::vector<Val>()>& then,
                                  const std::function<std::vector<Val>()>& otherwise) = 0;
  // for (i = low; i < high; i += step), all i32, signed; step > 0. `carried` are the values that go round;
  // returns their last ones.
  virtual std::vector<Val> For(
      Val low, Val high, Val step, const std::vector<Val>& carried,
      const std::function<std::vector<Val>(Val i, const std::vector<Val>& carried)>& body) = 0;
  void For(Val low, Val high, Val step, const std::function<void(Val i)>& body) {
    For(low, high, step, {}, [&](Val i, const std::vector<Val>&) {
      body(i);
      return std::vector<Val>();
    });
  }

  // Arithmetic: operands of one type. Also by the operators below. Vectors work element by element.
  enum class Op : uint8_t {
    kAdd,
    kSub,
    kMul,
    kDivF,
    kDivU,
    kRemU,
    kAnd,
    kOr,
    kXor,
    kShl,
    kShrU,
    kShrS,
    kMinS,
    kMaxS,
    kMinU,
    kMaxU,
    kMinF,
    kMaxF  // MinF, MaxF: of two numbers; NaN is undefined
  };
  virtual Val Binary(Op op, Val a, Val b) = 0;
  enum class Cmp : uint8_t { kEq, kNe, kLtS, kLeS, kLtU, kLeU, kLtF, kLeF, kEqF };
  virtual Val Compare(Cmp cmp, Val a, Val b) = 0;  // kBool
  virtual Val Select(Val condition, Val a, Val b) = 0;
  virtual Val Fma(Val a, Val b, Val c) = 0;  // f32: a * b + c, fused
  virtual Val MulHighU(Val a, Val b) = 0;    // i32 or i64: upper half of the unsigned product

  // f32 functions of the target: a few ulp. Exact or careful versions: codegen/gpu/kernels/math.h.
  enum class Fn : uint8_t { kAbs, kNeg, kSqrt };
  virtual Val Call(Fn fn, Val x) = 0;

  // Conversions.
  virtual Val ToF32(Val i32_signed) = 0;
  virtual Val ToI32(Val f32) = 0;  // towards zero
  virtual Val AsI32(Val f32) = 0;  // bits
  virtual Val AsF32(Val i32) = 0;
  virtual Val ExtendU(Val i32) = 0;  // to i64
  virtual Val ExtendS(Val i32) = 0;
  virtual Val Truncate(Val i64) = 0;            // to i32
  virtual Val UnpackHalf(Val i32) = 0;          // two f16 (low, high) -> f32x2; subnormals may count as 0
  virtual Val HalfToF32(Val i32) = 0;           // the low half, exactly: subnormals, infinities and NaN, too
  virtual Val PackHalf(Val low, Val high) = 0;  // f32, f32 -> i32: nearest even

  // acc + sum over 4 bytes of a * b; signed bytes.
  virtual Val Dot4(Val a, Val b, Val acc) = 0;

  // Subgroups; only with profile().subgroup != 0. The workgroup size is a multiple of the subgroup's, lane =
  // Thread() % subgroup.
  virtual Val ShuffleXor(Val v, int mask) = 0;
  // All threads of a subgroup meet, in however many subgroups; workgroup memory written before is visible
  // after, to the subgroup.
  virtual void SubgroupBarrier() = 0;

  // Matrix units of kind kMma; one subgroup of 32 executes it together. D = A B + C for m16n8k32: a: 4 x i32,
  // b: 2 x i32, c: 4 x i32, in the fragment layout of PTX mma.sync.m16n8k32.s8.
  virtual std::vector<Val> MmaS8(const std::vector<Val>& a, const std::vector<Val>& b,
                                 const std::vector<Val>& c) = 0;
  // The same for m16n8k16 of half floats, two to a word, with sums of f32: a: 4 x i32, b: 2 x i32, c: 4 x
  // f32, in the fragment layout of PTX mma.sync.m16n8k16.f32.f16. Products are exact. A device adds them in
  // an order of its own and cuts off what lies 2^24 below the greatest; a column of D depends on that column
  // of B and C alone.
  virtual std::vector<Val> MmaF16(const std::vector<Val>& a, const std::vector<Val>& b,
                                  const std::vector<Val>& c) = 0;
  // The same of bf16 numbers (mma.sync.m16n8k16.f32.bf16).
  virtual std::vector<Val> MmaBf16(const std::vector<Val>& a, const std::vector<Val>& b,
                                   const std::vector<Val>& c) = 0;
  // Matrix units of kind kCooperative; a subgroup executes it together. Word i of row j of `d` becomes the
  // sum of a[i][c] * b[j][c] over c < columns, for i < a_rows and j < b_rows; rows of `a` and `b` are signed
  // bytes, four to a word. Rows and columns are multiples of the profile's m, n and k. Rows begin at
  // multiples of 16 bytes, or of the size of a row of the device's shape if that is less. Ordered with other
  // accesses by barriers only: of the workgroup, or of the subgroup with its own.
  virtual void DotTile(const SharedRows& a, int a_rows, const SharedRows& b, int b_rows, int columns,
                       const SharedRows& d) = 0;
};

// ---- operators: both sides of one type; a C++ number on one side takes the other's width. Integers go with
// i32 and i64, of which they keep the low bits (so 0x80808080 is a mask); floats with f32 ----

template <typename T>
concept Arithmetic = std::integral<T> || std::floating_point<T>;

template <std::integral T>
Val Const(Val like, T v) {
  Builder* b = like.builder();
  if (like.type() == Type::kI64) return b->I64(static_cast<int64_t>(v));
  return b->I32(static_cast<int32_t>(static_cast<uint64_t>(v)));
}
template <std::floating_point T>
Val Const(Val like, T v) {
  return like.builder()->F32(static_cast<float>(v));
}
#define QCC_GPU_BINARY(symbol, op, numbers)            \
  inline Val operator symbol(Val a, Val b) {           \
    return a.builder()->Binary(Builder::Op::op, a, b); \
  }                                                    \
  template <numbers T>                                 \
  Val operator symbol(Val a, T b) {                    \
    return a symbol Const(a, b);                       \
  }                                                    \
  template <numbers T>                                 \
  Val operator symbol(T a, Val b) {                    \
    return Const(b, a) symbol b;                       \
  }
QCC_GPU_BINARY(+, kAdd, Arithmetic)
QCC_GPU_BINARY(-, kSub, Arithmetic)
QCC_GPU_BINARY(*, kMul, Arithmetic)
QCC_GPU_BINARY(&, kAnd, std::integral)
QCC_GPU_BINARY(|, kOr, std::integral)
QCC_GPU_BINARY(^, kXor, std::integral)
QCC_GPU_BINARY(<<, kShl, std::integral)
#undef QCC_GPU_BINARY
inline Val DivU(Val a, int32_t b) {
  return a.builder()->Binary(Builder::Op::kDivU, a, Const(a, b));
}
inline Val RemU(Val a, int32_t b) {
  return a.builder()->Binary(Builder::Op::kRemU, a, Const(a, b));
}
inline Val ShrU(Val a, int32_t b) {
  return a.builder()->Binary(Builder::Op::kShrU, a, Const(a, b));
}
inline Val ShrS(Val a, int32_t b) {
  return a.builder()->Binary(Builder::Op::kShrS, a, Const(a, b));
}
inline Val DivF(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kDivF, a, b);
}
inline Val MinF(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kMinF, a, b);
}
inline Val MaxF(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kMaxF, a, b);
}
inline Val MinS(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kMinS, a, b);
}
inline Val MaxS(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kMaxS, a, b);
}
inline Val Fma(Val a, Val b, Val c) {
  return a.builder()->Fma(a, b, c);
}
inline Val LtS(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kLtS, a, b);
}
inline Val LeS(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kLeS, a, b);
}
inline Val LtU(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kLtU, a, b);
}
inline Val LtF(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kLtF, a, b);
}
inline Val LeF(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kLeF, a, b);
}
inline Val Eq(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kEq, a, b);
}
template <std::integral T>
Val Eq(Val a, T b) {
  return Eq(a, Const(a, b));
}
inline Val And(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kAnd, a, b);
}  // of conditions too
inline Val Select(Val c, Val a, Val b) {
  return c.builder()->Select(c, a, b);
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_BUILDER_H_
