// Messages from pieces. (Debian's Abseil is built for C++14: absl::StrCat does not take std::string_view.)
#ifndef QCC_FRONTENDS_BASE_TEXT_H_
#define QCC_FRONTENDS_BASE_TEXT_H_

#include <concepts>
#include <string>
#include <string_view>

namespace qcc {

inline void AppendPiece(std::string* out, std::string_view piece) {
  out->append(piece);
}
template <std::integral T>
void AppendPiece(std::string* out, T number) {
  out->append(std::to_string(number));
}

template <typename... Pieces>
std::string Concat(const Pieces&... pieces) {
  std::string out;
  (AppendPiece(&out, pieces), ...);
  return out;
}

}  // namespace qcc

#endif  // QCC_FRONTENDS_BASE_TEXT_H_
