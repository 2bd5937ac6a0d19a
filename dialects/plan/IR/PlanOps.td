#ifndef QCC_PLAN_OPS_TD
#define QCC_PLAN_OPS_TD
include "dialects/plan/IR/PlanBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"

class Plan_Op<string m, list<Trait> t = []> : Op<Plan_Dialect, m, t>;

def Plan_WeightOp : Plan_Op<"weight", [Symbol]> {
  let summary = "one packed weight: which GGUF tensors, in which layout, where in the weight section";
  let description = [{
    `rows` x `cols` is the shape of each source (x16_pair has two, gate then up; every other layout one): a vector is
    1 x n, a conv weight channels x taps, a stack of matrices has the rows of all. `pieces` says for each source which rows of
    its tensor it is (#hir.row_pieces, or unit for all of them); absent, all are whole tensors. `padded` [m, r, c]: each source
    is m matrices of r x c, and here each has rows / m rows and `cols` columns, zeros behind the source's. `format` is the sources' GGUF format; layouts f32 and conv_taps decode it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$sources, OptionalAttr<ArrayAttr>:$pieces, StrAttr:$format, Plan_LayoutAttr:$layout,
                       I64Attr:$rows, I64Attr:$cols, I64Attr:$offset, I64Attr:$bytes, OptionalAttr<DenseI64ArrayAttr>:$padded);
  let assemblyFormat = [{
    $sym_name $sources (`pieces` $pieces^)? $format $layout $rows `x` $cols (`padded` $padded^)? `at` $offset `size` $bytes attr-dict
  }];
  let extraClassDeclaration = [{
    ::qcc::hir::RowPiecesAttr getPiecesOf(size_t source);
    // Rows of each source, without padding.
    int64_t getSourceRows() { return getPadded() ? (*getPadded())[0] * (*getPadded())[1] : getRows(); }
  }];
  let hasVerifier = 1;
}
def Plan_ConstantOp : Plan_Op<"constant", [Symbol]> {
  let summary = "f64 values that the compiler computed (rope frequencies), placed in the weight section";
  let description = [{
    `offset` is in bytes from the start of the weight section, a multiple of 64.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DenseF64ArrayAttr:$values, I64Attr:$offset);
  let assemblyFormat = "$sym_name $values `at` $offset attr-dict";
  let hasVerifier = 1;
}
def Plan_StateOp : Plan_Op<"state", [Symbol]> {
  let summary = "where one layer's state lies in a sequence's memory";
  let description = [{
    `conv` and `delta`: `offset`, `bytes` in the state area, of which blocks of 16 tokens have one each, or two in turn
    (dialects/layouts/sequence_state.h); the last 16 times `entry` bytes are what each token of the block leaves. A `conv`
    state is those alone, and its shape says how many tokens before the next one it needs; a `delta` state has them behind
    what its shape says. `trace`: always in the first of them. `kv`: `offset`, `bytes` are per token: with
    capacity C the layer starts at offset*C and holds K [kv_heads][C][head_dim], then V of the same shape.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_StateKindAttr:$kind, I64Attr:$layer, DenseI64ArrayAttr:$shape,
                       Plan_ElementAttr:$element, I64Attr:$offset, I64Attr:$bytes,
                       DefaultValuedAttr<I64Attr, "0">:$entry);
  let assemblyFormat = "$sym_name $kind `layer` $layer $shape $element `at` $offset `size` $bytes (`entry` $entry^)? attr-dict";
  let extraClassDeclaration = [{ bool isKv() { return getKind() == StateKind::KV; } }];
  let hasVerifier = 1;
}
def Plan_BlockOp : Plan_Op<"block", [Symbol, SingleBlock, NoTerminator]> {
  let summary = "dispatches of one layer, shared by all layers that are the same; weights, state and kv are relative";
  let description = [{
    References to weights, state and KV are relative to the bases of the call; arena offsets are final, so a block belongs to
    one program. `weights`, `state`, `kv` bound what it may touch behind each base.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$weight_bytes, I64Attr:$state_bytes, I64Attr:$kv_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `weights` $weight_bytes `state` $state_bytes `kv` $kv_bytes attr-dict-with-keyword $body";
  let hasVerifier = 1;
}
def Plan_ProgramOp : Plan_Op<"program", [Symbol, SingleBlock, NoTerminator]> {
  let summary = "one or more of the model's functions on one bucket: one native function on the CPU, one submission on a GPU";
  let description = [{
    What it takes: `tokens` (an id per row), `given` n (rows of n floats, at arena offset 0 before it runs), `stream` s (the
    rows of stream s that another program of the same step left at arena offset 0). What it `leaves`: the rows of a stream, at
    arena offset 0. What it `gives`: logits, of chosen rows or of all. A stream is named after the function that leaves it.
    What a program advances is not said here: the states that its dispatches write (PlanSummary.h). `rows` is the bucket: the
    most rows of a step; `arena` the scratch bytes it needs. The name is for people.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$tokens, OptionalAttr<I64Attr>:$given, OptionalAttr<StrAttr>:$stream,
                       OptionalAttr<StrAttr>:$leaves, OptionalAttr<Plan_OutputAttr>:$gives, I64Attr:$rows, I64Attr:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name (`tokens` $tokens^)? (`given` $given^)? (`stream` $stream^)? (`leaves` $leaves^)? (`gives` $gives^)?
    `rows` $rows `arena` $arena_bytes attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = "Output getOutput() { return getGives().value_or(Output::Nothing); }";
  let hasVerifier = 1;
}
def Plan_CallOp : Plan_Op<"call", [HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "run a block with these bases";
  let description = [{
    `layer` names the layer for reports ("blk.3").
  }];
  let arguments = (ins FlatSymbolRefAttr:$block, I64Attr:$weights, I64Attr:$state, I64Attr:$kv, StrAttr:$layer);
  let assemblyFormat = "$block `weights` $weights `state` $state `kv` $kv `layer` $layer attr-dict";
}
def Plan_DispatchOp : Plan_Op<"dispatch", [ParentOneOf<["BlockOp", "ProgramOp"]>]> {
  let summary = "one kernel over bindings; dispatches between two barriers are independent and may run side by side";
  let description = [{
    `family` and `spec` (a dictionary of constants) say which kernel; `roles` names each binding. Families, their specs
    and roles: dialects/plan/kernel_families.md. Every target lowers the same families or names the one it lacks.
    `buffers` names the value behind each arena binding ("" for the other spaces): what the plan verifier proves is
    that every read finds the bytes of the value it names. Codegen has no use for it.
    `replicated` (on a CPU): every thread does all of it, into memory of its own.
  }];
  let arguments = (ins StrAttr:$family, DictionaryAttr:$spec, StrArrayAttr:$roles, ArrayAttr:$bindings,
                       OptionalAttr<StrArrayAttr>:$buffers, UnitAttr:$replicated);
  let assemblyFormat = "$family $spec $roles $bindings attr-dict";
  let hasVerifier = 1;
}
def Plan_BarrierOp : Plan_Op<"barrier", [ParentOneOf<["BlockOp", "ProgramOp"]>]> {
  let summary = "every effect before is visible to every dispatch after";
  let description = [{
    On the CPU all threads of the step meet; on a GPU a memory barrier.
  }];
  let assemblyFormat = "attr-dict";
}
#endif
