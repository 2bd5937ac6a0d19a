// The checks behind Artifact::Open, in the order in which they must run: each may rely on those before it.
#ifndef QRT_ARTIFACT_VERIFIER_H_
#define QRT_ARTIFACT_VERIFIER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/abi/manifest_generated.h"
#include "runtime/artifact/artifact.h"
#include "runtime/artifact/unfolding.h"
#include "runtime/base/status.h"

namespace qrt {

class ArtifactVerifier {
 public:
  explicit ArtifactVerifier(Artifact& artifact, uint32_t manifest_section = 0)
      : a_(artifact), manifest_section_(manifest_section) {}

  // Fills the artifact from its bytes. On error it must not be used.
  Status Run();

 private:
  // States, programs and code of a model, or of a part of one.
  Status CheckRunning();
  // container.cc: header, section table, padding, hashes, kinds.
  Status ReadHeader();
  Status ReadTable(uint32_t count);
  Status CheckPadding(uint64_t begin, uint64_t end);
  Status CheckHashes();
  Status CheckKinds();
  // manifest.cc: FlatBuffer -> Manifest, every field checked.
  Status ReadManifest();
  Status ReadStates(const abi::Manifest& manifest);
  Status ReadPrograms(const abi::Manifest& manifest);
  Status ReadCode(const abi::Manifest& manifest);
  Status ReadWeights(const abi::Manifest& manifest);
  Status ReadKernels(const abi::Manifest& manifest);
  Status ReadStages(const abi::Manifest& manifest);
  Status ReadLostRoles(const abi::Manifest& manifest);
  Status ReadText(const abi::Manifest& manifest);
  Status ReadOrigin(const abi::Manifest& manifest);
  // Q4015 if `n` is above `limit`, or that many entries of `entry_bytes` are more than may unfold. Asked
  // before a list or text is copied.
  Status Unfold(const char* field, uint64_t n, uint64_t limit, uint64_t entry_bytes);
  // Absent: empty.
  Status Copy(const char* field, const flatbuffers::String* text, std::string* out);
  // A list of numbers, checked to lie where they can be read in place.
  template <typename T>
  Status Copy(const char* field, const flatbuffers::Vector<T>& list, uint64_t limit, std::vector<T>* out);
  Status CheckModel();
  Status CheckStates();
  // The areas hold the states and nothing more.
  Status CheckIntegerRows(const StateInfo& s, const std::string& field) const;
  Status CheckEntries(const StateInfo& s, const std::string& field) const;
  Status CheckStateAreas() const;
  Status CheckSampling();
  // programs.cc: what the manifest says of them.
  Status CheckPrograms();
  Status CheckFacts(const ProgramInfo& program) const;
  // parts.cc: models whose layers run on several devices.
  Status ReadParts(const abi::Manifest& manifest);
  Status CheckPartLists() const;
  Status CheckPartPrograms(const Manifest& part) const;
  // Makes the artifact's parts and checks each like an artifact of its own.
  Status CheckParts();
  // tables.cc: what the manifest refers to.
  Status CheckCode();
  Status CheckCpuCode(const CodeInfo& code) const;
  // Q4026 unless the manifest is what the code of this entry was made for.
  Status CheckBasis(const CodeInfo& code) const;
  Status CheckTokenizerInfo();
  Status ReadTokenizer();
  Status PlaceTokenizerTables(const qrt_tokenizer_header& header, TokenizerTables* tables) const;
  Status CheckTokens(const qrt_tokenizer_header& header, const TokenizerTables& tables) const;
  Status CheckMerges(const qrt_tokenizer_header& header, const TokenizerTables& tables) const;
  Status CheckSpecialTokens(const qrt_tokenizer_header& header, const TokenizerTables& tables) const;
  Status BadTokenizer(uint64_t offset, std::string message) const;
  Status ReadChatTemplate(uint32_t section);
  Status ReadGoldens(uint32_t section);

  // An error in the file as such, at a byte offset in it.
  Status Corrupt(uint32_t number, uint64_t offset, std::string message) const;
  // An error inside a section: `offset` counts from its start.
  Status CorruptIn(uint32_t number, uint32_t section, uint64_t offset, std::string message) const;
  // Q4015: a manifest field has an impossible value.
  Status BadField(const std::string& field, const std::string& found, const std::string& expected) const;
  // Q4015 unless there is a section `index`.
  Status CheckIndex(const std::string& field, uint32_t index) const;
  // Q4015 unless `index` is a section of this kind.
  Status CheckReference(const std::string& field, uint32_t index, uint32_t kind) const;

  Artifact& a_;
  uint32_t manifest_section_;
  Unfolding unfolding_;       // of the manifest
  uint64_t widest_cols_ = 0;  // of a weight; of a part: of the whole model's
};

}  // namespace qrt

#endif  // QRT_ARTIFACT_VERIFIER_H_
