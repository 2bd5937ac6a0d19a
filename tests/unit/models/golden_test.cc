// `qcc eval` in double precision against recorded logits, and what it refuses.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compiler/driver/eval.h"
#include "dialects/hir/eval/Evaluator.h"
#include "frontends/base/error.h"
#include "tests/unit/models/imported.h"
#include "tests/unit/models/oracle.h"
#include "tests/unit/models/tiny_model.h"

namespace qcc::models::testing {
namespace {

namespace fs = std::filesystem;

// The logits files hold f32: 1e-12 is the noise of that rounding with room, far below any mistake.
constexpr double kLimit = 1e-12;

struct LogitsFile {
  int32_t rows = 0, columns = 0;
  std::vector<double> values;
};

LogitsFile ReadLogits(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  LogitsFile file;
  if (bytes.size() < 12 || std::memcmp(bytes.data(), "LGT1", 4) != 0) {
    ADD_FAILURE() << path << " is not a logits file";
    return file;
  }
  std::memcpy(&file.rows, bytes.data() + 4, 4);
  std::memcpy(&file.columns, bytes.data() + 8, 4);
  std::vector<float> values(int64_t{file.rows} * file.columns);
  EXPECT_EQ(bytes.size(), 12 + 4 * values.size()) << path;
  std::memcpy(values.data(), bytes.data() + 12, std::min(bytes.size() - 12, 4 * values.size()));
  file.values.assign(values.begin(), values.end());
  return file;
}

std::vector<int32_t> ReadIds(const fs::path& path) {
  std::ifstream in(path);
  return {std::istream_iterator<int32_t>(in), {}};
}

fs::path TokensOf(const fs::path& model) {
  // The quantised models have the larger vocabulary.
  const std::string name = model.stem().string();
  const bool plain = name.ends_with("F32") || name.ends_with("F16");
  return model.parent_path() / (plain ? "tokens-288.txt" : "tokens-512.txt");
}

class Golden : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("qcc_golden_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  // NMSE of `qcc eval` on a golden model; infinity and a failure when it does not run.
  double Measure(const fs::path& model, const compiler::EvalOptions& how) {
    compiler::EvalOptions options = how;
    options.model = model.string();
    options.tokens = TokensOf(model).string();
    options.output = path("logits.bin");
    if (const absl::Status status = compiler::RunEval(options); !status.ok()) {
      ADD_FAILURE() << model << ": " << status;
      return HUGE_VAL;
    }
    const LogitsFile got = ReadLogits(options.output);
    const LogitsFile expected = ReadLogits(fs::path(model).replace_extension(".f64.bin"));
    EXPECT_EQ(got.rows, expected.rows) << model;
    EXPECT_EQ(got.columns, expected.columns) << model;
    return Nmse(got.values, expected.values);
  }

  // All models in a folder that this build can read.
  int CheckFolder(const fs::path& folder) {
    int checked = 0;
    std::vector<fs::path> models;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".gguf") models.push_back(entry.path());
    std::sort(models.begin(), models.end());
    for (const fs::path& model : models) {
      const std::string name = model.stem().string();
      auto file = gguf::File::Open(model.string());
      if (!file.ok() && PartsOf(file.status()).code == "Q1206") continue;  // a format to come
      const double nmse = Measure(model, {});
      EXPECT_LT(nmse, kLimit) << name;
      std::printf("%-20s %.2e", name.c_str(), nmse);
      // In single precision an expert may be chosen otherwise, which would show.
      if (name.starts_with("t35moe-") || name.starts_with("t3moe-") || name.starts_with("t3next-")) {
        compiler::EvalOptions single;
        single.f64 = false;
        const double rounded = Measure(model, single);
        EXPECT_LT(rounded, 1e-9) << name;
        std::printf("  f32 %.2e", rounded);
      }
      std::printf("\n");
      ++checked;
    }
    return checked;
  }

  fs::path folder_;
};

const fs::path kGolden = fs::path(QCC_SOURCE_DIR) / "tests" / "golden";

TEST_F(Golden, LogitsOfTheStoredModels) {
  EXPECT_EQ(CheckFolder(kGolden), 11);
}

TEST_F(Golden, LogitsOfTheFullSet) {
  const fs::path full = fs::path(QCC_SOURCE_DIR).parent_path() / "shared" / "golden";
  if (!fs::exists(full / "golden.json")) GTEST_SKIP() << "the full set does not lie beside this checkout";
  EXPECT_GT(CheckFolder(full), 5);
}

TEST_F(Golden, SplitsAndPrecisions) {
  const fs::path model = kGolden / "t35-mtp-F32.gguf";
  compiler::EvalOptions split;
  split.split = {3, 5, 20};
  EXPECT_LT(Measure(model, split), kLimit);
  compiler::EvalOptions single;
  single.f64 = false;
  EXPECT_LT(Measure(model, single), 1e-9);
  compiler::EvalOptions half;
  half.kv_f16 = true;
  EXPECT_LT(Measure(model, half), 1e-6);
  EXPECT_GT(Measure(model, half), kLimit) << "the half precision cache rounds nothing";
}

TEST_F(Golden, TheOracleOfTheTestsAgrees) {
  for (const char* name : {"t35-mtp-F32", "t3-f-F16", "t35moe-f-F16", "t3moe-q-Q4_K_M", "t3next-f-F32"}) {
    SCOPED_TRACE(name);
    const fs::path model = kGolden / (std::string(name) + ".gguf");
    auto file = gguf::File::Open(model.string());
    ASSERT_TRUE(file.ok()) << file.status();
    const std::vector<double> expected = ReadLogits(fs::path(model).replace_extension(".f64.bin")).values;
    EXPECT_LT(Nmse(OracleLogits(**file, ReadIds(TokensOf(model))), expected), kLimit);
  }
}

// The NextN head, fed as golden's README says.
TEST_F(Golden, NextnHead) {
  const fs::path model = kGolden / "t35-mtp-F32.gguf";
  auto file = gguf::File::Open(model.string());
  ASSERT_TRUE(file.ok()) << file.status();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ImportOptions options;
  options.kv = KvElement::kF32;
  auto imported = ImportModel(context, **file, options);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_TRUE(imported->warnings.empty()) << imported->warnings[0];

  struct Source final : hir::WeightSource {
    const gguf::File* file;
    std::optional<hir::WeightBytes> find(llvm::StringRef name) const override {
      const gguf::Tensor* tensor = file->FindTensor(name.str());
      if (tensor == nullptr) return std::nullopt;
      return hir::WeightBytes{tensor->format, {tensor->data, tensor->bytes}};
    }
  } source;
  source.file = file->get();
  hir::Evaluator evaluator(*imported->module, source, hir::Precision::F64);
  const std::vector<int32_t> ids = ReadIds(TokensOf(model));
  const int64_t count = ids.size();
  const auto rows = [&] { return hir::rowsValue(hir::StepRows::text(0, count)); };
  auto trunk = evaluator.evaluate("trunk", {hir::idsValue(ids), rows()});
  ASSERT_TRUE(mlir::succeeded(trunk));
  // The final norm of every row, then shifted down by one.
  const std::vector<double> stream = hir::toDoubles((*trunk)[0]);
  const int64_t width = stream.size() / count;
  std::vector<float> norm(width);
  const gguf::Tensor* tensor = (*file)->FindTensor("output_norm.weight");
  decode_row(tensor->format, tensor->data, width, norm.data());
  std::vector<double> hidden(stream.size());
  for (int64_t r = 0; r + 1 < count; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += stream[r * width + i] * stream[r * width + i];
    const double scale = 1 / std::sqrt(sum / width + static_cast<double>(1e-6f));
    for (int64_t i = 0; i < width; ++i) hidden[(r + 1) * width + i] = stream[r * width + i] * scale * norm[i];
  }
  auto mtp = evaluator.evaluate(
      "mtp", {hir::idsValue(ids), hir::tensorValue(hir::Precision::F64, {count, width}, hidden), rows()});
  ASSERT_TRUE(mlir::succeeded(mtp));
  const double nmse = Nmse(hir::toDoubles((*mtp)[0]), ReadLogits(kGolden / "t35-mtp-F32.mtp.f64.bin").values);
  EXPECT_LT(nmse, kLimit);
  std::printf("%-16s %.2e\n", "t35-mtp-F32.mtp", nmse);
  EXPECT_EQ(hir::shapeOf((*mtp)[1]), (std::vector<int64_t>{count, width}));

  // The golden tells which half of what is projected the embedding is.
  mlir::ModuleOp(*imported->module).walk([](hir::ConcatOp both) {
    const mlir::Value embedding = both.getLhs();
    both.getLhsMutable().assign(both.getRhs());
    both.getRhsMutable().assign(embedding);
  });
  hir::Evaluator swapped(*imported->module, source, hir::Precision::F64);
  auto other = swapped.evaluate(
      "mtp", {hir::idsValue(ids), hir::tensorValue(hir::Precision::F64, {count, width}, hidden), rows()});
  ASSERT_TRUE(mlir::succeeded(other));
  EXPECT_GT(Nmse(hir::toDoubles((*other)[0]), ReadLogits(kGolden / "t35-mtp-F32.mtp.f64.bin").values), 1e-3)
      << "the golden does not tell the halves of the projection's input apart";
}

TEST_F(Golden, WhatEvalRefuses) {
  compiler::EvalOptions options;
  options.model = (kGolden / "t35-mtp-F32.gguf").string();
  options.tokens = path("ids.txt");
  options.output = path("out.bin");
  const auto expect = [&](const std::string& ids, const std::string& code, const std::string& part) {
    SCOPED_TRACE("\"" + ids + "\"");
    std::ofstream(options.tokens) << ids;
    const absl::Status status = compiler::RunEval(options);
    const ErrorParts error = PartsOf(status);
    EXPECT_EQ(error.code, code) << status;
    EXPECT_NE((error.what + error.where).find(part), std::string::npos) << status;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1)
        << "an error left a file beside the token list";
  };
  expect("", "Q2401", "no ids");
  expect("1 two 3", "Q2401", "entry 1");
  expect("99999999999", "Q2401", "entry 0");
  expect("1 2 288", "Q2402", "288 at position 2");
  expect("-1", "Q2402", "-1 at position 0");
  options.split = {0};
  expect("1 2", "Q2403", "0");
  options.split = {};
  options.tokens = path("absent.txt");
  EXPECT_EQ(PartsOf(compiler::RunEval(options)).code, "Q2401");
  options.tokens = TokensOf(options.model).string();
  options.output = path("no/such/folder/out.bin");
  EXPECT_EQ(PartsOf(compiler::RunEval(options)).code, "Q0103");
  for (const std::string& input : {options.model, options.tokens}) {
    options.output = input;
    EXPECT_EQ(PartsOf(compiler::RunEval(options)).code, "Q0103") << input << " would be replaced";
  }
  options.output = path("out.bin");
  EXPECT_TRUE(absl::IsCancelled(compiler::RunEval(options, [] { return true; })));
}

}  // namespace
}  // namespace qcc::models::testing
