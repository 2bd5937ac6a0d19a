#include "compiler/driver/bundle.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <optional>

#include "compiler/artifact/output_file.h"
#include "compiler/artifact/paged_writes.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/abi/bundle.h"
#include "runtime/base/checked.h"

namespace qcc::compiler {
namespace {

constexpr char kNameAnother[] = "name a qrun of this release with --qrun";

absl::Status NoHost(const std::string& name, std::string what) {
  return MakeError("Q0105", std::move(what), name, kNameAnother);
}

uint64_t AlignedUp(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Where among these notes that of a bundle's host is. Their own alignment is 4.
std::optional<size_t> NoteIn(std::span<const uint8_t> notes) {
  const size_t size = notes.size();
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof note);
    const uint64_t owner = AlignedUp(note.n_namesz, 4), description = AlignedUp(note.n_descsz, 4);
    if (owner + description > notes.size() - sizeof note) return std::nullopt;
    qbundle_note found;
    if (note.n_type == QBUNDLE_NOTE_TYPE && note.n_namesz == sizeof QBUNDLE_NOTE_OWNER &&
        sizeof note + owner + description == sizeof found) {
      std::memcpy(&found, notes.data(), sizeof found);
      if (std::memcmp(found.owner, QBUNDLE_NOTE_OWNER, sizeof QBUNDLE_NOTE_OWNER) == 0) {
        return size - notes.size();
      }
    }
    notes = notes.subspan(sizeof note + owner + description);
  }
  return std::nullopt;
}

// Where in a program the note is.
absl::StatusOr<size_t> FindNote(std::span<const uint8_t> program, const std::string& name) {
  Elf64_Ehdr header;
  if (program.size() < sizeof header || std::memcmp(program.data(), ELFMAG, SELFMAG) != 0) {
    return NoHost(name, "not a program (an ELF file)");
  }
  std::memcpy(&header, program.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return NoHost(name, "not a program for x86-64");
  }
  for (uint64_t i = 0; i < header.e_phnum && header.e_phentsize == sizeof(Elf64_Phdr); ++i) {
    const uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    if (!qrt::InRange(at, sizeof(Elf64_Phdr), program.size())) break;
    Elf64_Phdr segment;
    std::memcpy(&segment, program.data() + at, sizeof segment);
    if (segment.p_type != PT_NOTE || segment.p_align > 4 ||
        !qrt::InRange(segment.p_offset, segment.p_filesz, program.size())) {
      continue;
    }
    const std::optional<size_t> note = NoteIn(program.subspan(segment.p_offset, segment.p_filesz));
    if (note) return segment.p_offset + *note;
  }
  return NoHost(name, "not a qrun that can carry an artifact");
}

}  // namespace

absl::Status CheckBundleHost(std::span<const uint8_t> program, const std::string& name) {
  const absl::StatusOr<size_t> at = FindNote(program, name);
  if (!at.ok()) return at.status();
  qbundle_note note;
  std::memcpy(&note, program.data() + *at, sizeof note);
  if (note.version != QBUNDLE_VERSION) {
    return NoHost(name, Concat("this qrun reads bundles of version ", note.version, ", this qcc writes ",
                               QBUNDLE_VERSION));
  }
  if (note.carries != 0) return NoHost(name, "this qrun carries an artifact already");
  return absl::OkStatus();
}

absl::StatusOr<std::string> UsualBundleHost() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string own(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  std::string beside = own.substr(0, own.rfind('/') + 1) + "qrun";
  if (length <= 0 || access(beside.c_str(), R_OK) != 0) {
    return NoHost(length <= 0 ? "/proc/self/exe" : beside, "there is no qrun beside qcc");
  }
  return beside;
}

absl::StatusOr<uint64_t> WriteBundle(std::span<const uint8_t> host, std::span<const uint8_t> artifact,
                                     const std::string& output, const BundleProgress& progress) {
  constexpr uint64_t kPiece = uint64_t{64} << 20;
  constexpr mode_t kExecutable = 0755;
  qbundle_trailer trailer = {
      AlignedUp(host.size(), QBUNDLE_ALIGNMENT), artifact.size(), QBUNDLE_VERSION, 0, {}};
  std::memcpy(trailer.magic, QBUNDLE_MAGIC, sizeof trailer.magic);
  const uint64_t total = trailer.artifact_offset + artifact.size() + sizeof trailer;
  const absl::StatusOr<size_t> note = FindNote(host, output);
  if (!note.ok()) return note.status();
  constexpr uint8_t kCarries[sizeof qbundle_note::carries] = {1};
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(output, kExecutable);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->WriteAt(0, host); !status.ok()) return status;
  if (absl::Status status = (*file)->WriteAt(*note + offsetof(qbundle_note, carries), kCarries);
      !status.ok()) {
    return status;
  }
  const auto write = [&](uint64_t at, std::span<const uint8_t> piece) { return (*file)->WriteAt(at, piece); };
  PagedWrites pages(trailer.artifact_offset, write);
  for (uint64_t at = 0; at < artifact.size(); at += kPiece) {
    const std::span<const uint8_t> piece = artifact.subspan(at, std::min(kPiece, artifact.size() - at));
    if (absl::Status status = pages.Append(piece); !status.ok()) return status;
    if (!progress(trailer.artifact_offset + at + piece.size(), total)) {
      return absl::CancelledError("writing the bundle was stopped");
    }
  }
  if (absl::Status status = pages.Flush(); !status.ok()) return status;
  const std::span<const uint8_t> end(reinterpret_cast<const uint8_t*>(&trailer), sizeof trailer);
  if (absl::Status status = (*file)->WriteAt(total - sizeof trailer, end); !status.ok()) return status;
  if (absl::Status status = (*file)->Commit(total); !status.ok()) return status;
  return total;
}

}  // namespace qcc::compiler
