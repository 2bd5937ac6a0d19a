#include "runtime/text/stop_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace qrt::text {

StopText::StopText(const std::vector<std::string>& texts) {
  std::copy_if(texts.begin(), texts.end(), std::back_inserter(texts_),
               [](const std::string& text) { return !text.empty(); });
}

std::string StopText::Push(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t free = held_.size(), end = std::string::npos;
  for (const std::string& stop : texts_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || std::pair(at + stop.size(), at) >= std::pair(end, free)) continue;
    found_ = true;
    end = at + stop.size();
    free = at;
  }
  if (!found_) {
    for (const std::string& stop : texts_) {
      // The longest end of what came that a stop text begins with.
      size_t size = std::min(stop.size() - 1, held_.size());
      while (size > 0 && held_.compare(held_.size() - size, size, stop, 0, size) != 0) --size;
      free = std::min(free, held_.size() - size);
    }
  }
  std::string out = held_.substr(0, free);
  held_.erase(0, free);
  return out;
}

std::string StopText::Finish() {
  return found_ ? std::string() : std::exchange(held_, std::string());
}

}  // namespace qrt::text
