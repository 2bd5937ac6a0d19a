// Which rows, which matrix and which scales a workgroup of a linear kernel has.
#include <algorithm>

#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

Val Word(Val list, Val index) {
  return list.builder()->Load(Type::kI32, list, index << 2);
}

}  // namespace

int64_t LinearSpec::x_row_bytes() const {
  if (making != Making::kNothing) return 4 * k;
  return int8 ? layouts::Int8RowBytes(x_cols()) : 4 * x_cols();
}

int64_t LinearSpec::rows_together(int64_t rows) const {
  return rows_of == RowsOf::kExpert ? CeilDiv(rows, std::min(experts, rows)) : rows;
}

// Tiles of experts are numbered so that each knows its expert without a sum over those before: see
// LinearArgs::FindExpert.
int64_t LinearSpec::row_tiles(int64_t rows, int64_t tile_rows) const {
  if (rows_of == RowsOf::kExpert) return rows / tile_rows + std::min(experts, rows);
  return CeilDiv(rows, tile_rows);
}

std::string LinearSpec::name() const {
  std::string name = rows_of == RowsOf::kStep && !weighted ? "linear." : "moe_linear.";
  name += std::string(format_info(format).name) +
          (!int8        ? ".f32.k"
           : terms == 2 ? ".int8x2.k"
                        : ".int8.k") +
          std::to_string(k) + "." + std::string(plan::textOf(epilogue)) + (weighted ? ".weighted" : "");
  if (scale) name += scale_each ? ".scales" : ".scale";
  if (up_scale) name += up_scale_each ? ".up_scales" : ".up_scale";
  if (making == Making::kRounded) name += ".rounded";
  if (making == Making::kNormed) name += ".normed";
  if (making == Making::kGatedNormed) name += ".gated_normed" + std::to_string(norm_dim);
  if (unit_keys) name += some ? ".some_keys" : ".keys";
  if (rows_of == RowsOf::kStep) return name;
  name += rows_of == RowsOf::kExpert ? ".e" + std::to_string(experts) + "x" : ".x";
  return name + std::to_string(top_k) + (own_columns ? ".own" : "");
}

LinearArgs::LinearArgs(Builder& b, const LinearSpec& spec, int tile_rows) : b_(b), spec_(spec) {
  constexpr const LinearArgList<int>& kAt = kArg<LinearArgList>;
  x = b.Arg(kAt.x);
  w = b.Arg(kAt.w);
  y = b.Arg(kAt.y);
  rows = b.Load(Type::kI32, b.Arg(kAt.count), b.I32(0));
  units = b.Truncate(b.Arg(kAt.units));
  y_row_bytes = b.Truncate(b.Arg(kAt.y_row_bytes));
  int next = static_cast<int>(kArgCount<LinearArgList>);
  if (spec.scale) scale = b.Arg(next++);
  if (spec.up_scale) up_scale = b.Arg(next++);
  if (spec.weighted) weights_ = b.Arg(next++);
  if (spec.rows_of != RowsOf::kStep) expert_bytes_ = b.Arg(next++);
  switch (spec.rows_of) {
    case RowsOf::kStep:
      first_row = b.BlockY() * tile_rows;
      if (spec.unit_keys) unit_keys = b.Arg(next++);
      if (spec.unit_keys && spec.some) choosable = b.Arg(next++);
      if (spec.making == Making::kNothing || spec.making == Making::kRounded) break;
      norm_weight = b.Arg(next++);
      norm_eps = FloatOf(b.Arg(next++));
      if (spec.making == Making::kGatedNormed) gate = b.Arg(next++);
      break;
    case RowsOf::kSlot:
      // The grid has no slots beyond the bucket's, so there is an id to read.
      ids_ = b.Arg(next++);
      first_row = b.I32(0);
      first_slot_ = b.BlockY();
      rows = Select(LtS(first_slot_, rows * spec.top_k), b.I32(1), b.I32(0));
      SetExpert(Word(ids_, first_slot_));
      break;
    case RowsOf::kRow:
      ids_ = b.Arg(next++);
      first_row = b.BlockY();
      break;
    case RowsOf::kExpert:
      groups_ = b.Arg(next++);
      order_ = b.Arg(next++);
      FindExpert(tile_rows);
      break;
  }
}

std::vector<Arg> LinearArgs::List(const LinearArgList<Arg>& args, const LinearMoreArgs& more) {
  std::vector<Arg> list = ListArgs<LinearArgList>(args);
  for (const std::optional<Arg>* arg :
       {&more.scale, &more.up_scale, &more.weights, &more.expert_bytes, &more.ids, &more.groups, &more.order,
        &more.unit_keys, &more.choosable, &more.norm_weight, &more.norm_eps, &more.gate}) {
    if (*arg) list.push_back(**arg);
  }
  return list;
}

// Of the active experts, number i whose slots are begin .. end - 1 of the order has the tiles from
// begin / tile_rows + i to end / tile_rows + i: as many as it needs, or one more.
void LinearArgs::FindExpert(int tile_rows) {
  const Shared found = b_.AllocShared(Type::kI32, kFoundWords);
  const Val tile = b_.BlockY(), active = Word(groups_, b_.I32(0));
  b_.If(LtS(b_.Thread(), b_.I32(kFoundWords)), [&] { b_.StoreShared(found, b_.Thread(), b_.I32(0)); });
  b_.Barrier();
  // Of a workgroup with more threads, kLinearThreads look: one finds it.
  b_.If(LtS(b_.Thread(), b_.I32(kLinearThreads)), [&] {
    b_.For(b_.Thread(), active, b_.I32(kLinearThreads), [&](Val i) {
      const Val begin = Word(groups_, i + (1 + spec_.experts)), end = Word(groups_, i + (2 + spec_.experts));
      const Val first = DivU(begin, tile_rows) + i, last = DivU(end, tile_rows) + i;
      b_.If(And(b_.Compare(Builder::Cmp::kLeS, first, tile), b_.Compare(Builder::Cmp::kLeS, tile, last)),
            [&] {
              const Val values[] = {Word(groups_, i + 1), begin, end - begin, (tile - first) * tile_rows};
              for (int n = 0; n < kFoundWords; ++n) b_.StoreShared(found, b_.I32(n), values[n]);
            });
    });
  });
  b_.Barrier();
  SetExpert(b_.LoadShared(found, b_.I32(0)));
  first_slot_ = b_.LoadShared(found, b_.I32(1));
  rows = b_.LoadShared(found, b_.I32(2));
  first_row = b_.LoadShared(found, b_.I32(3));
}

// All experts' weights may be more than 32 bits reach; those of one are not.
void LinearArgs::SetExpert(Val expert) {
  const Val wide = b_.ExtendU(expert);
  w = w + wide * expert_bytes_;
  if (spec_.scale_each) scale = scale + (wide << 2);
  if (spec_.up_scale_each) up_scale = up_scale + (wide << 2);
}

LinearArgs LinearArgs::OfSlot(Val index) const {
  LinearArgs args = *this;
  args.first_slot_ = first_row * spec_.top_k + index;
  args.SetExpert(Word(ids_, args.first_slot_));
  return args;
}

Val LinearArgs::Slot(Val row) const {
  switch (spec_.rows_of) {
    case RowsOf::kStep:
      return row;
    case RowsOf::kSlot:
    case RowsOf::kRow:
      return first_slot_;
    case RowsOf::kExpert:
      return Word(order_, first_slot_ + row);
  }
  return row;
}

XRow LinearArgs::Input(Val row) const {
  const Val slot = Slot(MinS(row, rows - 1));
  const int32_t top_k = static_cast<int32_t>(spec_.top_k);
  const Val of_step = top_k == 1 ? slot : DivU(slot, top_k);
  const Val at = of_step * spec_.x_row_bytes();
  if (!spec_.own_columns || top_k == 1) return {at, Val()};
  const Val index = slot - of_step * top_k;
  if (spec_.int8) return {at, index * spec_.chunks()};
  return {at + index * (4 * spec_.k), Val()};
}

YRow LinearArgs::Output(Val row) const {
  const Val slot = Slot(row);
  const Val of_y = spec_.rows_of == RowsOf::kRow ? first_row : slot;
  return {of_y * y_row_bytes, weights_ ? b_.Load(Type::kF32, weights_, slot << 2) : Val()};
}

}  // namespace qcc::gpu
