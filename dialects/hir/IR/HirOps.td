#ifndef QCC_HIR_OPS_TD
#define QCC_HIR_OPS_TD
include "dialects/hir/IR/HirBase.td"
include "dialects/hir/IR/HirInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Hir_Op<string m, list<Trait> t = []> :
    Op<Hir_Dialect, m, !listconcat(t, [DeclareOpInterfaceMethods<Hir_EvaluableOpInterface>])>;
// Ops whose result type follows from their operands.
class Hir_InferredOp<string m, list<Trait> t = []> :
    Hir_Op<m, !listconcat(t, [DeclareOpInterfaceMethods<InferTypeOpInterface>])>;

// Activations: only the rows may be unknown at compile time, and all else is there. (kDynamic is negative.)
def Hir_StaticFeatures : CPred<"::llvm::all_of("
    "::llvm::cast<::mlir::RankedTensorType>($_self).getShape().drop_front(), [](int64_t n) { return n > 0; })">;
def Hir_NoEncoding : CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">;
def Hir_Int8OrNoEncoding : CPred<"::llvm::isa_and_present<::qcc::hir::Int8Attr>("
    "::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()) || "
    "!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">;
class Hir_Activations<list<int> ranks, Pred encoding, string summary> :
    RankedTensorOf<[F32], [HasAnyRankOfPred<ranks>, Hir_StaticFeatures, encoding], summary>;

def Hir_F32Tensor : Hir_Activations<[2, 3], Hir_NoEncoding, "[rows, features] or [rows, heads, head_dim] with positive static features, without encoding,">;
def Hir_Rows2D : Hir_Activations<[2], Hir_NoEncoding, "[rows, features] with positive static features, without encoding,">;
def Hir_Rows3D : Hir_Activations<[3], Hir_NoEncoding, "[rows, heads, head_dim] with positive static features, without encoding,">;
def Hir_LinearInput : Hir_Activations<[2], Hir_Int8OrNoEncoding, "[rows, features] with positive static features, plain or #hir.int8,">;
def Hir_IdTensor : 1DTensorOf<[I32]>;
def Hir_ExpertIds : RankedTensorOf<[I32], [HasAnyRankOfPred<[2]>, Hir_StaticFeatures], "[rows, experts of a row] ids, as many for each row,">;

def Hir_ParamOp : Hir_Op<"param", [Pure]> {
  let summary = "a tensor of the model, by its GGUF name";
  let description = [{
    Names a tensor of the GGUF file; its shape and format are in the type, its values never in the IR. One op per use is
    fine: two params of one name are the same tensor. `pieces`: the rows of it that the type has, where these are not all in
    the file's order (#hir.row_pieces). A tensor of f16 or bf16 may go as f32, which holds its values exactly.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<Hir_RowPiecesAttr>:$pieces);
  let results = (outs Hir_WeightType:$result);
  let assemblyFormat = "$name (`pieces` $pieces^)? attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Hir_StateOp : Hir_Op<"state", []> {
  let summary = "the state of one layer, by its name, e.g. \"blk.3.kv\"";
  let description = [{
    A handle of memory that one sequence keeps between steps. Names are unique in a module ("blk.<layer>.<kind>"); the
    ops that take the handle say whether they read or write it.
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs Hir_StateType:$result);
  let assemblyFormat = "$name attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Hir_EmbedOp : Hir_InferredOp<"embed", [Pure]> {
  let summary = "row lookup: y[r] = decode(table[ids[r]])";
  let description = [{
    table: [vocab, features] in any format; ids: one per row, each below vocab. Rows are decoded exactly, unscaled.
  }];
  let arguments = (ins Hir_WeightType:$table, Hir_IdTensor:$ids);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$table `,` $ids attr-dict `:` qualified(type($table)) `,` type($ids)";
  let hasVerifier = 1;
}

def Hir_RmsNormOp : Hir_InferredOp<"rms_norm", [Pure, Hir_RowWise]> {
  let summary = "y = x * rsqrt(mean(x^2) + eps) * w over the last dimension";
  let description = [{
    The mean runs over the last dimension (a head, for 3-D inputs), of which `weight` is a vector. GGUF weights already
    include the +1 of zero-centred norms, except ssm_norm, which has none.
  }];
  let arguments = (ins Hir_F32Tensor:$x, Hir_WeightType:$weight, F32Attr:$eps);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "$x `,` $weight `eps` $eps attr-dict `:` type($x) `,` qualified(type($weight))";
  let hasVerifier = 1;
}

def Hir_L2NormOp : Hir_InferredOp<"l2_norm", [Pure, Hir_RowWise]> {
  let summary = "unit length over the last dimension: y = x * rsqrt(sum(x^2) + eps), or with `form max` x / max(sqrt(sum(x^2)), eps)";
  let description = [{
    `sum`, the default, adds eps to the sum of squares (not to the mean): the form of the reference implementations of the
    delta rule. `max` takes it as a lower bound of the norm: the form of older implementations. They differ for rows whose
    norm is not far above sqrt(eps).
  }];
  let arguments = (ins Hir_F32Tensor:$x, F32Attr:$eps,
                       DefaultValuedAttr<Hir_L2FormAttr, "::qcc::hir::L2Form::Sum">:$form);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "$x `eps` $eps (`form` $form^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Hir_QuantizeOp : Hir_InferredOp<"quantize", [Pure, Hir_RowWise]> {
  let summary = "round a row to int8 blocks: d = max|x|/127 (f32), q = round_half_even(x/d); the value is q*d";
  let description = [{
    The rounding that int8 dot products see, as values: the result is f32 with encoding `#hir.int8<block>`. A block of zeros
    gives zeros. Only linears accept the result. With `terms` 2 the value is the sum of two: what the first rounding left
    is rounded in its turn, which leaves 1/254 of it (`#hir.int8<block, 2>`).
  }];
  let arguments = (ins Hir_Rows2D:$x, I64Attr:$block, DefaultValuedAttr<I64Attr, "1">:$terms);
  let results = (outs Hir_LinearInput:$result);   // same shape, encoding #hir.int8<block, terms>
  let assemblyFormat = "$x `block` $block (`terms` $terms^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def Hir_LinearOp : Hir_InferredOp<"linear", [Pure, Hir_RowWise]> {
  let summary = "y[r][o] = sum_i W[o][i] x[r][i], times a scale where one is given";
  let description = [{
    weight: [out, in] in any format; x: [rows, in], plain or with encoding `#hir.int8<32>`. With the encoding a kernel may sum
    integer codes; the value is the same up to the order of float sums. scale: one f32 number, the `.scale` tensor that some
    files have beside a weight; it multiplies every sum.
  }];
  let arguments = (ins Hir_LinearInput:$x, Hir_WeightType:$weight, Optional<Hir_WeightType>:$scale);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = [{
    $x `,` $weight (`scale` $scale^)? attr-dict `:` type($x) `,` qualified(type($weight)) (`,` qualified(type($scale))^)?
  }];
  let hasVerifier = 1;
}

def Hir_AddOp : Hir_Op<"add", [Pure, Hir_RowWise, SameOperandsAndResultType]> {
  let summary = "elementwise sum";
  let description = [{
    Elementwise, equal shapes; the residual sums.
  }];
  let arguments = (ins Hir_F32Tensor:$lhs, Hir_F32Tensor:$rhs);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}
def Hir_MulOp : Hir_Op<"mul", [Pure, Hir_RowWise, SameOperandsAndResultType]> {
  let summary = "elementwise product";
  let description = [{
    Elementwise, equal shapes; gates.
  }];
  let arguments = (ins Hir_F32Tensor:$lhs, Hir_F32Tensor:$rhs);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}
def Hir_ActivationOp : Hir_Op<"activation", [Pure, Hir_RowWise, SameOperandsAndResultType]> {
  let summary = "elementwise silu, sigmoid or softplus";
  let description = [{
    silu(x) = x * sigmoid(x); softplus(x) = ln(1 + e^x), computed without overflow on either side.
  }];
  let arguments = (ins Hir_ActivationKindAttr:$kind, Hir_F32Tensor:$x);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "`` $kind $x attr-dict `:` type($x)";
}
def Hir_SwigluOp : Hir_Op<"swiglu", [Pure, Hir_RowWise, SameOperandsAndResultType]> {
  let summary = "silu(gate) * up";
  let description = [{
    The elementwise part of a dense feed-forward block; shapes are equal.
  }];
  let arguments = (ins Hir_Rows2D:$gate, Hir_Rows2D:$up);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($gate)";
}

def Hir_ReshapeOp : Hir_Op<"reshape", [Pure, Hir_RowWise]> {
  let summary = "split or merge heads: [rows, a*b] <-> [rows, a, b]; rows never change, memory order is kept";
  let description = [{
    A view: no value moves. Heads come out of a linear as consecutive runs of head_dim.
  }];
  let arguments = (ins Hir_F32Tensor:$x);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
}
def Hir_SliceOp : Hir_InferredOp<"slice", [Pure, Hir_RowWise]> {
  let summary = "elements [offset, offset + size) of the last dimension";
  let description = [{
    Takes query or gate out of interleaved heads, or q, k, v out of the convolved channels.
  }];
  let arguments = (ins Hir_F32Tensor:$x, I64Attr:$offset, I64Attr:$size);
  let results = (outs Hir_F32Tensor:$result);
  let assemblyFormat = "$x `[` $offset `,` $size `]` attr-dict `:` type($x)";
  let hasVerifier = 1;
}
def Hir_ConcatOp : Hir_InferredOp<"concat", [Pure, Hir_RowWise]> {
  let summary = "lhs, then rhs, along the last dimension: what the MTP block feeds its first projection";
  let description = [{
    lhs: [rows, a], rhs: [rows, b] with equal rows; result: [rows, a + b], row by row the features of lhs, then those of rhs.
  }];
  let arguments = (ins Hir_Rows2D:$lhs, Hir_Rows2D:$rhs);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
  let hasVerifier = 1;
}
def Hir_SelectRowsOp : Hir_InferredOp<"select_rows", [Pure]> {
  let summary = "y[i] = x[rows[i]]: only the rows whose logits were asked for go on to the head";
  let description = [{
    indices: row numbers of this step, in any order, repeats allowed; each below the rows of x.
  }];
  let arguments = (ins Hir_Rows2D:$x, Hir_IdTensor:$indices);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$x `,` $indices attr-dict `:` type($x) `,` type($indices)";
}

def Hir_CausalConv1dOp : Hir_InferredOp<"causal_conv1d", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "depthwise causal convolution over a sequence's rows, with its history in a state";
  let description = [{
    y_t[c] = sum_i w[c][i] * x_{t - (taps-1) + i}[c], i = taps-1 being the current row. Rows before the first of the
    step come from the state (zeros at the start of a sequence), which ends up holding the last taps-1 rows of x.
    weight: `channels x taps`; state: `taps - 1 x channels`.
  }];
  let arguments = (ins Hir_Rows2D:$x, Hir_WeightType:$weight, Hir_StateType:$state, Hir_RowsType:$rows);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$x `,` $weight `,` $state `,` $rows attr-dict `:` type($x) `,` qualified(type($weight)) `,` qualified(type($state))";
  let hasVerifier = 1;
}

def Hir_GdnDecayOp : Hir_InferredOp<"gdn_decay", [Pure, Hir_RowWise]> {
  let summary = "log-decay of the delta rule: g = ssm_a * softplus(a + dt_bias), per value head; ssm_a is already -exp(A_log)";
  let description = [{
    a: [rows, value_heads], the projection by ssm_alpha; ssm_a, dt_bias: [value_heads]. g is at most 0, the decay itself is
    exp(g).
  }];
  let arguments = (ins Hir_Rows2D:$a, Hir_WeightType:$ssm_a, Hir_WeightType:$dt_bias);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$a `,` $ssm_a `,` $dt_bias attr-dict `:` type($a) `,` qualified(type($ssm_a)) `,` qualified(type($dt_bias))";
  let hasVerifier = 1;
}

def Hir_GatedDeltaOp : Hir_InferredOp<"gated_delta", [AllTypesMatch<["q", "k"]>, AllTypesMatch<["g", "beta"]>,
    MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the gated delta rule, token after token of each sequence";
  let description = [{
    Per value head j, with its key head and state S [key_dim x value_dim]:
    S <- exp(g) S;  r = S^T k;  u = beta (v - r);  S <- S + k u^T;  o = scale * S^T q.
    q, k: [rows, key_heads, key_dim]; v, result: [rows, value_heads, value_dim]; g, beta: [rows, value_heads].
    `heads`: which key head value head j reads: `tiled`, the default, is j mod key_heads, as most converters order the value
    heads; `grouped` is j / (value_heads / key_heads), the order of training.
  }];
  let arguments = (ins Hir_Rows3D:$q, Hir_Rows3D:$k, Hir_Rows3D:$v, Hir_Rows2D:$g, Hir_Rows2D:$beta,
                       Hir_StateType:$state, Hir_RowsType:$rows, F32Attr:$scale,
                       DefaultValuedAttr<Hir_HeadOrderAttr, "::qcc::hir::HeadOrder::Tiled">:$heads);
  let results = (outs Hir_Rows3D:$result);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $g `,` $beta `,` $state `,` $rows `scale` $scale (`heads` $heads^)? attr-dict `:`
    type($q) `,` type($v) `,` type($g) `,` qualified(type($state))
  }];
  let hasVerifier = 1;
}

def Hir_RopeTableOp : Hir_Op<"rope_table", [Pure]> {
  let summary = "cos and sin of every row's rotation angles; one producer for all attention layers of a step";
  let description = [{
    Result [rows, 2 * pairs]: cos of the pairs, then sin. Pair s turns by pos[stream(s)] * base^(-2s/dims), pairs =
    dims/2. Interleaved M-RoPE: with `sections` [t, h, w, e], s mod 3 == 1 and s < 3h -> stream h; s mod 3 == 2 and
    s < 3w -> w; s mod 3 == 0 and s < 3t -> t; else e. Empty sections: stream t for all. YaRN and linear scaling change
    the frequencies: freq = scaled mix as given in `inv_freq` (one f64 per pair, already scaled);
    cos and sin are multiplied by `magnitude`.
  }];
  let arguments = (ins Hir_RowsType:$rows, DenseF64ArrayAttr:$inv_freq, DenseI64ArrayAttr:$sections, F64Attr:$magnitude);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$rows attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Hir_RopeOp : Hir_InferredOp<"rope", [Pure, Hir_RowWise]> {
  let summary = "NeoX rotation of the first `dims` of each head: pair (i, i + dims/2), (a cos - b sin, a sin + b cos)";
  let description = [{
    x: [rows, heads, head_dim]; table: a `hir.rope_table` of `dims` <= head_dim columns. Dimensions from `dims` on pass through.
  }];
  let arguments = (ins Hir_Rows3D:$x, Hir_Rows2D:$table);
  let results = (outs Hir_Rows3D:$result);
  let assemblyFormat = "$x `,` $table attr-dict `:` type($x) `,` type($table)";
  let hasVerifier = 1;
}

def Hir_KvStoreOp : Hir_Op<"kv_store", [AllTypesMatch<["k", "v"]>, MemoryEffects<[MemWrite]>]> {
  let summary = "append this step's keys and values to the cache, rounded to its element type";
  let description = [{
    k, v: [rows, kv_heads, head_dim]. Each row goes to its sequence at the index of that row in the sequence, rounded to nearest
    even when the cache holds f16.
  }];
  let arguments = (ins Hir_Rows3D:$k, Hir_Rows3D:$v, Hir_StateType:$state, Hir_RowsType:$rows);
  let assemblyFormat = "$k `,` $v `,` $state `,` $rows attr-dict `:` type($k) `,` qualified(type($state))";
  let hasVerifier = 1;
}

def Hir_TraceOp : Hir_Op<"trace", [MemoryEffects<[MemWrite]>]> {
  let summary = "keep each sequence's last row of the step, for people to look at";
  let description = [{
    x: [rows, features]; state: `features`. No value depends on it.
  }];
  let arguments = (ins Hir_Rows2D:$x, Hir_StateType:$state, Hir_RowsType:$rows);
  let assemblyFormat = "$x `,` $state `,` $rows attr-dict `:` type($x) `,` qualified(type($state))";
  let hasVerifier = 1;
}

def Hir_AttentionOp : Hir_InferredOp<"attention", [MemoryEffects<[MemRead]>]> {
  let summary = "causal softmax attention over the cache; query head h reads kv head h / (heads / kv_heads)";
  let description = [{
    Row r of a sequence sees the tokens of that sequence up to and including itself (by index in the sequence, not by
    rope position). o = softmax(scale * q k^T) v, softmax in f32.
  }];
  let arguments = (ins Hir_Rows3D:$q, Hir_StateType:$state, Hir_RowsType:$rows, F32Attr:$scale);
  let results = (outs Hir_Rows3D:$result);
  let assemblyFormat = "$q `,` $state `,` $rows `scale` $scale attr-dict `:` type($q) `,` qualified(type($state))";
  let hasVerifier = 1;
}

def Hir_MoeRouteOp : Hir_InferredOp<"moe_route", [Pure, Hir_RowWise]> {
  let summary = "the experts that each row uses, and their weights, from the router's logits";
  let description = [{
    logits: [rows, experts]. A row uses the `top_k` experts of the largest gate values, of equal ones that with the lower id.
    Both gate functions rise strictly, so logits are compared: gate values that only rounding makes equal are no tie.
    gate = softmax of the row or sigmoid of each logit; weight = gate / max(sum of the used gates, norm_floor) with
    `normalise`, else the gate itself; times `scale`.
    ids, weights: [rows, top_k], by ascending id: a row's experts are added in that order, so that its bits depend on
    the row alone.
  }];
  let arguments = (ins Hir_Rows2D:$logits, Hir_GatingAttr:$gating, I64Attr:$top_k, BoolAttr:$normalise,
                       F32Attr:$norm_floor, F32Attr:$scale);
  let results = (outs Hir_ExpertIds:$ids, Hir_Rows2D:$weights);
  let assemblyFormat = [{
    $logits $gating `top_k` $top_k `normalise` $normalise `floor` $norm_floor `scale` $scale attr-dict `:` type($logits)
  }];
  let hasVerifier = 1;
}

def Hir_MoeExpertsOp : Hir_InferredOp<"moe_experts", [Pure, Hir_RowWise, AttrSizedOperandSegments]> {
  let summary = "y[r] = sum_k weights[r][k] * down_e(silu(gate_e x[r]) * (up_e x[r])), e = ids[r][k]: grouped feed-forward blocks";
  let description = [{
    x: [rows, in], plain or `#hir.int8`; ids, weights: [rows, k], a row's ids ascending. gate, up: [experts, width, in]; down:
    [experts, out, width]; each in any format. The terms of a row are added to 0 by ascending id, whatever other rows use; this
    order is part of the meaning. An expert that no row uses is not read.
    gate_scale, up_scale, down_scale: f32, one number or one for each expert; multiply the sums of that matrix, as in hir.linear.
    hidden_block: where not 0, silu(gate) * up is rounded as by hir.quantize with that block before the down matrix.
  }];
  let arguments = (ins Hir_LinearInput:$x, Hir_ExpertIds:$ids, Hir_Rows2D:$weights, Hir_WeightType:$gate, Hir_WeightType:$up,
                       Hir_WeightType:$down, Optional<Hir_WeightType>:$gate_scale, Optional<Hir_WeightType>:$up_scale,
                       Optional<Hir_WeightType>:$down_scale, DefaultValuedAttr<I64Attr, "0">:$hidden_block);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = [{
    $x `,` $ids `,` $weights `gate` $gate `up` $up `down` $down (`gate_scale` $gate_scale^)? (`up_scale` $up_scale^)?
    (`down_scale` $down_scale^)? (`hidden_block` $hidden_block^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getExperts() { return getGate().getType().getShape()[0]; }
    int64_t getWidth() { return getGate().getType().getShape()[1]; }
  }];
}

def Hir_ScaleRowsOp : Hir_InferredOp<"scale_rows", [Pure, Hir_RowWise]> {
  let summary = "y[r][i] = x[r][i] * factors[r]: one number for each row, e.g. the gate of a shared expert";
  let description = [{
    x: [rows, features], factors: [rows, 1].
  }];
  let arguments = (ins Hir_Rows2D:$x, Hir_Rows2D:$factors);
  let results = (outs Hir_Rows2D:$result);
  let assemblyFormat = "$x `by` $factors attr-dict `:` type($x) `,` type($factors)";
  let hasVerifier = 1;
}

include "dialects/hir/IR/HirFusedOps.td"
#endif
