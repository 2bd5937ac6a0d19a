#include "codegen/cpu/lower/LinkFlat.h"

#include <string>

#include "lld/Common/Driver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "runtime/base/temporary_name.h"

LLD_HAS_DRIVER(elf);

namespace qcc::cpu {
namespace {
using namespace llvm;

// Nothing in a blob is writable and nothing is resolved at load: what would need either is an error here.
constexpr StringLiteral kScript = R"(
SECTIONS {
  . = 0;
  .blob : { KEEP(*(.qrt_table)) . = ALIGN(64); *(.rodata .rodata.*) . = ALIGN(64); *(.text .text.*) . = ALIGN(64); }
  .forbidden : { *(.data .data.* .bss .bss.* .got .got.* .init_array .ctors .tdata .tbss COMMON) }
  ASSERT(SIZEOF(.forbidden) == 0, "a CPU program must not have writable data")
  /DISCARD/ : { *(.eh_frame) *(.comment) *(.note*) *(.llvm*) *(.debug*) }
}
)";

Error fileError(const Twine& what, std::error_code ec) {
  return createStringError(ec, "linking the code blob: " + what + ": " + ec.message());
}

Error writeFile(StringRef path, StringRef bytes) {
  std::error_code ec;
  raw_fd_ostream out(path, ec);
  if (ec) return fileError("cannot create " + path, ec);
  out << bytes;
  out.close();
  if (std::error_code failed = out.error()) {
    out.clear_error();  // an error that its stream still holds ends the process
    return fileError("cannot write " + path, failed);
  }
  return Error::success();
}

// lld gives its errors as text only. Which of them the system is to blame for is told by what it says.
std::error_code systemError(StringRef messages) {
  for (std::errc known : {std::errc::not_enough_memory, std::errc::no_space_on_device,
                          std::errc::file_too_large, std::errc::too_many_files_open, std::errc::io_error}) {
    const std::error_code code = std::make_error_code(known);
    if (messages.contains(": " + code.message())) return code;
  }
  return inconvertibleErrorCode();
}

// One file of all objects, in their order.
Expected<std::unique_ptr<MemoryBuffer>> archiveOf(ArrayRef<StringRef> objects) {
  std::vector<NewArchiveMember> members;
  for (auto [i, object] : llvm::enumerate(objects)) {
    NewArchiveMember& member = members.emplace_back();
    member.Buf = MemoryBuffer::getMemBuffer(object, "piece", /*RequiresNullTerminator=*/false);
    member.MemberName = member.Buf->getBufferIdentifier();
  }
  return writeArchiveToBuffer(members, SymtabWritingMode::NoSymtab, object::Archive::K_GNU,
                              /*Deterministic=*/true, /*Thin=*/false);
}

}  // namespace

Expected<std::vector<uint8_t>> linkFlat(ArrayRef<StringRef> objects) {
  SmallString<128> dir;
  if (std::error_code ec = sys::fs::createUniqueDirectory("qcc-link", dir))
    return fileError("cannot create a temporary folder", ec);
  scope_exit cleanup([&] { sys::fs::remove_directories(dir); });
  auto inDir = [&](StringRef name) {
    SmallString<128> path(dir);
    sys::path::append(path, name);
    return std::string(path);
  };
  std::string archivePath = inDir("program.a"), scriptPath = inDir("flat.ld"),
              imagePath = inDir("program.bin");
  // The linker's own temporary file is LLVM's to remove.
  const qrt::TemporaryName names[] = {qrt::TemporaryName(std::string(dir)), qrt::TemporaryName(archivePath),
                                      qrt::TemporaryName(scriptPath), qrt::TemporaryName(imagePath)};
  auto archive = archiveOf(objects);
  if (!archive) return archive.takeError();
  if (Error e = writeFile(archivePath, (*archive)->getBuffer())) return e;
  if (Error e = writeFile(scriptPath, kScript)) return e;

  // One thread: the order of work, and so the bytes, cannot depend on the machine.
  const char* args[] = {"ld.lld",
                        "--oformat=binary",
                        "--no-undefined",
                        "--threads=1",
                        "--icf=all",
                        "--ignore-data-address-equality",
                        "-T",
                        scriptPath.c_str(),
                        "--whole-archive",
                        archivePath.c_str(),
                        "-o",
                        imagePath.c_str()};
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(args, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0 || !result.canRunAgain)
    return createStringError(systemError(messages), "linking the code blob: " + StringRef(messages).trim());
  auto image = MemoryBuffer::getFile(imagePath, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!image) return fileError("cannot read the linked image", image.getError());
  StringRef bytes = (*image)->getBuffer();
  return std::vector<uint8_t>(bytes.bytes_begin(), bytes.bytes_end());
}

}  // namespace qcc::cpu
