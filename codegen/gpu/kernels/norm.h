// What kernels that norm rows share.
#ifndef QCC_CODEGEN_GPU_KERNELS_NORM_H_
#define QCC_CODEGEN_GPU_KERNELS_NORM_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

// Threads of every workgroup that norms a row: in how many sums squares are added up follows from it.
inline constexpr int kNormThreads = 128;

// 1 / sqrt(mean(x^2) + eps) of the row of `cols` columns, a multiple of four, at byte `source` of x.
// `reducer` is over kNormThreads; all threads of the workgroup must call (barriers).
Val NormScale(Builder& b, Reducer& reducer, Val x, Val source, int64_t cols, Val eps);

// The same of several rows side by side; `reducer` takes as many values. `thread`: the thread's index among
// its kNormThreads, of which a workgroup may have several times as many: each make all sums.
std::vector<Val> NormScales(Builder& b, Reducer& reducer, Val thread, Val x, const std::vector<Val>& sources,
                            int64_t cols, Val eps);

// Four columns of the row, and of the weights: `at` is their byte offset in it. With no weights the row is
// taken as it is.
struct NormWords {
  Val x, weight;
};
NormWords LoadNorm(Builder& b, Val x, Val source, Val weight, Val at);
std::vector<Val> NormQuad(Builder& b, const NormWords& words, Val scale);

// The threads of a workgroup take the quads of a row in turns; in each the next `threads`.
int QuadTurns(int64_t cols, int threads);
// The thread's quad of the turn whose quads begin with number `first`: its number, its byte offset, and
// whether the row has it. Where it has not, the offset is that of the row's last.
struct TurnQuad {
  Val number, at, active;
};
TurnQuad QuadOfTurn(Builder& b, Val thread, Val first, int64_t cols);

// Whether a thread keeps its quads of `rows` rows, with the weights', from the sum of squares to what is made
// of them. It then waits for memory once, where it would wait in every turn of both. Of more rows or turns
// the code that writes them out would be long, and drive other kernels' out of the multiprocessor's cache.
bool KeepsQuads(const Profile& profile, size_t rows, int64_t cols);
// How many turns ahead of its use a quad is asked for where quads are not kept, in a loop over `turns` of
// them; 0: with its use.
int TurnsAhead(const Profile& profile, size_t quads, int turns);
// NormScales of rows whose quads, [turn][row] of kNormThreads, the thread has.
std::vector<Val> NormScales(Builder& b, Reducer& reducer, Val thread, const std::vector<NormWords>& kept,
                            size_t rows, int64_t cols, Val eps);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_NORM_H_
