// JSON in and out of template values.
#ifndef QRT_TEXT_JSON_H_
#define QRT_TEXT_JSON_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/text/value.h"

namespace qrt::text {

// Reads one JSON document (RFC 8259). Numbers without fraction and exponent become ints, of
// more than 64 bits floats that print as what was read, others floats. False, with *error naming the byte
// offset, on anything else, on unpaired surrogate escapes, and on nesting deeper than Value::kMaxNesting.
bool ParseJson(std::string_view text, Value* value, std::string* error);

struct JsonStyle {
  int indent = -1;  // negative: one line
  bool sort_keys = false;
  bool ensure_ascii = false;   // escape everything outside ASCII
  std::string item_separator;  // empty: ", " on one line, "," with indent (what Python's json.dumps does)
  std::string key_separator;   // empty: ": "
};

// Appends `value` as JSON. False with *error when the value holds something JSON has no word for (an
// undefined value, a macro, ...) or *out would grow beyond `max_size` bytes.
bool AppendJson(const Value& value, const JsonStyle& style, size_t max_size, std::string* out,
                std::string* error);

}  // namespace qrt::text

#endif  // QRT_TEXT_JSON_H_
