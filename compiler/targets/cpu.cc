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

namespace qcc::compiler {

absl::StatusOr<TargetCode> GenerateCpu(const TargetRequest& request) {
  const PipelineOptions& options = request.options;
  auto lowered = cpu::lowerToLlvm(request.plan);
  if (mlir::failed(lowered)) return request.diagnostics.ToStatus("Q3004", "generate code");
  cpu::BlobRequest blob{
      *lowered->module,
      {},
      lowered->entries,
      options.dump_kernels,
      [&request] { return request.sink.Interrupted(); },
      lowered->scratchBytes,
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
  if (!blobs) return CodeError(blobs.takeError());
  TargetCode code;
  uint64_t bytes = 0;
  for (size_t i = 0; i < blobs->size(); ++i) {
    const cpu::IsaInfo& isa = cpu::isa_info(blob.isas[i]);
    bytes += (*blobs)[i].size();
    code.variants.push_back({std::string(isa.name),
                             absl::StrSplit(absl::string_view(isa.cpu_flags.data(), isa.cpu_flags.size()),
                                            ' ', absl::SkipEmpty()),
                             std::move((*blobs)[i])});
  }
  code.summary = absl::StrCat(absl::StrJoin(options.cpu, ", "), "; ", lowered->kernelSpecs, " kernels each, ",
                              CodeBytes(bytes));
  if (request.want_ir) {
    llvm::raw_string_ostream stream(code.ir.emplace_back().second);
    lowered->module->print(stream);
  }
  return code;
}

}  // namespace qcc::compiler
