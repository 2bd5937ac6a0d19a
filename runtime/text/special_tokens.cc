#include "runtime/text/special_tokens.h"

#include <algorithm>
#include <functional>
#include <string>

namespace qrt::text {
namespace {

std::vector<std::string> Written(const TokenizerTables& tables, bool control_only, bool reversed) {
  std::vector<std::string> texts;
  for (const uint32_t id : tables.special) {
    if (control_only && tables.types[id] == QRT_TOKEN_USER_DEFINED) continue;
    const std::string_view bytes = tables.bytes(id);
    if (reversed) {
      texts.emplace_back(bytes.rbegin(), bytes.rend());
    } else {
      texts.emplace_back(bytes);
    }
  }
  return texts;
}

}  // namespace

SpecialTokens::SpecialTokens(const TokenizerTables& tables)
    : tables_(tables),
      tokens_back_(Written(tables, false, true)),
      control_back_(Written(tables, true, true)),
      control_(Written(tables, true, false)) {
  const size_t count = tables_.special.size();
  user_defined_.resize(count);
  for (Chain* chain : {&all_, &user_}) {
    chain->next.assign(count, kNone);
    chain->jump.assign(count, kNone);
    chain->depth.assign(count, 0);
  }
  // Shorter ones first.
  for (uint32_t i = static_cast<uint32_t>(count); i-- > 0;) {
    user_defined_[i] = tables_.types[tables_.special[i]] == QRT_TOKEN_USER_DEFINED;
    const uint32_t shorter = tokens_back_.Shorter(i);
    all_.Add(i, shorter);
    user_.Add(i, shorter == kNone || user_defined_[shorter] != 0 ? shorter : user_.next[shorter]);
  }
}

// Jumps of skewed binary numbers: from a token of depth d any one below is reached in O(log d) steps.
void SpecialTokens::Chain::Add(uint32_t token, uint32_t shorter) {
  next[token] = shorter;
  if (shorter == kNone) {
    jump[token] = token;  // the end of the chain
    return;
  }
  depth[token] = depth[shorter] + 1;
  const uint32_t far = jump[shorter], farther = jump[far];
  jump[token] = depth[shorter] - depth[far] == depth[far] - depth[farther] ? farther : shorter;
}

uint32_t SpecialTokens::AtMost(const Chain& chain, uint32_t token, size_t bytes) const {
  while (token != kNone && Size(token) > bytes) {
    const uint32_t far = chain.jump[token];
    token = far != token && Size(far) > bytes ? far : chain.next[token];
  }
  return token;
}

uint32_t SpecialTokens::Longest(uint32_t token, size_t room, size_t special_room) const {
  const uint32_t any = AtMost(all_, token, std::min(room, special_room));
  const uint32_t user = AtMost(user_, Counts(token) ? token : user_.next[token], room);
  return std::min(any, user);  // the longer one; kNone is the highest
}

std::vector<SpecialTokens::Taken> SpecialTokens::Cut(std::string_view text, bool parse_special,
                                                     std::span<const size_t> as_text) const {
  std::vector<Taken> taken;
  if (tables_.special.empty()) return taken;
  // How far a token that is not user-defined may reach from `pos`; `excluded`: the first of as_text from
  // there.
  const auto special_room = [&](size_t pos, std::span<const size_t>::iterator excluded) {
    return !parse_special ? 0 : (excluded == as_text.end() ? text.size() : *excluded) - pos;
  };
  // For every place the longest token that may still begin there, the lowest (longest, leftmost) on top. So
  // there are never more than places, where all occurrences of all tokens would be their product.
  std::vector<uint64_t> heap;
  const auto later = std::greater<uint64_t>();
  auto excluded = as_text.end();
  uint32_t state = Matcher::kStart;
  for (size_t pos = text.size(); pos-- > 0;) {
    state = tokens_back_.Next(state, text[pos]);
    while (excluded != as_text.begin() && *(excluded - 1) >= pos) --excluded;
    const uint32_t found = tokens_back_.Found(state);
    if (found == kNone) continue;
    const uint32_t token = Longest(found, text.size() - pos, special_room(pos, excluded));
    if (token != kNone) heap.push_back(uint64_t{token} << 32 | pos);
  }
  if (heap.empty()) return taken;
  std::make_heap(heap.begin(), heap.end(), later);
  std::vector<bool> covered(text.size(), false);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const uint32_t token = static_cast<uint32_t>(heap.back() >> 32);
    const size_t pos = static_cast<uint32_t>(heap.back()), size = Size(token);
    heap.pop_back();
    // What was taken earlier is at least as long, so an overlap always covers an end of the newcomer.
    if (covered[pos]) continue;
    if (!covered[pos + size - 1]) {
      std::fill_n(covered.begin() + static_cast<ptrdiff_t>(pos), size, true);
      taken.push_back({static_cast<uint32_t>(pos), tables_.special[token]});
      continue;
    }
    // For the same reason only one stretch begins within the newcomer, and reaches over its end. A stretch
    // turns away at most as many newcomers as it has bytes, so all of them are as many as the text has.
    size_t room = 1, over = size - 1;
    while (room < over) {
      const size_t middle = room + (over - room) / 2;
      if (covered[pos + middle]) {
        over = middle;
      } else {
        room = middle + 1;
      }
    }
    const uint32_t shorter =
        Longest(token, room, special_room(pos, std::lower_bound(as_text.begin(), as_text.end(), pos)));
    if (shorter == kNone) continue;
    heap.push_back(uint64_t{shorter} << 32 | pos);
    std::push_heap(heap.begin(), heap.end(), later);
  }
  std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.pos < b.pos; });
  return taken;
}

std::vector<size_t> SpecialTokens::FindControl(std::string_view text) const {
  std::vector<size_t> found;
  uint32_t state = Matcher::kStart;
  for (size_t pos = text.size(); pos-- > 0;) {
    state = control_back_.Next(state, text[pos]);
    if (control_back_.Found(state) != kNone) found.push_back(pos);
  }
  // What the state stands for is an end of a token, and the beginning of the text.
  if (state != Matcher::kStart) found.push_back(0);
  state = Matcher::kStart;
  for (const char byte : text.substr(text.size() - std::min(text.size(), control_.longest()))) {
    state = control_.Next(state, byte);
  }
  for (; state != Matcher::kStart; state = control_.Shorten(state)) {
    found.push_back(text.size() - control_.Depth(state));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace qrt::text
