#include "compiler/pipeline/pipeline.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/content_hash.h"
#include "compiler/artifact/tokenizer_section.h"
#include "compiler/artifact/writer.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/goldens.h"
#include "compiler/pipeline/plan_manifest.h"
#include "compiler/pipeline/weights_section.h"
#include "compiler/targets/code_error.h"
#include "compiler/targets/targets.h"
#include "dialects/plan/PlanSummary.h"
#include "frontends/gguf/error.h"
#include "frontends/gguf/gguf.h"
#include "frontends/models/import.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Passes.h"

namespace qcc::compiler {
namespace {

// One compile: every stage is a method, Run tells the story.
class Compilation {
 public:
  Compilation(const PipelineOptions& options, ProgressSink& sink) : options_(options), sink_(sink) {
    // One thread: the order of what passes say and do never depends on the machine.
    context_.disableMultithreading();
  }

  absl::Status Run() {
    for (auto stage : {&Compilation::Read, &Compilation::Import, &Compilation::Fuse, &Compilation::Plan,
                       &Compilation::Generate, &Compilation::Write}) {
      if (sink_.Interrupted()) return absl::CancelledError("interrupted");
      if (absl::Status s = (this->*stage)(); !s.ok()) {
        // What fails after a Ctrl-C may have failed because of it: LLVM removes its temporary files then.
        return sink_.Interrupted() ? absl::CancelledError("interrupted") : s;
      }
      if (stopped_) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Read();
  absl::Status Import();
  absl::Status ReadText();
  absl::Status Fuse();
  absl::Status Plan();
  absl::Status Generate();
  absl::Status Write();

  int Stages() const { return 5 + static_cast<int>(options_.targets.size()); }
  absl::Status EndPhase(CompilePhase phase, mlir::ModuleOp module, std::string summary);
  bool WantsIr(CompilePhase phase) const { return !options_.dump_ir.empty() || options_.compile_to == phase; }
  absl::Status ShowIr(CompilePhase phase, std::string_view suffix, const std::string& text);
  void ReportFusion(const std::vector<DiagnosticCollector::Remark>& remarks);
  std::string FusionSummary(const std::vector<DiagnosticCollector::Remark>& remarks) const;
  std::string ModelName();
  ProvenanceSpec Provenance() const;

  const PipelineOptions& options_;
  ProgressSink& sink_;
  mlir::MLIRContext context_;
  std::unique_ptr<gguf::File> file_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;  // hir, then plan
  struct {
    SamplingSpec sampling;
    std::optional<TokenizerSection> tokenizer;
    std::optional<std::string> chat;
  } text_;
  std::vector<uint8_t> goldens_;
  std::vector<std::pair<std::string, TargetCode>> code_;  // by target, in the order of the artifact
  bool stopped_ = false;                                  // compile_to was reached
};

absl::Status Compilation::Read() {
  sink_.BeginStage(1, Stages(), "read model");
  auto file = gguf::File::Open(options_.input);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  sink_.EndStage(absl::StrCat(file_->tensors().size(), " tensors, ", CodeBytes(file_->size())));
  return absl::OkStatus();
}

absl::Status Compilation::Import() {
  sink_.BeginStage(2, Stages(), "import");
  DiagnosticCollector diagnostics(context_);
  models::ImportOptions import;
  import.kv = options_.kv == KvMode::kF16 ? models::KvElement::kF16 : models::KvElement::kF32;
  import.l2_norm = options_.l2_norm == L2NormMode::kMax ? models::L2Norm::kMax : models::L2Norm::kSum;
  auto imported = models::ImportModel(context_, *file_, import);
  if (!imported.ok()) return imported.status();
  for (const std::string& warning : imported->warnings) sink_.Warning(warning);
  module_ = std::move(imported->module);
  mlir::PassManager pm(&context_);
  pm.addPass(passes::createVerifyModelContract());
  if (mlir::failed(pm.run(*module_))) return diagnostics.ToStatus("Q3001", "import");
  if (options_.compile_to == CompilePhase::kArtifact) {
    if (absl::Status s = ReadText(); !s.ok()) return s;
  }
  size_t blocks = 0;
  for (auto func : module_->getOps<mlir::func::FuncOp>()) blocks += func.isPrivate();
  return EndPhase(CompilePhase::kImport, *module_, absl::StrCat(blocks, " distinct blocks"));
}

// Before the long stages: what the file says wrongly of its text is refused at once.
absl::Status Compilation::ReadText() {
  const auto vocab = (*module_)->getAttrOfType<mlir::IntegerAttr>("hir.vocab_size");
  std::vector<std::string> warnings;
  auto sampling = ReadSampling(*file_, warnings);
  if (!sampling.ok()) return sampling.status();
  for (const std::string& warning : warnings) sink_.Warning(warning);
  auto tokenizer = BuildTokenizerSection(*file_, static_cast<uint32_t>(vocab.getInt()));
  if (!tokenizer.ok()) return tokenizer.status();
  auto chat = ReadChatTemplate(*file_);
  if (!chat.ok()) return chat.status();
  text_ = {*sampling, *std::move(tokenizer), *std::move(chat)};
  return absl::OkStatus();
}

absl::Status Compilation::Fuse() {
  sink_.BeginStage(3, Stages(), "fuse");
  DiagnosticCollector diagnostics(context_);
  mlir::PassManager pm(&context_);
  passes::addFusionPasses(pm, options_.numerics == NumericsMode::kInt8);
  if (mlir::failed(pm.run(*module_))) return diagnostics.ToStatus("Q3002", "fuse");
  if (options_.report_fusion) ReportFusion(diagnostics.remarks());
  // The plan replaces the hir functions, so what they say is taken down here.
  if (options_.compile_to == CompilePhase::kArtifact) {
    if (absl::Status s = CheckWeights(*module_, *file_, sink_); !s.ok()) return s;
    auto goldens = MakeGoldens(*module_, *file_, options_.numerics, diagnostics, sink_);
    if (!goldens.ok()) return goldens.status();
    goldens_ = *std::move(goldens);
  }
  return EndPhase(CompilePhase::kFuse, *module_, FusionSummary(diagnostics.remarks()));
}

std::string Compilation::FusionSummary(const std::vector<DiagnosticCollector::Remark>& remarks) const {
  auto count = [&](std::string_view verb) {
    return std::count_if(remarks.begin(), remarks.end(),
                         [&](const auto& r) { return r.text.rfind(verb, 0) == 0; });
  };
  return absl::StrCat(count("fused"), " groups, ", count("missed"), " missed");
}

// One line per group, in the order of the model: what, where, and for a miss why.
void Compilation::ReportFusion(const std::vector<DiagnosticCollector::Remark>& remarks) {
  std::string text;
  for (const char* verb : {"fused ", "missed "}) {
    for (const DiagnosticCollector::Remark& remark : remarks) {
      if (remark.text.rfind(verb, 0) != 0) continue;
      absl::StrAppend(&text, remark.text, remark.place.empty() ? "" : "  at ", remark.place, "\n");
    }
  }
  sink_.Report(text);
}

absl::Status Compilation::Plan() {
  sink_.BeginStage(4, Stages(), "plan");
  DiagnosticCollector diagnostics(context_);
  mlir::PassManager pm(&context_);
  passes::BuildPlanOptions plan;
  plan.decode.assign(options_.decode_buckets.begin(), options_.decode_buckets.end());
  plan.prefill.assign(options_.prefill_buckets.begin(), options_.prefill_buckets.end());
  passes::addPlanPasses(pm, plan);
  if (mlir::failed(pm.run(*module_))) return diagnostics.ToStatus("Q3003", "plan");
  plan::PlanSummary summary = plan::summarize(*module_);
  return EndPhase(
      CompilePhase::kPlan, *module_,
      absl::StrCat(summary.programs.size(), " programs, ", CodeBytes(summary.weightBytes), " of weights"));
}

absl::Status Compilation::Generate() {
  int stage = 5;
  for (const std::string& name : options_.targets) {
    if (sink_.Interrupted()) return absl::CancelledError("interrupted");
    sink_.BeginStage(stage++, Stages(), absl::StrCat("generate ", name, " code"));
    DiagnosticCollector diagnostics(context_);
    const TargetInfo* target = FindTarget(name);
    if (target == nullptr) return absl::InternalError(absl::StrCat("unknown target '", name, "'"));
    auto code = target->generate({*module_, options_, WantsIr(CompilePhase::kCode), diagnostics, sink_});
    if (!code.ok()) return code.status();
    sink_.EndStage(code->summary);
    for (const auto& [suffix, text] : code->ir) {
      if (absl::Status s = ShowIr(CompilePhase::kCode, suffix, text); !s.ok()) return s;
    }
    code->ir.clear();
    code_.emplace_back(name, *std::move(code));
  }
  stopped_ = options_.compile_to == CompilePhase::kCode;
  return absl::OkStatus();
}

// The name that people read, cut to what the runtime takes (runtime/artifact/manifest.cc).
std::string Compilation::ModelName() {
  constexpr size_t kMaxBytes = 1 << 16;
  auto name = file_->GetString("general.name");
  if (!name.ok()) return "";
  if (name->size() <= kMaxBytes) return std::string(*name);
  size_t end = kMaxBytes;
  while (end > 0 && (static_cast<uint8_t>((*name)[end]) & 0xc0) == 0x80) --end;  // not within a character
  sink_.Warning(
      absl::StrCat("general.name has ", name->size(), " bytes, at most ", kMaxBytes, " are kept: it is cut"));
  return std::string(name->substr(0, end));
}

ProvenanceSpec Compilation::Provenance() const {
  ProvenanceSpec p;
  p.compiler = CompilerVersion();
  p.options = {{"decode", absl::StrJoin(options_.decode_buckets, ",")},
               {"kv", options_.kv == KvMode::kF16 ? "f16" : "f32"},
               {"l2_norm", options_.l2_norm == L2NormMode::kMax ? "max" : "sum"},
               {"numerics", options_.numerics == NumericsMode::kInt8 ? "int8" : "f32"},
               {"prefill", absl::StrJoin(options_.prefill_buckets, ",")},
               {"target", absl::StrJoin(options_.targets, ",")}};
  if (!options_.cpu.empty()) p.options.emplace_back("cpu", absl::StrJoin(options_.cpu, ","));
  if (!options_.gpu_profiles.empty()) {
    p.options.emplace_back("delta_rule",
                           options_.delta_rule == DeltaRuleMode::kChunked ? "chunked" : "exact");
    p.options.emplace_back("gpu_profiles", absl::StrJoin(options_.gpu_profiles, ","));
  }
  for (const auto& [target, code] : code_) {
    p.options.insert(p.options.end(), code.provenance.begin(), code.provenance.end());
  }
  p.source_name = std::filesystem::path(options_.input).filename().string();
  p.source_bytes = file_->size();
  p.source_hash = HashOf(file_->bytes());
  return p;
}

absl::Status Compilation::Write() {
  sink_.BeginStage(Stages(), Stages(), "pack weights");
  ManifestSpec manifest;
  DescribePlan(*module_, manifest);
  manifest.name = ModelName();
  manifest.numerics = options_.numerics == NumericsMode::kInt8 ? SpecNumerics::kInt8 : SpecNumerics::kF32;
  manifest.kv_element = options_.kv == KvMode::kF16 ? SpecElement::kF16 : SpecElement::kF32;
  manifest.formats = SummarizeFormats(*module_, *file_);
  manifest.sampling = text_.sampling;
  manifest.provenance = Provenance();

  auto writer = ArtifactWriter::Create(options_.output);
  if (!writer.ok()) return writer.status();
  ArtifactWriter& out = **writer;
  for (auto& [target, generated] : code_) {
    for (CodeVariant& variant : generated.variants) {
      auto section = out.AddSection(QBIN_SECTION_CODE, variant.bytes);
      if (!section.ok()) return section.status();
      CodeSpec code;
      code.target = target;
      code.isa = std::move(variant.isa);
      code.features = std::move(variant.features);
      code.section = *section;
      manifest.code.push_back(std::move(code));
    }
  }
  if (text_.tokenizer) {
    auto section = out.AddSection(QBIN_SECTION_TOKENIZER, text_.tokenizer->bytes);
    if (!section.ok()) return section.status();
    manifest.tokenizer = text_.tokenizer->spec;
    manifest.tokenizer->section = *section;
  }
  if (text_.chat) {
    auto text = std::span(reinterpret_cast<const uint8_t*>(text_.chat->data()), text_.chat->size());
    auto section = out.AddSection(QBIN_SECTION_CHAT_TEMPLATE, text);
    if (!section.ok()) return section.status();
    manifest.chat_template_section = *section;
  }
  auto goldens = out.AddSection(QBIN_SECTION_GOLDENS, goldens_);
  if (!goldens.ok()) return goldens.status();
  manifest.goldens_section = *goldens;
  auto weights =
      out.AddStream(QBIN_SECTION_WEIGHTS, manifest.weights_bytes, [&](ArtifactWriter::Append append) {
        return WriteWeights(*module_, manifest.weights_bytes, *file_, sink_, append);
      });
  if (!weights.ok()) return weights.status();
  for (CodeSpec& code : manifest.code) code.weights_section = *weights;
  if (absl::Status s = out.Finish(manifest); !s.ok()) return s;
  sink_.EndStage(
      absl::StrCat(CodeBytes(manifest.weights_bytes), " of weights, ", CodeBytes(out.size()), " in all"));
  return absl::OkStatus();
}

// Ends a stage: dumps its IR where asked, shows it and stops where --compile-to says so.
absl::Status Compilation::EndPhase(CompilePhase phase, mlir::ModuleOp module, std::string summary) {
  sink_.EndStage(summary);
  if (!WantsIr(phase)) return absl::OkStatus();
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stopped_ = options_.compile_to == phase;
  return ShowIr(phase, "", text);
}

absl::Status Compilation::ShowIr(CompilePhase phase, std::string_view suffix, const std::string& text) {
  if (!options_.dump_ir.empty()) {
    auto path =
        std::filesystem::path(options_.dump_ir) /
        absl::StrCat(static_cast<int>(phase) + 1, "-", Name(phase).data(), std::string(suffix), ".mlir");
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out)
      return MakeError("Q6002", "cannot write the IR dump", path.string(),
                       "is the folder there and writable?");
  }
  if (options_.compile_to == phase) sink_.Report(text);
  return absl::OkStatus();
}

}  // namespace

std::string CompilerVersion() {
  return "qcc " QCC_VERSION " (LLVM " LLVM_VERSION_STRING ")";
}

absl::Status CompileModel(const PipelineOptions& options, ProgressSink& sink) {
  return Compilation(options, sink).Run();
}

}  // namespace qcc::compiler
