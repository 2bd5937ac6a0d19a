#include "codegen/gpu/lower/MakeRows.h"

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/gated_delta.h"
#include "llvm/ADT/STLExtras.h"

namespace qcc::gpu {
namespace {
using namespace mlir;

bool overlap(const plan::Ref& a, plan::RefAttr b) {
  return b.getSpace() == a.space && b.getOffset() < a.offset + a.bytes &&
         a.offset < b.getOffset() + b.getBytes();
}

bool same(const plan::Ref& a, const plan::Ref& b) {
  return a.space == b.space && a.offset == b.offset && a.bytes == b.bytes;
}

bool writes(plan::DispatchOp op, const plan::Ref& range) {
  return llvm::any_of(op.getBindings().getAsRange<plan::RefAttr>(), [&](plan::RefAttr ref) {
    return ref.getAccess() != plan::Access::Read && overlap(range, ref);
  });
}

// A norm or quantize: what it reads and writes.
struct Maker {
  MadeOf made;
  plan::Ref x;
  SmallVector<plan::Ref> results;
};

template <class Bindings>
Maker makerOf(const Step& step, const Bindings& bindings, MadeOf made) {
  made.x = bind(bindings.x, step.bases);
  Maker maker{made, bindings.x, {}};
  for (const plan::Ref* result : {&bindings.out_q, &bindings.out_q2})
    if (*result) maker.results.push_back(*result);
  return maker;
}

std::optional<Maker> makerOf(const Step& step) {
  std::optional<Maker> maker;
  plan::visitDispatch(step.op, [&](const auto& spec, const auto& bindings) {
    using Spec = std::decay_t<decltype(spec)>;
    if constexpr (std::is_same_v<Spec, plan::QuantizeSpec>) maker = makerOf(step, bindings, MadeOf{});
    if constexpr (std::is_same_v<Spec, plan::NormSpec>) {
      if (spec.source != plan::RowsFrom::Rows) return;
      maker = makerOf(step, bindings,
                      MadeOf{.making = Making::kNormed,
                             .x = {},
                             .weight = bind(bindings.weight, step.bases),
                             .eps = spec.eps});
      if (bindings.out) maker->results.push_back(bindings.out);
    }
  });
  return maker;
}

class MakeRows {
 public:
  MakeRows(plan::ProgramOp program, std::vector<Step>& steps, Expansion& expansion,
           const TogetherLimits& limits, llvm::function_ref<bool(const std::string&)> replaced)
      : program(program), steps(steps), expansion(expansion), limits(limits), replaced(replaced) {}

  void run() {
    std::vector<bool> goes;
    goes.reserve(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) goes.push_back(isMadeByReaders(i) || isMadeByAttention(i));
    std::vector<Step> kept;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!goes[i]) {
        kept.push_back(steps[i]);
        continue;
      }
      // It has readers, so it is not the last.
      const bool first = kept.empty() || steps[i].barrier;
      Step& next = steps[i + 1];
      next.barrier = steps[i].barrier || (next.barrier && !first);
    }
    steps = std::move(kept);
  }

 private:
  bool isMadeByReaders(size_t i) {
    std::optional<Maker> maker = makerOf(steps[i]);
    if (!maker || isReplaced(steps[i])) return false;
    std::optional<SmallVector<size_t>> readers = readersOf(i, *maker);
    if (!readers || readers->empty() || !staysWhole(i, readers->back(), maker->x) ||
        !makeTogether(*readers, maker->made))
      return false;
    if (std::optional<MadeOf> gated = ofGatedNorm(i, *maker, *readers)) {
      steps[i - 1].unnormed = true;
      maker->made = *gated;
    }
    for (size_t reader : *readers) steps[reader].made = maker->made;
    return true;
  }

  // Where step i rounds what the gated_delta before it gives, and nobody else reads that, its readers can
  // make the gated norm too.
  std::optional<MadeOf> ofGatedNorm(size_t i, const Maker& maker, ArrayRef<size_t> readers) {
    if (i == 0 || maker.made.making != Making::kRounded) return std::nullopt;
    std::optional<MadeOf> made;
    plan::visitDispatch(steps[i - 1].op, [&](const auto& spec, const auto& bindings) {
      using Spec = std::decay_t<decltype(spec)>;
      if constexpr (std::is_same_v<Spec, plan::GatedDeltaSpec>) {
        if (!same(bindings.out, maker.x) || isReplaced(steps[i - 1]) || !isReadByOne(i, maker.x) ||
            !staysWhole(i, readers.back(), bindings.z) ||
            ExpandUnnormed(dispatchOf(steps[i - 1], spec), expansion).empty())
          return;
        MadeOf gated = maker.made;
        gated.making = Making::kGatedNormed;
        gated.weight = bind(bindings.norm_w, steps[i - 1].bases);
        gated.gate = bind(bindings.z, steps[i - 1].bases);
        gated.eps = spec.norm_eps;
        gated.norm_dim = spec.value_dim;
        if (makeTogether(readers, gated)) made = gated;
      }
    });
    return made;
  }

  // Where step i makes the heads of the attention behind it, for nobody else, that does so itself.
  bool isMadeByAttention(size_t i) {
    bool made = false;
    plan::visitDispatch(steps[i].op, [&](const auto& spec, const auto& bindings) {
      using Spec = std::decay_t<decltype(spec)>;
      if constexpr (std::is_same_v<Spec, plan::QkNormRopeStoreSpec>) {
        if (i + 1 == steps.size() || isReplaced(steps[i]) || isReplaced(steps[i + 1]) ||
            !isReadByOne(i + 1, bindings.out))
          return;
        // What runs beside the attention, whose own result comes from a launch behind its first, must not
        // write what that reads.
        for (const plan::Ref* x : {&bindings.q, &bindings.k, &bindings.v, &bindings.rope})
          for (size_t j = i + 2; j < steps.size() && !steps[j].barrier; ++j)
            if (writes(steps[j].op, *x)) return;
        const auto arg = [&](const plan::Ref& ref) { return bind(ref, steps[i].bases); };
        made = makeHeads(i + 1, bindings.out,
                         {.spec = spec,
                          .q = arg(bindings.q),
                          .k = arg(bindings.k),
                          .v = arg(bindings.v),
                          .q_norm = arg(bindings.q_norm),
                          .k_norm = arg(bindings.k_norm),
                          .rope = arg(bindings.rope),
                          .kv = arg(bindings.kv)});
      }
    });
    return made;
  }

  bool makeHeads(size_t i, const plan::Ref& heads, const MadeHeads& made) {
    plan::visitDispatch(steps[i].op, [&](const auto& spec, const auto& bindings) {
      using Spec = std::decay_t<decltype(spec)>;
      if constexpr (std::is_same_v<Spec, plan::AttentionSpec>) {
        if (same(bindings.q, heads) &&
            !ExpandMakingHeads(dispatchOf(steps[i], spec), made, expansion).empty())
          steps[i].heads = made;
      }
    });
    return steps[i].heads.has_value();
  }

  // Whether step i is the last that reads `x` before it is written again.
  bool isReadByOne(size_t i, const plan::Ref& x) {
    if (program.getLeaves() && x.offset == 0) return false;
    for (size_t j = i + 1; j < steps.size(); ++j) {
      for (plan::RefAttr ref : steps[j].op.getBindings().getAsRange<plan::RefAttr>())
        if (ref.getAccess() != plan::Access::Write && overlap(x, ref)) return false;
      if (writes(steps[j].op, x)) return true;
    }
    return true;
  }

  // The linears that read what step i makes; nothing where others do.
  std::optional<SmallVector<size_t>> readersOf(size_t i, const Maker& maker) {
    SmallVector<size_t> readers;
    SmallVector<plan::Ref> live = maker.results;
    // What a program leaves lies at the arena's begin.
    if (program.getLeaves() && llvm::any_of(live, [](const plan::Ref& r) { return r.offset == 0; }))
      return std::nullopt;
    for (size_t j = i + 1; j < steps.size() && !live.empty(); ++j) {
      plan::DispatchOp op = steps[j].op;
      bool reads = false;
      for (auto [role, attr] : llvm::zip(op.getRoles().getAsValueRange<StringAttr>(),
                                         op.getBindings().getAsRange<plan::RefAttr>())) {
        if (attr.getAccess() == plan::Access::Write ||
            llvm::none_of(live, [&](const plan::Ref& r) { return overlap(r, attr); }))
          continue;
        if (op.getFamily() != StringRef(plan::LinearSpec::kFamily) || (role != "x" && role != "xq"))
          return std::nullopt;
        reads = true;
      }
      if (reads) readers.push_back(j);
      llvm::erase_if(live, [&](const plan::Ref& r) { return writes(op, r); });
    }
    return readers;
  }

  // Whether no dispatch that is not ordered behind the last reader writes to `x`, which the plan takes for
  // read by step i alone.
  bool staysWhole(size_t i, size_t lastReader, const plan::Ref& x) {
    for (size_t j = i + 1; j < steps.size() && (j <= lastReader || !steps[j].barrier); ++j)
      if (writes(steps[j].op, x)) return false;
    return true;
  }

  bool makeTogether(ArrayRef<size_t> readers, const MadeOf& made) {
    std::vector<Launch> launches;
    for (size_t reader : readers) {
      if (isReplaced(steps[reader])) return false;
      std::vector<Launch> own = ExpandMaking(linearOf(steps[reader]), made, expansion);
      if (own.empty() || (!launches.empty() && !GoTogether(launches, own.front(), limits))) return false;
      launches.push_back(std::move(own.front()));
    }
    return true;
  }

  static Dispatch<plan::LinearSpec> linearOf(const Step& step) {
    plan::DispatchOp op = step.op;
    plan::LinearSpec spec;
    plan::readSpec(op.getSpec(), spec);
    return dispatchOf(step, spec);
  }

  bool isReplaced(const Step& step) {
    bool found = false;
    plan::visitDispatch(step.op, [&](const auto& spec, const auto&) {
      using Spec = std::decay_t<decltype(spec)>;
      if constexpr (kExpansion<Spec> != nullptr)
        for (const Launch& launch : kExpansion<Spec>(dispatchOf(step, spec), expansion))
          found |= replaced(launch.name);
    });
    return found;
  }

  plan::ProgramOp program;
  std::vector<Step>& steps;
  Expansion& expansion;
  const TogetherLimits& limits;
  llvm::function_ref<bool(const std::string&)> replaced;
};

}  // namespace

void makeRowsWhereRead(plan::ProgramOp program, std::vector<Step>& steps, Expansion& expansion,
                       const TogetherLimits& limits,
                       llvm::function_ref<bool(const std::string& kernel)> replaced) {
  MakeRows(program, steps, expansion, limits, replaced).run();
}

}  // namespace qcc::gpu
