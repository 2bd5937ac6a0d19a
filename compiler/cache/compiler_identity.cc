#include "compiler/cache/compiler_identity.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "frontends/base/text.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {
namespace {

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

int AddLibrary(dl_phdr_info* info, size_t, void* names) {
  if (info->dlpi_name != nullptr && *info->dlpi_name == '/') {
    static_cast<std::vector<std::string>*>(names)->push_back(info->dlpi_name);
  }
  return 0;
}

}  // namespace

CompilerIdentity IdentifyCompiler(const std::string& version) {
  constexpr char kProgram[] = "/proc/self/exe";
  CompilerIdentity identity;
  const auto program = qrt::FileMap::Open(kProgram);
  if (!program.ok()) return identity;
  qrt::Hasher hasher;
  hasher.Update(BytesOf(version));
  hasher.Update(program->bytes());
  std::vector<std::string> libraries;
  dl_iterate_phdr(AddLibrary, &libraries);
  std::sort(libraries.begin(), libraries.end());
  for (const std::string& library : libraries) {
    const auto stamp = qrt::aot::FileStamp::Of(library);
    if (!stamp) return identity;
    // Not by inode or change: the same package installed elsewhere is the same compiler.
    hasher.Update(BytesOf(
        Concat(library, " ", std::to_string(stamp->bytes), " ", std::to_string(stamp->modified), "\n")));
    identity.files.emplace_back(library, *stamp);
  }
  const std::unique_ptr<char, void (*)(void*)> path(realpath(kProgram, nullptr), std::free);
  const auto stamp = path ? qrt::aot::FileStamp::Of(path.get()) : std::nullopt;
  if (!stamp) return identity;
  identity.files.emplace_back(path.get(), *stamp);
  identity.hash = qrt::Hex(hasher.Finish());
  return identity;
}

}  // namespace qcc::compiler
