#include "compiler/artifact/reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "compiler/artifact/content_hash.h"
#include "compiler/artifact/gpu_code_section.h"
#include "frontends/gguf/error.h"
#include "frontends/gguf/text.h"
#include "runtime/abi/qbin.h"

namespace qcc::compiler {
namespace {

using gguf::Concat;

constexpr char kCopyAgain[] = "compile or copy the artifact again";
constexpr uint64_t kPieceBytes = uint64_t{64} << 20;

class Mapping {
 public:
  ~Mapping() {
    if (data_ != MAP_FAILED) munmap(data_, size_);
  }
  absl::Status Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
      return MakeError(errno == ENOENT ? "Q4001" : "Q4002",
                       Concat("cannot open the artifact: ", std::strerror(errno)), path);
    }
    struct stat info;
    absl::Status status;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      status = MakeError("Q4003", "not a regular file", path, "name the .qbin file itself");
    } else if (info.st_size > 0) {
      size_ = static_cast<size_t>(info.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (data_ == MAP_FAILED) {
        status = MakeError("Q4002", Concat("cannot map the artifact: ", std::strerror(errno)), path);
      }
    }
    close(fd);
    return status;
  }
  std::span<const uint8_t> bytes() const {
    if (data_ == MAP_FAILED) return {};
    return {static_cast<const uint8_t*>(data_), size_};
  }

 private:
  void* data_ = MAP_FAILED;
  size_t size_ = 0;
};

absl::Status Corrupt(const std::string& path, std::string code, uint64_t offset, std::string what) {
  return MakeError(std::move(code), std::move(what), Concat(path, ", offset ", offset), kCopyAgain);
}

std::string SectionPlace(const std::string& path, size_t index, const ArtifactSection& s) {
  return Concat(path, ", section ", index, " (", SectionKindName(s.kind), ")");
}

absl::Status ReadHeader(std::span<const uint8_t> file, ArtifactContents& out) {
  const size_t magic_bytes = std::min<size_t>(file.size(), QBIN_MAGIC_BYTES);
  if (file.empty() || std::memcmp(file.data(), QBIN_MAGIC, magic_bytes) != 0) {
    return MakeError("Q4005", "not a .qbin artifact: the file does not begin with its mark", out.path,
                     "qcc compile makes a .qbin from a GGUF");
  }
  qbin_header header;
  if (file.size() < sizeof header) {
    return Corrupt(
        out.path, "Q4004", 0,
        Concat("the file is cut off: it has ", file.size(), " bytes, the header takes ", sizeof header));
  }
  std::memcpy(&header, file.data(), sizeof header);
  if (header.major != QBIN_MAJOR) {
    return MakeError("Q4006",
                     Concat("the artifact has format version ", header.major, ".", header.minor,
                            ", this compiler reads ", QBIN_MAJOR, ".x"),
                     out.path, "use the qcc that made it");
  }
  const uint64_t table_end = sizeof header + uint64_t{header.section_count} * sizeof(qbin_section);
  if (header.section_count == 0 || header.section_count > QBIN_MAX_SECTIONS || table_end > file.size()) {
    return Corrupt(out.path, "Q4009", offsetof(qbin_header, section_count),
                   Concat("the header counts ", header.section_count, " sections, expected 1 to ",
                          QBIN_MAX_SECTIONS, ", as the file's ", file.size(), " bytes allow"));
  }
  ContentHasher hasher;
  const Hash128 zeros{};
  hasher.Update(file.first(offsetof(qbin_header, hash)));
  hasher.Update(zeros);
  hasher.Update(file.subspan(sizeof header, table_end - sizeof header));
  out.identity = hasher.Finish();
  if (std::memcmp(out.identity.data(), header.hash, sizeof header.hash) != 0) {
    return Corrupt(out.path, "Q4008", offsetof(qbin_header, hash),
                   "header or section table is damaged: wrong hash");
  }
  if ((header.required_features & ~QBIN_KNOWN_FEATURES) != 0) {
    return MakeError("Q4007",
                     Concat("the artifact requires features that this compiler does not know: mask ",
                            header.required_features & ~QBIN_KNOWN_FEATURES),
                     out.path, "use a newer qcc");
  }
  if (header.file_bytes != file.size()) {
    return Corrupt(
        out.path, "Q4004", offsetof(qbin_header, file_bytes),
        Concat(file.size() < header.file_bytes ? "the file is cut off" : "bytes follow the artifact",
               ": it has ", file.size(), " bytes, expected ", header.file_bytes));
  }
  out.file_bytes = file.size();
  out.major = header.major;
  out.minor = header.minor;
  out.required_features = header.required_features;

  uint64_t end = table_end;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const uint64_t at = sizeof header + uint64_t{i} * sizeof(qbin_section);
    qbin_section entry;
    std::memcpy(&entry, file.data() + at, sizeof entry);
    const uint64_t expected = (end + QBIN_ALIGNMENT - 1) / QBIN_ALIGNMENT * QBIN_ALIGNMENT;
    if (entry.offset != expected || entry.offset > file.size() || entry.size == 0 ||
        entry.size > file.size() - entry.offset) {
      return Corrupt(out.path, "Q4009", at,
                     Concat("section ", i, " has ", entry.size, " bytes at ", entry.offset,
                            ", expected it at ", expected, " and inside the file's ", file.size(), " bytes"));
    }
    for (uint64_t pad = end; pad < entry.offset; ++pad) {
      if (file[pad] != 0) return Corrupt(out.path, "Q4010", pad, "a padding byte is not zero");
    }
    end = entry.offset + entry.size;
    ArtifactSection section{entry.kind, entry.flags, entry.offset, entry.size, {}};
    std::memcpy(section.hash.data(), entry.hash, sizeof entry.hash);
    out.sections.push_back(section);
  }
  if (end != file.size()) {
    return Corrupt(out.path, "Q4009", end,
                   Concat("the sections end at ", end, ", the file at ", file.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckHashes(std::span<const uint8_t> file, const ArtifactContents& contents, HashCheck check,
                         absl::FunctionRef<bool(uint64_t, uint64_t)> progress) {
  auto wanted = [check](const ArtifactSection& s) {
    return check == HashCheck::kEverything || s.kind != QBIN_SECTION_WEIGHTS;
  };
  uint64_t total = 0, done = 0;
  for (const ArtifactSection& s : contents.sections) total += wanted(s) ? s.size : 0;
  for (size_t i = 0; i < contents.sections.size(); ++i) {
    const ArtifactSection& s = contents.sections[i];
    if (!wanted(s)) continue;
    ContentHasher hasher;
    for (uint64_t at = 0; at < s.size; at += kPieceBytes) {
      const uint64_t n = std::min(kPieceBytes, s.size - at);
      hasher.Update(file.subspan(s.offset + at, n));
      done += n;
      if (!progress(done, total)) return absl::CancelledError("stopped");
    }
    const Hash128 found = hasher.Finish();
    if (found != s.hash) {
      return MakeError(s.kind == QBIN_SECTION_WEIGHTS ? "Q4012" : "Q4011",
                       Concat("the section is damaged: its hash is ", Hex(found), ", expected ", Hex(s.hash)),
                       SectionPlace(contents.path, i, s), kCopyAgain);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view SectionKindName(uint32_t kind) {
  switch (kind) {
    case QBIN_SECTION_MANIFEST:
      return "manifest";
    case QBIN_SECTION_CODE:
      return "code";
    case QBIN_SECTION_WEIGHTS:
      return "weights";
    case QBIN_SECTION_TOKENIZER:
      return "tokenizer";
    case QBIN_SECTION_CHAT_TEMPLATE:
      return "chat_template";
    case QBIN_SECTION_GOLDENS:
      return "goldens";
    default:
      return "unknown";
  }
}

absl::StatusOr<ArtifactContents> ReadArtifact(const std::string& path, HashCheck check,
                                              absl::FunctionRef<bool(uint64_t, uint64_t)> progress) {
  Mapping mapping;
  if (absl::Status status = mapping.Open(path); !status.ok()) return status;
  const std::span<const uint8_t> file = mapping.bytes();
  ArtifactContents contents{};
  contents.path = path;
  if (absl::Status status = ReadHeader(file, contents); !status.ok()) return status;
  if (absl::Status status = CheckHashes(file, contents, check, progress); !status.ok()) return status;
  const auto manifest =
      std::find_if(contents.sections.begin(), contents.sections.end(),
                   [](const ArtifactSection& s) { return s.kind == QBIN_SECTION_MANIFEST; });
  if (manifest == contents.sections.end()) {
    return Corrupt(path, "Q4013", sizeof(qbin_header), "there is no manifest section");
  }
  absl::StatusOr<ManifestSpec> spec =
      ParseManifest(file.subspan(manifest->offset, manifest->size),
                    SectionPlace(path, static_cast<size_t>(manifest - contents.sections.begin()), *manifest));
  if (!spec.ok()) return spec.status();
  contents.manifest = *std::move(spec);
  for (const CodeSpec& code : contents.manifest.code) {
    if (code.target != "vulkan" && code.target != "cuda") continue;
    if (code.section >= contents.sections.size()) {
      return MakeError("Q4015",
                       Concat("manifest: code for ", code.target, " lies in section ", code.section,
                              ", the file has ", contents.sections.size()),
                       path, kCopyAgain);
    }
    const ArtifactSection& section = contents.sections[code.section];
    absl::StatusOr<gpu::GpuCode> parsed = ParseGpuCodeSection(file.subspan(section.offset, section.size),
                                                              SectionPlace(path, code.section, section));
    if (!parsed.ok()) return parsed.status();
    contents.gpu_code[code.section] = *std::move(parsed);
  }
  return contents;
}

}  // namespace qcc::compiler
