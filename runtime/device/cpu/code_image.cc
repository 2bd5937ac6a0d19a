#include "runtime/device/cpu/code_image.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/base/checked.h"

namespace qrt {
namespace {

Status Corrupt(std::string message) {
  return Status(Code::kArtifactCorrupt, 5004, std::move(message), "code section",
                "the file changed or is damaged: compile or copy it again");
}

Status CheckHeader(const uint8_t* data, uint64_t bytes, size_t n_programs) {
  qrt_code_header header;
  const Checked table = Checked(n_programs) * sizeof(uint32_t) + sizeof header;
  if (!table.fits(bytes)) {
    return Corrupt("the code has " + std::to_string(bytes) + " bytes, too few for a table of " +
                   std::to_string(n_programs) + " programs");
  }
  std::memcpy(&header, data, sizeof header);
  if (header.magic != QRT_CODE_MAGIC || header.abi != QRT_PROGRAM_ABI || header.n_entries != n_programs) {
    return Corrupt("the code's header says ABI " + std::to_string(header.abi) + " and " +
                   std::to_string(header.n_entries) + " programs, expected ABI " +
                   std::to_string(QRT_PROGRAM_ABI) + " and " + std::to_string(n_programs));
  }
  if (header.thread_scratch % 64 != 0 || header.thread_scratch > QRT_MAX_THREAD_SCRATCH) {
    return Corrupt("the code asks for " + std::to_string(header.thread_scratch) +
                   " bytes of scratch a thread, expected a multiple of 64, at most " +
                   std::to_string(QRT_MAX_THREAD_SCRATCH));
  }
  if (header.shared_scratch % 64 != 0 || header.shared_scratch > QRT_MAX_SHARED_SCRATCH) {
    return Corrupt("the code asks for " + std::to_string(header.shared_scratch) +
                   " bytes of shared scratch, expected a multiple of 64, at most " +
                   std::to_string(QRT_MAX_SHARED_SCRATCH));
  }
  if (header.n_stages > QRT_MAX_STAGES) {
    return Corrupt("the code says that it has " + std::to_string(header.n_stages) + " stages, at most " +
                   std::to_string(QRT_MAX_STAGES) + " are allowed");
  }
  for (size_t i = 0; i < n_programs; ++i) {
    uint32_t entry;
    std::memcpy(&entry, data + sizeof header + i * sizeof entry, sizeof entry);
    if (entry < table.value() || entry >= bytes) {
      return Corrupt("program " + std::to_string(i) + " begins at byte " + std::to_string(entry) +
                     ", expected " + std::to_string(table.value()) + " to " + std::to_string(bytes - 1));
    }
  }
  return Status();
}

}  // namespace

CodeImage::~CodeImage() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

CodeImage& CodeImage::operator=(CodeImage&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<CodeImage> CodeImage::Load(std::span<const uint8_t> code, const Hash128& expected, size_t n_programs) {
  CodeImage image;
  if (code.empty()) return Corrupt("the code is empty");
  void* memory = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Status(Code::kOutOfMemory, 6001,
                  "no memory for the code: " + std::to_string(code.size()) + " bytes");
  }
  image.data_ = static_cast<uint8_t*>(memory);
  image.bytes_ = code.size();
  std::memcpy(image.data_, code.data(), code.size());
  const Hash128 found = HashOf({image.data_, image.bytes_});
  if (found != expected) return Corrupt("the code hashes to " + Hex(found) + ", expected " + Hex(expected));
  QRT_RETURN_IF_ERROR(CheckHeader(image.data_, image.bytes_, n_programs));
  if (mprotect(image.data_, image.bytes_, PROT_READ | PROT_EXEC) != 0) {
    return Status(
        Code::kDeviceUnsupported, 5005,
        std::string("the system refuses executable memory: ") + std::strerror(errno), "",
        "allow this process to map executable pages (SELinux execmem, seccomp or container policy)");
  }
  return image;
}

uint32_t CodeImage::stages() const {
  qrt_code_header header;
  std::memcpy(&header, data_, sizeof header);
  return header.n_stages;
}

CodeImage::Scratch CodeImage::ScratchOf(std::span<const uint8_t> code) {
  qrt_code_header header;
  std::memcpy(&header, code.data(), sizeof header);
  return {header.thread_scratch, header.shared_scratch};
}

qrt_step_fn CodeImage::entry(uint32_t program) const {
  uint32_t offset;
  std::memcpy(&offset, data_ + sizeof(qrt_code_header) + program * sizeof offset, sizeof offset);
  return reinterpret_cast<qrt_step_fn>(data_ + offset);
}

}  // namespace qrt
