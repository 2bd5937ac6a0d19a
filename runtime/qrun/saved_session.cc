#include "runtime/qrun/saved_session.h"

#include <cstring>
#include <string_view>

#include "runtime/qrun/process.h"

namespace qrun {
namespace {

// Numbers are 64 bits, little endian as every machine that qrt runs on.
constexpr char kMagic[8] = {'Q', 'R', 'U', 'N', 'S', 'E', 'S', '1'};
constexpr const char* kRoles[] = {"system", "user", "assistant"};

class Writer {
 public:
  void Number(uint64_t value) { Bytes(&value, sizeof value); }
  void Bytes(const void* bytes, size_t size) { out_.append(static_cast<const char*>(bytes), size); }
  void Text(std::string_view text) {
    Number(text.size());
    Bytes(text.data(), text.size());
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

// Every reading function is false at the end of the bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool Number(uint64_t* value) { return Bytes(value, sizeof *value); }
  bool Bytes(void* out, uint64_t size) {
    if (size > left_.size()) return false;
    if (size != 0) std::memcpy(out, left_.data(), size);
    left_.remove_prefix(size);
    return true;
  }
  bool Text(std::string* out) {
    uint64_t size = 0;
    if (!Number(&size) || size > left_.size()) return false;
    out->assign(left_.substr(0, size));
    left_.remove_prefix(size);
    return true;
  }
  uint64_t left() const { return left_.size(); }

 private:
  std::string_view left_;
};

bool Read(Reader& in, SavedSession* out) {
  char magic[sizeof kMagic];
  uint64_t raw = 0, turns = 0, tokens = 0, held = 0, has_next = 0, next = 0, snapshot = 0;
  if (!in.Bytes(magic, sizeof magic) || std::memcmp(magic, kMagic, sizeof magic) != 0) return false;
  if (!in.Number(&raw) || raw > 1 || !in.Number(&turns)) return false;
  out->raw = raw != 0;
  for (uint64_t i = 0; i < turns; ++i) {
    uint64_t role = 0;
    std::string content;
    if (!in.Number(&role) || role >= std::size(kRoles) || !in.Text(&content)) return false;
    out->turns.push_back({kRoles[role], std::move(content)});
  }
  if (!in.Number(&tokens) || tokens > in.left() / sizeof(int32_t)) return false;
  out->tokens.resize(tokens);
  if (!in.Bytes(out->tokens.data(), tokens * sizeof(int32_t))) return false;
  if (!in.Number(&held) || held > tokens || !in.Number(&has_next) || has_next > 1 || !in.Number(&next))
    return false;
  out->held = held;
  if (has_next != 0) {
    if (next > INT32_MAX || held != tokens) return false;
    out->next = static_cast<int32_t>(next);
  }
  if (!in.Number(&snapshot) || snapshot != in.left()) return false;
  out->snapshot.resize(snapshot);
  return in.Bytes(out->snapshot.data(), snapshot);
}

}  // namespace

Outcome WriteSession(const std::string& path, const SavedSession& session) {
  Writer out;
  out.Bytes(kMagic, sizeof kMagic);
  out.Number(session.raw);
  out.Number(session.turns.size());
  for (const Turn& turn : session.turns) {
    uint64_t role = 0;
    while (std::string_view(kRoles[role]) != turn.role) ++role;
    out.Number(role);
    out.Text(turn.content);
  }
  out.Number(session.tokens.size());
  out.Bytes(session.tokens.data(), session.tokens.size() * sizeof(int32_t));
  out.Number(session.held);
  out.Number(session.next.has_value());
  out.Number(static_cast<uint64_t>(session.next.value_or(0)));
  out.Number(session.snapshot.size());
  OutputFile file;
  QRUN_RETURN_IF_ERROR(file.Open(path));
  QRUN_RETURN_IF_ERROR(file.Write(out.bytes().data(), out.bytes().size()));
  QRUN_RETURN_IF_ERROR(file.Write(session.snapshot.data(), session.snapshot.size()));
  return file.Commit();
}

Outcome ReadSession(const std::string& path, SavedSession* out) {
  std::string bytes;
  QRUN_RETURN_IF_ERROR(ReadFile(path, &bytes));
  Reader in(bytes);
  *out = SavedSession();
  if (Read(in, out)) return Outcome();
  return Outcome::Fail(kExitInput, 8004, path + " is no saved session of this release, or it is damaged",
                       path, "--save-session writes one");
}

}  // namespace qrun
