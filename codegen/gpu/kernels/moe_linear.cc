// moe_linear: choice of the form, costs. Few rows: a workgroup has one slot, or one row with its slots. Many:
// tiles of each expert's slots, as `groups` and `order` have them; what is added to y is then made slot by
// slot in scratch memory and added by a second launch. One expert: as `linear`, with weights.
#include <algorithm>
#include <cstddef>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/moe.h"
#include "dialects/layouts/layouts.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {
namespace {

class MoeLinearLaunches {
 public:
  MoeLinearLaunches(const Dispatch<plan::MoeLinearSpec>& d, Expansion& expansion);
  std::vector<Launch> All();

 private:
  bool Adds() const { return spec_.epilogue == Epilogue::Add; }
  bool Few() const { return d_.rows <= kFewMoeRows; }
  bool IsServed() const;  // else Expansion::Refuse is told why
  Launch Products(const LinearSpec& spec, const Arg& y) const;
  Launch RowSlots() const;
  std::vector<Launch> ProductsThenSum();
  void Finish(Launch& launch, const LinearSpec& spec, const Arg& y) const;

  const Dispatch<plan::MoeLinearSpec>& d_;
  Expansion& expansion_;
  LinearSpec spec_;
  int64_t units_, slots_;
  uint64_t expert_bytes_;
  const Arg count_{Space::kStep, offsetof(qrt_gpu_step, n_rows), 4};
};

MoeLinearLaunches::MoeLinearLaunches(const Dispatch<plan::MoeLinearSpec>& d, Expansion& expansion)
    : d_(d), expansion_(expansion) {
  const plan::MoeLinearSpec& s = d.spec;
  spec_.format = s.format;
  spec_.int8 = s.numerics == plan::Numerics::Int8;
  spec_.k = s.k;
  spec_.epilogue = s.epilogue;
  spec_.scale = d.bindings.scale.has_value();
  spec_.up_scale = d.bindings.up_scale.has_value();
  spec_.scale_each = spec_.scale && s.scale_count > 1;
  spec_.up_scale_each = spec_.up_scale && s.up_scale_count > 1;
  spec_.weighted = Adds();
  spec_.own_columns = Adds() && s.top_k > 1;
  spec_.experts = s.experts;
  spec_.top_k = s.top_k;
  units_ = s.n / layouts::kGroupRows;
  slots_ = d.rows * s.top_k;
  expert_bytes_ = static_cast<uint64_t>(units_ * spec_.groups_per_unit() * spec_.group_bytes());
}

bool MoeLinearLaunches::IsServed() const {
  const plan::MoeLinearSpec& s = d_.spec;
  const std::string experts = std::to_string(s.experts);
  const auto counts = [&](int64_t n) { return n == 1 || n == s.experts; };
  if (s.numerics == plan::Numerics::Int8x2) {
    expansion_.Refuse("int8 rows of two terms: it takes such of one term, or f32");
  } else if (s.top_k > s.experts) {
    expansion_.Refuse("top_k", s.top_k, "up to the experts, " + experts);
  } else if (!counts(s.scale_count)) {
    expansion_.Refuse("scale_count", s.scale_count, "1 or the experts, " + experts);
  } else if (!counts(s.up_scale_count)) {
    expansion_.Refuse("up_scale_count", s.up_scale_count, "1 or the experts, " + experts);
  } else if (expert_bytes_ > kMaxBindingBytes) {
    expansion_.Refuse("bytes of an expert's matrix", static_cast<int64_t>(expert_bytes_), kUpToOneBinding);
  } else {
    return true;
  }
  return false;
}

std::vector<Launch> MoeLinearLaunches::All() {
  if (d_.spec.n % layouts::kGroupRows)
    return expansion_.Refuse("n", d_.spec.n, MultiplesOf(layouts::kGroupRows));
  if (!TakesLinear(spec_)) return RefuseLinear(spec_, expansion_);
  if (!IsServed()) return {};
  if (Adds() && d_.spec.top_k > 1) {
    if (Few() && TakesRowSlots(expansion_.profile(), spec_)) return {RowSlots()};
    return ProductsThenSum();
  }
  return {Products(spec_, *d_.bindings.y)};
}

Launch MoeLinearLaunches::Products(const LinearSpec& of_slots, const Arg& y) const {
  LinearSpec spec = of_slots;
  spec.rows_of = d_.spec.experts == 1 ? RowsOf::kStep : Few() ? RowsOf::kSlot : RowsOf::kExpert;
  Launch launch = spec.rows_of == RowsOf::kSlot ? LinearSplit(spec, expansion_.profile(), 1, units_, slots_)
                                                : ChooseLinear(spec, expansion_.profile(), units_, slots_);
  Finish(launch, spec, y);
  return launch;
}

Launch MoeLinearLaunches::RowSlots() const {
  LinearSpec spec = spec_;
  spec.rows_of = RowsOf::kRow;
  Launch launch = LinearRowSlots(spec, expansion_.profile(), units_, d_.rows);
  Finish(launch, spec, *d_.bindings.y);
  return launch;
}

std::vector<Launch> MoeLinearLaunches::ProductsThenSum() {
  LinearSpec spec = spec_;
  spec.epilogue = Epilogue::Store;
  spec.weighted = false;
  const uint64_t bytes = static_cast<uint64_t>(4 * slots_ * d_.spec.n);
  if (bytes > kMaxBindingBytes) {
    return expansion_.Refuse("bytes of the products of a step's rows", static_cast<int64_t>(bytes),
                             "up to 2147483648, in programs of fewer rows (--prefill)");
  }
  const Arg products = expansion_.Scratch(bytes);
  Launch sum = MoeSum(d_.spec.n, d_.spec.top_k, d_.rows);
  sum.args = ListArgs<MoeSumArgs>(
      {.products = products, .weights = *d_.bindings.weights, .y = *d_.bindings.y, .count = count_});
  sum.write_bytes = static_cast<uint64_t>(4 * d_.rows * d_.spec.n);
  sum.read_bytes = bytes + static_cast<uint64_t>(4 * slots_) + sum.write_bytes;
  sum.ops = static_cast<uint64_t>(2 * slots_ * d_.spec.n);
  return {Products(spec, products), sum};
}

// Arguments and costs. A full bucket reads the weights of as many experts as it has slots.
void MoeLinearLaunches::Finish(Launch& launch, const LinearSpec& spec, const Arg& y) const {
  LinearMoreArgs more{.scale = d_.bindings.scale, .up_scale = d_.bindings.up_scale};
  if (spec.weighted) more.weights = d_.bindings.weights;
  if (spec.rows_of != RowsOf::kStep) more.expert_bytes = Number(expert_bytes_);
  if (spec.rows_of == RowsOf::kExpert) {
    more.groups = d_.bindings.groups;
    more.order = d_.bindings.order;
  } else if (spec.rows_of != RowsOf::kStep) {
    more.ids = d_.bindings.ids;
  }
  Arg w = *d_.bindings.w;
  w.wide = spec.rows_of != RowsOf::kStep;
  launch.args = LinearArgs::List({.x = spec.int8 ? *d_.bindings.xq : *d_.bindings.x,
                                  .w = w,
                                  .y = y,
                                  .count = count_,
                                  .units = Number(static_cast<uint64_t>(units_)),
                                  .y_row_bytes = Number(static_cast<uint64_t>(4 * d_.spec.n))},
                                 more);
  const uint64_t slots = static_cast<uint64_t>(slots_),
                 used = static_cast<uint64_t>(std::min(d_.spec.experts, slots_));
  launch.write_bytes = static_cast<uint64_t>(4 * d_.spec.n) *
                       static_cast<uint64_t>(spec.rows_of == RowsOf::kRow ? d_.rows : slots_);
  launch.read_bytes = used * expert_bytes_ + static_cast<uint64_t>(d_.rows * spec.x_row_bytes());
  if (spec.rows_of != RowsOf::kStep) launch.read_bytes += 4 * slots;
  if (spec.weighted) launch.read_bytes += 4 * slots + launch.write_bytes;
  launch.ops = 2 * slots * static_cast<uint64_t>(d_.spec.n * spec.k * spec.groups_per_unit());
}

}  // namespace

std::vector<Launch> Expand_moe_linear(const Dispatch<plan::MoeLinearSpec>& dispatch, Expansion& expansion) {
  return MoeLinearLaunches(dispatch, expansion).All();
}

}  // namespace qcc::gpu
