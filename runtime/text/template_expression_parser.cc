#include "runtime/text/template_expression_parser.h"

#include <iterator>

namespace qrt::text {

NodeId ExpressionParser::FailAt(int line, const std::string& message) {
  if (error_->message.empty()) {
    error_->line = line;
    error_->message = message;
  }
  return kNoNode;
}

std::string ExpressionParser::Describe(const Token& token) const {
  switch (token.kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text.substr(0, 60) + "'";
  }
}

bool ExpressionParser::ExpectOp(std::string_view op) {
  if (EatOp(op)) return true;
  Fail("expected '" + std::string(op) + "', found " + Describe(Current()));
  return false;
}

bool ExpressionParser::ExpectName(std::string_view name) {
  if (EatName(name)) return true;
  Fail("expected '" + std::string(name) + "', found " + Describe(Current()));
  return false;
}

bool ExpressionParser::ExpectBlockEnd() {
  if (Current().kind == TokenKind::kBlockEnd) {
    Next();
    return true;
  }
  Fail("expected '%}', found " + Describe(Current()));
  return false;
}

NameId ExpressionParser::Identifier(const char* what) {
  if (Current().kind != TokenKind::kName) {
    Fail(std::string("expected ") + what + ", found " + Describe(Current()));
    return 0;
  }
  const NameId id = ast_->Intern(Current().text);
  Next();
  return id;
}

NodeId ExpressionParser::Add(Node node) {
  int depth = 0;
  for (NodeId kid : node.kids) {
    if (kid != kNoNode) depth = std::max<int>(depth, ast_->nodes[static_cast<size_t>(kid)].depth);
  }
  if (depth + 1 > kMaxTemplateDepth) {
    return FailAt(node.line,
                  "nested deeper than the limit of " + std::to_string(kMaxTemplateDepth) + " levels");
  }
  if (ast_->nodes.size() >= kMaxTemplateNodes) {
    return FailAt(node.line, "the template has more than " + std::to_string(kMaxTemplateNodes) + " parts");
  }
  node.depth = static_cast<uint16_t>(depth + 1);
  ast_->nodes.push_back(std::move(node));
  return static_cast<NodeId>(ast_->nodes.size() - 1);
}

NodeId ExpressionParser::Add(NodeKind kind, int line, std::vector<NodeId> kids, Op op) {
  Node node = Make(kind, line);
  node.kids = std::move(kids);
  node.op = op;
  return Add(std::move(node));
}

NodeId ExpressionParser::AddConst(int line, Value value) {
  Node node = Make(NodeKind::kConst, line);
  node.value = std::move(value);
  return Add(std::move(node));
}

bool ExpressionParser::IsReserved(std::string_view name) {
  static constexpr std::string_view kWords[] = {"true", "false", "none", "True", "False", "None", "and",
                                                "or",   "not",   "in",   "is",   "if",    "else", "loop"};
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

NodeId ExpressionParser::TupleOrExpression(bool conditional) {
  const int line = Current().line;
  const NodeId first = conditional ? Expression() : Or();
  if (first == kNoNode || !IsOp(",")) return first;
  std::vector<NodeId> items{first};
  while (EatOp(",")) {
    if (EndsTuple()) break;
    const NodeId item = conditional ? Expression() : Or();
    if (item == kNoNode) return kNoNode;
    items.push_back(item);
  }
  return Add(NodeKind::kTuple, line, std::move(items));
}

bool ExpressionParser::EndsTuple() const {
  return Current().kind == TokenKind::kBlockEnd || Current().kind == TokenKind::kVariableEnd || IsOp(")");
}

NodeId ExpressionParser::Expression() {
  Depth depth(this);
  if (!depth.ok()) return kNoNode;
  NodeId left = Or();
  while (left != kNoNode && IsName("if")) {
    const int line = Current().line;
    Next();
    const NodeId test = Or();
    if (test == kNoNode) return kNoNode;
    NodeId otherwise = kNoNode;
    if (EatName("else")) {
      otherwise = Expression();
      if (otherwise == kNoNode) return kNoNode;
    }
    left = Add(NodeKind::kCond, line, {test, left, otherwise});
  }
  return left;
}

NodeId ExpressionParser::Or() {
  NodeId left = And();
  while (left != kNoNode && IsName("or")) {
    const int line = Current().line;
    Next();
    const NodeId right = And();
    if (right == kNoNode) return kNoNode;
    left = Add(NodeKind::kOr, line, {left, right});
  }
  return left;
}

NodeId ExpressionParser::And() {
  NodeId left = Not();
  while (left != kNoNode && IsName("and")) {
    const int line = Current().line;
    Next();
    const NodeId right = Not();
    if (right == kNoNode) return kNoNode;
    left = Add(NodeKind::kAnd, line, {left, right});
  }
  return left;
}

NodeId ExpressionParser::Not() {
  if (!IsName("not")) return Compare();
  const int line = Current().line;
  Next();
  Depth depth(this);
  if (!depth.ok()) return kNoNode;
  const NodeId operand = Not();
  return operand == kNoNode ? kNoNode : Add(NodeKind::kNot, line, {operand});
}

NodeId ExpressionParser::Compare() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {
      {"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt}, {"<=", Op::kLe}, {">", Op::kGt}, {">=", Op::kGe}};
  Node node = Make(NodeKind::kCompare, Current().line);
  NodeId operand = Binary(0);
  for (;;) {
    if (operand == kNoNode) return kNoNode;
    node.kids.push_back(operand);
    auto op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return IsOp(o.first); });
    if (op != std::end(kOps)) {
      node.ops.push_back(op->second);
      Next();
    } else if (EatName("in")) {
      node.ops.push_back(Op::kIn);
    } else if (IsName("not") && Ahead().kind == TokenKind::kName && Ahead().text == "in") {
      node.ops.push_back(Op::kNotIn);
      Next();
      Next();
    } else {
      break;
    }
    operand = Binary(0);
  }
  if (node.ops.empty()) return operand;
  return Add(std::move(node));
}

NodeId ExpressionParser::Binary(int level) {
  struct Entry {
    std::string_view text;
    int level;
    Op op;
  };
  static constexpr Entry kOps[] = {{"+", 0, Op::kAdd}, {"-", 0, Op::kSub},       {"*", 2, Op::kMul},
                                   {"/", 2, Op::kDiv}, {"//", 2, Op::kFloorDiv}, {"%", 2, Op::kMod},
                                   {"**", 3, Op::kPow}};
  if (level == 4) return Unary(true);
  const int line = Current().line;
  NodeId left = Binary(level + 1);
  if (level == 1) {
    if (left == kNoNode || !IsOp("~")) return left;
    std::vector<NodeId> parts{left};
    while (EatOp("~")) {
      const NodeId part = Binary(2);
      if (part == kNoNode) return kNoNode;
      parts.push_back(part);
    }
    return Add(NodeKind::kConcat, line, std::move(parts));
  }
  while (left != kNoNode && Current().kind == TokenKind::kOperator) {
    auto op = std::find_if(std::begin(kOps), std::end(kOps),
                           [&](const Entry& e) { return e.level == level && Current().text == e.text; });
    if (op == std::end(kOps)) break;
    const int op_line = Current().line;
    Next();
    const NodeId right = Binary(level + 1);
    if (right == kNoNode) return kNoNode;
    left = Add(NodeKind::kBinary, op_line, {left, right}, op->op);
  }
  return left;
}

NodeId ExpressionParser::Unary(bool with_filters) {
  const int line = Current().line;
  NodeId node;
  if (IsOp("-") || IsOp("+")) {
    const Op op = IsOp("-") ? Op::kNeg : Op::kPos;
    Next();
    Depth depth(this);
    if (!depth.ok()) return kNoNode;
    node = Unary(false);
    if (node != kNoNode) node = Add(NodeKind::kUnary, line, {node}, op);
  } else {
    node = Primary();
  }
  node = Postfix(node);
  if (with_filters) node = Filters(node);
  return node;
}

NodeId ExpressionParser::Primary() {
  const Token& token = Current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName: {
      const std::string& word = token.text;
      Value constant;
      bool is_constant = true;
      if (word == "true" || word == "True") {
        constant = Value(true);
      } else if (word == "false" || word == "False") {
        constant = Value(false);
      } else if (word == "none" || word == "None") {
        constant = Value::None();
      } else {
        is_constant = false;
      }
      if (is_constant) {
        Next();
        return AddConst(line, std::move(constant));
      }
      if (IsReserved(word) && word != "loop") return Fail("expected an expression, found '" + word + "'");
      Node node = Make(NodeKind::kName, line);
      node.name = ast_->Intern(word);
      Next();
      return Add(std::move(node));
    }
    case TokenKind::kString: {
      std::string text = token.text;
      Next();
      while (Current().kind == TokenKind::kString) {
        text += Current().text;
        Next();
      }
      return AddConst(line, Value(std::move(text)));
    }
    case TokenKind::kInt:
    case TokenKind::kFloat: {
      Value number = token.number;
      Next();
      return AddConst(line, std::move(number));
    }
    default:
      break;
  }
  if (EatOp("(")) {
    if (EatOp(")")) return Add(NodeKind::kTuple, line, {});
    const NodeId inner = TupleOrExpression(true);
    if (inner == kNoNode || !ExpectOp(")")) return kNoNode;
    return inner;
  }
  if (EatOp("[")) return Sequence(line, NodeKind::kList, "]");
  if (EatOp("{")) return Sequence(line, NodeKind::kDict, "}");
  return Fail("expected an expression, found " + Describe(token));
}

NodeId ExpressionParser::Sequence(int line, NodeKind kind, std::string_view close) {
  std::vector<NodeId> items;
  while (!EatOp(close)) {
    if (!items.empty()) {
      if (!ExpectOp(",")) return kNoNode;
      if (EatOp(close)) break;
    }
    const NodeId item = Expression();
    if (item == kNoNode) return kNoNode;
    items.push_back(item);
    if (kind == NodeKind::kDict) {
      if (!ExpectOp(":")) return kNoNode;
      const NodeId value = Expression();
      if (value == kNoNode) return kNoNode;
      items.push_back(value);
    }
  }
  return Add(kind, line, std::move(items));
}

NodeId ExpressionParser::Postfix(NodeId node) {
  while (node != kNoNode) {
    const int line = Current().line;
    if (EatOp(".")) {
      if (Current().kind == TokenKind::kInt) {
        const NodeId index = AddConst(line, Current().number);
        Next();
        if (index == kNoNode) return kNoNode;
        node = Add(NodeKind::kGetItem, line, {node, index});
        continue;
      }
      Node attribute = Make(NodeKind::kGetAttr, line);
      attribute.kids = {node};
      attribute.name = Identifier("an attribute");
      if (attribute.name == 0) return kNoNode;
      node = Add(std::move(attribute));
    } else if (EatOp("[")) {
      node = Subscript(node, line);
    } else if (EatOp("(")) {
      node = Arguments(Make(NodeKind::kCall, line), node);
    } else {
      break;
    }
  }
  return node;
}

NodeId ExpressionParser::Subscript(NodeId object, int line) {
  NodeId parts[3] = {kNoNode, kNoNode, kNoNode};
  int part = 0;
  while (!IsOp("]")) {
    if (EatOp(":")) {
      if (++part > 2) return Fail("a slice has at most three parts");
      continue;
    }
    if (parts[part] != kNoNode) return Fail("expected ']', found " + Describe(Current()));
    parts[part] = Expression();
    if (parts[part] == kNoNode) return kNoNode;
  }
  if (part == 0 && parts[0] == kNoNode) return Fail("expected an index, found ']'");
  Next();
  if (part == 0) return Add(NodeKind::kGetItem, line, {object, parts[0]});
  return Add(NodeKind::kSlice, line, {object, parts[0], parts[1], parts[2]});
}

NodeId ExpressionParser::Arguments(Node node, NodeId first) {
  node.kids = {first};
  while (!EatOp(")")) {
    if (!node.params.empty()) {
      if (!ExpectOp(",")) return kNoNode;
      if (EatOp(")")) break;
    }
    if (IsOp("*") || IsOp("**")) return Fail("'*' and '**' arguments are not supported in chat templates");
    NameId name = 0;
    if (Current().kind == TokenKind::kName && Ahead().kind == TokenKind::kOperator && Ahead().text == "=") {
      name = ast_->Intern(Current().text);
      Next();
      Next();
      if (std::find(node.params.begin(), node.params.end(), name) != node.params.end()) {
        return Fail("argument '" + ast_->names[name] + "' is given twice");
      }
    } else if (!node.params.empty() && node.params.back() != 0) {
      return Fail("a positional argument follows a named one");
    }
    const NodeId value = Expression();
    if (value == kNoNode) return kNoNode;
    node.kids.push_back(value);
    node.params.push_back(name);
  }
  return Add(std::move(node));
}

NodeId ExpressionParser::Filters(NodeId node) {
  while (node != kNoNode) {
    if (EatOp("|")) {
      node = Filter(node);
    } else if (EatName("is")) {
      node = Test(node);
    } else if (IsOp("(")) {
      const int line = Current().line;
      Next();
      node = Arguments(Make(NodeKind::kCall, line), node);
    } else {
      break;
    }
  }
  return node;
}

NodeId ExpressionParser::Filter(NodeId input) {
  if (input == kNoNode) return kNoNode;
  Node node = Make(NodeKind::kFilter, Current().line);
  node.name = Identifier("a filter");
  if (node.name == 0) return kNoNode;
  if (!IsKnownFilter(ast_->names[node.name])) {
    return FailAt(node.line, "unknown filter '" + ast_->names[node.name].substr(0, 60) + "'");
  }
  if (EatOp("(")) return Arguments(std::move(node), input);
  node.kids = {input};
  return Add(std::move(node));
}

NodeId ExpressionParser::Test(NodeId input) {
  const bool negated = EatName("not");
  Node node = Make(NodeKind::kTest, Current().line);
  const int line = node.line;
  node.name = Identifier("a test");
  if (node.name == 0) return kNoNode;
  if (!IsKnownTest(ast_->names[node.name])) {
    return FailAt(line, "unknown test '" + ast_->names[node.name].substr(0, 60) + "'");
  }
  NodeId test;
  if (EatOp("(")) {
    test = Arguments(std::move(node), input);
  } else {
    node.kids = {input};
    if (StartsTestArgument()) {
      const NodeId argument = Postfix(Primary());
      if (argument == kNoNode) return kNoNode;
      node.kids.push_back(argument);
      node.params.push_back(0);
    }
    test = Add(std::move(node));
  }
  if (test == kNoNode || !negated) return test;
  return Add(NodeKind::kNot, line, {test});
}

bool ExpressionParser::StartsTestArgument() const {
  switch (Current().kind) {
    case TokenKind::kString:
    case TokenKind::kInt:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName:
      return !IsReserved(Current().text) || IsName("loop") || IsName("true") || IsName("false") ||
             IsName("none") || IsName("True") || IsName("False") || IsName("None");
    case TokenKind::kOperator:
      return IsOp("[") || IsOp("{");
    default:
      return false;
  }
}

}  // namespace qrt::text
