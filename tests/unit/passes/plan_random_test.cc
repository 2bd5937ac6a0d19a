// Random plans through barriers, arena assignment and verification. What a plan computes is modelled by
// numbers: every dispatch writes a hash of what it reads. The assigned plan must compute what the plan
// without sharing computes, the verifier must accept it, and it must reject damage.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/Passes.h"

namespace qcc::passes {
namespace {

using mlir::ModuleOp;
using mlir::OwningOpRef;

constexpr int kCols = 32;  // of every dispatch: f32 rows of 128 bytes, int8 rows of 64

// Writes one program with a block that is called twice. Kinds of dispatch: norm (x -> out), quantize (x ->
// out_q, of its own), add (x into y). Buffers are written before they are read, each with bytes of its own.
class PlanWriter {
 public:
  explicit PlanWriter(uint32_t seed) : random_(seed) {}

  std::string Write() {
    Buffer("x");
    std::string outer =
        "    plan.dispatch \"embed\" {cols = 32 : i64, format = \"f32\"} [\"table\", \"out\"] "
        "[#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 128, write>] {buffers = [\"\", \"x\"]}\n";
    std::vector<std::string> live = {"x"};
    outer += Body("p", 1 + Pick(4), live);
    std::string block = Body("b", 4 + Pick(12), live);
    const std::string call = "    plan.call @block weights 4096 state 0 kv 0 layer \"blk.";
    std::string after = Body("q", 2 + Pick(6), live_outside_);
    return "plan.weight @table [\"t\"] \"f32\" x16 32 x 32 at 0 size 4096\n"
           "plan.weight @norm [\"n\"] \"f32\" f32 1 x 32 at 4096 size 128\n"
           "plan.block @block weights 128 state 0 kv 0 {\n" +
           block +
           "}\n"
           "plan.program @prefill_1 tokens leaves \"trunk\" rows 1 arena " +
           std::to_string(next_) + " {\n" + outer + call + "0\"\n" + call + "1\"\n" + after + "}\n";
  }

 private:
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void Buffer(const std::string& name) {
    offsets_[name] = next_;
    next_ += 128;
  }
  std::string Ref(const std::string& name, const char* access) {
    return "#plan.ref<arena, " + std::to_string(offsets_[name]) + ", 128, " + access + ">";
  }

  std::string Body(const std::string& scope, int count, std::vector<std::string> live) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      std::string x = live[Pick(static_cast<int>(live.size()))],
                  y = live[Pick(static_cast<int>(live.size()))];
      if (Pick(3) == 0 && x != y) {
        text += "    plan.dispatch \"add\" {cols = 32 : i64} [\"x\", \"y\"] [" + Ref(x, "read") + ", " +
                Ref(y, "readwrite") + "] {buffers = [\"" + x + "\", \"" + y + "\"]}\n";
        continue;
      }
      std::string out = scope + std::to_string(i);
      Buffer(out);
      text +=
          "    plan.dispatch \"norm\" {cols = 32 : i64, eps = 1.0e-6 : f32, source = \"rows\"} [\"x\", "
          "\"weight\", \"out\"] [" +
          Ref(x, "read") + ", #plan.ref<weights, " + (scope == "b" ? "0" : "4096") + ", 128, read>, " +
          Ref(out, "write") + "] {buffers = [\"" + x + "\", \"\", \"" + out + "\"]}\n";
      live.push_back(out);
      if (Pick(4) == 0 && live.size() > 2)
        live.erase(live.begin() + 1 + Pick(static_cast<int>(live.size()) - 1));
    }
    if (scope == "p") live_outside_ = live;
    return text;
  }

  std::mt19937 random_;
  std::map<std::string, int64_t> offsets_;
  std::vector<std::string> live_outside_;
  int64_t next_ = 0;
};

// Values that every dispatch read and wrote, in order, when the plan runs serially over 64-byte cells.
std::vector<uint64_t> Simulate(ModuleOp module) {
  std::map<int64_t, uint64_t> arena;
  std::vector<uint64_t> trace;
  uint64_t count = 0;
  auto run = [&](plan::DispatchOp op) {
    uint64_t hash = 1469598103934665603ull + ++count;
    auto each = [&](bool writes, auto&& use) {
      for (auto ref : op.getBindings().getAsRange<plan::RefAttr>())
        if (ref.getSpace() == plan::Space::Arena &&
            (writes ? ref.getAccess() != plan::Access::Read : ref.getAccess() != plan::Access::Write))
          for (int64_t at = ref.getOffset(); at < ref.getOffset() + ref.getBytes(); at += 64) use(at);
    };
    each(false, [&](int64_t at) { hash = (hash ^ arena[at]) * 1099511628211ull; });
    each(true, [&](int64_t at) { arena[at] = hash; });
    trace.push_back(hash);
  };
  auto program = *module.getOps<plan::ProgramOp>().begin();
  for (mlir::Operation& op : program.getBody().front()) {
    if (auto dispatch = mlir::dyn_cast<plan::DispatchOp>(op)) run(dispatch);
    if (auto call = mlir::dyn_cast<plan::CallOp>(op))
      for (auto inner :
           module.lookupSymbol<plan::BlockOp>(call.getBlock()).getBody().getOps<plan::DispatchOp>())
        run(inner);
  }
  return trace;
}

class RandomPlans : public ::testing::Test {
 protected:
  RandomPlans() {
    context_.loadDialect<plan::PlanDialect>();
    context_.getDiagEngine().registerHandler([this](mlir::Diagnostic& d) { last_error_ = d.str(); });
  }
  OwningOpRef<ModuleOp> Parse(uint32_t seed) {
    return mlir::parseSourceString<ModuleOp>(PlanWriter(seed).Write(), &context_);
  }
  bool Run(ModuleOp module, std::vector<std::unique_ptr<mlir::Pass>> passes) {
    mlir::PassManager pm(&context_);
    for (auto& pass : passes) pm.addPass(std::move(pass));
    last_error_.clear();
    return mlir::succeeded(pm.run(module));
  }
  bool Assign(ModuleOp module) {
    std::vector<std::unique_ptr<mlir::Pass>> passes;
    passes.push_back(createInsertBarriers());
    passes.push_back(createAssignArena());
    return Run(module, std::move(passes));
  }
  bool Verify(ModuleOp module) {
    std::vector<std::unique_ptr<mlir::Pass>> passes;
    passes.push_back(createVerifyPlan());
    return Run(module, std::move(passes));
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  std::string last_error_;
};

TEST_F(RandomPlans, SharedArenaComputesTheSame) {
  int64_t before = 0, after = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    auto module = Parse(seed);
    ASSERT_TRUE(module) << "seed " << seed << ": " << last_error_;
    std::vector<uint64_t> expected = Simulate(*module);
    auto program = *module->getOps<plan::ProgramOp>().begin();
    before += program.getArenaBytes();
    ASSERT_TRUE(Assign(*module)) << "seed " << seed << ": " << last_error_;
    after += program.getArenaBytes();
    EXPECT_EQ(Simulate(*module), expected) << "seed " << seed << ": values changed";
    EXPECT_TRUE(Verify(*module)) << "seed " << seed << ": " << last_error_;
  }
  EXPECT_LT(after, before * 3 / 4) << "buffers that do not live together hardly share bytes";
}

TEST_F(RandomPlans, EveryBarrierIsNeeded) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    auto module = Parse(seed);
    ASSERT_TRUE(module && Assign(*module)) << "seed " << seed << ": " << last_error_;
    std::vector<plan::BarrierOp> barriers;
    module->walk([&](plan::BarrierOp op) { barriers.push_back(op); });
    for (size_t i = 0; i < barriers.size(); ++i) {
      OwningOpRef<ModuleOp> copy = module->clone();
      std::vector<plan::BarrierOp> copied;
      copy->walk([&](plan::BarrierOp op) { copied.push_back(op); });
      copied[i].erase();
      EXPECT_FALSE(Verify(*copy)) << "seed " << seed << ": accepted without barrier " << i;
      EXPECT_NE(last_error_.find("without a barrier"), std::string::npos)
          << "seed " << seed << ": " << last_error_;
    }
  }
}

// Moves the bytes of one buffer by 64: unless nothing changes in what is computed, that must be refused.
TEST_F(RandomPlans, DisplacedBuffersAreRefused) {
  int rejected = 0, harmful = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    auto module = Parse(seed);
    ASSERT_TRUE(module) << "seed " << seed << ": " << last_error_;
    std::vector<uint64_t> expected = Simulate(*module);
    ASSERT_TRUE(Assign(*module)) << "seed " << seed << ": " << last_error_;
    std::mt19937 random(seed);
    std::vector<mlir::StringAttr> names;
    module->walk([&](plan::DispatchOp op) {
      for (auto name : op.getBuffers()->getAsRange<mlir::StringAttr>())
        if (!name.getValue().empty()) names.push_back(name);
    });
    mlir::StringAttr victim = names[random() % names.size()];
    module->walk([&](plan::DispatchOp op) {
      llvm::SmallVector<mlir::Attribute> refs;
      for (auto [i, ref] : llvm::enumerate(op.getBindings().getAsRange<plan::RefAttr>())) {
        int64_t offset = ref.getOffset();
        if ((*op.getBuffers())[i] == victim) offset += offset >= 64 ? -64 : 64;
        refs.push_back(
            plan::RefAttr::get(&context_, ref.getSpace(), offset, ref.getBytes(), ref.getAccess()));
      }
      op.setBindingsAttr(mlir::ArrayAttr::get(&context_, refs));
    });
    bool same = Simulate(*module) == expected;
    bool accepted = Verify(*module);
    EXPECT_TRUE(same || !accepted) << "seed " << seed << ": accepted although '" << victim.str()
                                   << "' is damaged";
    rejected += !accepted;
    harmful += !same;
  }
  EXPECT_GT(harmful, 10) << "the test damages too little to say anything";
  EXPECT_GE(rejected, harmful);
}

}  // namespace
}  // namespace qcc::passes
