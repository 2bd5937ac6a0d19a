// Kernels as PTX: what the text says, and that ptxas takes it where it is installed.
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/linear.h"
#include "tests/device/sandbox.h"
#include "tests/unit/gpu_cuda/ptx_fixture.h"

namespace qcc::gpu {
namespace {

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
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDivU, Op::kRemU, Op::kAnd, Op::kOr, Op::kXor, Op::kShl,
                Op::kShrU, Op::kShrS, Op::kMinS, Op::kMaxS, Op::kMinU, Op::kMaxU}) {
    ints.push_back(b.Binary(op, i, at));
    ints.push_back(b.Truncate(b.Binary(op, l, b.ExtendU(at))));
  }
  for (Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDivF, Op::kMinF, Op::kMaxF})
    floats.push_back(b.Binary(op, f, b.ToF32(i)));
  for (Fn fn : {Fn::kAbs, Fn::kNeg, Fn::kSqrt}) floats.push_back(b.Call(fn, f));
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

TEST_F(Ptx, AnErrorNamesTheKernel) {
  Launch bad = Make("bad.kernel", 1, [](Builder& b) { b.Store(b.Arg(1), b.Thread(), b.F32(1)); });
  auto ptx = emitPtx(context_, FindProfile("sm80")->profile, {{"k0", &bad}}, "sm_80");
  ASSERT_FALSE(static_cast<bool>(ptx));
  EXPECT_NE(llvm::toString(ptx.takeError()).find("bad.kernel"), std::string::npos);
}

}  // namespace
}  // namespace qcc::gpu
