#include "runtime/base/status.h"

#include <cstdio>

namespace qrt {

Status::Status(Code code, uint32_t number, std::string message, std::string note, std::string help)
    : rep_(std::make_unique<Rep>(Rep{code, number, std::move(message), std::move(note), std::move(help)})) {}

Status::Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
  return *this;
}

const std::string& Status::Empty() {
  static const std::string empty;
  return empty;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  char number_text[16];
  std::snprintf(number_text, sizeof number_text, " [Q%04u]", number());
  std::string text = message() + number_text;
  if (!note().empty()) text += "; " + note();
  if (!help().empty()) text += "; " + help();
  return text;
}

}  // namespace qrt
