#include "passes/ValueRoles.h"

#include <algorithm>

#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/x16.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace qcc::passes {
namespace {

struct Role {
  StringLiteral op, tensor, role;
};

// Tensors are named as importers name what a block's ops are about.
constexpr Role kRoles[] = {
    {"hir.rms_norm", "attn_norm.weight", "attn_norm"},
    {"hir.linear", "attn_q.weight", "Qcur"},
    {"hir.linear", "attn_k.weight", "Kcur"},
    {"hir.linear", "attn_v.weight", "Vcur"},
    {"hir.rms_norm", "attn_q_norm.weight", "Qcur_normed"},
    {"hir.rms_norm", "attn_k_norm.weight", "Kcur_normed"},
    {"hir.rope", "attn_q_norm.weight", "Qcur_rope"},
    {"hir.rope", "attn_k_norm.weight", "Kcur_rope"},
    {"hir.attention", "attn_q.weight", "attn_pregate"},
    {"hir.attention", "attn_qkv.weight", "attn_pregate"},
    {"hir.reshape", "attn_output.weight", "kqv_out"},
    {"hir.linear", "attn_output.weight", "attn_output"},
    {"hir.add", "attn_output.weight", "attn_residual"},
    {"hir.linear", "attn_qkv.weight", "linear_attn_qkv_mixed"},
    {"hir.linear", "attn_gate.weight", "attn_gate"},
    {"hir.linear", "ssm_beta.weight", "beta"},
    {"hir.activation", "ssm_beta.weight", "beta_sigmoid"},
    {"hir.linear", "ssm_alpha.weight", "alpha"},
    {"hir.causal_conv1d", "ssm_conv1d.weight", "conv_output_raw"},
    {"hir.activation", "ssm_conv1d.weight", "conv_output_silu"},
    {"hir.gdn_decay", "ssm_a", "gate"},
    {"hir.gated_delta", "ssm_a", "delta_out"},
    {"hir.rms_norm", "ssm_norm.weight", "delta_out_norm"},
    {"hir.reshape", "ssm_out.weight", "final_output"},
    {"hir.linear", "ssm_out.weight", "linear_attn_out"},
    {"hir.add", "ssm_out.weight", "attn_residual"},
    {"hir.rms_norm", "ffn_norm.weight", "ffn_norm"},
    {"hir.linear", "ffn_gate.weight", "ffn_gate"},
    {"hir.linear", "ffn_up.weight", "ffn_up"},
    {"hir.swiglu", "ffn_gate.weight", "ffn_swiglu"},
    {"hir.linear", "ffn_down.weight", "ffn_out"},
    {"hir.linear", "ffn_gate_inp.weight", "ffn_moe_logits"},
    {"hir.moe_experts", "ffn_gate_exps.weight", "ffn_moe_out"},
    {"hir.linear", "ffn_down_shexp.weight", "ffn_shexp"},
    {"hir.scale_rows", "ffn_gate_inp_shexp.weight", "ffn_shexp_gated"},
    {"hir.add", "ffn_up_shexp.weight", "ffn_out"},
};

// What `op` is about, without its layer; empty: nothing.
StringRef tensorOf(Operation* op) {
  auto name = dyn_cast<NameLoc>(op->getLoc());
  if (!name) return {};
  StringRef tensor = name.getName().getValue();
  return tensor.consume_front("blk.*.") ? tensor : StringRef();
}

bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation* user) { return isa<func::ReturnOp>(user); });
}
bool isTraced(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation* user) { return isa<hir::TraceOp>(user); });
}

std::string readerOf(Value value) {
  for (Operation* user : value.getUsers()) {
    if (isa<hir::FusedOpInterface>(user)) return hir::fusedKind(user->getName().getStringRef()).str();
  }
  return value.use_empty() ? "nothing" : (*value.user_begin())->getName().stripDialect().str();
}

// Adds the roles of a block that no state keeps.
class LostCollector {
 public:
  explicit LostCollector(std::vector<LostRole>& out) : out_(out) {}

  void addBlock(func::FuncOp block, uint32_t layer) {
    for (Operation& op : block.getBody().front()) {
      if (!isa<hir::FusedOpInterface>(op)) {
        addStored(op, layer);
        continue;
      }
      Block& body = op.getRegion(0).front();
      Operation* yield = body.getTerminator();
      for (Operation& inner : body) {
        for (Value result : inner.getResults()) {
          if (!llvm::is_contained(yield->getOperands(), result))
            add(result, hir::fusedKind(op.getName().getStringRef()), layer);
        }
      }
      addStored(op, layer);
    }
  }

 private:
  void addStored(Operation& op, uint32_t layer) {
    for (Value result : op.getResults()) add(result, isDenseRows(result) ? "" : readerOf(result), layer);
  }
  void add(Value value, StringRef into, uint32_t layer) {
    const StringRef role = valueRole(value);
    if (role.empty() || isTraced(value)) return;
    auto same = [&](const LostRole& other) { return other.role == role && other.into == into; };
    auto found = llvm::find_if(out_, same);
    if (found == out_.end()) {
      out_.push_back({role.str(), into.str(), {}});
      found = std::prev(out_.end());
    }
    if (!llvm::is_contained(found->layers, layer)) found->layers.push_back(layer);
  }

  std::vector<LostRole>& out_;
};

}  // namespace

StringRef valueRole(Value value) {
  Operation* op = value.getDefiningOp();
  if (!op) return {};
  if (isReturned(value)) return kLayerOutput;
  if (isa<hir::FusedOpInterface>(op)) {
    Operation* yield = op->getRegion(0).front().getTerminator();
    return valueRole(yield->getOperand(cast<OpResult>(value).getResultNumber()));
  }
  const StringRef tensor = tensorOf(op);
  for (const Role& role : kRoles) {
    if (role.tensor == tensor && role.op == op->getName().getStringRef()) return role.role;
  }
  return {};
}

bool isDenseRows(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.getElementType().isF32() || type.getRank() != 2 || type.getEncoding()) return false;
  if (type.getDimSize(1) % layouts::kGroupRows != 0) return false;
  if (isa_and_present<hir::SliceOp, hir::ReshapeOp>(value.getDefiningOp())) return false;
  // The matrix of a linear that is sliced is run in pieces.
  return llvm::none_of(value.getUsers(), [](Operation* user) { return isa<hir::SliceOp>(user); });
}

std::vector<LostRole> lostRoles(ModuleOp module) {
  std::vector<LostRole> lost;
  LostCollector collector(lost);
  SymbolTable symbols(module);
  module.walk([&](func::CallOp call) {
    auto layer = call->getAttrOfType<StringAttr>("layer");
    uint32_t number = 0;
    StringRef name = layer ? layer.getValue() : StringRef();
    if (!name.consume_front("blk.") || name.getAsInteger(10, number)) return;
    collector.addBlock(symbols.lookup<func::FuncOp>(call.getCallee()), number);
  });
  for (LostRole& role : lost) llvm::sort(role.layers);
  return lost;
}

}  // namespace qcc::passes
