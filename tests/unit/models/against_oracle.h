// Models with experts against the oracle.
#ifndef TESTS_UNIT_MODELS_AGAINST_ORACLE_H_
#define TESTS_UNIT_MODELS_AGAINST_ORACLE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/models/imported.h"
#include "tests/unit/models/oracle.h"
#include "tests/unit/models/tiny_model.h"

namespace qcc::models::testing {

// Both are double; the order of sums differs. Experts with small gates amplify that: 6e-16 with 4 of 9.
inline constexpr double kSame = 1e-14;
inline constexpr double kMoved = 1e-6;  // what a mutation must move the logits by, at least

inline TinyConfig Config(const std::string& arch, int64_t nextn = 0) {
  TinyConfig config;
  config.arch = arch;
  config.nextn = nextn;
  return config;
}

// The imported model computes what the oracle computes, or with a `mutation` (and not `same`) something else.
inline void ExpectOracle(const TinyModel& model, const OracleMutation& mutation = {}, bool same = true) {
  const OpenModel open = Open(model);
  ASSERT_NE(open.file, nullptr);
  const std::vector<int32_t> ids = SomeIds(12, open.file->FindTensor("token_embd.weight")->ne[1]);
  const double nmse = Nmse(Logits(*open.file, ids), OracleLogits(*open.file, ids, mutation));
  if (same)
    EXPECT_LT(nmse, kSame);
  else
    EXPECT_GT(nmse, kMoved) << "the imported model computes what the mutant computes";
}

inline void ExpectMutantDiffers(const TinyModel& model, const OracleMutation& mutation) {
  ExpectOracle(model, mutation, /*same=*/false);
}

}  // namespace qcc::models::testing

#endif  // TESTS_UNIT_MODELS_AGAINST_ORACLE_H_
