#include "runtime/text/chat_prompt.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

// The noncharacters U+FDD0 to U+FDEF, in UTF-8: these two bytes and one of 0x90 to 0xAF.
constexpr std::string_view kMarkLead = "\xEF\xB7";
constexpr unsigned char kFirstMark = 0x90;
constexpr size_t kMarks = 32;
using MarkSet = std::bitset<kMarks>;

void CollectMarks(std::string_view text, MarkSet* used) {
  for (size_t at = text.find(kMarkLead); at != text.npos; at = text.find(kMarkLead, at + 1)) {
    if (at + 2 == text.size()) return;
    const size_t mark = size_t{static_cast<unsigned char>(text[at + 2])} - kFirstMark;
    if (mark < kMarks) used->set(mark);
  }
}

// A copy of `value` with every string in it, keys too, put through `change`. Values are not nested deeper
// than Value::kMaxNesting: rendering them has been refused otherwise.
Value ChangeStrings(const Value& value, const std::function<std::string(const std::string&)>& change) {
  switch (value.kind()) {
    case Value::Kind::kString:
      return Value(change(value.as_string()));
    case Value::Kind::kList: {
      std::vector<Value> items;
      for (const Value& item : value.as_list().items) items.push_back(ChangeStrings(item, change));
      return Value::MakeList(std::move(items), value.as_list().tuple);
    }
    case Value::Kind::kMap: {
      std::vector<Value::Entry> entries;
      for (const auto& [key, item] : value.as_map().entries) {
        entries.emplace_back(change(key), ChangeStrings(item, change));
      }
      return Value::MakeMap(std::move(entries));
    }
    default:
      return value;
  }
}

// What did not come from the template or the program.
struct Foreign {
  std::vector<ChatMessage> messages;
  Value tools;
};

Foreign ChangeForeign(std::span<const ChatMessage> messages, const Value& tools,
                      const std::function<std::string(const std::string&)>& change) {
  Foreign changed;
  for (const ChatMessage& message : messages) {
    ChatMessage turn{change(message.role), ChangeStrings(message.content, change), {}};
    for (const auto& [name, value] : message.extra)
      turn.extra.emplace_back(name, ChangeStrings(value, change));
    changed.messages.push_back(std::move(turn));
  }
  changed.tools = ChangeStrings(tools, change);
  return changed;
}

// `text` with `mark` behind the first character of every control token in it (Tokenizer::FindControl).
std::string AddMarks(const Tokenizer& tokenizer, const std::string& text, std::string_view mark) {
  std::string marked;
  size_t done = 0;
  for (const size_t pos : tokenizer.FindControl(text)) {
    if (pos < done) continue;  // inside a character that is marked already
    const size_t end = NextChar(text, pos);
    marked.append(text, done, end - done).append(mark);
    done = end;
  }
  return marked.append(text, done);
}

// Takes the marks out of `marked`; *as_text: the bytes, in the text without marks, of the characters before
// them.
std::string RemoveMarks(std::string_view marked, std::string_view mark, std::vector<size_t>* as_text) {
  std::string text;
  size_t done = 0;
  for (size_t at = marked.find(mark); at != marked.npos; at = marked.find(mark, done)) {
    text.append(marked, done, at - done);
    done = at + mark.size();
    size_t length = std::min<size_t>(4, text.size());
    while (length > 1 && Utf8SequenceLength(text, text.size() - length) != length) --length;
    for (size_t i = text.size() - length; i < text.size(); ++i) {
      if (as_text->empty() || as_text->back() < i) as_text->push_back(i);
    }
  }
  return text.append(marked, done);
}

}  // namespace

Result<std::vector<int32_t>> EncodeChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                        std::span<const ChatMessage> messages, const ChatOptions& options,
                                        bool normalize) {
  const Result<std::string> text = chat_template.Render(messages, options);
  if (!text.ok()) return text.status();

  // A first walk that only looks.
  bool control = false;
  MarkSet used;
  ChangeForeign(messages, options.tools, [&](const std::string& string) {
    control = control || !tokenizer.FindControl(string).empty();
    CollectMarks(string, &used);
    return std::string();
  });
  std::vector<size_t> as_text;
  if (control) {
    CollectMarks(*text, &used);
    if (used.all()) {
      return Status(Code::kInvalidArgument, 7004,
                    "control tokens are written in the messages, and no noncharacter is left to mark them",
                    "", "leave out the noncharacters U+FDD0 to U+FDEF");
    }
    size_t free = 0;
    while (used[free]) ++free;
    std::string mark(kMarkLead);
    mark.push_back(static_cast<char>(kFirstMark + free));

    Foreign foreign = ChangeForeign(messages, options.tools, [&](const std::string& string) {
      return AddMarks(tokenizer, string, mark);
    });
    ChatOptions marked_options = options;
    marked_options.tools = std::move(foreign.tools);
    const Result<std::string> marked = chat_template.Render(foreign.messages, marked_options);
    if (marked.status().code() == Code::kCancelled) return marked.status();
    if (!marked.ok() || RemoveMarks(*marked, mark, &as_text) != *text) {
      return Status(Code::kTemplateError, 7003,
                    "control tokens are written in the messages, and the template does not pass them through",
                    "chat template", "leave the control tokens out of the messages");
    }
  }
  std::vector<int32_t> ids;
  const Status status = tokenizer.Encode(*text, true, &ids, as_text, normalize);
  if (!status.ok()) return status;
  return ids;
}

}  // namespace qrt::text
