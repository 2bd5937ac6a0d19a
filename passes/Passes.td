// Every pass of the compiler: one record here, one .cpp, one lit file. Alphabetical.
#ifndef QCC_PASSES_PASSES_TD
#define QCC_PASSES_PASSES_TD
include "mlir/Pass/PassBase.td"

def AssignArena : Pass<"qcc-assign-arena", "::mlir::ModuleOp"> {
  let summary = "give arena buffers whose lives do not overlap the same bytes";
  let description = [{
    Input: a plan with barriers in which every buffer has bytes of its own. Buffers are moved, by liveness between
    barriers, to the lowest free offset, largest first; the buffer at offset 0 (the residual stream, which programs
    hand to each other) stays. No barrier becomes necessary that was not there.
  }];
  let dependentDialects = ["::qcc::plan::PlanDialect"];
}

def BuildPlan : Pass<"qcc-build-plan", "::mlir::ModuleOp"> {
  let summary = "hir functions -> blocks and programs of dispatches, one program per kind and bucket";
  let description = [{
    Input: fused hir with its plan.weight, plan.constant and plan.state ops (qcc-layout-weights). Every op is a view or
    one that kernels execute, fused or not; anything else is an error. Which programs there are
    follows from what the public functions take and give (passes/plan/ProgramKinds.h). The hir functions are removed,
    module attributes stay. Buffers get arena bytes of their own.
  }];
  let dependentDialects = ["::qcc::plan::PlanDialect"];
  let options = [
    ListOption<"decode", "decode", "int64_t", "rows of programs from whose logits a token is drawn (none given: passes/plan/buckets.h)">,
    ListOption<"prefill", "prefill", "int64_t", "rows of programs that give nothing (none given: the same)">,
    ListOption<"head", "head", "int64_t", "rows of programs that make logits of another's rows (none given: the same)">,
    Option<"target", "target", "std::string", "\"cpu\"", "named in errors about ops without a kernel">
  ];
}

def CutLayers : Pass<"qcc-cut-layers", "::mlir::ModuleOp"> {
  let summary = "keep some layers of a model that runs on several devices";
  let description = [{
    The function that begins a step keeps the layers `first` to `last`. Where layers before them are cut off, it takes their
    rows as the caller's instead of tokens; where layers behind them are, it leaves its own, and the functions that take what
    the last layer leaves go too, and those that draft: they are given such rows with tokens. States, weights and tables go with the layers that use them; what several need
    each part has.
  }];
  let dependentDialects = ["::qcc::hir::HirDialect"];
  let options = [
    Option<"first", "first", "int64_t", "0", "first layer that stays, from 0">,
    Option<"last", "last", "int64_t", "0", "last layer that stays">
  ];
}

def DeferLastFfn : Pass<"qcc-defer-last-ffn", "::mlir::ModuleOp"> {
  let summary = "what works row by row at the end of the last block is done for the chosen rows only";
  let description = [{
    Input: fused hir. Where a function leaves rows that others only select rows of, the end of its last block moves behind
    the selection: everything from the first place where all that is left to do works row by row (hir::RowWise) on one value.
    So prefill computes the last feed-forward part for no row that nobody asks for. Values do not change. It stays where it
    is, and a remark says why, where a function takes or is given the rows of all tokens, or there is nothing to move.
  }];
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseGatedAttention : Pass<"qcc-fuse-gated-attention", "::mlir::ModuleOp"> {
  let summary = "attention and its sigmoid output gate become one group";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseGatedDelta : Pass<"qcc-fuse-gated-delta", "::mlir::ModuleOp"> {
  let summary = "conv1d, silu, l2 norms, gates, delta rule and gated norm around one state become one group";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseMoe : Pass<"qcc-fuse-moe", "::mlir::ModuleOp"> {
  let summary = "router, routing, experts, shared expert and residual sum of a feed-forward block become one group";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseNormQuant : Pass<"qcc-fuse-norm-quant", "::mlir::ModuleOp"> {
  let summary = "a norm and the int8 rounding of its result become one group";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseQkNormRopeStore : Pass<"qcc-fuse-qk-norm-rope-store", "::mlir::ModuleOp"> {
  let summary = "query and key norm, rotation and the KV store become one group";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseResidual : Pass<"qcc-fuse-residual", "::mlir::ModuleOp"> {
  let summary = "a linear and the sum with the residual stream become one group that adds in place";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def FuseSwiglu : Pass<"qcc-fuse-swiglu", "::mlir::ModuleOp"> {
  let summary = "gate and up linears of one format and their SwiGLU become one group";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def InsertBarriers : Pass<"qcc-insert-barriers", "::mlir::ModuleOp"> {
  let summary = "a barrier in front of every dispatch that touches what one since the last barrier wrote";
  let dependentDialects = ["::qcc::plan::PlanDialect"];
}

def LayoutWeights : Pass<"qcc-layout-weights", "::mlir::ModuleOp"> {
  let summary = "decide how and where every weight and state of the public functions lies";
  let description = [{
    Adds plan.weight, plan.constant and plan.state ops in front of the hir functions, in the order of use; what one
    layer needs is contiguous, so that layers which share a block find it at equal distances from their base.
  }];
  let dependentDialects = ["::qcc::plan::PlanDialect"];
}

def MergeLinears : Pass<"qcc-merge-linears", "::mlir::ModuleOp"> {
  let summary = "linears that share one input become one group: one quantised input, one barrier";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def QuantizeActivations : Pass<"qcc-quantize-activations", "::mlir::ModuleOp"> {
  let summary = "round the inputs of block-quantised linears to int8 blocks (numerics = int8)";
  let description = [{
    One `hir.quantize` per activation that feeds a linear or experts whose weights have integer codes. Linears with at most
    `max-f32-rows` rows (the gate projections of the delta rule) and routers keep f32 inputs. Hidden rows of experts are
    rounded where the down matrices have integer codes (`hidden_block`). In a block with experts the linears ahead of the router
    get inputs of two terms.
  }];
  let dependentDialects = ["::qcc::hir::HirDialect"];
  let options = [Option<"maxF32Rows", "max-f32-rows", "int64_t", "64", "linears with at most this many rows stay f32">];
}

def ReplicateRows : Pass<"qcc-replicate-rows", "::mlir::ModuleOp"> {
  let summary = "on a CPU, every thread does for itself what one thread would do of a row";
  let description = [{
    Input: a verified plan. Of programs of one row, the dispatches that one thread would do while the others wait
    (`norm`, `quantize`) become replicated: all threads do them, each into memory of its own, from which the
    dispatches behind read. No other thread reads what they write, so that qcc-insert-barriers, which runs again
    behind it, leaves out the barriers behind them: 4 of a layer's 9. A dispatch stays as it is where what it writes
    is read in another block or ahead of it, or is large.
  }];
  let dependentDialects = ["::qcc::plan::PlanDialect"];
}

def SelectFunctions : Pass<"qcc-select-functions", "::mlir::ModuleOp"> {
  let summary = "keep the public functions that programs are wanted of, and those that take what they leave";
  let dependentDialects = ["::qcc::hir::HirDialect"];
  let options = [ListOption<"functions", "functions", "std::string", "names of functions that begin a step (none given: all)">];
}

def TraceLayers : Pass<"qcc-trace-layers", "::mlir::ModuleOp"> {
  let summary = "each layer leaves its last row in a state of its own (hir.trace)";
  let description = [{
    Every block gets a state "blk.N.l_out" from each of its calls. No other value changes. With `all`, every value of a
    block that has a role (ValueRoles.h) and is stored gets one, "blk.N.ROLE": it runs behind the fusions without which
    there is no kernel, and those behind it leave what it keeps as it is.
  }];
  let options = [Option<"all", "all", "bool", "false", "all values that have a role and are stored">];
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def VerifyModelContract : Pass<"qcc-verify-model-contract", "::mlir::ModuleOp"> {
  let summary = "the door between importers and everything after: attributes, entry points, blocks, states";
  let dependentDialects = ["::qcc::hir::HirDialect"];
}

def VerifyPlan : Pass<"qcc-verify-plan", "::mlir::ModuleOp"> {
  let summary = "prove that a plan's accesses are in range, ordered and on the values they name";
  let description = [{
    Runs every program symbolically from the plan ops alone: accesses lie in the arena, a weight, a state; weights are
    never written and have the shape that the spec states; every arena read finds bytes last written for the value it
    names (so no two live buffers overlap); dispatches that touch the same bytes are separated by a barrier; calls put
    blocks on bases in range; a stream that a program takes is left by others, in the place and as the value that it
    reads; what a program says that it takes, leaves and gives is what its dispatches do.
  }];
  let dependentDialects = ["::qcc::plan::PlanDialect"];
}
#endif
