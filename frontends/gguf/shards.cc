#include "frontends/gguf/shards.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/file_impl.h"

namespace qcc::gguf {
namespace {

constexpr std::string_view kNo = "split.no", kCount = "split.count", kTensors = "split.tensors.count";
constexpr int64_t kMaxShards = 65535;  // writers store 16 bits

absl::StatusOr<int64_t> NumberOr(const File& file, std::string_view key, int64_t fallback) {
  if (!file.Has(key)) return fallback;
  return file.GetInt(key);
}

absl::Status BadKey(const File& file, std::string_view key, std::string what) {
  return MakeError("Q1402", std::move(what), Concat(file.path(), ": key ", Quoted(key)),
                   "the file is damaged; fetch it again");
}

// Numbers of "-00002-of-00003.gguf", from 1, and what stands before it.
struct ShardName {
  std::string_view stem;
  int64_t number, count;
};

std::optional<ShardName> ParseShardName(std::string_view path) {
  constexpr std::string_view kForm = "-ddddd-of-ddddd.gguf";
  if (path.size() < kForm.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kForm.size());
  ShardName name{path.substr(0, path.size() - kForm.size()), 0, 0};
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char c = tail[i];
    if (kForm[i] != 'd') {
      if (c != kForm[i]) return std::nullopt;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    int64_t& number = i < kForm.size() / 2 ? name.number : name.count;
    number = number * 10 + (c - '0');
  }
  return name;
}

// Bytes of a value behind its type.
std::string_view BytesOf(const File::Value& value) {
  return {reinterpret_cast<const char*>(value.data), static_cast<size_t>(value.end - value.data)};
}

bool SameValue(const File::Value& a, const File::Value& b) {
  return a.type == b.type && a.element == b.element && a.count == b.count && BytesOf(a) == BytesOf(b);
}

}  // namespace

std::string ShardText(int64_t no, int64_t count) {
  return Concat("shard ", no + 1, " of ", count);
}

absl::StatusOr<std::optional<Split>> ReadSplit(const File& file) {
  Split split;
  for (auto [key, field] :
       {std::pair(kNo, &Split::no), std::pair(kCount, &Split::count), std::pair(kTensors, &Split::tensors)}) {
    absl::StatusOr<int64_t> value = NumberOr(file, key, 0);
    if (!value.ok()) return value.status();
    split.*field = *value;
  }
  if (split.count < 0 || split.count > kMaxShards)
    return BadKey(file, kCount,
                  Concat(kCount, " is ", split.count, ", expected 0 (a whole model) to ", kMaxShards));
  const bool whole = split.count <= 1;
  if (split.no < 0 || split.no >= std::max<int64_t>(split.count, 1))
    return BadKey(file, kNo, Concat(kNo, " is ", split.no, ", but ", kCount, " is ", split.count));
  if (whole) return std::optional<Split>();
  for (std::string_view key : {kNo, kTensors})
    if (!file.Has(key))
      return BadKey(
          file, key,
          Concat("key ", key, " is missing in a file that says it is one of ", split.count, " shards"));
  return std::optional(split);
}

absl::StatusOr<std::vector<std::string>> ShardPaths(const std::string& path, const Split& split) {
  const std::optional<ShardName> name = ParseShardName(path);
  if (!name)
    return MakeError("Q1401",
                     Concat("the file is ", ShardText(split.no, split.count),
                            " of a model, and its name does not say which files the others are"),
                     path, "name all shards as they were published: STEM-00001-of-0000N.gguf and so on");
  if (name->number != split.no + 1 || name->count != split.count)
    return MakeError("Q1403",
                     Concat("the file is ", ShardText(name->number - 1, name->count), " by its name, but ",
                            ShardText(split.no, split.count), " by its metadata"),
                     path, "give the shards the names under which they were published");
  std::vector<std::string> paths;
  for (int64_t no = 0; no < split.count; ++no)
    paths.push_back(Concat(name->stem, absl::StrFormat("-%05d-of-%05d.gguf", no + 1, split.count)));
  return paths;
}

absl::Status CheckShard(const File& shard, const Split& expected) {
  absl::StatusOr<std::optional<Split>> found = ReadSplit(shard);
  if (!found.ok()) return found.status();
  const std::string promised = ShardText(expected.no, expected.count);
  const auto fail = [&](std::string what) {
    return MakeError("Q1405", std::move(what), shard.path(),
                     "a shard is doubled, renamed or of another model; fetch the set again");
  };
  if (!*found) return fail(Concat("the file is a whole model, expected ", promised));
  const Split& split = **found;
  if (split.no != expected.no || split.count != expected.count)
    return fail(
        Concat("the file is ", ShardText(split.no, split.count), " by its metadata, expected ", promised));
  if (split.tensors != expected.tensors)
    return fail(Concat(promised, " says that all shards hold ", split.tensors,
                       " tensors, another one that they hold ", expected.tensors));
  return absl::OkStatus();
}

// What a shard says of the model is what the first one says; later ones say nothing, or all of it again.
absl::Status File::CheckSameMetadata(const File& first, const File& shard, const std::string& which) {
  for (const Value& value : shard.impl_->values) {
    if (value.key == kNo || value.key == "general.alignment") continue;  // of each file alone
    const auto found = first.impl_->value_index.find(value.key);
    const bool known = found != first.impl_->value_index.end();
    if (known && SameValue(value, first.impl_->values[found->second])) continue;
    return MakeError(
        "Q1405",
        Concat("key ", Quoted(value.key), " of ", which,
               known ? " has another value than in the first shard" : " is not in the first shard"),
        KeyWhere(shard.path(), value.key, value.offset),
        "the shards are not of one model; fetch the set again");
  }
  return absl::OkStatus();
}

// Every tensor is in one shard, and together they are as many as the shards say.
absl::Status File::CheckSameTensors(std::span<const File* const> shards, int64_t expected) {
  std::map<std::string_view, size_t> seen;
  const int64_t count = static_cast<int64_t>(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    std::vector<std::string_view> names;
    for (const Tensor& tensor : shards[i]->tensors()) names.push_back(tensor.name);
    for (const IntegerTensor& tensor : shards[i]->integer_tensors()) names.push_back(tensor.name);
    for (const RefusedTensor& tensor : shards[i]->refused_tensors()) names.push_back(tensor.name);
    for (std::string_view name : names) {
      const auto [at, inserted] = seen.emplace(name, i);
      if (inserted) continue;
      return MakeError("Q1202",
                       Concat("tensor ", Quoted(name), " is in ", ShardText(static_cast<int64_t>(i), count),
                              " and in ", ShardText(static_cast<int64_t>(at->second), count)),
                       shards[i]->path(), "the shards are not of one model; fetch the set again");
    }
  }
  const auto found = static_cast<int64_t>(seen.size());
  if (found == expected) return absl::OkStatus();
  return MakeError("Q1406",
                   Concat("the ", count, " shards hold ", found, " tensors together, expected ", expected,
                          " (", kTensors, ")"),
                   shards.front()->path(), "the shards are not of one model; fetch the set again");
}

absl::Status File::AddSiblings(std::unique_ptr<File>& file, bool for_report) {
  absl::StatusOr<std::optional<Split>> read = ReadSplit(*file);
  if (!read.ok()) return read.status();
  if (!*read) return absl::OkStatus();
  const Split own = **read;
  absl::StatusOr<std::vector<std::string>> paths = ShardPaths(file->path(), own);
  if (!paths.ok()) return paths.status();
  std::vector<std::unique_ptr<File>> siblings(own.count);
  std::vector<const File*> shards;
  for (int64_t no = 0; no < own.count; ++no) {
    if (no == own.no) {
      shards.push_back(file.get());
      continue;
    }
    absl::StatusOr<std::unique_ptr<File>> sibling = Map((*paths)[no]);
    if (IsResourceError(sibling.status())) return sibling.status();
    if (!sibling.ok())
      return MakeError("Q1404",
                       Concat(ShardText(no, own.count), " is missing: ", PartsOf(sibling.status()).what),
                       (*paths)[no], "put all shards into one folder");
    if (absl::Status s = (*sibling)->Load(for_report); !s.ok()) return s;
    if (absl::Status s = CheckShard(**sibling, {no, own.count, own.tensors}); !s.ok()) return s;
    siblings[no] = *std::move(sibling);
    shards.push_back(siblings[no].get());
  }
  for (int64_t no = 1; no < own.count; ++no)
    if (absl::Status s = CheckSameMetadata(*shards[0], *shards[no], ShardText(no, own.count)); !s.ok())
      return s;
  if (absl::Status s = CheckSameTensors(shards, own.tensors); !s.ok()) return s;
  siblings[own.no] = std::move(file);
  file = std::move(siblings[0]);
  siblings.erase(siblings.begin());
  file->Absorb(std::move(siblings));
  return absl::OkStatus();
}

void File::Absorb(std::vector<std::unique_ptr<File>> siblings) {
  Impl& impl = *impl_;
  int shard = 0;
  for (const std::unique_ptr<File>& sibling : siblings) {
    ++shard;
    for (Tensor& tensor : sibling->impl_->tensors) {
      tensor.shard = shard;
      impl.tensor_index.emplace(tensor.name, impl.tensors.size());
      impl.tensors.push_back(std::move(tensor));
    }
    for (IntegerTensor& tensor : sibling->impl_->integers) {
      tensor.shard = shard;
      impl.integers.push_back(std::move(tensor));
    }
    std::move(sibling->impl_->refused_tensors.begin(), sibling->impl_->refused_tensors.end(),
              std::back_inserter(impl.refused_tensors));
    std::move(sibling->impl_->refused.begin(), sibling->impl_->refused.end(),
              std::back_inserter(impl.refused));
  }
  impl.siblings = std::move(siblings);
}

absl::Status File::Join(std::unique_ptr<File> other,
                        const std::function<std::string(const std::string&)>& name_of) {
  Impl& impl = *impl_;
  const auto before = static_cast<int>(shards().size());
  const auto taken = [&](const std::string& name) {
    return MakeError("Q1202", Concat("tensor ", Quoted(name), " is in ", other->path(), " too"), path(),
                     "one of the files has it already: leave the other one out");
  };
  for (Tensor tensor : other->tensors()) {
    std::string name = name_of(tensor.name);
    if (name.empty()) continue;
    if (FindIntegers(name) || !impl.tensor_index.emplace(name, impl.tensors.size()).second)
      return taken(name);
    tensor.name = std::move(name);
    tensor.shard += before;
    impl.tensors.push_back(std::move(tensor));
  }
  for (IntegerTensor tensor : other->integer_tensors()) {
    std::string name = name_of(tensor.name);
    if (name.empty()) continue;
    if (FindIntegers(name) || FindTensor(name)) return taken(name);
    tensor.name = std::move(name);
    tensor.shard += before;
    impl.integers.push_back(std::move(tensor));
  }
  impl.siblings.push_back(std::move(other));
  impl.has_joined = true;
  return absl::OkStatus();
}

}  // namespace qcc::gguf
