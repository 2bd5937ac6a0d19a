// Functions of a model beyond tokens to logits, as programs of an artifact: the NextN block of a golden model
// is compiled when asked for, changes nothing about the other programs, and computes what the golden says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "compiler/pipeline/pipeline.h"
#include "frontends/base/error.h"
#include "frontends/gguf/gguf.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/engine/draft_schedule.h"
#include "runtime/engine/schedule.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qcc::compiler {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(QCC_SOURCE_DIR) / "tests" / "golden" / "t35-mtp-F32.gguf";

absl::Status CompileTo(const std::string& path, const std::vector<std::string>& functions,
                       LastFfnMode last_ffn = LastFfnMode::kChosen, int64_t draft_vocab = 0,
                       const std::vector<int64_t>& prefill = {128}) {
  PipelineOptions options;
  options.input = kModel.string();
  options.output = path;
  options.cpu = {"base"};
  options.numerics = NumericsMode::kF32;
  options.kv = KvMode::kF32;
  options.decode_buckets = {1, 4};
  options.prefill_buckets = prefill;
  options.functions = functions;
  options.last_ffn = last_ffn;
  options.draft_vocab = draft_vocab;
  QuietSink quiet;
  return CompileModel(options, quiet);
}

class Functions : public InFolder {
 protected:
  std::unique_ptr<qrt::Artifact> Compile(const std::vector<std::string>& functions,
                                         LastFfnMode last_ffn = LastFfnMode::kChosen, int64_t draft_vocab = 0,
                                         const std::vector<int64_t>& prefill = {128}) {
    const std::string path = Path("f" + std::to_string(functions.size()) + std::to_string(draft_vocab));
    const absl::Status compiled = CompileTo(path, functions, last_ffn, draft_vocab, prefill);
    EXPECT_TRUE(compiled.ok()) << compiled;
    auto opened = qrt::Artifact::Open(path);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? *std::move(opened) : nullptr;
  }
};

TEST_F(Functions, OneThatTheModelHasNot) {
  const absl::Status status = CompileTo(Path("x.qbin"), {"trunk", "vision"});
  EXPECT_NE(std::string(status.message()).find("no function 'vision'"), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find("'trunk', 'mtp'"), std::string::npos) << status;
  EXPECT_EQ(PartsOf(status).code, "Q0102") << "it is the user's error: " << status;
}

TEST_F(Functions, MoreProgramsAndTheSameOnes) {
  // Asked to compute the last feed-forward part of all rows, which the NextN block needs anyway.
  const auto plain = Compile({"trunk"}, LastFfnMode::kAll), both = Compile({"trunk", "mtp"});
  ASSERT_TRUE(plain && both);
  const qrt::Manifest &a = plain->manifest(), &b = both->manifest();
  ASSERT_EQ(b.programs.size(), a.programs.size() + 4);
  for (size_t i = 0; i < a.programs.size(); ++i) {
    SCOPED_TRACE(a.programs[i].name);
    EXPECT_EQ(b.programs[i].name, a.programs[i].name);
    EXPECT_EQ(b.programs[i].facts, a.programs[i].facts);
    EXPECT_EQ(b.programs[i].rows, a.programs[i].rows);
    EXPECT_EQ(b.programs[i].arena_bytes, a.programs[i].arena_bytes);
    EXPECT_EQ(b.programs[i].dispatches, a.programs[i].dispatches);
    EXPECT_EQ(b.programs[i].barriers, a.programs[i].barriers);
    EXPECT_EQ(b.programs[i].weight_bytes, a.programs[i].weight_bytes);
  }
  ASSERT_EQ(b.states.size(), a.states.size() + 1);
  EXPECT_EQ(b.states.back().kind, qrt::StateKind::kKV);
  EXPECT_EQ(b.streams, (std::vector<std::string>{"trunk", "mtp"}));
  std::vector<std::string> names;
  const uint32_t given = qrt::kTokens | qrt::kGiven, stream = qrt::kTokens | qrt::kStream;
  for (size_t i = a.programs.size(); i < b.programs.size(); ++i) {
    const qrt::ProgramFacts& facts = b.programs[i].facts;
    SCOPED_TRACE(b.programs[i].name);
    names.push_back(b.programs[i].name);
    // On the trunk's rows, with logits or for the KV alone; and on its own row.
    const bool next = b.programs[i].name == "mtp_next_1", quiet = b.programs[i].name == "mtp_prefill_128";
    EXPECT_EQ(facts.takes, next ? stream : given);
    EXPECT_EQ(facts.given_cols, next ? 0 : b.model.embedding_length);
    EXPECT_EQ(facts.stream, next ? 1 : -1);
    EXPECT_EQ(facts.leaves, 1);
    EXPECT_EQ(facts.gives, quiet ? qrt::Output::kNothing : qrt::Output::kLogits);
    EXPECT_EQ(facts.advances, (std::vector<uint32_t>{static_cast<uint32_t>(a.states.size())}));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"mtp_1", "mtp_4", "mtp_prefill_128", "mtp_next_1"}));
  EXPECT_LT(
      b.programs[b.programs.size() - 2].weight_bytes + 4 * b.model.vocab_size * b.model.embedding_length,
      b.programs[a.programs.size()].weight_bytes + 128 * 4 * b.model.embedding_length)
      << "what only fills the KV reads the head, too";
  EXPECT_EQ(qrt::DraftSchedule(*qrt::PlanOf(a, {})).empty(), true);
  const qrt::DraftSchedule draft(*qrt::PlanOf(b, {}));
  EXPECT_EQ(b.programs[draft.WithLogits(3).program].name, "mtp_4");
  EXPECT_EQ(b.programs[draft.WithoutLogits(3).program].name, "mtp_prefill_128");
  ASSERT_TRUE(draft.next());
  EXPECT_EQ(b.programs[*draft.next()].name, "mtp_next_1");

  // What runs steps sees the same table.
  const auto schedule = [](const qrt::Manifest& m) {
    std::vector<qrt::Program> programs;
    for (const qrt::ProgramInfo& p : m.programs) programs.push_back({p.facts, p.rows, p.arena_bytes});
    return qrt::Schedule(programs);
  };
  const qrt::Schedule before = schedule(a), after = schedule(b);
  EXPECT_EQ(after.max_rows(), before.max_rows());
  EXPECT_EQ(after.max_out_rows(), before.max_out_rows());
  for (uint64_t rows = 1; rows <= 70; ++rows) {
    EXPECT_EQ(after.ForTokens(rows).program, before.ForTokens(rows).program);
    EXPECT_EQ(after.ForStream(rows).program, before.ForStream(rows).program);
  }
}

// LC-23: what a draft's prefill reads of weights is all that its other programs read but the head, in every
// bucket; of the embedding each reads a row a token.
TEST_F(Functions, ThePrefillOfADraftHasNoHead) {
  const auto artifact = Compile({"trunk", "mtp"}, LastFfnMode::kChosen, 0, {16, 64, 512});
  ASSERT_TRUE(artifact);
  const qrt::Manifest& m = artifact->manifest();
  std::map<std::string, const qrt::ProgramInfo*> programs;
  for (const qrt::ProgramInfo& program : m.programs) programs[program.name] = &program;
  ASSERT_TRUE(programs.contains("mtp_1"));
  const uint64_t row = uint64_t{4} * m.model.embedding_length, head = m.model.vocab_size * row;
  const uint64_t block = programs["mtp_1"]->weight_bytes - head - row;
  for (const auto& [name, rows] :
       {std::pair{"mtp_4", 4}, {"mtp_prefill_16", 16}, {"mtp_prefill_64", 64}, {"mtp_prefill_512", 512}}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(programs.contains(name));
    const bool whole = programs[name]->facts.gives == qrt::Output::kLogits;
    EXPECT_EQ(whole, rows == 4);
    const uint64_t embedded = std::min<uint64_t>(rows, m.model.vocab_size) * row;
    EXPECT_EQ(programs[name]->weight_bytes, block + embedded + (whole ? head : 0));
    EXPECT_EQ(programs[name]->dispatches + (whole ? 0 : 1), programs["mtp_1"]->dispatches)
        << "the head is one dispatch";
  }
}

// The trunk's head and the draft's are one matrix, of which the draft reads the first rows.
TEST_F(Functions, ADraftOfSomeTokensTakesNoWeightsOfItsOwn) {
  const auto all = Compile({"trunk", "mtp"}), some = Compile({"trunk", "mtp"}, LastFfnMode::kChosen, 100);
  ASSERT_TRUE(all && some);
  const qrt::Manifest &a = all->manifest(), &b = some->manifest();
  EXPECT_EQ(b.weights_bytes, a.weights_bytes);
  ASSERT_EQ(b.programs.size(), a.programs.size());
  const uint64_t row = uint64_t{4} * b.model.embedding_length;
  for (size_t i = 0; i < b.programs.size(); ++i) {
    SCOPED_TRACE(b.programs[i].name);
    const bool drafts = b.programs[i].facts.gives == qrt::Output::kLogits;
    EXPECT_EQ(a.programs[i].logits_cols, 0u);
    EXPECT_EQ(b.programs[i].logits_cols, drafts ? 112u : 0u);
    EXPECT_EQ(b.programs[i].weight_bytes, a.programs[i].weight_bytes - (drafts ? (288 - 112) * row : 0));
  }
  const qrt::DraftSchedule draft(*qrt::PlanOf(b, {}));
  EXPECT_EQ(draft.logits_cols(), 112u);
  EXPECT_TRUE(draft.next());
}

// What an engine does for logits of rows 3 and 9 of 16, with the last feed-forward part behind the choice and
// ahead of it.
TEST_F(Functions, LogitsOfTwoRowsOfSixteen) {
  std::vector<std::vector<float>> got;
  const std::vector<int32_t> tokens = {7, 130, 3, 255, 64, 18, 200, 31, 1, 2, 90, 17, 16, 5, 44, 280},
                             chosen = {3, 9};
  for (const LastFfnMode mode : {LastFfnMode::kChosen, LastFfnMode::kAll}) {
    const auto artifact = Compile({"trunk"}, mode);
    ASSERT_TRUE(artifact);
    auto made = qrt::CpuDevice::Create(*artifact, 0, qrt::ThreadPool::Create(2, 2), nullptr);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    CpuSequence sequence(*artifact, **made);
    sequence.Run("prefill_128", tokens, 0, nullptr);
    const size_t stride = artifact->manifest().model.logits_stride;
    std::vector<float>& logits = got.emplace_back(3 * stride, -1.0f);
    sequence.Head("head_8", chosen, logits.data());
    EXPECT_TRUE(std::all_of(logits.begin() + 2 * stride, logits.end(), [](float v) { return v == -1; }))
        << "logits of more than two rows were written";
    // The rows stay as they are left, for whoever asks again; one asks for the second alone.
    std::vector<float> second(stride);
    sequence.Head("head_1", std::span(chosen).subspan(1), second.data());
    EXPECT_TRUE(std::equal(second.begin(), second.end(), logits.begin() + stride))
        << "a row's logits depend on what else is asked for";
    std::vector<float> rows(4 * stride);
    CpuSequence other(*artifact, **made);
    other.Run("decode_4", std::span(tokens).first(4), 0, rows.data());
    EXPECT_TRUE(std::equal(logits.begin(), logits.begin() + stride, rows.begin() + 3 * stride))
        << "a row's logits depend on the program that makes them";
  }
  EXPECT_EQ(got[0], got[1]) << "the last feed-forward part of chosen rows is not that of all rows";
}

std::vector<float> Logits(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_GT(bytes.size(), 12u) << path;
  std::vector<float> values((bytes.size() - std::min<size_t>(bytes.size(), 12)) / 4);
  if (!values.empty()) std::memcpy(values.data(), bytes.data() + 12, 4 * values.size());
  return values;
}

double Nmse(std::span<const float> got, std::span<const float> want) {
  double error = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    all += double{want[i]} * want[i];
  }
  return error / all;
}

// Fed as tests/golden/README.md says: token p with the trunk's row p - 1, zeros at 0; the final norm is the
// block's.
TEST_F(Functions, TheNextnBlockComputesItsGolden) {
  const auto artifact = Compile({"trunk", "mtp"});
  ASSERT_TRUE(artifact);
  auto made = qrt::CpuDevice::Create(*artifact, 0, qrt::ThreadPool::Create(2, 2), nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  qrt::CpuDevice& device = **made;
  const qrt::Manifest& m = artifact->manifest();
  std::ifstream in(kModel.parent_path() / "tokens-288.txt");
  const std::vector<int32_t> tokens{std::istream_iterator<int32_t>(in), {}};
  const size_t count = tokens.size(), width = m.model.embedding_length, vocab = m.model.vocab_size;
  ASSERT_LE(count, 127u);

  CpuSequence sequence(*artifact, device);
  sequence.Run("prefill_128", tokens, 0, nullptr);
  auto* arena = reinterpret_cast<float*>(device.arena().address);
  std::vector<float> hidden((count + 1) * width);
  std::copy_n(arena, count * width, hidden.begin() + static_cast<ptrdiff_t>(width));
  const std::vector<float> golden = Logits(kModel.parent_path() / "t35-mtp-F32.mtp.f64.bin");
  ASSERT_EQ(golden.size(), count * vocab);
  std::vector<float> logits(4 * m.model.logits_stride), all, own(width);
  for (size_t at = 0; at < count; at += 4) {
    const size_t rows = std::min<size_t>(4, count - at);
    std::memcpy(arena, hidden.data() + at * width, 4 * rows * width);
    sequence.Run("mtp_4", std::span(tokens).subspan(at, rows), static_cast<int64_t>(at), logits.data());
    std::copy_n(arena + (rows - 1) * width, width, own.begin());
    for (size_t r = 0; r < rows; ++r) {
      all.insert(all.end(), logits.begin() + r * m.model.logits_stride,
                 logits.begin() + r * m.model.logits_stride + vocab);
    }
  }
  EXPECT_LT(Nmse(all, golden), 1e-9) << "against the golden logits of the NextN head";

  // Without logits the KV is the same.
  CpuSequence quiet(*artifact, device);
  std::memcpy(arena, hidden.data(), 4 * (count - 1) * width);
  quiet.Run("mtp_prefill_128", std::span(tokens).first(count - 1), 0, nullptr);
  std::memcpy(arena, hidden.data() + (count - 1) * width, 4 * width);
  std::vector<float> last(m.model.logits_stride);
  quiet.Run("mtp_1", std::span(tokens).last(1), static_cast<int64_t>(count) - 1, last.data());
  EXPECT_TRUE(std::equal(last.begin(), last.begin() + vocab, all.end() - vocab))
      << "the KV that was filled without logits is another";

  // From its own row, which is behind its norm already: as from a row of the trunk whose final norm gives
  // that, up to a factor that the next norm takes away.
  auto file = gguf::File::Open(kModel.string());
  ASSERT_TRUE(file.ok()) << file.status();
  const gguf::Tensor* norm = (*file)->FindTensor("output_norm.weight");
  std::vector<float> scale(width), as_trunk(width);
  decode_row(norm->format, norm->data, static_cast<int64_t>(width), scale.data());
  for (size_t i = 0; i < width; ++i) as_trunk[i] = own[i] / scale[i];
  const int32_t next[] = {5};
  std::copy_n(as_trunk.begin(), width, arena);
  sequence.Run("mtp_1", next, static_cast<int64_t>(count), last.data());
  std::copy_n(own.begin(), width, arena);
  sequence.Run("mtp_next_1", next, static_cast<int64_t>(count), logits.data());
  EXPECT_LT(Nmse(std::span(logits).first(vocab), std::span(last).first(vocab)), 1e-9)
      << "the second token of a draft";
}

}  // namespace
}  // namespace qcc::compiler
