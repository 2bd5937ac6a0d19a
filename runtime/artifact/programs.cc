// What the manifest says of programs: that each can be, and that no two are one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/artifact/verifier.h"

namespace qrt {
namespace {

constexpr uint32_t kLogitsGroup = 16;  // trimmed rows end with a group of rows of the head

}  // namespace

Status ArtifactVerifier::CheckFacts(const ProgramInfo& program) const {
  const ProgramFacts& facts = program.facts;
  const std::string field = "program '" + program.name + "'";
  const auto streams = static_cast<int64_t>(a_.manifest_.streams.size());
  if (facts.takes == 0) return BadField(field + ".takes", "0", "an input");
  if ((facts.takes & kGiven) != 0 && (facts.given_cols == 0 || facts.given_cols > kMaxEmbedding)) {
    return BadField(field + ".given_cols", std::to_string(facts.given_cols),
                    "1 to " + std::to_string(kMaxEmbedding));
  }
  // Else programs that are alike would count as two.
  if ((facts.takes & kGiven) == 0 && facts.given_cols != 0) {
    return BadField(field + ".given_cols", std::to_string(facts.given_cols), "0: it takes no given rows");
  }
  const bool takes_stream = (facts.takes & kStream) != 0;
  if (!takes_stream && facts.stream != -1) {
    return BadField(field + ".stream", std::to_string(facts.stream), "-1: it takes none");
  }
  if (takes_stream && (facts.stream < 0 || facts.stream >= streams)) {
    return BadField(field + ".stream", std::to_string(facts.stream),
                    streams == 0 ? "no stream: there is none" : "0 to " + std::to_string(streams - 1));
  }
  if (facts.leaves < -1 || facts.leaves >= streams) {
    return BadField(field + ".leaves", std::to_string(facts.leaves),
                    streams == 0 ? "-1: there is no stream" : "-1 to " + std::to_string(streams - 1));
  }
  for (size_t i = 0; i < facts.advances.size(); ++i) {
    if (facts.advances[i] >= a_.manifest_.states.size() ||
        (i > 0 && facts.advances[i - 1] >= facts.advances[i])) {
      return BadField(field + ".advances[" + std::to_string(i) + "]", std::to_string(facts.advances[i]),
                      "rising places of the " + std::to_string(a_.manifest_.states.size()) + " states");
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckPrograms() {
  const Manifest& m = a_.manifest_;
  if (m.programs.empty()) return BadField("the length of programs", "0", "at least 1");
  std::vector<const ProgramInfo*> order;
  uint64_t most_rows = 0;
  for (const ProgramInfo& p : m.programs) {
    const std::string field = "program '" + p.name + "'";
    QRT_RETURN_IF_ERROR(CheckFacts(p));
    if (p.rows == 0 || p.rows > kMaxRows) {
      return BadField(field + ".rows", std::to_string(p.rows), "1 to " + std::to_string(kMaxRows));
    }
    // The sampler is given all tokens of the rows that are chosen.
    const bool trims = p.facts.gives == Output::kLogits && p.logits_cols < m.model.vocab_size &&
                       p.logits_cols % kLogitsGroup == 0;
    if (p.logits_cols != 0 && !trims) {
      return BadField(field + ".logits_cols", std::to_string(p.logits_cols),
                      "0, or of logits of every row a multiple of " + std::to_string(kLogitsGroup) +
                          " below the vocabulary of " + std::to_string(m.model.vocab_size));
    }
    if (p.logits_cols != 0 && !m.draft_tokens.empty() && m.draft_tokens.size() != p.logits_cols) {
      return BadField("the length of draft_tokens", std::to_string(m.draft_tokens.size()),
                      std::to_string(p.logits_cols) + " (" + field + ".logits_cols)");
    }
    most_rows = std::max<uint64_t>(most_rows, p.rows);
    order.push_back(&p);
  }
  for (const uint32_t id : m.draft_tokens) {
    if (id >= m.model.vocab_size) {
      return BadField("an id of draft_tokens", std::to_string(id),
                      "one below " + std::to_string(m.model.vocab_size));
    }
  }
  const uint64_t most_arena =
      MostArenaBytes(most_rows, std::max<uint64_t>(m.model.embedding_length, widest_cols_));
  for (const ProgramInfo& p : m.programs) {
    const uint64_t given = uint64_t{p.rows} * p.facts.given_cols * sizeof(float);
    if (p.arena_bytes < given || p.arena_bytes > most_arena) {
      return BadField(
          "program '" + p.name + "'.arena_bytes", std::to_string(p.arena_bytes),
          std::to_string(given) + " (the rows that it is given) to " + std::to_string(most_arena));
    }
  }
  const auto key = [](const ProgramInfo* p) {
    const ProgramFacts& f = p->facts;
    return std::tie(p->rows, f.takes, f.given_cols, f.stream, f.leaves, f.gives, f.advances);
  };
  std::sort(order.begin(), order.end(), [&](auto* a, auto* b) { return key(a) < key(b); });
  const auto twice =
      std::adjacent_find(order.begin(), order.end(), [&](auto* a, auto* b) { return key(a) == key(b); });
  if (twice != order.end()) {
    return BadField("programs",
                    "'" + (*twice)->name + "' and '" + twice[1]->name + "' alike, for " +
                        std::to_string((*twice)->rows) + " rows",
                    "programs that differ in what they take, advance, leave or give, or in rows");
  }
  return Status();
}

}  // namespace qrt
