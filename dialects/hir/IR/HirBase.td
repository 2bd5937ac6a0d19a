// hir: the model as ops. Semantic and shape-checked; knows no target, no layout and no bucket.
#ifndef QCC_HIR_BASE_TD
#define QCC_HIR_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"

def Hir_Dialect : Dialect {
  let name = "hir";
  let cppNamespace = "::qcc::hir";
  let summary = "A language model as semantic, shape-checked ops";
  let description = [{
    Activations are ranked f32 tensors whose first dimension `?` is *rows* (tokens of one step, of one or several
    sequences); heads are a middle dimension: `tensor<?x8x256xf32>`. Weights are `!hir.weight` values that name a
    GGUF tensor; their values are never in the IR. State that lives between steps is a `!hir.state` handle.
    How the rows of a step split into sequences, and where each sequence stands, is one `!hir.rows` value.

    A function per block kind (`@block_*`), called once per layer. The public functions are what the model can do: `@trunk`
    (tokens -> residual stream), `@head` (selected rows -> logits), where the model has one `@mtp`, and whatever else an
    importer makes. What a public function takes and gives is read from its types, from what its arguments are used for,
    and from `hir.left_by` and `hir.logits` (Hir.h), never from its name.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerTypes();";
}

def Hir_StateKind : I32EnumAttr<"StateKind", "what a state holds", [
    I32EnumAttrCase<"Conv", 0, "conv">,    // shape [taps - 1, channels]: the last pre-conv rows, oldest first
    I32EnumAttrCase<"Delta", 1, "delta">,  // shape [v_heads, key_dim, value_dim], f32 always
    I32EnumAttrCase<"KV", 2, "kv">,        // shape [kv_heads, head_dim]: one K and one V row per token
    I32EnumAttrCase<"Trace", 3, "trace">   // shape [features]: the last row, f32 always
  ]> { let cppNamespace = "::qcc::hir"; let genSpecializedAttr = 0; }

def Hir_ActivationKind : I32EnumAttr<"ActivationKind", "elementwise function", [
    I32EnumAttrCase<"Silu", 0, "silu">, I32EnumAttrCase<"Sigmoid", 1, "sigmoid">,
    I32EnumAttrCase<"Softplus", 2, "softplus">
  ]> { let cppNamespace = "::qcc::hir"; let genSpecializedAttr = 0; }
def Hir_ActivationKindAttr : EnumAttr<Hir_Dialect, Hir_ActivationKind, "activation_kind">;

def Hir_L2Form : I32EnumAttr<"L2Form", "where the eps of an l2 norm stands", [
    I32EnumAttrCase<"Sum", 0, "sum">,   // x * rsqrt(sum(x^2) + eps)
    I32EnumAttrCase<"Max", 1, "max">    // x / max(sqrt(sum(x^2)), eps)
  ]> { let cppNamespace = "::qcc::hir"; let genSpecializedAttr = 0; }
def Hir_L2FormAttr : EnumAttr<Hir_Dialect, Hir_L2Form, "l2_form">;

def Hir_HeadOrder : I32EnumAttr<"HeadOrder", "the key head that value head j of the delta rule reads", [
    I32EnumAttrCase<"Tiled", 0, "tiled">,      // j mod key_heads
    I32EnumAttrCase<"Grouped", 1, "grouped">   // j / (value_heads / key_heads)
  ]> { let cppNamespace = "::qcc::hir"; let genSpecializedAttr = 0; }
def Hir_HeadOrderAttr : EnumAttr<Hir_Dialect, Hir_HeadOrder, "head_order">;

def Hir_Gating : I32EnumAttr<"Gating", "from router logits to gate values", [
    I32EnumAttrCase<"Softmax", 0, "softmax">,  // over all experts
    I32EnumAttrCase<"Sigmoid", 1, "sigmoid">   // of each expert alone
  ]> { let cppNamespace = "::qcc::hir"; let genSpecializedAttr = 0; }
def Hir_GatingAttr : EnumAttr<Hir_Dialect, Hir_Gating, "gating">;

class Hir_Type<string n, string m, list<Trait> traits = []> : TypeDef<Hir_Dialect, n, traits> { let mnemonic = m; }

def Hir_WeightType : Hir_Type<"Weight", "weight"> {
  let summary = "a GGUF tensor by shape and format, e.g. `!hir.weight<4096x1024, q4_k>`";
  let description = [{
    Dimensions are slowest first (GGUF `ne` reversed): a linear layer is `rows(out) x columns(in)`. The last
    dimension is a multiple of the format's block.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::qcc::Format":$format);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
    int64_t getNumElements() const;
    int64_t getByteSize() const;
  }];
}

def Hir_StateType : Hir_Type<"State", "state"> {
  let summary = "handle of per-sequence state, e.g. `!hir.state<kv, 2x256, f16>`, `!hir.state<delta, 16x128x128, f32>`";
  let parameters = (ins EnumParameter<Hir_StateKind>:$kind, ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Hir_RowsType : Hir_Type<"Rows", "rows"> {
  let summary = "how the rows of a step split into sequences, with each row's positions";
}

// tensor<?x1024xf32, #hir.int8<32>>: values that were rounded to int8 with one f32 scale per 32 of a row.
// #hir.int8<32, 2>: each the sum of two such values.
def Hir_Int8Attr : AttrDef<Hir_Dialect, "Int8", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "int8";
  let summary = "tensor encoding: int8 codes with one f32 scale per block of a row, as many of both as terms";
  let parameters = (ins "int64_t":$block, DefaultValuedParameter<"int64_t", "1">:$terms);
  let assemblyFormat = "`<` $block (`,` $terms^)? `>`";
  let genVerifyDecl = 1;
}

def Hir_RowPiecesAttr : AttrDef<Hir_Dialect, "RowPieces"> {
  let mnemonic = "row_pieces";
  let summary = "some rows of a tensor, in another order, e.g. `#hir.row_pieces<2 groups of 8 rows, [0], [4]>`";
  let description = [{
    Files interleave what ops take apart: gate and up of every expert in one tensor, betas and alphas by key head. The rows of
    the tensor (all dimensions but the last) are `groups` groups of `groupRows`. Piece p is, of every group in turn, its rows
    [begins[p], begins[p] + counts[p]); the pieces stand one behind the other. No value changes, and a row of any format is
    whole blocks: whoever reads or packs the tensor row by row reads those rows.
  }];
  let parameters = (ins "int64_t":$groups, "int64_t":$groupRows, ArrayRefParameter<"int64_t">:$begins,
                        ArrayRefParameter<"int64_t">:$counts);
  let assemblyFormat = "`<` $groups `groups` `of` $groupRows `rows` `,` `[` $begins `]` `,` `[` $counts `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Rows of the tensor, and of the pieces together.
    int64_t getTensorRows() const { return getGroups() * getGroupRows(); }
    int64_t getRows() const;
    // Which row of the tensor is row `row` of the pieces.
    int64_t getTensorRow(int64_t row) const;
  }];
}

#endif
