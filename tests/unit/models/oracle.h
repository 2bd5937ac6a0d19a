// A second opinion: the forward pass of the architectures as plain loops in double, straight from a GGUF
// view. Shares nothing with the importer or with hir; written from the published maths so that a mistake in
// one shows in the other.
#ifndef QCC_TESTS_UNIT_MODELS_ORACLE_H_
#define QCC_TESTS_UNIT_MODELS_ORACLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "frontends/gguf/gguf.h"

namespace qcc::models::testing {

// Wrong on purpose (l2_max_eps: unless asked for), one at a time: a test that compares with the oracle must
// notice each of them.
struct OracleMutation {
  bool gate_is_second_half = false;  // W_q rows as all queries, then all gates
  bool gate_always_open = false;     // no output gate
  bool other_key_head = false;  // value head j with key head j / (n_v / n_k) instead of j mod n_k, or back
  bool exp_ssm_a = false;       // ssm_a taken for A_log: -exp(ssm_a)
  bool sigmoid_for_silu_gate = false;  // gated norm with sigmoid(z)
  bool l2_max_eps = false;             // x / max(|x|, eps) instead of x / sqrt(|x|^2 + eps)
  bool interleaved_rope = false;       // pairs (2i, 2i + 1) instead of (i, i + dims / 2)
  bool alphas_first = false;           // ssm_ba: of each key head its alphas, then its betas
  bool first_experts = false;          // the first experts instead of those of the largest gates
  bool gates_of_all = false;           // gates of the used experts not divided by their sum
  bool shared_open = false;            // no gate on the shared expert
};

// Logits of every position, ids.size() x vocabulary. Reads files whose keys are all there, without merged
// tensors (but for ssm_ba), scales or rope scaling.
std::vector<double> OracleLogits(const gguf::File& file, std::span<const int32_t> ids,
                                 const OracleMutation& mutation = {});

}  // namespace qcc::models::testing

#endif  // QCC_TESTS_UNIT_MODELS_ORACLE_H_
