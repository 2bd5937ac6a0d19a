#include "codegen/gpu/kernels/linear_products.h"

#include <algorithm>
#include <functional>

#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

// In decode a multiprocessor has a few subgroups, which hide no latency for one another, so what counts is
// how often a thread waits for memory. Left to itself, ptxas puts each load next to its use: two waits in a
// chunk. So a thread loads the words of several chunks before it uses the first; of Q4_K and 6144 columns,
// whose parts have six chunks, it waits twice. As many words at most as leave it within 128 registers.
// Drivers of Vulkan keep loads where code has them: Mesa's compiler for AMD's chips waited in every chunk.
constexpr int kWordsAhead = 40, kMostChunksAhead = 5, kMostLongChunks = 2;
// By a thread of a workgroup of more than kLinearThreads, which has fewer registers. In f32, where rows of x
// take several times as many: those of a chunk. A workgroup of kAloneThreads has a multiprocessor for itself.
constexpr int kWordsAheadOfWide = 20, kAloneThreads = 512;
// Words of four columns of f32 rows, and of norms, that are loaded before the first is used.
constexpr int kQuadsAhead = 8;
bool LoadsTogether(const Profile& profile, const LinearSpec& spec, Loading loading) {
  return profile.loads_ahead != LoadsAhead::kNever && loading == Loading::kTogether &&
         spec.chunks() % spec.parts() == 0;
}

// acc + the product of 32 columns: integer dot products per scale, exact, then scales in f32.
Val Int8Product(Builder& b, const PackedRow& row, const std::vector<Val>& codes,
                const PackedRow::Scales& scales, const Int8Chunk& x, Val acc) {
  const int offset = row.code_offset();
  const bool two = row.two_scales();
  const Val both = x.sums[0] + x.sums[1];
  for (int s = 0; s < (two ? 2 : 1); ++s) {
    Val dot = offset ? (two ? x.sums[s] : both) * -offset : b.I32(0);
    for (int t = two ? 4 * s : 0; t < (two ? 4 * s + 4 : 8); ++t) dot = b.Dot4(codes[t], x.codes[t], dot);
    Val product = b.ToF32(dot);
    if (scales.rest[s]) product = product * scales.rest[s];
    acc = Fma(scales.scale[s] * x.scale, product, acc);
  }
  if (!scales.shift[0]) return acc;
  if (!two) return Fma(scales.shift[0], x.scale * b.ToF32(both), acc);
  for (int s = 0; s < 2; ++s) acc = Fma(scales.shift[s], x.scale * b.ToF32(x.sums[s]), acc);
  return acc;
}

}  // namespace

std::vector<PackedRow> PackedRows(Builder& b, const LinearSpec& spec, Val w, Val lane,
                                  const std::vector<Val>& groups) {
  std::vector<PackedRow> rows;
  rows.reserve(groups.size());
  for (Val group : groups) rows.emplace_back(b, spec.format, spec.k, w, group, lane);
  return rows;
}

std::vector<LoadedChunk> LoadChunks(Builder& b, const std::vector<PackedRow>& rows, Val first, int count) {
  std::vector<LoadedChunk> loaded;
  for (int i = 0; i < count; ++i) {
    for (const PackedRow& row : rows) {
      const PackedRow::Chunk at = row.At(first + i);
      loaded.push_back({row.LoadCodes(at), row.LoadScales(at)});
    }
  }
  if (count > 1) b.BeginLoads();
  return loaded;
}

int ChunksAhead(const Profile& profile, const LinearSpec& spec, size_t groups, size_t rows, Loading loading) {
  if (!LoadsTogether(profile, spec, loading) || rows > kMostRowsAhead) return 1;
  const int64_t words =
      CeilDiv(spec.group_bytes(), spec.chunks() * kLinearLanes * 4) * static_cast<int64_t>(groups);
  // A chunk whose products are f32, or whose values are looked up, is as much code as several others.
  const bool much = !spec.int8 || LooksUp(description(spec.format).plain);
  const int64_t code = profile.loads_ahead == LoadsAhead::kLittleCode && much
                           ? kMostLongChunks / static_cast<int64_t>(groups)
                           : kMostChunksAhead;
  const int threads = spec.split_threads(profile, 1);
  const bool wide = rows == 1 && threads > kLinearThreads && (groups == 2 || threads < kAloneThreads);
  if (wide && !spec.int8) return 1;
  const int64_t most =
      std::clamp<int64_t>((wide ? kWordsAheadOfWide : kWordsAhead) / words, 1, std::max<int64_t>(code, 1));
  const int64_t chunks = spec.chunks_per_part();
  return static_cast<int>(CeilDiv(chunks, CeilDiv(chunks, most)));
}

namespace {

// Carries sums over the chunks [low, high) of a part; `step` adds `loaded`, which begin with chunk `first`.
// With more than one ahead, parts are equal (ChunksAhead). `begun`: the first ones, if they are loaded
// already.
using Step = std::function<std::vector<Val>(Val first, const std::vector<LoadedChunk>& loaded,
                                            const std::vector<Val>& carried)>;
std::vector<Val> OverChunks(Builder& b, const LinearSpec& spec, const std::vector<PackedRow>& rows, Val low,
                            Val high, int ahead, const std::vector<LoadedChunk>* begun, std::vector<Val> sums,
                            const Step& step) {
  const auto add = [&](Val first, int count, const std::vector<Val>& carried) {
    return step(first, LoadChunks(b, rows, first, count), carried);
  };
  const int64_t part = spec.chunks_per_part();
  const int left = static_cast<int>(part % ahead);
  if (begun) sums = step(low, *begun, sums);
  if (!begun || part >= 2 * int64_t{ahead}) {
    sums = b.For(begun ? low + ahead : low, left ? high - left : high, b.I32(ahead), sums,
                 [&](Val chunk, const std::vector<Val>& carried) { return add(chunk, ahead, carried); });
  }
  return left ? add(high - left, left, sums) : sums;
}

std::vector<Val> Int8Part(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                          const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                          Loading loading, const std::vector<LoadedChunk>* begun) {
  const std::vector<PackedRow> rows = PackedRows(b, spec, args.w, lane, groups);
  const size_t m_count = x.rows();
  const std::vector<Val> zero(groups.size() * m_count, b.F32(0.f));
  const auto step = [&](Val first, const std::vector<LoadedChunk>& loaded, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    for (int i = 0; i < static_cast<int>(loaded.size() / rows.size()); ++i) {
      std::vector<std::vector<Val>> codes;
      std::vector<PackedRow::Scales> scales;
      for (size_t g = 0; g < rows.size(); ++g) {
        const LoadedChunk& of = loaded[static_cast<size_t>(i) * rows.size() + g];
        codes.push_back(rows[g].ReadCodes(of.codes));
        scales.push_back(rows[g].ReadScales(of.scales));
      }
      for (size_t m = 0; m < m_count; ++m) {
        for (int t = 0; t < spec.terms; ++t) {
          const Int8Chunk of_x = x.Chunk(m, first + (i + t * spec.chunks()));
          for (size_t g = 0; g < rows.size(); ++g) {
            Val& a = acc[g * m_count + m];
            a = Int8Product(b, rows[g], codes[g], scales[g], of_x, a);
          }
        }
      }
    }
    return acc;
  };
  return OverChunks(b, spec, rows, low, high, ChunksAhead(b.profile(), spec, groups.size(), m_count, loading),
                    begun, zero, step);
}

std::vector<Val> F32Part(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                         const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                         Loading loading, const std::vector<LoadedChunk>* begun) {
  const std::vector<PackedRow> rows = PackedRows(b, spec, args.w, lane, groups);
  const size_t m_count = x.rows(), n = groups.size() * m_count;
  // Even columns, then odd ones.
  const std::vector<Val> zero(2 * n, b.F32(0.f));
  const bool together = LoadsTogether(b.profile(), spec, loading);
  const int loads_each = spec.making == Making::kNormed ? 2 : 1;  // the norm's weights, too
  // Of the four columns of word `word`, of group `group`.
  using ValuesOf = std::function<std::vector<Val>(size_t group, int word)>;
  // Adds the products of `words` words of four columns from byte `from` of x on. Values are made next to
  // their products: all of a chunk's beside eight rows of x are more than ptxas has registers for.
  const auto add = [&](const ValuesOf& values_of, Val from, int words, std::vector<Val>& acc) {
    const int at_once = std::clamp(kQuadsAhead / (loads_each * static_cast<int>(m_count)), 1, words);
    for (int begin = 0; begin < words; begin += at_once) {
      const int end = std::min(begin + at_once, words);
      std::vector<LinearInput::Quad> quads;  // [word][row]
      for (int t = begin; t < end; ++t)
        for (size_t m = 0; m < m_count; ++m) quads.push_back(x.LoadQuad(m, from, t));
      if (together) b.BeginLoads();
      for (int t = begin; t < end; ++t) {
        std::vector<std::vector<Val>> values(rows.size());
        for (size_t g = 0; g < rows.size(); ++g) values[g] = values_of(g, t);
        for (size_t m = 0; m < m_count; ++m) {
          const std::vector<Val> quad = quads[static_cast<size_t>(t - begin) * m_count + m]();
          for (size_t c = 0; c < 4; ++c) {
            for (size_t g = 0; g < rows.size(); ++g) {
              Val& a = acc[(c & 1) * n + g * m_count + m];
              a = Fma(values[g][c], quad[c], a);
            }
          }
        }
      }
    }
  };
  constexpr int kWords = kChunkColumns / 4, kPlainWords = kWords / 2;
  // Plain formats have no scales to share: half of a chunk, which keeps the kernel small.
  const auto half_chunk = [&](Val i, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    const Val chunk = DivU(i, 2), first = RemU(i, 2) * kPlainWords;
    std::vector<std::vector<Val>> values;  // [group, word]: loads ahead of those of x
    for (const PackedRow& row : rows) {
      const PackedRow::Chunk at = row.At(chunk);
      for (int t = 0; t < kPlainWords; ++t) values.push_back(row.ReadValues(at, first + t));
    }
    const auto values_of = [&](size_t g, int t) { return values[g * kPlainWords + static_cast<size_t>(t)]; };
    add(values_of, i * (16 * kPlainWords), kPlainWords, acc);
    return acc;
  };
  const auto chunks = [&](Val first, const std::vector<LoadedChunk>& loaded,
                          const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    for (int i = 0; i < static_cast<int>(loaded.size() / rows.size()); ++i) {
      std::vector<std::vector<Val>> codes;
      std::vector<PackedRow::Scales> scales;
      for (size_t g = 0; g < rows.size(); ++g) {
        const LoadedChunk& of = loaded[static_cast<size_t>(i) * rows.size() + g];
        codes.push_back(rows[g].ReadCodes(of.codes));
        scales.push_back(rows[g].ReadScales(of.scales));
      }
      const auto values_of = [&](size_t g, int t) {
        return rows[g].ValuesOf(codes[g][static_cast<size_t>(t)], scales[g], static_cast<size_t>(t));
      };
      add(values_of, (first + i) * (16 * kWords), kWords, acc);
    }
    return acc;
  };
  const std::vector<Val> sums =
      IsBlockFormat(spec.format)
          ? OverChunks(b, spec, rows, low, high,
                       ChunksAhead(b.profile(), spec, groups.size(), m_count, loading), begun, zero, chunks)
          : b.For(low * 2, high * 2, b.I32(1), zero, half_chunk);
  std::vector<Val> result;
  result.reserve(n);
  for (size_t i = 0; i < n; ++i) result.push_back(sums[i] + sums[n + i]);
  return result;
}

}  // namespace

std::vector<Val> LinearPart(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                            const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                            Loading loading, const std::vector<LoadedChunk>* begun) {
  return (spec.int8 ? Int8Part : F32Part)(b, spec, args, lane, groups, x, low, high, loading, begun);
}

std::vector<XRow> Inputs(const LinearArgs& args, Val first, int count) {
  std::vector<XRow> inputs;
  inputs.reserve(static_cast<size_t>(count));
  for (int m = 0; m < count; ++m) inputs.push_back(args.Input(first + m));
  return inputs;
}

}  // namespace qcc::gpu
