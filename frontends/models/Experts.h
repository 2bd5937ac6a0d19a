// Feed-forward blocks of experts: which tensors they need, and the hir ops they become.
#ifndef QCC_FRONTENDS_MODELS_EXPERTS_H_
#define QCC_FRONTENDS_MODELS_EXPERTS_H_

#include <string>

#include "frontends/models/BlockOutliner.h"
#include "frontends/models/HyperParameters.h"
#include "frontends/models/TensorTable.h"

namespace qcc::models {

// The norm, ffn_gate_inp (router), ffn_gate_exps and ffn_up_exps or both as ffn_gate_up_exps (of each expert
// its gate, then its up), ffn_down_exps; with any of its tensors, and in a trunk whose keys state its width,
// the shared expert: ffn_{gate,up,down}_shexp and ffn_gate_inp_shexp. draft: of the NextN block.
void collectExperts(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp, bool draft,
                    BlockInputs& inputs);

// Whether a block was given experts.
bool hasExperts(const BlockScope& scope);

// Takes the residual stream [rows, embedding] and returns the new one.
mlir::Value buildExperts(BlockScope& scope, mlir::Value x, const HyperParameters& hp);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_EXPERTS_H_
