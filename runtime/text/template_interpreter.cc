#include "runtime/text/template_interpreter.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace qrt::text {

// Opens a scope; on the way out hands it to the interpreter if a macro still needs it.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter* interpreter, Scope* parent)
      : interpreter_(interpreter), outer_(interpreter->scope_), scope_(std::make_unique<Scope>()) {
    scope_->parent = parent;
    interpreter_->scope_ = scope_.get();
  }
  ~ScopeGuard() {
    interpreter_->scope_ = outer_;
    if (scope_->captured) interpreter_->kept_scopes_.push_back(std::move(scope_));
  }
  // A fresh scope in the same place, for the next iteration of a loop.
  void Renew() {
    if (scope_->captured) {
      auto fresh = std::make_unique<Scope>();
      fresh->parent = scope_->parent;
      interpreter_->kept_scopes_.push_back(std::move(scope_));
      scope_ = std::move(fresh);
      interpreter_->scope_ = scope_.get();
    } else {
      scope_->vars.clear();
    }
  }

 private:
  Interpreter* interpreter_;
  Scope* outer_;
  std::unique_ptr<Scope> scope_;
};

Interpreter::~Interpreter() {
  for (auto& ns : namespaces_) ns->attributes.clear();
}

bool Interpreter::Fail(std::string message) {
  if (error_->message.empty()) {
    error_->line = line_;
    error_->message = std::move(message);
  }
  return false;
}

bool Interpreter::Spend(uint64_t effort) {
  effort_ += effort;
  if (effort_ < kPollEffort) return true;
  effort_ = 0;
  if (!limits_.stop || !limits_.stop()) return true;
  error_->stopped = true;
  return Fail("the caller asked to stop");
}

bool Interpreter::Step(uint64_t count) {
  steps_ += count;
  if (!Spend(count * kStepEffort)) return false;
  if (steps_ <= limits_.steps) return true;
  return Fail("the template took more than " + std::to_string(limits_.steps) + " steps");
}

bool Interpreter::Charge(uint64_t bytes) {
  if (!Spend(bytes) || !Afford(bytes)) return false;
  bytes_ += bytes;
  return true;
}

bool Interpreter::Afford(uint64_t bytes) {
  if (bytes <= limits_.total_bytes && bytes_ <= limits_.total_bytes - bytes) return true;
  return Fail("the template made and read more than " + std::to_string(limits_.total_bytes) +
              " bytes of values");
}

bool Interpreter::ChargeEntries(const std::vector<Value::Entry>& entries) {
  uint64_t bytes = 0, compared = 0;
  for (const auto& entry : entries) {
    bytes += entry.first.size() + sizeof(entry) + 2 * sizeof(uint32_t);
    // Comparing short keys is a part of the step.
    if (entry.first.size() > 64) compared += 2 * entry.first.size();
  }
  compared *= static_cast<uint64_t>(std::bit_width(entries.size()));
  return Step(entries.size()) && Charge(bytes + compared);
}

bool Interpreter::Enter(const Node& n) {
  line_ = n.line;
  if (depth_ > limits_.depth) {
    return Fail("the template nests calls and blocks deeper than " + std::to_string(limits_.depth) +
                " levels");
  }
  return Step();
}

bool Interpreter::MakeString(std::string text, Value* out) {
  if (text.size() > limits_.string_bytes) {
    return Fail("a string grew beyond " + std::to_string(limits_.string_bytes) + " bytes");
  }
  if (!Charge(text.size() + kObjectBytes)) return false;
  *out = Value(std::move(text));
  return true;
}

bool Interpreter::MakeList(std::vector<Value> items, bool tuple, Value* out) {
  if (!Step(items.size()) || !Charge(items.size() * sizeof(Value) + kObjectBytes)) return false;
  Value list = Value::MakeList(std::move(items), tuple);
  if (list.nesting() > Value::kMaxNesting) return Fail("a list is nested too deeply");
  *out = std::move(list);
  return true;
}

bool Interpreter::MakeMap(std::vector<Value::Entry> entries, Value* out) {
  if (!ChargeEntries(entries) || !Charge(kObjectBytes)) return false;
  Value map = Value::MakeMap(std::move(entries));
  if (map.nesting() > Value::kMaxNesting) return Fail("a dict is nested too deeply");
  *out = std::move(map);
  return true;
}

bool Interpreter::MakeNamespace(std::vector<Value::Entry> attributes, Value* out) {
  if (!Step(attributes.size()) || !Charge(attributes.size() * sizeof(Value::Entry) + kObjectBytes))
    return false;
  auto object = std::make_shared<NamespaceObject>();
  object->attributes = std::move(attributes);
  namespaces_.push_back(object);
  *out = Value::MakeObject(Value::Kind::kNamespace, std::move(object));
  return true;
}

bool Interpreter::MakeUndefined(std::string why, Value* out) {
  if (!Charge(why.size() + kObjectBytes)) return false;
  *out = Value::Undefined(std::move(why));
  return true;
}

bool Interpreter::MakeMethod(const Value& self, const std::string& name, uint32_t nesting, Value* out) {
  if (!Charge(name.size() + kObjectBytes)) return false;
  auto method = std::make_shared<const MethodObject>(MethodObject{self, name});
  *out = Value::MakeObject(Value::Kind::kMethod, std::move(method), nesting);
  return true;
}

bool Interpreter::Run(const std::vector<Value::Entry>& variables, std::string* out) {
  static constexpr std::pair<const char*, FunctionId> kFunctions[] = {
      {"range", FunctionId::kRange},
      {"dict", FunctionId::kDict},
      {"namespace", FunctionId::kNamespace},
      {"raise_exception", FunctionId::kRaiseException},
      {"strftime_now", FunctionId::kStrftimeNow},
  };
  for (const auto& [name, value] : variables) {
    const NameId id = ast_.FindName(name);
    if (id != 0 && !Store(id, value)) return false;
  }
  // A frame below the variables of the template, which may hide these names.
  Scope functions;
  for (const auto& [name, id] : kFunctions) {
    const NameId name_id = ast_.FindName(name);
    if (name_id == 0 || (id == FunctionId::kStrftimeNow && !now_)) continue;
    auto object = std::make_shared<const FunctionObject>(FunctionObject{id});
    functions.vars.emplace_back(name_id, Value::MakeObject(Value::Kind::kFunction, std::move(object)));
  }
  root_.parent = &functions;
  out_ = out;
  const bool ok = Exec(ast_.root) != Flow::kError;
  root_.parent = nullptr;
  return ok;
}

// ---- Statements ----

Interpreter::Flow Interpreter::Exec(NodeId id) {
  const Node& n = node(id);
  ++depth_;
  const Flow flow = Enter(n) ? ExecNode(n) : Flow::kError;
  --depth_;
  return flow;
}

Interpreter::Flow Interpreter::ExecNode(const Node& n) {
  bool ok = false;
  switch (n.kind) {
    case NodeKind::kBlock:
      return ExecBlock(n);
    case NodeKind::kIf:
      return ExecIf(n);
    case NodeKind::kFor:
      return ExecFor(n);
    case NodeKind::kWith:
      return ExecWith(n);
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
    case NodeKind::kText:
      ok = Write(n.value.as_string());
      break;
    case NodeKind::kOutput:
      ok = Output(n);
      break;
    case NodeKind::kSet: {
      Value value;
      ok = Eval(n.kids[1], &value) && Assign(n.kids[0], value);
      break;
    }
    case NodeKind::kSetBlock:
      ok = SetBlock(n);
      break;
    case NodeKind::kMacro: {
      Value macro;
      ok = MakeMacro(n, &macro) && Store(n.name, macro);
      break;
    }
    case NodeKind::kCallBlock:
      ok = CallBlock(n);
      break;
    case NodeKind::kFilterBlock:
      ok = FilterBlock(n);
      break;
    default:
      return Fail("an expression stands where a statement is expected") ? Flow::kNext : Flow::kError;
  }
  return ok ? Flow::kNext : Flow::kError;
}

Interpreter::Flow Interpreter::ExecBlock(const Node& n) {
  for (NodeId kid : n.kids) {
    const Flow flow = Exec(kid);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecIf(const Node& n) {
  for (size_t i = 0; i + 1 < n.kids.size(); i += 2) {
    Value condition;
    if (!Eval(n.kids[i], &condition)) return Flow::kError;
    if (Truthy(condition)) return Exec(n.kids[i + 1]);
  }
  return n.kids.back() == kNoNode ? Flow::kNext : Exec(n.kids.back());
}

Interpreter::Flow Interpreter::ExecFor(const Node& n) {
  Value iterable;
  if (!Eval(n.kids[1], &iterable)) return Flow::kError;
  if (!Charge(kObjectBytes)) return Flow::kError;
  auto loop = std::make_shared<LoopObject>();
  if (!Iterate(iterable, &loop->items)) return Flow::kError;
  uint32_t nesting = iterable.nesting();
  if (n.kids[2] != kNoNode) {
    std::vector<Value> passed;
    ScopeGuard guard(this, scope_);
    for (Value& item : loop->items) {
      guard.Renew();
      Value condition;
      if (!Assign(n.kids[0], item) || !Eval(n.kids[2], &condition)) return Flow::kError;
      if (Truthy(condition)) passed.push_back(std::move(item));
    }
    loop->items = std::move(passed);
  }
  if (loop->items.empty()) {
    if (n.kids[4] == kNoNode) return Flow::kNext;
    ScopeGuard guard(this, scope_);
    return Exec(n.kids[4]);
  }
  line_ = n.line;
  if (nesting + 1 > Value::kMaxNesting)
    return Fail("loop values are nested too deeply") ? Flow::kNext : Flow::kError;
  const NameId loop_name = ast_.FindName("loop");
  const Value loop_value = Value::MakeObject(Value::Kind::kLoop, loop, nesting + 1);
  ScopeGuard guard(this, scope_);
  for (; loop->index < loop->items.size(); ++loop->index) {
    guard.Renew();
    if (loop_name != 0 && !Store(loop_name, loop_value)) return Flow::kError;
    if (!Assign(n.kids[0], loop->items[loop->index])) return Flow::kError;
    const Flow flow = Exec(n.kids[3]);
    if (flow == Flow::kError) return flow;
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecWith(const Node& n) {
  // All values are computed outside of the new scope.
  std::vector<Value> values;
  for (size_t i = 0; i + 1 < n.kids.size(); i += 2) {
    Value value;
    if (!Eval(n.kids[i + 1], &value)) return Flow::kError;
    values.push_back(std::move(value));
  }
  ScopeGuard guard(this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Assign(n.kids[2 * i], values[i])) return Flow::kError;
  }
  return Exec(n.kids.back());
}

bool Interpreter::Output(const Node& n) {
  Value value;
  if (!Eval(n.kids[0], &value)) return false;
  line_ = n.line;
  if (value.is_string()) return Write(value.as_string());
  std::string text;
  return AppendStr(value, &text) && Write(text);
}

bool Interpreter::SetBlock(const Node& n) {
  Value text;
  if (!Capture(n.kids[2], &text)) return false;
  if (n.kids[1] != kNoNode) {
    captured_ = std::move(text);
    if (!Eval(n.kids[1], &text)) return false;
  }
  return Assign(n.kids[0], text);
}

bool Interpreter::FilterBlock(const Node& n) {
  Value text;
  if (!Capture(n.kids[1], &text)) return false;
  captured_ = std::move(text);
  std::string filtered;
  return Eval(n.kids[0], &text) && AppendStr(text, &filtered) && Write(filtered);
}

bool Interpreter::Capture(NodeId body, Value* text) {
  std::string captured;
  std::string* outer = std::exchange(out_, &captured);
  Flow flow;
  {
    ScopeGuard guard(this, scope_);
    flow = Exec(body);
  }
  out_ = outer;
  if (flow == Flow::kError) return false;
  if (flow != Flow::kNext) return Fail("'break' and 'continue' cannot leave a captured block");
  return MakeString(std::move(captured), text);
}

bool Interpreter::Write(std::string_view text) {
  if (text.size() > limits_.output_bytes || out_->size() > limits_.output_bytes - text.size()) {
    return Fail("the output grew beyond " + std::to_string(limits_.output_bytes) + " bytes");
  }
  if (!Charge(text.size())) return false;
  out_->append(text);
  return true;
}

bool Interpreter::Store(NameId name, const Value& value) {
  auto& vars = scope_->vars;
  const auto var = std::find_if(vars.begin(), vars.end(), [&](const auto& v) { return v.first == name; });
  if (!Search(static_cast<size_t>(var - vars.begin()))) return false;
  if (var != vars.end()) {
    var->second = value;
  } else {
    vars.emplace_back(name, value);
  }
  return true;
}

bool Interpreter::Assign(NodeId target, const Value& value) {
  const Node& n = node(target);
  line_ = n.line;
  if (n.kind == NodeKind::kName) {
    return Store(n.name, value);
  }
  if (n.kind == NodeKind::kNamespaceTarget) {
    Value object;
    if (!EvalName(n, &object)) return false;
    if (object.kind() != Value::Kind::kNamespace) {
      return Fail("cannot assign to attribute '" + ast_.names[n.params[0]] + "' of '" + ast_.names[n.name] +
                  "', which is " + object.type_name() + ", not a namespace");
    }
    // The object is made non-const by MakeNamespace.
    auto* ns = const_cast<NamespaceObject*>(&object.object<NamespaceObject>());
    const std::string& attribute = ast_.names[n.params[0]];
    if (!Step(ns->attributes.size() / 8)) return false;
    for (auto& entry : ns->attributes) {
      if (entry.first == attribute) {
        // The old value may be the last owner of much; let it go after the new one is in place.
        Value old = std::exchange(entry.second, value);
        return true;
      }
    }
    ns->attributes.emplace_back(attribute, value);
    return true;
  }
  std::vector<Value> items;
  if (!Iterate(value, &items)) return false;
  if (items.size() != n.kids.size()) {
    return Fail("expected " + std::to_string(n.kids.size()) + " values to unpack, found " +
                std::to_string(items.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (!Assign(n.kids[i], items[i])) return false;
  }
  return true;
}

// ---- Calls ----

bool Interpreter::Call(const Value& callee, const CallArgs& args, Value* out) {
  switch (callee.kind()) {
    case Value::Kind::kMacro:
      return CallMacro(callee.object<MacroObject>(), args, nullptr, out);
    case Value::Kind::kFunction:
      return CallFunction(callee.object<FunctionObject>().id, args, out);
    case Value::Kind::kMethod:
      return CallMethod(callee.object<MethodObject>(), args, out);
    case Value::Kind::kUndefined:
      return Fail(callee.undefined_reason());
    default:
      return Fail(std::string("a value of type ") + callee.type_name() + " cannot be called");
  }
}

bool Interpreter::MakeMacro(const Node& n, Value* out) {
  // With the scope, which is kept from now on.
  if (!Charge(2 * kObjectBytes)) return false;
  for (Scope* s = scope_; s != nullptr; s = s->parent) s->captured = true;
  auto macro =
      std::make_shared<const MacroObject>(MacroObject{static_cast<NodeId>(&n - ast_.nodes.data()), scope_});
  *out = Value::MakeObject(Value::Kind::kMacro, std::move(macro));
  return true;
}

bool Interpreter::CallBlock(const Node& n) {
  const Node& call = node(n.kids[0]);
  Value callee, caller, text;
  CallArgs args;
  if (!Eval(call.kids[0], &callee) || !EvalArgs(call, &args) || !MakeMacro(node(n.kids[1]), &caller)) {
    return false;
  }
  line_ = n.line;
  if (callee.kind() != Value::Kind::kMacro) return Fail("'call' needs a macro");
  return CallMacro(callee.object<MacroObject>(), args, &caller, &text) && Write(text.as_string());
}

bool Interpreter::CallMacro(const MacroObject& macro, const CallArgs& args, const Value* caller, Value* out) {
  const Node& n = node(macro.node);
  std::string captured;
  std::string* outer = std::exchange(out_, &captured);
  bool ok;
  {
    ScopeGuard guard(this, macro.scope);
    const NameId caller_name = caller != nullptr ? ast_.FindName("caller") : 0;
    ok = BindMacro(n, args) && (caller_name == 0 || Store(caller_name, *caller)) &&
         Exec(n.kids.back()) == Flow::kNext;
  }
  out_ = outer;
  return ok && MakeString(std::move(captured), out);
}

bool Interpreter::BindMacro(const Node& n, const CallArgs& args) {
  const std::string& name = ast_.names[n.name];
  if (args.positional.size() > n.params.size()) {
    return Fail("macro '" + name + "' takes " + std::to_string(n.params.size()) + " arguments, found " +
                std::to_string(args.positional.size()));
  }
  std::vector<bool> named(args.named.size(), false);
  const size_t first_default = n.params.size() - (n.kids.size() - 1);
  for (size_t i = 0; i < n.params.size(); ++i) {
    const std::string& param = ast_.names[n.params[i]];
    if (!Search(args.named.size())) return false;
    auto it =
        std::find_if(args.named.begin(), args.named.end(), [&](const auto& a) { return a.first == param; });
    Value value;
    if (it != args.named.end()) {
      if (i < args.positional.size()) return Fail("macro '" + name + "' got argument '" + param + "' twice");
      named[static_cast<size_t>(it - args.named.begin())] = true;
      value = it->second;
    } else if (i < args.positional.size()) {
      value = args.positional[i];
    } else if (i >= first_default) {
      if (!Eval(n.kids[i - first_default], &value)) return false;
    } else {
      if (!MakeUndefined("parameter '" + param + "' was not provided", &value)) return false;
    }
    if (!Store(n.params[i], value)) return false;
  }
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i]) {
      return Fail("macro '" + name + "' has no parameter '" + std::string(args.named[i].first) + "'");
    }
  }
  return true;
}

bool Interpreter::Bind(std::string_view what, const CallArgs& args, std::initializer_list<const char*> names,
                       size_t required, const Value** slots) {
  const std::string callee(what);
  if (args.positional.size() > names.size()) {
    return Fail("'" + callee + "' takes at most " + std::to_string(names.size()) + " arguments, found " +
                std::to_string(args.positional.size()));
  }
  for (size_t i = 0; i < names.size(); ++i)
    slots[i] = i < args.positional.size() ? &args.positional[i] : nullptr;
  for (const auto& [name, value] : args.named) {
    const auto it = std::find_if(names.begin(), names.end(), [&n = name](const char* p) { return n == p; });
    if (it == names.end()) return Fail("'" + callee + "' has no argument '" + std::string(name) + "'");
    const size_t i = static_cast<size_t>(it - names.begin());
    if (slots[i] != nullptr) return Fail("'" + callee + "' got argument '" + std::string(name) + "' twice");
    slots[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (slots[i] == nullptr) return Fail("'" + callee + "' needs argument '" + *(names.begin() + i) + "'");
  }
  return true;
}

}  // namespace qrt::text
