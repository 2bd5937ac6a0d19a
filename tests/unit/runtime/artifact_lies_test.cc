// Artifacts whose hashes are all right and whose tables or manifest are not: each lie is refused by the check
// that is there for it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "runtime/abi/manifest_generated.h"
#include "tests/unit/runtime/artifact_sample.h"

namespace qrt::testing {
namespace {

using qcc::compiler::ManifestSpec;
using qcc::compiler::SpecElement;
using qcc::compiler::SpecState;

// Header and section table.

struct TableLie {
  const char* name;
  void (*tell)(std::vector<uint8_t>& file);
  uint32_t number;
  const char* says;
};

void ChangeSection(std::vector<uint8_t>& file, uint32_t index, void (*change)(qbin_section&)) {
  qbin_section s = SectionOf(file, index);
  change(s);
  SetSection(file, index, s);
}
void ChangeHeader(std::vector<uint8_t>& file, void (*change)(qbin_header&)) {
  qbin_header h = HeaderOf(file);
  change(h);
  SetHeader(file, h);
}

const TableLie kTableLies[] = {
    {"past_major", [](auto& f) { ChangeHeader(f, [](auto& h) { h.major = 0; }); }, 4006, "version 0."},
    {"programs_by_phase", [](auto& f) { ChangeHeader(f, [](auto& h) { h.major = 1; }); }, 4006, "version 1."},
    {"future_major", [](auto& f) { ChangeHeader(f, [](auto& h) { h.major = 3; }); }, 4006, "version 3."},
    {"unknown_feature", [](auto& f) { ChangeHeader(f, [](auto& h) { h.required_features = 1u << 5; }); },
     4007, "bits 5"},
    {"no_sections", [](auto& f) { ChangeHeader(f, [](auto& h) { h.section_count = 0; }); }, 4009,
     "0 sections"},
    {"many_sections", [](auto& f) { ChangeHeader(f, [](auto& h) { h.section_count = 0xffffffff; }); }, 4009,
     "4294967295"},
    {"table_behind_the_end", [](auto& f) { f.resize(100); }, 4004, "cut off"},
    {"file_size_too_large", [](auto& f) { ChangeHeader(f, [](auto& h) { h.file_bytes = UINT64_MAX; }); },
     4004, "cut off"},
    {"file_size_too_small", [](auto& f) { ChangeHeader(f, [](auto& h) { h.file_bytes -= 1; }); }, 4004,
     "follow"},
    {"overlap", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.offset = 4096; }); }, 4009,
     "begins at 4096"},
    {"gap", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.offset += 4096; }); }, 4009,
     "section 1 begins"},
    {"unaligned", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.offset += 64; }); }, 4009,
     "section 1 begins"},
    {"offset_wraps", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.offset = UINT64_MAX - 4095; }); },
     4009, "section 1 begins"},
    {"size_wraps", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.size = UINT64_MAX - 4096; }); }, 4009,
     "section 1 has"},
    {"size_beyond_the_file", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.size = 1 << 20; }); }, 4009,
     "section 1 has 1048576 bytes"},
    {"empty_section", [](auto& f) { ChangeSection(f, 1, [](auto& s) { s.size = 0; }); }, 4009, "has 0 bytes"},
    {"last_section_too_short",
     [](auto& f) {
       const uint32_t last = HeaderOf(f).section_count - 1;
       ChangeSection(f, last, [](auto& s) { s.size -= 1; });
     },
     4009, "the sections end at"},
    {"hidden_bytes_between_sections",
     [](auto& f) {
       const qbin_section s = SectionOf(f, 0);
       f[s.offset + s.size] = 1;
     },
     4010, "padding"},
    {"hidden_bytes_behind_the_table", [](auto& f) { f[4095] = 1; }, 4010, "padding"},
    {"unknown_kind", [](auto& f) { ChangeSection(f, 0, [](auto& s) { s.kind = 99; }); }, 4013, "kind 99"},
    {"kind_zero", [](auto& f) { ChangeSection(f, 0, [](auto& s) { s.kind = 0; }); }, 4013, "kind 0"},
    {"no_manifest",
     [](auto& f) {
       ChangeSection(f, FindSection(f, QBIN_SECTION_MANIFEST), [](auto& s) { s.kind = QBIN_SECTION_CODE; });
     },
     4013, "no manifest"},
    {"two_tokenizers", [](auto& f) { ChangeSection(f, 0, [](auto& s) { s.kind = QBIN_SECTION_TOKENIZER; }); },
     4013, "second section"},
    {"code_called_weights",
     [](auto& f) { ChangeSection(f, 0, [](auto& s) { s.kind = QBIN_SECTION_WEIGHTS; }); }, 4015,
     "a section of kind code"},
    {"code_called_optional",
     [](auto& f) {
       ChangeSection(f, 0, [](auto& s) {
         s.kind = 99;
         s.flags = QBIN_SECTION_OPTIONAL;
       });
     },
     4015, "a section of kind code"},
};

class TableLies : public ::testing::TestWithParam<TableLie> {};
TEST_P(TableLies, IsRefused) {
  std::vector<uint8_t> file = BytesOfParts(MakeParts());
  GetParam().tell(file);
  // The section hashes stay as they are: where a lie changes what a section is, its own hash is made right.
  if (file.size() > 4096) Seal(file);
  ExpectRefusal(OpenAndUse(file), GetParam().number, GetParam().says);
}
INSTANTIATE_TEST_SUITE_P(All, TableLies, ::testing::ValuesIn(kTableLies),
                         [](const auto& param) { return std::string(param.param.name); });

// The manifest.

struct ManifestLie {
  const char* name;
  void (*tell)(ManifestSpec& m);
  uint32_t number;
  const char* says;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

const ManifestLie kManifestLies[] = {
    {"no_arch", [](auto& m) { m.arch.clear(); }, 4015, "model.arch"},
    {"no_vocabulary", [](auto& m) { m.vocab_size = 0; }, 4015, "model.vocab_size"},
    {"huge_vocabulary", [](auto& m) { m.vocab_size = m.logits_stride = 0x80000000u; }, 4015,
     "model.vocab_size"},
    {"stride_below_vocabulary", [](auto& m) { m.logits_stride = 271; }, 4015, "model.logits_stride"},
    {"trimmed_chosen_logits", [](auto& m) { m.programs[0].logits_cols = 16; }, 4015,
     "program 'decode_1'.logits_cols is 16, expected 0"},
    {"draft_token_outside",
     [](auto& m) {
       m.draft_tokens = {3, 272};
     },
     4015, "an id of draft_tokens is 272, expected one below 272"},
    {"draft_tokens_of_another_head",
     [](auto& m) {
       m.programs[0].facts.gives = Output::kLogits;
       m.programs[0].logits_cols = 16;
       m.draft_tokens = {3};
     },
     4015, "the length of draft_tokens is 1, expected 16"},
    {"no_context", [](auto& m) { m.context_length = 0; }, 4015, "model.context_length"},
    {"huge_context", [](auto& m) { m.context_length = UINT64_MAX; }, 4015, "model.context_length"},
    {"no_embedding", [](auto& m) { m.embedding_length = 0; }, 4015, "model.embedding_length"},
    {"unknown_numerics", [](auto& m) { m.numerics = static_cast<decltype(m.numerics)>(9); }, 4015,
     "numerics is 9"},
    {"unknown_element", [](auto& m) { m.kv_element = static_cast<SpecElement>(9); }, 4015, "kv_element is 9"},
    {"huge_state", [](auto& m) { m.state_bytes = UINT64_MAX; }, 4015, "state_bytes"},
    {"huge_kv", [](auto& m) { m.kv_bytes_per_token = UINT64_MAX; }, 4015, "kv_bytes_per_token"},
    {"state_kind", [](auto& m) { m.states[0].kind = static_cast<SpecState>(4); }, 4015,
     "state 'blk.0.conv'.kind is 4"},
    {"state_element", [](auto& m) { m.states[0].element = static_cast<SpecElement>(3); }, 4015,
     "state 'blk.0.conv'.element is 3"},
    {"state_of_integers_that_is_no_kv", [](auto& m) { m.states[0].element = SpecElement::kB16; }, 4015,
     "state 'blk.0.conv'.element is b16, expected f32"},
    {"kv_of_integers_too_narrow",
     [](auto& m) {
       m.states[2].element = SpecElement::kB16;
       m.states[2].shape = {16, 4};
     },
     4015, "state 'blk.1.kv'.shape is 4 values in a row of integers, expected 8 to 4096"},
    {"kv_of_integers_too_wide",
     [](auto& m) {
       m.states[2].element = SpecElement::kB16;
       m.states[2].shape = {1, 4104};
       m.kv_bytes_per_token = m.states[2].bytes = 4 * 4104;
     },
     4015, "state 'blk.1.kv'.shape is 4104 values in a row of integers"},
    {"state_outside", [](auto& m) { m.states[1].offset = 1028; }, 4015, "state 'blk.0.delta' is"},
    {"state_wraps", [](auto& m) { m.states[1].offset = UINT64_MAX - 100; }, 4015, "inside the 5120 bytes"},
    {"state_empty", [](auto& m) { m.states[0].bytes = 0; }, 4015, "0 bytes"},
    {"states_overlap", [](auto& m) { m.states[1] = m.states[0], m.states[1].name = "twice"; }, 4015,
     "the end of state"},
    {"state_area_larger_than_its_states", [](auto& m) { m.state_bytes += 4097; }, 4015,
     "state_bytes is 9217, expected 5120 to 9216"},
    {"state_area_of_no_states",
     [](auto& m) {
       m.states.erase(m.states.begin(), m.states.begin() + 2);
       for (auto& program : m.programs) program.facts.advances.clear();
       m.state_bytes = 1 << 20;
     },
     4015, "state_bytes is 1048576, expected 0 to 4096"},
    {"state_behind_a_hole",
     [](auto& m) {
       m.states[1].offset += 8192;
       m.state_bytes += 8192;
     },
     4015, "state 'blk.0.delta'.offset is 9216, expected 768 to 4864"},
    {"state_larger_than_its_shape",
     [](auto& m) {
       m.states[1].bytes += 8192;
       m.state_bytes += 8192;
     },
     4015, "state 'blk.0.delta'.bytes is 12288, expected at most 8192"},
    {"state_of_a_model_that_is_not",
     [](auto& m) {
       m.states[1].shape = {4096, 1024, 1024};
       m.states[1].bytes = uint64_t{16} << 30;
       m.state_bytes = 1024 + m.states[1].bytes;
     },
     4015, "state_bytes is 17179870208, expected at most 17179869184"},
    {"kv_area_larger_than_its_states", [](auto& m) { m.kv_bytes_per_token += 4097; }, 4015,
     "kv_bytes_per_token is 4353, expected 256 to 4352"},
    {"kv_of_a_model_that_is_not",
     [](auto& m) {
       m.states[2].shape = {1 << 20, 32};
       m.kv_bytes_per_token = m.states[2].bytes = uint64_t{128} << 20;
     },
     4015, "kv_bytes_per_token is 134217728, expected at most 67108864"},
    {"program_arena_above_its_rows", [](auto& m) { m.programs[0].arena_bytes = uint64_t{1} << 32; }, 4015,
     "program 'decode_1'.arena_bytes is 4294967296, expected 0 (the rows that it is given) to 17301504"},
    {"program_arena_above_its_widest_weight",
     [](auto& m) {
       m.programs[0].arena_bytes = uint64_t{1} << 40;
       m.weights[0].cols = UINT64_MAX;
     },
     4015, "'decode_1'.arena_bytes is 1099511627776, expected 0 (the rows that it is given) to 8606711808"},
    {"program_arena_below_its_rows",
     [](auto& m) {
       m.programs[0].facts.takes |= kGiven;
       m.programs[0].facts.given_cols = 20000;
     },
     4015, "arena_bytes is 65536, expected 80000 (the rows that it is given)"},
    {"program_given_rows_that_no_model_has",
     [](auto& m) {
       m.programs[0].facts.takes |= kGiven;
       m.programs[0].facts.given_cols = 1 << 21;
     },
     4015, "given_cols is 2097152, expected 1 to 1048576"},
    {"logits_far_apart", [](auto& m) { m.logits_stride = 100000; }, 4015,
     "model.logits_stride is 100000, expected 272 (vocab_size) to 528"},
    {"embedding_that_no_model_has", [](auto& m) { m.embedding_length = 1 << 30; }, 4015,
     "model.embedding_length is 1073741824"},
    {"state_shape_too_large", [](auto& m) { m.states[0].shape = {1000}; }, 4015,
     "state 'blk.0.conv'.shape is 4000 bytes"},
    {"entries_without_a_block", [](auto& m) { m.states[0].entry_bytes = 256; }, 4015, "state_block is 0"},
    {"a_block_of_many_tokens",
     [](auto& m) {
       m.states[0].entry_bytes = 256;
       m.state_block = 4097;
     },
     4015, "state_block is 4097, expected 1 to 4096"},
    {"entries_of_a_cache",
     [](auto& m) {
       m.states[2].entry_bytes = 4;
       m.state_block = 16;
     },
     4015, "state 'blk.1.kv'.entry_bytes is 4, expected 0"},
    {"entries_of_less_than_the_next_token_needs",
     [](auto& m) {
       m.states[0].entry_bytes = 256;
       m.state_block = 3;
     },
     4015, "state 'blk.0.conv'.shape is 3 tokens, expected less than a block of 3"},
    {"entries_beyond_their_state",
     [](auto& m) {
       m.states[0].entry_bytes = 256;
       m.state_block = 16;
     },
     4015, "state 'blk.0.conv'.shape is 4096 bytes"},
    {"entries_of_less_than_their_state",
     [](auto& m) {
       m.states[1].entry_bytes = 4;
       m.states[1].bytes += 68;
       m.state_bytes += 68;
       m.state_block = 16;
     },
     4015, "state 'blk.0.delta'.bytes is 4164, expected 4160, with 16 entries"},
    {"entries_that_wrap",
     [](auto& m) {
       m.states[0].entry_bytes = UINT64_MAX / 2;
       m.state_block = 16;
     },
     4015, "too large to count"},
    {"state_shape_wraps",
     [](auto& m) {
       m.states[0].shape = {1ull << 40, 1ull << 40};
     },
     4015, "too large to count"},
    {"state_shape_zero",
     [](auto& m) {
       m.states[0].shape = {0, 5};
     },
     4015, "shape"},
    {"state_shape_none", [](auto& m) { m.states[0].shape = {}; }, 4015, "shape"},
    {"state_shape_long", [](auto& m) { m.states[0].shape.assign(9, 1); }, 4015, "the length of states.shape"},
    {"state_misaligned", [](auto& m) { m.states[0].offset = 2; }, 4015, "a multiple of 4"},
    {"kv_outside", [](auto& m) { m.states[2].bytes = 257; }, 4015, "inside the 256 bytes"},
    {"kv_larger_than_its_shape", [](auto& m) { m.states[2].shape = {1}; }, 4015,
     "state 'blk.1.kv'.bytes is 256, expected twice"},
    {"kv_without_values",
     [](auto& m) {
       m.states[2].shape = {2, 2, 32};
     },
     4015, "bytes is 256, expected twice"},
    {"no_programs", [](auto& m) { m.programs.clear(); }, 4015, "the length of programs"},
    {"program_takes_nothing", [](auto& m) { m.programs[0].facts.takes = 0; }, 4015, "takes is 0"},
    {"program_given_rows_of_nothing", [](auto& m) { m.programs[0].facts.takes |= kGiven; }, 4015,
     "given_cols is 0"},
    {"program_has_columns_of_rows_that_it_is_not_given", [](auto& m) { m.programs[0].facts.given_cols = 64; },
     4015, "given_cols is 64, expected 0"},
    {"program_takes_no_stream", [](auto& m) { m.programs[2].facts.stream = -1; }, 4015, "stream is -1"},
    {"program_names_a_stream_it_does_not_take", [](auto& m) { m.programs[0].facts.stream = 0; }, 4015,
     "stream is 0, expected -1"},
    {"program_takes_no_stream_in_another_way", [](auto& m) { m.programs[0].facts.stream = -5; }, 4015,
     "stream is -5, expected -1"},
    {"program_takes_a_stream_of_none",
     [](auto& m) {
       m.streams.clear();
       for (auto& program : m.programs) program.facts.leaves = -1;
     },
     4015, "stream is 0, expected no stream"},
    {"program_leaves_one_of_no_streams",
     [](auto& m) {
       m.streams.clear();
       m.programs[0].facts.leaves = 0;
     },
     4015, "leaves is 0, expected -1: there is no stream"},
    {"program_stream_outside", [](auto& m) { m.programs[2].facts.stream = 1; }, 4015,
     "stream is 1, expected 0 to 0"},
    {"program_leaves_outside", [](auto& m) { m.programs[1].facts.leaves = 1; }, 4015, "leaves is 1"},
    {"program_leaves_negative", [](auto& m) { m.programs[1].facts.leaves = -2; }, 4015, "leaves is -2"},
    {"program_advances_outside",
     [](auto& m) {
       m.programs[0].facts.advances = {0, 3};
     },
     4015, "advances[1] is 3"},
    {"program_advances_twice",
     [](auto& m) {
       m.programs[0].facts.advances = {1, 1};
     },
     4015, "advances[1] is 1"},
    {"program_without_rows", [](auto& m) { m.programs[0].rows = 0; }, 4015, "rows is 0"},
    {"program_with_many_rows", [](auto& m) { m.programs[0].rows = 0xffffffff; }, 4015, "rows is 4294967295"},
    {"program_arena", [](auto& m) { m.programs[0].arena_bytes = UINT64_MAX; }, 4015, "arena_bytes"},
    {"program_twice", [](auto& m) { m.programs[1] = m.programs[0]; }, 4015,
     "'decode_1' and 'decode_1' alike, for 1 rows"},
    {"program_missing_in_code", [](auto& m) { m.programs.pop_back(); }, 4016,
     "3 entries, the manifest 2 programs"},
    {"weight_outside", [](auto& m) { m.weights[1].offset = 4800; }, 4015,
     "weight 'output_norm.weight' is 256 bytes at 4800, expected a range inside the 5000 bytes"},
    {"weight_wraps", [](auto& m) { m.weights[0].bytes = UINT64_MAX; }, 4015, "weight 'token_embd.weight'"},
    {"kernel_of_no_program",
     [](auto& m) {
       m.kernels = {{"k", "norm", {1, 3}, {8}}};
     },
     4015,
     "kernel 'k'.programs is no rising list of places in the list of programs, expected places below 3"},
    {"kernel_of_a_program_twice",
     [](auto& m) {
       m.kernels = {{"k", "norm", {1, 1}, {8}}};
     },
     4015, "kernel 'k'.programs"},
    {"kernel_of_too_many_codes",
     [](auto& m) {
       m.kernels = {{"k", "norm", {1}, {8, 9}}};
     },
     4015, "kernel 'k'.code_bytes is 2 sizes, expected 1: one for each CPU code"},
    {"stage_of_no_program",
     [](auto& m) {
       m.stages = {{2, -1, 0}, {3, -1, 0}};
     },
     4015, "stage 1.program is 3, expected below 3"},
    {"stage_of_no_kernel",
     [](auto& m) {
       m.kernels = {{"k", "norm", {1}, {8}}};
       m.stages = {{1, 1, 0}};
     },
     4015, "stage 0.kernel is 1, expected -1 to 0"},
    {"stage_missing_in_code",
     [](auto& m) {
       m.stages = {{1, -1, 0}};
     },
     4016, "0 stages, the manifest 1"},
    {"no_code", [](auto& m) { m.code.clear(); }, 4015, "the length of code"},
    {"too_many_features", [](auto& m) { m.code[0].features.assign(65, "x"); }, 4015, "code.features"},
    {"bos_outside", [](auto& m) { m.tokenizer->bos = 272; }, 4015, "tokenizer.bos is 272"},
    {"eos_negative", [](auto& m) { m.tokenizer->eos = -2; }, 4015, "tokenizer.eos is -2"},
    {"eot_outside", [](auto& m) { m.tokenizer->eot = 1 << 30; }, 4015, "tokenizer.eot"},
    {"pad_outside", [](auto& m) { m.tokenizer->pad = 300; }, 4015, "tokenizer.pad"},
    {"add_bos_without_bos", [](auto& m) { m.tokenizer->bos = -1, m.tokenizer->add_bos = true; }, 4015,
     "add_bos"},
    {"eog_outside", [](auto& m) { m.tokenizer->eog = {272}; }, 4015, "tokenizer.eog[0]"},
    {"eog_twice",
     [](auto& m) {
       m.tokenizer->eog = {5, 5};
     },
     4015, "tokenizer.eog[1]"},
    {"eog_endless", [](auto& m) { m.tokenizer->eog.assign(5000, 1); }, 4015, "the length of tokenizer.eog"},
    {"no_pre", [](auto& m) { m.tokenizer->pre.clear(); }, 4015, "tokenizer.pre"},
    {"temperature_nan", [](auto& m) { m.sampling.temperature = kNan; }, 4015, "sampling.temperature"},
    {"temperature_negative", [](auto& m) { m.sampling.temperature = -1.f; }, 4015, "sampling.temperature"},
    {"top_p_infinite", [](auto& m) { m.sampling.top_p = kInf; }, 4015, "sampling.top_p"},
    {"top_p_large", [](auto& m) { m.sampling.top_p = 1.5f; }, 4015, "sampling.top_p"},
    {"min_p_negative", [](auto& m) { m.sampling.min_p = -0.1f; }, 4015, "sampling.min_p"},
    {"repeat_penalty_zero", [](auto& m) { m.sampling.repeat_penalty = 0.f; }, 4015,
     "sampling.repeat_penalty"},
    {"top_k_negative", [](auto& m) { m.sampling.top_k = -1; }, 4015, "sampling.top_k"},
    {"penalty_window_long", [](auto& m) { m.sampling.penalty_window = (1 << 20) + 1; }, 4015,
     "sampling.penalty_window is 1048577, expected -1 to 1048576"},
    {"penalty_window_negative", [](auto& m) { m.sampling.penalty_window = -2; }, 4015,
     "sampling.penalty_window"},
    {"endless_name", [](auto& m) { m.name.assign(100000, 'x'); }, 4015, "the length of model.name"},
    {"endless_options",
     [](auto& m) {
       m.provenance.options.assign(2000, {"a", "b"});
     },
     4015, "provenance.options"},
};

class ManifestLies : public ::testing::TestWithParam<ManifestLie> {};
TEST_P(ManifestLies, IsRefused) {
  SampleParts parts = MakeParts();
  GetParam().tell(parts.manifest);
  ExpectRefusal(OpenAndUse(BytesOfParts(parts)), GetParam().number, GetParam().says);
}
INSTANTIATE_TEST_SUITE_P(All, ManifestLies, ::testing::ValuesIn(kManifestLies),
                         [](const auto& param) { return std::string(param.param.name); });

using Shape = flatbuffers::Offset<flatbuffers::Vector<uint64_t>>;
Shape OrdinaryShape(flatbuffers::FlatBufferBuilder& b) {
  return b.CreateVector(std::vector<uint64_t>{1});
}

// One entry of 8 bytes, as an ordinary shape, but 4 bytes off.
Shape ShapeOffItsPlace(flatbuffers::FlatBufferBuilder& b) {
  if (b.GetSize() % 8 == 0) b.PushElement<uint32_t>(0);  // the length stands between: 4 bytes more
  b.StartVector(2, sizeof(uint32_t));
  b.PushElement<uint32_t>(0);
  b.PushElement<uint32_t>(1);
  return Shape(b.EndVector(1));
}

// A manifest of states that all share one name. It takes 64 KiB and a few bytes a state.
std::vector<uint8_t> SharingManifest(size_t states,
                                     Shape (*make_shape)(flatbuffers::FlatBufferBuilder&) = OrdinaryShape) {
  flatbuffers::FlatBufferBuilder b;
  const auto long_name = b.CreateString(std::string(60000, 'n')), name = b.CreateString("n");
  const auto shape = make_shape(b);
  const auto state = abi::CreateState(b, long_name, abi::StateKind::Conv, 0, shape, abi::Element::F32, 0, 4);
  const auto state_list = b.CreateVector(std::vector<flatbuffers::Offset<abi::State>>(states, state));
  const auto programs = b.CreateVector(std::vector<flatbuffers::Offset<abi::Program>>());
  const auto code = b.CreateVector(std::vector<flatbuffers::Offset<abi::Code>>());
  const auto formats = b.CreateVector(std::vector<flatbuffers::Offset<abi::FormatUse>>());
  const auto options = b.CreateVector(std::vector<flatbuffers::Offset<abi::Option>>());
  const auto hash = b.CreateVector(std::vector<uint8_t>(16));
  const auto provenance = abi::CreateProvenance(b, name, options, name, 0, hash);
  const auto model = abi::CreateModel(b, name, name, 272, 272, 64, 64);
  const auto streams = b.CreateVectorOfStrings({});
  abi::ManifestBuilder manifest(b);
  manifest.add_model(model);
  manifest.add_state_bytes(4);
  manifest.add_states(state_list);
  manifest.add_programs(programs);
  manifest.add_code(code);
  manifest.add_formats(formats);
  manifest.add_provenance(provenance);
  manifest.add_streams(streams);
  abi::FinishManifestBuffer(b, manifest.Finish());
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

// The sample with another manifest, which is its last section.
std::vector<uint8_t> WithManifest(const std::vector<uint8_t>& manifest) {
  std::vector<uint8_t> file = BytesOfParts(MakeParts());
  const uint32_t index = FindSection(file, QBIN_SECTION_MANIFEST);
  qbin_section section = SectionOf(file, index);
  file.resize(section.offset);
  file.insert(file.end(), manifest.begin(), manifest.end());
  section.size = manifest.size();
  SetSection(file, index, section);
  qbin_header header = HeaderOf(file);
  header.file_bytes = file.size();
  SetHeader(file, header);
  Seal(file);
  return file;
}

TEST(ArtifactManifest, WhatUnfoldsToFarMoreThanTheFileIsRefused) {
  for (const size_t states : {17, 1000}) {
    const std::vector<uint8_t> manifest = SharingManifest(states);
    ExpectRefusal(OpenAndUse(WithManifest(manifest)), 4015, "lists share bytes");
  }
  const std::vector<uint8_t> manifest = SharingManifest(2);
  ExpectRefusal(OpenAndUse(WithManifest(manifest)), 4015, "the end of state");
}

TEST(ArtifactManifest, EntriesOffTheirPlaceAreRefused) {
  const std::vector<uint8_t> manifest = SharingManifest(1, ShapeOffItsPlace);
  ExpectRefusal(OpenAndUse(WithManifest(manifest)), 4015, "the place of states.shape");
}

// References to sections: sections of the sample are 0 code, 1 tokenizer, 2 chat template, 3 goldens, 4
// weights, 5 manifest.
SampleParts PartsWithReferences() {
  SampleParts parts = MakeParts();
  parts.keep_references = true;
  parts.manifest.weights.clear();
  parts.manifest.code[0].section = 0;
  parts.manifest.code[0].weights_section = 4;
  parts.manifest.weights_bytes = parts.weights.size();
  parts.manifest.tokenizer->section = 1;
  parts.manifest.chat_template_section = 2;
  parts.manifest.goldens_section = 3;
  return parts;
}

TEST(ArtifactReferences, TheSampleIsRight) {
  const Status status = OpenAndUse(BytesOfParts(PartsWithReferences()));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

const ManifestLie kReferenceLies[] = {
    {"code_outside", [](auto& m) { m.code[0].section = 6; }, 4015, "section 6 of 6"},
    {"code_is_the_tokenizer", [](auto& m) { m.code[0].section = 1; }, 4015, "section 1 (tokenizer)"},
    {"weights_outside", [](auto& m) { m.code[0].weights_section = 0xffffffff; }, 4015, "section 4294967295"},
    {"weights_are_the_code", [](auto& m) { m.code[0].weights_section = 0; }, 4015, "section 0 (code)"},
    {"code_of_an_unknown_target_outside",
     [](auto& m) {
       m.code.push_back({"tpu", "v9", {}, 6, 4});
     },
     4015, "code 'v9'.section is section 6 of 6"},
    {"weights_of_an_unknown_target_outside",
     [](auto& m) {
       m.code.push_back({"tpu", "v9", {}, 0, 0xffffffff});
     },
     4015, "code 'v9'.weights_section is section 4294967295 of 6"},
    {"weights_size", [](auto& m) { m.weights_bytes = 4999; }, 4015, "weights_bytes is 4999"},
    {"tokenizer_is_the_manifest", [](auto& m) { m.tokenizer->section = 5; }, 4015, "section 5 (manifest)"},
    {"template_is_the_weights", [](auto& m) { m.chat_template_section = 4; }, 4015, "section 4 (weights)"},
    {"goldens_outside", [](auto& m) { m.goldens_section = 77; }, 4015, "section 77"},
};
class ReferenceLies : public ::testing::TestWithParam<ManifestLie> {};
TEST_P(ReferenceLies, IsRefused) {
  SampleParts parts = PartsWithReferences();
  GetParam().tell(parts.manifest);
  ExpectRefusal(OpenAndUse(BytesOfParts(parts)), GetParam().number, GetParam().says);
}
INSTANTIATE_TEST_SUITE_P(All, ReferenceLies, ::testing::ValuesIn(kReferenceLies),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace qrt::testing
