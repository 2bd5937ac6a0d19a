// Expressions of the template language; statements and calls are in template_interpreter.cc.
#include <algorithm>
#include <cmath>

#include "runtime/text/template_interpreter.h"
#include "runtime/text/unicode.h"

namespace qrt::text {

bool Interpreter::Eval(NodeId id, Value* out) {
  const Node& n = node(id);
  ++depth_;
  const bool ok = Enter(n) && EvalNode(n, out);
  --depth_;
  return ok;
}

bool Interpreter::EvalNode(const Node& n, Value* out) {
  switch (n.kind) {
    case NodeKind::kConst:
      *out = n.value;
      return true;
    case NodeKind::kName:
      return EvalName(n, out);
    case NodeKind::kList:
    case NodeKind::kTuple: {
      std::vector<Value> items;
      return EvalItems(n, &items) && MakeList(std::move(items), n.kind == NodeKind::kTuple, out);
    }
    case NodeKind::kDict:
      return EvalDict(n, out);
    case NodeKind::kGetAttr: {
      Value object;
      if (!Eval(n.kids[0], &object)) return false;
      line_ = n.line;
      return GetAttr(object, ast_.names[n.name], out);
    }
    case NodeKind::kGetItem: {
      Value object, index;
      if (!Eval(n.kids[0], &object) || !Eval(n.kids[1], &index)) return false;
      line_ = n.line;
      return GetItem(object, index, out);
    }
    case NodeKind::kSlice:
      return EvalSlice(n, out);
    case NodeKind::kCall:
      return EvalCall(n, out);
    case NodeKind::kFilter:
      return EvalFilter(n, out);
    case NodeKind::kTest:
      return EvalTest(n, out);
    case NodeKind::kUnary:
      return EvalUnary(n, out);
    case NodeKind::kBinary:
      return EvalBinary(n, out);
    case NodeKind::kAnd:
    case NodeKind::kOr:
      if (!Eval(n.kids[0], out)) return false;
      if (Truthy(*out) == (n.kind == NodeKind::kOr)) return true;
      return Eval(n.kids[1], out);
    case NodeKind::kNot: {
      Value operand;
      if (!Eval(n.kids[0], &operand)) return false;
      *out = Value(!Truthy(operand));
      return true;
    }
    case NodeKind::kCompare:
      return EvalCompare(n, out);
    case NodeKind::kConcat:
      return EvalConcat(n, out);
    case NodeKind::kCond: {
      Value test;
      if (!Eval(n.kids[0], &test)) return false;
      if (Truthy(test)) return Eval(n.kids[1], out);
      if (n.kids[2] != kNoNode) return Eval(n.kids[2], out);
      return MakeUndefined("the 'if' expression has no 'else' and its condition is false", out);
    }
    case NodeKind::kCaptured:
      *out = captured_;
      return true;
    default:
      return Fail("a statement stands where an expression is expected");
  }
}

bool Interpreter::EvalName(const Node& n, Value* out) {
  size_t seen = 0;
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto var = std::find_if(scope->vars.begin(), scope->vars.end(),
                                  [&](const auto& v) { return v.first == n.name; });
    seen += static_cast<size_t>(var - scope->vars.begin()) + 1;
    if (var != scope->vars.end()) {
      *out = var->second;
      return Search(seen);
    }
  }
  if (!Search(seen)) return false;
  return MakeUndefined("'" + ast_.names[n.name] + "' is undefined", out);
}

bool Interpreter::EvalItems(const Node& n, std::vector<Value>* items) {
  items->resize(n.kids.size());
  for (size_t i = 0; i < n.kids.size(); ++i) {
    if (!Eval(n.kids[i], &(*items)[i])) return false;
  }
  line_ = n.line;
  return true;
}

bool Interpreter::EvalDict(const Node& n, Value* out) {
  std::vector<Value::Entry> entries(n.kids.size() / 2);
  for (size_t i = 0; i < entries.size(); ++i) {
    Value key;
    if (!Eval(n.kids[2 * i], &key) || !Eval(n.kids[2 * i + 1], &entries[i].second)) return false;
    line_ = n.line;
    if (!key.is_string()) return Fail(std::string("dict keys must be strings, found ") + key.type_name());
    if (!Charge(key.as_string().size())) return false;
    entries[i].first = key.as_string();
  }
  return MakeMap(std::move(entries), out);
}

bool Interpreter::EvalSlice(const Node& n, Value* out) {
  Value object;
  if (!Eval(n.kids[0], &object)) return false;
  int64_t bounds[3] = {0, 0, 1};
  bool given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (n.kids[i + 1] == kNoNode) continue;
    Value value;
    if (!Eval(n.kids[i + 1], &value)) return false;
    if (value.is_none()) continue;
    line_ = n.line;
    if (!value.is_int() && !value.is_bool()) {
      return Fail(std::string("slice bounds must be integers, found ") + value.type_name());
    }
    bounds[i] = value.as_int();
    given[i] = true;
  }
  line_ = n.line;
  const int64_t step = bounds[2];
  if (step == 0) return Fail("slice step cannot be zero");
  std::vector<size_t> offsets;
  int64_t length;
  if (object.is_string()) {
    if (!Charge(object.as_string().size() * 2 * sizeof(size_t))) return false;
    offsets = CharOffsets(object.as_string());
    length = static_cast<int64_t>(offsets.size()) - 1;
  } else if (object.is_list()) {
    length = static_cast<int64_t>(object.as_list().items.size());
  } else if (object.is_undefined()) {
    return Fail(object.undefined_reason());
  } else {
    return Fail(std::string("a value of type ") + object.type_name() + " cannot be sliced");
  }
  // Python's slice.indices().
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  auto clamp = [&](int64_t bound) { return std::clamp(bound < 0 ? bound + length : bound, low, high); };
  const int64_t start = given[0] ? clamp(bounds[0]) : (step > 0 ? low : high);
  const int64_t stop = given[1] ? clamp(bounds[1]) : (step > 0 ? high : low);
  // At most so many: a longer step leaves some out.
  const uint64_t most =
      start < stop ? static_cast<uint64_t>(stop - start) : static_cast<uint64_t>(start - stop);
  if (object.is_list() && !Afford(most * sizeof(Value))) return false;
  std::vector<Value> items;
  std::string text;
  if (object.is_string() && step == 1) {
    if (start < stop) {
      text =
          object.as_string().substr(offsets[static_cast<size_t>(start)],
                                    offsets[static_cast<size_t>(stop)] - offsets[static_cast<size_t>(start)]);
    }
    return MakeString(std::move(text), out);
  }
  const bool forward = step > 0;
  for (int64_t i = start; forward ? i < stop : i > stop;) {
    const size_t at = static_cast<size_t>(i);
    if (object.is_string()) {
      text.append(object.as_string(), offsets[at], offsets[at + 1] - offsets[at]);
    } else {
      items.push_back(object.as_list().items[at]);
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (object.is_string()) return MakeString(std::move(text), out);
  return MakeList(std::move(items), object.as_list().tuple, out);
}

bool Interpreter::EvalArgs(const Node& n, CallArgs* args) {
  for (size_t i = 1; i < n.kids.size(); ++i) {
    Value value;
    if (!Eval(n.kids[i], &value)) return false;
    const NameId name = n.params[i - 1];
    if (name == 0) {
      args->positional.push_back(std::move(value));
    } else {
      args->named.emplace_back(ast_.names[name], std::move(value));
    }
  }
  line_ = n.line;
  return true;
}

bool Interpreter::EvalCall(const Node& n, Value* out) {
  Value callee;
  CallArgs args;
  return Eval(n.kids[0], &callee) && EvalArgs(n, &args) && Call(callee, args, out);
}

bool Interpreter::EvalFilter(const Node& n, Value* out) {
  Value input;
  CallArgs args;
  return Eval(n.kids[0], &input) && EvalArgs(n, &args) && ApplyFilter(ast_.names[n.name], input, args, out);
}

bool Interpreter::EvalTest(const Node& n, Value* out) {
  Value input;
  CallArgs args;
  bool result = false;
  if (!Eval(n.kids[0], &input) || !EvalArgs(n, &args) ||
      !ApplyTest(ast_.names[n.name], input, args, &result)) {
    return false;
  }
  *out = Value(result);
  return true;
}

bool Interpreter::EvalUnary(const Node& n, Value* out) {
  Value operand;
  if (!Eval(n.kids[0], &operand)) return false;
  line_ = n.line;
  if (operand.is_undefined()) return Fail(operand.undefined_reason());
  if (!operand.is_number()) return Fail(std::string("bad operand for a sign: ") + operand.type_name());
  if (operand.is_float()) {
    *out = Value(n.op == Op::kNeg ? -operand.as_double() : operand.as_double());
    return true;
  }
  if (n.op == Op::kPos) {
    *out = Value(operand.as_int());
    return true;
  }
  int64_t result;
  if (__builtin_sub_overflow(int64_t{0}, operand.as_int(), &result)) return Fail("integer overflow in '-'");
  *out = Value(result);
  return true;
}

bool Interpreter::EvalBinary(const Node& n, Value* out) {
  Value a, b;
  if (!Eval(n.kids[0], &a) || !Eval(n.kids[1], &b)) return false;
  line_ = n.line;
  return ApplyBinary(*this, n.op, a, b, out);
}

bool Interpreter::EvalCompare(const Node& n, Value* out) {
  Value left;
  if (!Eval(n.kids[0], &left)) return false;
  bool result = true;
  for (size_t i = 0; i < n.ops.size() && result; ++i) {
    Value right;
    if (!Eval(n.kids[i + 1], &right)) return false;
    line_ = n.line;
    int order = 0;
    switch (n.ops[i]) {
      case Op::kEq:
      case Op::kNe:
        if (!Equal(left, right, &result)) return false;
        if (n.ops[i] == Op::kNe) result = !result;
        break;
      case Op::kIn:
      case Op::kNotIn:
        if (!Contains(right, left, &result)) return false;
        if (n.ops[i] == Op::kNotIn) result = !result;
        break;
      default: {
        // NaN is in no order with anything.
        if (left.is_number() && right.is_number() && std::isunordered(left.as_double(), right.as_double())) {
          result = false;
          break;
        }
        if (!Order(left, right, &order)) return false;
        const Op op = n.ops[i];
        result = op == Op::kLt   ? order < 0
                 : op == Op::kLe ? order <= 0
                 : op == Op::kGt ? order > 0
                                 : order >= 0;
      }
    }
    left = std::move(right);
  }
  *out = Value(result);
  return true;
}

bool Interpreter::EvalConcat(const Node& n, Value* out) {
  std::string text;
  for (NodeId kid : n.kids) {
    Value value;
    if (!Eval(kid, &value)) return false;
    line_ = n.line;
    if (!AppendStr(value, &text)) return false;
  }
  return MakeString(std::move(text), out);
}

}  // namespace qrt::text
