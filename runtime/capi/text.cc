// qrt_text_*.
#include <algorithm>
#include <ctime>

#include "runtime/capi/handles.h"
#include "runtime/capi/text.h"
#include "runtime/text/chat_prompt.h"
#include "runtime/text/json.h"
#include "runtime/text/tokenizer.h"

using qrt::Code;
using qrt::Result;
using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;
using qrt::capi::Ref;

namespace qrt::capi {
namespace {

Status Create(qrt_artifact* artifact, qrt_text** out) {
  if (artifact == nullptr) return NullArgument("artifact");
  if (out == nullptr) return NullArgument("out");
  const Artifact& file = *artifact->artifact;
  const std::optional<TokenizerInfo>& info = file.manifest().tokenizer;
  if (!info || !file.tokenizer()) {
    return Status(Code::kUnavailable, 5330, "the artifact carries no tokenizer", file.path(),
                  "give token ids, or compile from a GGUF with a vocabulary");
  }
  Result<text::Tokenizer> tokenizer =
      text::Tokenizer::Create(*file.tokenizer(), info->pre, info->eog, info->nfc);
  if (!tokenizer.ok()) return tokenizer.status();
  Owned<qrt_text> handle(NewHandle<qrt_text>(artifact->services, artifact, std::move(*tokenizer)));
  if (file.chat_template()) handle->chat_template.emplace(text::ChatTemplate::Parse(*file.chat_template()));
  *out = handle.release();
  return Status();
}

constexpr int64_t kLastSecond = 253402300799;  // of the year 9999

Status BadJson(const std::string& what, const std::string& why) {
  return Status(Code::kInvalidArgument, 7005, what + " cannot be read: " + why, "",
                "pass JSON as qrt_chat_options says");
}

Status ReadJson(const char* json, const std::string& what, text::Value* out) {
  std::string why;
  return text::ParseJson(json, out, &why) ? Status() : BadJson(what, why);
}

// The members of `json` beside those that the message has by itself.
Status ReadFields(const char* json, size_t index, text::ChatMessage* turn) {
  const std::string what = "fields of message " + std::to_string(index);
  text::Value fields;
  QRT_RETURN_IF_ERROR(ReadJson(json, what, &fields));
  if (!fields.is_map()) return BadJson(what, "it is no object");
  for (const auto& [name, value] : fields.as_map().entries) {
    const bool twice =
        name == "role" || (name == "content" && !turn->content.is_undefined()) ||
        (name == "reasoning_content" && !turn->extra.empty() && turn->extra.front().first == name);
    if (twice) return BadJson(what, "\"" + name + "\" is given in the message itself");
    if (name == "content") {
      turn->content = value;
    } else {
      turn->extra.emplace_back(name, value);
    }
  }
  return Status();
}

}  // namespace

Status ReadChat(const qrt_text& text, const qrt_chat_message* messages, size_t count,
                const qrt_chat_options* options, text::Chat* chat) {
  if (messages == nullptr && count != 0) return NullArgument("messages");
  qrt_chat_options read = {};
  read.add_generation_prompt = 1;
  read.enable_thinking = -1;
  QRT_RETURN_IF_ERROR(ReadOptions(options, offsetof(qrt_chat_options, stop), "options", &read));
  const Artifact& file = *text.artifact->artifact;
  if (!text.chat_template) {
    return Status(Code::kUnavailable, 5331, "the artifact carries no chat template", file.path());
  }
  if (!text.chat_template->ok()) return text.chat_template->status();
  chat->chat_template = &**text.chat_template;
  for (size_t i = 0; i < count; ++i) {
    if (messages[i].role == nullptr) return NullArgument("messages[].role");
    text::ChatMessage turn;
    turn.role = messages[i].role;
    if (messages[i].content != nullptr) turn.content = messages[i].content;
    if (messages[i].reasoning != nullptr) turn.extra.emplace_back("reasoning_content", messages[i].reasoning);
    if (read.fields != nullptr && read.fields[i] != nullptr) {
      QRT_RETURN_IF_ERROR(ReadFields(read.fields[i], i, &turn));
    }
    chat->turns.push_back(std::move(turn));
  }
  chat->normalize = read.as_written == 0;
  text::ChatOptions& made = chat->options;
  made.now = read.now != 0 ? read.now : std::max<int64_t>(std::time(nullptr), 0);
  if (*made.now < 0 || *made.now > kLastSecond) {
    return Status(Code::kInvalidArgument, 5305,
                  "now is " + std::to_string(*made.now) + ", expected 0 to " + std::to_string(kLastSecond));
  }
  if (read.tools != nullptr) {
    QRT_RETURN_IF_ERROR(ReadJson(read.tools, "tools", &made.tools));
    if (!made.tools.is_list()) return BadJson("tools", "it is no array");
  }
  const struct {
    const char* name;
    int64_t value, least;
  } flags[] = {{"add_generation_prompt", read.add_generation_prompt, 0},
               {"enable_thinking", read.enable_thinking, -1},
               {"as_written", read.as_written, 0}};
  for (const auto& [name, value, least] : flags) {
    if (value >= least && value <= 1) continue;
    return Status(
        Code::kInvalidArgument, 5305,
        std::string(name) + " is " + std::to_string(value) + ", expected " + std::to_string(least) + " to 1");
  }
  made.add_generation_prompt = read.add_generation_prompt != 0;
  if (read.enable_thinking >= 0) made.enable_thinking = read.enable_thinking != 0;
  if (read.stop != nullptr) {
    made.limits.stop = [stop = read.stop, ctx = read.stop_ctx] { return stop(ctx) != 0; };
  }
  const TokenizerInfo& tokens = *file.manifest().tokenizer;
  if (tokens.bos >= 0) made.variables.emplace_back("bos_token", text.tokenizer.TokenBytes(tokens.bos));
  if (tokens.eos >= 0) made.variables.emplace_back("eos_token", text.tokenizer.TokenBytes(tokens.eos));
  return Status();
}

namespace {

Status RenderChat(const qrt_text& text, const qrt_chat_message* messages, size_t count,
                  const qrt_chat_options* options, char* out, size_t capacity, size_t* length) {
  QRT_RETURN_IF_ERROR(CheckArray(out, capacity));
  text::Chat chat;
  QRT_RETURN_IF_ERROR(ReadChat(text, messages, count, options, &chat));
  const Result<std::string> prompt = chat.chat_template->Render(chat.turns, chat.options);
  if (!prompt.ok()) return prompt.status();
  return FillArray((*prompt).data(), (*prompt).size(), out, capacity, length);
}

Status EncodeChat(const qrt_text& text, const qrt_chat_message* messages, size_t count,
                  const qrt_chat_options* options, int32_t* tokens, size_t capacity, size_t* needed) {
  QRT_RETURN_IF_ERROR(CheckArray(tokens, capacity));
  text::Chat chat;
  QRT_RETURN_IF_ERROR(ReadChat(text, messages, count, options, &chat));
  const Result<std::vector<int32_t>> ids =
      text::EncodeChat(*chat.chat_template, text.tokenizer, chat.turns, chat.options, chat.normalize);
  if (!ids.ok()) return ids.status();
  return FillArray((*ids).data(), (*ids).size(), tokens, capacity, needed);
}

}  // namespace
}  // namespace qrt::capi

extern "C" {

qrt_status qrt_text_create(qrt_artifact* artifact, qrt_text** out, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Create(artifact, out); });
}

void qrt_text_release(qrt_text* text) {
  Ref<qrt_text>::Drop(text);
}

qrt_status qrt_text_tokenize(const qrt_text* text, const char* utf8, size_t length, uint32_t flags,
                             int32_t* tokens, size_t capacity, size_t* count, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (text == nullptr) return NullArgument("text");
    if (utf8 == nullptr && length != 0) return NullArgument("utf8");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckArray(tokens, capacity));
    if ((flags & ~uint32_t{QRT_TOKENIZE_SPECIAL | QRT_TOKENIZE_AS_WRITTEN}) != 0) {
      return Status(Code::kInvalidArgument, 5305, "flags " + std::to_string(flags) + " hold an unknown bit");
    }
    std::vector<int32_t> ids;
    QRT_RETURN_IF_ERROR(text->tokenizer.Encode({utf8 != nullptr ? utf8 : "", length},
                                               (flags & QRT_TOKENIZE_SPECIAL) != 0, &ids, {},
                                               (flags & QRT_TOKENIZE_AS_WRITTEN) == 0));
    return qrt::capi::FillArray(ids.data(), ids.size(), tokens, capacity, count);
  });
}

const char* qrt_text_token_bytes(const qrt_text* text, int32_t token, size_t* length) {
  const std::string_view bytes = text != nullptr ? text->tokenizer.TokenBytes(token) : std::string_view();
  if (length != nullptr) *length = bytes.size();
  return bytes.empty() ? "" : bytes.data();
}

qrt_status qrt_text_detokenize(const qrt_text* text, const int32_t* tokens, size_t count, char* bytes,
                               size_t capacity, size_t* length, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (text == nullptr) return NullArgument("text");
    if (tokens == nullptr && count != 0) return NullArgument("tokens");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckArray(bytes, capacity));
    std::string all;
    QRT_RETURN_IF_ERROR(text->tokenizer.Decode({tokens, count}, &all));
    return qrt::capi::FillArray(all.data(), all.size(), bytes, capacity, length);
  });
}

int32_t qrt_text_is_end(const qrt_text* text, int32_t token) {
  return text != nullptr && text->tokenizer.IsEog(token);
}

qrt_status qrt_text_end_tokens(const qrt_text* text, int32_t* tokens, size_t capacity, size_t* count,
                               qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (text == nullptr) return NullArgument("text");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckArray(tokens, capacity));
    const std::vector<int32_t> ids(text->tokenizer.eog().begin(), text->tokenizer.eog().end());
    return qrt::capi::FillArray(ids.data(), ids.size(), tokens, capacity, count);
  });
}

int32_t qrt_text_is_special(const qrt_text* text, int32_t token) {
  return text != nullptr && text->tokenizer.IsControl(token);
}

int32_t qrt_text_begin_token(const qrt_text* text) {
  if (text == nullptr) return -1;
  const qrt::TokenizerInfo& info = *text->artifact->artifact->manifest().tokenizer;
  return info.add_bos ? info.bos : -1;
}

qrt_status qrt_text_render_chat(const qrt_text* text, const qrt_chat_message* messages, size_t count,
                                const qrt_chat_options* options, char* out, size_t capacity, size_t* length,
                                qrt_error* error) {
  return Guard(error, [&] {
    return text == nullptr ? NullArgument("text")
                           : qrt::capi::RenderChat(*text, messages, count, options, out, capacity, length);
  });
}

qrt_status qrt_text_encode_chat(const qrt_text* text, const qrt_chat_message* messages, size_t message_count,
                                const qrt_chat_options* options, int32_t* tokens, size_t capacity,
                                size_t* count, qrt_error* error) {
  return Guard(error, [&] {
    return text == nullptr
               ? NullArgument("text")
               : qrt::capi::EncodeChat(*text, messages, message_count, options, tokens, capacity, count);
  });
}

}  // extern "C"
