#include "runtime/text/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/template_expression_parser.h"
#include "runtime/text/template_lexer.h"

namespace qrt::text {
namespace {

class Parser : public ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, TemplateAst* ast, TemplateError* error)
      : ExpressionParser(std::move(tokens), ast, error) {}

  bool Run() {
    ast_->root = Statements({});
    return ast_->root != kNoNode;
  }

 private:
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
    if (word == "call") return CallBlock(line);
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
    if (node.name == 0 || !ExpectOp("(") || !Parameters(&node)) return kNoNode;
    const NodeId body = MacroBody("macro", line, "endmacro");
    if (body == kNoNode) return kNoNode;
    node.kids.push_back(body);
    return Add(std::move(node));
  }

  // A call whose macro may print the body by caller().
  NodeId CallBlock(int line) {
    Node node = Make(NodeKind::kMacro, line);
    node.name = ast_->Intern("caller");
    if (EatOp("(") && !Parameters(&node)) return kNoNode;
    const NodeId call = Expression();
    if (call == kNoNode) return kNoNode;
    if (ast_->nodes[static_cast<size_t>(call)].kind != NodeKind::kCall) {
      return FailAt(line, "'call' needs a call of a macro");
    }
    const NodeId body = MacroBody("call", line, "endcall");
    if (body == kNoNode) return kNoNode;
    node.kids.push_back(body);
    const NodeId macro = Add(std::move(node));
    return macro == kNoNode ? kNoNode : Add(NodeKind::kCallBlock, line, {call, macro});
  }

  // A loop around the macro is not a loop of its body.
  NodeId MacroBody(const std::string& tag, int line, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const NodeId body = LastBody(tag, line, end);
    loops_ = loops;
    return body;
  }

  // Up to the closing parenthesis; adds their names and the defaults of the last ones.
  bool Parameters(Node* parameters) {
    Node& node = *parameters;
    while (!IsOp(")")) {
      if (!node.params.empty() && !ExpectOp(",")) return false;
      const NameId param = Identifier("a parameter");
      if (param == 0) return false;
      if (std::find(node.params.begin(), node.params.end(), param) != node.params.end()) {
        return Fail("parameter '" + ast_->names[param] + "' occurs twice") != kNoNode;
      }
      node.params.push_back(param);
      if (EatOp("=")) {
        const NodeId value = Expression();
        if (value == kNoNode) return false;
        node.kids.push_back(value);
      } else if (!node.kids.empty()) {
        return Fail("parameter '" + ast_->names[param] + "' without default follows one with a default") !=
               kNoNode;
      }
    }
    Next();
    return true;
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

  // What `set` and `for` store to: a name, variable.attribute, or several of these separated by commas, some
  // of them in parentheses.
  NodeId Target(bool allow_attribute) {
    Depth depth(this);
    if (!depth.ok()) return kNoNode;
    const int line = Current().line;
    std::vector<NodeId> items;
    bool tuple = false;
    for (;;) {
      items.push_back(OneTarget(allow_attribute));
      if (items.back() == kNoNode) return kNoNode;
      if (!EatOp(",")) break;
      tuple = true;
      if (Current().kind != TokenKind::kName && !IsOp("(")) break;
    }
    if (!tuple) return items[0];
    return Add(NodeKind::kTuple, line, std::move(items));
  }

  NodeId OneTarget(bool allow_attribute) {
    if (EatOp("(")) {
      const NodeId inner = Target(allow_attribute);
      return inner == kNoNode || !ExpectOp(")") ? kNoNode : inner;
    }
    if (Current().kind == TokenKind::kName && IsReserved(Current().text))
      return Fail("cannot assign to '" + Current().text + "'");
    Node name = Make(NodeKind::kName, Current().line);
    name.name = Identifier("a variable");
    if (name.name == 0) return kNoNode;
    if (allow_attribute && EatOp(".")) {
      name.kind = NodeKind::kNamespaceTarget;
      name.params.push_back(Identifier("an attribute"));
      if (name.params[0] == 0) return kNoNode;
    }
    return Add(std::move(name));
  }

  int loops_ = 0;
  // The statements around the current token, with the lines they begin on.
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
