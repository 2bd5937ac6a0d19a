// Runs a parsed chat template under budgets. Internal to runtime/text; the public face is chat_template.h.
#ifndef QRT_TEXT_TEMPLATE_INTERPRETER_H_
#define QRT_TEXT_TEMPLATE_INTERPRETER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template_ast.h"
#include "runtime/text/template_limits.h"
#include "runtime/text/value.h"

namespace qrt::text {

// Evaluated arguments of a call, filter or test.
struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
  size_t size() const { return positional.size() + named.size(); }
};

enum class FunctionId : uint8_t { kRange, kDict, kNamespace, kRaiseException, kStrftimeNow };

// A variable scope. Owned by the statement that opened it, or by the interpreter once a macro refers to it.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<NameId, Value>> vars;
  bool captured = false;
};

// What values of the interpreter's own kinds point to.
struct NamespaceObject {
  std::vector<Value::Entry> attributes;
};
struct LoopObject {
  std::vector<Value> items;
  size_t index = 0;
};
struct MacroObject {
  NodeId node = kNoNode;
  Scope* scope = nullptr;
};
struct FunctionObject {
  FunctionId id;
};
struct MethodObject {
  Value self;
  std::string name;
};

// Functions return false after Fail; out parameters are meaningless then.
class Interpreter {
 public:
  // `now`: seconds since 1970, for strftime_now; without it there is no such function.
  Interpreter(const TemplateAst& ast, const RenderLimits& limits, std::optional<int64_t> now,
              TemplateError* error)
      : ast_(ast), limits_(limits), now_(now), error_(error) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  bool Run(const std::vector<Value::Entry>& variables, std::string* out);

  // ---- For the built-in functions ----
  bool Fail(std::string message);
  bool Step(uint64_t count = 1);
  // Accounts for `bytes` of new text or values, or of text that is read. To be called before either.
  bool Charge(uint64_t bytes);
  // Fails where `bytes` more would go over the budget, and accounts for nothing: for memory that is taken
  // before its size is charged by what makes a value of it.
  bool Afford(uint64_t bytes);
  const RenderLimits& limits() const { return limits_; }

  bool MakeString(std::string text, Value* out);
  bool MakeList(std::vector<Value> items, bool tuple, Value* out);
  bool MakeMap(std::vector<Value::Entry> entries, Value* out);
  bool MakeNamespace(std::vector<Value::Entry> attributes, Value* out);
  bool MakeUndefined(std::string why, Value* out);
  bool MakeMethod(const Value& self, const std::string& name, uint32_t nesting, Value* out);

  static bool Truthy(const Value& value);
  // Appends Python's str(value); *out stays within the string limit.
  bool AppendStr(const Value& value, std::string* out);
  bool AppendRepr(const Value& value, std::string* out);
  // The string itself, or str() of anything else.
  bool ToStr(const Value& value, std::string* out);
  bool Equal(const Value& a, const Value& b, bool* equal);
  // -1, 0, 1 for numbers, strings and lists.
  bool Order(const Value& a, const Value& b, int* order);
  bool Contains(const Value& container, const Value& item, bool* contains);
  // Items of a list, keys of a map, characters of a string; nothing for an undefined value.
  bool Iterate(const Value& value, std::vector<Value>* items);
  bool Length(const Value& value, int64_t* length);
  // The entry of that key; null if there is none.
  bool Find(const Value::Map& map, const std::string& key, const Value** found);
  bool GetAttr(const Value& object, const std::string& name, Value* out);
  bool GetItem(const Value& object, const Value& index, Value* out);

  bool Call(const Value& callee, const CallArgs& args, Value* out);
  // template_filters.cc
  bool ApplyFilter(std::string_view name, const Value& input, const CallArgs& args, Value* out);
  bool ApplyTest(std::string_view name, const Value& input, const CallArgs& args, bool* out);
  // template_methods.cc
  bool CallMethod(const MethodObject& method, const CallArgs& args, Value* out);
  bool CallFunction(FunctionId id, const CallArgs& args, Value* out);

  // Matches arguments to parameter names; slots of absent ones stay null. `what` names the callee in
  // messages.
  bool Bind(std::string_view what, const CallArgs& args, std::initializer_list<const char*> names,
            size_t required, const Value** slots);

 private:
  // Comparing two names takes about that part of a usual step.
  static constexpr size_t kVariablesPerStep = 16;
  // What a value on the heap takes beside its contents: the count of its owners, its own struct, malloc.
  static constexpr uint64_t kObjectBytes = 96;
  // A step as effort, in bytes read, and the effort after which the caller is asked whether to stop.
  static constexpr uint64_t kStepEffort = 64;
  static constexpr uint64_t kPollEffort = 1 << 18;

  enum class Flow { kNext, kBreak, kContinue, kError };
  class ScopeGuard;

  const Node& node(NodeId id) const { return ast_.nodes[static_cast<size_t>(id)]; }
  bool Enter(const Node& n);
  // Asks the caller now and then whether to go on.
  bool Spend(uint64_t effort);
  // Accounts for a copy of the entries, and for sorting them by key.
  bool ChargeEntries(const std::vector<Value::Entry>& entries);

  Flow Exec(NodeId id);
  Flow ExecNode(const Node& n);
  Flow ExecBlock(const Node& n);
  Flow ExecIf(const Node& n);
  Flow ExecFor(const Node& n);
  Flow ExecWith(const Node& n);
  bool Output(const Node& n);
  bool SetBlock(const Node& n);
  bool FilterBlock(const Node& n);
  // Runs `body` in a scope of its own and gives its text.
  bool Capture(NodeId body, Value* text);
  bool Write(std::string_view text);
  bool Assign(NodeId target, const Value& value);
  // Accounts for looking through `count` variables.
  bool Search(size_t count) { return Step(count / kVariablesPerStep); }
  bool Store(NameId name, const Value& value);

  bool Eval(NodeId id, Value* out);
  bool EvalNode(const Node& n, Value* out);
  bool EvalName(const Node& n, Value* out);
  bool EvalItems(const Node& n, std::vector<Value>* items);
  bool EvalDict(const Node& n, Value* out);
  bool EvalSlice(const Node& n, Value* out);
  bool EvalCall(const Node& n, Value* out);
  bool EvalFilter(const Node& n, Value* out);
  bool EvalTest(const Node& n, Value* out);
  bool EvalUnary(const Node& n, Value* out);
  bool EvalBinary(const Node& n, Value* out);
  bool EvalCompare(const Node& n, Value* out);
  bool EvalConcat(const Node& n, Value* out);
  bool EvalArgs(const Node& n, CallArgs* args);
  // The macro of that node, with the scope that it is met in.
  bool MakeMacro(const Node& n, Value* out);
  // `caller`: what the macro sees as caller; null: nothing.
  bool CallMacro(const MacroObject& macro, const CallArgs& args, const Value* caller, Value* out);
  bool CallBlock(const Node& n);
  bool BindMacro(const Node& n, const CallArgs& args);
  bool LoopAttr(const LoopObject& loop, const std::string& name, Value* out);

  const TemplateAst& ast_;
  const RenderLimits limits_;
  const std::optional<int64_t> now_;
  TemplateError* error_;
  std::string* out_ = nullptr;
  Scope root_;
  Scope* scope_ = &root_;
  std::vector<std::unique_ptr<Scope>> kept_scopes_;
  // Namespaces can refer to each other in circles; Run empties them at its end.
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
  Value captured_;
  int line_ = 0;
  uint32_t depth_ = 0;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  uint64_t effort_ = 0;  // since the caller was asked
};

// Arithmetic on two values (template_arithmetic.cc).
bool ApplyBinary(Interpreter& interpreter, Op op, const Value& a, const Value& b, Value* out);

// The methods that `kind` offers; anything else is undefined.
bool IsKnownMethod(Value::Kind kind, std::string_view name);

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_INTERPRETER_H_
