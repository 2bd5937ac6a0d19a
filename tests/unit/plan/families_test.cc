// The family table against its page: every family, spec key and role that one names, the other names, too.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "dialects/layouts/layouts.h"
#include "dialects/plan/kernel_families.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "runtime/artifact/stage_group.h"

namespace qcc::plan {
namespace {

struct Row {
  std::string spec, roles;
};

// The rows `| family | spec | roles | work |` of kernel_families.md.
std::map<std::string, Row> PageRows() {
  std::ifstream in(std::string(QCC_SOURCE_DIR) + "/dialects/plan/kernel_families.md");
  EXPECT_TRUE(in) << "kernel_families.md is missing";
  std::map<std::string, Row> rows;
  std::string line;
  // A '|' inside a choice is escaped as \| in the page.
  const std::regex row(R"(^\| `([a-z_0-9]+)` \| ((?:\\\||[^|])*) \| ((?:\\\||[^|])*) \|.*)");
  std::smatch m;
  while (std::getline(in, line))
    if (std::regex_match(line, m, row)) rows[m[1]] = {m[2], m[3]};
  return rows;
}

bool HasWord(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("\\b" + word + "\\b"));
}

// The page writes a key's choices once, as `key = "a"\|"b"`, in the family's row or, for a key that several
// have, in another.
template <class E>
void ExpectChoices(const std::map<std::string, Row>& page, const std::string& family, const std::string& key,
                   E value) {
  const std::string begins = key + " = \"";
  const Row* written = nullptr;
  for (const auto& [name, row] : page)
    if (row.spec.find(begins) != std::string::npos && (!written || name == family)) written = &row;
  ASSERT_NE(written, nullptr) << family << "." << key << ": no row of the page has its choices";
  for (const auto& choice : choicesOf(value))
    EXPECT_TRUE(HasWord(written->spec, std::string(choice.text)))
        << family << "." << key << ": the page lacks choice " << choice.text;
}

// A family that StageGroup does not know counts as "other" and is missed in the sums of times.
TEST(KernelFamilies, TimesOfEachCountInAGroup) {
  forEachFamily([](auto spec) {
    const std::string_view family = spec.kFamily;
    if (family == "trace") return;  // copies rows out, which is no part of a model
    EXPECT_STRNE(qrt::StageGroup(family), "other") << family << ": runtime/artifact/stage_group.h lacks it";
  });
}

TEST(KernelFamilies, TableAndPageNameTheSame) {
  std::map<std::string, Row> page = PageRows();
  std::set<std::string> inTable;
  forEachFamily([&](auto spec) {
    std::string name(spec.kFamily);
    inTable.insert(name);
    ASSERT_TRUE(page.count(name)) << name << " is not in kernel_families.md";
    forEachKey(spec, [&](std::string key, const auto& value) {
      EXPECT_TRUE(HasWord(page[name].spec, key)) << name << ": the page lacks spec key " << key;
      if constexpr (Choice<std::decay_t<decltype(value)>>) ExpectChoices(page, name, key, value);
    });
    std::set<std::string> roles;
    for (const Role& role : rolesOf(spec)) {
      roles.insert(std::string(role.name));
      EXPECT_TRUE(HasWord(page[name].roles, std::string(role.name)))
          << name << ": the page lacks role " << role.name;
    }
    // Roles stand in backquotes on the page.
    const std::regex quoted("`([a-z_]+)`");
    for (std::sregex_iterator it(page[name].roles.begin(), page[name].roles.end(), quoted), end; it != end;
         ++it) {
      std::string role = (*it)[1];
      bool otherFamily = withFamily(role, [](auto) {});
      EXPECT_TRUE(roles.count(role) || otherFamily) << name << ": the table lacks role " << role;
    }
  });
  for (const auto& [name, row] : page)
    EXPECT_TRUE(inTable.count(name)) << name << " is not in kernel_families.def";
}

template <class Spec>
int64_t Bytes(const Spec& spec, const std::string& name) {
  for (const Role& role : rolesOf(spec))
    if (role.name == name) return role.bytes;
  ADD_FAILURE() << spec.kFamily << " has no role " << name;
  return 0;
}

// Worked by hand from kernel_families.md.
TEST(Sizes, OfTheGatedDeltaNet) {
  const GatedDeltaSpec spec = {
      .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 64, .taps = 4, .ld_ab = 32};
  EXPECT_EQ(Bytes(spec, "qkv"), 4 * (2 * 16 * 128 + 32 * 64));
  EXPECT_EQ(Bytes(spec, "conv_state"), 4 * (2 * 16 * 128 + 32 * 64) * 16);
  // S, and for each token of a block a key of each head, what it wrote, and a decay, which 64 bytes divide.
  EXPECT_EQ(Bytes(spec, "delta_state"), 4 * (32 * 128 * 64 + 16 * (16 * 128 + 32 * 64 + 32)));
  EXPECT_EQ(Bytes(spec, "alpha"), 4 * 32);
}

TEST(Sizes, OfLinears) {
  const LinearSpec spec = {.format = Format::Q4_K, .numerics = Numerics::Int8, .k = 512, .n = 20};
  EXPECT_EQ(Bytes(spec, "w"), 2 * 2 * 2368) << "2 groups of 16 rows x 2 blocks";
  EXPECT_EQ(Bytes(spec, "y"), 4 * 32) << "20 outputs, padded to 32";
  EXPECT_EQ(Bytes(spec, "xq"), 768) << "512 codes, 16 f32 scales, 32 i32 sums, 16 f32 weighted ones";
}

TEST(Sizes, OfTheKvCache) {
  const AttentionSpec attention = {
      .q_heads = 8, .kv_heads = 2, .head_dim = 256, .gated = true, .kv = KvElement::F16};
  EXPECT_EQ(Bytes(attention, "kv"), 2 * 2 * 256 * 2);
  EXPECT_EQ(Bytes(attention, "gate"), 4 * 8 * 256 * 2) << "queries and gates interleaved";
  const QkNormRopeStoreSpec store = {
      .q_heads = 8, .kv_heads = 2, .head_dim = 256, .gated = true, .kv = KvElement::F16};
  EXPECT_EQ(Bytes(store, "q"), 4 * 8 * 256 * 2);
}

// A dispatch made of structs, its text, and the structs read back from it.
class Dispatches : public ::testing::Test {
 protected:
  Dispatches() : b(&context) {
    context.loadDialect<PlanDialect>();
    module = mlir::ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToEnd(module->getBody());
    auto program =
        ProgramOp::create(b, b.getUnknownLoc(), "p", /*tokens=*/true, mlir::IntegerAttr(), mlir::StringAttr(),
                          mlir::StringAttr(), OutputAttr::get(&context, Output::ChosenLogits), 4, 1 << 20);
    b.createBlock(&program.getBody());
  }
  // Diagnostics of the op's verifier.
  std::string Verify(DispatchOp op) {
    std::string text;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& d) { text += d.str(); });
    (void)mlir::verify(op);
    return text;
  }
  mlir::MLIRContext context;
  mlir::OpBuilder b;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

const LinearSpec kLinear = {.format = Format::Q8_0,
                            .numerics = Numerics::Int8,
                            .k = 64,
                            .n = 32,
                            .epilogue = Epilogue::Add,
                            .rows = RowsFrom::OutRows};

LinearBindings<Ref> LinearRefs() {
  return {.xq = {Space::Arena, 0, 4 * layouts::Int8RowBytes(64), "x"},
          .w = {Space::Weights, 128, layouts::X16Bytes(Format::Q8_0, 32, 64), ""},
          .y = {Space::Logits, 0, 4 * 4 * 32, ""}};
}

TEST_F(Dispatches, OfStructsAndBack) {
  DispatchOp op = createDispatch(b, b.getUnknownLoc(), kLinear, LinearRefs());
  EXPECT_EQ(Verify(op), "");
  std::string text;
  llvm::raw_string_ostream(text) << op;
  for (const char* part :
       {R"("linear" {epilogue = "add", format = "q8_0", k = 64 : i64, n = 32 : i64)",
        R"(numerics = "int8", rows = "out_rows"} ["xq", "w", "y"])", "logits, 0, 512, readwrite"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  EXPECT_EQ(dispatchRows(op), 4);
  int visits = 0;
  visitDispatch(op, [&](const auto& spec, const auto& bindings) {
    if constexpr (std::is_same_v<std::decay_t<decltype(spec)>, LinearSpec>) {
      ++visits;
      EXPECT_TRUE(spec == kLinear);
      EXPECT_FALSE(bindings.x);
      EXPECT_EQ(bindings.xq.buffer, "x");
      EXPECT_EQ(bindings.w.offset, 128);
      EXPECT_EQ(bindings.y.space, Space::Logits);
    }
  });
  EXPECT_EQ(visits, 1);
}

// Every family's constants survive the way to text and back, whatever their type.
TEST_F(Dispatches, SpecsSurviveTheTextualForm) {
  forEachFamily([&](auto spec) {
    int64_t next = 3;
    forEachKey(spec, [&](std::string, auto& value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<T, std::vector<int64_t>>)
        value = {1, 2, 3, 4};
      else if constexpr (std::is_same_v<T, Format>)
        value = Format::Q6_K;
      else if constexpr (Choice<T>)
        value = std::end(choicesOf(value))[-1].value;
      else
        value = static_cast<T>(next++);
    });
    mlir::DictionaryAttr dict = specAttr(b, spec);
    EXPECT_TRUE(mlir::succeeded(
        checkSpec(llvm::StringRef(spec.kFamily), dict, [&] { return mlir::emitError(b.getUnknownLoc()); })));
    decltype(spec) back;
    readSpec(dict, back);
    EXPECT_TRUE(back == spec) << spec.kFamily;
  });
}

TEST_F(Dispatches, AMissingOrForeignRoleIsFound) {
  LinearBindings<Ref> refs = LinearRefs();
  refs.w = {};
  EXPECT_NE(Verify(createDispatch(b, b.getUnknownLoc(), kLinear, refs)).find("needs role 'w'"),
            std::string::npos);
  EXPECT_EQ(findRoleFault(kLinear, refs).role, "w");
  EXPECT_TRUE(findRoleFault(kLinear, refs).missing);
  refs = LinearRefs();
  refs.x = refs.xq;
  EXPECT_NE(
      Verify(createDispatch(b, b.getUnknownLoc(), kLinear, refs)).find("has no role 'x' with this spec"),
      std::string::npos);
  EXPECT_EQ(findRoleFault(kLinear, refs).role, "x");
  EXPECT_FALSE(findRoleFault(kLinear, refs).missing);
  EXPECT_FALSE(findRoleFault(kLinear, LinearRefs()));
}

TEST(Bindings, OfRolesThatStandInForEachOtherOneIsEnough) {
  NormBindings<Ref> refs;
  refs.x = refs.weight = {Space::Arena, 0, 64, "x"};
  EXPECT_EQ(findRoleFault(NormSpec{.cols = 16}, refs).role, "out");
  EXPECT_TRUE(findRoleFault(NormSpec{.cols = 16}, refs).missing);
  refs.out_q = refs.x;
  EXPECT_FALSE(findRoleFault(NormSpec{.cols = 16}, refs));
}

TEST_F(Dispatches, AListHasItsEntriesOrNone) {
  RopeTableSpec spec = {.pairs = 8, .sections = {1, 2}, .magnitude = 1};
  std::string text;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& d) { text += d.str(); });
  const auto complain = [&] { return mlir::emitError(b.getUnknownLoc()); };
  EXPECT_TRUE(mlir::failed(checkSpec("rope_table", specAttr(b, spec), complain)));
  EXPECT_NE(text.find("'sections' of family 'rope_table' must have 4 entries or none, found 2"),
            std::string::npos)
      << text;
  spec.sections = {};
  EXPECT_TRUE(mlir::succeeded(checkSpec("rope_table", specAttr(b, spec), complain)));
}

}  // namespace
}  // namespace qcc::plan
