#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/text/nfc.h"

namespace qrt::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
// Up to this many bytes, looking at all neighbours for every merge beats the heap.
constexpr size_t kShortPiece = 48;

}  // namespace

// Buffers reused from piece to piece. A symbol is a token so far; symbols of a piece form a linked list.
struct Tokenizer::Scratch {
  size_t size = 0;  // symbols of the piece at its begin; buffers may be longer
  std::vector<uint32_t> id, prev, next;
  std::vector<uint32_t> rank, result;  // of the merge of symbol i with the one after it; rank kNone: no rule
  std::string normal;                  // the text in form C
  std::vector<uint64_t> heap;          // rank << 32 | position, smallest on top; may hold outdated entries

  // Pieces are a few bytes each: buffers only grow.
  void Resize(size_t n) {
    size = n;
    if (n <= id.size()) return;
    for (std::vector<uint32_t>* buffer : {&id, &prev, &next, &rank, &result}) buffer->resize(n);
  }
};

Tokenizer::Tokenizer(const TokenizerTables& tables, Pretokenizer pretokenizer, std::span<const uint32_t> eog,
                     bool nfc)
    : tables_(tables),
      pretokenizer_(std::move(pretokenizer)),
      nfc_(nfc),
      eog_(eog.begin(), eog.end()),
      special_(tables) {
  std::sort(eog_.begin(), eog_.end());
  merge_begin_.assign(size_t{tables_.n_tokens} + 1, 0);
  for (const qrt_tokenizer_merge& merge : tables_.merges) ++merge_begin_[size_t{merge.left} + 1];
  for (size_t i = 1; i < merge_begin_.size(); ++i) merge_begin_[i] += merge_begin_[i - 1];
}

Result<Tokenizer> Tokenizer::Create(const TokenizerTables& tables, std::string_view pre,
                                    std::span<const uint32_t> eog, bool nfc) {
  Result<Pretokenizer> pretokenizer = Pretokenizer::Create(pre);
  if (!pretokenizer.ok()) return pretokenizer.status();
  return Tokenizer(tables, *std::move(pretokenizer), eog, nfc);
}

const qrt_tokenizer_merge* Tokenizer::FindMerge(uint32_t left, uint32_t right) const {
  const qrt_tokenizer_merge* begin = tables_.merges.data() + merge_begin_[left];
  const qrt_tokenizer_merge* end = tables_.merges.data() + merge_begin_[size_t{left} + 1];
  const qrt_tokenizer_merge* it = std::lower_bound(
      begin, end, right, [](const qrt_tokenizer_merge& merge, uint32_t r) { return merge.right < r; });
  return it != end && it->right == right ? it : nullptr;
}

Status Tokenizer::Encode(std::string_view text, bool parse_special, std::vector<int32_t>* out,
                         std::span<const size_t> as_text, bool normalize) const {
  if (text.size() > kMaxTextBytes) {
    return Status(Code::kInvalidArgument, 7104,
                  "the text has " + std::to_string(text.size()) + " bytes, the limit is " +
                      std::to_string(kMaxTextBytes),
                  "", "tokenize it in parts, cut at line ends");
  }
  const size_t old_size = out->size();

  const std::vector<SpecialTokens::Taken> taken = special_.Cut(text, parse_special, as_text);
  Scratch scratch;
  size_t begin = 0;
  for (size_t i = 0; i <= taken.size(); ++i) {
    const size_t end = i < taken.size() ? taken[i].pos : text.size();
    Status status = EncodeRaw(text.substr(begin, end - begin), normalize && nfc_, &scratch, out);
    if (!status.ok()) {
      out->resize(old_size);
      return status;
    }
    if (i < taken.size()) {
      out->push_back(static_cast<int32_t>(taken[i].id));
      begin = end + tables_.bytes(taken[i].id).size();
    }
  }
  return Status();
}

Status Tokenizer::EncodeRaw(std::string_view text, bool normalize, Scratch* scratch,
                            std::vector<int32_t>* out) const {
  if (normalize) text = NormalizeNfc(text, &scratch->normal);
  return pretokenizer_.Split(text, [&](std::string_view piece) { EncodePiece(piece, scratch, out); });
}

void Tokenizer::EncodePiece(std::string_view piece, Scratch* scratch, std::vector<int32_t>* out) const {
  const size_t n = piece.size();
  scratch->Resize(n);
  for (size_t i = 0; i < n; ++i) {
    scratch->id[i] = tables_.byte_token[static_cast<unsigned char>(piece[i])];
    scratch->prev[i] = i == 0 ? kNone : static_cast<uint32_t>(i - 1);
    scratch->next[i] = i + 1 == n ? kNone : static_cast<uint32_t>(i + 1);
  }
  for (size_t i = 0; i < n; ++i) {
    const qrt_tokenizer_merge* merge = i + 1 < n ? FindMerge(scratch->id[i], scratch->id[i + 1]) : nullptr;
    scratch->rank[i] = merge != nullptr ? merge->rank : kNone;
    scratch->result[i] = merge != nullptr ? merge->result : 0;
  }
  if (n <= kShortPiece) {
    MergeShort(scratch);
  } else {
    MergeLong(scratch);
  }
  for (uint32_t i = 0; i != kNone; i = scratch->next[i]) out->push_back(static_cast<int32_t>(scratch->id[i]));
}

void Tokenizer::MergeShort(Scratch* s) const {
  for (;;) {
    uint32_t best = kNone, best_rank = kNone;
    for (uint32_t i = 0; i != kNone; i = s->next[i]) {
      if (s->rank[i] < best_rank) {
        best = i;
        best_rank = s->rank[i];
      }
    }
    if (best == kNone) return;
    s->id[best] = s->result[best];
    s->next[best] = s->next[s->next[best]];
    for (uint32_t i : {best, s->prev[best]}) {
      if (i == kNone) continue;
      const uint32_t right = s->next[i];
      const qrt_tokenizer_merge* merge = right != kNone ? FindMerge(s->id[i], s->id[right]) : nullptr;
      s->rank[i] = merge != nullptr ? merge->rank : kNone;
      s->result[i] = merge != nullptr ? merge->result : 0;
    }
    if (s->next[best] != kNone) s->prev[s->next[best]] = best;
  }
}

void Tokenizer::MergeLong(Scratch* s) const {
  auto entry = [&](uint32_t i) { return uint64_t{s->rank[i]} << 32 | i; };
  const auto later = std::greater<uint64_t>();
  s->heap.clear();
  for (uint32_t i = 0; i < s->size; ++i) {
    if (s->rank[i] != kNone) s->heap.push_back(entry(i));
  }
  std::make_heap(s->heap.begin(), s->heap.end(), later);
  while (!s->heap.empty()) {
    std::pop_heap(s->heap.begin(), s->heap.end(), later);
    const uint64_t top = s->heap.back();
    s->heap.pop_back();
    const uint32_t i = static_cast<uint32_t>(top);
    // Ranks are distinct, so a symbol whose rank still is the entry's still has the same right neighbour.
    if (s->rank[i] != top >> 32) continue;
    const uint32_t right = s->next[i], after = s->next[right];
    s->id[i] = s->result[i];
    s->next[i] = after;
    if (after != kNone) s->prev[after] = i;
    s->rank[right] = kNone;
    for (uint32_t left : {i, s->prev[i]}) {
      if (left == kNone) continue;
      const uint32_t neighbour = s->next[left];
      const qrt_tokenizer_merge* merge =
          neighbour != kNone ? FindMerge(s->id[left], s->id[neighbour]) : nullptr;
      s->rank[left] = merge != nullptr ? merge->rank : kNone;
      s->result[left] = merge != nullptr ? merge->result : 0;
      if (merge != nullptr) {
        s->heap.push_back(entry(left));
        std::push_heap(s->heap.begin(), s->heap.end(), later);
      }
    }
  }
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || static_cast<uint32_t>(id) >= tables_.n_tokens) return {};
  return tables_.bytes(static_cast<uint32_t>(id));
}

Status Tokenizer::Decode(std::span<const int32_t> ids, std::string* out) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= tables_.n_tokens) {
      return Status(Code::kInvalidArgument, 7105,
                    "token id " + std::to_string(ids[i]) + " is outside the vocabulary of " +
                        std::to_string(tables_.n_tokens) + " tokens",
                    "token " + std::to_string(i));
    }
  }
  for (int32_t id : ids) out->append(tables_.bytes(static_cast<uint32_t>(id)));
  return Status();
}

bool Tokenizer::IsEog(int32_t id) const {
  return id >= 0 && std::binary_search(eog_.begin(), eog_.end(), static_cast<uint32_t>(id));
}

bool Tokenizer::IsControl(int32_t id) const {
  return id >= 0 && static_cast<uint32_t>(id) < tables_.n_tokens &&
         tables_.types[static_cast<size_t>(id)] == QRT_TOKEN_CONTROL;
}

}  // namespace qrt::text
