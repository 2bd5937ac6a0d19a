// gx: what a GPU kernel needs and the gpu dialect lacks. Kernels get no memrefs and no descriptors: device memory is
// a 64-bit address plus a 32-bit byte offset, and the addresses come in as the launch's arguments.
#ifndef QCC_GPU_GX_OPS_TD
#define QCC_GPU_GX_OPS_TD
include "mlir/IR/OpBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Gx_Dialect : Dialect {
  let name = "gx";
  let cppNamespace = "::qcc::gx";
  let summary = "Device memory by address, packed integer dot products and half floats of GPU kernels";
  let description = [{
    A kernel is a `gpu.func` without arguments whose body uses arith, math, scf, vector, memref (workgroup memory only),
    gpu and gx. Device memory is read and written in 4-byte words: half floats and bytes are unpacked in registers.
  }];
}

class Gx_Op<string m, list<Trait> t = []> : Op<Gx_Dialect, m, t>;

// What one access to device memory moves.
def Gx_Vector : FixedVectorOfLengthAndType<[2, 4], [I32, F32]>;
def Gx_Value : AnyTypeOf<[I32, I64, F32, Gx_Vector], "i32, i64, f32 or a vector of 2 or 4 i32 or f32">;

def Gx_ArgOp : Gx_Op<"arg", [Pure]> {
  let summary = "an argument of the launch: a device address or a number";
  let description = [{ Launches pass at most 16 values of 64 bits. Lowers to a push constant (SPIR-V), a parameter (PTX). }];
  let arguments = (ins I32Attr:$index);
  let results = (outs I64:$result);
  let assemblyFormat = "$index attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Gx_LoadOp : Gx_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "reads device memory at base + offset";
  let description = [{
    `base` in bytes; `offset` in bytes, unsigned; `more` bytes, at least 0, behind both. The address is a multiple of the
    type's size.
  }];
  let arguments = (ins I64:$base, I32:$offset, DefaultValuedAttr<ConfinedAttr<I32Attr, [IntNonNegative]>, "0">:$more);
  let results = (outs Gx_Value:$result);
  let assemblyFormat = "$base `[` $offset `]` attr-dict `:` type($result)";
}
def Gx_StoreOp : Gx_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes device memory at base + offset";
  let description = [{ As gx.load. }];
  let arguments = (ins Gx_Value:$value, I64:$base, I32:$offset);
  let assemblyFormat = "$value `,` $base `[` $offset `]` attr-dict `:` type($value)";
}
def Gx_AtomicAddOp : Gx_Op<"atomic_add", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "adds to a word of device memory and returns what was there";
  let description = [{ One word, relaxed, seen by the whole device. Orders nothing else. }];
  let arguments = (ins I32:$value, I64:$base, I32:$offset);
  let results = (outs I32:$result);
  let assemblyFormat = "$value `,` $base `[` $offset `]` attr-dict `:` type($result)";
}
def Gx_AwaitEarlierOp : Gx_Op<"await_earlier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until the launches before this one have ended and what they wrote can be seen";
  let description = [{ Once in a kernel of a profile whose launches overlap, reached by all threads. }];
  let assemblyFormat = "attr-dict";
}
def Gx_LetNextBeginOp : Gx_Op<"let_next_begin", [MemoryEffects<[MemWrite]>]> {
  let summary = "the next launch may begin once all workgroups have come here";
  let description = [{ Only for profiles whose launches overlap. Orders nothing. }];
  let assemblyFormat = "attr-dict";
}
def Gx_PrefetchOp : Gx_Op<"prefetch", [MemoryEffects<[MemWrite]>]> {
  let summary = "asks for the line of device memory at base + offset";
  let description = [{ No access: it changes nothing but the time of a later one. }];
  let arguments = (ins I64:$base, I32:$offset);
  let assemblyFormat = "$base `[` $offset `]` attr-dict";
}
def Gx_BeginLoadsOp : Gx_Op<"begin_loads", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "all loads before it are asked for before what follows";
  let description = [{
    Reached by all threads of a subgroup together; only for profiles that begin loads. Orders and waits for nothing: it
    keeps the compiler of a driver, which counts on other threads to hide latency, from putting each load next to its use.
    In PTX a barrier of the subgroup, which ptxas moves no load of device memory across; in SPIR-V nothing, which has
    nothing for it: Mesa's compilers keep the order that loads have.
  }];
  let assemblyFormat = "attr-dict";
}
def Gx_Dot4Op : Gx_Op<"dot4", [Pure]> {
  let summary = "acc + the sum over 4 signed bytes of a * b, modulo 2^32";
  let arguments = (ins I32:$a, I32:$b, I32:$acc);
  let results = (outs I32:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($result)";
}
def Gx_UnpackHalfOp : Gx_Op<"unpack_half", [Pure]> {
  let summary = "two half floats of a word (low, high) to f32";
  let description = [{ Exact, but a target may take subnormal halves for 0. }];
  let arguments = (ins I32:$word);
  let results = (outs VectorOfLengthAndType<[2], [F32]>:$result);
  let assemblyFormat = "$word attr-dict `:` type($result)";
}
def Gx_HalfToF32Op : Gx_Op<"half_to_f32", [Pure]> {
  let summary = "the half float in a word's low 16 bits to f32";
  let description = [{ Exact, subnormal halves and infinities, too. A NaN stays a NaN. }];
  let arguments = (ins I32:$word);
  let results = (outs F32:$result);
  let assemblyFormat = "$word attr-dict `:` type($result)";
}
def Gx_PackHalfOp : Gx_Op<"pack_half", [Pure]> {
  let summary = "two f32 to the half floats of a word, to nearest even";
  let description = [{ Too large becomes infinity; subnormal halves are rounded as all others. A NaN stays a NaN. }];
  let arguments = (ins F32:$low, F32:$high);
  let results = (outs I32:$result);
  let assemblyFormat = "$low `,` $high attr-dict `:` type($result)";
}
def Gx_MmaS8Op : Gx_Op<"mma_s8", [AttrSizedOperandSegments]> {
  let summary = "D = A B + C of 16 x 8 x 32 signed bytes, by the 32 threads of a subgroup together";
  let description = [{
    Fragments as PTX mma.sync.m16n8k32.s8 has them: `a` 4, `b` 2, `c` and the results 4 words per thread. Only for profiles
    with matrix units.
  }];
  let arguments = (ins Variadic<I32>:$a, Variadic<I32>:$b, Variadic<I32>:$c);
  let results = (outs Variadic<I32>:$results);
  let assemblyFormat = "`(` $a `)` `,` `(` $b `)` `,` `(` $c `)` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Gx_MmaF16Op : Gx_Op<"mma_f16", [AttrSizedOperandSegments]> {
  let summary = "D = A B + C of 16 x 8 x 16 half floats with sums of f32, by the 32 threads of a subgroup together";
  let description = [{
    Fragments as PTX mma.sync.m16n8k16.f32.f16 has them: `a` 4 and `b` 2 words of two halves, `c` and the results 4 f32 per
    thread. Only for profiles with matrix units.
  }];
  let arguments = (ins Variadic<I32>:$a, Variadic<I32>:$b, Variadic<F32>:$c);
  let results = (outs Variadic<F32>:$results);
  let assemblyFormat = "`(` $a `)` `,` `(` $b `)` `,` `(` $c `)` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Gx_MmaBf16Op : Gx_Op<"mma_bf16", [AttrSizedOperandSegments]> {
  let summary = "gx.mma_f16 of bf16 numbers";
  let arguments = (ins Variadic<I32>:$a, Variadic<I32>:$b, Variadic<F32>:$c);
  let results = (outs Variadic<F32>:$results);
  let assemblyFormat = "`(` $a `)` `,` `(` $b `)` `,` `(` $c `)` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Gx_SubgroupBarrierOp : Gx_Op<"subgroup_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the threads of a subgroup meet";
  let description = [{ Workgroup memory that they wrote before is visible to them after. Only for profiles with subgroups. }];
  let assemblyFormat = "attr-dict";
}

def Gx_Shared : MemRefRankOf<[I32], [1]>;

def Gx_DotTileOp : Gx_Op<"dot_tile", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "dot products of rows of signed bytes, from workgroup memory to it, by a subgroup together";
  let description = [{
    `d[d_at + j * d_stride + i]` becomes the sum over `columns` bytes of row i of `a` times row j of `b`, for i below
    `a_rows` and j below `b_rows`. Row r of `a` begins at word `a_at + r * a_stride`; the same for `b`. `shape` is the
    device's cooperative matrix, m x n sums over k columns: `a_rows`, `b_rows` and `columns` are multiples of its parts.
    All threads of a subgroup execute it with the same operands. Only for profiles with cooperative matrices.
  }];
  let arguments = (ins Gx_Shared:$a, I32:$a_at, I32Attr:$a_stride, I32Attr:$a_rows,
                       Gx_Shared:$b, I32:$b_at, I32Attr:$b_stride, I32Attr:$b_rows,
                       Gx_Shared:$d, I32:$d_at, I32Attr:$d_stride,
                       I32Attr:$columns, DenseI32ArrayAttr:$shape);
  let assemblyFormat = [{
    $a `[` $a_at `]` `by` $a_stride `rows` $a_rows `,` $b `[` $b_at `]` `by` $b_stride `rows` $b_rows `columns` $columns
    `to` $d `[` $d_at `]` `by` $d_stride `shape` $shape attr-dict `:` type($a) `,` type($b) `,` type($d)
  }];
  let hasVerifier = 1;
}
#endif
