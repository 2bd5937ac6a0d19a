// The family table against its page: every family, spec key and role that one names, the other names, too.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "dialects/plan/kernel_families.h"
#include "dialects/plan/pack_layout.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/AsmParser/AsmParser.h"

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

TEST(KernelFamilies, TableAndPageNameTheSame) {
  std::map<std::string, Row> page = PageRows();
  std::set<std::string> inTable;
  for (const Family& family : kernelFamilies()) {
    std::string name = family.name.str();
    inTable.insert(name);
    ASSERT_TRUE(page.count(name)) << name << " is not in kernel_families.md";
    for (const SpecKey& key : family.spec)
      EXPECT_TRUE(HasWord(page[name].spec, key.name.str()))
          << name << ": the page lacks spec key " << key.name.str();
    for (const Role& role : family.roles)
      EXPECT_TRUE(HasWord(page[name].roles, role.name.str()))
          << name << ": the page lacks role " << role.name.str();
    // Roles stand in backquotes on the page.
    const std::regex quoted("`([a-z_]+)`");
    for (std::sregex_iterator it(page[name].roles.begin(), page[name].roles.end(), quoted), end; it != end;
         ++it) {
      std::string role = (*it)[1];
      bool otherFamily = findKernelFamily(role) != nullptr && !family.role(role);
      EXPECT_TRUE(family.role(role) || otherFamily) << name << ": the table lacks role " << role;
    }
  }
  for (const auto& [name, row] : page)
    EXPECT_TRUE(inTable.count(name)) << name << " is not in kernel_families.def";
}

class Sizes : public ::testing::Test {
 protected:
  Sizes() { context.loadDialect<PlanDialect>(); }
  int64_t Bytes(const char* family, const char* role, const char* spec) {
    auto dict = mlir::cast<mlir::DictionaryAttr>(mlir::parseAttribute(spec, &context));
    return findKernelFamily(family)->role(role)->bytes(Spec(dict));
  }
  mlir::MLIRContext context;
};

// Worked by hand from kernel_families.md and pack_layouts.def.
TEST_F(Sizes, OfTheGatedDeltaNet) {
  const char* spec =
      "{key_heads = 16 : i64, value_heads = 32 : i64, key_dim = 128 : i64, value_dim = 64 : i64, taps = 4 : "
      "i64, "
      "ld_ab = 32 : i64}";
  EXPECT_EQ(Bytes("gated_delta", "qkv", spec), 4 * (2 * 16 * 128 + 32 * 64));
  EXPECT_EQ(Bytes("gated_delta", "conv_state", spec), 4 * (2 * 16 * 128 + 32 * 64) * 3);
  EXPECT_EQ(Bytes("gated_delta", "delta_state", spec), 4 * 32 * 128 * 64);
  EXPECT_EQ(Bytes("gated_delta", "alpha", spec), 4 * 32);
}

TEST_F(Sizes, OfLinears) {
  const char* spec =
      R"({format = "q4_k", numerics = "int8", k = 512 : i64, n = 20 : i64, epilogue = "store", rows = "rows"})";
  EXPECT_EQ(Bytes("linear", "w", spec), 2 * 2 * 2368) << "2 groups of 16 rows x 2 blocks";
  EXPECT_EQ(Bytes("linear", "y", spec), 4 * 32) << "20 outputs, padded to 32";
  EXPECT_EQ(Bytes("linear", "xq", spec), 704) << "512 codes, 16 f32 scales, 32 i32 sums, rounded up to 64";
}

TEST_F(Sizes, OfTheKvCache) {
  const char* spec =
      R"({q_heads = 8 : i64, kv_heads = 2 : i64, head_dim = 256 : i64, gated = true, kv = "f16"})";
  EXPECT_EQ(Bytes("attention", "kv", spec), 2 * 2 * 256 * 2);
  EXPECT_EQ(Bytes("attention", "gate", spec), 4 * 8 * 256 * 2) << "queries and gates interleaved";
  EXPECT_EQ(Bytes("qk_norm_rope_store", "q", spec), 4 * 8 * 256 * 2);
}

}  // namespace
}  // namespace qcc::plan
