#include "compiler/cache/compiler_identity.h"

#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
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

std::string CompilerIdentity(const std::string& version) {
  const auto program = qrt::FileMap::Open("/proc/self/exe");
  if (!program.ok()) return "";
  qrt::Hasher hasher;
  hasher.Update(BytesOf(version));
  hasher.Update(program->bytes());
  std::vector<std::string> libraries;
  dl_iterate_phdr(AddLibrary, &libraries);
  std::sort(libraries.begin(), libraries.end());
  for (const std::string& library : libraries) {
    struct stat found;
    if (stat(library.c_str(), &found) != 0) return "";
    hasher.Update(
        BytesOf(Concat(library, " ", std::to_string(found.st_size), " ", std::to_string(found.st_mtim.tv_sec),
                       ".", std::to_string(found.st_mtim.tv_nsec), "\n")));
  }
  return qrt::Hex(hasher.Finish());
}

}  // namespace qcc::compiler
