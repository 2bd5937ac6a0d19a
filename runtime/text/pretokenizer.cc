#include "runtime/text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>
#include <utility>

#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

// Written as a class: PCRE2's \s is not White_Space (it takes U+180E).
#define QRT_SPACE R"(\t-\r\x{85}\p{Z})"
// Spelled out: caseless matching under UTF would also take U+017F for "s".
#define QRT_CONTRACTION R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))"

constexpr char kQwen2[] = QRT_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                          "| ?[^" QRT_SPACE R"(\p{L}\p{N}]+[\r\n]*)"
                                          "|[" QRT_SPACE R"(]*[\r\n]+)"
                                          "|[" QRT_SPACE "]+(?![^" QRT_SPACE
                                          "])"
                                          "|[" QRT_SPACE "]+";

constexpr char kQwen35[] = QRT_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                                           "| ?[^" QRT_SPACE R"(\p{L}\p{M}\p{N}]+[\r\n]*)"
                                           "|[" QRT_SPACE R"(]*[\r\n]+)"
                                           "|[" QRT_SPACE "]+(?![^" QRT_SPACE
                                           "])"
                                           "|[" QRT_SPACE "]+";

#undef QRT_CONTRACTION
#undef QRT_SPACE

// No rule backtracks more than once over a run; only the interpreting matcher counts steps along a run at
// all, about one per character, so this is far above what any text that Tokenizer takes can need.
constexpr uint32_t kMatchLimit = 1u << 30;
constexpr uint32_t kHeapLimitKib = 1u << 20;

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Pretokenizer::Pattern {
  pcre2_code* code = nullptr;
  ~Pattern() {
    pcre2_code_free(code);
    // PCRE2 keeps the pages for its next pattern, and they would stay when a program unloads the library. It
    // takes its own lock; pages of other patterns stay.
    pcre2_jit_free_unused_memory(nullptr);
  }
};

Pretokenizer::Pretokenizer(std::unique_ptr<Pattern> pattern) : pattern_(std::move(pattern)) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::Create(std::string_view name) {
  const char* source = name == "qwen2" ? kQwen2 : name == "qwen35" ? kQwen35 : nullptr;
  if (source == nullptr) {
    return Status(
        Code::kArtifactIncompatible, 7101,
        "unknown pre-tokenizer '" + std::string(name.substr(0, 100)) + "', expected 'qwen2' or 'qwen35'", "",
        "use a newer version of this runtime");
  }
  auto pattern = std::make_unique<Pattern>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  pattern->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source), PCRE2_ZERO_TERMINATED,
                                PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (pattern->code == nullptr) {
    return Status(Code::kInternal, 7102,
                  "the pre-tokenizer does not compile: " + ErrorText(error) + " at " + std::to_string(offset),
                  "", "this build of PCRE2 lacks Unicode support");
  }
  // Anchored here and not per match: the machine code knows no anchored matching of other patterns. Where
  // compiling to machine code is not possible (no executable memory), matching works without, slower.
  (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
  return Pretokenizer(std::move(pattern));
}

Status Pretokenizer::Split(std::string_view text, const std::function<void(std::string_view)>& emit) const {
  struct Scratch {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    ~Scratch() {
      pcre2_match_data_free(data);
      pcre2_match_context_free(context);
    }
  } scratch;
  if (scratch.data == nullptr || scratch.context == nullptr) {
    return Status(Code::kOutOfMemory, 7103, "no memory for matching the pre-tokenizer");
  }
  pcre2_set_match_limit(scratch.context, kMatchLimit);
  pcre2_set_heap_limit(scratch.context, kHeapLimitKib);
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.data);

  for (size_t begin = 0; begin < text.size();) {
    // The longest well-formed stretch; only that may go to a matcher that skips its own UTF-8 check (which
    // would otherwise read the whole rest of the text again for every piece).
    size_t end = begin;
    while (end < text.size()) {
      const size_t n = Utf8SequenceLength(text, end);
      if (n == 0) break;
      end += n;
    }
    const std::string_view valid = text.substr(begin, end - begin);
    for (size_t pos = 0; pos < valid.size();) {
      const int rc = pcre2_match(pattern_->code, reinterpret_cast<PCRE2_SPTR>(valid.data()), valid.size(),
                                 pos, PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
      size_t next = range[1];
      if (rc == PCRE2_ERROR_NOMATCH || (rc > 0 && next <= pos)) {
        // Every character is in some alternative; if tables ever disagree, keep it as a piece and go on.
        next = NextChar(valid, pos);
      } else if (rc < 0) {
        return Status(Code::kInternal, 7103, "the pre-tokenizer stopped: " + ErrorText(rc),
                      "byte " + std::to_string(begin + pos) + " of the text");
      }
      emit(valid.substr(pos, next - pos));
      pos = next;
    }
    if (end < text.size()) {
      emit(text.substr(end, 1));
      ++end;
    }
    begin = end;
  }
  return Status();
}

}  // namespace qrt::text
