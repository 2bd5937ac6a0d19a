#include "compiler/targets/user_kernels.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "codegen/gpu/glsl/CheckSpirv.h"
#include "codegen/gpu/glsl/CompileGlsl.h"
#include "frontends/base/error.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {
namespace {

constexpr char kExtension[] = ".comp";
constexpr char kPage[] = "docs/replace-a-kernel.md says what a kernel must look like";
constexpr size_t kNearNames = 5;
constexpr size_t kMostBytes = size_t{1} << 20;  // of a source

absl::Status Refuse(const std::string& what, const std::string& path) {
  return MakeError("Q3005", what, path, kPage);
}

absl::StatusOr<std::string> ReadKernel(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; fstat then refuses it.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat found;
  if (descriptor < 0 || fstat(descriptor, &found) != 0) {
    const std::string why = std::strerror(errno);
    if (descriptor >= 0) close(descriptor);
    return Refuse(absl::StrCat("cannot read the kernel: ", why), path);
  }
  std::string text;
  absl::Status status;
  if (!S_ISREG(found.st_mode)) status = Refuse("the kernel is not a regular file", path);
  while (status.ok()) {
    const size_t before = text.size();
    text.resize(kMostBytes + 1);  // one more than is taken shows that there is more
    const ssize_t n = read(descriptor, text.data() + before, text.size() - before);
    if (n < 0) status = Refuse(absl::StrCat("cannot read the kernel: ", std::strerror(errno)), path);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (text.size() > kMostBytes) {
      status = Refuse(absl::StrCat("the kernel is larger than ", kMostBytes, " bytes"), path);
    }
    if (n <= 0) break;
  }
  close(descriptor);
  if (!status.ok()) return status;
  return text;
}

// Insertions, removals and changes of characters that turn one into the other.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view name) {
  // `star`: the last '*' and the place in `name` up to which it has been stretched.
  size_t p = 0, n = 0, star = std::string_view::npos, stretched = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      stretched = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++stretched;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

absl::StatusOr<UserKernels> UserKernels::Open(const std::string& folder) {
  UserKernels kernels;
  if (folder.empty()) return kernels;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return Refuse(absl::StrCat("cannot read the folder of kernels: ", error.message()), folder);
  for (const auto& entry : entries) {
    if (entry.path().extension() != kExtension) continue;
    absl::StatusOr<std::string> text = ReadKernel(entry.path().string());
    if (!text.ok()) return text.status();
    kernels.files_.push_back({entry.path().string(), entry.path().stem().string(), *std::move(text), false});
  }
  if (kernels.files_.empty()) return Refuse("the folder of kernels holds no .comp file", folder);
  std::sort(kernels.files_.begin(), kernels.files_.end(),
            [](const File& a, const File& b) { return a.path < b.path; });
  return kernels;
}

UserKernels::File* UserKernels::Find(const std::string& kernel) {
  File* best = nullptr;
  for (File& file : files_) {
    if (file.pattern == kernel) return &file;
    if (MatchesPattern(file.pattern, kernel) &&
        (best == nullptr || file.pattern.size() > best->pattern.size())) {
      best = &file;
    }
  }
  return best;
}

absl::Status UserKernels::Apply(gpu::LoweredGpu& lowered, const gpu::ProfileInfo& profile) {
  if (files_.empty()) return absl::OkStatus();
  for (gpu::KernelCode& kernel : lowered.code.kernels) {
    kernels_.insert(kernel.name);
    File* file = Find(kernel.name);
    if (file == nullptr) continue;
    auto words = gpu::compileGlsl(file->path, file->text, {kernel.name, kernel.workgroup_size, kernel.n_args},
                                  profile.profile);
    if (!words) return Refuse(llvm::toString(words.takeError()), file->path);
    kernel.spirv = std::move(*words);
    kernel.shared_bytes = gpu::sharedBytesOf(kernel.spirv);
    kernel.entry = "main";
    kernel.source = "glsl";
    file->used = true;
  }
  return absl::OkStatus();
}

absl::Status UserKernels::CheckAllUsed() const {
  for (const File& file : files_) {
    if (file.used) continue;
    std::vector<std::string> names(kernels_.begin(), kernels_.end());
    std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
      return Distance(file.pattern, a) < Distance(file.pattern, b);
    });
    names.resize(std::min(names.size(), kNearNames));
    return Refuse(absl::StrCat("the model has no kernel '", file.pattern,
                               "'; near names: ", absl::StrJoin(names, ", ")),
                  file.path);
  }
  return absl::OkStatus();
}

std::vector<std::string> UserKernels::Paths() const {
  std::vector<std::string> paths;
  paths.reserve(files_.size());
  for (const File& file : files_) paths.push_back(file.path);
  return paths;
}

std::vector<std::pair<std::string, std::string>> UserKernels::Provenance() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const File& file : files_) {
    list.emplace_back(absl::StrCat("kernel ", file.pattern, kExtension),
                      qrt::Hex(qrt::HashOf(
                          std::span(reinterpret_cast<const uint8_t*>(file.text.data()), file.text.size()))));
  }
  return list;
}

}  // namespace qcc::compiler
