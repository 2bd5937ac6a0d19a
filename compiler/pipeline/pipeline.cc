#include "compiler/pipeline/pipeline.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/file_text.h"
#include "compiler/artifact/output_file.h"
#include "compiler/artifact/text_defaults.h"
#include "compiler/artifact/tokenizer_section.h"
#include "compiler/artifact/writer.h"
#include "compiler/cache/cache_folder.h"
#include "compiler/cache/code_store.h"
#include "compiler/cache/compiler_identity.h"
#include "compiler/cache/source_hash.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/finite.h"
#include "compiler/pipeline/fusion_report.h"
#include "compiler/pipeline/goldens.h"
#include "compiler/pipeline/layer_parts.h"
#include "compiler/pipeline/layout_plans.h"
#include "compiler/pipeline/model_options.h"
#include "compiler/pipeline/plan_manifest.h"
#include "compiler/pipeline/plan_report.h"
#include "compiler/pipeline/strict_sink.h"
#include "compiler/pipeline/weights_section.h"
#include "compiler/targets/code_error.h"
#include "compiler/targets/targets.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/plan/PlanSummary.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/gguf.h"
#include "frontends/models/import.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Passes.h"
#include "passes/ValueRoles.h"
#include "runtime/abi/program.h"
#include "runtime/abi/qbin.h"
#include "runtime/aot/cache_layout.h"
#include "runtime/artifact/artifact.h"

namespace qcc::compiler {
namespace {

constexpr size_t kRecordedWarnings = 16;  // in the provenance, which also says how many more there were

// One compile: every stage is a method, Run tells the story.
class Compilation {
 public:
  // `model`: null, or already open.
  Compilation(const PipelineOptions& options, ProgressSink& sink, std::span<const TargetInfo> targets,
              std::unique_ptr<gguf::File> model, RoomForWeights room)
      : options_(options),
        sink_(sink, options.strict),
        targets_(targets),
        file_(std::move(model)),
        room_(std::move(room)) {
    if (!room_) room_ = [&options](uint64_t bytes) { return CheckOutput(options.output, "", bytes); };
    // One thread: the order of what passes say and do never depends on the machine.
    context_.disableMultithreading();
  }

  absl::Status Run() {
    for (auto stage : {&Compilation::Read, &Compilation::Import, &Compilation::Fuse, &Compilation::Plan,
                       &Compilation::Generate, &Compilation::Write}) {
      if (sink_.Interrupted()) return absl::CancelledError("interrupted");
      if (absl::Status s = (this->*stage)(); !s.ok()) return CauseOf(s);
      if (absl::Status s = sink_.Refusal(options_.input); !s.ok()) return s;
      if (stopped_) return file_->CheckUnchanged();
    }
    return absl::OkStatus();
  }

  // Of the artifact, after Run.
  const CompiledModel& made() const { return made_; }

 private:
  // What fails after a Ctrl-C may have failed because of it: LLVM removes its temporary files then. And so
  // may what fails after the model was written to.
  absl::Status CauseOf(absl::Status failure) const {
    if (sink_.Interrupted()) return absl::CancelledError("interrupted");
    if (file_ == nullptr) return failure;
    absl::Status changed = file_->CheckUnchanged();
    return changed.ok() ? failure : changed;
  }
  absl::Status Read();
  absl::Status Import();
  absl::Status ReadText();
  absl::Status Fuse();
  absl::Status Plan();
  absl::Status OpenStore();
  std::string FromStore(size_t found, size_t missed) const;
  absl::Status Generate();
  absl::Status Write();

  int Stages() const {
    const size_t codes = options_.in_parts() ? options_.layers.size() : options_.targets.size();
    return 5 + static_cast<int>(codes);
  }
  // What code is made of: a target and its plan, in the order of the artifact.
  struct CodeOf {
    std::string target;
    const LayoutPlan* plan = nullptr;
    std::string suffix;  // of what is dumped and shown of it
  };
  std::vector<CodeOf> CodesToMake() const;
  absl::StatusOr<TargetCode> GenerateOne(const CodeOf& of, DiagnosticCollector& diagnostics);
  absl::Status WriteAllCode(ArtifactWriter& out, ManifestSpec& manifest);
  absl::Status WriteAllWeights(ArtifactWriter& out, ManifestSpec& manifest, WeightsProgress shown);
  absl::Status EndPhase(CompilePhase phase, mlir::ModuleOp module, std::string_view summary);
  absl::Status ShowModule(CompilePhase phase, std::string_view suffix, mlir::ModuleOp module);
  bool Wants(ReportKind kind) const {
    return std::find(options_.reports.begin(), options_.reports.end(), kind) != options_.reports.end();
  }
  // The report of memory, once: with what the code takes where code is made.
  void ReportMemory();
  bool WantsIr(CompilePhase phase) const { return !options_.dump_ir.empty() || options_.compile_to == phase; }
  absl::Status ShowIr(CompilePhase phase, std::string_view suffix, const std::string& text);
  void WarnOfFile(std::string text);
  ProvenanceSpec Provenance() const;  // all but the source's hash

  std::vector<uint32_t> Choosable() const {
    return text_.tokenizer ? text_.tokenizer->choosable : std::vector<uint32_t>();
  }

  const PipelineOptions& options_;
  StrictSink sink_;
  std::span<const TargetInfo> targets_;
  mlir::MLIRContext context_;
  std::unique_ptr<gguf::File> file_;
  RoomForWeights room_;
  CompiledModel made_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;  // hir
  std::vector<LayoutPlan> plans_;             // what became of it
  struct {
    SamplingSpec sampling;
    std::optional<TokenizerSection> tokenizer;
    std::optional<std::string> chat;
    std::string name;  // of the model
  } text_;
  std::vector<std::string> warnings_;  // about the file
  Goldens goldens_;
  std::vector<passes::LostRole> lost_roles_;
  std::unique_ptr<CodeStore> store_;
  std::vector<std::pair<CodeOf, TargetCode>> code_;  // in the order of the artifact
  bool stopped_ = false;                             // compile_to was reached
};

absl::Status Compilation::Read() {
  sink_.BeginStage(1, Stages(), "read model");
  if (file_ == nullptr) {
    auto file = models::OpenModel(options_.input, options_.mtp);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
  }
  if (options_.compile_to == CompilePhase::kArtifact) {
    if (absl::Status s = CheckIsNotOf(options_.output, *file_); !s.ok()) return s;
    if (absl::Status s = CheckOutput(options_.output, "", 0); !s.ok()) return s;
  }
  // Ahead of the long stages, as a folder that was named may be of no use.
  if (options_.compile_to >= CompilePhase::kCode) {
    if (absl::Status s = OpenStore(); !s.ok()) return s;
  }
  sink_.EndStage(absl::StrCat(file_->tensors().size(), " tensors, ", CodeBytes(file_->size())));
  return absl::OkStatus();
}

absl::Status Compilation::Import() {
  sink_.BeginStage(2, Stages(), "import");
  DiagnosticCollector diagnostics(context_);
  models::ImportOptions import;
  import.kv = options_.kv == KvMode::kF16 ? models::KvElement::kF16 : models::KvElement::kF32;
  import.l2_norm = options_.l2_norm == L2NormMode::kMax ? models::L2Norm::kMax : models::L2Norm::kSum;
  import.draft = options_.draft;
  import.draft_vocabulary = options_.draft_vocab;
  auto imported = models::ImportModel(context_, *file_, import);
  if (!imported.ok()) return imported.status();
  for (const std::string& warning : imported->warnings) WarnOfFile(warning);
  module_ = std::move(imported->module);
  mlir::PassManager pm(&context_);
  pm.addPass(passes::createVerifyModelContract());
  if (mlir::failed(pm.run(*module_))) return diagnostics.ToStatus("Q3001", "import");
  for (const std::string& warning : OptionsWithoutEffect(options_, PartsOfModel(*module_))) {
    sink_.Warning(warning);
  }
  if (options_.compile_to == CompilePhase::kArtifact || options_.compile_to == CompilePhase::kCode) {
    if (absl::Status s = ReadText(); !s.ok()) return s;
  }
  if (auto trunk = module_->lookupSymbol<mlir::func::FuncOp>(llvm::StringRef(models::kTrunkFunction))) {
    auto layers = trunk.getOps<mlir::func::CallOp>();
    const absl::Status all =
        CheckLayerParts(options_.layers, std::distance(layers.begin(), layers.end()), file_->path());
    if (!all.ok()) return all;
  }
  size_t blocks = 0;
  for (auto func : module_->getOps<mlir::func::FuncOp>()) blocks += func.isPrivate();
  return EndPhase(CompilePhase::kImport, *module_, absl::StrCat(blocks, " distinct blocks"));
}

// Before the long stages: what the file says wrongly of its text is refused at once.
absl::Status Compilation::ReadText() {
  const auto vocab = (*module_)->getAttrOfType<mlir::IntegerAttr>(hir::kVocabSize);
  std::vector<std::string> warnings;
  auto sampling = ReadSampling(*file_, warnings);
  if (!sampling.ok()) return sampling.status();
  auto tokenizer = BuildTokenizerSection(*file_, static_cast<uint32_t>(vocab.getInt()), warnings);
  if (!tokenizer.ok()) return tokenizer.status();
  auto chat = ReadChatTemplate(*file_, warnings);
  if (!chat.ok()) return chat.status();
  std::string name = options_.name.empty() ? ReadModelName(*file_, warnings) : options_.name;
  for (const std::string& warning : warnings) WarnOfFile(warning);
  text_ = {*sampling, *std::move(tokenizer), *std::move(chat), std::move(name)};
  return absl::OkStatus();
}

absl::Status Compilation::Fuse() {
  sink_.BeginStage(3, Stages(), "fuse");
  DiagnosticCollector diagnostics(context_);
  if (absl::Status s = CheckFunctionsOf(*module_, options_); !s.ok()) return s;
  mlir::PassManager pm(&context_);
  const bool chosen_last_ffn = options_.made_last_ffn() == LastFfnMode::kChosen;
  const auto traces = options_.traceable == TraceMode::kAll ? passes::Traces::kAll
                      : options_.traced()                   ? passes::Traces::kLayers
                                                            : passes::Traces::kNone;
  passes::addFusionPasses(pm, options_.numerics == NumericsMode::kInt8, options_.functions, chosen_last_ffn,
                          traces);
  if (mlir::failed(pm.run(*module_))) return diagnostics.ToStatus("Q3002", "fuse");
  lost_roles_ = passes::lostRoles(*module_);
  if (Wants(ReportKind::kFusion)) sink_.Report(FusionReport(diagnostics.remarks(), options_.report_form));
  if (absl::Status s = CheckRequiredFusion(options_.require_fused, diagnostics.remarks(), file_->path());
      !s.ok())
    return s;
  std::string summary = FusionSummary(diagnostics.remarks());
  // The plan replaces the hir functions, so what they say is taken down here.
  if (options_.compile_to == CompilePhase::kArtifact) {
    if (absl::Status s = room_(NamedWeightBytes(*module_)); !s.ok()) return s;
    const auto show = [this](uint64_t done, uint64_t total) { sink_.Progress(done, total, "B"); };
    const auto interrupted = [this] { return sink_.Interrupted(); };
    if (absl::Status s = CheckWeights(*module_, *file_, interrupted, show); !s.ok()) return s;
    auto goldens = MakeGoldens(*module_, *file_, options_, diagnostics, sink_);
    if (!goldens.ok()) return goldens.status();
    goldens_ = *std::move(goldens);
    absl::StrAppend(&summary, "; ", goldens_.summary);
  }
  return EndPhase(CompilePhase::kFuse, *module_, summary);
}

absl::Status Compilation::Plan() {
  sink_.BeginStage(4, Stages(), "plan");
  DiagnosticCollector diagnostics(context_);
  std::vector<std::string> names = options_.targets;
  if (options_.in_parts()) {
    names.clear();
    for (const LayerPart& part : options_.layers) names.push_back(part.target);
  }
  std::vector<const TargetInfo*> targets;
  for (const std::string& name : names) {
    targets.push_back(FindTarget(name, targets_));
    if (targets.back() == nullptr) return absl::InternalError(absl::StrCat("unknown target '", name, "'"));
  }
  const auto plan_all = options_.in_parts() ? PlanParts : PlanForTargets;
  auto plans = plan_all(std::move(module_), targets, options_, diagnostics);
  if (!plans.ok()) return plans.status();
  plans_ = *std::move(plans);
  const uint64_t bytes = PackedWeightBytes(plans_);
  if (options_.compile_to == CompilePhase::kArtifact) {
    if (absl::Status s = room_(bytes); !s.ok()) return s;
  }
  const char* kind = options_.in_parts() ? " parts" : " layouts";
  const std::string several = plans_.size() == 1 ? "" : absl::StrCat(" in ", plans_.size(), kind);
  sink_.EndStage(
      absl::StrCat(CountPrograms(plans_), " programs, ", CodeBytes(bytes), " of weights", several));
  if (options_.compile_to == CompilePhase::kPlan) ReportMemory();
  if (Wants(ReportKind::kFormats)) {
    sink_.Report(FormatsReport(plans_, *file_, options_.report_form));
  }
  for (const LayoutPlan& plan : plans_) {
    const std::string part = options_.in_parts() ? absl::StrCat("-part", &plan - plans_.data()) : "";
    const std::string suffix =
        plans_.size() == 1 ? "" : absl::StrCat(part, "-", absl::StrJoin(plan.targets, "+"));
    if (absl::Status s = ShowModule(CompilePhase::kPlan, suffix, *plan.module); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Code is taken from the cache's folder, and kept there. Without one, or where the usual one cannot be used,
// all of it is made.
absl::Status Compilation::OpenStore() {
  if (options_.no_cache || options_.cache_dir.empty()) return absl::OkStatus();
  std::string identity = IdentifyCompiler(CompilerVersion()).hash;
  if (identity.empty()) return absl::OkStatus();
  auto store = CodeStore::Open(qrt::aot::CodeFolder(options_.cache_dir), std::move(identity));
  if (store.ok()) {
    store_ = *std::move(store);
  } else if (std::find(options_.given.begin(), options_.given.end(), "cache_dir") != options_.given.end()) {
    return store.status();
  }
  return absl::OkStatus();
}

// Says how much of a target's code was there already.
std::string Compilation::FromStore(size_t found, size_t missed) const {
  if (store_ == nullptr || store_->found() == found) return "";
  found = store_->found() - found;
  return absl::StrCat("; ", found, " of ", found + store_->missed() - missed, " pieces were kept");
}

std::vector<Compilation::CodeOf> Compilation::CodesToMake() const {
  std::vector<CodeOf> codes;
  if (options_.in_parts()) {
    for (size_t i = 0; i < plans_.size(); ++i) {
      codes.push_back({options_.layers[i].target, &plans_[i], absl::StrCat("-part", i)});
    }
  } else {
    for (const std::string& name : options_.targets) codes.push_back({name, &PlanOf(plans_, name), ""});
  }
  return codes;
}

absl::StatusOr<TargetCode> Compilation::GenerateOne(const CodeOf& of, DiagnosticCollector& diagnostics) {
  PipelineOptions options = options_;
  if (!options.dump_kernels.empty() && !of.suffix.empty()) {
    // Parts have kernels of the same names.
    const auto folder = std::filesystem::path(options.dump_kernels) / of.suffix.substr(1);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return MakeError("Q6002", absl::StrCat("cannot make the folder: ", error.message()), folder.string(),
                       "name a folder that can be written into");
    }
    options.dump_kernels = folder.string();
  }
  return FindTarget(of.target, targets_)
      ->generate({*of.plan->module, options, WantsIr(CompilePhase::kCode), diagnostics, sink_, Choosable(),
                  store_.get()});
}

absl::Status Compilation::Generate() {
  int stage = 5;
  for (CodeOf& of : CodesToMake()) {
    if (sink_.Interrupted()) return absl::CancelledError("interrupted");
    const std::string part = of.suffix.empty() ? "" : absl::StrCat(" for ", of.suffix.substr(1));
    sink_.BeginStage(stage++, Stages(), absl::StrCat("generate ", of.target, " code", part));
    DiagnosticCollector diagnostics(context_);
    const size_t found = store_ ? store_->found() : 0, missed = store_ ? store_->missed() : 0;
    auto code = GenerateOne(of, diagnostics);
    if (!code.ok()) return code.status();
    sink_.EndStage(absl::StrCat(code->summary, FromStore(found, missed)));
    for (const auto& [suffix, text] : code->ir) {
      if (absl::Status s = ShowIr(CompilePhase::kCode, of.suffix + suffix, text); !s.ok()) return s;
    }
    code->ir.clear();
    code_.emplace_back(std::move(of), *std::move(code));
  }
  ReportMemory();
  stopped_ = options_.compile_to == CompilePhase::kCode;
  if (store_ && store_->missed() > 0) {
    // What cannot be removed is no reason to fail.
    PruneCache(options_.cache_dir, UsualCacheBytes(options_.cache_dir), LastArtifact::kStays).IgnoreError();
  }
  return absl::OkStatus();
}

void Compilation::ReportMemory() {
  if (!Wants(ReportKind::kMemory)) return;
  std::vector<CodeScratch> scratch;
  for (const auto& [of, code] : code_) {
    if (FindTarget(of.target, targets_)->backend != nullptr) continue;
    for (const CodeVariant& variant : code.variants) {
      qrt_code_header header{};
      if (variant.bytes.size() < sizeof header) continue;
      std::memcpy(&header, variant.bytes.data(), sizeof header);
      const std::string part = of.suffix.empty() ? "" : Concat(" ", of.suffix.substr(1));
      scratch.push_back(
          {Concat(of.target, " ", variant.isa, part), header.thread_scratch, header.shared_scratch});
    }
  }
  sink_.Report(MemoryReport(plans_, scratch, options_.report_form));
}

void Compilation::WarnOfFile(std::string text) {
  sink_.Warning(text);
  warnings_.push_back(std::move(text));
}

ProvenanceSpec Compilation::Provenance() const {
  ProvenanceSpec p;
  p.compiler = CompilerVersion();
  p.options = OptionsOfArtifact(options_);
  for (const auto& [of, code] : code_) {
    p.options.insert(p.options.end(), code.provenance.begin(), code.provenance.end());
  }
  // A file with a foreign part may have a warning for each of its tensors.
  for (size_t i = 0; i < std::min(warnings_.size(), kRecordedWarnings); ++i) {
    // A warning may have a name of the file's in it, and whatever length that has.
    p.options.emplace_back(absl::StrCat("warning ", i + 1), CutText(warnings_[i], QBIN_MAX_STRING));
  }
  if (warnings_.size() > kRecordedWarnings) {
    p.options.emplace_back("warning more", absl::StrCat(warnings_.size() - kRecordedWarnings,
                                                        " more warnings: qcc compile --no-cache says all"));
  }
  p.source_name = std::filesystem::path(file_->path()).filename().string();
  p.source_bytes = file_->size();
  return p;
}

absl::Status Compilation::Write() {
  sink_.BeginStage(Stages(), Stages(), "pack weights");
  ManifestSpec manifest;
  if (options_.in_parts()) {
    for (size_t i = 0; i < plans_.size(); ++i) {
      DescribePart(*plans_[i].module, options_.layers[i], manifest);
    }
  } else {
    DescribePlan(*plans_[0].module, manifest);
  }
  manifest.name = text_.name;
  manifest.numerics = options_.numerics == NumericsMode::kInt8 ? SpecNumerics::kInt8 : SpecNumerics::kF32;
  manifest.kv_element = options_.kv == KvMode::kF16 ? SpecElement::kF16 : SpecElement::kF32;
  for (passes::LostRole& lost : lost_roles_) {
    manifest.lost_roles.push_back({std::move(lost.role), std::move(lost.into), std::move(lost.layers)});
  }
  manifest.formats = SummarizeFormats(plans_, *file_);
  manifest.sampling = text_.sampling;
  manifest.provenance = Provenance();
  uint64_t done = 0, total = file_->size() + PackedWeightBytes(plans_);  // read through, then packed
  const auto show = [&](uint64_t of_this, uint64_t) {
    sink_.Progress(done + of_this, total, "B");
    return !sink_.Interrupted();
  };
  const auto hash = HashSource(*file_, show);
  if (!hash) return absl::CancelledError("interrupted");
  manifest.provenance.source_hash = *hash;
  done = file_->size();

  auto writer = ArtifactWriter::Create(options_.output);
  if (!writer.ok()) return writer.status();
  ArtifactWriter& out = **writer;
  if (absl::Status s = WriteAllCode(out, manifest); !s.ok()) return s;
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
  if (!goldens_.section.empty()) {
    auto goldens = out.AddSection(QBIN_SECTION_GOLDENS, goldens_.section);
    if (!goldens.ok()) return goldens.status();
    manifest.goldens_section = *goldens;
  }
  if (absl::Status s = WriteAllWeights(out, manifest, {done, total}); !s.ok()) return s;
  if (absl::Status s = file_->CheckUnchanged(); !s.ok()) return s;
  const auto check = [this](const std::string& path) {
    // What cannot be opened need not be damaged.
    const qrt::Status refused = qrt::Artifact::Open(path).status();
    if (refused.code() != qrt::Code::kArtifactCorrupt) return absl::OkStatus();
    return MakeError(
        "Q9002", Concat("what was written is no artifact: ", refused.message(), " [Q", refused.number(), "]"),
        options_.output, "this is a bug in qcc; please report it");
  };
  if (absl::Status s = out.Finish(manifest, check); !s.ok()) return s;
  made_ = {manifest.provenance.source_hash, out.identity()};
  sink_.EndStage(absl::StrCat(CodeBytes(PackedWeightBytes(plans_)), " of weights; ", options_.output, ": ",
                              CodeBytes(out.size())));
  return absl::OkStatus();
}

// A section for each variant. A kernel of a part has no bytes in the CPU code of others.
absl::Status Compilation::WriteAllCode(ArtifactWriter& out, ManifestSpec& manifest) {
  const auto cpu_codes = [&] {
    return static_cast<size_t>(std::count_if(
        manifest.code.begin(), manifest.code.end(),
        [&](const CodeSpec& code) { return FindTarget(code.target, targets_)->backend == nullptr; }));
  };
  uint32_t programs = 0;  // of the parts before
  for (size_t i = 0; i < code_.size(); ++i) {
    auto& [of, generated] = code_[i];
    const size_t before = cpu_codes();
    for (CodeVariant& variant : generated.variants) {
      auto section = out.AddSection(QBIN_SECTION_CODE, variant.bytes);
      if (!section.ok()) return section.status();
      CodeSpec code;
      code.target = of.target;
      code.isa = std::move(variant.isa);
      code.features = std::move(variant.features);
      code.section = *section;
      manifest.code.push_back(std::move(code));
    }
    if (options_.in_parts()) {
      manifest.parts[i].code = static_cast<uint32_t>(generated.variants.size());
    }
    DescribeKernels(generated, programs, before, manifest);
    if (options_.in_parts()) programs += manifest.parts[i].programs;
  }
  for (KernelSpec& kernel : manifest.kernels) kernel.code_bytes.resize(cpu_codes(), 0);
  return absl::OkStatus();
}

// A section for each plan, and which one each code reads.
absl::Status Compilation::WriteAllWeights(ArtifactWriter& out, ManifestSpec& manifest,
                                          WeightsProgress shown) {
  manifest.weights_bytes = 0;
  for (const LayoutPlan& plan : plans_) {
    const auto bytes = static_cast<uint64_t>(plan::summarize(*plan.module).weightBytes);
    auto section = out.AddStream(QBIN_SECTION_WEIGHTS, bytes, [&](ArtifactWriter::Append append) {
      return WriteWeights(*plan.module, bytes, *file_, sink_, shown, append);
    });
    if (!section.ok()) return section.status();
    shown.before += bytes;
    manifest.weights_bytes = std::max(manifest.weights_bytes, bytes);
    DescribeWeights(*plan.module, *section, manifest);
    CodeSpec* code = manifest.code.data();
    for (const auto& [of, generated] : code_) {
      for (size_t i = 0; i < generated.variants.size(); ++i, ++code) {
        if (of.plan == &plan) code->weights_section = *section;
      }
    }
  }
  return absl::OkStatus();
}

// Ends a stage: dumps its IR where asked, shows it and stops where --compile-to says so.
absl::Status Compilation::EndPhase(CompilePhase phase, mlir::ModuleOp module, std::string_view summary) {
  sink_.EndStage(summary);
  if (absl::Status s = sink_.Refusal(options_.input); !s.ok()) return s;  // before anything is shown
  return ShowModule(phase, "", module);
}

absl::Status Compilation::ShowModule(CompilePhase phase, std::string_view suffix, mlir::ModuleOp module) {
  if (!WantsIr(phase)) return absl::OkStatus();
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stopped_ = options_.compile_to == phase;
  return ShowIr(phase, suffix, text);
}

absl::Status Compilation::ShowIr(CompilePhase phase, std::string_view suffix, const std::string& text) {
  if (!options_.dump_ir.empty()) {
    auto path = std::filesystem::path(options_.dump_ir) /
                Concat(static_cast<int>(phase) + 1, "-", Name(phase), suffix, ".mlir");
    if (!CheckIsNotOf(path.string(), *file_).ok()) {
      return MakeError("Q0103", "the IR dump would replace a file of the model", path.string(),
                       "name another folder with --dump-ir");
    }
    std::ofstream out(path, std::ios::binary);
    if (out) out << text;
    if (out) out.close();
    if (!out) {
      return WriteError(errno, "cannot write the IR dump", path.string(),
                        "is the folder there and writable?");
    }
  }
  if (options_.compile_to == phase) sink_.Report(text);
  return absl::OkStatus();
}

}  // namespace

std::string ReleaseVersion() {
  return QCC_VERSION;
}

std::string LlvmVersion() {
  return LLVM_VERSION_STRING;
}

std::string CompilerVersion() {
  return Concat("qcc ", ReleaseVersion(), " (LLVM ", LlvmVersion(), ")");
}

absl::Status CompileModel(const PipelineOptions& options, ProgressSink& sink,
                          std::span<const TargetInfo> targets, std::unique_ptr<gguf::File> model,
                          CompiledModel* made, RoomForWeights room) {
  Compilation compilation(options, sink, targets, std::move(model), std::move(room));
  absl::Status status = compilation.Run();
  if (made != nullptr) *made = compilation.made();
  return status;
}

}  // namespace qcc::compiler
