// The choice of tokens on every device that has it: the host's sampler, bit for bit.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "runtime/engine/sampler.h"
#include "tests/device/conformance.h"
#include "tests/device/reference.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;

constexpr int64_t kVocab = 5003, kKinds = 32, kRows = 8;

// Column c of the matrix is the logits that row c of a unit matrix gives: sums of zeros and one number are
// exact.
std::vector<float> Table() {
  Random random(17);
  std::vector<float> w = random.normals(static_cast<size_t>(kVocab * kKinds), 3.f);
  for (int64_t i = 0; i < kVocab; ++i) {
    float* row = &w[i * kKinds];
    row[1] = 0.f;                                              // all equal: no model gives this
    row[2] = std::round(row[2]);                               // many equal
    row[3] *= 1e30f;                                           // far apart
    row[4] *= 1e-30f;                                          // as good as equal
    row[5] = i == 4711 ? 100.f : row[5];                       // one of them
    row[6] = i % 2 == 0 ? -std::abs(row[6]) : -1e38f;          // nothing above 0
    row[7] = static_cast<float>(i) * 1e-3f;                    // rising
    row[8] = static_cast<float>(kVocab - i) * 1e-3f;           // falling
    row[9] = i == 0 || i == kVocab - 1 ? 50.f : row[9] * .1f;  // the ends
    row[10] *= 10.f;
  }
  return w;
}

const Suite& SamplingSuite() {
  static const auto* suite = [] {
    Case c;
    c.name = "logits";
    c.family = "linear";
    c.spec = "{format = \"f32\", numerics = \"f32\", k = " + std::to_string(kKinds) +
             " : i64, n = " + std::to_string(kVocab) + " : i64, epilogue = \"store\", rows = \"out_rows\"}";
    c.rows = kRows;
    c.logits = "y";
    c.without = {"scale", "up_scale"};
    c.weights["w"] = Pack(Format::F32, AsBytes(Table()), kVocab, kKinds);
    return new Suite("sampling", {c}, kVocab);
  }();
  return *suite;
}

// Logits of one kind.
std::vector<float> Logits(int64_t kind) {
  static const auto* table = new std::vector<float>(Table());
  std::vector<float> logits;
  for (int64_t i = 0; i < kVocab; ++i) logits.push_back((*table)[i * kKinds + kind]);
  return logits;
}

struct Draw {
  std::vector<qrt_gpu_sample> samples;
  std::vector<qrt_gpu_penalty> penalties;
};

// Puts rows of x through the program and draws; without samples the greedy programs choose.
std::vector<int32_t> Choose(Lab& lab, const std::vector<float>& x, const Draw* draw,
                            std::vector<float>* logits) {
  const auto rows = static_cast<int64_t>(x.size()) / kKinds;
  const Place& place = lab.suite->program("logits").places.at("x");
  const qrt::CopyRange range = {&lab.device->arena(), static_cast<uint64_t>(place.offset),
                                const_cast<float*>(x.data()), x.size() * 4};
  EXPECT_EQ(lab.device->Write({&range, 1}), qrt::DeviceResult::kOk);
  qrt_seq seq = {};
  seq.row_count = rows;
  std::vector<int32_t> tokens(rows), positions(rows * 4), outs, chosen(rows, -99);
  for (int64_t i = 0; i < rows; ++i) outs.push_back(static_cast<int32_t>(i));
  qrt::StepRequest request;
  request.program = lab.suite->Index("logits");
  request.seqs = &seq;
  request.n_seqs = 1;
  request.n_rows = rows;
  request.tokens = tokens.data();
  request.positions = positions.data();
  request.out_rows = outs.data();
  request.n_out = rows;
  if (logits != nullptr) {
    logits->assign(static_cast<size_t>(rows * lab.suite->logits_stride), 0);
    request.logits = logits->data();
  }
  if (draw != nullptr) {
    request.samples = draw->samples.data();
    request.penalties = draw->penalties.data();
    request.n_penalties = static_cast<uint32_t>(draw->penalties.size());
  }
  request.chosen = chosen.data();
  EXPECT_EQ(lab.device->Run(request), qrt::DeviceResult::kOk) << lab.device->last_error();
  return chosen;
}

std::vector<float> UnitRows(const std::vector<int64_t>& kinds) {
  std::vector<float> x(kinds.size() * kKinds);
  for (size_t i = 0; i < kinds.size(); ++i) x[i * kKinds + static_cast<size_t>(kinds[i])] = 1;
  return x;
}

std::vector<std::vector<int64_t>> Batches() {
  std::vector<std::vector<int64_t>> batches;
  for (int64_t kind = 0; kind < kKinds;) {
    std::vector<int64_t> batch;
    const int64_t size =
        std::min<int64_t>(1 + static_cast<int64_t>(batches.size()) % kRows * 3 % kRows, kKinds - kind);
    for (int64_t i = 0; i < size; ++i) batch.push_back(kind++);
    batches.push_back(batch);
  }
  return batches;
}

class SamplingConformance : public ConformanceTest {};
// On the CPU it is the host that chooses tokens. A GPU that leaves it to the host has lost its kernels for
// it.
QCC_INSTANTIATE_CONFORMANCE_ON(SamplingConformance, GpuTargets());

// The logits of `kind` as the device made them. Matrix units make an f32 product of three bf16 terms
// (codegen/gpu/kernels/linear_matrix_floats.cc). What one term holds, as zeros and the numbers that are to be
// equal, comes as it is; of others a chip may lose the last bits of 24, or a term below the least normal
// number.
testing::AssertionResult AreLogits(std::span<const float> got, int64_t kind, bool of_terms) {
  constexpr float kRelative = 0x1p-22f, kLeastNormal = std::numeric_limits<float>::min();
  constexpr uint32_t kBehindBf16 = 0xffff;
  const std::vector<float> want = Logits(kind);
  for (size_t i = 0; i < want.size(); ++i) {
    const bool exact = !of_terms || (std::bit_cast<uint32_t>(want[i]) & kBehindBf16) == 0;
    const float off = exact ? 0.f : kRelative * std::abs(want[i]) + kLeastNormal;
    if (!(std::abs(got[i] - want[i]) <= off)) {
      return testing::AssertionFailure()
             << "logit " << i << " of kind " << kind << ": " << got[i] << ", expected " << want[i];
    }
  }
  return testing::AssertionSuccess();
}

// The first of the highest of the logits that the device made.
TEST_P(SamplingConformance, Greedy) {
  QCC_OPEN_OR_SKIP(lab, SamplingSuite());
  ASSERT_TRUE(lab.device->samples()) << lab.device->name();
  for (const std::vector<int64_t>& kinds : Batches()) {
    std::vector<float> logits;
    const std::vector<int32_t> chosen = Choose(lab, UnitRows(kinds), nullptr, &logits);
    for (size_t i = 0; i < kinds.size(); ++i) {
      const std::span<const float> row(&logits[i * static_cast<size_t>(lab.suite->logits_stride)], kVocab);
      ASSERT_TRUE(AreLogits(row, kinds[i], MultipliesFloatsOnMatrixUnits(GetParam())));
      const int64_t highest = std::max_element(row.begin(), row.end()) - row.begin();
      EXPECT_EQ(chosen[i], kinds[i] == 1 ? QRT_GPU_SAMPLE_ALL_EQUAL : highest)
          << "logits of kind " << kinds[i];
    }
  }
}

TEST_P(SamplingConformance, NothingToChoose) {
  QCC_OPEN_OR_SKIP(lab, SamplingSuite());
  ASSERT_TRUE(lab.device->samples()) << lab.device->name();
  std::vector<float> x = UnitRows({0, 7, 0});
  x[0] = std::numeric_limits<float>::quiet_NaN();
  x[2 * kKinds] = std::numeric_limits<float>::infinity();
  const std::vector<int32_t> greedy = Choose(lab, x, nullptr, nullptr);
  EXPECT_EQ(greedy[0], QRT_GPU_SAMPLE_BAD_LOGIT);
  EXPECT_EQ(greedy[1], kVocab - 1);
  EXPECT_EQ(greedy[2], QRT_GPU_SAMPLE_BAD_LOGIT);
  for (const int32_t top_k : {0, 40}) {
    qrt::SamplerOptions options;
    options.top_k = top_k;
    auto sampler = qrt::Sampler::Create(kVocab, options);
    ASSERT_TRUE(sampler.ok());
    Draw draw;
    draw.samples.resize(3);
    for (qrt_gpu_sample& s : draw.samples) (*sampler).Describe(0, &s, nullptr);
    const std::vector<int32_t> drawn = Choose(lab, x, &draw, nullptr);
    EXPECT_LT(drawn[0], 0);
    EXPECT_GE(drawn[1], 0);
    EXPECT_LT(drawn[2], 0);
  }
}

std::vector<qrt::SamplerOptions> Options() {
  std::vector<qrt::SamplerOptions> all(12);
  all[1].temperature = .7f;
  all[1].top_k = 40;
  all[2].top_k = 1;
  all[3].top_p = .9f;
  all[4].min_p = .05f;
  all[5] = {.8f, 50, .95f, .02f, 1.1f, .5f, .25f, 64, 5};
  all[6].temperature = 0;
  all[6].repeat_penalty = 1.3f;
  all[7].temperature = 5;
  all[8].top_p = 1e-6f;
  all[9].temperature = 1e-9f;
  all[10].top_k = 4999;
  all[10].top_p = .999f;
  all[11].frequency_penalty = -1.5f;
  all[11].penalty_window = -1;
  for (size_t i = 0; i < all.size(); ++i) all[i].seed = 100 + i;
  return all;
}

// All of them of few tokens, so that every step takes the shorter way.
std::vector<qrt::SamplerOptions> OptionsOfFew() {
  std::vector<qrt::SamplerOptions> all(9);
  all[0].top_k = QRT_GPU_FEW_TOKENS;
  all[1] = {.7f, 20, .8f, 0, 1, 1.5f, 0, 64, 0};
  all[2].top_k = 1;
  all[3] = {.8f, 50, .95f, .02f, 1.1f, .5f, .25f, 64, 0};
  all[4].temperature = 0;
  all[4].repeat_penalty = 1.3f;
  all[5] = {5, 2, 1, 0, 1, 0, 0, 64, 0};
  all[6] = {1, 40, 1e-6f, 0, 1, 0, 0, 64, 0};
  all[7] = {1e-9f, 9, 1, .05f, 1, 0, 0, 64, 0};
  all[8] = {1, 63, .999f, 0, 1, 0, -1.5f, -1, 0};
  for (size_t i = 0; i < all.size(); ++i) all[i].seed = 200 + i;
  return all;
}

// Batches whose rows have options of their own; two rounds, so that penalties have something to bite on.
void ExpectHostsDraws(Lab& lab, const std::vector<qrt::SamplerOptions>& options) {
  std::vector<qrt::Sampler> host, device;
  for (const qrt::SamplerOptions& o : options) {
    for (auto* samplers : {&host, &device}) {
      auto made = qrt::Sampler::Create(kVocab, o);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      samplers->push_back(std::move(*made));
      for (int32_t t : {7, 4711, 7, 4999, 0}) samplers->back().Accept(t);
    }
  }
  size_t next = 0;
  for (int round = 0; round < 2; ++round) {
    for (const std::vector<int64_t>& kinds : Batches()) {
      Draw draw;
      std::vector<size_t> who;
      const size_t first = next;
      for (size_t i = 0; i < kinds.size(); ++i) {
        who.push_back(next++ % options.size());
        qrt_gpu_sample sample = {};
        const auto begin = static_cast<uint32_t>(draw.penalties.size());
        draw.penalties.resize(begin + device[who[i]].penalties());
        device[who[i]].Describe(next, &sample, draw.penalties.data() + begin);
        sample.penalty_begin = begin;
        draw.samples.push_back(sample);
      }
      const std::vector<int32_t> chosen = Choose(lab, UnitRows(kinds), &draw, nullptr);
      for (size_t i = 0; i < kinds.size(); ++i) {
        const int32_t want = host[who[i]].SampleStep(first + i + 1, Logits(kinds[i]));
        ASSERT_EQ(chosen[i], want) << "round " << round << ", logits of kind " << kinds[i] << ", options "
                                   << who[i];
        host[who[i]].Accept(want);
        device[who[i]].Accept(want);
      }
    }
  }
}

TEST_P(SamplingConformance, DrawsWhatTheHostDraws) {
  QCC_OPEN_OR_SKIP(lab, SamplingSuite());
  ASSERT_TRUE(lab.device->samples()) << lab.device->name();
  ExpectHostsDraws(lab, Options());
}

TEST_P(SamplingConformance, DrawsWhatTheHostDrawsFromFew) {
  QCC_OPEN_OR_SKIP(lab, SamplingSuite());
  ASSERT_TRUE(lab.device->samples()) << lab.device->name();
  ExpectHostsDraws(lab, OptionsOfFew());
}

}  // namespace
}  // namespace qcc::conformance
