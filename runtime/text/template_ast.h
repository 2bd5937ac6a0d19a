// The chat template language after parsing: nodes in one flat array, so that a tree of any shape is freed
// without recursion and its depth is known before it is walked.
#ifndef QRT_TEXT_TEMPLATE_AST_H_
#define QRT_TEXT_TEMPLATE_AST_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/text/value.h"

namespace qrt::text {

// Index of a node; kNoNode where a part is absent.
using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

// Interned identifier. 0 is the empty name (a positional argument).
using NameId = uint32_t;

enum class NodeKind : uint8_t {
  // Expressions. `kids` as noted; `name` and `value` where noted.
  kConst,     // value
  kName,      // name
  kList,      // items
  kTuple,     // items
  kDict,      // key, value, key, value, ...
  kGetAttr,   // object; name
  kGetItem,   // object, index
  kSlice,     // object, start, stop, step (each may be absent)
  kCall,      // callee, arguments
  kFilter,    // input, arguments; name
  kTest,      // input, arguments; name
  kUnary,     // operand; op
  kBinary,    // left, right; op
  kAnd,       // left, right
  kOr,        // left, right
  kNot,       // operand
  kCompare,   // first, then right sides; ops
  kConcat,    // operands
  kCond,      // test, then, else (may be absent)
  kCaptured,  // the text of the filter or set block that is being finished
  // Statements.
  kText,         // value
  kOutput,       // expression
  kBlock,        // statements
  kIf,           // condition, block, condition, block, ..., block of else (absent: kNoNode)
  kFor,          // target, iterable, filter (may be absent), body, else (may be absent)
  kSet,          // target, expression
  kSetBlock,     // target, filter chain over kCaptured (may be absent), body
  kMacro,        // defaults of the last parameters ..., body; name, params
  kFilterBlock,  // filter chain over kCaptured, body
  kCallBlock,    // call, macro of its body
  kWith,         // target, expression, ..., body
  kBreak,
  kContinue,
  // Assignment targets.
  kNamespaceTarget,  // name is the variable, params[0] the attribute
};

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kNeg,
  kPos,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn,
};

struct Node {
  NodeKind kind = NodeKind::kConst;
  Op op = Op::kAdd;
  uint16_t depth = 1;  // 1 + the deepest kid
  int32_t line = 0;    // from 1
  NameId name = 0;
  std::vector<NodeId> kids;
  // kCall, kFilter, kTest: names of the arguments (kids from 1 on), 0 for positional. kMacro: parameters.
  std::vector<NameId> params;
  std::vector<Op> ops;
  Value value;
};

struct TemplateAst {
  std::vector<Node> nodes;
  std::vector<std::string> names{""};
  NodeId root = kNoNode;

  NameId Intern(const std::string& name) {
    auto [it, added] = name_ids.try_emplace(name, static_cast<NameId>(names.size()));
    if (added) names.push_back(name);
    return it->second;
  }
  // The id of a name that the template mentions; 0 if it does not.
  NameId FindName(const std::string& name) const {
    auto it = name_ids.find(name);
    return it == name_ids.end() ? 0 : it->second;
  }

  std::unordered_map<std::string, NameId> name_ids;
};

// Where and why parsing or rendering stopped.
struct TemplateError {
  int line = 0;
  std::string message;
  bool stopped = false;  // by the caller (RenderLimits::stop)
};

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_AST_H_
