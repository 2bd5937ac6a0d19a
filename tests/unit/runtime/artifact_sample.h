// A small artifact with every kind of section, and ways to lie in it: content can be changed before it is
// written (all hashes right), bytes can be changed afterwards with or without sealing them again.
#ifndef QCC_TESTS_UNIT_RUNTIME_ARTIFACT_SAMPLE_H_
#define QCC_TESTS_UNIT_RUNTIME_ARTIFACT_SAMPLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/artifact/manifest_spec.h"
#include "runtime/abi/qbin.h"
#include "runtime/artifact/artifact.h"
#include "tests/unit/runtime/aligned_bytes.h"
#include "tests/unit/temp_folder.h"

namespace qrt::testing {

// What goes into the sample; a test changes it before it is written.
struct SampleParts {
  qcc::compiler::ManifestSpec manifest;  // section indices are filled in unless `keep_references`
  std::vector<uint8_t> code, weights, tokenizer, chat_template, goldens;
  std::vector<std::pair<uint32_t, uint32_t>> extra_sections;  // kind, flags; one byte each
  bool keep_references = false;
};

SampleParts MakeParts();
// Of MakeParts, but its recurrent states keep what each of 16 tokens leaves.
SampleParts PartsWithEntries();
// Bytes of the tokenizer section of a 272-token vocabulary: 256 bytes, merges, specials. The tokens of two
// bytes may be exchanged, so that a model that says the one writes the other.
std::vector<uint8_t> SampleTokenizer(uint8_t one = 0, uint8_t other = 0);

// Writes with the compiler's ArtifactWriter; fails the test on an error.
void WriteParts(const SampleParts& parts, const std::string& path);
std::vector<uint8_t> BytesOfParts(const SampleParts& parts);
std::vector<uint8_t> ReadFile(const std::string& path);

qbin_header HeaderOf(std::span<const uint8_t> file);
qbin_section SectionOf(std::span<const uint8_t> file, uint32_t index);
void SetHeader(std::vector<uint8_t>& file, const qbin_header& header);
void SetSection(std::vector<uint8_t>& file, uint32_t index, const qbin_section& section);
// Index of the first section of a kind.
uint32_t FindSection(std::span<const uint8_t> file, uint32_t kind);
// Makes the hash of every section that lies in the file, and of the header, right again.
void Seal(std::vector<uint8_t>& file);
// Only the header's.
void SealHeader(std::vector<uint8_t>& file);

// Opens and, if that succeeds, reads everything that an accessor gives out.
Status OpenAndUse(std::span<const uint8_t> file);
void ExpectRefusal(const Status& status, uint32_t number, const std::string& says);

}  // namespace qrt::testing

#endif  // QCC_TESTS_UNIT_RUNTIME_ARTIFACT_SAMPLE_H_
