// The part of the interpreter that computes: the values of a workgroup, and the methods of Builder that make
// values of values. Memory, control flow and subgroups are the interpreter's.
#ifndef TESTS_DEVICE_VALUE_BUILDER_H_
#define TESTS_DEVICE_VALUE_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/launch.h"
#include "tests/device/interpreter_values.h"

namespace qcc::gpu {

class ValueBuilder : public Builder {
 public:
  Val I32(int32_t value) override;
  Val I64(int64_t value) override;
  Val F32(float value) override;
  Val Extract(Val vector, int lane) override;
  Val Vector(const std::vector<Val>& lanes) override;
  Val Binary(Op op, Val a, Val b) override;
  Val Compare(Cmp cmp, Val a, Val b) override;
  Val Select(Val condition, Val a, Val b) override;
  Val Fma(Val a, Val b, Val c) override;
  Val MulHighU(Val a, Val b) override;
  Val Call(Fn fn, Val x) override;
  Val ToF32(Val v) override;
  Val ToI32(Val v) override;
  Val AsI32(Val v) override;
  Val AsF32(Val v) override;
  Val ExtendU(Val v) override;
  Val ExtendS(Val v) override;
  Val Truncate(Val v) override;
  Val UnpackHalf(Val v) override;
  Val HalfToF32(Val v) override;
  Val PackHalf(Val low, Val high) override;
  Val Dot4(Val a, Val b, Val acc) override;

 protected:
  static Cells C(Val v) { return static_cast<Cells>(v.value()); }

  Val New(Type type) { return {this, cells_.Take(static_cast<size_t>(lanesOf(type)) * threads_), type}; }
  Val Splat(Type type, uint64_t bits) {
    Val v = New(type);
    std::fill_n(C(v), lanesOf(type) * threads_, bits);
    return v;
  }
  Val Copy(Val from) {
    Val v = New(from.type());
    std::copy_n(C(from), lanesOf(from.type()) * threads_, C(v));
    return v;
  }
  template <typename F>
  Val Each(Type type, F&& f) {
    Val v = New(type);
    for (int t = 0; t < threads_; ++t) {
      C(v)[t] = f(t);
    }
    return v;
  }

  // A copy with 1 in place of 0; an active thread's 0 is an error.
  Val NoZeros(Val divisors);

  // Wrong use of the language. The first error stays.
  void Expect(Val v, Type type, const char* what) {
    if (!v) {
      Fail(std::string(what) + ": an empty value");
    } else if (v.type() != type) {
      Fail(std::string(what) + " has type " + nameOf(v.type()) + ", expected " + nameOf(type));
    }
  }
  void Fail(const std::string& what);
  void FailAt(int thread, const std::string& what);

  std::string error_;

  // What runs.
  const Launch* launch_ = nullptr;
  int threads_ = 0;
  uint32_t block_[3] = {0, 0, 0};

  CellStack cells_;
  std::vector<uint8_t> active_;  // by thread
};

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_VALUE_BUILDER_H_
