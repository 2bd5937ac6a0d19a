// Writes the seeds of saved_fuzz: make_saved_seeds tests/fuzz/corpus/saved
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/qrun/prefix_file.h"
#include "runtime/qrun/saved_session.h"

namespace {

constexpr qrt::Hash128 kBinding = {1, 2, 3};  // of saved_fuzz.cc

// A snapshot is for the library to read: here it is bytes.
bool WriteSessions(const std::string& folder) {
  qrun::SavedSession chat;
  chat.turns = {{"system", "Be brief."}, {"user", "Hello."}, {"assistant", "Hello!"}};
  chat.think = "off";
  chat.tools = R"([{"type": "function", "function": {"name": "weather"}}])";
  chat.tokens = {1, 2, 3, 4, 5};
  chat.held = 4;
  chat.snapshot = {'Q', 'R', 'T', 'S', 'N', 'A', 'P', '2'};
  qrun::SavedSession raw;
  raw.raw = true;
  raw.tokens = {7, 8};
  raw.held = 2;
  raw.next = 9;
  return qrun::WriteSession(folder + "/chat", chat).ok() && qrun::WriteSession(folder + "/raw", raw).ok();
}

bool WritePrefix(const std::string& path, size_t count, const std::string& snapshot) {
  const std::vector<int32_t> tokens(count, 3);
  const qrun::PrefixHead head = qrun::MakePrefixHead(kBinding, tokens, snapshot);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(&head, sizeof head, 1, file) == 1 &&
                       std::fwrite(tokens.data(), sizeof(int32_t), count, file) == count &&
                       std::fwrite(snapshot.data(), 1, snapshot.size(), file) == snapshot.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_saved_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  const bool written = WriteSessions(folder) && WritePrefix(folder + "/prefix", 32, "QRTSNAP3 and so on") &&
                       WritePrefix(folder + "/empty_prefix", 0, "");
  return written ? 0 : 1;
}
