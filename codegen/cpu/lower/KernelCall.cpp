#include "codegen/cpu/lower/KernelCall.h"

#include <cstddef>
#include <type_traits>

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/limits.h"
#include "dialects/layouts/layouts.h"

namespace qcc::cpu {
namespace {
using namespace mlir;
using Kind = KernelField::Kind;

// ---- the argument struct of a family, from the table ----

// Collects the fields of one call.
class Fields {
 public:
  explicit Fields(KernelCall& call) : call(call) {}
  void add(Kind kind, size_t offset, int64_t integer = 0, double real = 0) {
    call.fields.push_back({kind, static_cast<int64_t>(offset), integer, real});
  }
  void real(size_t offset, float value) { add(Kind::F32, offset, 0, value); }
  void real(size_t offset, double value) { add(Kind::F64, offset, 0, value); }
  void binding(size_t offset, const plan::Ref& ref) {
    if (!ref) return add(Kind::Null, offset);
    add(Kind::Binding, offset, call.bindings.size());
    call.bindings.push_back(ref);
  }
  template <class T>
  void step(size_t offset, size_t from) {
    static_assert(std::is_pointer_v<T> || std::is_same_v<T, int64_t>);
    add(std::is_pointer_v<T> ? Kind::StepPointer : Kind::StepInt, offset, from);
  }

 private:
  KernelCall& call;
};

#define QCC_FAMILY(name, Name)                                                                           \
  void fillArgs(const plan::Name##Spec& s, const plan::Name##Bindings<plan::Ref>& b, KernelCall& call) { \
    using Args = name##_args;                                                                            \
    call.argsBytes = sizeof(Args);                                                                       \
    call.argsFields = name##_args_fields;                                                                \
    Fields fields(call);
#define QCC_INT(key) fields.add(Kind::Int, offsetof(Args, key), s.key);
#define QCC_REAL(type, key) fields.real(offsetof(Args, key), s.key);
#define QCC_FLAG(key) fields.add(Kind::Int, offsetof(Args, key), s.key);
#define QCC_ENUM(type, key) fields.add(Kind::Int, offsetof(Args, key), static_cast<int64_t>(s.key));
#define QCC_LIST(key, count)           \
  for (size_t i = 0; i < (count); ++i) \
    fields.add(Kind::Int, offsetof(Args, key) + 8 * i, s.key.empty() ? 0 : s.key[i]);
#define QCC_WEIGHT(role, ...) fields.binding(offsetof(Args, role), b.role);
#define QCC_BUFFER(role, ...) fields.binding(offsetof(Args, role), b.role);
#define QCC_OUTPUT(role, ...) fields.binding(offsetof(Args, role), b.role);
#define QCC_STATE(role, ...) fields.binding(offsetof(Args, role##_offset), b.role);
#define QCC_KV(role, ...) fields.binding(offsetof(Args, role##_offset), b.role);
#define QCC_STEP(type, field) fields.step<type>(offsetof(Args, field), offsetof(qrt_step_args, field));
#define QCC_END(name, Name)                       \
  fields.add(Kind::Rows, offsetof(Args, n_rows)); \
  fields.add(Kind::Begin, offsetof(Args, begin)); \
  fields.add(Kind::End, offsetof(Args, end));     \
  }
#include "dialects/plan/kernel_families.def"

// ---- which kernel, over which items ----

// Scratch in the kernels is bounded: a model beyond the bound is refused here, with the number.
LogicalResult limit(plan::DispatchOp op, StringRef key, int64_t v, int64_t most, int64_t multiple = 1,
                    int64_t least = 1) {
  if (v >= least && v <= most && v % multiple == 0) return success();
  return op.emitError("no kernel '") << op.getFamily() << "' on target cpu for " << key << " = " << v
                                     << ": it takes "
                                     << (least > 1 ? std::to_string(least) + " to " : "up to ") << most
                                     << (multiple > 1 ? ", in multiples of " + std::to_string(multiple) : "");
}

// A linear writes its rows align16(n) floats apart, a kernel reads them n apart: n must be the same.
LogicalResult wholeGroups(plan::DispatchOp op, StringRef what, int64_t n) {
  if (n % layouts::kGroupRows == 0) return success();
  return op.emitError("no kernel '") << op.getFamily() << "' on target cpu for " << n << " values of " << what
                                     << " a row: it takes multiples of " << layouts::kGroupRows;
}

void selectOutRows(plan::RowsFrom from, KernelCall& call) {
  if (from == plan::RowsFrom::OutRows) call.rows = RowSource::OutRows;
}

// By family: whether its kernel takes the spec, and what the call has besides arguments. The symbol comes as
// "qk_" and the family's name. A family without an overload has no kernel.

template <class Spec, class... Specs>
concept OneOf = (std::is_same_v<Spec, Specs> || ...);

// Kernels that take every spec; an item is a row.
LogicalResult choose(plan::DispatchOp,
                     const OneOf<plan::RopeTableSpec, plan::QuantizeSpec, plan::SwigluSpec, plan::AddSpec,
                                 plan::ConcatSpec> auto&,
                     KernelCall&) {
  return success();
}

LogicalResult choose(plan::DispatchOp op, const plan::LinearSpec& s, KernelCall& call) {
  selectOutRows(s.rows, call);
  bool int8 = s.numerics == plan::Numerics::Int8;
  const FormatInfo& format = format_info(s.format);
  if (int8 && format.cls != FormatClass::kBlock)
    return op.emitError("no kernel 'linear' on target cpu for int8 numerics of format ")
           << StringRef(format.name);
  call.symbol += ("_" + StringRef(format.name) + (int8 ? "_int8" : "_f32")).str();
  call.items = layouts::AlignUp(s.n, layouts::kGroupRows) / layouts::kGroupRows;
  return success();
}

LogicalResult choose(plan::DispatchOp, const plan::EmbedSpec& s, KernelCall& call) {
  call.symbol += ("_" + StringRef(format_info(s.format).name)).str();
  return success();
}

LogicalResult choose(plan::DispatchOp, const plan::NormSpec& s, KernelCall& call) {
  selectOutRows(s.source, call);
  return success();
}

LogicalResult choose(plan::DispatchOp op, const plan::QkNormRopeStoreSpec& s, KernelCall& call) {
  call.symbol = op.getFamily().str();  // which begins with "qk_" itself
  return success(succeeded(limit(op, "head_dim", s.head_dim, kMaxHeadDim, 8)) &&
                 succeeded(wholeGroups(op, "q", s.q_heads * s.head_dim)) &&
                 succeeded(wholeGroups(op, "k", s.kv_heads * s.head_dim)));
}

LogicalResult choose(plan::DispatchOp op, const plan::AttentionSpec& s, KernelCall& call) {
  call.itemsPerRow = s.kv_heads;
  if (failed(limit(op, "head_dim", s.head_dim, kMaxHeadDim, 8))) return failure();
  if (int64_t group = s.q_heads / s.kv_heads; group > kMaxQueryGroup)
    return op.emitError("no kernel 'attention' on target cpu for ")
           << group << " query heads per kv head: it takes up to " << kMaxQueryGroup;
  return success();
}

LogicalResult choose(plan::DispatchOp op, const plan::GatedDeltaSpec& s, KernelCall& call) {
  call.items = s.key_heads;
  return success(succeeded(limit(op, "key_dim", s.key_dim, kMaxDeltaDim, 8)) &&
                 succeeded(limit(op, "value_dim", s.value_dim, kMaxDeltaDim, 8)) &&
                 succeeded(limit(op, "taps", s.taps, kMaxConvTaps, 1, kMinConvTaps)) &&
                 succeeded(wholeGroups(op, "qkv", plan::gdnChannels(s))) &&
                 succeeded(wholeGroups(op, "z", s.value_heads * s.value_dim)));
}

}  // namespace

FailureOr<KernelCall> selectKernel(plan::DispatchOp op, int64_t bucketRows) {
  KernelCall call;
  call.rows = bucketRows == 1 ? RowSource::One : RowSource::StepRows;
  call.symbol = ("qk_" + op.getFamily()).str();
  LogicalResult chosen = failure();
  plan::visitDispatch(op, [&](const auto& spec, const auto& bindings) {
    if constexpr (requires { choose(op, spec, call); }) {
      chosen = choose(op, spec, call);
      fillArgs(spec, bindings, call);
    } else {
      chosen = op.emitError("no kernel '") << op.getFamily() << "' on target cpu";
    }
  });
  if (failed(chosen)) return failure();
  return call;
}

}  // namespace qcc::cpu
