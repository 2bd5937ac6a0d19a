// Texts at which an answer ends.
#include "runtime/text/stop_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qrt::text {
namespace {

TEST(StopText, IsFoundWhereverTokensEnd) {
  const struct {
    std::vector<std::string> stops;
    const char* text;
    const char* written;
    bool found;
  } cases[] = {{{"END"}, "one END two", "one ", true},    {{"END"}, "one EN", "one EN", false},
               {{"END"}, "EEENDE", "EE", true},           {{"aab"}, "aaaab", "aa", true},
               {{"two", "one"}, "x one two", "x ", true}, {{"one two", "e t"}, "one two", "on", true},
               {{"o", "two"}, "a two", "a ", true},       {{"e t", "zz"}, "one two zz", "on", true},
               {{}, "anything", "anything", false},       {{""}, "anything", "anything", false},
               {{"\n\n"}, "a\nb\n\nc", "a\nb", true}};
  for (const auto& c : cases) {
    const std::string text = c.text;
    for (size_t piece = 1; piece <= text.size(); ++piece) {
      StopText stop(c.stops);
      std::string out;
      for (size_t at = 0; at < text.size(); at += piece) out += stop.Push(text.substr(at, piece));
      out += stop.Finish();
      EXPECT_EQ(out, c.written) << c.text << " in pieces of " << piece;
      EXPECT_EQ(stop.found(), c.found) << c.text << " in pieces of " << piece;
    }
  }
}

}  // namespace
}  // namespace qrt::text
