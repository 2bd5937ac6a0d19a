#include "runtime/aot/cache_layout.h"

#include <algorithm>
#include <cstdlib>

namespace qrt::aot {

std::string UsualCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/qcc";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/qcc" : "";
}

std::string_view CacheSuffix(std::string_view name) {
  constexpr size_t kHashDigits = 32;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (name.size() <= kHashDigits || !std::all_of(name.begin(), name.begin() + kHashDigits, is_digit)) {
    return "";
  }
  const auto found = std::find(kCacheSuffixes.begin(), kCacheSuffixes.end(), name.substr(kHashDigits));
  return found == kCacheSuffixes.end() ? "" : *found;
}

}  // namespace qrt::aot
