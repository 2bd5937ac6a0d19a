// The layers that the architectures are made of: which tensors each needs, and the hir ops it becomes.
// Maths: in the ops' own descriptions (dialects/hir/IR/HirOps.td).
#ifndef QCC_FRONTENDS_MODELS_LAYERS_H_
#define QCC_FRONTENDS_MODELS_LAYERS_H_

#include <string>

#include "dialects/hir/IR/Hir.h"
#include "frontends/models/BlockOutliner.h"
#include "frontends/models/HyperParameters.h"
#include "frontends/models/TensorTable.h"
#include "frontends/models/import.h"

namespace qcc::models {

// Tensors of one layer, checked. `prefix` is "blk.N". Errors stick in `tensors`.

// attn_norm; q, k, v, or fused attn_qkv whose rows are q (with gates when `gated`), k, v; head norms;
// attn_output.
void collectAttention(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                      int64_t kvHeads, bool gated, BlockInputs& inputs);
// attn_norm; attn_qkv (rows q, k, v), attn_gate (z), beta, alpha, convolution, decay, gated norm, ssm_out. By
// key head: ssm_ba for beta and alpha, and attn_qkv with attn_gate, or ssm_in for both.
void collectDeltaNet(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                     BlockInputs& inputs);
// The norm before the FFN: post_attention_norm or ffn_norm.
void collectFeedForwardNorm(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                            BlockInputs& inputs);
// That norm, gate, up, down.
void collectFeedForward(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                        BlockInputs& inputs);

// Ops. Each takes the residual stream [rows, embedding] and returns the new one.

mlir::Value buildAttention(BlockScope& scope, mlir::Value x, const HyperParameters& hp, int64_t kvHeads,
                           bool gated);
mlir::Value buildDeltaNet(BlockScope& scope, mlir::Value x, const HyperParameters& hp, L2Norm l2Norm);
mlir::Value buildFeedForward(BlockScope& scope, mlir::Value x, const HyperParameters& hp);

// cos and sin of the step's positions, [rows, rotated dims].
mlir::Value buildRopeTable(mlir::OpBuilder& builder, mlir::Value rows, const HyperParameters& hp);

mlir::RankedTensorType rowsOf(mlir::MLIRContext* context, llvm::ArrayRef<int64_t> features);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_LAYERS_H_
