#include "runtime/qrun/prefix_file.h"

#include <algorithm>
#include <cstring>

namespace qrun {
namespace {

constexpr char kPrefixMagic[8] = {'Q', 'R', 'U', 'N', 'P', 'R', 'E', '1'};
constexpr std::string_view kSuffix = ".prefix";
constexpr size_t kDigits = 2 * sizeof(qrt::Hash128);

std::span<const uint8_t> Bytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

qrt::Hash128 HashOfFile(PrefixHead head, std::string_view behind, std::string_view rest) {
  std::memset(head.hash, 0, sizeof head.hash);
  qrt::Hasher hasher;
  hasher.Update(Bytes(&head, sizeof head));
  hasher.Update(Bytes(behind.data(), behind.size()));
  hasher.Update(Bytes(rest.data(), rest.size()));
  return hasher.Finish();
}

}  // namespace

PrefixHead MakePrefixHead(const qrt::Hash128& binding, std::span<const int32_t> tokens,
                          std::string_view snapshot) {
  PrefixHead head = {};
  std::memcpy(head.magic, kPrefixMagic, sizeof head.magic);
  std::memcpy(head.binding, binding.data(), sizeof head.binding);
  head.tokens = tokens.size();
  head.snapshot_bytes = snapshot.size();
  const qrt::Hash128 hash = HashOfFile(
      head, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)}, snapshot);
  std::memcpy(head.hash, hash.data(), sizeof head.hash);
  return head;
}

std::string PrefixFileName(const qrt::Hash128& binding, std::span<const int32_t> tokens) {
  const qrt::Hash128 hash = qrt::HashOf(Bytes(tokens.data(), tokens.size() * sizeof(int32_t)));
  return qrt::Hex(binding) + "-" + qrt::Hex(hash) + std::string(kSuffix);
}

bool IsPrefixFileName(std::string_view name) {
  return name.size() == 2 * kDigits + 1 + kSuffix.size() && name[kDigits] == '-' &&
         name.substr(2 * kDigits + 1) == kSuffix && qrt::ParseHash(name.substr(0, kDigits)) &&
         qrt::ParseHash(name.substr(kDigits + 1, kDigits));
}

PrefixRead ReadPrefixHead(std::string_view begin, uint64_t file_bytes, const qrt::Hash128& binding,
                          PrefixHead* out) {
  if (begin.size() < sizeof kPrefixMagic || std::memcmp(begin.data(), kPrefixMagic, sizeof kPrefixMagic) != 0)
    return PrefixRead::kForeign;
  if (begin.size() < sizeof *out) return PrefixRead::kDamaged;
  std::memcpy(out, begin.data(), sizeof *out);
  if (std::memcmp(out->binding, binding.data(), sizeof out->binding) != 0) return PrefixRead::kForeign;
  uint64_t left = file_bytes - sizeof *out;
  if (out->tokens > left / sizeof(int32_t)) return PrefixRead::kDamaged;
  left -= out->tokens * sizeof(int32_t);
  return out->snapshot_bytes == left ? PrefixRead::kGood : PrefixRead::kDamaged;
}

PrefixRead ReadPrefix(std::string_view file, const qrt::Hash128& binding, PrefixHead* out,
                      std::string_view* snapshot) {
  const PrefixRead head = ReadPrefixHead(file, file.size(), binding, out);
  if (head != PrefixRead::kGood) return head;
  const std::string_view behind = file.substr(sizeof *out);
  const qrt::Hash128 hash = HashOfFile(*out, behind, {});
  if (std::memcmp(hash.data(), out->hash, sizeof out->hash) != 0) return PrefixRead::kDamaged;
  *snapshot = behind.substr(out->tokens * sizeof(int32_t));
  return PrefixRead::kGood;
}

}  // namespace qrun
