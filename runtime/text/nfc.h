// Unicode normalization form C: characters composed where they can be, marks in canonical order.
#ifndef QRT_TEXT_NFC_H_
#define QRT_TEXT_NFC_H_

#include <string>
#include <string_view>

namespace qrt::text {

// `text` in form C: itself where it is already (then nothing is allocated), else *storage. A byte outside
// well-formed UTF-8 stays, and the text on its two sides is normalized as if it stood alone. At most three
// times as long. Time grows as n log n. Throws std::bad_alloc.
std::string_view NormalizeNfc(std::string_view text, std::string* storage);

}  // namespace qrt::text

#endif  // QRT_TEXT_NFC_H_
