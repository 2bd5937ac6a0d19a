// Filters that do not stand in template_filters.cc. Internal to runtime/text.
#ifndef QRT_TEXT_TEMPLATE_FILTERS_H_
#define QRT_TEXT_TEMPLATE_FILTERS_H_

#include <cstdint>
#include <string_view>

#include "runtime/text/template_interpreter.h"

namespace qrt::text {

// ---- template_sequences.cc: filters that order items ----

// What `path` ("a.b.0", or an index) leads to in `object`; `fallback` (may be null) stands in for each step
// that finds nothing.
bool FollowPath(Interpreter& in, const Value& object, const Value& path, const Value* fallback, Value* out);

bool DictSort(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool Sort(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool Unique(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool MinMax(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool Sum(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);

// ---- template_numbers.cc ----

bool Abs(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool Int(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool Float(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
bool Round(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);

// ---- template_formats.cc: values into text ----

bool Escape(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
// The filter 'format': `input` with its %s, %d, ... replaced, as Python's % does.
bool Format(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out);
// str.format, of fields without conversions: {}, {0}, {name}.
bool FormatMethod(Interpreter& in, const std::string& text, const CallArgs& args, Value* out);
// Python's strftime of `now`, seconds since 1970, in UTC and English.
bool FormatTime(Interpreter& in, const CallArgs& args, int64_t now, Value* out);

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_FILTERS_H_
