#include "runtime/text/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "runtime/text/template_lexer.h"

namespace qrt::text {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, TemplateAst* ast, TemplateError* error)
      : tokens_(std::move(tokens)), ast_(ast), error_(error) {}

  bool Run() {
    ast_->root = Statements({});
    return ast_->root != kNoNode;
  }

 private:
  // Every parse function returns kNoNode after Fail; kNoNode never stands for success.
  NodeId Fail(const std::string& message) { return FailAt(Current().line, message); }
  NodeId FailAt(int line, const std::string& message) {
    if (error_->message.empty()) {
      error_->line = line;
      error_->message = message;
    }
    return kNoNode;
  }

  const Token& Current() const { return tokens_[pos_]; }
  const Token& Ahead() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  void Next() {
    if (pos_ + 1 < tokens_.size()) ++pos_;
  }
  bool IsOp(std::string_view op) const {
    return Current().kind == TokenKind::kOperator && Current().text == op;
  }
  bool IsName(std::string_view name) const {
    return Current().kind == TokenKind::kName && Current().text == name;
  }
  bool EatOp(std::string_view op) {
    if (!IsOp(op)) return false;
    Next();
    return true;
  }
  bool EatName(std::string_view name) {
    if (!IsName(name)) return false;
    Next();
    return true;
  }

  std::string Describe(const Token& token) const {
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
  bool ExpectOp(std::string_view op) {
    if (EatOp(op)) return true;
    Fail("expected '" + std::string(op) + "', found " + Describe(Current()));
    return false;
  }
  bool ExpectName(std::string_view name) {
    if (EatName(name)) return true;
    Fail("expected '" + std::string(name) + "', found " + Describe(Current()));
    return false;
  }
  bool ExpectBlockEnd() {
    if (Current().kind == TokenKind::kBlockEnd) {
      Next();
      return true;
    }
    Fail("expected '%}', found " + Describe(Current()));
    return false;
  }
  // An identifier that may be stored to; 0 after an error.
  NameId Identifier(const char* what) {
    if (Current().kind != TokenKind::kName) {
      Fail(std::string("expected ") + what + ", found " + Describe(Current()));
      return 0;
    }
    const NameId id = ast_->Intern(Current().text);
    Next();
    return id;
  }

  NodeId Add(Node node) {
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
  Node Make(NodeKind kind, int line) {
    Node node;
    node.kind = kind;
    node.line = line;
    return node;
  }
  NodeId Add(NodeKind kind, int line, std::vector<NodeId> kids, Op op = Op::kAdd) {
    Node node = Make(kind, line);
    node.kids = std::move(kids);
    node.op = op;
    return Add(std::move(node));
  }
  NodeId AddConst(int line, Value value) {
    Node node = Make(NodeKind::kConst, line);
    node.value = std::move(value);
    return Add(std::move(node));
  }

  // Bounds the recursion of the parser itself.
  class Depth {
   public:
    explicit Depth(Parser* parser) : parser_(parser) { ++parser_->depth_; }
    ~Depth() { --parser_->depth_; }
    bool ok() const {
      if (parser_->depth_ <= kMaxTemplateDepth) return true;
      parser_->Fail("nested deeper than the limit of " + std::to_string(kMaxTemplateDepth) + " levels");
      return false;
    }

   private:
    Parser* parser_;
  };

  // ---- Statements ----

  // Statements up to a block tag that starts with one of `ends`; stops on that word. With no `ends`, up to
  // the end.
  NodeId Statements(std::initializer_list<std::string_view> ends) {
    Depth depth(this);
    if (!depth.ok()) return kNoNode;
    Node block = Make(NodeKind::kBlock, Current().line);
    for (;;) {
      const Token& token = Current();
      NodeId statement = kNoNode;
      switch (token.kind) {
        case TokenKind::kEnd:
          if (ends.size() == 0) return Add(std::move(block));
          return Fail("the template ends inside '" + open_.back() + "' of line " +
                      std::to_string(open_lines_.back()) + ": expected '" + std::string(*(ends.end() - 1)) +
                      "'");
        case TokenKind::kText: {
          Node text = Make(NodeKind::kText, token.line);
          text.value = Value(token.text);
          Next();
          statement = Add(std::move(text));
          break;
        }
        case TokenKind::kVariableBegin: {
          const int line = token.line;
          Next();
          const NodeId expression = TupleOrExpression(true);
          if (expression == kNoNode) return kNoNode;
          if (Current().kind != TokenKind::kVariableEnd) {
            return Fail("expected '}}', found " + Describe(Current()));
          }
          Next();
          statement = Add(NodeKind::kOutput, line, {expression});
          break;
        }
        default: {  // kBlockBegin: the lexer puts nothing else outside tags
          Next();
          if (Current().kind != TokenKind::kName)
            return Fail("expected a statement, found " + Describe(Current()));
          if (std::find(ends.begin(), ends.end(), Current().text) != ends.end()) return Add(std::move(block));
          statement = Statement();
        }
      }
      if (statement == kNoNode) return kNoNode;
      block.kids.push_back(statement);
    }
  }

  // A body, with the opening tag remembered for messages.
  NodeId Body(const std::string& tag, int line, std::initializer_list<std::string_view> ends) {
    if (!ExpectBlockEnd()) return kNoNode;
    open_.push_back(tag);
    open_lines_.push_back(line);
    const NodeId body = Statements(ends);
    open_.pop_back();
    open_lines_.pop_back();
    return body;
  }
  NodeId LastBody(const std::string& tag, int line, std::string_view end) {
    const NodeId body = Body(tag, line, {end});
    if (body == kNoNode || !ExpectName(end) || !ExpectBlockEnd()) return kNoNode;
    return body;
  }

  NodeId Statement() {
    const std::string word = Current().text;
    const int line = Current().line;
    Next();
    if (word == "if") return If(line);
    if (word == "for") return For(line);
    if (word == "set") return Set(line);
    if (word == "macro") return Macro(line);
    if (word == "filter") return FilterBlock(line);
    if (word == "with") return With(line);
    if (word == "generation") return LastBody(word, line, "endgeneration");
    if (word == "break" || word == "continue") {
      if (loops_ == 0) return FailAt(line, "'" + word + "' outside of a loop");
      if (!ExpectBlockEnd()) return kNoNode;
      return Add(word == "break" ? NodeKind::kBreak : NodeKind::kContinue, line, {});
    }
    if (word == "endraw" || word.rfind("end", 0) == 0 || word == "else" || word == "elif") {
      return FailAt(line, "'" + word + "' without its beginning" +
                              (open_.empty() ? ""
                                             : "; the innermost open statement is '" + open_.back() +
                                                   "' of line " + std::to_string(open_lines_.back())));
    }
    return FailAt(line, "statement '" + word.substr(0, 60) + "' is not supported in chat templates");
  }

  NodeId If(int line) {
    Node node = Make(NodeKind::kIf, line);
    std::string tag = "if";
    for (;;) {
      const NodeId condition = TupleOrExpression(true);
      if (condition == kNoNode) return kNoNode;
      const NodeId body = Body(tag, line, {"elif", "else", "endif"});
      if (body == kNoNode) return kNoNode;
      node.kids.push_back(condition);
      node.kids.push_back(body);
      if (EatName("elif")) continue;
      NodeId otherwise = kNoNode;
      if (EatName("else")) {
        otherwise = Body("else", line, {"endif"});
        if (otherwise == kNoNode) return kNoNode;
      }
      node.kids.push_back(otherwise);
      if (!ExpectName("endif") || !ExpectBlockEnd()) return kNoNode;
      return Add(std::move(node));
    }
  }

  NodeId For(int line) {
    const NodeId target = Target(false);
    if (target == kNoNode || !ExpectName("in")) return kNoNode;
    const NodeId iterable = TupleOrExpression(false);
    if (iterable == kNoNode) return kNoNode;
    NodeId filter = kNoNode;
    if (EatName("if")) {
      filter = Expression();
      if (filter == kNoNode) return kNoNode;
    }
    if (IsName("recursive")) return Fail("recursive loops are not supported in chat templates");
    ++loops_;
    const NodeId body = Body("for", line, {"else", "endfor"});
    --loops_;
    if (body == kNoNode) return kNoNode;
    NodeId otherwise = kNoNode;
    if (EatName("else")) {
      otherwise = Body("else", line, {"endfor"});
      if (otherwise == kNoNode) return kNoNode;
    }
    if (!ExpectName("endfor") || !ExpectBlockEnd()) return kNoNode;
    return Add(NodeKind::kFor, line, {target, iterable, filter, body, otherwise});
  }

  NodeId Set(int line) {
    const NodeId target = Target(true);
    if (target == kNoNode) return kNoNode;
    if (EatOp("=")) {
      const NodeId expression = TupleOrExpression(true);
      if (expression == kNoNode || !ExpectBlockEnd()) return kNoNode;
      return Add(NodeKind::kSet, line, {target, expression});
    }
    NodeId filter = kNoNode;
    if (IsOp("|")) {
      filter = Filters(Add(NodeKind::kCaptured, line, {}));
      if (filter == kNoNode) return kNoNode;
    }
    const NodeId body = LastBody("set", line, "endset");
    if (body == kNoNode) return kNoNode;
    return Add(NodeKind::kSetBlock, line, {target, filter, body});
  }

  NodeId Macro(int line) {
    Node node = Make(NodeKind::kMacro, line);
    node.name = Identifier("the macro's name");
    if (node.name == 0 || !ExpectOp("(")) return kNoNode;
    while (!IsOp(")")) {
      if (!node.params.empty() && !ExpectOp(",")) return kNoNode;
      const NameId param = Identifier("a parameter");
      if (param == 0) return kNoNode;
      if (std::find(node.params.begin(), node.params.end(), param) != node.params.end()) {
        return Fail("parameter '" + ast_->names[param] + "' occurs twice");
      }
      node.params.push_back(param);
      if (EatOp("=")) {
        const NodeId value = Expression();
        if (value == kNoNode) return kNoNode;
        node.kids.push_back(value);
      } else if (!node.kids.empty()) {
        return Fail("parameter '" + ast_->names[param] + "' without default follows one with a default");
      }
    }
    Next();
    // A loop around the macro is not a loop of its body.
    const int loops = std::exchange(loops_, 0);
    const NodeId body = LastBody("macro", line, "endmacro");
    loops_ = loops;
    if (body == kNoNode) return kNoNode;
    node.kids.push_back(body);
    return Add(std::move(node));
  }

  NodeId FilterBlock(int line) {
    NodeId filter = Filter(Add(NodeKind::kCaptured, line, {}));
    if (filter != kNoNode) filter = Filters(filter);
    if (filter == kNoNode) return kNoNode;
    const NodeId body = LastBody("filter", line, "endfilter");
    if (body == kNoNode) return kNoNode;
    return Add(NodeKind::kFilterBlock, line, {filter, body});
  }

  NodeId With(int line) {
    Node node = Make(NodeKind::kWith, line);
    while (Current().kind != TokenKind::kBlockEnd) {
      if (!node.kids.empty() && !ExpectOp(",")) return kNoNode;
      const NodeId target = Target(false);
      if (target == kNoNode || !ExpectOp("=")) return kNoNode;
      const NodeId value = Expression();
      if (value == kNoNode) return kNoNode;
      node.kids.push_back(target);
      node.kids.push_back(value);
    }
    const NodeId body = LastBody("with", line, "endwith");
    if (body == kNoNode) return kNoNode;
    node.kids.push_back(body);
    return Add(std::move(node));
  }

  // What `set` and `for` store to: a name, names separated by commas (in parentheses or not), or
  // variable.attribute.
  NodeId Target(bool allow_attribute) {
    const int line = Current().line;
    const bool parenthesis = EatOp("(");
    std::vector<NodeId> items;
    bool tuple = false;
    for (;;) {
      Node name = Make(NodeKind::kName, Current().line);
      if (Current().kind == TokenKind::kName && IsReserved(Current().text)) {
        return Fail("cannot assign to '" + Current().text + "'");
      }
      name.name = Identifier("a variable");
      if (name.name == 0) return kNoNode;
      if (allow_attribute && EatOp(".")) {
        name.kind = NodeKind::kNamespaceTarget;
        name.params.push_back(Identifier("an attribute"));
        if (name.params[0] == 0) return kNoNode;
      }
      items.push_back(Add(std::move(name)));
      if (items.back() == kNoNode) return kNoNode;
      if (!EatOp(",")) break;
      tuple = true;
      if (Current().kind != TokenKind::kName) break;
    }
    if (parenthesis && !ExpectOp(")")) return kNoNode;
    if (!tuple) return items[0];
    return Add(NodeKind::kTuple, line, std::move(items));
  }

  static bool IsReserved(std::string_view name) {
    static constexpr std::string_view kWords[] = {"true", "false", "none", "True", "False", "None", "and",
                                                  "or",   "not",   "in",   "is",   "if",    "else", "loop"};
    return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
  }

  // ---- Expressions ----

  // One expression, or a tuple written without parentheses. `conditional` allows "a if b else c" (a loop's
  // iterable does not take it: its "if" filters).
  NodeId TupleOrExpression(bool conditional) {
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
  bool EndsTuple() const {
    return Current().kind == TokenKind::kBlockEnd || Current().kind == TokenKind::kVariableEnd || IsOp(")");
  }

  NodeId Expression() {
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

  NodeId Or() {
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

  NodeId And() {
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

  NodeId Not() {
    if (!IsName("not")) return Compare();
    const int line = Current().line;
    Next();
    Depth depth(this);
    if (!depth.ok()) return kNoNode;
    const NodeId operand = Not();
    return operand == kNoNode ? kNoNode : Add(NodeKind::kNot, line, {operand});
  }

  NodeId Compare() {
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

  // Binary operators by level, loosest first: + -, ~, * / // %, **; all associate to the left.
  NodeId Binary(int level) {
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

  NodeId Unary(bool with_filters) {
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

  NodeId Primary() {
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

  NodeId Sequence(int line, NodeKind kind, std::string_view close) {
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

  NodeId Postfix(NodeId node) {
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

  NodeId Subscript(NodeId object, int line) {
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

  // The rest of a call after "(": completes `node`, whose first kid is `first`.
  NodeId Arguments(Node node, NodeId first) {
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

  // Filters, tests and calls after a complete operand.
  NodeId Filters(NodeId node) {
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

  NodeId Filter(NodeId input) {
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

  NodeId Test(NodeId input) {
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
  // "x is divisibleby 3": an operand right after the test's name is its argument.
  bool StartsTestArgument() const {
    switch (Current().kind) {
      case TokenKind::kString:
      case TokenKind::kInt:
      case TokenKind::kFloat:
        return true;
      case TokenKind::kName:
        return !IsReserved(Current().text) || IsName("true") || IsName("false") || IsName("none") ||
               IsName("True") || IsName("False") || IsName("None");
      case TokenKind::kOperator:
        return IsOp("[") || IsOp("{");
      default:
        return false;
    }
  }

  std::vector<Token> tokens_;
  TemplateAst* ast_;
  TemplateError* error_;
  size_t pos_ = 0;
  int depth_ = 0;
  int loops_ = 0;
  std::vector<std::string> open_;
  std::vector<int> open_lines_;
};

}  // namespace

bool ParseTemplate(std::string_view source, TemplateAst* ast, TemplateError* error) {
  if (source.size() > kMaxTemplateBytes) {
    error->line = 0;
    error->message = "the template has " + std::to_string(source.size()) + " bytes; the limit is " +
                     std::to_string(kMaxTemplateBytes);
    return false;
  }
  std::vector<Token> tokens;
  if (!LexTemplate(source, &tokens, error)) return false;
  return Parser(std::move(tokens), ast, error).Run();
}

}  // namespace qrt::text
