#include "compiler/cache/source_hash.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "frontends/base/text.h"
#include "runtime/aot/cache_layout.h"
#include "runtime/aot/record.h"
#include "runtime/aot/request.h"

namespace qcc::compiler {
namespace {

constexpr char kKind[] = "source 1";

}  // namespace

std::optional<qrt::Hash128> HashSource(const gguf::File& model, const HashProgress& progress) {
  constexpr size_t kPiece = size_t{64} << 20;
  qrt::Hasher hasher;
  uint64_t done = 0;
  for (const gguf::File::Shard& shard : model.shards()) {
    for (size_t at = 0; at < shard.bytes.size(); at += kPiece) {
      const size_t size = std::min(kPiece, shard.bytes.size() - at);
      hasher.Update(shard.bytes.subspan(at, size));
      done += size;
      if (progress && !progress(done, model.size())) return std::nullopt;
    }
  }
  return hasher.Finish();
}

SourceStamps::SourceStamps(const gguf::File& model) {
  const int64_t now = qrt::aot::StampClock();
  for (const gguf::File::Shard& shard : model.shards()) {
    std::string path = qrt::aot::RequestPath(std::string(shard.path));
    const auto stamp = qrt::aot::FileStamp::Of(path);
    settled_ = settled_ && stamp && qrt::aot::IsSettled(*stamp, now);
    if (stamp) files_.emplace_back(std::move(path), *stamp);
  }
}

std::string SourceStamps::RecordPath(const std::string& cache) const {
  std::string text;
  for (const auto& [path, stamp] : files_) text += qrt::aot::NamePiece(path);
  const auto bytes = std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return Concat(qrt::aot::ArtifactFolder(cache), "/", qrt::Hex(qrt::HashOf(bytes)), qrt::aot::kSourceSuffix);
}

std::optional<qrt::Hash128> SourceStamps::Recall(const std::string& cache) const {
  const auto lines = qrt::aot::ReadRecord(RecordPath(cache), kKind);
  if (!settled_ || !lines || lines->size() != files_.size() + 1) return std::nullopt;
  for (size_t i = 0; i < files_.size(); ++i) {
    if ((*lines)[i + 1] != files_[i].second.Text()) return std::nullopt;
  }
  return qrt::ParseHash((*lines)[0]);
}

void SourceStamps::Remember(const std::string& cache, const qrt::Hash128& hash) const {
  if (!settled_) return;
  qrt::aot::RecordLines lines = {qrt::Hex(hash)};
  for (const auto& [path, stamp] : files_) lines.push_back(stamp.Text());
  qrt::aot::WriteRecord(RecordPath(cache), kKind, lines);
}

void SourceStamps::Forget(const std::string& cache) const {
  unlink(RecordPath(cache).c_str());
}

}  // namespace qcc::compiler
