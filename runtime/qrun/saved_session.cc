#include "runtime/qrun/saved_session.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/qrun/process.h"

namespace qrun {
namespace {

// The file: magic with the version, checksum, size of the head, head (turns, what the template was told,
// tokens), snapshot. Numbers are 64 bits, little endian as every machine that qrt runs on.
constexpr char kMagic[] = {'Q', 'R', 'U', 'N', 'S', 'E', 'S'};
constexpr char kVersion = '3';
constexpr const char* kRoles[] = {"system", "user", "assistant"};
constexpr const char* kThink[] = {"", "off", "on"};  // the first: nothing was said of it

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
  std::string_view rest() const { return left_; }

 private:
  std::string_view left_;
};

// Every word changes all that come after it, so that no change of one goes unseen. The snapshot has a
// checksum of its own; this one holds the turns and tokens to it. No defence against somebody who means it.
uint64_t Checksum(uint64_t state, std::string_view bytes) {
  state ^= bytes.size();
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), size);
    bytes.remove_prefix(size);
    state = (state ^ word) * 0x9E3779B97F4A7C15u;
    state ^= state >> 32;
  }
  return state;
}

// The place of `word` among `words`, which have it.
template <size_t kCount>
uint64_t PlaceOf(std::string_view word, const char* const (&words)[kCount]) {
  uint64_t place = 0;
  while (words[place] != word) ++place;
  return place;
}

bool ReadHead(Reader& in, SavedSession* out) {
  uint64_t raw = 0, turns = 0, think = 0, tokens = 0, held = 0, has_next = 0, next = 0;
  if (!in.Number(&raw) || raw > 1 || !in.Number(&turns)) return false;
  out->raw = raw != 0;
  for (uint64_t i = 0; i < turns; ++i) {
    uint64_t role = 0;
    std::string content;
    if (!in.Number(&role) || role >= std::size(kRoles) || !in.Text(&content)) return false;
    out->turns.push_back({kRoles[role], std::move(content)});
  }
  if (!in.Number(&think) || think >= std::size(kThink) || !in.Text(&out->tools)) return false;
  if (think != 0) out->think = kThink[think];
  // They go on as a text that ends at a NUL byte, and --tools takes none with one.
  if (out->tools.find('\0') != std::string::npos) return false;
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
  return in.left() == 0;
}

Outcome Damaged(const std::string& path, const std::string& what) {
  return Outcome::Fail(kExitInput, 8004, path + " " + what, path, "--save-session writes one");
}

}  // namespace

uint64_t SessionChecksum(std::string_view head, std::string_view snapshot) {
  return Checksum(Checksum(0x7172756E73657373u, head), snapshot);
}

Outcome WriteSession(const std::string& path, const SavedSession& session) {
  Writer out;
  out.Number(session.raw);
  out.Number(session.turns.size());
  for (const Turn& turn : session.turns) {
    out.Number(PlaceOf(turn.role, kRoles));
    out.Text(turn.content);
  }
  out.Number(PlaceOf(session.think.value_or(""), kThink));
  out.Text(session.tools);
  out.Number(session.tokens.size());
  out.Bytes(session.tokens.data(), session.tokens.size() * sizeof(int32_t));
  out.Number(session.held);
  out.Number(session.next.has_value());
  out.Number(static_cast<uint64_t>(session.next.value_or(0)));
  Writer front;
  front.Bytes(kMagic, sizeof kMagic);
  front.Bytes(&kVersion, 1);
  front.Number(SessionChecksum(out.bytes(), session.snapshot));
  front.Number(out.bytes().size());
  OutputFile file;
  QRUN_RETURN_IF_ERROR(file.Open(path, OutputFile::Kind::kPrivate));
  QRUN_RETURN_IF_ERROR(file.Write(front.bytes().data(), front.bytes().size()));
  QRUN_RETURN_IF_ERROR(file.Write(out.bytes().data(), out.bytes().size()));
  QRUN_RETURN_IF_ERROR(file.Write(session.snapshot.data(), session.snapshot.size()));
  return file.Commit();
}

Outcome ReadSession(const std::string& path, SavedSession* out) {
  std::string bytes;
  QRUN_RETURN_IF_ERROR(ReadFile(path, SIZE_MAX, &bytes));
  return ParseSession(std::move(bytes), path, out);
}

Outcome ParseSession(std::string bytes, const std::string& path, SavedSession* out) {
  *out = SavedSession();
  Reader in(bytes);
  char magic[sizeof kMagic], version = 0;
  uint64_t checksum = 0, size = 0;
  if (!in.Bytes(magic, sizeof magic) || std::memcmp(magic, kMagic, sizeof magic) != 0 ||
      !in.Bytes(&version, 1)) {
    return Damaged(path, "is no saved session");
  }
  if (version != kVersion) {
    return Outcome::Fail(
        kExitInput, 8006,
        path + " is a saved session of version " + version + ", this release of qrun reads " + kVersion, path,
        "begin anew, or use the release that saved it");
  }
  if (!in.Number(&checksum) || !in.Number(&size) || size > in.left()) {
    return Damaged(path, "is cut off");
  }
  const std::string_view head = in.rest().substr(0, size), snapshot = in.rest().substr(size);
  if (SessionChecksum(head, snapshot) != checksum)
    return Damaged(path, "was changed or damaged: its checksum is wrong");
  Reader fields(head);
  if (!ReadHead(fields, out)) return Damaged(path, "is a saved session that contradicts itself");
  bytes.erase(0, bytes.size() - snapshot.size());
  out->snapshot = std::move(bytes);
  return Outcome();
}

}  // namespace qrun
