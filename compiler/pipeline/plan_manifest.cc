#include "compiler/pipeline/plan_manifest.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/IR/Plan.h"
#include "dialects/plan/PlanSummary.h"
#include "dialects/plan/kernel_specs.h"
#include "runtime/abi/qbin.h"

namespace qcc::compiler {
namespace {

// The dialect has no other room to say it in: its numbers are those of the file.
// clang-format off
struct SameStateKind { using Other = plan::StateKind; QRT_STATE_KINDS(QRT_SAME_NUMBER) };
struct SameElement { using Other = plan::Element; QRT_ELEMENTS(QRT_SAME_NUMBER) };
struct SameOutput { using Other = plan::Output; QRT_OUTPUTS(QRT_SAME_NUMBER) };
// clang-format on

qrt::ProgramFacts FactsOf(const plan::PlanSummary& summary, const plan::ProgramSummary& program) {
  plan::ProgramOp op = program.op;
  qrt::ProgramFacts facts;
  facts.takes = (op.getTokens() ? qrt::kTokens : 0u) | (op.getGiven() ? qrt::kGiven : 0u) |
                (op.getStream() ? qrt::kStream : 0u);
  facts.given_cols = static_cast<uint32_t>(op.getGiven().value_or(0));
  if (op.getStream()) facts.stream = static_cast<int32_t>(summary.streamNumber(*op.getStream()));
  if (op.getLeaves()) facts.leaves = static_cast<int32_t>(summary.streamNumber(*op.getLeaves()));
  facts.gives = static_cast<qrt::Output>(op.getOutput());
  facts.advances.assign(program.advances.begin(), program.advances.end());
  return facts;
}

uint64_t IntAttribute(mlir::ModuleOp plan, llvm::StringRef name) {
  auto value = plan->getAttrOfType<mlir::IntegerAttr>(name);
  return value ? static_cast<uint64_t>(value.getInt()) : 0;
}

}  // namespace

void DescribePlan(mlir::ModuleOp plan, ManifestSpec& manifest) {
  if (auto arch = plan->getAttrOfType<mlir::StringAttr>(hir::kArch)) manifest.arch = arch.str();
  manifest.vocab_size = IntAttribute(plan, hir::kVocabSize);
  manifest.logits_stride = layouts::AlignUp(manifest.vocab_size, layouts::kGroupRows);
  manifest.context_length = IntAttribute(plan, hir::kContextLength);
  manifest.embedding_length = IntAttribute(plan, hir::kEmbeddingLength);
  plan::PlanSummary summary = plan::summarize(plan);
  manifest.weights_bytes = summary.weightBytes;
  manifest.state_bytes = summary.stateBytes;
  manifest.kv_bytes_per_token = summary.kvBytesPerToken;
  manifest.streams = summary.streams;
  plan.walk([&](plan::DispatchOp op) {
    if (op.getFamily() == llvm::StringRef(plan::SelectRowsSpec::kFamily))
      manifest.required_features |= QBIN_FEATURE_SELECTED_ROWS;
  });

  for (auto op : plan.getOps<plan::StateOp>()) {
    StateSpec state;
    state.name = op.getSymName().str();
    state.kind = static_cast<SpecState>(op.getKind());
    state.layer = op.getLayer();
    state.shape.assign(op.getShape().begin(), op.getShape().end());
    state.element = static_cast<SpecElement>(op.getElement());
    state.offset = op.getOffset();
    state.bytes = op.getBytes();
    state.entry_bytes = op.getEntry();
    if (state.entry_bytes != 0) manifest.state_block = layouts::kStateBlock;
    manifest.states.push_back(std::move(state));
  }
  for (const plan::ProgramSummary& p : summary.programs) {
    const auto logits = static_cast<uint32_t>(p.logitsCols);
    manifest.programs.push_back({p.name, FactsOf(summary, p), static_cast<uint32_t>(p.rows),
                                 static_cast<uint64_t>(p.arenaBytes), static_cast<uint32_t>(p.dispatches),
                                 static_cast<uint32_t>(p.barriers), static_cast<uint64_t>(p.weightBytes),
                                 logits < manifest.vocab_size ? logits : 0});
    auto ids = plan->getAttrOfType<mlir::DenseI64ArrayAttr>(hir::kDraftTokens);
    if (ids && manifest.programs.back().logits_cols != 0) {
      manifest.draft_tokens.assign(ids.asArrayRef().begin(), ids.asArrayRef().end());
    }
  }
}

void DescribePart(mlir::ModuleOp plan, const LayerPart& of, ManifestSpec& manifest) {
  ManifestSpec part;
  DescribePlan(plan, part);
  if (manifest.parts.empty()) {
    manifest.arch = part.arch;
    manifest.vocab_size = part.vocab_size;
    manifest.logits_stride = part.logits_stride;
    manifest.context_length = part.context_length;
    manifest.embedding_length = part.embedding_length;
  }
  manifest.state_block = std::max(manifest.state_block, part.state_block);
  if (!part.draft_tokens.empty()) manifest.draft_tokens = std::move(part.draft_tokens);
  std::vector<int32_t> streams;  // by their places in the part's list
  for (const std::string& name : part.streams) {
    const auto found = std::find(manifest.streams.begin(), manifest.streams.end(), name);
    streams.push_back(static_cast<int32_t>(found - manifest.streams.begin()));
    if (found == manifest.streams.end()) manifest.streams.push_back(name);
  }
  const auto states = static_cast<uint32_t>(manifest.states.size());
  for (ProgramSpec& program : part.programs) {
    for (uint32_t& state : program.facts.advances) state += states;
    for (int32_t* stream : {&program.facts.stream, &program.facts.leaves}) {
      if (*stream >= 0) *stream = streams[static_cast<size_t>(*stream)];
    }
  }
  qrt::PartFacts facts;
  facts.target = of.target;
  facts.first_layer = static_cast<uint32_t>(of.first);
  facts.layers = static_cast<uint32_t>(of.last - of.first + 1);
  facts.states = static_cast<uint32_t>(part.states.size());
  facts.programs = static_cast<uint32_t>(part.programs.size());
  facts.state_bytes = part.state_bytes;
  facts.kv_bytes_per_token = part.kv_bytes_per_token;
  facts.weights_bytes = part.weights_bytes;
  manifest.required_features |= part.required_features | QBIN_FEATURE_PARTS;
  manifest.state_bytes += part.state_bytes;
  manifest.kv_bytes_per_token += part.kv_bytes_per_token;
  std::move(part.states.begin(), part.states.end(), std::back_inserter(manifest.states));
  std::move(part.programs.begin(), part.programs.end(), std::back_inserter(manifest.programs));
  manifest.parts.push_back(std::move(facts));
}

void DescribeWeights(mlir::ModuleOp plan, uint32_t section, ManifestSpec& manifest) {
  for (auto op : plan.getOps<plan::WeightOp>()) {
    manifest.weights.push_back({op.getSymName().str(), op.getFormat().str(),
                                plan::stringifyLayout(op.getLayout()).str(), op.getRows(), op.getCols(),
                                section, op.getOffset(), op.getBytes()});
  }
}

void DescribeKernels(const TargetCode& code, uint32_t programs, size_t codes, ManifestSpec& manifest) {
  const auto kernels = static_cast<int32_t>(manifest.kernels.size());
  for (const LinkedStage& stage : code.stages) {
    const int32_t kernel = stage.kernel ? kernels + static_cast<int32_t>(*stage.kernel) : -1;
    manifest.stages.push_back({stage.program + programs, kernel, stage.weight_bytes});
  }
  for (const LinkedKernel& kernel : code.kernels) {
    KernelSpec spec = {kernel.name, kernel.specification, kernel.programs, kernel.code_bytes};
    for (uint32_t& program : spec.programs) program += programs;
    spec.code_bytes.insert(spec.code_bytes.begin(), codes, 0);
    manifest.kernels.push_back(std::move(spec));
  }
}

}  // namespace qcc::compiler
