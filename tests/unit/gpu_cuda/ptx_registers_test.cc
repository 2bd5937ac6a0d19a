// What ptxas, where it is installed, makes of the kernels that hold many sums: all stays in registers, of
// which there are as many as the launches ask for.
#include <set>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/linear.h"
#include "codegen/gpu/kernels/matrix_lane.h"
#include "dialects/formats/descriptions.h"
#include "tests/device/sandbox.h"
#include "tests/device/tried_in_full.h"
#include "tests/unit/gpu_cuda/ptx_fixture.h"

namespace qcc::gpu {
namespace {

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
  // Three workgroups of heads of 128 have 168; of heads of 256 there is one whatever it takes above 128.
  constexpr int kMostOfFewRows = 100, kMostOfManyRows = 168, kMostOfWideHeads = 172;
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
        const int many = shape.head_dim == 256 ? kMostOfWideHeads : kMostOfManyRows;
        EXPECT_LE(Registers(*assembled), few ? kMostOfFewRows : many) << assembled->said;
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

}  // namespace
}  // namespace qcc::gpu
