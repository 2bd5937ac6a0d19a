#include "frontends/models/Layers.h"

#include "frontends/models/Emit.h"

using namespace mlir;

namespace qcc::models {

RankedTensorType rowsOf(MLIRContext* context, llvm::ArrayRef<int64_t> features) {
  llvm::SmallVector<int64_t> shape = {ShapedType::kDynamic};
  llvm::append_range(shape, features);
  return RankedTensorType::get(shape, Float32Type::get(context));
}

void collectAttention(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                      int64_t kvHeads, bool gated, BlockInputs& inputs) {
  const auto matrix = [&](const char* role, int64_t rows, int64_t columns) {
    inputs.add(role, tensors.linear(prefix + "." + role, rows, columns));
  };
  const auto vector = [&](const char* role, int64_t size) {
    inputs.add(role, tensors.vector(prefix + "." + role, size));
  };
  const int64_t queryRows = (gated ? 2 : 1) * hp.heads * hp.headDim;
  const int64_t kvRows = kvHeads * hp.headDim;
  vector("attn_norm.weight", hp.embedding);
  if (!tensors.has(prefix + ".attn_q.weight") && tensors.has(prefix + ".attn_qkv.weight")) {
    matrix("attn_qkv.weight", queryRows + 2 * kvRows, hp.embedding);
  } else {
    matrix("attn_q.weight", queryRows, hp.embedding);
    matrix("attn_k.weight", kvRows, hp.embedding);
    matrix("attn_v.weight", kvRows, hp.embedding);
  }
  vector("attn_q_norm.weight", hp.headDim);
  vector("attn_k_norm.weight", hp.headDim);
  matrix("attn_output.weight", hp.embedding, hp.heads * hp.headDim);
}

namespace {

void collectBetaAlpha(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                      BlockInputs& inputs) {
  for (const char* role : {"ssm_beta.weight", "ssm_alpha.weight"})
    inputs.add(role, tensors.linear(prefix + "." + role, hp.delta.valueHeads, hp.embedding));
}

// The projections into a delta net whose rows stand by key head: ssm_ba, where there is one, holds, for each
// key head, the betas of its value heads and then their alphas; ssm_in, where there is no attn_qkv, its
// query, its key, the values of its value heads and then their z.
void collectByKeyHead(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                      BlockInputs& inputs) {
  const DeltaNetParameters& delta = hp.delta;
  const int64_t heads = delta.valueHeads / delta.keyHeads, values = heads * delta.valueDim;
  const int64_t keyDim = delta.keyDim, embedding = hp.embedding;
  if (!tensors.has(prefix + ".attn_qkv.weight") && tensors.has(prefix + ".ssm_in.weight")) {
    const int64_t rows = 2 * keyDim + 2 * values;
    const Linear all = tensors.linear(prefix + ".ssm_in.weight", delta.keyHeads * rows, embedding);
    inputs.add("attn_qkv.weight",
               piecesOf(all, {delta.keyHeads, rows, {0, keyDim, 2 * keyDim}, {keyDim, keyDim, values}},
                        {delta.convChannels(), embedding}));
    inputs.add("attn_gate.weight", piecesOf(all, {delta.keyHeads, rows, {2 * keyDim + values}, {values}},
                                            {delta.valueWidth(), embedding}));
  } else {
    inputs.add("attn_qkv.weight",
               tensors.linear(prefix + ".attn_qkv.weight", delta.convChannels(), embedding));
    inputs.add("attn_gate.weight",
               tensors.linear(prefix + ".attn_gate.weight", delta.valueWidth(), embedding));
  }
  if (delta.orderStated && !tensors.has(prefix + ".ssm_ba.weight"))
    return collectBetaAlpha(tensors, prefix, hp, inputs);
  const Linear both = tensors.linear(prefix + ".ssm_ba.weight", 2 * delta.valueHeads, embedding);
  inputs.add("ssm_beta.weight",
             piecesOf(both, {delta.keyHeads, 2 * heads, {0}, {heads}}, {delta.valueHeads, embedding}));
  inputs.add("ssm_alpha.weight",
             piecesOf(both, {delta.keyHeads, 2 * heads, {heads}, {heads}}, {delta.valueHeads, embedding}));
}

}  // namespace

void collectDeltaNet(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                     BlockInputs& inputs) {
  const DeltaNetParameters& delta = hp.delta;
  const auto name = [&](const char* role) { return prefix + "." + role; };
  const auto matrix = [&](const char* role, int64_t rows, int64_t columns) {
    inputs.add(role, tensors.linear(name(role), rows, columns));
  };
  const auto vector = [&](const char* role, int64_t size) {
    inputs.add(role, tensors.vector(name(role), size));
  };
  vector("attn_norm.weight", hp.embedding);
  if (delta.byKeyHead) {
    collectByKeyHead(tensors, prefix, hp, inputs);
  } else {
    matrix("attn_qkv.weight", delta.convChannels(), hp.embedding);
    matrix("attn_gate.weight", delta.valueWidth(), hp.embedding);
    collectBetaAlpha(tensors, prefix, hp, inputs);
  }
  inputs.add("ssm_conv1d.weight",
             tensors.convolution(name("ssm_conv1d.weight"), delta.convChannels(), delta.taps));
  inputs.add("ssm_a", tensors.decays(name("ssm_a"), delta.valueHeads));
  inputs.add("ssm_dt.bias",
             tensors.vector({name("ssm_dt.bias"), name("ssm_dt"), name("ssm_dt.weight")}, delta.valueHeads));
  vector("ssm_norm.weight", delta.valueDim);
  matrix("ssm_out.weight", hp.embedding, delta.valueWidth());
}

void collectFeedForwardNorm(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                            BlockInputs& inputs) {
  inputs.add(
      "ffn_norm.weight",
      tensors.vector({prefix + ".post_attention_norm.weight", prefix + ".ffn_norm.weight"}, hp.embedding));
}

void collectFeedForward(TensorTable& tensors, const std::string& prefix, const HyperParameters& hp,
                        BlockInputs& inputs) {
  collectFeedForwardNorm(tensors, prefix, hp, inputs);
  inputs.add("ffn_gate.weight", tensors.linear(prefix + ".ffn_gate.weight", hp.feedForward, hp.embedding));
  inputs.add("ffn_up.weight", tensors.linear(prefix + ".ffn_up.weight", hp.feedForward, hp.embedding));
  inputs.add("ffn_down.weight", tensors.linear(prefix + ".ffn_down.weight", hp.embedding, hp.feedForward));
}

Value buildAttention(BlockScope& scope, Value x, const HyperParameters& hp, int64_t kvHeads, bool gated) {
  Emit emit(scope, hp);
  OpBuilder& builder = scope.builder();
  const int64_t dim = hp.headDim;
  const Value u = emit.norm(x, "attn_norm.weight");
  const bool fused = scope.has("attn_qkv.weight");
  const llvm::StringRef qName = fused ? "attn_qkv.weight" : "attn_q.weight";
  const llvm::StringRef kName = fused ? "attn_qkv.weight" : "attn_k.weight";
  const llvm::StringRef vName = fused ? "attn_qkv.weight" : "attn_v.weight";
  Value q, k, v;
  if (fused) {
    const int64_t queryRows = (gated ? 2 : 1) * hp.heads * dim, kvRows = kvHeads * dim;
    const Value all = emit.linear(u, qName);
    q = emit.slice(all, 0, queryRows, qName);
    k = emit.slice(all, queryRows, kvRows, kName);
    v = emit.slice(all, queryRows + kvRows, kvRows, vName);
  } else {
    q = emit.linear(u, qName);
    k = emit.linear(u, kName);
    v = emit.linear(u, vName);
  }
  Value gate;
  if (gated) {
    // Rows of W_q: per head its query, then its gate.
    const Value both = emit.reshape(q, {hp.heads, 2 * dim}, qName);
    q = emit.slice(both, 0, dim, qName);
    gate = emit.slice(both, dim, dim, qName);
  } else {
    q = emit.reshape(q, {hp.heads, dim}, qName);
  }
  k = emit.reshape(k, {kvHeads, dim}, kName);
  v = emit.reshape(v, {kvHeads, dim}, vName);
  q = emit.rope(emit.norm(q, "attn_q_norm.weight"), "attn_q_norm.weight");
  k = emit.rope(emit.norm(k, "attn_k_norm.weight"), "attn_k_norm.weight");
  hir::KvStoreOp::create(builder, scope.loc(kName), k, v, scope["kv"], scope.rows());
  const FloatAttr scale =
      hp.attentionScale > 0 ? builder.getF32FloatAttr(hp.attentionScale) : emit.dotScale(dim);
  Value o = hir::AttentionOp::create(builder, scope.loc(qName), q, scope["kv"], scope.rows(), scale);
  if (gated) o = emit.mul(o, emit.activate(hir::ActivationKind::Sigmoid, gate, qName), qName);
  o = emit.reshape(o, {hp.heads * dim}, "attn_output.weight");
  return emit.add(x, emit.linear(o, "attn_output.weight"), "attn_output.weight");
}

Value buildDeltaNet(BlockScope& scope, Value x, const HyperParameters& hp, L2Norm l2Norm) {
  Emit emit(scope, hp);
  OpBuilder& builder = scope.builder();
  const DeltaNetParameters& delta = hp.delta;
  const llvm::StringRef qkv = "attn_qkv.weight", z = "attn_gate.weight", conv = "ssm_conv1d.weight";
  const Value u = emit.norm(x, "attn_norm.weight");
  const Value projected = emit.linear(u, qkv);
  const Value gate = emit.linear(u, z);
  const Value b = emit.linear(u, "ssm_beta.weight");
  const Value a = emit.linear(u, "ssm_alpha.weight");

  Value c = hir::CausalConv1dOp::create(builder, scope.loc(conv), projected, scope[conv], scope["conv"],
                                        scope.rows());
  c = emit.activate(hir::ActivationKind::Silu, c, conv);
  Value q = emit.slice(c, 0, delta.keyWidth(), conv);
  Value k = emit.slice(c, delta.keyWidth(), delta.keyWidth(), conv);
  Value v = emit.slice(c, 2 * delta.keyWidth(), delta.valueWidth(), conv);
  q = emit.l2norm(emit.reshape(q, {delta.keyHeads, delta.keyDim}, conv), l2Norm, conv);
  k = emit.l2norm(emit.reshape(k, {delta.keyHeads, delta.keyDim}, conv), l2Norm, conv);
  v = emit.reshape(v, {delta.valueHeads, delta.valueDim}, conv);

  const Value g =
      hir::GdnDecayOp::create(builder, scope.loc("ssm_a"), a, scope["ssm_a"], scope["ssm_dt.bias"]);
  const Value beta = emit.activate(hir::ActivationKind::Sigmoid, b, "ssm_beta.weight");
  // With one value head for each key head both orders are one.
  const bool grouped = delta.byKeyHead && delta.valueHeads != delta.keyHeads;
  const auto order = hir::HeadOrderAttr::get(builder.getContext(),
                                             grouped ? hir::HeadOrder::Grouped : hir::HeadOrder::Tiled);
  Value o = hir::GatedDeltaOp::create(builder, scope.loc("ssm_a"), q, k, v, g, beta, scope["delta"],
                                      scope.rows(), emit.dotScale(delta.keyDim), order);
  o = emit.norm(o, "ssm_norm.weight");
  const Value gates =
      emit.activate(hir::ActivationKind::Silu, emit.reshape(gate, {delta.valueHeads, delta.valueDim}, z), z);
  o = emit.mul(o, gates, z);
  o = emit.reshape(o, {delta.valueWidth()}, "ssm_out.weight");
  return emit.add(x, emit.linear(o, "ssm_out.weight"), "ssm_out.weight");
}

Value buildFeedForward(BlockScope& scope, Value x, const HyperParameters& hp) {
  Emit emit(scope, hp);
  const Value u = emit.norm(x, "ffn_norm.weight");
  const Value gate = emit.linear(u, "ffn_gate.weight");
  const Value up = emit.linear(u, "ffn_up.weight");
  const Value hidden = emit.swiglu(gate, up, "ffn_gate.weight");
  return emit.add(x, emit.linear(hidden, "ffn_down.weight"), "ffn_down.weight");
}

Value buildRopeTable(OpBuilder& builder, Value rows, const HyperParameters& hp) {
  return hir::RopeTableOp::create(
      builder, tensorLoc(builder.getContext(), "rope"), rowsOf(builder.getContext(), {hp.rope.dims()}), rows,
      builder.getDenseF64ArrayAttr(hp.rope.invFreq), builder.getDenseI64ArrayAttr(hp.ropeSections),
      builder.getF64FloatAttr(hp.rope.magnitude));
}

}  // namespace qcc::models
