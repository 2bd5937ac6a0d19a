#include "runtime/qrun/chat_prompt.h"

#include <string_view>

#include "runtime/qrun/process.h"

namespace qrun {
namespace {

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

qrt_chat_options TemplateFlags::Options() const {
  qrt_chat_options options = {};
  options.struct_size = sizeof options;
  options.add_generation_prompt = 1;
  options.enable_thinking = !think ? -1 : *think == "on";
  options.tools = tools.empty() ? nullptr : tools.c_str();
  options.as_written = as_written;
  options.stop = [](void*) -> int32_t { return Interrupts::Pending(); };
  return options;
}

Messages::Messages(const std::vector<Turn>& turns) {
  for (const Turn& turn : turns) contents_.push_back(WithoutNul(turn.content));
  for (size_t i = 0; i < turns.size(); ++i) {
    messages_.push_back({turns[i].role, contents_[i].c_str(), nullptr});
  }
}

}  // namespace qrun
