#include "runtime/qrun/dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/base/descriptor.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/temporary_name.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

// One that the artifact knows of.
struct Value {
  size_t index = 0;  // of the session's
  std::string role;
  uint32_t layer = 0;
  size_t length = 0;  // 0: not kept
  std::string into;

  std::string Name() const { return role + ":" + std::to_string(layer); }
};

// "ROLE:LAYER", each with * for any text.
struct Pattern {
  std::string text, role, layer;
};

// `*` stands for any letters, also none.
bool Matches(const char* pattern, const char* text) {
  if (*pattern == '*') return Matches(pattern + 1, text) || (*text != '\0' && Matches(pattern, text + 1));
  if (*pattern == '\0' || *text == '\0') return *pattern == *text;
  return *pattern == *text && Matches(pattern + 1, text + 1);
}

bool Matches(const Pattern& pattern, const Value& value) {
  return Matches(pattern.role.c_str(), value.role.c_str()) &&
         Matches(pattern.layer.c_str(), std::to_string(value.layer).c_str());
}

// More stars than that are no name, and take long to match.
constexpr size_t kMostStars = 4;

// Errors: usage.
Outcome ReadPatterns(const std::string& names, std::vector<Pattern>* out) {
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    Pattern pattern = {names.substr(at, end - at), "", "*"};
    const size_t colon = pattern.text.find(':');
    pattern.role = pattern.text.substr(0, colon);
    if (colon != std::string::npos) pattern.layer = pattern.text.substr(colon + 1);
    const bool layer =
        !pattern.layer.empty() && pattern.layer.find_first_not_of("0123456789*") == std::string::npos;
    if (pattern.role.empty() || !layer ||
        static_cast<size_t>(std::count(pattern.text.begin(), pattern.text.end(), '*')) > kMostStars) {
      return Outcome::Fail(kExitUsage, 101, "--dump: '" + pattern.text + "' is no ROLE:LAYER", "",
                           "name them like attn_norm:7,l_out:*");
    }
    out->push_back(std::move(pattern));
    at = end + 1;
  }
  return Outcome();
}

Outcome ListValues(const qrt_session* session, std::vector<Value>* out) {
  for (size_t i = 0; i < qrt_session_values(session); ++i) {
    qrt_layer_value value = {};
    value.struct_size = sizeof value;
    QRUN_CALL(qrt_session_value(session, i, &value, nullptr, &error));
    out->push_back({i, value.role, value.layer, static_cast<size_t>(value.length), value.into});
  }
  return Outcome();
}

// Errors: usage, with the names that may be meant.
Outcome Unknown(const Pattern& pattern, const std::vector<Value>& values) {
  std::vector<std::string> roles;
  std::string all;
  for (const Value& value : values) {
    if (std::find(roles.begin(), roles.end(), value.role) != roles.end()) continue;
    roles.push_back(value.role);
    all += (all.empty() ? "" : ", ") + value.role;
  }
  const bool known = std::any_of(roles.begin(), roles.end(), [&](const std::string& role) {
    return Matches(pattern.role.c_str(), role.c_str());
  });
  const std::string near = known ? "" : qrt::NearestName(pattern.role, roles);
  std::string help = near.empty() ? "" : "did you mean " + near + "? ";
  if (all.empty()) {
    help = "compile the model again with this release's qcc, with --traceable=all";
  } else if (known) {
    help = "another layer has it, or none of that number is there: " + pattern.role + ":* names all";
  } else {
    help += "there are " + all;
  }
  return Outcome::Fail(kExitUsage, 101, "--dump: there is no value '" + pattern.text + "'", "", help);
}

// What names a value that is not kept is told once for each role and reason.
std::string WhyNot(const Value& value) {
  if (value.into.empty()) return "is not kept by this artifact; qcc compile --traceable=all keeps it";
  return "was fused into " + value.into + ", and no kernel stores rows of it";
}

void TellLost(const std::vector<Value>& lost) {
  for (const Value& value : lost) {
    std::fprintf(stderr, "qrun: %s %s\n", OneLine(value.Name()).c_str(), OneLine(WhyNot(value)).c_str());
  }
}

// A numpy file of [rows][cols] little-endian floats, up to its values.
std::string NpyHeader(size_t rows, size_t cols) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(cols) + "), }";
  constexpr size_t kPrefix = 10, kAlignment = 64;
  header.resize((kPrefix + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrefix - 1, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out + header;
}

Outcome CannotMake(const std::string& folder, int reason) {
  return Outcome::Fail(kExitResources, 6002,
                       "cannot make the folder for what --dump writes: " + std::string(std::strerror(reason)),
                       folder, "name another one with --dump-dir");
}

// Files of a folder that are written row by row, all at once: more than a process may hold open. They lie in
// a folder of their own until all are whole: those of an earlier dump stay until then.
class RowFiles {
 public:
  explicit RowFiles(std::string folder) : folder_(std::move(folder)), unfinished_(folder_ + "/.tmp-XXXXXX") {}
  ~RowFiles() {
    if (name_) qrt::RemoveFolder(unfinished_.c_str());
  }
  RowFiles(const RowFiles&) = delete;
  RowFiles& operator=(const RowFiles&) = delete;

  Outcome Open() {
    if (mkdir(folder_.c_str(), 0777) != 0 && errno != EEXIST) return CannotMake(folder_, errno);
    if (mkdtemp(unfinished_.data()) == nullptr) return CannotMake(folder_, errno);
    name_.emplace(unfinished_);
    return Outcome();
  }
  std::string PathOf(const Value& value) const { return folder_ + NameOf(value); }
  Outcome Begin(const Value& value, size_t rows) {
    const std::string header = NpyHeader(rows, value.length);
    return Put(value, O_CREAT | O_EXCL, header.data(), header.size());
  }
  Outcome Add(const Value& value, const float* row) {
    static_assert(std::endian::native == std::endian::little);
    return Put(value, O_APPEND, row, value.length * sizeof(float));
  }
  Outcome Finish(const std::vector<Value>& values) {
    for (const Value& value : values) {
      if (std::rename((unfinished_ + NameOf(value)).c_str(), PathOf(value).c_str()) != 0)
        return Failed(value);
    }
    return Outcome();
  }

 private:
  static std::string NameOf(const Value& value) {
    return "/" + value.role + "-" + std::to_string(value.layer) + ".npy";
  }
  Outcome Failed(const Value& value) const {
    const int reason = errno;
    return Outcome::Fail(kExitResources, WriteErrorNumber(reason),
                         "cannot write: " + std::string(std::strerror(reason)), PathOf(value),
                         "check the folder, its permissions and the free space");
  }
  Outcome Put(const Value& value, int flags, const void* bytes, size_t size) const {
    const std::string path = unfinished_ + NameOf(value);
    const qrt::Descriptor file(open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666));
    return file.ok() && WriteOrInterrupt(file.get(), {static_cast<const char*>(bytes), size}) ? Outcome()
                                                                                              : Failed(value);
  }

  const std::string folder_;
  std::string unfinished_;
  std::optional<qrt::TemporaryName> name_;  // while it is there
};

// An errno; 0: files can be made in it.
int WhyNoFolder(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return errno;
  if (!S_ISDIR(found.st_mode)) return ENOTDIR;
  return access(path.c_str(), W_OK | X_OK) != 0 ? errno : 0;
}

// Errors: usage, artifact refused.
Outcome Choose(const qrt_session* session, const std::string& names, std::vector<Value>* kept) {
  std::vector<Pattern> patterns;
  QRUN_RETURN_IF_ERROR(ReadPatterns(names, &patterns));
  std::vector<Value> values, lost;
  QRUN_RETURN_IF_ERROR(ListValues(session, &values));
  for (const Pattern& pattern : patterns) {
    const auto named = [&pattern](const Value& value) { return Matches(pattern, value); };
    if (std::none_of(values.begin(), values.end(), named)) return Unknown(pattern, values);
  }
  for (const Value& value : values) {
    const auto names_it = [&value](const Pattern& pattern) { return Matches(pattern, value); };
    if (std::any_of(patterns.begin(), patterns.end(), names_it)) {
      (value.length != 0 ? kept : &lost)->push_back(value);
    }
  }
  if (kept->empty()) {
    return Outcome::Fail(kExitArtifact, 5326, lost[0].Name() + " " + WhyNot(lost[0]), "",
                         lost[0].into.empty() ? "compile the model with qcc compile --traceable=all"
                                              : "name what goes into it, or what comes out");
  }
  TellLost(lost);
  return Outcome();
}

}  // namespace

void DumpFlags::AddTo(Options& options) {
  options.Text("--dump", "NAMES", &names,
               "write values inside of layers for each token of the prompt, ROLE:LAYER with * for any: "
               "attn_norm:7,l_out:*; of an artifact of qcc compile --traceable=all");
  options.Name("--dump-dir", "DIR", &folder, "where --dump writes its .npy files; default: dump");
}

Outcome DumpFlags::Check() const {
  if (folder && !names) {
    return Outcome::Fail(kExitUsage, 101, "--dump-dir is given, but nothing is dumped", "",
                         "add --dump NAMES");
  }
  if (!names) return Outcome();
  std::vector<Pattern> patterns;
  QRUN_RETURN_IF_ERROR(ReadPatterns(*names, &patterns));
  // Told before a model is compiled and loaded for it; the folder is made when there is something for it.
  std::string path = folder.value_or(kUsualDumpFolder);
  int reason = WhyNoFolder(path);
  if (reason == ENOENT) {
    path.resize(path.find_last_not_of('/') + 1);
    const size_t name = path.rfind('/') + 1;
    reason = WhyNoFolder(name == 0 ? "." : path.substr(0, name));
  }
  return reason == 0 ? Outcome() : CannotMake(path, reason);
}

Outcome DumpValues(const Model& model, const DumpFlags& flags, const std::vector<int32_t>& tokens) {
  SessionPtr session;
  QRUN_RETURN_IF_ERROR(NewSession(model, std::max<size_t>(tokens.size(), 1), &session));
  std::vector<Value> kept;
  QRUN_RETURN_IF_ERROR(Choose(session.get(), *flags.names, &kept));
  RowFiles files(flags.folder.value_or(kUsualDumpFolder));
  QRUN_RETURN_IF_ERROR(files.Open());
  for (const Value& value : kept) QRUN_RETURN_IF_ERROR(files.Begin(value, tokens.size()));
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = QRT_LOGITS_NONE;
  std::vector<float> row;
  for (const int32_t token : tokens) {
    if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
    QRUN_CALL(qrt_session_append(session.get(), &token, 1, &options, &error));
    for (const Value& value : kept) {
      row.resize(value.length);
      qrt_layer_value info = {};
      info.struct_size = sizeof info;
      QRUN_CALL(qrt_session_value(session.get(), value.index, &info, row.data(), &error));
      QRUN_RETURN_IF_ERROR(files.Add(value, row.data()));
    }
  }
  QRUN_RETURN_IF_ERROR(files.Finish(kept));
  std::fprintf(stderr, "values of %zu tokens:\n%-28s %8s %8s  %s\n", tokens.size(), "name", "rows", "length",
               "file");
  for (const Value& value : kept) {
    std::fprintf(stderr, "%-28s %8zu %8zu  %s\n", OneLine(value.Name()).c_str(), tokens.size(), value.length,
                 OneLine(files.PathOf(value)).c_str());
  }
  return Outcome();
}

}  // namespace qrun
