#include "codegen/cpu/lower/KernelCall.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <type_traits>

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/limits.h"
#include "codegen/cpu/kernels/scratch.h"
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
#define QCC_SCRATCH()                                                                    \
  assert(call.scratchBytes && "the overload of choose() for this family says how much"); \
  fields.add(Kind::Scratch, offsetof(Args, scratch));
#define QCC_SHARED_SCRATCH() fields.add(Kind::SharedScratch, offsetof(Args, shared_scratch));
#define QCC_END(name, Name)                       \
  fields.add(Kind::Rows, offsetof(Args, n_rows)); \
  fields.add(Kind::Begin, offsetof(Args, begin)); \
  fields.add(Kind::End, offsetof(Args, end));     \
  }
#include "dialects/plan/kernel_families.def"

// ---- which kernel, over which items ----

// The kernels are made for bounded extents: a model beyond them is refused here, with the number.
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
                                 plan::ConcatSpec, plan::SelectRowsSpec, plan::TraceSpec> auto&,
                     KernelCall&) {
  return success();
}

// Of the kernels that there is one of for each format and numerics.
template <class Spec>
LogicalResult chooseProduct(plan::DispatchOp op, const Spec& s, KernelCall& call) {
  bool int8 = s.numerics != plan::Numerics::F32;
  const FormatInfo& format = format_info(s.format);
  if (int8 && format.cls != FormatClass::kBlock)
    return op.emitError("no kernel '")
           << op.getFamily() << "' on target cpu for int8 numerics of format " << StringRef(format.name);
  call.symbol += ("_" + StringRef(format.name) + (int8 ? "_int8" : "_f32")).str();
  return success();
}

LogicalResult choose(plan::DispatchOp op, const plan::LinearSpec& s, KernelCall& call) {
  selectOutRows(s.rows, call);
  call.items = layouts::AlignUp(s.n, layouts::kGroupRows) / layouts::kGroupRows;
  const bool panels = s.numerics != plan::Numerics::F32 && call.rows != RowSource::One;
  call.scratchBytes =
      panels ? LinearScratch::Bytes(description(s.format).plain, s.k, plan::termsOf(s.numerics)) : 0;
  return chooseProduct(op, s, call);
}

LogicalResult choose(plan::DispatchOp op, const plan::MoeRouteSpec& s, KernelCall& call) {
  // Threads have rows of their own, and the lists are of all rows.
  if (plan::refOf(op, "groups") && call.rows != RowSource::One)
    return op.emitError("no kernel 'moe_route' on target cpu with 'groups' in a program of several rows");
  if (!plan::refOf(op, "groups") != !plan::refOf(op, "order"))
    return op.emitError("no kernel 'moe_route' on target cpu with one of 'groups' and 'order'");
  return success(succeeded(limit(op, "experts", s.experts, kMaxExperts)) &&
                 succeeded(limit(op, "top_k", s.top_k, s.experts)));
}

LogicalResult choose(plan::DispatchOp op, const plan::MoeGroupSpec& s, KernelCall& call) {
  call.items = 1;
  return success(succeeded(limit(op, "experts", s.experts, kMaxExperts)) &&
                 succeeded(limit(op, "top_k", s.top_k, s.experts)));
}

LogicalResult choose(plan::DispatchOp op, const plan::MoeLinearSpec& s, KernelCall& call) {
  if (s.numerics == plan::Numerics::Int8x2)
    return op.emitError("no kernel 'moe_linear' on target cpu for numerics int8x2");
  if (failed(chooseProduct(op, s, call)) || failed(wholeGroups(op, "y", s.n)) ||
      failed(limit(op, "experts", s.experts, kMaxExperts)) || failed(limit(op, "top_k", s.top_k, s.experts)))
    return failure();
  // Every row of a matrix is whole blocks, and each hidden row of an int8 row whole blocks of its own.
  int64_t block = format_info(s.format).block_elems;
  if (s.numerics == plan::Numerics::Int8) block = std::max(block, layouts::kInt8Block);
  if (s.k % block != 0)
    return op.emitError("no kernel 'moe_linear' on target cpu for k = ")
           << s.k << ": it takes multiples of " << block;
  for (int64_t count : {s.scale_count, s.up_scale_count})
    if (count != 1 && count != s.experts)
      return op.emitError("no kernel 'moe_linear' on target cpu for ")
             << count << " scales of " << s.experts << " experts";
  if (s.numerics == plan::Numerics::Int8 && call.rows != RowSource::One)
    call.scratchBytes = ExpertScratch::Bytes(description(s.format).plain, s.k);
  int64_t groups = s.n / layouts::kGroupRows;
  if (s.epilogue == plan::Epilogue::Add) {
    call.items = groups;
  } else {
    call.itemsPerRow = s.top_k * groups;
  }
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
  int64_t group = s.q_heads / s.kv_heads;
  if (group > kMaxQueryGroup)
    return op.emitError("no kernel 'attention' on target cpu for ")
           << group << " query heads per kv head: it takes up to " << kMaxQueryGroup;
  call.scratchBytes = s.kv == plan::KvElement::B16 ? Int16AttentionScratch(s.head_dim, group).bytes
                                                   : F32AttentionScratch(s.head_dim, group).bytes;
  return success();
}

// Few rows leave threads without work where a kv head's cache is not shared out.
bool inParts(plan::DispatchOp op, int64_t bucketRows) {
  return op.getFamily() == "attention" && bucketRows <= SharedAttentionScratch::kRows;
}
void cutInParts(const plan::AttentionSpec& s, int64_t bucketRows, KernelCalls& calls) {
  calls.resize(2, calls.front());
  calls[0].share = "parts";
  calls[0].itemsPerRow *= AttentionParts::kMost;
  calls[0].sharedScratchBytes = SharedAttentionScratch(bucketRows, s.q_heads, s.head_dim).bytes;
  calls[1].share = "fold";
  calls[1].itemsPerRow = s.q_heads;
  for (KernelCall& call : calls) call.symbol += ("_" + call.share).str();
}

LogicalResult choose(plan::DispatchOp op, const plan::GatedDeltaSpec& s, KernelCall& call) {
  call.items = s.key_heads;
  if (s.value_heads % s.key_heads != 0)
    return op.emitError("no kernel 'gated_delta' on target cpu for ")
           << s.value_heads << " value heads of " << s.key_heads << " key heads: it takes multiples";
  call.scratchBytes = DeltaScratch(s.key_dim, s.value_dim).bytes;
  return success(succeeded(limit(op, "key_dim", s.key_dim, kMaxDeltaDim, 8)) &&
                 succeeded(limit(op, "value_dim", s.value_dim, kMaxDeltaDim, 8)) &&
                 succeeded(limit(op, "taps", s.taps, kMaxConvTaps, 1, kMinConvTaps)) &&
                 succeeded(wholeGroups(op, "qkv", plan::gdnChannels(s))) &&
                 succeeded(wholeGroups(op, "z", s.value_heads * s.value_dim)));
}

}  // namespace

FailureOr<KernelCalls> selectKernels(plan::DispatchOp op, int64_t bucketRows) {
  KernelCalls calls(1);
  KernelCall& call = calls.front();
  call.rows = bucketRows == 1 ? RowSource::One : RowSource::StepRows;
  call.symbol = ("qk_" + op.getFamily()).str();
  LogicalResult chosen = failure();
  plan::visitDispatch(op, [&](const auto& spec, const auto& bindings) {
    if constexpr (requires { choose(op, spec, call); }) {
      chosen = choose(op, spec, call);
      if (failed(chosen)) return;
      fillArgs(spec, bindings, call);
      if constexpr (requires { cutInParts(spec, bucketRows, calls); }) {
        if (inParts(op, bucketRows)) cutInParts(spec, bucketRows, calls);
      }
    } else {
      chosen = op.emitError("no kernel '") << op.getFamily() << "' on target cpu";
    }
  });
  if (failed(chosen)) return failure();
  return calls;
}

int64_t countCalls(plan::DispatchOp op, int64_t bucketRows) {
  return inParts(op, bucketRows) ? 2 : 1;
}

}  // namespace qcc::cpu
