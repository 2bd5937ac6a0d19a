// Saved sessions and kept prefixes of any bytes: no crash, no memory that the bytes do not stand for, and
// what is accepted does not contradict itself. Each input is tried as both, as it is and with its hash made
// right, so that the search gets past that.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/qrun/prefix_file.h"
#include "runtime/qrun/saved_session.h"

namespace {

constexpr qrt::Hash128 kBinding = {1, 2, 3};  // of make_saved_seeds.cc

void Require(bool condition) {
  if (!condition) std::abort();
}

void TrySession(const std::string& bytes) {
  qrun::SavedSession session;
  const qrun::Outcome outcome = qrun::ParseSession(std::string(bytes), "fuzz", &session);
  if (!outcome.ok()) {
    Require(outcome.exit_code() == qrun::kExitInput && !outcome.Text().empty());
    return;
  }
  Require(session.held <= session.tokens.size());
  Require(!session.next || (*session.next >= 0 && session.held == session.tokens.size()));
  Require(session.tools.find('\0') == std::string::npos);
  size_t all = session.snapshot.size() + session.tools.size() + session.tokens.size() * sizeof(int32_t);
  for (const qrun::Turn& turn : session.turns) all += std::strlen(turn.role) + turn.content.size();
  Require(all <= bytes.size() + 16 * session.turns.size());
}

// A file: 8 bytes of magic, checksum, size of the head, head, snapshot.
void SealSession(std::string& bytes) {
  constexpr size_t kFront = 24;
  if (bytes.size() < kFront) return;
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + 16, sizeof size);
  const std::string_view rest = std::string_view(bytes).substr(kFront);
  if (size > rest.size()) return;
  const uint64_t checksum = qrun::SessionChecksum(rest.substr(0, size), rest.substr(size));
  std::memcpy(bytes.data() + 8, &checksum, sizeof checksum);
}

void TryPrefix(const std::string& bytes) {
  qrun::PrefixHead head;
  std::string_view snapshot;
  const qrun::PrefixRead begun =
      qrun::ReadPrefixHead(std::string_view(bytes).substr(0, sizeof head), bytes.size(), kBinding, &head);
  const qrun::PrefixRead read = qrun::ReadPrefix(bytes, kBinding, &head, &snapshot);
  Require(read == begun || (begun == qrun::PrefixRead::kGood && read == qrun::PrefixRead::kDamaged));
  if (read != qrun::PrefixRead::kGood) return;
  Require(sizeof head + head.tokens * sizeof(int32_t) + snapshot.size() == bytes.size());
  Require(snapshot.empty() || snapshot.data() + snapshot.size() == bytes.data() + bytes.size());
}

void SealPrefix(std::string& bytes) {
  qrun::PrefixHead head;
  if (bytes.size() < sizeof head) return;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::string_view behind = std::string_view(bytes).substr(sizeof head);
  if (head.tokens > behind.size() / sizeof(int32_t)) return;
  std::vector<int32_t> tokens(head.tokens);
  if (!tokens.empty()) std::memcpy(tokens.data(), behind.data(), tokens.size() * sizeof(int32_t));
  const qrun::PrefixHead made =
      qrun::MakePrefixHead(kBinding, tokens, behind.substr(tokens.size() * sizeof(int32_t)));
  std::memcpy(head.hash, made.hash, sizeof head.hash);
  std::memcpy(head.binding, made.binding, sizeof head.binding);
  std::memcpy(bytes.data(), &head, sizeof head);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::string session = input, prefix = input;
  TrySession(session);
  SealSession(session);
  TrySession(session);
  TryPrefix(prefix);
  SealPrefix(prefix);
  TryPrefix(prefix);
  static_cast<void>(qrun::IsPrefixFileName(input));
  return 0;
}
