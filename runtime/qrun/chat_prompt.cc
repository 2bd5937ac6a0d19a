#include "runtime/qrun/chat_prompt.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/qrun/process.h"

namespace qrun {
namespace {

using Tokens = std::vector<int32_t>;

bool StartsWith(const Tokens& tokens, const Tokens& prefix) {
  return prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Tokens From(const Tokens& tokens, size_t begin) {
  return Tokens(tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.end());
}

// What was said earlier, a model's own words too, cannot be refused any more.
std::string WithoutNul(const std::string& said) {
  std::string text;
  for (const char c : said) text.append(c == '\0' ? "\xEF\xBF\xBD" : std::string_view(&c, 1));
  return text;
}

}  // namespace

Outcome CheckPrompt(const std::string& prompt, bool raw) {
  if (prompt.empty()) {
    return Outcome::Fail(kExitInput, 8002, "the prompt is empty", "",
                         "give -p TEXT, -f FILE or text on standard input");
  }
  const size_t nul = raw ? std::string::npos : prompt.find('\0');
  if (nul == std::string::npos) return Outcome();
  return Outcome::Fail(kExitInput, 8005, "the prompt contains a NUL byte", "byte " + std::to_string(nul),
                       "take it out, or use --raw, which passes every byte on");
}

Outcome ChatPrompt::Encode(const std::vector<Turn>& turns, bool open_answer, Tokens* out) const {
  std::vector<std::string> contents;
  for (const Turn& turn : turns) contents.push_back(WithoutNul(turn.content));
  std::vector<qrt_chat_message> messages;
  for (size_t i = 0; i < turns.size(); ++i) {
    messages.push_back({turns[i].role, contents[i].c_str(), nullptr});
  }
  qrt_chat_options options = {};
  options.struct_size = sizeof options;
  options.add_generation_prompt = open_answer;
  options.enable_thinking = !flags_.think ? -1 : *flags_.think == "on";
  options.tools = flags_.tools.empty() ? nullptr : flags_.tools.c_str();
  options.as_written = flags_.as_written;
  options.stop = [](void*) -> int32_t { return Interrupts::Pending(); };
  out->resize(1024);  // enough for most conversations, otherwise a first guess
  for (;;) {
    size_t count = 0;
    qrt_error error = NewError();
    const qrt_status status = qrt_text_encode_chat(text_, messages.data(), messages.size(), &options,
                                                   out->data(), out->size(), &count, &error);
    if (status == QRT_CANCELLED) return Outcome::Silent(kExitInterrupted);
    if (status != QRT_OK && status != QRT_BUFFER_TOO_SMALL) return Outcome::Of(error);
    out->resize(count);
    if (status == QRT_OK) return Outcome();
  }
}

Outcome ChatPrompt::Render(const std::vector<Turn>& turns, Past* past, Tokens* all) const {
  QRUN_RETURN_IF_ERROR(Encode(turns, true, all));
  QRUN_RETURN_IF_ERROR(Encode(turns, false, &past->rendered));
  past->known = StartsWith(*all, past->rendered);
  if (past->known) past->opening = From(*all, past->rendered.size());
  return Outcome();
}

std::string ChatPrompt::TextOf(const int32_t* begin, const int32_t* end) const {
  std::string text;
  for (; begin != end; ++begin) {
    size_t size = 0;
    const char* bytes = qrt_text_token_bytes(text_, *begin, &size);
    text.append(bytes, size);
  }
  return text;
}

std::optional<size_t> ChatPrompt::EndOfAnswer(const Tokens& tail) const {
  // The session must hold the answer that is in the conversation, and no more (of a stop text, say).
  const Tokens& sequence = past_.sequence;
  size_t first = sequence.size();
  for (size_t bytes = 0; bytes < past_.answer.size() && first > 0;) {
    size_t size = 0;
    qrt_text_token_bytes(text_, sequence[--first], &size);
    if (!qrt_text_is_special(text_, sequence[first])) bytes += size;
  }
  Tokens said(sequence.begin() + static_cast<ptrdiff_t>(first), sequence.end());
  std::erase_if(said, [&](int32_t token) { return qrt_text_is_special(text_, token) != 0; });
  if (sequence.empty() || !EndsWith(TextOf(said.data(), said.data() + said.size()), past_.answer)) return {};
  // What the template puts behind it begins with a token that ends a turn.
  const auto end = std::find_if(tail.begin(), tail.end(),
                                [&](int32_t token) { return qrt_text_is_end(text_, token) != 0; });
  if (end == tail.end()) return {};
  const size_t size = static_cast<size_t>(end - tail.begin());
  const std::string shown = TextOf(tail.data(), tail.data() + size);
  if (!EndsWith(shown, past_.answer)) return {};
  const std::string opening = TextOf(past_.opening.data(), past_.opening.data() + past_.opening.size());
  if (opening.rfind(shown.substr(0, shown.size() - past_.answer.size()), 0) != 0) return {};
  return size;
}

Outcome ChatPrompt::Make(const std::vector<Turn>& turns, Prompt* out) {
  next_ = Past();
  *out = Prompt();
  QRUN_RETURN_IF_ERROR(Render(turns, &next_, &out->tokens));
  if (past_.known && StartsWith(out->tokens, past_.rendered)) {
    Tokens tail = From(out->tokens, past_.rendered.size());
    const std::optional<size_t> end = EndOfAnswer(tail);
    if (end) tail = From(tail, *end);
    out->tokens = end ? past_.sequence : past_.fed;
    out->tokens.insert(out->tokens.end(), tail.begin(), tail.end());
  }
  if (!next_.known || out->tokens.size() < next_.opening.size()) return Outcome();
  out->keep = out->tokens.size() - next_.opening.size();
  next_.fed.assign(out->tokens.begin(), out->tokens.begin() + static_cast<ptrdiff_t>(out->keep));
  return Outcome();
}

void ChatPrompt::Answered(std::string text, Tokens sequence) {
  past_ = next_;
  past_.answer = std::move(text);
  past_.sequence = std::move(sequence);
}

Outcome ChatPrompt::Load(const std::vector<Turn>& turns, Tokens sequence) {
  Clear();
  if (turns.empty() || std::string_view(turns.back().role) != "assistant") return Outcome();
  Tokens all;
  QRUN_RETURN_IF_ERROR(Render(std::vector<Turn>(turns.begin(), turns.end() - 1), &next_, &all));
  next_.fed = next_.rendered;
  Answered(turns.back().content, std::move(sequence));
  return Outcome();
}

}  // namespace qrun
