// Reading the code section of a GPU target: lies in every field, damage in every byte, cuts, and the step
// block.
#include "runtime/artifact/gpu_code.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "compiler/artifact/gpu_code_section.h"
#include "runtime/abi/gpu_step.h"
#include "runtime/device/gpu/gpu_context.h"
#include "runtime/device/gpu/gpu_pieces.h"
#include "runtime/device/gpu/gpu_step_block.h"
#include "tests/unit/device_vulkan/toy_gpu_model.h"
#include "tests/unit/runtime/aligned_bytes.h"

namespace qrt::testing {
namespace {

const ToyParts& Toy() {
  static const ToyParts parts = MakeToy();
  return parts;
}

const Manifest& ToyManifest() {
  static const std::unique_ptr<Artifact> artifact = WriteToy(Toy());
  return artifact->manifest();
}

Status ReadBytes(std::span<const uint8_t> bytes, GpuTarget target = GpuTarget::kVulkan) {
  const AlignedBytes aligned(bytes);
  return GpuCode::Read(aligned.span(), ToyManifest(), Toy().weights.size() * 4, target, "section 1").status();
}

Status ReadCode(const qcc::gpu::GpuCode& code, GpuTarget target = GpuTarget::kVulkan) {
  return ReadBytes(qcc::compiler::BuildGpuCodeSection(code), target);
}

TEST(GpuCodeTest, ReadsWhatWasWritten) {
  const AlignedBytes bytes(qcc::compiler::BuildGpuCodeSection(Toy().code));
  const Result<GpuCode> code =
      GpuCode::Read(bytes.span(), ToyManifest(), Toy().weights.size() * 4, GpuTarget::kVulkan, "section 1");
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  EXPECT_EQ(code->max_rows, kMaxRows);
  ASSERT_EQ(code->kernels.size(), Toy().code.kernels.size());
  for (size_t i = 0; i < code->kernels.size(); ++i) {
    const GpuKernel& found = code->kernels[i];
    const qcc::gpu::KernelCode& expected = Toy().code.kernels[i];
    EXPECT_EQ(found.name, expected.name);
    EXPECT_EQ(found.n_args, expected.n_args);
    EXPECT_EQ(found.workgroup_size, expected.workgroup_size);
    EXPECT_TRUE(
        std::equal(found.spirv.begin(), found.spirv.end(), expected.spirv.begin(), expected.spirv.end()));
  }
  ASSERT_EQ(code->programs.size(), 4u);
  const GpuDispatch& d = code->programs[kDecode4].dispatches[3];
  EXPECT_TRUE(d.barrier);
  EXPECT_EQ(d.grid[0], 4u);
  EXPECT_EQ(d.layer, 2);
  EXPECT_EQ(d.cost.ops, 2048u);
  EXPECT_EQ(d.args[1].space, GpuSpace::kWeights);
  EXPECT_EQ(d.args[4].value, 3u);
  EXPECT_EQ(code->bytes(GpuSpace::kLogits), uint64_t{kMaxRows} * kStride * 4);
  EXPECT_EQ(code->bytes(GpuSpace::kResults), kMaxRows * 4u);
  EXPECT_EQ(code->bytes(GpuSpace::kStep), qrt_gpu_step_bytes(kMaxRows));
  EXPECT_TRUE(code->Samples(ToyManifest()));
  EXPECT_EQ(code->FindSampleProgram(GpuSampling::kDraw, 1)->rows, 1u);
  EXPECT_EQ(code->FindSampleProgram(GpuSampling::kDraw, 2)->rows, kMaxRows);
  EXPECT_EQ(code->FindSampleProgram(GpuSampling::kGreedy, kMaxRows + 1), nullptr);
  EXPECT_EQ(code->FindSampleProgram(GpuSampling::kDrawFew, 1)->rows, 1u);
  EXPECT_EQ(code->FindSampleProgram(GpuSampling::kDrawFew, 2), nullptr);
}

struct Lie {
  const char* name;
  void (*tell)(qcc::gpu::GpuCode&);
  uint32_t number = 4024;
};

class GpuCodeLies : public ::testing::TestWithParam<Lie> {};

TEST_P(GpuCodeLies, AreFound) {
  qcc::gpu::GpuCode code = Toy().code;
  GetParam().tell(code);
  const Status status = ReadCode(code);
  EXPECT_EQ(status.number(), GetParam().number) << status.ToString();
  EXPECT_FALSE(status.help().empty());
}

using Code = qcc::gpu::GpuCode;
using qcc::gpu::Space;

INSTANTIATE_TEST_SUITE_P(
    All, GpuCodeLies,
    ::testing::Values(
        Lie{"abi", [](Code& c) { ++c.abi; }, 4017}, Lie{"no_rows", [](Code& c) { c.max_rows = 0; }},
        Lie{"rows_below_bucket", [](Code& c) { c.max_rows = 7; }},
        Lie{"many_rows", [](Code& c) { c.max_rows = 1u << 31; }},
        Lie{"no_kernels", [](Code& c) { c.kernels.clear(); }},
        Lie{"no_entry", [](Code& c) { c.kernels[1].entry = ""; }},
        Lie{"entry_with_nul", [](Code& c) { c.kernels[1].entry = std::string("ma\0in", 5); }},
        Lie{"other_entry", [](Code& c) { c.kernels[1].entry = "mai"; }},
        Lie{"long_name", [](Code& c) { c.kernels[1].name.assign(1000, 'x'); }},
        Lie{"workgroup_of_another_module", [](Code& c) { c.kernels[1].workgroup_size *= 2; }},
        Lie{"workgroup_0", [](Code& c) { c.kernels[1].workgroup_size = 0; }},
        Lie{"workgroup_huge", [](Code& c) { c.kernels[1].workgroup_size = 4096; }},
        Lie{"many_args", [](Code& c) { c.kernels[1].n_args = 17; }},
        Lie{"other_n_args", [](Code& c) { c.kernels[1].n_args = 4; }},
        Lie{"shared_huge", [](Code& c) { c.kernels[1].shared_bytes = 1u << 30; }},
        Lie{"no_spirv", [](Code& c) { c.kernels[0].spirv.clear(); }},
        Lie{"spirv_header", [](Code& c) { c.kernels[0].spirv.resize(5); }},
        Lie{"spirv_magic", [](Code& c) { c.kernels[0].spirv[0] ^= 1; }},
        Lie{"spirv_cut", [](Code& c) { c.kernels[0].spirv.push_back(0x00050011); }},
        Lie{"spirv_zero", [](Code& c) { c.kernels[0].spirv.back() = 0; }},
        Lie{"fewer_programs", [](Code& c) { c.programs.pop_back(); }},
        Lie{"more_programs", [](Code& c) { c.programs.push_back(c.programs[0]); }},
        Lie{"small_arena", [](Code& c) { c.programs[0].arena_bytes = 512; }},
        Lie{"huge_arena", [](Code& c) { c.programs[0].arena_bytes = UINT64_MAX; }},
        Lie{"arena_that_no_dispatch_touches", [](Code& c) { c.programs[0].arena_bytes = 1u << 30; }},
        Lie{"rows_of_no_program", [](Code& c) { c.max_rows = kMaxRows + 1; }},
        Lie{"kernel_index", [](Code& c) { c.programs[0].dispatches[0].kernel = 6; }},
        Lie{"grid_0", [](Code& c) { c.programs[0].dispatches[0].grid[1] = 0; }},
        Lie{"grid_huge", [](Code& c) { c.programs[0].dispatches[0].grid[2] = 1u << 31; }},
        Lie{"number_with_bytes", [](Code& c) { c.programs[0].dispatches[1].args[4].bytes = 1; }},
        Lie{"range_without_bytes", [](Code& c) { c.programs[0].dispatches[1].args[1].bytes = 0; }},
        Lie{"weights_beyond", [](Code& c) { c.programs[0].dispatches[1].args[1].value = 13000; }},
        Lie{"weights_wrap", [](Code& c) { c.programs[0].dispatches[1].args[1].value = UINT64_MAX - 100; }},
        Lie{"arena_beyond", [](Code& c) { c.programs[0].dispatches[1].args[2].value = 800; }},
        Lie{"arena_grew", [](Code& c) {
              c.programs[1].arena_bytes = 4096;
              c.programs[0].dispatches[1].args[2].value = 1024;
            }},
        Lie{"step_beyond",
            [](Code& c) { c.programs[0].dispatches[0].args[0].bytes = qrt_gpu_step_bytes(kMaxRows) + 1; }},
        Lie{"logits_beyond", [](Code& c) { c.programs[0].dispatches.back().args[4].bytes += 4; }},
        Lie{"logits_in_prefill",
            [](Code& c) { c.programs[kPrefill8].dispatches[1].args[1] = {Space::kLogits, 0, 4}; }},
        Lie{"results_in_program",
            [](Code& c) { c.programs[0].dispatches[1].args[1] = {Space::kResults, 0, 4}; }},
        Lie{"scratch_in_program",
            [](Code& c) { c.programs[kPrefill8].dispatches[1].args[1] = {Space::kScratch, 0, 4}; }},
        Lie{"scratch_beyond",
            [](Code& c) {
              c.programs[0].dispatches[1].args[1] = {Space::kScratch, 4, c.scratch_bytes};
            }},
        Lie{"constants_beyond",
            [](Code& c) { c.sample_programs[1].dispatches[0].args[5] = {Space::kConstants, 22, 4}; }},
        Lie{"no_constants", [](Code& c) { c.constants.clear(); }},
        Lie{"results_beyond", [](Code& c) { c.sample_programs[0].dispatches[0].args[2].bytes = 8; }},
        Lie{"sample_arena",
            [](Code& c) { c.sample_programs[0].dispatches[0].args[2] = {Space::kArena, 0, 4}; }},
        Lie{"sample_rows_0", [](Code& c) { c.sample_programs[0].rows = 0; }},
        Lie{"sample_rows_many", [](Code& c) { c.sample_programs[0].rows = kMaxRows + 1; }},
        Lie{"sample_kind",
            [](Code& c) { c.sample_programs[0].kind = static_cast<qcc::gpu::Sampling>(4); }},
        Lie{"scratch_gone", [](Code& c) { c.scratch_bytes = 4; }},
        Lie{"scratch_that_no_dispatch_touches", [](Code& c) { c.scratch_bytes = 1u << 30; }},
        Lie{"scratch_huge", [](Code& c) { c.scratch_bytes = UINT64_MAX; }},
        Lie{"space", [](Code& c) { c.programs[0].dispatches[1].args[1].space = static_cast<Space>(8); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(GpuCodeTest, CudaNeedsAModuleAndNoSpirv) {
  qcc::gpu::GpuCode code = Toy().code;
  EXPECT_EQ(ReadCode(code, GpuTarget::kCuda).number(), 4024u);
  code.ptx = ".version 7.0";
  for (auto& k : code.kernels) k.spirv.clear();
  EXPECT_TRUE(ReadCode(code, GpuTarget::kCuda).ok());
}

// Whatever a damaged section says, reading ends with a value or an error, and touches nothing outside.
TEST(GpuCodeTest, DamageInAnyByte) {
  qcc::gpu::GpuCode small = Toy().code;
  // Header, and OpEntryPoint GLCompute %1 "main".
  for (auto& k : small.kernels)
    k.spirv = {0x07230203, 0x00010500, 0, 2, 0, 5u << 16 | 15, 5, 1, 0x6e69616d, 0};
  for (auto& p : small.programs) p.dispatches.resize(1);
  std::vector<uint8_t> bytes = qcc::compiler::BuildGpuCodeSection(small);
  uint32_t refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const uint8_t change : {0x01, 0xff}) {
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ change);
      const Status status = ReadBytes(bytes);
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ change);
      if (status.ok()) continue;
      ++refused;
      EXPECT_TRUE(status.number() == 4017 || status.number() == 4023 || status.number() == 4024)
          << at << ": " << status.ToString();
    }
  }
  EXPECT_GT(refused, bytes.size() / 8);
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 64) {
    EXPECT_EQ(ReadBytes(std::span(bytes).first(size)).number(), 4023u) << size;
  }
}

// Code whose only weights are these ranges.
GpuCode WithRanges(std::vector<std::pair<uint64_t, uint64_t>> ranges, uint64_t total) {
  GpuCode code;
  code.kernels.resize(1);
  code.programs.resize(1);
  for (const auto& [begin, bytes] : ranges) {
    GpuDispatch d = {};
    d.family = "linear";
    d.layer = 3;
    d.args = {{begin, bytes, GpuSpace::kWeights}};
    code.programs[0].dispatches.push_back(d);
  }
  code.space_bytes[static_cast<size_t>(GpuSpace::kWeights)] = total;
  return code;
}

void ExpectGoodPieces(const GpuCode& code, uint64_t limit, const std::vector<GpuPiece>& pieces) {
  const uint64_t total = code.bytes(GpuSpace::kWeights);
  ASSERT_FALSE(pieces.empty());
  EXPECT_EQ(pieces.front().begin, 0u);
  EXPECT_EQ(pieces.back().end, total);
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_GT(pieces[i].bytes(), 0u);
    EXPECT_LE(pieces[i].bytes(), limit);
    EXPECT_EQ(pieces[i].begin % 256, 0u);
    EXPECT_EQ(pieces[i].begin, i > 0 ? pieces[i - 1].end : 0);
  }
  for (const GpuDispatch& d : code.programs[0].dispatches) {
    const GpuArg& a = d.args[0];
    const GpuPiece& piece = pieces[FindPiece(pieces, a.value)];
    EXPECT_GE(a.value, piece.begin);
    EXPECT_LE(a.value + a.bytes, piece.end);
  }
}

TEST(GpuPiecesTest, CutsLieBetweenRanges) {
  uint32_t random = 7;
  const auto next = [&random](uint32_t below) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % below;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    uint64_t at = 0;
    for (uint32_t i = 0; i < 1 + next(20); ++i) {
      at += next(3) == 0 ? 64 * uint64_t{next(100)} : 0;
      const uint64_t bytes = 64 * uint64_t{1 + next(30)};
      ranges.emplace_back(at, bytes);
      if (next(4) == 0) ranges.emplace_back(at + 16, bytes / 2);  // inside another
      at += bytes;
    }
    const GpuCode code = WithRanges(ranges, at + next(500));
    const uint64_t limit = 3000 + next(3000);
    const Result<std::vector<GpuPiece>> pieces = CutSpace(code, GpuSpace::kWeights, limit);
    // Ranges that meet in the same 256 bytes cannot be parted, so a few layouts have no cut.
    if (!pieces.ok()) {
      EXPECT_EQ(pieces.status().number(), 5015u);
      continue;
    }
    ExpectGoodPieces(code, limit, *pieces);
  }
}

TEST(GpuPiecesTest, AlignedRangesAreAlwaysCut) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (uint64_t i = 0; i < 40; ++i) ranges.emplace_back(i * 1024, 1024);
  for (const uint64_t limit : {1024u, 1500u, 2048u, 10000u, 100000u}) {
    const GpuCode code = WithRanges(ranges, 40 * 1024);
    const Result<std::vector<GpuPiece>> pieces = CutSpace(code, GpuSpace::kWeights, limit);
    ASSERT_TRUE(pieces.ok()) << pieces.status().ToString();
    ExpectGoodPieces(code, limit, *pieces);
    const uint64_t each = limit / 1024;
    EXPECT_EQ(pieces->size(), limit > 40 * 1024 ? 1 : (40 + each - 1) / each);
  }
  const Result<std::vector<GpuPiece>> none =
      CutSpace(WithRanges(ranges, 40 * 1024), GpuSpace::kWeights, 1023);
  EXPECT_EQ(none.status().number(), 5015u);
  EXPECT_NE(none.status().message().find("linear of layer 3"), std::string::npos) << none.status().ToString();
  EXPECT_NE(none.status().message().find("1024"), std::string::npos);
  EXPECT_NE(none.status().message().find("1023"), std::string::npos);
  EXPECT_TRUE(CutSpace(WithRanges({}, 0), GpuSpace::kWeights, 100)->empty());
  EXPECT_FALSE(CutSpace(WithRanges({}, 1000), GpuSpace::kWeights, 100).ok());
  EXPECT_EQ(CutSpace(WithRanges({}, 1000), GpuSpace::kWeights, 300)->size(), 4u);
}

// A seed of another interface is refused at once, and the fuzzer would find nothing behind that.
TEST(GpuCodeTest, TheFuzzersSeedIsOfThisInterface) {
  std::ifstream file(std::string(QCC_SOURCE_DIR) + "/tests/fuzz/corpus/gpu_code/small", std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const AlignedBytes seed(bytes);
  ASSERT_FALSE(seed.span().empty());
  const auto read = GpuCode::Read(seed.span(), Manifest(), 1 << 20, GpuTarget::kVulkan, "the seed");
  EXPECT_NE(read.status().number(), 4017u)
      << read.status().ToString() << "; make_gpu_code_seed writes it anew";
}

// A byte offset in one head has 32 bits: 2^32 / (256 elements of 2 bytes), and half as many of 4.
TEST(GpuContextTest, OneHeadIsWithinReach) {
  Manifest manifest;
  EXPECT_EQ(MostGpuContext(manifest), UINT64_MAX);
  manifest.states = {{"s", StateKind::kDelta, 0, {16, 128, 128}, Element::kF32, 0, 1 << 20, 0},
                     {"kv", StateKind::kKV, 3, {2, 256}, Element::kF16, 0, 2048, 0}};
  EXPECT_EQ(MostGpuContext(manifest), uint64_t{1} << 23);
  manifest.states.push_back({"kv", StateKind::kKV, 7, {8, 128}, Element::kF32, 2048, 8192, 0});
  EXPECT_EQ(MostGpuContext(manifest), uint64_t{1} << 23);
  manifest.states.back().shape = {4, 256};
  EXPECT_EQ(MostGpuContext(manifest), uint64_t{1} << 22);
}

TEST(GpuStepBlockTest, ChainsFeedWhatWasGuessedBefore) {
  constexpr uint32_t kRows = 8;
  const qrt_seq seqs[] = {{nullptr, 0, nullptr, 64, 5, 0, 3}};
  ChainStep steps[3];
  int32_t chosen[3];
  for (ChainStep& link : steps) {
    link.step.seqs = seqs;
    link.step.n_seqs = 1;
    link.step.n_rows = link.step.n_out = 3;
    link.hands = &link != &steps[2] ? Hands::kGuess : Hands::kNothing;
  }
  steps[2].fed = 2;
  steps[2].step.chosen = chosen;
  EXPECT_TRUE(FitsChain(steps, kRows));
  EXPECT_FALSE(FitsChain(steps, 2)) << "three rows";
  EXPECT_EQ(FedTokenOffset(steps[2], 1), qrt_gpu_entries_end(2)) << "the last row";
  EXPECT_FALSE(FitsChain({}, kRows));
  EXPECT_FALSE(FitsChain(std::vector<ChainStep>(kMostChainSteps + 1, steps[0]), kRows));
  const auto fits = [&](auto change) {
    ChainStep other[] = {steps[0], steps[1], steps[2]};
    change(other);
    return FitsChain(other, kRows);
  };
  EXPECT_FALSE(fits([](ChainStep* s) { s[1].fed = 2; })) << "one guess is there";
  EXPECT_FALSE(fits([](ChainStep* s) { s[2].hands = Hands::kGuess; })) << "nobody takes it";
  EXPECT_FALSE(fits([](ChainStep* s) { s[1].step.n_out = 0; })) << "no row to guess from";
  EXPECT_FALSE(fits([&](ChainStep* s) { s[0].step.chosen = chosen; })) << "of what is fed on only tokens";
  EXPECT_FALSE(fits([&](ChainStep* s) { s[2].step.chosen = nullptr; })) << "nothing is chosen";
  const qrt_gpu_sample sample = {};
  EXPECT_FALSE(fits([&](ChainStep* s) { s[0].step.samples = &sample; })) << "a guess is not drawn";
  EXPECT_TRUE(fits([&](ChainStep* s) { s[0].step.samples = &sample, s[0].hands = Hands::kChoice; }));
  EXPECT_FALSE(fits([&](ChainStep* s) {
    s[0].step.samples = &sample, s[0].hands = Hands::kChoice, s[0].step.n_penalties = 1;
  })) << "blocks of a chain have no room for penalties";
  EXPECT_TRUE(fits([](ChainStep* s) { s[2].fed = 0; }));

  // Blocks do not meet: the single step's has penalties, the others' need none.
  EXPECT_EQ(ChainBlockOffset(2, 3, kRows), 0u);
  EXPECT_EQ(ChainBlockOffset(0, 3, kRows), qrt_gpu_step_bytes(kRows));
  EXPECT_EQ(ChainBlockOffset(1, 3, kRows) - ChainBlockOffset(0, 3, kRows), qrt_gpu_entries_end(kRows));
  EXPECT_EQ(ChainBlockOffset(kMostChainSteps - 2, kMostChainSteps, kRows) + qrt_gpu_entries_end(kRows),
            ChainBlocksBytes(kRows));
}

TEST(GpuStepBlockTest, RowsFollowTheirSequences) {
  const qrt_seq seqs[] = {
      {reinterpret_cast<uint8_t*>(0x1000), 0x100, reinterpret_cast<uint8_t*>(0x2000), 64, 5, 0, 2},
      {reinterpret_cast<uint8_t*>(0x3000), 0, reinterpret_cast<uint8_t*>(0x4000), 128, 0, 2, 1}};
  const int32_t tokens[] = {7, 8, 9}, positions[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, outs[] = {2, 1};
  qrt_gpu_sample samples[2] = {};
  samples[1].top_k = 5;
  const qrt_gpu_penalty penalties[] = {{3, 4}};
  StepRequest step;
  step.seqs = seqs;
  step.n_seqs = 2;
  step.n_rows = 3;
  step.tokens = tokens;
  step.positions = positions;
  step.out_rows = outs;
  step.n_out = 2;
  constexpr uint32_t kRows = 4;
  ASSERT_TRUE(FitsStepBlock(step, kRows));
  std::vector<uint64_t> block(qrt_gpu_step_bytes(kRows) / 8 + 1);
  auto* bytes = reinterpret_cast<uint8_t*>(block.data());
  // One range from the begin on, however many rows a step may have.
  const uint64_t end = WriteStepBlock(step, bytes);
  EXPECT_EQ(end, 64u + 3 * 176);
  const auto* entries = reinterpret_cast<const qrt_gpu_entry*>(bytes + qrt_gpu_entries_offset());
  EXPECT_EQ(entries[1].row.token, 8);
  EXPECT_EQ(entries[1].row.seq, 0u);
  EXPECT_EQ(entries[1].row.position, 6u);
  EXPECT_EQ(entries[1].row.rope[2], 7);
  EXPECT_EQ(entries[2].row.seq, 1u);
  EXPECT_EQ(entries[2].row.position, 0u);
  EXPECT_EQ(entries[0].seq.odd_offset, 0x100u);
  EXPECT_EQ(entries[1].seq.state, 0x3000u);
  EXPECT_EQ(entries[1].seq.odd_offset, 0u);
  EXPECT_EQ(entries[1].seq.kv, 0x4000u);
  EXPECT_EQ(entries[1].seq.kv_capacity, 128u);
  EXPECT_EQ(entries[0].seq.past, 5u);
  EXPECT_EQ(entries[1].seq.row_begin, 2u);
  EXPECT_EQ(entries[0].out_row, 2u);
  EXPECT_EQ(entries[1].out_row, 1u);
  step.samples = samples;
  step.penalties = penalties;
  step.n_penalties = 1;
  EXPECT_EQ(WriteStepBlock(step, bytes), end + sizeof(qrt_gpu_penalty));
  EXPECT_EQ(entries[1].sample.top_k, 5u);
  const uint32_t at = reinterpret_cast<const qrt_gpu_step*>(bytes)->penalties_at;
  EXPECT_EQ(at, end);
  EXPECT_EQ(reinterpret_cast<const qrt_gpu_penalty*>(bytes + at)->count, 4u);

  EXPECT_FALSE(FitsStepBlock(step, 2));
  step.n_penalties = QRT_GPU_MAX_PENALTIES + 1;
  EXPECT_FALSE(FitsStepBlock(step, kRows));
  step.n_penalties = 1;
  step.n_rows = 2;
  EXPECT_FALSE(FitsStepBlock(step, kRows)) << "a sequence's rows are not there";
}

TEST(GpuStepBlockTest, TokensAreDrawnByTheShortestWayThatServesAllRows) {
  StepRequest step;
  step.n_out = 2;
  EXPECT_EQ(SamplingOf(step), GpuSampling::kGreedy);
  qrt_gpu_sample samples[3] = {};
  step.samples = samples;
  const auto with = [&](uint32_t first, uint32_t second) {
    samples[0].top_k = first;
    samples[1].top_k = second;
    return SamplingOf(step);  // the third row is none of the step's
  };
  EXPECT_EQ(with(1, QRT_GPU_FEW_TOKENS), GpuSampling::kDrawFew);
  EXPECT_EQ(with(20, 40), GpuSampling::kDrawFew);
  EXPECT_EQ(with(0, 1), GpuSampling::kDraw) << "0 keeps all";
  EXPECT_EQ(with(1, 0), GpuSampling::kDraw);
  EXPECT_EQ(with(QRT_GPU_FEW_TOKENS + 1, 1), GpuSampling::kDraw);
  EXPECT_EQ(with(1, UINT32_MAX), GpuSampling::kDraw);
}

}  // namespace
}  // namespace qrt::testing
