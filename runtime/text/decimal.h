// Floats as decimals. The standard library's to_chars brings tables of 137 kB into every product.
#ifndef RUNTIME_TEXT_DECIMAL_H_
#define RUNTIME_TEXT_DECIMAL_H_

#include <string>

namespace qrt::text {

// What printf gives for "%.*e" (`style` 'e'), 'f' or 'g' in the C locale, rounded to nearest, whatever the
// host's locale and rounding are. `value` is finite, 0 <= precision <= 1000.
std::string DecimalText(double value, char style, int precision);

// Of the decimals that are read as the finite `value`, those of the fewest digits, and the closest of them:
// in style 'e'.
std::string ShortestText(double value);

}  // namespace qrt::text

#endif  // RUNTIME_TEXT_DECIMAL_H_
