#include "frontends/models/Assembly.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontends/models/Layers.h"
#include "frontends/models/function_names.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace qcc::models {

namespace {

bool sameBytes(const gguf::Tensor& a, const gguf::Tensor& b) {
  return a.format == b.format && a.ne == b.ne && a.bytes == b.bytes &&
         std::memcmp(a.data, b.data, a.bytes) == 0;
}

// Builds the functions of one module.
class Assembler {
 public:
  Assembler(MLIRContext* context, ModuleOp module, const Model& model, bool draftAlone)
      : context_(context),
        module_(module),
        model_(model),
        draftAlone_(draftAlone),
        outliner_(module),
        ids_(RankedTensorType::get({ShapedType::kDynamic}, IntegerType::get(context, 32))),
        rows_(hir::RowsType::get(context)),
        stream_(rowsOf(context, {model.hp.embedding})),
        logits_(rowsOf(context, {model.ends.vocabulary()})) {}

  void attributes() {
    Builder builder(context_);
    module_->setAttr(hir::kArch, builder.getStringAttr(model_.hp.arch));
    module_->setAttr(hir::kVocabSize, builder.getI64IntegerAttr(model_.ends.vocabulary()));
    module_->setAttr(hir::kContextLength, builder.getI64IntegerAttr(model_.hp.contextLength));
    module_->setAttr(hir::kEmbeddingLength, builder.getI64IntegerAttr(model_.hp.embedding));
    // Implementations differ in where epsilon stands; what this module means is recorded with it.
    if (llvm::is_contained(model_.hp.recurrent, true))
      module_->setAttr("hir.l2_norm",
                       builder.getStringAttr(model_.l2Norm == L2Norm::kMax ? "1 / max(sqrt(sum), eps)"
                                                                           : "rsqrt(sum + eps)"));
  }

  void trunk() {
    OpBuilder builder = begin(kTrunkFunction, {ids_, rows_}, stream_);
    const Value ids = argument(builder, 0), rows = argument(builder, 1);
    Value x =
        hir::EmbedOp::create(builder, loc(model_.ends.embedding), param(builder, model_.ends.embedding), ids);
    Value table;
    for (const Layer& layer : model_.layers) {
      // One table for all layers of the step, made where the first one needs it.
      if (layer.rotates && !table) table = buildRopeTable(builder, rows, model_.hp);
      x = outliner_.call(builder, layer.kind, layer.name, x, rows, layer.rotates ? table : Value(),
                         layer.inputs, layer.build);
    }
    func::ReturnOp::create(builder, builder.getUnknownLoc(), x);
  }

  void head() {
    OpBuilder builder = begin(kHeadFunction, {stream_, ids_}, logits_);
    function(builder).setArgAttr(0, hir::kLeftBy, FlatSymbolRefAttr::get(context_, kTrunkFunction));
    function(builder).setResultAttr(0, hir::kLogits, builder.getUnitAttr());
    const Value x = hir::SelectRowsOp::create(builder, tensorLoc(context_, kHeadFunction),
                                              argument(builder, 0), argument(builder, 1));
    const Value logits = linear(builder, norm(builder, x, model_.ends.norm), model_.ends.head);
    func::ReturnOp::create(builder, builder.getUnknownLoc(), logits);
  }

  // The rows that `@mtp` is given of a trunk, from those that the trunk leaves: its own are made so already.
  void mtpHidden() {
    OpBuilder builder = begin(kMtpHiddenFunction, {stream_}, stream_);
    func::ReturnOp::create(builder, builder.getUnknownLoc(),
                           norm(builder, argument(builder, 0), model_.ends.norm));
  }

  void mtp(const Nextn& nextn) {
    if (!nextn.ids.empty())
      module_->setAttr(hir::kDraftTokens, Builder(context_).getDenseI64ArrayAttr(nextn.ids));
    const Type choices = rowsOf(context_, {nextn.choices});
    OpBuilder builder = begin(kMtpFunction, {ids_, stream_, rows_}, {choices, stream_});
    function(builder).setResultAttr(0, hir::kLogits, builder.getUnitAttr());
    const Value ids = argument(builder, 0), hidden = argument(builder, 1), rows = argument(builder, 2);
    const Value token =
        hir::EmbedOp::create(builder, loc(nextn.embedding), param(builder, nextn.embedding), ids);
    const Value e = norm(builder, token, nextn.embeddingNorm);
    const Value h = norm(builder, hidden, nextn.hiddenNorm);
    const Value both = hir::ConcatOp::create(builder, loc(nextn.projection.weight), e, h);
    Value z = linear(builder, both, nextn.projection);
    const Value table = buildRopeTable(builder, rows, model_.hp);
    z = outliner_.call(builder, nextn.layer.kind, nextn.layer.name, z, rows, table, nextn.layer.inputs,
                       nextn.layer.build);
    const Value out = norm(builder, z, nextn.norm);
    func::ReturnOp::create(builder, builder.getUnknownLoc(),
                           ValueRange{choiceLogits(builder, out, nextn), out});
  }

 private:
  // An empty function at the end of the module; the builder stands in its body.
  OpBuilder begin(llvm::StringRef name, TypeRange arguments, TypeRange results) {
    OpBuilder builder = OpBuilder::atBlockEnd(module_.getBody());
    auto function = func::FuncOp::create(builder, tensorLoc(context_, name), name,
                                         FunctionType::get(context_, arguments, results));
    builder.setInsertionPointToStart(function.addEntryBlock());
    return builder;
  }
  static func::FuncOp function(OpBuilder& builder) {
    return cast<func::FuncOp>(builder.getBlock()->getParentOp());
  }
  static Value argument(OpBuilder& builder, unsigned index) { return builder.getBlock()->getArgument(index); }
  // Logits of the tokens that the block chooses among. Of a head that others use too they are a slice, whose
  // rows the kernel takes out of the one matrix there is; of the block's own no other rows are kept.
  Value choiceLogits(OpBuilder& builder, Value out, const Nextn& nextn) {
    const Linear& head = nextn.head;
    const int64_t all = head.weight.shape[0];
    if (nextn.choices == all) return linear(builder, out, head);
    const bool shared = head.weight.tensor == nextn.embedding.tensor ||
                        (!draftAlone_ && (head.weight.tensor == model_.ends.head.weight.tensor ||
                                          head.weight.tensor == model_.ends.embedding.tensor));
    if (!shared)
      return linear(builder, out,
                    piecesOf(head, {1, all, {0}, {nextn.choices}}, {nextn.choices, head.weight.shape[1]}));
    return hir::SliceOp::create(builder, loc(head.weight), linear(builder, out, head),
                                builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(nextn.choices));
  }
  Location loc(const Weight& weight) { return tensorLoc(context_, weight.tensor->name); }
  Value norm(OpBuilder& builder, Value x, const Weight& weight) {
    return hir::RmsNormOp::create(builder, loc(weight), x, param(builder, weight),
                                  builder.getF32FloatAttr(model_.hp.eps));
  }
  Value linear(OpBuilder& builder, Value x, const Linear& linear) {
    const Value scale = linear.scale.tensor == nullptr ? Value() : param(builder, linear.scale);
    return hir::LinearOp::create(builder, loc(linear.weight), x, param(builder, linear.weight), scale);
  }

  MLIRContext* context_;
  ModuleOp module_;
  const Model& model_;
  bool draftAlone_;
  BlockOutliner outliner_;
  Type ids_, rows_, stream_, logits_;
};

}  // namespace

constexpr char kHead[] = "output.weight", kOwnHead[] = "shared_head_head.weight";

// In a file of the NextN block alone a head that is trimmed to some tokens may go by the name of the model's.
static bool isTrimmedHead(const gguf::File& file, const std::string& layer, int64_t vocabulary) {
  const gguf::Tensor* head = file.FindTensor(kHead);
  return head != nullptr && head->ne[1] != vocabulary && file.FindIntegers(kDraftTokens) != nullptr &&
         file.FindTensor(layer + ".nextn." + kOwnHead) == nullptr;
}

Ends collectEnds(TensorTable& tensors, const gguf::File& file, const HyperParameters& hp,
                 const std::string& draftLayer) {
  const std::string kEmbedding = "token_embd.weight";
  Ends ends;
  // The vocabulary is what the embedding has rows for; tokenizer lists may be shorter or padded.
  const gguf::Tensor* table = file.FindTensor(kEmbedding);
  if (table == nullptr) table = file.FindTensor(kHead);  // which is checked behind the refusal, too
  const int64_t vocabulary = table == nullptr ? 1 : std::max<int64_t>(table->ne[1], 1);
  ends.embedding = tensors.matrix(kEmbedding, vocabulary, hp.embedding);
  ends.norm = tensors.vector("output_norm.weight", hp.embedding);
  ends.head.weight = ends.embedding;
  if (!tensors.has(kHead)) return ends;
  ends.headIsOfDraft = !draftLayer.empty() && isTrimmedHead(file, draftLayer, vocabulary);
  if (ends.headIsOfDraft) return ends;
  Linear own = tensors.linear(kHead, vocabulary, hp.embedding);
  if (tensors.ok() && sameBytes(*own.weight.tensor, *ends.embedding.tensor)) own.weight = ends.embedding;
  ends.head = std::move(own);
  return ends;
}

// The head lies in groups of 16 rows, of which some are a matrix of their own.
constexpr int64_t kHeadGroup = 16;

// Of `rows` rows of a head, how many are used for `wanted` (0: all) tokens.
static int64_t choicesOf(int64_t wanted, int64_t rows) {
  return wanted == 0 || wanted > rows - kHeadGroup ? rows
                                                   : (wanted + kHeadGroup - 1) / kHeadGroup * kHeadGroup;
}

Nextn collectNextn(TensorTable& tensors, const gguf::File& file, const HyperParameters& hp, const Ends& ends,
                   Layer layer, std::optional<int64_t> vocabulary) {
  Nextn nextn;
  const std::string prefix = layer.name + ".nextn.";
  nextn.layer = std::move(layer);
  const auto optional = [&](const char* name, auto fallback, auto&& read) {
    return tensors.has(prefix + name) ? read(prefix + name) : std::move(fallback);
  };
  const auto table = [&](const std::string& name) {
    return tensors.matrix(name, ends.vocabulary(), hp.embedding);
  };
  nextn.projection = tensors.linear(prefix + "eh_proj.weight", hp.embedding, 2 * hp.embedding);
  nextn.embeddingNorm = tensors.vector(prefix + "enorm.weight", hp.embedding);
  nextn.hiddenNorm = tensors.vector(prefix + "hnorm.weight", hp.embedding);
  nextn.norm = optional("shared_head_norm.weight", ends.norm,
                        [&](const std::string& name) { return tensors.vector(name, hp.embedding); });
  nextn.embedding = optional("embed_tokens.weight", ends.embedding, table);
  // A file may have trimmed the head itself; its table says to which tokens. What is left of a group is left
  // out; of a single group nothing can be trimmed.
  const std::string head = ends.headIsOfDraft ? kHead : prefix + kOwnHead;
  const gguf::Tensor* own = file.FindTensor(head);
  const int64_t all = ends.vocabulary();
  const bool trimmed = all > kHeadGroup && own != nullptr && file.FindIntegers(kDraftTokens) != nullptr;
  const int64_t rows = trimmed ? std::clamp(own->ne[1], kHeadGroup, all - 1) : all;
  nextn.head = tensors.has(head) ? tensors.linear(head, rows, hp.embedding) : ends.head;
  nextn.choices = choicesOf(vocabulary.value_or(trimmed ? 0 : kUsualDraftVocabulary), rows);
  if (!trimmed) return nextn;
  nextn.choices = nextn.choices / kHeadGroup * kHeadGroup;
  nextn.ids = tensors.ids(kDraftTokens, rows, all);
  nextn.ids.resize(std::min(nextn.ids.size(), static_cast<size_t>(nextn.choices)));
  return nextn;
}

Type kvElementType(MLIRContext* context, KvElement element) {
  if (element == KvElement::kF16) return Float16Type::get(context);
  return Float32Type::get(context);
}

absl::StatusOr<OwningOpRef<ModuleOp>> assemble(MLIRContext& context, const Model& model, bool draftAlone) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(tensorLoc(&context, model.hp.arch));
  std::string problems;
  ScopedDiagnosticHandler capture(&context, [&](Diagnostic& diagnostic) {
    absl::StrAppend(&problems, problems.empty() ? "" : "; ", diagnostic.str());
    return success();
  });
  Assembler assembler(&context, *module, model, draftAlone);
  assembler.attributes();
  if (!draftAlone) {
    assembler.trunk();
    assembler.head();
  }
  if (model.nextn) {
    assembler.mtpHidden();
    assembler.mtp(*model.nextn);
  }
  if (failed(verify(*module)))
    return absl::InternalError(
        absl::StrCat("the imported ", model.hp.arch, " module is not valid: ", problems));
  return module;
}

}  // namespace qcc::models
