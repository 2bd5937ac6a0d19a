#include "tests/device/value_builder.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "dialects/formats/formats.h"

namespace qcc::gpu {
namespace {

template <typename F, size_t... kOps>
void WithOp(Builder::Op op, F&& f, std::index_sequence<kOps...>) {
  const auto is = [&](auto constant) {
    if (op != constant) return false;
    f(constant);
    return true;
  };
  (void)(is(std::integral_constant<Builder::Op, static_cast<Builder::Op>(kOps)>()) || ...);
}

// f(the operator as a constant): a loop over cells with a choice in every step takes five times as long.
template <typename F>
void WithOp(Builder::Op op, F&& f) {
  WithOp(op, f, std::make_index_sequence<static_cast<size_t>(Builder::Op::kMaxF) + 1>());
}

}  // namespace

Val ValueBuilder::I32(int32_t value) {
  return Splat(Type::kI32, static_cast<uint32_t>(value));
}

Val ValueBuilder::I64(int64_t value) {
  return Splat(Type::kI64, static_cast<uint64_t>(value));
}

Val ValueBuilder::F32(float value) {
  return Splat(Type::kF32, FromFloat(value));
}

Val ValueBuilder::Extract(Val vector, int lane) {
  if (lane < 0 || lane >= lanesOf(vector.type())) {
    Fail("lane " + std::to_string(lane) + " of a " + nameOf(vector.type()));
    lane = 0;
  }
  Cells from = C(vector) + static_cast<size_t>(lane) * threads_;
  return Each(elementOf(vector.type()), [&](int t) { return from[t]; });
}

Val ValueBuilder::Vector(const std::vector<Val>& lanes) {
  bool f = lanes[0].type() == Type::kF32;
  if (lanes.size() != 2 && lanes.size() != 4) {
    Fail("a vector of " + std::to_string(lanes.size()) + " elements: there are 2 and 4");
    return lanes[0];
  }
  Type type = lanes.size() == 2 ? (f ? Type::kF32x2 : Type::kI32x2) : (f ? Type::kF32x4 : Type::kI32x4);
  Val v = New(type);
  for (size_t i = 0; i < lanes.size(); ++i) {
    Expect(lanes[i], elementOf(type), "element of a vector");
    std::copy_n(C(lanes[i]), threads_, C(v) + i * threads_);
  }
  return v;
}

Val ValueBuilder::Binary(Op op, Val a, Val b) {
  Expect(b, a.type(), "second operand");
  bool f = isFloat(a.type());
  bool float_only = op == Op::kDivF || op == Op::kMinF || op == Op::kMaxF;
  bool both = op == Op::kAdd || op == Op::kSub || op == Op::kMul;
  bool logic = op == Op::kAnd || op == Op::kOr || op == Op::kXor;
  if ((f && !float_only && !both) || (!f && float_only) || (a.type() == Type::kBool && !logic)) {
    Fail(std::string("an operator that ") + nameOf(a.type()) + " does not have");
    return a;
  }
  bool divides = op == Op::kDivU || op == Op::kRemU;
  if (divides) b = NoZeros(b);
  Val r = New(a.type());
  const Cells out = C(r), x = C(a), y = C(b);
  const int n = lanesOf(a.type()) * threads_;
  WithOp(op, [&](auto constant) {
    constexpr Op kOp = decltype(constant)::value;
    if (f) {
      for (int i = 0; i < n; ++i) out[i] = FromFloat(FloatOp(kOp, AsFloat(x[i]), AsFloat(y[i])));
    } else if (a.type() == Type::kI64) {
      for (int i = 0; i < n; ++i) out[i] = IntegerOp<uint64_t, int64_t>(kOp, x[i], y[i]);
    } else {
      for (int i = 0; i < n; ++i) {
        out[i] = IntegerOp<uint32_t, int32_t>(kOp, static_cast<uint32_t>(x[i]), static_cast<uint32_t>(y[i]));
      }
    }
  });
  return r;
}

Val ValueBuilder::NoZeros(Val divisors) {
  Val r = Copy(divisors);
  for (int i = 0; i < lanesOf(r.type()) * threads_; ++i) {
    if (C(r)[i] != 0) continue;
    if (active_[i % threads_]) FailAt(i % threads_, "divides by 0");
    C(r)[i] = 1;
  }
  return r;
}

Val ValueBuilder::Compare(Cmp cmp, Val a, Val b) {
  Expect(b, a.type(), "second operand");
  bool f = a.type() == Type::kF32;
  bool float_cmp = cmp == Cmp::kLtF || cmp == Cmp::kLeF || cmp == Cmp::kEqF;
  if (f != float_cmp || lanesOf(a.type()) != 1) {
    Fail(std::string("a comparison that ") + nameOf(a.type()) + " does not have");
  }
  bool wide = a.type() == Type::kI64;
  return Each(Type::kBool, [&](int t) -> uint64_t {
    uint64_t x = C(a)[t], y = C(b)[t];
    int64_t sx = wide ? static_cast<int64_t>(x) : Signed(x), sy = wide ? static_cast<int64_t>(y) : Signed(y);
    switch (cmp) {
      case Cmp::kEq:
        return x == y;
      case Cmp::kNe:
        return x != y;
      case Cmp::kLtS:
        return sx < sy;
      case Cmp::kLeS:
        return sx <= sy;
      case Cmp::kLtU:
        return x < y;
      case Cmp::kLeU:
        return x <= y;
      case Cmp::kLtF:
        return AsFloat(x) < AsFloat(y);
      case Cmp::kLeF:
        return AsFloat(x) <= AsFloat(y);
      case Cmp::kEqF:
        return AsFloat(x) == AsFloat(y);
    }
    return 0;
  });
}

Val ValueBuilder::Select(Val condition, Val a, Val b) {
  Expect(condition, Type::kBool, "condition");
  Expect(b, a.type(), "second choice");
  Val r = New(a.type());
  const Cells out = C(r), chosen = C(condition), x = C(a), y = C(b);
  for (int first = 0; first < lanesOf(a.type()) * threads_; first += threads_) {
    for (int t = 0; t < threads_; ++t) out[first + t] = chosen[t] ? x[first + t] : y[first + t];
  }
  return r;
}

Val ValueBuilder::Fma(Val a, Val b, Val c) {
  Expect(b, a.type(), "second operand");
  Expect(c, a.type(), "third operand");
  if (!isFloat(a.type())) {
    Fail(std::string("fma of ") + nameOf(a.type()));
  }
  Val r = New(a.type());
  const Cells out = C(r), x = C(a), y = C(b), z = C(c);
  for (int i = 0; i < lanesOf(a.type()) * threads_; ++i) {
    out[i] = FromFloat(std::fma(AsFloat(x[i]), AsFloat(y[i]), AsFloat(z[i])));
  }
  return r;
}

Val ValueBuilder::MulHighU(Val a, Val b) {
  Expect(b, a.type(), "second operand");
  bool wide = a.type() == Type::kI64;
  return Each(a.type(), [&](int t) -> uint64_t {
    unsigned __int128 product = static_cast<unsigned __int128>(C(a)[t]) * C(b)[t];
    return static_cast<uint64_t>(product >> (wide ? 64 : 32));
  });
}

Val ValueBuilder::Call(Fn fn, Val x) {
  if (!isFloat(x.type())) {
    Fail(std::string("a float function of ") + nameOf(x.type()));
  }
  Val r = New(x.type());
  for (int i = 0; i < lanesOf(x.type()) * threads_; ++i) {
    C(r)[i] = FromFloat(Function(fn, AsFloat(C(x)[i])));
  }
  return r;
}

Val ValueBuilder::ToF32(Val v) {
  Expect(v, Type::kI32, "number to convert");
  return Each(Type::kF32, [&](int t) { return FromFloat(static_cast<float>(Signed(C(v)[t]))); });
}

Val ValueBuilder::ToI32(Val v) {
  Expect(v, Type::kF32, "number to convert");
  return Each(Type::kI32, [&](int t) -> uint64_t {
    float f = AsFloat(C(v)[t]);
    bool fits = f > -2147483904.0f && f < 2147483648.0f;  // false for a NaN
    return static_cast<uint32_t>(fits ? static_cast<int32_t>(f) : INT32_MIN);
  });
}

Val ValueBuilder::AsI32(Val v) {
  Expect(v, Type::kF32, "bits");
  return Each(Type::kI32, [&](int t) { return C(v)[t]; });
}

Val ValueBuilder::AsF32(Val v) {
  Expect(v, Type::kI32, "bits");
  return Each(Type::kF32, [&](int t) { return C(v)[t]; });
}

Val ValueBuilder::ExtendU(Val v) {
  Expect(v, Type::kI32, "number to extend");
  return Each(Type::kI64, [&](int t) { return C(v)[t]; });
}

Val ValueBuilder::ExtendS(Val v) {
  Expect(v, Type::kI32, "number to extend");
  return Each(Type::kI64, [&](int t) { return static_cast<uint64_t>(int64_t{Signed(C(v)[t])}); });
}

Val ValueBuilder::Truncate(Val v) {
  Expect(v, Type::kI64, "number to truncate");
  return Each(Type::kI32, [&](int t) { return C(v)[t] & 0xffffffffu; });
}

Val ValueBuilder::UnpackHalf(Val v) {
  Expect(v, Type::kI32, "two halves");
  Val r = New(Type::kF32x2);
  for (int t = 0; t < threads_; ++t) {
    C(r)[t] = FromFloat(half_to_float(static_cast<uint16_t>(C(v)[t])));
    C(r)[threads_ + t] = FromFloat(half_to_float(static_cast<uint16_t>(C(v)[t] >> 16)));
  }
  return r;
}

Val ValueBuilder::HalfToF32(Val v) {
  Expect(v, Type::kI32, "half");
  return Each(Type::kF32, [&](int t) { return FromFloat(half_to_float(static_cast<uint16_t>(C(v)[t]))); });
}

Val ValueBuilder::PackHalf(Val low, Val high) {
  Expect(low, Type::kF32, "half");
  Expect(high, Type::kF32, "half");
  return Each(Type::kI32, [&](int t) -> uint64_t {
    return float_to_half(AsFloat(C(low)[t])) | static_cast<uint32_t>(float_to_half(AsFloat(C(high)[t])))
                                                   << 16;
  });
}

Val ValueBuilder::Dot4(Val a, Val b, Val acc) {
  Expect(a, Type::kI32, "bytes");
  Expect(b, Type::kI32, "bytes");
  Expect(acc, Type::kI32, "sum");
  return Each(Type::kI32, [&](int t) -> uint64_t {
    auto sum = static_cast<uint32_t>(C(acc)[t]);
    for (int i = 0; i < 4; ++i) {
      sum += static_cast<uint32_t>(Byte(C(a)[t], i) * Byte(C(b)[t], i));
    }
    return sum;
  });
}

void ValueBuilder::Fail(const std::string& what) {
  if (error_.empty()) {
    error_ = launch_->name + ", workgroup (" + std::to_string(block_[0]) + ", " + std::to_string(block_[1]) +
             ", " + std::to_string(block_[2]) + "): " + what;
  }
}

void ValueBuilder::FailAt(int thread, const std::string& what) {
  if (error_.empty()) {
    Fail("thread " + std::to_string(thread) + ": " + what);
  }
}

}  // namespace qcc::gpu
