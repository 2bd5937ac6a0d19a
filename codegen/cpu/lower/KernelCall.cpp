#include "codegen/cpu/lower/KernelCall.h"

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/limits.h"
#include "dialects/plan/kernel_families.h"
#include "dialects/plan/pack_layout.h"
#include "llvm/ADT/StringSwitch.h"

namespace qcc::cpu {
namespace {
using namespace mlir;
using Kind = KernelArg::Kind;

// Builds the argument list of one call, reading the dispatch's spec and roles.
class CallBuilder {
 public:
  CallBuilder(plan::DispatchOp op, int64_t bucketRows) : op(op), spec(op.getSpec()) {
    call.rows = bucketRows == 1 ? RowSource::One : RowSource::StepRows;
  }

  plan::DispatchOp op;
  plan::Spec spec;
  KernelCall call;

  CallBuilder& kernel(const llvm::Twine& symbol) {
    call.symbol = symbol.str();
    return *this;
  }
  // A pointer or offset; null when the role is optional and absent.
  CallBuilder& role(StringRef name) {
    for (auto [i, attr] : llvm::enumerate(op.getRoles()))
      if (cast<StringAttr>(attr).getValue() == name) return add({Kind::Binding, static_cast<int64_t>(i)});
    return add({Kind::Null});
  }
  CallBuilder& literal(int64_t v) { return add({Kind::Int, v}); }
  CallBuilder& integer(StringRef key) { return literal(spec.integer(key)); }
  CallBuilder& real(StringRef key) {
    auto value = cast<FloatAttr>(op.getSpec().get(key)).getValueAsDouble();
    return add({Kind::Float, 0, static_cast<float>(value)});
  }
  CallBuilder& flag(StringRef key) { return literal(spec.flag(key)); }
  CallBuilder& is(StringRef key, StringRef value) { return literal(spec.string(key) == value); }
  CallBuilder& add(KernelArg arg) {
    call.args.push_back(arg);
    return *this;
  }
  CallBuilder& seqs() { return add({Kind::Seqs}).add({Kind::SeqCount}); }
  // `rows, begin, end`, the tail of every signature. items 0: itemsPerRow for every row.
  KernelCall over(int64_t items, int64_t itemsPerRow = 1) {
    add({Kind::Rows}).add({Kind::Begin}).add({Kind::End});
    call.items = items;
    call.itemsPerRow = itemsPerRow;
    return call;
  }
  KernelCall overRows() { return over(0); }

  // Scratch in the kernels is bounded: a model beyond the bound is refused here, with the number.
  LogicalResult limit(StringRef key, int64_t most, int64_t multiple = 1) {
    int64_t v = spec.integer(key);
    if (v >= 1 && v <= most && v % multiple == 0) return success();
    return op.emitError("no kernel '")
           << op.getFamily() << "' on target cpu for " << key << " = " << v << ": it takes up to " << most
           << (multiple > 1 ? ", in multiples of " + std::to_string(multiple) : "");
  }

  // A linear writes its rows align16(n) floats apart, a kernel reads them n apart: n must be the same.
  LogicalResult wholeGroups(StringRef what, int64_t n) {
    if (n % plan::kGroupRows == 0) return success();
    return op.emitError("no kernel '") << op.getFamily() << "' on target cpu for " << n << " values of "
                                       << what << " a row: it takes multiples of " << plan::kGroupRows;
  }
};

FailureOr<KernelCall> linear(CallBuilder& b) {
  bool int8 = b.spec.string("numerics") == "int8";
  if (b.spec.string("rows") == "out_rows") b.call.rows = RowSource::OutRows;
  int64_t epilogue = llvm::StringSwitch<int64_t>(b.spec.string("epilogue"))
                         .Case("store", QK_STORE)
                         .Case("add", QK_ADD)
                         .Case("swiglu", QK_SWIGLU);
  const FormatInfo& format = format_info(b.spec.format());
  if (int8 && format.cls != FormatClass::kBlock)
    return b.op.emitError("no kernel 'linear' on target cpu for int8 numerics of format ")
           << StringRef(format.name);
  int64_t n = plan::align_up(b.spec.integer("n"), plan::kGroupRows);
  return b.kernel("qk_linear_" + StringRef(format.name) + (int8 ? "_int8" : "_f32"))
      .role(int8 ? "xq" : "x")
      .role("w")
      .role("y")
      .integer("k")
      .literal(n)
      .literal(epilogue)
      .over(n / plan::kGroupRows);
}

FailureOr<KernelCall> norm(CallBuilder& b) {
  bool selected = b.spec.string("source") == "out_rows";
  if (selected) b.call.rows = RowSource::OutRows;
  b.kernel("qk_norm").role("x").role("weight").role("out").role("out_q");
  b.add({selected ? Kind::OutRows : Kind::Null});
  return b.integer("cols").real("eps").overRows();
}

FailureOr<KernelCall> ropeTable(CallBuilder& b) {
  b.kernel("qk_rope_table").role("inv_freq").add({Kind::Positions}).role("out").integer("pairs");
  ArrayRef<int64_t> sections = cast<DenseI64ArrayAttr>(b.op.getSpec().get("sections")).asArrayRef();
  if (!sections.empty() && sections.size() != 4)
    return b.op.emitError("rope_table has ") << sections.size() << " sections, expected 4 or none";
  for (size_t i = 0; i < 4; ++i) b.literal(sections.empty() ? 0 : sections[i]);
  return b.real("magnitude").overRows();
}

FailureOr<KernelCall> qkNormRopeStore(CallBuilder& b) {
  int64_t headDim = b.spec.integer("head_dim");
  if (failed(b.limit("head_dim", kMaxHeadDim, 8)) ||
      failed(b.wholeGroups("q", b.spec.integer("q_heads") * headDim)) ||
      failed(b.wholeGroups("k", b.spec.integer("kv_heads") * headDim)))
    return failure();
  return b.kernel("qk_norm_rope_store")
      .role("q")
      .role("k")
      .role("v")
      .role("q_norm")
      .role("k_norm")
      .role("rope")
      .role("out")
      .seqs()
      .role("kv")
      .integer("q_heads")
      .integer("kv_heads")
      .integer("head_dim")
      .integer("rot_dims")
      .flag("gated")
      .real("eps")
      .is("kv", "f16")
      .overRows();
}

FailureOr<KernelCall> attention(CallBuilder& b) {
  if (failed(b.limit("head_dim", kMaxHeadDim, 8))) return failure();
  int64_t group = b.spec.integer("q_heads") / b.spec.integer("kv_heads");
  if (group > kMaxQueryGroup)
    return b.op.emitError("no kernel 'attention' on target cpu for ")
           << group << " query heads per kv head: it takes up to " << kMaxQueryGroup;
  return b.kernel("qk_attention")
      .role("q")
      .role("gate")
      .seqs()
      .role("out")
      .role("kv")
      .integer("q_heads")
      .integer("kv_heads")
      .integer("head_dim")
      .real("scale")
      .is("kv", "f16")
      .over(0, b.spec.integer("kv_heads"));
}

FailureOr<KernelCall> gatedDelta(CallBuilder& b) {
  int64_t values = b.spec.integer("value_heads") * b.spec.integer("value_dim");
  int64_t channels = 2 * b.spec.integer("key_heads") * b.spec.integer("key_dim") + values;
  if (failed(b.limit("key_dim", kMaxDeltaDim, 8)) || failed(b.limit("value_dim", kMaxDeltaDim, 8)) ||
      failed(b.limit("taps", kMaxConvTaps)) || failed(b.wholeGroups("qkv", channels)) ||
      failed(b.wholeGroups("z", values)))
    return failure();
  return b.kernel("qk_gated_delta")
      .role("qkv")
      .role("z")
      .role("alpha")
      .role("beta")
      .role("conv_w")
      .role("ssm_a")
      .role("dt_bias")
      .role("norm_w")
      .seqs()
      .role("out")
      .role("conv_state")
      .role("delta_state")
      .integer("key_heads")
      .integer("value_heads")
      .integer("key_dim")
      .integer("value_dim")
      .integer("taps")
      .real("l2_eps")
      .is("l2_form", "max")
      .real("norm_eps")
      .real("scale")
      .integer("ld_ab")
      .over(b.spec.integer("key_heads"));
}

}  // namespace

FailureOr<KernelCall> selectKernel(plan::DispatchOp op, int64_t bucketRows) {
  CallBuilder b(op, bucketRows);
  StringRef family = op.getFamily();
  if (family == "linear") return linear(b);
  if (family == "norm") return norm(b);
  if (family == "rope_table") return ropeTable(b);
  if (family == "qk_norm_rope_store") return qkNormRopeStore(b);
  if (family == "attention") return attention(b);
  if (family == "gated_delta") return gatedDelta(b);
  if (family == "embed")
    return b.kernel("qk_embed_" + StringRef(format_info(b.spec.format()).name))
        .role("table")
        .add({Kind::Tokens})
        .role("out")
        .integer("cols")
        .overRows();
  if (family == "quantize") return b.kernel("qk_quantize").role("x").role("out_q").integer("cols").overRows();
  if (family == "swiglu")
    return b.kernel("qk_swiglu").role("gate").role("up").role("out").integer("cols").overRows();
  if (family == "add") return b.kernel("qk_add").role("x").role("y").integer("cols").overRows();
  return op.emitError("no kernel '") << family << "' on target cpu";
}

}  // namespace qcc::cpu
