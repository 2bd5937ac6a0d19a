// The text handle, and conversations as callers give them.
#ifndef RUNTIME_CAPI_TEXT_H_
#define RUNTIME_CAPI_TEXT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/capi/handles.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/conversation.h"
#include "runtime/text/tokenizer.h"

struct qrt_text {
  qrt_text(const qrt::capi::Services& services, qrt_artifact* artifact, qrt::text::Tokenizer tokenizer)
      : services(services), artifact(artifact), tokenizer(std::move(tokenizer)) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  const qrt::capi::Ref<qrt_artifact> artifact;
  const qrt::text::Tokenizer tokenizer;
  // A template that does not parse is no reason to refuse tokenizing: rendering reports it.
  std::optional<qrt::Result<qrt::text::ChatTemplate>> chat_template;
};

namespace qrt::capi {

// The arguments of a chat call as the template takes them. Errors: as of qrt_text_encode_chat, but those of
// rendering.
Status ReadChat(const qrt_text& text, const qrt_chat_message* messages, size_t count,
                const qrt_chat_options* options, text::Chat* chat);

// The end of every call that fills a caller's array.
template <typename T>
Status FillArray(const T* values, size_t count, T* out, size_t capacity, size_t* needed) {
  if (needed != nullptr) *needed = count;
  if (capacity < count) {
    return Status(
        Code::kBufferTooSmall, 5312,
        "the array holds " + std::to_string(capacity) + ", " + std::to_string(count) + " are needed");
  }
  if (count != 0) std::copy_n(values, count, out);
  return Status();
}

inline Status CheckArray(const void* out, size_t capacity) {
  return out == nullptr && capacity != 0 ? NullArgument("the output array") : Status();
}

}  // namespace qrt::capi

#endif  // RUNTIME_CAPI_TEXT_H_
