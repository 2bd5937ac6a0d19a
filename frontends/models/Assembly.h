// From checked tensors to the module: `@trunk`, `@head`, `@mtp` and the module attributes.
// Architecture-independent.
#ifndef QCC_FRONTENDS_MODELS_ASSEMBLY_H_
#define QCC_FRONTENDS_MODELS_ASSEMBLY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/models/BlockOutliner.h"
#include "frontends/models/HyperParameters.h"
#include "frontends/models/TensorTable.h"
#include "frontends/models/import.h"

namespace qcc::models {

// One layer: what its block is built from.
struct Layer {
  std::string kind;  // of the function, "gdn" -> @block_gdn
  std::string name;  // "blk.3"
  bool rotates;      // takes the rope table
  BlockInputs inputs;
  std::function<mlir::Value(BlockScope&)> build;
};

// Embedding, final norm and LM head. Without an `output.weight`, or with one that repeats token_embd byte for
// byte, `head` is the embedding, so that the matrix exists once from here on.
struct Ends {
  Weight embedding;
  Weight norm;
  Linear head;
  bool headIsOfDraft = false;  // the file's is the NextN block's, of some tokens; `head` is the embedding

  int64_t vocabulary() const { return embedding.shape[0]; }
};

// NextN / MTP block: the draft head that predicts the token after next.
struct Nextn {
  Weight embedding;  // nextn.embed_tokens, else the trunk's
  Weight embeddingNorm;
  Weight hiddenNorm;
  Linear projection;  // of [embedding ; hidden]
  Layer layer;
  Weight norm;               // nextn.shared_head_norm, else the trunk's
  Linear head;               // nextn.shared_head_head, else the trunk's
  int64_t choices = 0;       // rows of the head that it gives logits of
  std::vector<int64_t> ids;  // their tokens; empty: the first by id
};

struct Model {
  HyperParameters hp;
  L2Norm l2Norm = L2Norm::kSum;
  Ends ends;
  std::vector<Layer> layers;
  std::optional<Nextn> nextn;
};

// `draftLayer`: the name of the NextN block ("blk.N") that the module is to be of alone; or empty.
Ends collectEnds(TensorTable& tensors, const gguf::File& file, const HyperParameters& hp,
                 const std::string& draftLayer);
// `layer` is the attention block of the NextN layer; its own tensors are collected here. `ends` has its
// embedding. `vocabulary`: ImportOptions::draft_vocabulary.
Nextn collectNextn(TensorTable& tensors, const gguf::File& file, const HyperParameters& hp, const Ends& ends,
                   Layer layer, std::optional<int64_t> vocabulary);

mlir::Type kvElementType(mlir::MLIRContext* context, KvElement element);

// Builds the module, with `draftAlone` of the NextN block and nothing else, and runs MLIR's verifier; an
// error here is a defect of the importer, not of the file.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> assemble(mlir::MLIRContext& context, const Model& model,
                                                           bool draftAlone);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_ASSEMBLY_H_
