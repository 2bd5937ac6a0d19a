// Artifacts whose hashes are all right and whose code, tokenizer, template or goldens are not: each lie is
// refused by the check that is there for it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "tests/unit/runtime/artifact_sample.h"

namespace qrt::testing {
namespace {

struct PartLie {
  const char* name;
  void (*tell)(SampleParts& parts);
  uint32_t number;
  const char* says;
};

void SetWord(std::vector<uint8_t>& bytes, size_t at, uint32_t value) {
  std::memcpy(bytes.data() + at, &value, 4);
}

qrt_tokenizer_header TokenizerHeader(const SampleParts& p) {
  qrt_tokenizer_header h;
  std::memcpy(&h, p.tokenizer.data(), sizeof h);
  return h;
}
void ChangeTokenizer(SampleParts& p, void (*change)(qrt_tokenizer_header&)) {
  qrt_tokenizer_header h = TokenizerHeader(p);
  change(h);
  std::memcpy(p.tokenizer.data(), &h, sizeof h);
}

const PartLie kPartLies[] = {
    {"code_too_short", [](auto& p) { p.code.resize(23); }, 4016, "23 bytes"},
    {"code_magic", [](auto& p) { SetWord(p.code, 0, 0x464c457f); }, 4016, "mark"},
    {"code_other_interface", [](auto& p) { SetWord(p.code, 4, QRT_PROGRAM_ABI + 1); }, 4017,
     "program interface 10, this program knows 9"},
    {"code_entry_count", [](auto& p) { SetWord(p.code, 8, 0xffffffff); }, 4016, "4294967295 entries"},
    {"code_scratch_odd", [](auto& p) { SetWord(p.code, 12, 32); }, 4016, "32 bytes of scratch"},
    {"code_scratch_huge", [](auto& p) { SetWord(p.code, 12, QRT_MAX_THREAD_SCRATCH + 64); }, 4016,
     "16777280 bytes of scratch"},
    {"code_stages", [](auto& p) { SetWord(p.code, 16, 1); }, 4016, "1 stages, the manifest 0"},
    {"code_shared_scratch_odd", [](auto& p) { SetWord(p.code, 20, 32); }, 4016, "32 bytes of shared scratch"},
    {"code_shared_scratch_huge", [](auto& p) { SetWord(p.code, 20, QRT_MAX_SHARED_SCRATCH + 64); }, 4016,
     "268435520 bytes of shared scratch"},
    {"code_entry_table_cut", [](auto& p) { p.code.resize(28); }, 4016, "entry table"},
    {"code_entry_behind", [](auto& p) { SetWord(p.code, 24, 64); }, 4016, "begins at 64"},
    {"code_entry_in_header", [](auto& p) { SetWord(p.code, 28, 31); }, 4016, "begins at 31"},
    {"code_entry_negative", [](auto& p) { SetWord(p.code, 32, 0x80000000u); }, 4016, "begins at 2147483648"},
    {"tokenizer_short", [](auto& p) { p.tokenizer.resize(40); }, 4018, "shorter than its header"},
    {"tokenizer_magic", [](auto& p) { SetWord(p.tokenizer, 0, 1); }, 4018, "mark"},
    {"tokenizer_version", [](auto& p) { SetWord(p.tokenizer, 4, 2); }, 4017, "version 2"},
    {"tokenizer_empty", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.n_tokens = 0; }); }, 4018,
     "0 tokens"},
    {"tokenizer_larger_than_the_head", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.n_tokens = 273; }); },
     4018, "273 tokens"},
    {"tokenizer_cut", [](auto& p) { p.tokenizer.resize(p.tokenizer.size() - 1); }, 4018, "token bytes"},
    {"blob_wraps", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.blob_offset = UINT64_MAX - 7; }); }, 4018,
     "token bytes"},
    {"blob_huge", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.blob_bytes = UINT64_MAX; }); }, 4018,
     "token bytes"},
    {"starts_outside", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.starts_offset = 1 << 30; }); }, 4018,
     "token starts"},
    {"starts_misaligned", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.starts_offset += 4; }); }, 4018,
     "token starts"},
    {"types_outside", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.types_offset = 0; }); }, 4018,
     "token types"},
    {"bytes_outside",
     [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.byte_token_offset = UINT64_MAX & ~7ull; }); }, 4018,
     "byte tokens"},
    {"merges_endless", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.n_merges = 0xffffffff; }); }, 4018,
     "merges"},
    {"special_endless", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.n_special = 0xffffffff; }); }, 4018,
     "special tokens"},
    {"special_missing", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.n_special -= 1; }); }, 4018,
     "the types give 4"},
    {"longest", [](auto& p) { ChangeTokenizer(p, [](auto& h) { h.max_token_bytes += 1; }); }, 4018,
     "longest token"},
    {"starts_fall", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).starts_offset + 40, 0xffff); },
     4018, "before its start"},
    {"starts_late", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).starts_offset, 1); }, 4018,
     "do not run from 0"},
    {"starts_end",
     [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).starts_offset + 4 * 272, 0xffffffff); }, 4018,
     "do not run from 0"},
    {"type_unknown", [](auto& p) { p.tokenizer[TokenizerHeader(p).types_offset] = 7; }, 4018, "type 7"},
    {"byte_token_unused",
     [](auto& p) { p.tokenizer[TokenizerHeader(p).types_offset + 65] = QRT_TOKEN_UNUSED; }, 4018,
     "stands for byte 65, but its type is 5"},
    {"byte_token_outside", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).byte_token_offset, 272); },
     4018, "stands for byte 0"},
    {"byte_token_wrong", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).byte_token_offset, 256); },
     4018, "stands for byte 0"},
    {"merge_left", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).merges_offset, 272); }, 4018,
     "outside the vocabulary"},
    {"merge_result", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).merges_offset + 12, 0xffffffff); },
     4018, "outside the vocabulary"},
    {"merge_rank_outside", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).merges_offset + 8, 6); },
     4018, "rank 6"},
    {"merge_rank_twice",
     [](auto& p) {
       const size_t at = TokenizerHeader(p).merges_offset;
       std::memcpy(p.tokenizer.data() + at + 8, p.tokenizer.data() + at + 16 + 8, 4);
     },
     4018, "that no other has"},
    {"merge_order", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).merges_offset, 271); }, 4018,
     "not after the one before"},
    {"special_outside", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).special_offset, 272); }, 4018,
     "no special token"},
    {"special_is_normal", [](auto& p) { SetWord(p.tokenizer, TokenizerHeader(p).special_offset, 0); }, 4018,
     "no special token"},
    {"special_order",
     [](auto& p) {
       SetWord(p.tokenizer, TokenizerHeader(p).special_offset, 265);
       SetWord(p.tokenizer, TokenizerHeader(p).special_offset + 12, 262);
     },
     4018, "out of order"},
    {"template_overlong",
     [](auto& p) {
       p.chat_template = {'a', 0xc0, 0x80};
     },
     4019, "UTF-8"},
    {"template_cut",
     [](auto& p) {
       p.chat_template = {'a', 0xe2, 0x82};
     },
     4019, "UTF-8"},
    {"template_surrogate",
     [](auto& p) {
       p.chat_template = {0xed, 0xa0, 0x80};
     },
     4019, "UTF-8"},
    {"goldens_short", [](auto& p) { p.goldens.resize(20); }, 4020, "shorter"},
    {"goldens_magic", [](auto& p) { SetWord(p.goldens, 0, 1); }, 4020, "mark"},
    {"goldens_version", [](auto& p) { SetWord(p.goldens, 4, QRT_GOLDENS_ABI + 1); }, 4017,
     "have version 3, this program knows 2"},
    {"goldens_cut", [](auto& p) { p.goldens.resize(p.goldens.size() - 4); }, 4020, "the section has"},
    {"goldens_count_wraps",
     [](auto& p) { SetWord(p.goldens, 12, 0xffffffff), SetWord(p.goldens, 16, 0xffffffff); }, 4020,
     "the section has"},
    {"goldens_token_outside", [](auto& p) { SetWord(p.goldens, sizeof(qrt_goldens_header), 272); }, 4020,
     "golden token 272"},
    {"goldens_position", [](auto& p) { SetWord(p.goldens, sizeof(qrt_goldens_header) + 16, 4); }, 4020,
     "position 4"},
    {"goldens_id",
     [](auto& p) { SetWord(p.goldens, sizeof(qrt_goldens_header) + 16 + sizeof(qrt_golden_row), 272); }, 4020,
     "outside the vocabulary"},
    {"goldens_nan",
     [](auto& p) {
       SetWord(p.goldens, sizeof(qrt_goldens_header) + 16 + sizeof(qrt_golden_row) + 16, 0x7fc00000);
     },
     4020, "no finite value"},
};
class PartLies : public ::testing::TestWithParam<PartLie> {};
TEST_P(PartLies, IsRefused) {
  SampleParts parts = MakeParts();
  GetParam().tell(parts);
  ExpectRefusal(OpenAndUse(BytesOfParts(parts)), GetParam().number, GetParam().says);
}
INSTANTIATE_TEST_SUITE_P(All, PartLies, ::testing::ValuesIn(kPartLies),
                         [](const auto& param) { return std::string(param.param.name); });

// Older or newer: what helps depends on which of the two it is.
TEST(OtherInterface, NamesTheCompilerThatMadeIt) {
  SampleParts parts = MakeParts();
  parts.manifest.provenance.compiler = "qcc 9.9";
  SetWord(parts.code, 4, QRT_PROGRAM_ABI + 1);
  const Status status = OpenAndUse(BytesOfParts(parts));
  EXPECT_EQ(status.number(), 4017u);
  EXPECT_NE(status.note().find("sample.qbin, section 0 (code), made by qcc 9.9"), std::string::npos)
      << status.ToString();
  EXPECT_NE(status.help().find("compile the model again"), std::string::npos) << status.ToString();
  parts.manifest.provenance.compiler = "";
  EXPECT_EQ(OpenAndUse(BytesOfParts(parts)).note(), "sample.qbin, section 0 (code)");
}

}  // namespace
}  // namespace qrt::testing
