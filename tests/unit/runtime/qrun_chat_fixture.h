// Chats and their sessions: qrun on the toy model with templates of one's own, and what was said.
#ifndef TESTS_UNIT_RUNTIME_QRUN_CHAT_FIXTURE_H_
#define TESTS_UNIT_RUNTIME_QRUN_CHAT_FIXTURE_H_

#include <nlohmann/json.hpp>

#include "runtime/qrun/saved_session.h"
#include "tests/unit/runtime/qrun_fixture.h"

namespace qrun_test {

inline constexpr char kThinkBlock[] =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}";

inline nlohmann::json TimingIn(const std::string& text) {
  const size_t begin = std::min(text.find("{\"load"), text.size());
  return nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin), nullptr, false);
}

class QrunChat : public QrunCli {
 protected:
  // The toy with another chat template.
  static std::string WithTemplate(const std::string& name, const std::string& text) {
    WriteParts(toy::ToyParts(text), File(name));
    return File(name);
  }
  // Types a line and waits for the next prompt.
  static std::string Say(Terminal& terminal, const std::string& line) {
    terminal.Type(line + "\n");
    return terminal.ReadUntil("\r\n> ");
  }
  // What was said so far, by way of a file.
  static std::vector<std::string> Turns(Terminal& terminal) {
    const std::string file = File("turns.session");
    unlink(file.c_str());
    Say(terminal, "/save " + file);
    qrun::SavedSession session;
    const qrun::Outcome outcome = qrun::ReadSession(file, &session);
    EXPECT_TRUE(outcome.ok()) << outcome.Text();
    std::vector<std::string> turns;
    for (const qrun::Turn& turn : session.turns) turns.push_back(turn.role + (": " + turn.content));
    return turns;
  }
  static std::string User(Terminal& terminal, size_t turn) {
    const std::vector<std::string> turns = Turns(terminal);
    return turn < turns.size() ? turns[turn] : "no such turn";
  }
};

}  // namespace qrun_test

#endif  // TESTS_UNIT_RUNTIME_QRUN_CHAT_FIXTURE_H_
