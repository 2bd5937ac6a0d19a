// Writing JSON.
#ifndef RUNTIME_QRUN_JSON_H_
#define RUNTIME_QRUN_JSON_H_

#include <string>

namespace qrun {

// A JSON string of UTF-8 text, with its quotes.
std::string Quoted(const std::string& text);

}  // namespace qrun

#endif  // RUNTIME_QRUN_JSON_H_
