#include "compiler/driver/eval.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/output_file.h"
#include "compiler/pipeline/file_weights.h"
#include "compiler/pipeline/finite.h"
#include "compiler/pipeline/reference_logits.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/hir/eval/Evaluator.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/models/import.h"
#include "mlir/IR/Diagnostics.h"

namespace qcc::compiler {

namespace {

static_assert(std::endian::native == std::endian::little,
              "logits files are written as the values lie in memory");

// Tokens in a step where nobody asks for another number: a step has its logits in memory, a vocabulary of
// doubles for each, and what is computed depends on no split.
constexpr int64_t kUsualPiece = 64;

constexpr size_t kMaxTokenBytes = size_t{256} << 20;  // a hole would be read until memory ends

// A whole regular file: a pipe might have no writer, a device no end.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  const auto refuse = [&path](std::string_view why) {
    return MakeError("Q2401", Concat("cannot read the token file: ", why), path,
                     "give a text file of token ids");
  };
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return refuse(std::strerror(errno));
  struct stat info;
  const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  std::string text;
  char piece[1 << 16];
  ssize_t count = 0;
  while (regular && ((count = read(descriptor, piece, sizeof piece)) > 0 || (count < 0 && errno == EINTR))) {
    if (count > 0) text.append(piece, static_cast<size_t>(count));
    if (text.size() > kMaxTokenBytes) break;
  }
  const int error = errno;
  close(descriptor);
  if (!regular) return refuse("it is not a regular file");
  if (count < 0) return refuse(std::strerror(error));
  if (text.size() > kMaxTokenBytes) return refuse(Concat("it has more than ", kMaxTokenBytes, " bytes"));
  return text;
}

absl::StatusOr<std::vector<int32_t>> ReadTokens(const std::string& path) {
  absl::StatusOr<std::string> read = ReadText(path);
  if (!read.ok()) return read.status();
  const std::string& text = *read;
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (true) {
    while (at != end && is_space(*at)) ++at;
    if (at == end) break;
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && !is_space(*next)))
      return MakeError("Q2401", absl::StrCat("entry ", ids.size(), " is not a token id"),
                       absl::StrCat(path, ", byte ", at - text.data()),
                       "token ids are decimal numbers separated by white space");
    ids.push_back(id);
    at = next;
  }
  if (ids.empty())
    return MakeError("Q2401", "the token file holds no ids, expected at least one", path,
                     "token ids are decimal numbers separated by white space");
  return ids;
}

}  // namespace

struct EvalSession::Impl {
  Impl(const gguf::File& file, const std::function<bool()>& interrupted)
      : file(file), interrupted(interrupted), weights(file, interrupted) {}

  const gguf::File& file;
  const std::function<bool()> interrupted;
  FileWeights weights;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<hir::Evaluator> evaluator;
  int64_t vocabulary = 0;
  int64_t past = 0;
};

EvalSession::EvalSession() = default;
EvalSession::~EvalSession() = default;

int64_t EvalSession::vocabulary() const {
  return impl_->vocabulary;
}

absl::StatusOr<std::unique_ptr<EvalSession>> EvalSession::Create(const gguf::File& file, bool f64,
                                                                 bool kv_f16, bool l2_max,
                                                                 const std::function<bool()>& interrupted) {
  std::unique_ptr<EvalSession> session(new EvalSession);
  session->impl_ = std::make_unique<Impl>(file, interrupted);
  Impl& impl = *session->impl_;
  models::ImportOptions options;
  options.kv = kv_f16 ? models::KvElement::kF16 : models::KvElement::kF32;
  options.l2_norm = l2_max ? models::L2Norm::kMax : models::L2Norm::kSum;
  absl::StatusOr<models::ImportResult> imported = models::ImportModel(impl.context, file, options);
  if (!imported.ok()) return imported.status();
  impl.module = std::move(imported->module);
  if (absl::Status status = CheckWeights(*impl.module, file, interrupted); !status.ok()) return status;
  impl.vocabulary = (*impl.module)->getAttrOfType<mlir::IntegerAttr>(hir::kVocabSize).getInt();
  impl.evaluator.emplace(*impl.module, impl.weights, f64 ? hir::Precision::F64 : hir::Precision::F32);
  return session;
}

absl::StatusOr<std::vector<double>> EvalSession::Step(std::span<const int32_t> ids) {
  Impl& impl = *impl_;
  const int64_t count = static_cast<int64_t>(ids.size());
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= impl.vocabulary)
      return MakeError("Q2402",
                       absl::StrCat("token id ", ids[i], " at position ", impl.past + i,
                                    " is outside the vocabulary, expected 0 to ", impl.vocabulary - 1),
                       impl.file.path(), "use ids of this model's own tokenizer");
  std::string problems;
  mlir::ScopedDiagnosticHandler capture(&impl.context, [&](mlir::Diagnostic& diagnostic) {
    std::string where;
    llvm::raw_string_ostream(where) << diagnostic.getLocation();
    absl::StrAppend(&problems, problems.empty() ? "" : "; ", diagnostic.str(), " at ", where);
    return mlir::success();
  });
  auto logits = ReferenceLogits(*impl.evaluator, *impl.module, {ids.begin(), ids.end()}, impl.past);
  if (mlir::succeeded(logits)) {
    impl.past += count;
    return hir::toDoubles(*logits);
  }
  if (impl.interrupted && impl.interrupted()) return absl::CancelledError("interrupted");
  return MakeError("Q2404", absl::StrCat("the reference evaluator failed: ", problems), impl.file.path());
}

absl::Status RunEval(const EvalOptions& options, const std::function<bool()>& interrupted) {
  for (int64_t length : options.split)
    if (length < 1)
      return MakeError("Q2403", absl::StrCat("split length ", length, ", expected at least 1"), "--split");
  for (const std::string& input : {options.model, options.tokens})
    if (absl::Status status = CheckOutput(options.output, input, 0); !status.ok()) return status;
  absl::StatusOr<std::vector<int32_t>> ids = ReadTokens(options.tokens);
  if (!ids.ok()) return ids.status();
  absl::StatusOr<std::unique_ptr<gguf::File>> file = gguf::File::Open(options.model);
  if (!file.ok()) return file.status();
  if (absl::Status status = CheckIsNotOf(options.output, **file); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<EvalSession>> session =
      EvalSession::Create(**file, options.f64, options.kv_f16, options.l2_max, interrupted);
  if (!session.ok()) return session.status();

  const size_t total = ids->size();
  if (total > static_cast<size_t>(std::numeric_limits<int32_t>::max()) ||
      (*session)->vocabulary() > std::numeric_limits<int32_t>::max())
    return MakeError("Q2401", "more tokens than a logits file can count", options.tokens);
  absl::StatusOr<std::unique_ptr<OutputFile>> out = OutputFile::Create(options.output);
  if (!out.ok()) return out.status();
  const int32_t header[2] = {static_cast<int32_t>(total), static_cast<int32_t>((*session)->vocabulary())};
  uint64_t size = 0;
  const auto append = [&](const void* data, size_t bytes) {
    const absl::Status status = (*out)->WriteAt(size, {static_cast<const uint8_t*>(data), bytes});
    size += bytes;
    return status;
  };
  if (absl::Status status = append("LGT1", 4); !status.ok()) return status;
  if (absl::Status status = append(header, sizeof header); !status.ok()) return status;
  std::vector<float> values(static_cast<size_t>((*session)->vocabulary()));
  size_t done = 0;
  for (size_t piece = 0; done < total; ++piece) {
    if (interrupted && interrupted()) return absl::CancelledError("interrupted");
    const int64_t length =
        options.split.empty() ? kUsualPiece : options.split[std::min(piece, options.split.size() - 1)];
    const size_t count = std::min(total - done, static_cast<size_t>(length));
    absl::StatusOr<std::vector<double>> logits = (*session)->Step(std::span(*ids).subspan(done, count));
    if (absl::Status s = (*file)->CheckUnchanged(); !s.ok()) return s;
    if (!logits.ok()) return logits.status();
    if (absl::Status s = CheckLogits(*logits, (*session)->vocabulary(), static_cast<int64_t>(done), **file);
        !s.ok())
      return s;
    for (size_t row = 0; row < logits->size(); row += values.size()) {
      std::copy_n(logits->begin() + static_cast<int64_t>(row), values.size(), values.begin());
      if (absl::Status s = append(values.data(), values.size() * sizeof(float)); !s.ok()) return s;
    }
    done += count;
  }
  return (*out)->Commit(size);
}

}  // namespace qcc::compiler
