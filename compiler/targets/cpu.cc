#include <map>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/lower/EmitBlob.h"
#include "codegen/cpu/lower/LowerToLlvm.h"
#include "compiler/targets/code_error.h"
#include "compiler/targets/targets.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

namespace qcc::compiler {
namespace {

std::vector<LinkedKernel> KernelsOf(const cpu::LoweredPrograms& lowered,
                                    const std::vector<cpu::Blob>& blobs) {
  std::vector<LinkedKernel> kernels;
  std::map<std::string_view, size_t> places;
  for (const cpu::SpecializedKernel& kernel : lowered.kernels) {
    places[kernel.function] = kernels.size();
    kernels.push_back({kernel.function, kernel.specification, {}, {}});
  }
  for (const cpu::Blob& blob : blobs) {
    for (const cpu::BlobFunction& function : blob.functions) {
      const auto place = places.find(function.name);
      if (place == places.end()) continue;  // a program, or a block of it
      kernels[place->second].programs = function.entries;
      kernels[place->second].code_bytes.push_back(function.codeBytes);
    }
  }
  return kernels;
}

}  // namespace

absl::StatusOr<TargetCode> GenerateCpu(const TargetRequest& request) {
  const PipelineOptions& options = request.options;
  mlir::ModuleOp shared = request.plan;
  mlir::OwningOpRef<mlir::ModuleOp> plan = shared.clone();
  mlir::PassManager pm(plan->getContext());
  passes::addCpuPlanPasses(pm);
  if (mlir::failed(pm.run(*plan))) return request.diagnostics.ToStatus("Q3004", "generate code");
  auto lowered = cpu::lowerToLlvm(*plan);
  if (mlir::failed(lowered)) return request.diagnostics.ToStatus("Q3004", "generate code");
  cpu::BlobRequest blob{
      *lowered->module,
      {},
      lowered->entries,
      options.dump_kernels,
      [&request] { return request.sink.Interrupted(); },
      lowered->scratch,
      static_cast<int64_t>(lowered->stages.size()),
      [&request](size_t done, size_t total) { request.sink.Progress(done, total, "pieces"); },
      {},
      {}};
  if (CodeStore* store = request.store) {
    blob.find = [store](const std::string& key) { return store->Find(key); };
    blob.keep = [store](const std::string& key, llvm::ArrayRef<uint8_t> bytes) { store->Keep(key, bytes); };
  }
  for (auto name = options.cpu.rbegin(); name != options.cpu.rend(); ++name) {
    auto isa = cpu::isa_from_name(*name);
    if (!isa) return absl::InternalError(absl::StrCat("unknown ISA level '", *name, "'"));
    blob.isas.push_back(*isa);
  }
  auto blobs = cpu::emitBlobs(blob, std::thread::hardware_concurrency());
  if (!blobs) return CodeError(blobs.takeError(), options.dump_kernels);
  TargetCode code;
  code.kernels = KernelsOf(*lowered, *blobs);
  for (const cpu::ProgramStage& stage : lowered->stages) {
    code.stages.push_back(
        {static_cast<uint32_t>(stage.program), stage.kernel, static_cast<uint64_t>(stage.weightBytes)});
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < blobs->size(); ++i) {
    const cpu::IsaInfo& isa = cpu::isa_info(blob.isas[i]);
    bytes += (*blobs)[i].bytes.size();
    code.variants.push_back({std::string(isa.name),
                             absl::StrSplit(absl::string_view(isa.cpu_flags.data(), isa.cpu_flags.size()),
                                            ' ', absl::SkipEmpty()),
                             std::move((*blobs)[i].bytes)});
  }
  code.summary = absl::StrCat(absl::StrJoin(options.cpu, ", "), "; ", code.kernels.size(), " kernels each, ",
                              CodeBytes(bytes));
  if (request.want_ir) {
    llvm::raw_string_ostream stream(code.ir.emplace_back().second);
    lowered->module->print(stream);
  }
  return code;
}

}  // namespace qcc::compiler
