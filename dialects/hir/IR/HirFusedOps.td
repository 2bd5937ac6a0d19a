// The fused ops: one per kernel that executes more than one semantic op. Included by HirOps.td.
#ifndef QCC_HIR_FUSED_OPS_TD
#define QCC_HIR_FUSED_OPS_TD

// Made by the fusion passes; the reference evaluator runs the body. What the operand types already say (heads,
// dimensions, taps) has a getter and no attribute.
class Hir_FusedOp<string m, list<Trait> t = []> :
    Hir_Op<"fused." # m, !listconcat(t, [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects,
                                        DeclareOpInterfaceMethods<Hir_FusedOpInterface>])> {
  let regions = (region SizedRegion<1>:$body);
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::evaluate(::qcc::hir::Evaluator &ev) { return evaluateFused(*this, ev); }
  }];
}

def Hir_FusedNormQuantOp : Hir_FusedOp<"norm_quant", [Hir_RowWise]> {
  let summary = "hir.rms_norm and the hir.quantize of its result";
  let description = [{
    x: [rows, features]. `norm`: the plain result, for those that need it beside the rounded one.
  }];
  let arguments = (ins Hir_Rows2D:$x, Hir_WeightType:$weight, F32Attr:$eps);
  let results = (outs Optional<Hir_Rows2D>:$norm, Hir_LinearInput:$quantized);
  let assemblyFormat = "$x `weight` $weight `eps` $eps attr-dict-with-keyword `:` functional-type(operands, results) $body";
  let extraClassDeclaration = [{
    Int8Attr getRounding() { return ::llvm::cast<Int8Attr>(getQuantized().getType().getEncoding()); }
  }];
}

def Hir_FusedMergedLinearOp : Hir_FusedOp<"merged_linear", [AttrSizedOperandSegments, Hir_RowWise]> {
  let summary = "linears that may run side by side";
  let description = [{
    Result i = hir.linear(inputs[i], weights[i]); no input is another's result. qcc-merge-linears makes it of linears on one
    activation or its rounded copy, but each linear is run with its own input, whatever that is. scales[j] belongs to linear
    scaled[j]; `scaled` ascends.
  }];
  let arguments = (ins Variadic<Hir_LinearInput>:$inputs, Variadic<Hir_WeightType>:$weights, Variadic<Hir_WeightType>:$scales,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$scaled);
  let results = (outs Variadic<Hir_Rows2D>:$results);
  let assemblyFormat = [{
    `(` $inputs `)` `weights` `(` $weights `)` (`scales` `(` $scales^ `)`)? attr-dict-with-keyword `:`
    functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    // The scale of linear i, or none.
    ::mlir::Value getScale(int64_t i);
    // Linear i of the body; for its location.
    LinearOp getLinear(int64_t i);
  }];
}

def Hir_FusedLinearSwigluOp : Hir_FusedOp<"linear_swiglu", [AttrSizedOperandSegments, Hir_RowWise]> {
  let summary = "gate and up linears of one input and their hir.swiglu";
  let description = [{
    The two weights have one type, so that a kernel can walk both matrices in step.
  }];
  let arguments = (ins Hir_LinearInput:$x, Hir_WeightType:$gate, Hir_WeightType:$up, Optional<Hir_WeightType>:$gate_scale,
                       Optional<Hir_WeightType>:$up_scale);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = [{
    $x `gate` $gate `up` $up (`gate_scale` $gate_scale^)? (`up_scale` $up_scale^)? attr-dict-with-keyword `:`
    functional-type(operands, results) $body
  }];
}

def Hir_FusedLinearResidualOp : Hir_FusedOp<"linear_residual", [Hir_RowWise]> {
  let summary = "a hir.linear and the hir.add to a value that nobody needs afterwards";
  let description = [{
    A kernel adds into the residual's own place.
  }];
  let arguments = (ins Hir_LinearInput:$x, Hir_WeightType:$weight, Hir_Rows2D:$residual, Optional<Hir_WeightType>:$scale);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = [{
    $x `weight` $weight `residual` $residual (`scale` $scale^)? attr-dict-with-keyword `:`
    functional-type(operands, results) $body
  }];
}

def Hir_FusedGatedDeltaOp : Hir_FusedOp<"gated_delta"> {
  let summary = "the gated delta net between its projections: convolution, silu, unit length, gates, delta rule, gated norm";
  let description = [{
    qkv: [rows, 2 * key_heads * key_dim + value_heads * value_dim], the channels of the convolution: queries, keys, values.
    z: [rows, value_heads * value_dim], gates the norm by its silu. alpha, beta: [rows, value_heads], before decay and
    sigmoid. Both convolved queries and keys get unit length (`l2_eps`, `l2_form`: see hir.l2_norm). Heads may be a dimension
    of z and of the result. `heads`: see hir.gated_delta.
  }];
  let arguments = (ins Hir_Rows2D:$qkv, Hir_F32Tensor:$z, Hir_Rows2D:$alpha, Hir_Rows2D:$beta, Hir_WeightType:$conv,
                       Hir_WeightType:$ssm_a, Hir_WeightType:$dt_bias, Hir_WeightType:$norm, Hir_StateType:$conv_state,
                       Hir_StateType:$delta_state, Hir_RowsType:$rows,
                       F32Attr:$l2_eps, Hir_L2FormAttr:$l2_form, F32Attr:$norm_eps, F32Attr:$scale,
                       DefaultValuedAttr<Hir_HeadOrderAttr, "::qcc::hir::HeadOrder::Tiled">:$heads);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = [{
    $qkv `z` $z `alpha` $alpha `beta` $beta `conv` $conv `ssm_a` $ssm_a `dt_bias` $dt_bias `norm` $norm
    `states` $conv_state `,` $delta_state `rows` $rows `l2_eps` $l2_eps `l2_form` $l2_form `norm_eps` $norm_eps `scale` $scale
    (`heads` $heads^)? attr-dict-with-keyword `:` functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    int64_t getValueHeads() { return getDeltaState().getType().getShape()[0]; }
    int64_t getKeyDim() { return getDeltaState().getType().getShape()[1]; }
    int64_t getValueDim() { return getDeltaState().getType().getShape()[2]; }
    int64_t getKeyHeads() {
      return (getConv().getType().getShape()[0] - getValueHeads() * getValueDim()) / (2 * getKeyDim());
    }
    int64_t getTaps() { return getConv().getType().getShape()[1]; }
  }];
}

def Hir_FusedQkNormRopeStoreOp : Hir_FusedOp<"qk_norm_rope_store"> {
  let summary = "norm and rotation of queries and keys, keys and values into the cache";
  let description = [{
    q: [rows, heads * head_dim], or per head its query, then as many gates, which stay where they are. k, v: [rows, kv_heads *
    head_dim]. Heads may be a dimension of each. result: the queries, [rows, heads, head_dim]. rope: a hir.rope_table.
  }];
  let arguments = (ins Hir_F32Tensor:$q, Hir_F32Tensor:$k, Hir_F32Tensor:$v, Hir_WeightType:$q_norm, Hir_WeightType:$k_norm,
                       Hir_Rows2D:$rope, Hir_StateType:$state, Hir_RowsType:$rows, F32Attr:$eps);
  let results = (outs Hir_Rows3D:$result);
  let assemblyFormat = [{
    $q `k` $k `v` $v `q_norm` $q_norm `k_norm` $k_norm `rope` $rope `state` $state `rows` $rows `eps` $eps
    attr-dict-with-keyword `:` functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    int64_t getQueryHeads() { return getResult().getType().getShape()[1]; }
    int64_t getKvHeads() { return getState().getType().getShape()[0]; }
    int64_t getHeadDim() { return getState().getType().getShape()[1]; }
    int64_t getRotatedDims() { return getRope().getType().getShape()[1]; }
    // Whether q holds gates beside the queries.
    bool isGated();
  }];
}

def Hir_FusedGatedAttentionOp : Hir_FusedOp<"gated_attention"> {
  let summary = "hir.attention, its result times a sigmoid gate where there is one";
  let description = [{
    gate: the `q` operand of hir.fused.qk_norm_rope_store, per head as many queries (which this op does not read), then the
    gates. result: [rows, heads, head_dim] or [rows, heads * head_dim].
  }];
  let arguments = (ins Hir_Rows3D:$q, Optional<Hir_F32Tensor>:$gate, Hir_StateType:$state, Hir_RowsType:$rows, F32Attr:$scale);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = [{
    $q (`gate` $gate^)? `state` $state `rows` $rows `scale` $scale attr-dict-with-keyword `:`
    functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    int64_t getQueryHeads() { return getQ().getType().getShape()[1]; }
    int64_t getKvHeads() { return getState().getType().getShape()[0]; }
    int64_t getHeadDim() { return getState().getType().getShape()[1]; }
  }];
}

def Hir_FusedMoeOp : Hir_FusedOp<"moe", [AttrSizedOperandSegments, Hir_RowWise]> {
  let summary = "router, routing and experts of one feed-forward block, its shared expert and the residual sum";
  let description = [{
    router: [experts, features], f32, of x, which is plain. gate, up, down and their scales: as in hir.moe_experts, of
    experts_x: x or its rounded copy. Attributes: as in hir.moe_route and hir.moe_experts.
    A shared expert is five operands or none: shared_gate, shared_up (both of shared_x: x or its rounded copy), shared_down, and
    shared_router: [1, features], of x, whose sigmoid is the factor of its result; each matrix may have a scale.
    shared_hidden_block: as hidden_block, of its hidden rows. residual: a value that nobody needs afterwards.
    result = residual + (experts + shared): the experts by ascending id, then the shared expert. A kernel adds them to the
    residual one after the other, in this order.
  }];
  let arguments = (ins Hir_Rows2D:$x, Hir_WeightType:$router, Hir_LinearInput:$experts_x, Hir_WeightType:$gate,
                       Hir_WeightType:$up, Hir_WeightType:$down, Optional<Hir_WeightType>:$gate_scale,
                       Optional<Hir_WeightType>:$up_scale, Optional<Hir_WeightType>:$down_scale,
                       Optional<Hir_LinearInput>:$shared_x, Optional<Hir_WeightType>:$shared_gate,
                       Optional<Hir_WeightType>:$shared_up, Optional<Hir_WeightType>:$shared_down,
                       Optional<Hir_WeightType>:$shared_router, Optional<Hir_WeightType>:$shared_gate_scale,
                       Optional<Hir_WeightType>:$shared_up_scale, Optional<Hir_WeightType>:$shared_down_scale,
                       Optional<Hir_Rows2D>:$residual,
                       Hir_GatingAttr:$gating, I64Attr:$top_k, BoolAttr:$normalise, F32Attr:$norm_floor, F32Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$hidden_block, DefaultValuedAttr<I64Attr, "0">:$shared_hidden_block);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = [{
    $x `router` $router $gating `top_k` $top_k `normalise` $normalise `floor` $norm_floor `scale` $scale
    `experts` $experts_x `gate` $gate `up` $up `down` $down (`gate_scale` $gate_scale^)? (`up_scale` $up_scale^)?
    (`down_scale` $down_scale^)? (`hidden_block` $hidden_block^)?
    (`shared` $shared_x^ `gate` $shared_gate `up` $shared_up `down` $shared_down `router` $shared_router)?
    (`shared_gate_scale` $shared_gate_scale^)? (`shared_up_scale` $shared_up_scale^)? (`shared_down_scale` $shared_down_scale^)?
    (`shared_hidden_block` $shared_hidden_block^)? (`residual` $residual^)? attr-dict-with-keyword `:`
    functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    int64_t getExperts() { return getGate().getType().getShape()[0]; }
    int64_t getWidth() { return getGate().getType().getShape()[1]; }
    // Hidden values of the shared expert; 0: there is none.
    int64_t getSharedWidth() { return getSharedGate() ? getSharedGate().getType().getShape()[0] : 0; }
  }];
}

def Hir_YieldOp : Op<Hir_Dialect, "yield", [Pure, Terminator, ReturnLike, ParentOneOf<[
    "FusedNormQuantOp", "FusedMergedLinearOp", "FusedLinearSwigluOp", "FusedLinearResidualOp", "FusedGatedDeltaOp",
    "FusedQkNormRopeStoreOp", "FusedGatedAttentionOp", "FusedMoeOp"]>]> {
  let summary = "results of a fused op";
  let description = [{
    Ends the body of a fused op; the values are its results, in number, order and type.
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}
#endif
