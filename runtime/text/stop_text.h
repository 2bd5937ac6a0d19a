// Texts at which an answer ends, wherever the borders of tokens lie.
#ifndef QRT_TEXT_STOP_TEXT_H_
#define QRT_TEXT_STOP_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace qrt::text {

// Holds back what may become one of the texts; of a text that came nothing is given out, nor what is behind
// it.
class StopText {
 public:
  // Empty texts stop nothing.
  explicit StopText(const std::vector<std::string>& texts);

  // Takes more of the answer; returns what can be written now.
  std::string Push(std::string_view text);
  // One of the texts came: that which ended first, of several the longest.
  bool found() const { return found_; }
  // The answer ended otherwise: what was held back.
  std::string Finish();

 private:
  std::vector<std::string> texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_STOP_TEXT_H_
