// Kernels as PTX: what the text says, and that ptxas takes it where it is installed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "codegen/gpu/cuda/EmitPtx.h"
#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/linear.h"
#include "codegen/gpu/kernels/matrix_lane.h"
#include "codegen/gpu/kernels/profiles.h"
#include "dialects/formats/descriptions.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/device/sandbox.h"
#include "tests/device/tried_in_full.h"

namespace qcc::gpu {
namespace {

std::string Ptxas() {
  for (const char* path : {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

struct Assembled {
  bool ok = false;
  std::string said;
};

Assembled Assemble(const std::string& ptx, const std::string& chip) {
  const std::string stem = testing::TempDir() + "/qcc_ptx_" + std::to_string(getpid());
  std::ofstream(stem + ".ptx") << ptx;
  const std::string command =
      Ptxas() + " -v -arch=" + chip + " -o " + stem + ".cubin " + stem + ".ptx > " + stem + ".log 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream log(stem + ".log");
  std::string text((std::istreambuf_iterator<char>(log)), {});
  for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(stem + end);
  return {status == 0, text};
}

// Bytes of a thread that do not stay in registers.
int Spilled(const Assembled& assembled) {
  const size_t frame = assembled.said.find(" bytes stack frame, ");
  int spilled = -1;
  const bool found =
      frame != std::string::npos &&
      std::sscanf(assembled.said.c_str() + frame, " bytes stack frame, %d bytes spill stores", &spilled) == 1;
  EXPECT_TRUE(found) << assembled.said;
  return spilled;
}

// Of a thread.
int Registers(const Assembled& assembled) {
  const size_t used = assembled.said.find("Used ");
  int registers = -1;
  EXPECT_TRUE(used != std::string::npos &&
              std::sscanf(assembled.said.c_str() + used, "Used %d registers", &registers) == 1)
      << assembled.said;
  return registers;
}

// Null where there is no ptxas, or it fails. Sums that do not stay in registers cost more than matrix units
// gain.
std::optional<Assembled> WithoutSpills(const std::string& ptx, const std::string& chip) {
  if (Ptxas().empty()) return std::nullopt;
  Assembled assembled = Assemble(ptx, chip);
  EXPECT_TRUE(assembled.ok) << assembled.said << "\n" << ptx;
  if (!assembled.ok) return std::nullopt;
  EXPECT_EQ(Spilled(assembled), 0) << assembled.said;
  return assembled;
}

// Of a thread, where a multiprocessor has room for as many workgroups as the launch asks for.
int RegistersFor(const Launch& launch) {
  constexpr int kOfMultiprocessor = 65536;
  return kOfMultiprocessor / (launch.at_once * launch.workgroup_size);
}

class Ptx : public testing::Test {
 protected:
  Ptx() {
    mlir::DialectRegistry registry;
    registerPtxDialects(registry);
    context_.appendDialectRegistry(registry);
  }

  std::string Emit(const std::vector<Launch>& launches, const ProfileInfo& profile) {
    std::vector<PtxKernel> kernels;
    for (size_t i = 0; i < launches.size(); ++i) kernels.push_back({"k" + std::to_string(i), &launches[i]});
    auto ptx = emitPtx(context_, profile.profile, kernels, profile.chip);
    if (!ptx) {
      ADD_FAILURE() << llvm::toString(ptx.takeError());
      return "";
    }
    return *ptx;
  }

  // The newest ptxas has dropped old chips; what it assembles for must be at least the profile's.
  void Check(const std::string& ptx, const ProfileInfo& profile) {
    if (Ptxas().empty()) GTEST_SKIP() << "ptxas is not installed";
    const std::string chip = profile.chip < "sm_75" ? "sm_75" : profile.chip;
    const Assembled assembled = Assemble(ptx, chip);
    EXPECT_TRUE(assembled.ok) << assembled.said << "\n" << ptx;
  }

  mlir::MLIRContext context_;
};

Launch Make(std::string name, int args, std::function<void(Builder&)> emit) {
  Launch launch;
  launch.name = std::move(name);
  launch.emit = std::move(emit);
  launch.args.resize(static_cast<size_t>(args));
  return launch;
}

// Every method of the Builder once.
void Everything(Builder& b) {
  using Op = Builder::Op;
  using Cmp = Builder::Cmp;
  using Fn = Builder::Fn;
  Val in = b.Arg(0), out = b.Arg(1), at = b.Thread() * 16;
  Val i = b.Load(Type::kI32, in, at), f = b.Load(Type::kF32, in, at), l = b.Load(Type::kI64, in, at);
  std::vector<Val> ints, floats;
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDivU, Op::kRemU, Op::kDivS, Op::kRemS, Op::kAnd, Op::kOr,
                Op::kXor, Op::kShl, Op::kShrU, Op::kShrS, Op::kMinS, Op::kMaxS, Op::kMinU, Op::kMaxU}) {
    ints.push_back(b.Binary(op, i, at));
    ints.push_back(b.Truncate(b.Binary(op, l, b.ExtendU(at))));
  }
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDivF, Op::kMinF, Op::kMaxF})
    floats.push_back(b.Binary(op, f, b.ToF32(i)));
  for (Fn fn :
       {Fn::kAbs, Fn::kNeg, Fn::kSqrt, Fn::kInvSqrt, Fn::kFloor, Fn::kRoundEven, Fn::kExp2, Fn::kLog2})
    floats.push_back(b.Call(fn, f));
  floats.push_back(b.Fma(f, f, f));
  for (Cmp cmp : {Cmp::kEq, Cmp::kNe, Cmp::kLtS, Cmp::kLeS, Cmp::kLtU, Cmp::kLeU})
    ints.push_back(b.Select(b.Compare(cmp, i, at), i, at));
  for (Cmp cmp : {Cmp::kLtF, Cmp::kLeF, Cmp::kEqF})
    floats.push_back(b.Select(b.Compare(cmp, f, b.F32(1)), f, b.F32(2)));
  ints.push_back(b.MulHighU(i, at));
  ints.push_back(b.Truncate(b.MulHighU(l, b.ExtendS(i))));
  ints.push_back(b.ToI32(f));
  ints.push_back(b.AsI32(f));
  floats.push_back(b.AsF32(i));
  Val pair = b.UnpackHalf(i);
  floats.push_back(b.Extract(pair, 0) + b.Extract(pair, 1));
  ints.push_back(b.PackHalf(f, f));
  ints.push_back(b.Dot4(i, at, i));
  Val four = b.Load(Type::kF32x4, in, at);
  b.Store(out, at, b.Vector({f, f, b.Extract(four, 3), f}) + four);
  Shared words = b.AllocShared(Type::kI32, 64), numbers = b.AllocShared(Type::kF32, 64);
  Val lane = RemU(b.Thread(), 64);
  b.StoreShared(words, lane, i);
  b.StoreShared(numbers, lane, f);
  b.Barrier();
  b.Prefetch(in, at);
  ints.push_back(b.AtomicAddShared(words, lane, i));
  ints.push_back(b.AtomicMaxSharedU(words, lane, i));
  ints.push_back(b.LoadShared(words, lane));
  floats.push_back(b.LoadShared(numbers, lane));
  ints.push_back(b.AtomicAdd(out, at, i));
  ints.push_back(b.BlockX() + b.BlockY() + b.BlockZ());
  Val sum = b.For(b.I32(0), i, b.I32(1), {f, i}, [&](Val k, const std::vector<Val>& carried) {
    return std::vector<Val>{carried[0] + b.ToF32(k), carried[1] + k};
  })[0];
  floats.push_back(sum);
  floats.push_back(b.IfElse(
      LtS(i, at), [&] { return std::vector<Val>{f}; }, [&] { return std::vector<Val>{sum}; })[0]);
  if (b.profile().subgroup != 0) {
    ints.push_back(b.ShuffleXor(i, 1));
    floats.push_back(b.ShuffleXor(f, 16));
  }
  if (b.profile().matrix.kind == MatrixUnits::Kind::kMma) {
    for (Val v : b.MmaS8({i, i, i, i}, {i, at}, {i, i, i, at})) ints.push_back(v);
    for (Val v : b.MmaF16({i, i, i, i}, {i, at}, {f, f, f, sum})) floats.push_back(v);
    for (Val v : b.MmaBf16({i, i, i, i}, {i, at}, {f, f, f, sum})) floats.push_back(v);
  }
  Val total = ints[0];
  for (size_t k = 1; k < ints.size(); ++k) total = total ^ ints[k];
  Val fold = floats[0];
  for (size_t k = 1; k < floats.size(); ++k) fold = fold + floats[k];
  b.If(LtU(i, at), [&] { b.Store(out, at, total); });
  b.Store(out, at + 4, fold);
  b.Store(out, at + 8, l);
}

TEST_F(Ptx, EveryOperationOfTheLanguage) {
  for (const ProfileInfo& profile : Profiles()) {
    if (profile.target != "cuda") continue;
    SCOPED_TRACE(profile.profile.name);
    const std::string ptx = Emit({Make("everything", 2, Everything), Make("again", 2, Everything)}, profile);
    EXPECT_NE(ptx.find(".visible .entry k0("), std::string::npos) << ptx;
    EXPECT_NE(ptx.find(".visible .entry k1("), std::string::npos);
    EXPECT_NE(ptx.find("dp4a.s32.s32"), std::string::npos);
    EXPECT_EQ(ptx.find(".shared .align 4 "), std::string::npos) << "less than LLVM reckons with";
    EXPECT_NE(ptx.find(".maxntid 128"), std::string::npos);
    for (const char* product : {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
                                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"}) {
      EXPECT_EQ(ptx.find(product) != std::string::npos,
                profile.profile.matrix.kind == MatrixUnits::Kind::kMma)
          << product;
    }
    EXPECT_EQ(ptx.find(".extern .func"), std::string::npos) << "calls a function that nobody defines";
    Check(ptx, profile);
  }
}

// How often `word` stands in `text`, and ahead of the first `end` there.
size_t Count(const std::string& text, const std::string& word, const std::string& end = "") {
  size_t count = 0;
  const size_t stop = end.empty() ? text.size() : text.find(end);
  for (size_t at = text.find(word); at < stop; at = text.find(word, at + 1)) ++count;
  return count;
}

// What earlier launches write is touched behind the wait: LLVM may not move accesses ahead of it.
TEST_F(Ptx, KernelsThatOverlapWaitFirst) {
  constexpr const char* kWait = "griddepcontrol.wait;";
  const ProfileInfo& profile = *FindProfile("sm90");
  const Launch copy = Make("copy", 2, [](Builder& b) {
    const Val at = b.Thread() * 4;
    b.Store(b.Arg(1), at, b.Load(Type::kF32, b.Arg(0), at));
  });
  LinearSpec spec;
  spec.format = Format::Q4_K;
  spec.int8 = true;
  spec.k = 8192;
  Launch linear = LinearSplit(spec, profile.profile, 1, 64, 1),
         of_matrix = LinearMatrixFew(spec, profile.profile, 8, 64, 8);
  spec.making = Making::kNormed;
  Launch normed = LinearSplit(spec, profile.profile, 1, 64, 1);
  for (Launch* launch : {&linear, &of_matrix, &normed}) launch->args.resize(8);
  for (const Launch& launch : {copy, linear, of_matrix, normed}) {
    SCOPED_TRACE(launch.name);
    const std::string ptx = Emit({launch}, profile);
    EXPECT_EQ(Count(ptx, "griddepcontrol.launch_dependents;", kWait), 1u) << ptx;
    EXPECT_EQ(Count(ptx, kWait), 1u) << ptx;
    EXPECT_EQ(Count(ptx, "st.global", kWait), 0u) << ptx;
    // The number of rows; of threads a batch of weights: four chunks of six words each, their block's two.
    const size_t rows = launch.name != copy.name,
                 words = rows && launch.name != of_matrix.name ? 4 * 6 + 2 : 0;
    EXPECT_EQ(Count(ptx, "ld.global", kWait), rows + words) << ptx;
    const size_t norms = launch.name == normed.name;
    EXPECT_EQ(Count(ptx, "prefetch.global.L2", kWait), rows + norms) << ptx;
    Check(ptx, profile);
  }
  EXPECT_EQ(Emit({linear}, *FindProfile("sm80")).find("griddepcontrol"), std::string::npos);
}

TEST_F(Ptx, NothingIsContracted) {
  const std::string ptx = Emit({Make("sum", 1,
                                     [](Builder& b) {
                                       Val at = b.Thread() * 4;
                                       Val f = b.Load(Type::kF32, b.Arg(0), at);
                                       b.Store(b.Arg(0), at, f * f + f);
                                     })},
                               *FindProfile("sm80"));
  EXPECT_EQ(ptx.find("fma."), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find(".ftz"), std::string::npos) << ptx;
}

TEST_F(Ptx, SubgroupsMeet) {
  for (const char* name : {"sm80", "sm90"}) {
    const ProfileInfo& profile = *FindProfile(name);
    const std::string ptx = Emit({Make("meet", 1,
                                       [](Builder& b) {
                                         const Shared s = b.AllocShared(Type::kI32, 128);
                                         b.StoreShared(s, b.Thread(), b.Load(Type::kI32, b.Arg(0), b.I32(0)));
                                         b.SubgroupBarrier();
                                         b.Store(b.Arg(0), b.Thread() * 4, b.LoadShared(s, b.Thread() ^ 1));
                                       })},
                                 profile);
    const size_t store = ptx.find("st.shared"), meet = ptx.find("bar.warp.sync"),
                 load = ptx.find("ld.shared");
    EXPECT_TRUE(store < meet && meet < load && load != std::string::npos) << ptx;
    EXPECT_EQ(ptx.find("bar.sync"), std::string::npos) << ptx;
    if (Ptxas().empty()) continue;
    const Assembled assembled = Assemble(ptx, profile.chip);
    EXPECT_TRUE(assembled.ok) << assembled.said << "\n" << ptx;
  }
}

// Loads of one place share its address, and none is moved to where it is used.
TEST_F(Ptx, LoadsBeginTogether) {
  for (const char* name : {"sm61", "sm80", "sm90"}) {
    const ProfileInfo& profile = *FindProfile(name);
    const std::string ptx =
        Emit({Make("together", 1,
                   [](Builder& b) {
                     const Val at = b.Thread() * 4;
                     std::vector<Val> loaded;
                     for (int i = 0; i < 3; ++i) loaded.push_back(b.Load(Type::kI32, b.Arg(0), at, 512 * i));
                     b.BeginLoads();
                     b.Store(b.Arg(0), at, (loaded[0] ^ loaded[1]) + b.AsI32(b.HalfToF32(loaded[2])));
                   })},
             profile);
    const size_t begin = ptx.find("bar.warp.sync"), last = ptx.rfind("ld.global");
    ASSERT_NE(begin, std::string::npos) << ptx;
    ASSERT_NE(last, std::string::npos) << ptx;
    EXPECT_LT(last, begin) << ptx;
    for (const char* place : {"+512]", "+1024]"}) EXPECT_NE(ptx.find(place), std::string::npos) << ptx;
    EXPECT_NE(ptx.find("cvt.f32.f16"), std::string::npos) << ptx;
    Check(ptx, profile);
  }
}

// Decode: the words of several chunks ahead of the first product; of one chunk where parts are not equal, as
// the two in a subgroup then go different ways.
TEST_F(Ptx, WeightsOfSeveralChunksAreAskedForTogether) {
  const ProfileInfo& profile = *FindProfile("sm90");
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  Sandbox box(profile.profile, 8);
  const auto words_ahead = [&](Format format, int64_t k) {
    const plan::LinearSpec spec = {.format = format,
                                   .numerics = plan::Numerics::Int8,
                                   .k = k,
                                   .n = 2048,
                                   .epilogue = Epilogue::Add,
                                   .rows = plan::RowsFrom::Rows};
    const std::vector<Launch> launches =
        ExpandMaking(Anywhere(spec, 1, somewhere), {.making = Making::kRounded, .x = somewhere}, box);
    const std::string ptx = Emit({launches.at(0)}, profile);
    const size_t begin = ptx.find("bar.warp.sync");
    if (begin == std::string::npos) return 0;
    int words = 0;
    for (size_t at = 0; (at = ptx.find("ld.global.b32", at)) < begin; ++at) ++words;
    return words - 1;  // the number of rows
  };
  // A chunk: four words of codes, one with the scale and one with the minimum, and the block's two.
  EXPECT_GE(words_ahead(Format::Q4_K, 3584), 5 * 6 + 2);
  EXPECT_GE(words_ahead(Format::Q4_K, 2048), 4 * 6 + 2);
  EXPECT_GE(words_ahead(Format::Q8_0, 1024), 4 * 9);
  EXPECT_EQ(words_ahead(Format::Q8_0, 1056), 0);  // 33 chunks in 8 parts
}

TEST_F(Ptx, TheSameTextEveryTime) {
  const ProfileInfo& profile = *FindProfile("sm80");
  EXPECT_EQ(Emit({Make("everything", 2, Everything)}, profile),
            Emit({Make("everything", 2, Everything)}, profile));
}

TEST_F(Ptx, LinearOnMatrixUnits) {
  const ProfileInfo& profile = *FindProfile("sm80");
  std::vector<Launch> launches;
  for (const FormatDescription& format : kDescriptions) {
    if (!format.plain.block) continue;
    for (Epilogue epilogue : {Epilogue::Store, Epilogue::Add, Epilogue::Swiglu}) {
      if (epilogue != Epilogue::Swiglu && !TriedInFull(format.id)) continue;
      LinearSpec spec;
      spec.format = format.id;
      spec.int8 = true;
      spec.k = 2048;
      spec.epilogue = epilogue;
      launches.push_back(LinearMatrixTiled(spec, 32, 64, 128));
      launches.push_back(LinearMatrixSplit(spec, 32, 64, 128));
      for (int tile_rows : {4, 8})
        launches.push_back(LinearMatrixFew(spec, profile.profile, tile_rows, 64, tile_rows));
      if (epilogue != Epilogue::Swiglu) continue;
      launches.push_back(LinearMatrixShared(spec, 128, 64, 128));
      if (format.id != Format::Q4_K) continue;
      launches.push_back(LinearMatrixShared(spec, 64, 64, 128));
      spec.terms = 2;
      launches.push_back(LinearMatrixShared(spec, 128, 64, 128));
    }
  }
  for (Launch& launch : launches) {
    SCOPED_TRACE(launch.name);
    launch.args.resize(6);
    const std::string ptx = Emit({launch}, profile);
    EXPECT_NE(ptx.find("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), std::string::npos);
    EXPECT_EQ(ptx.find("dp4a"), std::string::npos);
    EXPECT_EQ(ptx.find(".minnctapersm") != std::string::npos, launch.at_once != 0);
    const std::optional<Assembled> assembled = WithoutSpills(ptx, profile.chip);
    if (!assembled) continue;
    const auto is = [&](const char* suffix) { return launch.name.find(suffix) != std::string::npos; };
    if (is(".mr")) {
      EXPECT_LE(Registers(*assembled), RegistersFor(launch)) << assembled->said;
    }
  }
}

// Of float weights; rows that a workgroup norms itself, too.
TEST_F(Ptx, FloatsOnMatrixUnits) {
  // Of a thread, where there is room for so many workgroups as they ask for: of few rows, of 16 and of more.
  // With weights of f16 it is one more, but where rows are normed.
  constexpr int kRoomFor[] = {0, 0, 255, 168, 128, 96};
  for (const char* name : {"sm80", "sm90"}) {
    const ProfileInfo& profile = *FindProfile(name);
    std::vector<Launch> launches;
    for (Format format : {Format::F16, Format::BF16, Format::F32}) {
      for (Epilogue epilogue : {Epilogue::Store, Epilogue::Swiglu}) {
        LinearSpec spec;
        spec.format = format;
        spec.k = 2048;
        spec.epilogue = epilogue;
        const auto add = [&](int64_t units, int64_t rows) {
          launches.push_back(ChooseLinear(spec, profile.profile, units, rows));
        };
        for (int64_t rows : {1, 2, 4, 8, 16, 128}) add(64, rows);
        for (int64_t rows : {16, 32, 128}) add(4096, rows);
        spec.making = Making::kNormed;
        for (int64_t rows : {1, 8}) add(64, rows);
      }
    }
    for (Launch& launch : launches) {
      SCOPED_TRACE(profile.profile.name + " " + launch.name);
      launch.args.resize(8);
      const std::string ptx = Emit({launch}, profile);
      const bool halves = launch.name.find(".f16.") != std::string::npos;
      const std::string product =
          "mma.sync.aligned.m16n8k16.row.col.f32." + std::string(halves ? "f16.f16" : "bf16.bf16") + ".f32";
      EXPECT_NE(ptx.find(product), std::string::npos) << product;
      const std::optional<Assembled> assembled = WithoutSpills(ptx, profile.chip);
      if (!assembled) continue;
      const auto is = [&](const char* suffix) { return launch.name.find(suffix) != std::string::npos; };
      const int at_once = is(".mr") ? 4 : is(".mp16") || is(".m16") ? 3 : 2;
      const bool room = halves && at_once > 2 && !is(".normed");
      EXPECT_LE(Registers(*assembled), kRoomFor[at_once + (room ? 1 : 0)]) << assembled->said;
    }
  }
}

// Heads as models have them, a block that is not full, and more heads than a block has queries. Workgroups of
// 2, 4 and 8 subgroups.
TEST_F(Ptx, AttentionOnMatrixUnits) {
  constexpr int kMostOfFewRows = 100, kMostOfManyRows = 168;
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  struct {
    int64_t q_heads, kv_heads, head_dim;
    bool gated;
  } const shapes[] = {{8, 2, 256, true},   {16, 2, 256, true}, {16, 8, 128, false},
                      {32, 4, 128, false}, {14, 2, 64, false}, {36, 1, 64, true}};
  for (const char* name : {"sm80", "sm90"}) {
    const ProfileInfo& profile = *FindProfile(name);
    Sandbox box(profile.profile, 64);
    for (const auto& shape : shapes) {
      const plan::AttentionSpec spec = {.q_heads = shape.q_heads,
                                        .kv_heads = shape.kv_heads,
                                        .head_dim = shape.head_dim,
                                        .scale = 0.125f,
                                        .gated = shape.gated,
                                        .kv = plan::KvElement::F16};
      const plan::QkNormRopeStoreSpec heads = {.q_heads = shape.q_heads,
                                               .kv_heads = shape.kv_heads,
                                               .head_dim = shape.head_dim,
                                               .rot_dims = 64,
                                               .gated = shape.gated,
                                               .eps = 1e-6f,
                                               .kv = plan::KvElement::F16};
      const MadeHeads made = {heads,     somewhere, somewhere, somewhere,
                              somewhere, somewhere, somewhere, somewhere};
      std::vector<Launch> launches = ExpandMakingHeads(Anywhere(spec, 1, somewhere), made, box);
      EXPECT_EQ(launches.empty(), shape.q_heads / shape.kv_heads > kFragmentRows)
          << "several workgroups a head";
      launches.resize(std::min<size_t>(launches.size(), 1));
      for (const int64_t rows : {1, 64}) {
        launches.push_back(Expand_attention(Anywhere(spec, rows, somewhere), box)[0]);
      }
      for (const Launch& launch : launches) {
        SCOPED_TRACE(profile.profile.name + " " + launch.name);
        const std::string ptx = Emit({launch}, profile);
        EXPECT_NE(ptx.find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), std::string::npos);
        const std::optional<Assembled> assembled = WithoutSpills(ptx, profile.chip);
        if (!assembled) continue;
        const bool few = launch.name.find("split") != std::string::npos;
        EXPECT_LE(Registers(*assembled), few ? kMostOfFewRows : kMostOfManyRows) << assembled->said;
      }
    }
  }
}

// Kernels of few rows that do what was a launch of its own. Workgroups find registers: as many of linears as
// ask for it, and three of the delta rule, with which 132 multiprocessors have room for 48 heads. The greedy
// choice has 1024 threads.
TEST_F(Ptx, LaunchesThatDoMore) {
  constexpr int kMostOfRule = 168, kMostOfChoice = 64;
  const ProfileInfo& profile = *FindProfile("sm80");
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  Sandbox box(profile.profile, 8);
  const plan::GatedDeltaSpec delta = {.key_heads = 16,
                                      .value_heads = 32,
                                      .key_dim = 128,
                                      .value_dim = 128,
                                      .taps = 4,
                                      .l2_eps = 1e-6f,
                                      .norm_eps = 1e-6f,
                                      .scale = 0.125f,
                                      .ld_ab = 64};
  std::vector<Launch> launches = Expand_gated_delta(Anywhere(delta, 1, somewhere), box);
  ASSERT_EQ(launches.size(), 2u);
  for (int64_t rows : {2, 8}) {
    const std::vector<Launch> ahead = ExpandUnnormed(Anywhere(delta, rows, somewhere), box);
    ASSERT_EQ(ahead.size(), 2u);
    launches.insert(launches.end(), ahead.begin(), ahead.end());
  }
  for (const auto& [making, epilogue, k] : {std::tuple{Making::kNormed, Epilogue::Store, 2048},
                                            {Making::kNormed, Epilogue::Swiglu, 2048},
                                            {Making::kRounded, Epilogue::Add, 6144},
                                            {Making::kGatedNormed, Epilogue::Add, 4096}}) {
    for (Format format : {Format::Q4_K, Format::Q6_K, Format::Q8_0}) {
      const plan::LinearSpec spec = {.format = format,
                                     .numerics = plan::Numerics::Int8,
                                     .k = k,
                                     .n = 2048,
                                     .epilogue = epilogue,
                                     .rows = plan::RowsFrom::Rows};
      for (int64_t rows : {1, 4, 8}) {
        if (rows * k > 8 * 4096) continue;  // more than workgroup memory holds
        std::vector<Launch> making_rows = ExpandMaking(
            Anywhere(spec, rows, somewhere),
            {.making = making, .x = somewhere, .weight = somewhere, .gate = somewhere, .norm_dim = 128}, box);
        ASSERT_EQ(making_rows.size(), 1u);
        launches.push_back(std::move(making_rows[0]));
      }
    }
  }
  for (Format format : {Format::Q4_K, Format::Q6_K, Format::Q8_0}) {
    const plan::LinearSpec head = {.format = format,
                                   .numerics = plan::Numerics::Int8,
                                   .k = 2048,
                                   .n = 4104,
                                   .epilogue = Epilogue::Store,
                                   .rows = plan::RowsFrom::OutRows};
    const Vocabulary vocabulary = {head.n, {}};  // the last unit has columns that stand for nothing
    for (int64_t rows : {1, 8}) {
      const UnitKeys keys = UnitKeysOf(rows, vocabulary, box);
      launches.push_back(ExpandLeavingKeys(Anywhere(head, rows, somewhere), keys, box).at(0));
    }
  }
  uint64_t scratch = 0;
  launches.push_back(ExpandGreedyOfUnits(1, {248320, {}}, box, &scratch).at(0));
  launches.push_back(ExpandGuessOfUnits(1, {32768, 32768, {}}, box, &scratch).at(0));
  for (const std::vector<uint32_t>& choosable : {std::vector<uint32_t>{}, std::vector<uint32_t>(7760, ~0u)})
    launches.push_back(ExpandGreedy(16, {248320, choosable}, box, &scratch).at(0));
  for (const Launch& launch : launches) {
    SCOPED_TRACE(launch.name);
    const std::string ptx = Emit({launch}, profile);
    const std::optional<Assembled> assembled = WithoutSpills(ptx, profile.chip);
    if (!assembled) continue;
    const int most = launch.name.starts_with("sample")    ? kMostOfChoice
                     : !launch.name.starts_with("linear") ? kMostOfRule
                                                          : RegistersFor(launch);
    EXPECT_LE(Registers(*assembled), most) << assembled->said;
  }
}

// Of experts, in all forms: rows of a tile are looked up, which takes registers, too.
TEST_F(Ptx, Experts) {
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  for (const char* name : {"sm61", "sm80"}) {
    const ProfileInfo& profile = *FindProfile(name);
    Sandbox box(profile.profile, 2048);
    std::vector<Launch> launches;
    std::set<std::string> names;
    const auto add = [&](std::vector<Launch> more) {
      EXPECT_FALSE(more.empty());
      for (Launch& launch : more) {
        if (names.insert(launch.name).second) launches.push_back(std::move(launch));
      }
    };
    const plan::MoeRouteSpec route = {.experts = 512, .top_k = 10, .shared = true, .cols = 2048};
    const plan::MoeGroupSpec group = {.experts = 1024, .top_k = 16};
    add(Expand_moe_route(Anywhere(route, 1, somewhere), box));
    add(Expand_moe_group(Anywhere(group, 512, somewhere), box));
    for (Format format : {Format::Q4_K, Format::Q6_K, Format::Q8_0}) {
      for (Epilogue epilogue : {Epilogue::Add, Epilogue::Swiglu}) {
        const plan::MoeLinearSpec spec = {.format = format,
                                          .numerics = plan::Numerics::Int8,
                                          .k = 768,
                                          .n = 2048,
                                          .experts = 128,
                                          .top_k = 8,
                                          .epilogue = epilogue,
                                          .scale_count = 1,
                                          .up_scale_count = 1};
        for (int64_t rows : {1, 64, 160, 512, 2048})
          add(Expand_moe_linear(Anywhere(spec, rows, somewhere), box));
      }
    }
    for (const Launch& launch : launches) {
      SCOPED_TRACE(profile.profile.name + " " + launch.name);
      const std::string ptx = Emit({launch}, profile);
      WithoutSpills(ptx, profile.chip < "sm_75" ? "sm_75" : profile.chip);
    }
  }
}

TEST_F(Ptx, AnErrorNamesTheKernel) {
  Launch bad = Make("bad.kernel", 1, [](Builder& b) { b.Store(b.Arg(1), b.Thread(), b.F32(1)); });
  auto ptx = emitPtx(context_, FindProfile("sm80")->profile, {{"k0", &bad}}, "sm_80");
  ASSERT_FALSE(static_cast<bool>(ptx));
  EXPECT_NE(llvm::toString(ptx.takeError()).find("bad.kernel"), std::string::npos);
}

}  // namespace
}  // namespace qcc::gpu
