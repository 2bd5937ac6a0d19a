// plan: what runs. Programs of dispatches over buffers with fixed offsets, weights with a pack layout, states with an
// address. Nothing here is symbolic any more; the only run-time numbers are in the step arguments (runtime/abi).
#ifndef QCC_PLAN_BASE_TD
#define QCC_PLAN_BASE_TD
include "mlir/IR/OpBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::qcc::plan";
  let summary = "Programs, dispatches, buffers, states and barriers with final addresses";
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::qcc::hir::HirDialect"];  // #hir.row_pieces of a weight
}

def Plan_Space : I32EnumAttr<"Space", "address space of a reference", [
    I32EnumAttrCase<"Weights", 0, "weights">,   // the packed weight section; inside a block relative to the call's base
    I32EnumAttrCase<"Arena", 1, "arena">,       // scratch of one program; offsets are final
    I32EnumAttrCase<"State", 2, "state">,       // recurrent and conv state of one sequence; in a block relative
    I32EnumAttrCase<"KV", 3, "kv">,             // per-token offset into a sequence's KV; in a block relative
    I32EnumAttrCase<"Logits", 4, "logits">,     // the caller's output rows
    I32EnumAttrCase<"Thread", 5, "thread">      // memory of each thread of a CPU, which it alone sees; offsets are final
  ]> { let cppNamespace = "::qcc::plan"; let genSpecializedAttr = 0; }

// Numbered as in runtime/abi/terms.h.
def Plan_StateKind : I32EnumAttr<"StateKind", "what a state holds", [
    I32EnumAttrCase<"Conv", 0, "conv">,    // the last rows before a convolution
    I32EnumAttrCase<"Delta", 1, "delta">,  // the memory of a delta rule
    I32EnumAttrCase<"KV", 2, "kv">,        // keys and values by token
    I32EnumAttrCase<"Trace", 3, "trace">   // the last row behind a layer
  ]> { let cppNamespace = "::qcc::plan"; let genSpecializedAttr = 0; }
def Plan_StateKindAttr : EnumAttr<Plan_Dialect, Plan_StateKind, "state_kind">;

// Numbered as in runtime/abi/terms.h.
def Plan_Element : I32EnumAttr<"Element", "type of a state's values", [
    I32EnumAttrCase<"F32", 0, "f32">, I32EnumAttrCase<"F16", 1, "f16">,
    I32EnumAttrCase<"B16", 2, "b16">  // KV: rows of integers on a CPU (runtime/abi/integer_row.h), f16 on a GPU
  ]> { let cppNamespace = "::qcc::plan"; let genSpecializedAttr = 0; }
def Plan_ElementAttr : EnumAttr<Plan_Dialect, Plan_Element, "element">;

def Plan_Access : I32EnumAttr<"Access", "how a dispatch uses a binding", [
    I32EnumAttrCase<"Read", 0, "read">, I32EnumAttrCase<"Write", 1, "write">, I32EnumAttrCase<"ReadWrite", 2, "readwrite">
  ]> { let cppNamespace = "::qcc::plan"; let genSpecializedAttr = 0; }

// Numbered as in runtime/abi/terms.h.
def Plan_Output : I32EnumAttr<"Output", "what a program writes for the caller", [
    I32EnumAttrCase<"Nothing", 0, "nothing">,
    I32EnumAttrCase<"ChosenLogits", 1, "chosen_logits">,  // of the rows that the step chooses
    I32EnumAttrCase<"Logits", 2, "logits">                // of every row
  ]> { let cppNamespace = "::qcc::plan"; let genSpecializedAttr = 0; }
def Plan_OutputAttr : EnumAttr<Plan_Dialect, Plan_Output, "output">;

// How a weight lies in the artifact: layouts::Layout by another name (PackLayout.h). Byte sizes: dialects/layouts/layouts.h.
def Plan_Layout : I32EnumAttr<"Layout", "pack layout of a weight", [
    I32EnumAttrCase<"X16", 0, "x16">,           // groups of 16 rows, interleaved per block (dialects/layouts/x16.h)
    I32EnumAttrCase<"X16Pair", 1, "x16_pair">,  // two matrices (gate, up): their 16-row groups alternate
    I32EnumAttrCase<"F32", 2, "f32">,           // plain f32 values, GGUF order
    I32EnumAttrCase<"ConvTaps", 3, "conv_taps"> // f32 [taps][channels] of a GGUF [channels][taps]
  ]> { let cppNamespace = "::qcc::plan"; let genSpecializedAttr = 0; }
def Plan_LayoutAttr : EnumAttr<Plan_Dialect, Plan_Layout, "layout">;

// #plan.ref<weights, 4096, 1024, read>
def Plan_RefAttr : AttrDef<Plan_Dialect, "Ref"> {
  let mnemonic = "ref";
  let summary = "a byte range of a space and how it is accessed";
  let parameters = (ins EnumParameter<Plan_Space>:$space, "int64_t":$offset, "int64_t":$bytes, EnumParameter<Plan_Access>:$access);
  let assemblyFormat = "`<` $space `,` $offset `,` $bytes `,` $access `>`";
  let genVerifyDecl = 1;
}
#endif
