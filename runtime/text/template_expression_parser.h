// The tokens of a chat template, read expression by expression.
#ifndef QRT_TEXT_TEMPLATE_EXPRESSION_PARSER_H_
#define QRT_TEXT_TEMPLATE_EXPRESSION_PARSER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template_ast.h"
#include "runtime/text/template_lexer.h"
#include "runtime/text/template_parser.h"

namespace qrt::text {

// A recursive descent over the tokens: each parse function reads from the current token on and leaves behind
// what it has read. The parser of statements builds on it.
class ExpressionParser {
 protected:
  ExpressionParser(std::vector<Token> tokens, TemplateAst* ast, TemplateError* error)
      : ast_(ast), tokens_(std::move(tokens)), error_(error) {}

  // Every parse function returns kNoNode after Fail; kNoNode never stands for success.
  NodeId Fail(const std::string& message) { return FailAt(Current().line, message); }
  NodeId FailAt(int line, const std::string& message);

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

  std::string Describe(const Token& token) const;
  bool ExpectOp(std::string_view op);
  bool ExpectName(std::string_view name);
  bool ExpectBlockEnd();
  // An identifier that may be stored to; 0 after an error.
  NameId Identifier(const char* what);

  NodeId Add(Node node);
  Node Make(NodeKind kind, int line) {
    Node node;
    node.kind = kind;
    node.line = line;
    return node;
  }
  NodeId Add(NodeKind kind, int line, std::vector<NodeId> kids, Op op = Op::kAdd);
  NodeId AddConst(int line, Value value);

  // Bounds the recursion of the parser itself.
  class Depth {
   public:
    explicit Depth(ExpressionParser* parser) : parser_(parser) { ++parser_->depth_; }
    ~Depth() { --parser_->depth_; }
    bool ok() const {
      if (parser_->depth_ <= kMaxTemplateDepth) return true;
      parser_->Fail("nested deeper than the limit of " + std::to_string(kMaxTemplateDepth) + " levels");
      return false;
    }

   private:
    ExpressionParser* parser_;
  };

  // A word that no variable may be named.
  static bool IsReserved(std::string_view name);

  // One expression, or a tuple written without parentheses. `conditional` allows "a if b else c" (a loop's
  // iterable does not take it: its "if" filters).
  NodeId TupleOrExpression(bool conditional);
  NodeId Expression();
  // Filters, tests and calls after a complete operand.
  NodeId Filters(NodeId node);
  NodeId Filter(NodeId input);

  TemplateAst* ast_;

 private:
  bool EndsTuple() const;
  NodeId Or();
  NodeId And();
  NodeId Not();
  NodeId Compare();
  // Binary operators by level, loosest first: + -, ~, * / // %, **; all associate to the left.
  NodeId Binary(int level);
  NodeId Unary(bool with_filters);
  NodeId Primary();
  NodeId Sequence(int line, NodeKind kind, std::string_view close);
  NodeId Postfix(NodeId node);
  NodeId Subscript(NodeId object, int line);
  // The rest of a call after "(": completes `node`, whose first kid is `first`.
  NodeId Arguments(Node node, NodeId first);
  NodeId Test(NodeId input);
  // "x is divisibleby 3": an operand right after the test's name is its argument.
  bool StartsTestArgument() const;

  std::vector<Token> tokens_;
  TemplateError* error_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_EXPRESSION_PARSER_H_
