#include "compiler/pipeline/cached_compile.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/artifact/output_file.h"
#include "compiler/cache/artifact_store.h"
#include "compiler/cache/cache_folder.h"
#include "compiler/cache/compiler_identity.h"
#include "compiler/cache/source_hash.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/pipeline.h"
#include "compiler/targets/code_error.h"
#include "compiler/targets/user_kernels.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/gguf.h"
#include "frontends/models/import.h"
#include "runtime/aot/cache_layout.h"
#include "runtime/aot/record.h"
#include "runtime/artifact/artifact.h"
#include "runtime/base/file_map.h"

namespace qcc::compiler {
namespace {

constexpr char kOutputKind[] = "output 1";

std::string HexOf(const std::string& text) {
  return qrt::Hex(qrt::HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

// The name of an artifact in the cache, a hash of all that its bytes depend on; and what of that may change
// while it is made.
struct Key {
  std::string name;
  MadeOf of;
};

// Errors: Q3005 (--kernels cannot be read).
absl::StatusOr<Key> KeyOf(const PipelineOptions& options, const CompilerIdentity& compiler,
                          const qrt::Hash128& source) {
  absl::StatusOr<UserKernels> kernels = UserKernels::Open(options.kernels);
  if (!kernels.ok()) return kernels.status();
  const std::string text = CacheKeyText(options, *kernels);
  return Key{HexOf(Concat(compiler.hash, "\nsource ", qrt::Hex(source), "\n", text)),
             {source, kernels->Provenance()}};
}

HashProgress ShowBytes(ProgressSink& sink) {
  return [&sink](uint64_t done, uint64_t total) {
    sink.Progress(done, total, "B");
    return !sink.Interrupted();
  };
}

// Whether nothing but the artifact is wanted: no report, no dump, no check that ends a compile.
bool WantsOnlyArtifact(const PipelineOptions& options) {
  return options.compile_to == CompilePhase::kArtifact && options.dump_ir.empty() &&
         options.dump_kernels.empty() && options.reports.empty() && !options.strict &&
         options.require_fused.empty();
}

// Where an earlier compile left its artifact. That an option has no effect is not said again, so the options
// of which it may be said, whatever the model has, belong to the name: no others, as what they ask for is in
// the key, or is not about the artifact.
std::string OutputRecord(const PipelineOptions& options, const std::string& key) {
  std::string text = qrt::aot::NamePiece(key);
  for (const std::string& warning : OptionsWithoutEffect(options, {})) {
    text += qrt::aot::NamePiece(warning);
  }
  return Concat(qrt::aot::ArtifactFolder(options.cache_dir), "/", HexOf(text), qrt::aot::kOutputSuffix);
}

struct EarlierOutput {
  std::string path;
  qrt::Hash128 identity;
};

std::optional<EarlierOutput> FindOutput(const std::string& record) {
  const auto lines = qrt::aot::ReadRecord(record, kOutputKind);
  if (!lines || lines->size() != 3) return std::nullopt;
  const auto identity = qrt::ParseHash((*lines)[0]);
  const auto stamp = qrt::aot::FileStamp::Parse((*lines)[1]);
  if (!identity || !stamp || qrt::aot::FileStamp::Of((*lines)[2]) != stamp) return std::nullopt;
  qrt::aot::Touch(record);
  return EarlierOutput{(*lines)[2], *identity};
}

// After a compile: the artifact at options.output, unless somebody else has put another one there meanwhile.
// Nothing is lost where it cannot be written.
void RememberOutput(const PipelineOptions& options, const qrt::Hash128& identity, const Key& key) {
  const std::unique_ptr<char, void (*)(void*)> path(realpath(options.output.c_str(), nullptr), std::free);
  if (path == nullptr) return;
  const auto stamp = qrt::aot::FileStamp::Of(path.get());
  const auto artifact = qrt::Artifact::Open(path.get());
  if (!stamp || !artifact.ok() || (*artifact)->identity() != identity || !IsMadeOf(**artifact, key.of))
    return;
  qrt::aot::WriteRecord(OutputRecord(options, key.name), kOutputKind,
                        {qrt::Hex(identity), stamp->Text(), std::string(path.get())});
}

bool SameFile(const std::string& a, const std::string& b) {
  const auto one = qrt::aot::FileStamp::Of(a);
  return one && one == qrt::aot::FileStamp::Of(b);
}

// Warnings about the model are part of its artifact, by their numbers, and how many more there were.
void RepeatWarnings(const std::string& path, ProgressSink& sink) {
  const auto artifact = qrt::Artifact::Open(path);
  if (!artifact.ok()) return;
  auto options = (*artifact)->manifest().provenance.options;
  // "warning 2" before "warning 10".
  std::stable_sort(options.begin(), options.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  for (const auto& [name, value] : options) {
    if (name.starts_with("warning ")) sink.Warning(value);
  }
}

// False: it is gone, damaged, or has changed since `record` was written; nothing is at `to` then. What counts
// is what the copy has, read back.
absl::StatusOr<bool> CopyArtifact(const EarlierOutput& from, const std::string& record, const std::string& to,
                                  ProgressSink& sink) {
  constexpr size_t kPiece = size_t{16} << 20;
  const auto map = qrt::FileMap::Open(from.path);
  if (!map.ok()) return false;
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(to);
  if (!file.ok()) return file.status();
  const auto bytes = map->bytes();
  const uint64_t total = 2 * uint64_t{bytes.size()};  // written and read
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    if (sink.Interrupted()) return absl::CancelledError("interrupted");
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    if (absl::Status s = (*file)->WriteAt(at, piece); !s.ok()) {
      // What was cut short under the mapping cannot be read, and is no fault of the output's.
      return FindOutput(record) ? absl::StatusOr<bool>(s) : false;
    }
    sink.Progress(at + piece.size(), total, "B");
  }
  const auto show = [&](uint64_t done, uint64_t weights) {
    sink.Progress(total - weights + done, total, "B");
    return !sink.Interrupted();
  };
  const auto check = [&](const std::string& copy) {
    const bool whole = IsWhole(copy, from.identity, show) && FindOutput(record);
    if (sink.Interrupted()) return absl::CancelledError("interrupted");
    return whole ? absl::OkStatus() : absl::DataLossError("not the artifact that it was");
  };
  absl::Status done = (*file)->Commit(bytes.size(), check);
  if (absl::IsDataLoss(done)) return false;
  if (!done.ok()) return done;
  return true;
}

// True: the artifact is at options.output, and nothing is left to do.
absl::StatusOr<bool> TakeEarlier(const PipelineOptions& options, const std::string& record,
                                 ProgressSink& sink) {
  const std::optional<EarlierOutput> earlier = FindOutput(record);
  if (!earlier) return false;
  sink.BeginStage(1, 1, "look in the cache");
  if (SameFile(earlier->path, options.output)) {
    RepeatWarnings(options.output, sink);
    sink.EndStage(Concat(options.output, " is up to date"));
    return true;
  }
  absl::StatusOr<bool> copied = CopyArtifact(*earlier, record, options.output, sink);
  if (!copied.ok()) return copied.status();
  if (*copied) {
    RepeatWarnings(options.output, sink);
    sink.EndStage(Concat("copied from ", earlier->path));
    return true;
  }
  unlink(record.c_str());
  sink.EndStage(Concat(earlier->path, " is gone, or no longer what it was"));
  return false;
}

// A model's hash: remembered, or made now. Errors: cancelled.
absl::StatusOr<qrt::Hash128> HashOfSource(const gguf::File& file, const SourceStamps& stamps,
                                          const std::string& cache, ProgressSink& sink) {
  if (const auto known = stamps.Recall(cache)) return *known;
  sink.BeginStage(1, 1, "hash the model");
  const auto made = HashSource(file, ShowBytes(sink));
  if (!made) return absl::CancelledError("interrupted");
  sink.EndStage(qrt::Hex(*made));
  if (absl::Status s = file.CheckUnchanged(); !s.ok()) return s;
  stamps.Remember(cache, *made);
  return *made;
}

// Room in the cache for an artifact of `bytes`. `sink`: null where it was told already what there is to tell.
// Errors: Q6002, Q6003.
absl::Status MakeRoom(const PipelineOptions& options, uint64_t bytes, ProgressSink* sink) {
  const std::string& cache = options.cache_dir;
  const uint64_t most = UsualCacheBytes(cache);
  const bool fits = bytes <= most;
  if (!fits && sink != nullptr) {
    sink->Warning(Concat("the model's weights take ", CodeBytes(bytes), ", and the cache is to have at most ",
                         CodeBytes(most),
                         ": its artifact stays until another one is used; qcc cache prune "
                         "--max-bytes=N removes it before"));
  }
  const auto spare = PruneCache(cache, most, LastArtifact::kStays, fits ? bytes : 0);
  if (!spare.ok()) return spare.status();
  absl::Status room = CheckOutput(options.output, options.input, bytes);
  if (PartsOf(room).code != "Q6003") return room;
  // Better without what was used last than not at all.
  const auto all = PruneCache(cache, most, LastArtifact::kGoes, bytes);
  return all.ok() ? CheckOutput(options.output, options.input, bytes) : all.status();
}

// Puts the artifact under `key`, whose lock the caller has. False: the model's files or the kernels are not
// what the key was made of.
absl::StatusOr<bool> MakeArtifact(PipelineOptions options, const Key& key, ProgressSink& sink) {
  const std::string& cache = options.cache_dir;
  options.output = qrt::aot::ArtifactPath(cache, key.name);
  ProgressSink* told = &sink;
  const auto room = [&](uint64_t bytes) { return MakeRoom(options, bytes, std::exchange(told, nullptr)); };
  if (absl::Status s = CompileModel(options, sink, Targets(), nullptr, nullptr, room); !s.ok()) return s;
  absl::StatusOr<bool> sealed = SealArtifact(cache, key.name, key.of);
  if (sealed.ok() && !*sealed) unlink(options.output.c_str());
  return sealed;
}

}  // namespace

absl::Status CompileOnce(const PipelineOptions& options, ProgressSink& sink) {
  if (options.no_cache || options.cache_dir.empty() || !WantsOnlyArtifact(options)) {
    return CompileModel(options, sink);
  }
  const CompilerIdentity compiler = IdentifyCompiler(CompilerVersion());
  absl::StatusOr<std::unique_ptr<gguf::File>> file = models::OpenModel(options.input, options.mtp);
  if (compiler.hash.empty() || !file.ok()) return CompileModel(options, sink);  // which says what is wrong
  if (absl::Status s = CheckIsNotOf(options.output, **file); !s.ok()) return s;
  const SourceStamps stamps(**file);
  if (const auto known = stamps.Recall(options.cache_dir)) {
    absl::StatusOr<Key> key = KeyOf(options, compiler, *known);
    if (!key.ok()) return key.status();
    absl::StatusOr<bool> taken = TakeEarlier(options, OutputRecord(options, key->name), sink);
    if (!taken.ok()) return taken.status();
    if (*taken) return (*file)->CheckUnchanged();
  }
  // Of the files that the stamps are of: what lies under their names may change.
  CompiledModel made;
  if (absl::Status s = CompileModel(options, sink, Targets(), *std::move(file), &made); !s.ok()) return s;
  if (!MakeCacheFolder(qrt::aot::ArtifactFolder(options.cache_dir)).ok()) return absl::OkStatus();
  stamps.Remember(options.cache_dir, made.source);
  if (const auto key = KeyOf(options, compiler, made.source); key.ok()) {
    RememberOutput(options, made.identity, *key);
  }
  return absl::OkStatus();
}

absl::StatusOr<qrt::aot::ArtifactInUse> CompileIntoCache(PipelineOptions options, const std::string& request,
                                                         ProgressSink& sink) {
  const std::string cache = options.cache_dir;
  if (cache.empty() || options.no_cache) {
    return MakeError("Q0102", "there is no cache to put the artifact into", options.input,
                     "name a folder with --cache-dir, or use qcc compile -o");
  }
  const CompilerIdentity compiler = IdentifyCompiler(CompilerVersion());
  if (compiler.hash.empty()) {
    return MakeError("Q6002", "cannot read the compiler's own file, by which the cache tells compilers apart",
                     "/proc/self/exe", "use qcc compile -o");
  }
  if (absl::Status s = MakeCacheFolder(qrt::aot::ArtifactFolder(cache)); !s.ok()) return s;
  // A second time where a file changed and its stamp did not: what was remembered of it was wrong; or where a
  // kernel was edited meanwhile.
  for (int attempt = 0; attempt < 2; ++attempt) {
    absl::StatusOr<std::unique_ptr<gguf::File>> file = models::OpenModel(options.input, options.mtp);
    if (!file.ok()) return file.status();
    const SourceStamps stamps(**file);
    absl::StatusOr<qrt::Hash128> source = HashOfSource(**file, stamps, cache, sink);
    if (!source.ok()) return source.status();
    absl::StatusOr<Key> key = KeyOf(options, compiler, *source);
    if (!key.ok()) return key.status();
    auto lock = MakingLock::Take(cache, key->name, [&sink](bool first) {
      if (first) sink.Warning("another qcc compiles the same: waiting for it");
      return !sink.Interrupted();
    });
    if (!lock.ok()) return lock.status();
    std::optional<qrt::aot::ArtifactInUse> use = TakeArtifact(cache, key->name, ShowBytes(sink));
    if (!use && sink.Interrupted()) return absl::CancelledError("interrupted");
    if (!use) {
      absl::StatusOr<bool> made = MakeArtifact(options, *key, sink);
      if (!made.ok()) return made.status();
      if (*made) use = qrt::aot::UseArtifact(cache, key->name);
    }
    if (use) {
      if (absl::Status s = (*file)->CheckUnchanged(); !s.ok()) return s;
      if (!request.empty() && stamps.settled() && options.kernels.empty()) {
        qrt::aot::Answer answer = {key->name, stamps.files()};
        answer.files.insert(answer.files.end(), compiler.files.begin(), compiler.files.end());
        qrt::aot::WriteAnswer(cache, request, answer);
      }
      return *std::move(use);
    }
    stamps.Forget(cache);
  }
  const char* what = options.kernels.empty() ? "the file was" : "the file or a kernel of --kernels was";
  return MakeError("Q1009", Concat(what, " written to while it was read"), options.input, "compile it again");
}

}  // namespace qcc::compiler
