// + - * / // % ** with Python's meaning, on 64-bit integers (overflow is an error).
#include <cmath>

#include "runtime/text/template_filters.h"
#include "runtime/text/template_interpreter.h"

namespace qrt::text {
namespace {

const char* OpText(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSub:
      return "-";
    case Op::kMul:
      return "*";
    case Op::kDiv:
      return "/";
    case Op::kFloorDiv:
      return "//";
    case Op::kMod:
      return "%";
    default:
      return "**";
  }
}

bool Overflow(Interpreter& interpreter, Op op) {
  return interpreter.Fail(std::string("integer overflow in '") + OpText(op) + "'");
}

bool IntPower(Interpreter& interpreter, int64_t base, int64_t exponent, Value* out) {
  int64_t result = 1;
  bool base_overflowed = false;
  while (exponent > 0) {
    if (exponent & 1) {
      if (base_overflowed || __builtin_mul_overflow(result, base, &result))
        return Overflow(interpreter, Op::kPow);
    }
    exponent >>= 1;
    if (exponent > 0 && !base_overflowed) base_overflowed = __builtin_mul_overflow(base, base, &base);
  }
  *out = Value(result);
  return true;
}

bool Ints(Interpreter& interpreter, Op op, int64_t a, int64_t b, Value* out) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::kSub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::kMul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::kDiv:
      if (b == 0) return interpreter.Fail("division by zero");
      *out = Value(static_cast<double>(a) / static_cast<double>(b));
      return true;
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) return interpreter.Fail("division by zero");
      if (b == -1) {  // INT64_MIN / -1 traps
        if (op == Op::kFloorDiv) overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
        break;
      }
      const int64_t quotient = a / b, remainder = a % b;
      const bool round_down = remainder != 0 && (remainder < 0) != (b < 0);
      result = op == Op::kMod ? remainder + (round_down ? b : 0) : quotient - round_down;
      break;
    }
    default:
      if (b >= 0) return IntPower(interpreter, a, b, out);
      if (a == 0) return interpreter.Fail("zero cannot be raised to a negative power");
      *out = Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
      return true;
  }
  if (overflow) return Overflow(interpreter, op);
  *out = Value(result);
  return true;
}

bool Floats(Interpreter& interpreter, Op op, double a, double b, Value* out) {
  switch (op) {
    case Op::kAdd:
      *out = Value(a + b);
      return true;
    case Op::kSub:
      *out = Value(a - b);
      return true;
    case Op::kMul:
      *out = Value(a * b);
      return true;
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) return interpreter.Fail("division by zero");
      if (op == Op::kDiv) {
        *out = Value(a / b);
        return true;
      }
      // Python's way, down to the signs of zeros.
      double remainder = std::fmod(a, b), quotient = (a - remainder) / b;
      if (remainder == 0) {
        remainder = std::copysign(0.0, b);
      } else if ((remainder < 0) != (b < 0)) {
        remainder += b;
        quotient -= 1;
      }
      quotient = quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient);
      *out = Value(op == Op::kMod ? remainder : quotient);
      return true;
    }
    default: {
      if (a == 0 && b < 0) return interpreter.Fail("zero cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
        return interpreter.Fail("a negative number cannot be raised to a fraction");
      }
      *out = Value(result);
      return true;
    }
  }
}

// text * count and list * count.
bool Repeat(Interpreter& interpreter, const Value& sequence, int64_t count, Value* out) {
  const uint64_t times = count > 0 ? static_cast<uint64_t>(count) : 0;
  const uint64_t size = sequence.is_string() ? sequence.as_string().size() : sequence.as_list().items.size();
  // Sizes are checked before anything is allocated.
  const uint64_t limit = sequence.is_string() ? interpreter.limits().string_bytes
                                              : interpreter.limits().total_bytes / sizeof(Value);
  if (size != 0 && times > limit / size) {
    return interpreter.Fail("repeating a " + std::string(sequence.type_name()) + " " + std::to_string(times) +
                            " times makes it too long");
  }
  if (sequence.is_string()) {
    if (!interpreter.Charge(size * times)) return false;
    std::string text;
    if (size == 1) {
      text.assign(times, sequence.as_string()[0]);
    } else {
      text.reserve(size * times);
      for (uint64_t i = 0; i < times && size != 0; ++i) text += sequence.as_string();
    }
    return interpreter.MakeString(std::move(text), out);
  }
  if (!interpreter.Step(size * times) || !interpreter.Afford(size * times * sizeof(Value))) return false;
  std::vector<Value> items;
  items.reserve(size * times);
  for (uint64_t i = 0; i < times && size != 0; ++i) {
    items.insert(items.end(), sequence.as_list().items.begin(), sequence.as_list().items.end());
  }
  return interpreter.MakeList(std::move(items), sequence.as_list().tuple, out);
}

}  // namespace

bool ApplyBinary(Interpreter& interpreter, Op op, const Value& a, const Value& b, Value* out) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return Floats(interpreter, op, a.as_double(), b.as_double(), out);
    return Ints(interpreter, op, a.as_int(), b.as_int(), out);
  }
  if (op == Op::kAdd && a.is_string() && b.is_string()) {
    if (a.as_string().size() + b.as_string().size() > interpreter.limits().string_bytes) {
      return interpreter.Fail("a string grew beyond " + std::to_string(interpreter.limits().string_bytes) +
                              " bytes");
    }
    return interpreter.MakeString(a.as_string() + b.as_string(), out);
  }
  if (op == Op::kAdd && a.is_list() && b.is_list() && a.as_list().tuple == b.as_list().tuple) {
    const uint64_t size = a.as_list().items.size() + b.as_list().items.size();
    if (!interpreter.Afford(size * sizeof(Value))) return false;
    std::vector<Value> items;
    items.reserve(size);
    items = a.as_list().items;
    items.insert(items.end(), b.as_list().items.begin(), b.as_list().items.end());
    return interpreter.MakeList(std::move(items), a.as_list().tuple, out);
  }
  if (op == Op::kMul) {
    const bool repeat_a = (a.is_string() || a.is_list()) && (b.is_int() || b.is_bool());
    const bool repeat_b = (b.is_string() || b.is_list()) && (a.is_int() || a.is_bool());
    if (repeat_a) return Repeat(interpreter, a, b.as_int(), out);
    if (repeat_b) return Repeat(interpreter, b, a.as_int(), out);
  }
  if (op == Op::kMod && a.is_string()) {
    CallArgs values;
    if (b.is_list() && b.as_list().tuple) {
      if (!interpreter.Charge(b.as_list().items.size() * sizeof(Value))) return false;
      values.positional = b.as_list().items;
    } else {
      values.positional = {b};
    }
    return Format(interpreter, "%", a, values, out);
  }
  if (a.is_undefined()) return interpreter.Fail(a.undefined_reason());
  if (b.is_undefined()) return interpreter.Fail(b.undefined_reason());
  return interpreter.Fail(std::string("'") + OpText(op) + "' does not work on '" + a.type_name() + "' and '" +
                          b.type_name() + "'");
}

}  // namespace qrt::text
