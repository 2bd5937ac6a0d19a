#include "runtime/text/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

using Tokens = std::vector<int32_t>;

// Of a stop text, which is a few words; each costs a look at the whole answer.
constexpr size_t kMostStopTokens = 64;

bool StartsWith(const Tokens& tokens, const Tokens& prefix) {
  return prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Whether the first `size` of the tokens end so.
bool EndsWith(const Tokens& tokens, size_t size, const Tokens& end) {
  return size >= end.size() &&
         std::equal(end.begin(), end.end(), tokens.begin() + static_cast<ptrdiff_t>(size - end.size()));
}

Tokens From(const Tokens& tokens, size_t begin) {
  return Tokens(tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.end());
}

}  // namespace

Status Conversation::Render(Chat& chat, Past* past, Tokens* all) const {
  for (const bool open : {true, false}) {
    chat.options.add_generation_prompt = open;
    Result<Tokens> tokens =
        EncodeChat(*chat.chat_template, *tokenizer_, chat.turns, chat.options, chat.normalize);
    if (!tokens.ok()) return tokens.status();
    (open ? *all : past->rendered) = std::move(*tokens);
  }
  past->known = StartsWith(*all, past->rendered);
  if (past->known) past->opening = From(*all, past->rendered.size());
  return Status();
}

std::string Conversation::TextOf(const int32_t* begin, const int32_t* end) const {
  std::string text;
  for (; begin != end; ++begin) text += tokenizer_->TokenBytes(*begin);
  return text;
}

std::string Conversation::SaidBehind(const Tokens& sequence, size_t begin) const {
  Tokens said = From(sequence, std::min(begin, sequence.size()));
  std::erase_if(said, [&](int32_t token) { return tokenizer_->IsControl(token); });
  return TextOf(said.data(), said.data() + said.size());
}

std::optional<size_t> Conversation::BeginOfAnswer(const Tokens& sequence, const std::string& answer,
                                                  const Tokens& opening) const {
  size_t first = sequence.size();
  for (size_t bytes = 0; bytes < answer.size() && first > 0;) {
    const int32_t token = sequence[--first];
    if (!tokenizer_->IsControl(token)) bytes += tokenizer_->TokenBytes(token).size();
  }
  // A prompt that was broken off does not end with the answer's opening.
  while (!EndsWith(sequence, first, opening)) {
    if (first == 0 || !tokenizer_->IsControl(sequence[first - 1])) return {};
    --first;
  }
  return first;
}

std::optional<size_t> Conversation::EndOfAnswer(const Tokens& tail) const {
  if (past_.sequence.empty()) return {};
  // What the template puts behind it begins with a token that ends a turn.
  const auto end =
      std::find_if(tail.begin(), tail.end(), [&](int32_t token) { return tokenizer_->IsEog(token); });
  if (end == tail.end()) return {};
  const size_t size = static_cast<size_t>(end - tail.begin());
  const std::string shown = TextOf(tail.data(), tail.data() + size);
  if (!EndsWith(shown, past_.answer)) return {};
  const std::string opening = TextOf(past_.opening.data(), past_.opening.data() + past_.opening.size());
  if (opening.rfind(shown.substr(0, shown.size() - past_.answer.size()), 0) != 0) return {};
  return size;
}

Status Conversation::Make(Chat& chat, Prompt* out) {
  Past next;
  *out = Prompt();
  QRT_RETURN_IF_ERROR(Render(chat, &next, &out->tokens));
  if (past_.known && StartsWith(out->tokens, past_.rendered)) {
    Tokens tail = From(out->tokens, past_.rendered.size());
    const std::optional<size_t> end = EndOfAnswer(tail);
    if (end) tail = From(tail, *end);
    out->tokens = end ? past_.sequence : past_.fed;
    out->tokens.insert(out->tokens.end(), tail.begin(), tail.end());
  }
  next.prompt = out->tokens.size();
  if (next.known && out->tokens.size() >= next.opening.size()) {
    out->keep = out->tokens.size() - next.opening.size();
    next.fed.assign(out->tokens.begin(), out->tokens.begin() + static_cast<ptrdiff_t>(out->keep));
  }
  next_ = std::move(next);  // when nothing can fail any more
  return Status();
}

void Conversation::DropTurnEnds(size_t begin, Tokens* sequence) const {
  while (sequence->size() > begin && tokenizer_->IsControl(sequence->back()) &&
         tokenizer_->IsEog(sequence->back())) {
    sequence->pop_back();
  }
}

void Conversation::Answered(std::string text, Tokens sequence) {
  past_ = Ended(next_, std::move(text), std::move(sequence));
}

void Conversation::WentOn(const std::string& text, Tokens sequence) {
  const size_t before = past_.sequence.size();
  // A prompt that was broken off has no answer yet.
  const bool begins = before == 0 && past_.known && past_.answer.empty();
  if (!begins && before == 0) return Clear();
  if (!StartsWith(sequence, begins ? past_.fed : past_.sequence)) return Clear();
  // What follows the end of a turn is no part of its answer.
  if (!begins && sequence.size() > before && tokenizer_->IsEog(sequence[before])) return Clear();
  // A character that the answer was cut in is told of again, from its begin.
  Utf8Stream stream;
  std::string whole;
  stream.Push(past_.answer, &whole);
  const std::string answer = past_.answer.substr(0, past_.answer.size() - stream.pending());
  past_ = Ended(past_, answer + text, std::move(sequence));
}

Conversation::Past Conversation::Ended(Past past, std::string text, Tokens sequence) const {
  past.answer = std::move(text);
  past.sequence.clear();
  DropTurnEnds(past.prompt, &sequence);
  // What a stop text that ended it put behind it.
  size_t said = SaidBehind(sequence, past.prompt).size();
  const size_t all = sequence.size();
  while (said > past.answer.size() && !tokenizer_->IsControl(sequence.back())) {
    said -= tokenizer_->TokenBytes(sequence.back()).size();
    sequence.pop_back();
  }
  const bool behind_control = sequence.size() < all && sequence.size() > past.prompt &&
                              tokenizer_->IsControl(sequence.back());  // whose was it?
  // The session must hold the answer that is in the conversation, and no more (of a token that holds its end
  // and the begin of a stop text, say).
  if (!behind_control && SaidBehind(sequence, past.prompt) == past.answer)
    past.sequence = std::move(sequence);
  return past;
}

bool Conversation::BeginsSo(const Chat& chat, const Tokens& sequence) const {
  Chat first = chat;
  first.options.add_generation_prompt = false;
  first.turns.erase(std::find_if(first.turns.begin(), first.turns.end(),
                                 [](const ChatMessage& turn) { return turn.role == "assistant"; }),
                    first.turns.end());
  const Result<Tokens> tokens =
      EncodeChat(*first.chat_template, *tokenizer_, first.turns, first.options, first.normalize);
  return tokens.ok() && StartsWith(sequence, *tokens);
}

Status Conversation::Load(Chat& chat, Tokens sequence) {
  Clear();
  if (chat.turns.empty() || chat.turns.back().role != "assistant") return Status();
  const Value said = chat.turns.back().content;
  chat.turns.pop_back();
  if (!said.is_string()) return Status();
  if (!BeginsSo(chat, sequence)) return Status();
  Tokens all;
  QRT_RETURN_IF_ERROR(Render(chat, &next_, &all));
  next_.fed = next_.rendered;
  const std::string& answer = said.as_string();
  DropTurnEnds(0, &sequence);
  std::optional<size_t> begin = BeginOfAnswer(sequence, answer, next_.opening);
  // Behind it there may be a stop text that ended it; no token of the template, nor the turn before.
  const auto is_said = [&] { return begin && SaidBehind(sequence, *begin) == answer; };
  for (size_t cut = 0; cut < kMostStopTokens && !is_said(); ++cut) {
    begin.reset();
    if (sequence.empty() || tokenizer_->IsControl(sequence.back())) break;
    sequence.pop_back();
    begin = BeginOfAnswer(sequence, answer, next_.opening);
  }
  next_.prompt = begin.value_or(0);
  Answered(answer, begin ? std::move(sequence) : Tokens());
  return Status();
}

}  // namespace qrt::text
