#include "codegen/gpu/lower/LowerToLaunches.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "codegen/gpu/IR/Gx.h"
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/together.h"
#include "codegen/gpu/lower/Backends.h"
#include "codegen/gpu/lower/MakeRows.h"
#include "codegen/gpu/lower/Steps.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/PlanSummary.h"
#include "dialects/plan/kernel_families.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/xxhash.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {
namespace {
using namespace mlir;

constexpr uint64_t kScratchAlignment = 256, kConstantAlignment = 16;
using gx::kMaxArgs;

uint64_t alignUp(uint64_t n, uint64_t a) {
  return (n + a - 1) / a * a;
}

// What belongs to the whole artifact: constants, and the numbers that expansions may ask for.
class CodeExpansion final : public Expansion {
 public:
  CodeExpansion(const Profile& profile, int64_t maxRows, int64_t logitsStride, uint64_t scratchBase,
                std::vector<uint8_t>& constants)
      : info(profile), rows(maxRows), stride(logitsStride), base(scratchBase), constants(constants) {}

  const Profile& profile() const override { return info; }
  int64_t max_rows() const override { return rows; }
  int64_t logits_stride() const override { return stride; }

  Arg Scratch(uint64_t bytes) override {
    Arg arg{gpu::Space::kArena, base + used, bytes};
    used = alignUp(used + bytes, kScratchAlignment);
    most = std::max(most, used);
    return arg;
  }

  Arg Constant(const std::vector<uint8_t>& bytes) override {
    auto [it, fresh] = placed.try_emplace(bytes, 0);
    if (fresh) {
      it->second = alignUp(constants.size(), kConstantAlignment);
      constants.resize(it->second);
      constants.insert(constants.end(), bytes.begin(), bytes.end());
    }
    return {gpu::Space::kConstants, it->second, bytes.size()};
  }

  // Everything before has been waited for: its scratch is free.
  void releaseScratch() { used = 0; }
  // Most scratch that was in use at a time since the last call.
  uint64_t takeMost() { return std::exchange(most, 0); }

 private:
  const Profile& info;
  int64_t rows, stride;
  uint64_t base, used = 0, most = 0;
  std::vector<uint8_t>& constants;
  std::map<std::vector<uint8_t>, uint64_t> placed;
};

// "blk.3" -> 3; -1 for anything else.
int32_t layerNumber(StringRef layer) {
  int32_t n = -1;
  if (!layer.consume_front("blk.") || layer.getAsInteger(10, n)) return -1;
  return n;
}

// Entry points share one name space in a PTX module, which allows letters, digits and '_'. They name files of
// --dump-kernels, too, of at most 255 bytes: what is longer, of many launches that became one, ends in a
// hash.
std::string entryName(StringRef kernel) {
  constexpr size_t kMost = 200, kHash = 16;
  std::string entry = "k_" + kernel.str();
  for (char& c : entry)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (entry.size() <= kMost) return entry;
  entry.resize(kMost - kHash - 1);
  return entry + "_" + llvm::utohexstr(llvm::xxh3_64bits(kernel), /*LowerCase=*/true, /*Width=*/kHash);
}

class Lowering {
 public:
  Lowering(ModuleOp plan, const ProfileInfo& profile, const LaunchOptions& options)
      : plan(plan),
        profile(profile),
        options(options),
        summary(plan::summarize(plan)),
        expansion(profile.profile, mostRows(), logitsStride(), alignUp(summary.arenaBytes, kScratchAlignment),
                  out.code.constants) {}

  FailureOr<LoweredGpu> run() {
    out.code.abi = QRT_GPU_STEP_ABI;
    out.code.max_rows = static_cast<uint32_t>(mostRows());
    out.code.overlap = profile.profile.overlap;
    headsLeaveKeys = doLeaveKeys(/*drafts=*/false, choice());
    draftsLeaveKeys = doLeaveKeys(/*drafts=*/true, draftColumns().all());
    for (auto program : plan.getOps<plan::ProgramOp>())
      if (failed(lowerProgram(program))) return failure();
    if (failed(lowerSampling())) return failure();
    return std::move(out);
  }

 private:
  int64_t mostRows() const {
    int64_t rows = 1;
    for (const plan::ProgramSummary& p : summary.programs) rows = std::max(rows, p.rows);
    return rows;
  }
  int64_t vocabulary() const {
    auto size = plan->getAttrOfType<IntegerAttr>(hir::kVocabSize);
    return size ? size.getInt() : 0;
  }
  int64_t logitsStride() const { return layouts::AlignUp(vocabulary(), layouts::kGroupRows); }

  std::string where() const { return "target " + profile.target + ", profile " + profile.profile.name; }

  FailureOr<std::vector<Step>> fusedStepsOf(plan::ProgramOp program) {
    FailureOr<std::vector<Step>> steps = stepsOf(program, plan);
    if (failed(steps)) return failure();
    makeRowsWhereRead(program, *steps, expansion, limits(),
                      [&](const std::string& kernel) { return isReplaced(kernel); });
    // Of what was only tried, too.
    expansion.releaseScratch();
    expansion.takeMost();
    return steps;
  }

  static bool isDraft(plan::ProgramOp program) { return program.getOutput() == plan::Output::Logits; }
  // Whether a linear is all that writes logits in each program that gives them, of drafts or of all others,
  // and can leave UnitKeys of `columns`: a greedy choice, or a guess, may follow any.
  bool doLeaveKeys(bool drafts, const Vocabulary& columns) {
    bool found = false, all = true;
    for (const plan::ProgramSummary& p : summary.programs) {
      plan::ProgramOp program(p.op);
      if (program.getOutput() == plan::Output::Nothing || isDraft(program) != drafts) continue;
      if (!drafts && p.logitsCols != columns.size) continue;
      FailureOr<std::vector<Step>> steps = fusedStepsOf(program);
      // What is wrong with it is said when it is lowered.
      if (failed(steps)) return false;
      for (const Step& step : *steps) all &= !writesLogits(step.op) || canLeaveKeys(step, columns);
      found = true;
    }
    return found && all;
  }
  bool canLeaveKeys(const Step& step, const Vocabulary& columns) {
    bool can = false;
    plan::visitDispatch(step.op, [&](const auto& spec, const auto&) {
      using Spec = std::decay_t<decltype(spec)>;
      if constexpr (std::is_same_v<Spec, plan::LinearSpec>) {
        const auto dispatch = dispatchOf(step, spec);
        const auto isOne = [&](const std::vector<Launch>& launches) {
          return launches.size() == 1 && !isReplaced(launches.front().name);
        };
        can = !step.made && spec.n == columns.size && isOne(kExpansion<Spec>(dispatch, expansion)) &&
              isOne(ExpandLeavingKeys(dispatch, UnitKeysOf(dispatch.rows, columns, expansion), expansion));
      }
    });
    return can;
  }
  Vocabulary choice() const { return {vocabulary(), options.choosable}; }
  // What the heads of a program leave UnitKeys of.
  std::optional<Vocabulary> keysOf(plan::ProgramOp program) const {
    if (isDraft(program)) return draftsLeaveKeys ? std::optional(draftColumns().all()) : std::nullopt;
    return headsLeaveKeys ? std::optional(choice()) : std::nullopt;
  }
  static bool writesLogits(plan::DispatchOp op) {
    return llvm::any_of(op.getBindings().getAsRange<plan::RefAttr>(), [](plan::RefAttr ref) {
      return ref.getSpace() == plan::Space::Logits && ref.getAccess() != plan::Access::Read;
    });
  }

  LogicalResult lowerProgram(plan::ProgramOp program) {
    ProgramCode& code = out.code.programs.emplace_back();
    FailureOr<std::vector<Step>> steps = fusedStepsOf(program);
    if (failed(steps)) return failure();
    leaves = keysOf(program);
    for (const Step& step : *steps)
      if (failed(lowerStep(step, code))) return failure();
    if (failed(recordStage(code))) return failure();
    const uint64_t base = alignUp(summary.arenaBytes, kScratchAlignment);
    const uint64_t scratch = expansion.takeMost();
    code.arena_bytes = scratch ? base + scratch : program.getArenaBytes();
    return success();
  }

  LogicalResult lowerStep(const Step& step, ProgramCode& program) {
    plan::DispatchOp op = step.op;
    auto complain = [&](const Twine& what) -> LogicalResult {
      InFlightDiagnostic error = op.emitError("gpu codegen: ") << what;
      if (!step.bases.layer.empty()) error << ", in layer " << step.bases.layer;
      error << ", on " << where() << "; spec " << op.getSpec();
      return failure();
    };
    if (step.barrier) expansion.releaseScratch();
    const std::string family = op.getFamily().str();
    expansion.TakeRefusal();  // of what was only tried
    FailureOr<std::vector<Launch>> launches = expand(step);
    if (failed(launches)) return complain("no kernel '" + family + "'");
    if (launches->empty()) {
      const std::string why = expansion.TakeRefusal();
      return complain("no kernel '" + family + "' for " + (why.empty() ? "this shape or format" : why));
    }
    for (size_t i = 0; i < launches->size(); ++i) {
      Launch& launch = (*launches)[i];
      std::string bad = check(launch);
      if (!bad.empty()) return complain("kernel '" + launch.name + "': " + bad);
      const bool barrier = launch.barrier || (i == 0 && step.barrier);
      if (barrier && failed(recordStage(program))) return failure();
      stageWaits |= barrier;
      addToStage(std::move(launch), {family, layerNumber(step.bases.layer)});
    }
    return success();
  }

  bool isReplaced(const std::string& kernel) const { return options.alone && options.alone(kernel); }
  TogetherLimits limits() const {
    const auto& grid = findBackend(profile.target)->gridLimits;
    return {kMaxArgs, {grid[0], grid[1], grid[2]}, profile.profile.max_shared};
  }

  // Launches between two barriers wait for none of each other, so those that may become one do.
  struct Origin {
    std::string family;
    int32_t layer;
    bool operator==(const Origin& other) const = default;
  };
  struct Side {
    Origin origin;
    std::vector<Launch> launches;
  };

  void addToStage(Launch launch, Origin origin) {
    if (isReplaced(launch.name)) launch.beside = false;
    for (Side& side : stage)
      if (side.origin == origin && GoTogether(side.launches, launch, limits()))
        return side.launches.push_back(std::move(launch));
    Side& own = stage.emplace_back(Side{std::move(origin), {}});
    own.launches.push_back(std::move(launch));
  }

  LogicalResult recordStage(ProgramCode& program) {
    for (const Side& side : stage) {
      Launch launch = Together(side.launches);
      std::string bad = check(launch);
      if (!bad.empty())
        return plan.emitError("gpu codegen: kernel '") << launch.name << "': " << bad << ", on " << where();
      program.dispatches.push_back(
          record(std::move(launch), side.origin.family, std::exchange(stageWaits, false)));
      program.dispatches.back().layer = side.origin.layer;
    }
    stage.clear();
    return success();
  }

  // The launches of a dispatch; failure when the family has no kernels at all.
  FailureOr<std::vector<Launch>> expand(const Step& step) {
    FailureOr<std::vector<Launch>> launches = failure();
    plan::visitDispatch(step.op, [&](const auto& spec, const auto&) {
      using Spec = std::decay_t<decltype(spec)>;
      if constexpr (std::is_same_v<Spec, plan::LinearSpec>) {
        if (step.made) {
          launches = ExpandMaking(dispatchOf(step, spec), *step.made, expansion);
          return;
        }
        if (leaves && spec.n == leaves->size && writesLogits(step.op)) {
          const auto dispatch = dispatchOf(step, spec);
          launches = ExpandLeavingKeys(dispatch, UnitKeysOf(dispatch.rows, *leaves, expansion), expansion);
          return;
        }
      }
      if constexpr (std::is_same_v<Spec, plan::AttentionSpec>) {
        if (step.heads) {
          launches = ExpandMakingHeads(dispatchOf(step, spec), *step.heads, expansion);
          return;
        }
      }
      if constexpr (std::is_same_v<Spec, plan::GatedDeltaSpec>) {
        if (step.unnormed) {
          launches = ExpandUnnormed(dispatchOf(step, spec), expansion);
          return;
        }
      }
      if constexpr (kExpansion<Spec> != nullptr)
        launches = kExpansion<Spec>(dispatchOf(step, spec), expansion);
    });
    return launches;
  }

  // Why a launch cannot be recorded; empty when it can. Anything found here is a mistake of an expansion.
  std::string check(const Launch& launch) const {
    if (launch.name.empty() || !launch.emit) return "it has no name or no body";
    if (launch.args.size() > kMaxArgs)
      return "it takes " + std::to_string(launch.args.size()) + " arguments, the limit is " +
             std::to_string(kMaxArgs);
    if (launch.workgroup_size < 1 || launch.workgroup_size > profile.profile.max_workgroup)
      return "its workgroup has " + std::to_string(launch.workgroup_size) + " threads, the limit is " +
             std::to_string(profile.profile.max_workgroup);
    const Backend* backend = findBackend(profile.target);
    if (!backend) return "there is no back end for its target";
    const auto& limits = backend->gridLimits;
    for (int i = 0; i < 3; ++i)
      if (launch.grid[i] < 1 || launch.grid[i] > limits[i])
        return "its grid has " + std::to_string(launch.grid[i]) + " workgroups in dimension " +
               std::to_string(i) + ", expected 1 to " + std::to_string(limits[i]);
    for (const Arg& arg : launch.args) {
      if ((arg.space == gpu::Space::kImmediate) != (arg.bytes == 0))
        return "it takes a number with bytes behind it, or a range of none";
      if (arg.bytes > kMaxBindingBytes && !arg.wide)
        return "it binds " + std::to_string(arg.bytes) + " bytes at once, the limit is " +
               std::to_string(kMaxBindingBytes);
      if (arg.space == gpu::Space::kWeights &&
          arg.value + arg.bytes > static_cast<uint64_t>(summary.weightBytes))
        return "it reads behind the weight section";
    }
    if (auto known = byName.find(launch.name); known != byName.end()) {
      const KernelCode& kernel = out.code.kernels[known->second];
      if (kernel.workgroup_size != static_cast<uint32_t>(launch.workgroup_size) ||
          kernel.n_args != launch.args.size())
        return "two kernels of this name differ in workgroup size or arguments";
    }
    return "";
  }

  DispatchCode record(Launch launch, StringRef family, bool barrier) {
    if (options.seen) options.seen(launch);
    DispatchCode code;
    auto [it, fresh] = byName.try_emplace(launch.name, static_cast<uint32_t>(out.kernels.size()));
    code.kernel = it->second;
    std::copy(std::begin(launch.grid), std::end(launch.grid), code.grid);
    code.barrier = barrier;
    code.args = launch.args;
    code.read_bytes = launch.read_bytes;
    code.write_bytes = launch.write_bytes;
    code.kv_bytes = launch.kv_bytes;
    code.ops = launch.ops;
    code.family = family.str();
    if (fresh) {
      KernelCode kernel;
      kernel.name = launch.name;
      kernel.entry = entryName(launch.name);
      for (int n = 2; !entries.insert(kernel.entry).second; ++n)
        kernel.entry = entryName(launch.name) + "_" + std::to_string(n);
      kernel.workgroup_size = static_cast<uint32_t>(launch.workgroup_size);
      kernel.n_args = static_cast<uint32_t>(launch.args.size());
      out.code.kernels.push_back(std::move(kernel));
      out.kernels.push_back(std::move(launch));
    }
    return code;
  }

  // One token for one row, the usual step, and for the most rows of logits that a program writes.
  LogicalResult lowerSampling() {
    std::set<int64_t> rows;
    for (const plan::ProgramSummary& p : summary.programs)
      if (plan::ProgramOp(p.op).getOutput() != plan::Output::Nothing) rows.insert(p.rows);
    if (rows.empty()) return success();
    for (int64_t n : std::set<int64_t>{1, *rows.rbegin()})
      for (Sampling kind : {Sampling::kGreedy, Sampling::kDraw, Sampling::kDrawFew})
        if (failed(lowerSampleProgram(kind, n))) return failure();
    return lowerGuesses();
  }

  // The same for a draft, which gives logits of every row.
  LogicalResult lowerGuesses() {
    int64_t rows = 0;
    for (const plan::ProgramSummary& p : summary.programs)
      if (plan::ProgramOp(p.op).getOutput() == plan::Output::Logits) rows = std::max(rows, p.rows);
    if (rows == 0) return success();
    for (int64_t n : std::set<int64_t>{1, rows})
      if (failed(lowerSampleProgram(Sampling::kGuess, n))) return failure();
    return success();
  }

  DraftColumns draftColumns() const {
    DraftColumns columns;
    for (const plan::ProgramSummary& p : summary.programs)
      if (plan::ProgramOp(p.op).getOutput() == plan::Output::Logits) columns.size = p.logitsCols;
    columns.stride = columns.size < vocabulary() ? columns.size : logitsStride();
    auto ids = plan->getAttrOfType<DenseI64ArrayAttr>(hir::kDraftTokens);
    if (ids && columns.size < vocabulary())
      for (int64_t id : ids.asArrayRef()) columns.tokens.push_back(static_cast<int32_t>(id));
    return columns;
  }

  std::vector<Launch> expandSampling(Sampling kind, int64_t rows, uint64_t* scratch) {
    switch (kind) {
      case Sampling::kGreedy:
        return (headsLeaveKeys ? ExpandGreedyOfUnits : ExpandGreedy)(rows, choice(), expansion, scratch);
      case Sampling::kDraw:
        return ExpandDraw(rows, choice(), expansion, scratch);
      case Sampling::kDrawFew:
        return ExpandDrawFew(rows, choice(), expansion, scratch);
      case Sampling::kGuess:
        return (draftsLeaveKeys ? ExpandGuessOfUnits : ExpandGuess)(rows, draftColumns(), expansion, scratch);
    }
    llvm_unreachable("all kinds are listed");
  }

  LogicalResult lowerSampleProgram(Sampling kind, int64_t rows) {
    uint64_t scratch = 0;
    std::vector<Launch> launches = expandSampling(kind, rows, &scratch);
    auto complain = [&](const Twine& what) {
      return plan.emitError("gpu codegen: ")
             << qrt::Name(kind) << " choice of " << rows << " tokens: " << what << ", on " << where();
    };
    // The runtime draws few tokens as it draws many where there is nothing shorter.
    if (launches.empty() && kind == Sampling::kDrawFew) return success();
    if (launches.empty()) return complain("no kernel");
    SampleProgramCode& program = out.code.sample_programs.emplace_back();
    program.kind = kind;
    program.rows = static_cast<uint32_t>(rows);
    for (size_t i = 0; i < launches.size(); ++i) {
      // The first waits for the program that wrote the logits.
      const bool barrier = launches[i].barrier || i == 0;
      std::string bad = check(launches[i]);
      if (!bad.empty()) return complain("kernel '" + launches[i].name + "': " + bad);
      program.dispatches.push_back(record(std::move(launches[i]), "sample", barrier));
    }
    out.code.scratch_bytes = std::max(out.code.scratch_bytes, scratch);
    return success();
  }

  ModuleOp plan;
  const ProfileInfo& profile;
  const LaunchOptions& options;
  plan::PlanSummary summary;
  LoweredGpu out;
  CodeExpansion expansion;
  std::vector<Side> stage;  // since the last barrier
  bool stageWaits = false;  // whether a barrier stands before it
  bool headsLeaveKeys = false, draftsLeaveKeys = false;
  std::optional<Vocabulary> leaves;  // UnitKeys of these, of the program at hand
  std::map<std::string, uint32_t> byName;
  std::set<std::string> entries;
};

}  // namespace

FailureOr<LoweredGpu> lowerToLaunches(ModuleOp plan, const ProfileInfo& profile,
                                      const LaunchOptions& options) {
  return Lowering(plan, profile, options).run();
}

}  // namespace qcc::gpu
