// The GPU targets: one code section for each profile.
#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "codegen/gpu/lower/Backends.h"
#include "codegen/gpu/lower/EmitKernels.h"
#include "codegen/gpu/lower/LowerToLaunches.h"
#include "compiler/artifact/gpu_code_section.h"
#include "compiler/targets/code_error.h"
#include "compiler/targets/targets.h"
#include "compiler/targets/user_kernels.h"
#include "frontends/base/error.h"

namespace qcc::compiler {
namespace {

// Where the kernels of a profile are dumped; empty when they are not.
absl::StatusOr<std::string> DumpFolder(const TargetRequest& request, const gpu::ProfileInfo& profile) {
  if (request.options.dump_kernels.empty()) return std::string();
  const auto path = std::filesystem::path(request.options.dump_kernels) /
                    absl::StrCat(profile.target, "-", profile.profile.name);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return MakeError("Q6002", absl::StrCat("cannot make the folder: ", error.message()), path.string(),
                     "name a folder that can be written into");
  }
  return path.string();
}

}  // namespace

absl::StatusOr<TargetCode> GenerateGpu(const gpu::Backend& backend, const TargetRequest& request) {
  std::vector<const gpu::ProfileInfo*> profiles;
  for (const gpu::ProfileInfo& profile : gpu::Profiles()) {
    const auto& wanted = request.options.gpu_profiles;
    if (backend.target == profile.target &&
        std::find(wanted.begin(), wanted.end(), profile.profile.name) != wanted.end()) {
      profiles.push_back(&profile);
    }
  }
  absl::StatusOr<UserKernels> user = UserKernels::Open(backend.userKernels ? request.options.kernels : "");
  if (!user.ok()) return user.status();
  TargetCode code;
  std::vector<std::string> names;
  uint64_t bytes = 0, kernels = 0;
  for (size_t p = 0; p < profiles.size(); ++p) {
    const gpu::ProfileInfo& profile = *profiles[p];
    auto lowered =
        gpu::lowerToLaunches(request.plan, profile,
                             {.choosable = request.choosable,
                              .alone = [&](const std::string& kernel) { return user->Replaces(kernel); },
                              .seen = {}});
    if (mlir::failed(lowered)) return request.diagnostics.ToStatus("Q3003", "generate code");
    if (absl::Status s = user->Apply(*lowered, profile); !s.ok()) return s;
    auto dump = DumpFolder(request, profile);
    if (!dump.ok()) return dump.status();
    gpu::EmitRequest emit{profile, std::thread::hardware_concurrency(), *dump, request.want_ir, {}, {}, {}};
    if (CodeStore* store = request.store) {
      emit.find = [store](const std::string& key) { return store->Find(key); };
      emit.keep = [store](const std::string& key, llvm::ArrayRef<uint8_t> bytes) { store->Keep(key, bytes); };
    }
    emit.progress = [&](size_t done, size_t total) {
      // Profiles have about as many kernels each.
      request.sink.Progress(p * total + done, profiles.size() * total, "kernels");
      return !request.sink.Interrupted();
    };
    auto ir = gpu::emitKernels(*lowered, emit);
    if (!ir) return CodeError(ir.takeError(), request.options.dump_kernels);
    if (request.want_ir) code.ir.emplace_back("-" + profile.profile.name, std::move(*ir));
    kernels = std::max<uint64_t>(kernels, lowered->code.kernels.size());
    names.push_back(profile.profile.name);
    code.variants.push_back({profile.profile.name, profile.features, BuildGpuCodeSection(lowered->code)});
    bytes += code.variants.back().bytes.size();
  }
  if (absl::Status s = user->CheckAllUsed(); !s.ok()) return s;
  code.provenance = user->Provenance();
  code.summary = absl::StrCat(absl::StrJoin(names, ", "), "; ", kernels, " kernels each, ", CodeBytes(bytes));
  return code;
}

}  // namespace qcc::compiler
