// Weights times int8 rows, of many rows: a group of weights is unpacked once (LinearScratch), then one inner
// loop takes all rows through it. Every output is made by the operations of Int8Linear::tile in their order:
// the bits are the same. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_
#define QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_

#include "codegen/cpu/kernels/linear_matrix.h"
#include "codegen/cpu/kernels/panel_dot.h"

namespace qk {

template <Format F, PanelCodes kCodes>
struct Panels {
  typedef Int8Linear<F> L;
  typedef typename L::B B;
  static constexpr bool kWide = kCodes == PanelCodes::kWide;
  // One integer sum has all 32 columns where codes, of formats that fold, have their scales in them, or where
  // scales multiply sums on the way.
  static constexpr bool kScaled = kCodes == PanelCodes::kScaled, kFolds = B::kFolds && !kScaled;
  typedef typename PanelDot<kWide, Level::Dot<kFolds ? B::kFoldedHigh : B::kHigh>>::Type Dot;
  static constexpr int kSums = L::kSums, kDots = kFolds || kScaled ? 1 : kSums;
  static constexpr int kWords = kWide ? 16 : 8;                          // of a chunk
  static constexpr bool kFactors = B::kHasScale && !kFolds && !kScaled;  // f32, of whole numbers
  static constexpr int kTileChunks = L::T.block / 32;
  static_assert(LinearScratch::kPartColumns % (L::T.run * L::T.block) == 0);
  // Codes of panels for a matrix unit are signed: no sum needs a start.
  static constexpr bool kMatrix = Level::MatrixUnit::kRows > 0, kSigned = kMatrix || Dot::kSigned;
  static constexpr int kLow = kSigned ? 0 : B::kLow;
  static constexpr int kTogether = kWords / kSums;  // words of a scale
  // The products of a scale's words add up in 16 bits, whose ends they pass on the way, as the sum of x's
  // codes times kLow that they begin with brings them back.
  static constexpr bool kWraps =
      kScaled && kLow != 0 && Level::wraps(B::kHigh, kTogether, static_cast<int>(B::kMostValue));
  typedef MatrixProducts<kDots, Level::MatrixUnit> Unit;
  // Rows and vectors of outputs that are multiplied together: as many sums as registers hold. A word of a row
  // is read once for all vectors, which lie in G panels.
  static constexpr PanelShape kShape = Level::panel(B::kHasMinimum);
  static constexpr int M = kShape.rows, V = kShape.vectors, G = kShape.panels;
  static constexpr int kEach = V / G;  // vectors of a panel
  static_assert(LinearScratch::kRowsTogether % M == 0 && M <= Level::panel_rows(B::kHigh, 2) && V % G == 0 &&
                G <= 2 && kParts % kEach == 0);
  static_assert(!kMatrix || !kWide);
  // Tiles of few rows make the same number in f32.
  static_assert(!kScaled || B::kMostWhole < 1 << 24, "a sum of 32 columns is not exact in f32");
  static_assert(!kMatrix || (kEach == kParts && G == 1 && B::kLow >= -128 && B::kLow + B::kHigh <= 127));

  struct Sums {
    Float v[M][V];
  };

  // Weights that are unpacked later: asked for with each chunk that is multiplied, as multiplying alone would
  // leave memory idle and unpacking would wait for it. Few rows feel it (8 rows, level v3, Zen 4: 1.4x of
  // asking while they are unpacked for Q4_K and Q8_0, 1.6x for Q6_K). Those of a group, then of a second one.
  struct Coming {
    const uint8_t *at, *end, *second;
    int64_t bytes, lines;
    QK_INLINE void ask(Coming& c) {
      for (int64_t i = 0; i < c.lines; ++i, c.at += 64) {
        if (c.at >= c.end) {
          if (!c.second) return;
          c.at = c.second;
          c.end = c.second + c.bytes;
          c.second = nullptr;
        }
        prefetch_near(c.at);
      }
    }
  };

  // Columns of the matrix, `columns` from `from` on, that panels have, with the sums of those before them:
  // [groups][rows][16], where these are not all.
  struct Part {
    int64_t from, columns;
    bool begins, keeps;  // the matrix; its sums
    float* sums;
    __attribute__((always_inline)) const uint8_t* weights(const uint8_t* group) const {
      return group + from / L::T.block * L::T.bytes();
    }
    __attribute__((always_inline)) int64_t bytes() const { return columns / L::T.block * L::T.bytes(); }
  };

  const L& t;
  LinearScratch place;
  // Of the first matrix; `place.pair` bytes behind it that of the second, where there are two, or else, where
  // panels are multiplied together, of the next group.
  uint8_t* panel;
  int32_t* starts;
  float* weighted;
  uint8_t *products, *wide;
  float* sums;
  int64_t row_starts;  // of a row: numbers in either
  MatrixRows<F> matrix_rows;

  // Of at most as many columns. keeps: sums of some of them, or of all.
  QK_INLINE Panels make(const L& t, uint8_t* scratch, int64_t most_columns, bool keeps) {
    const LinearScratch place(B::kForm, t.k, t.terms, kCodes, most_columns, keeps);
    return {t,
            place,
            scratch + place.panel,
            reinterpret_cast<int32_t*>(scratch + place.starts),
            reinterpret_cast<float*>(scratch + place.weighted),
            scratch + place.products,
            scratch + place.wide,
            reinterpret_cast<float*>(scratch + place.sums),
            LinearScratch::Starts(B::kForm, place.columns),
            {t, {B::kForm, t.terms}, scratch + place.tiles}};
  }

  __attribute__((always_inline)) Part whole() const { return {0, t.k, true, false, nullptr}; }
  // The columns from `from` on, of the group that is the nth of those that pass them together.
  __attribute__((always_inline)) Part part(int64_t from, int64_t nth) const {
    const int64_t left = t.k - from, columns = left < place.columns ? left : place.columns;
    return {from, columns, from == 0, columns < left || kMatrix, sums + nth * place.SumsStride()};
  }

  __attribute__((always_inline)) void begin() const {
    if constexpr (kMatrix) Unit::begin();
  }
  __attribute__((always_inline)) void end() const {
    if constexpr (kMatrix) Unit::end();
  }

  // The group at w and, where `both`, the one behind it.
  __attribute__((always_inline)) void unpack(const uint8_t* w, bool both, const Part& part) const {
    unpack(w, panel, part);
    if (both) unpack(w + t.group_bytes, panel + place.pair, part);
  }
  __attribute__((always_inline)) void unpack(const uint8_t* w, uint8_t* to, const Part& part) const {
    uint8_t* base = to + place.base_at;
    for_each_tile<F>(
        part.weights(w), part.columns / L::T.block,
        [&](int64_t, TileHeader header, const uint8_t* body) QK_LAMBDA {
          if constexpr (B::kOneBase) {
            unroll<kParts>([&](int p) QK_LAMBDA {
              store<Float>(base + p * kLanes * 4, read_base<F>(PartFields{p}, header, 0));
            });
            base += 64;
          }
          for (int j = 0; j < kTileChunks; ++j, to += place.chunk) {
            unroll<kParts>([&](int p) QK_LAMBDA {
              uint8_t* at = to + p * kLanes * 4;
              Words factors[2];
              if constexpr (B::kHasScale) {
                unroll<kSums>([&](int g)
                                  QK_LAMBDA { factors[g] = read_factors<F>(PartFields{p}, header, j, g); });
              }
              for_each_word<F, kSigned>(body + j * L::T.chunk, p, [&](int, int word, Words codes) QK_LAMBDA {
                // Four codes a lane, whose products stay within their bytes.
                if constexpr (kFolds) codes *= factors[word >> 2];
                if constexpr (kWide) {
                  store<Pairs>(at + word * 128, even_bytes((Pairs)codes));
                  store<Pairs>(at + word * 128 + 64, odd_bytes((Pairs)codes));
                } else {
                  store<Words>(at + word * 64, codes);
                }
              });
              unpack_scales(PartFields{p}, header, j, factors, at);
            });
          }
        });
  }

  // Both 16 bits of each lane.
  QK_INLINE Words both_halves(Words even, Words odd) { return (even & 0xffff) | odd << 16; }

  __attribute__((always_inline)) void unpack_scales(PartFields reader, TileHeader header, int j,
                                                    const Words (&factors)[2], uint8_t* at) const {
    unroll<kSums>([&](int g) QK_LAMBDA {
      uint8_t* to = at + place.scale_at + g * 64;
      if constexpr (!B::kOneBase) {
        store<Float>(to, read_scale<F>(reader, header, j, g));
      } else if constexpr (kScaled) {
        store<Words>(to, both_halves(factors[g], factors[g]));
      } else if constexpr (kFactors) {
        store<Float>(to, to_float<kLanes>(factors[g]));
      }
      if constexpr (B::kHasMinimum)
        store<Float>(at + place.shift_at + g * 64, read_shift<F>(reader, header, j, g));
    });
    if constexpr (kScaled && kLow != 0 && !kWraps)
      store<Words>(at + place.shift_at, both_halves(factors[0] * kLow, factors[kSums - 1] * kLow));
  }

  // The rows [first, end) as 16 bits.
  __attribute__((always_inline)) void fill_wide(const uint8_t* x, int64_t first, int64_t end,
                                                const Part& part) const {
    typedef I16<16> Chunk;
    for (int64_t r = first; r < end; ++r) {
      const uint8_t* codes = t.columns(x + r * t.row_bytes, part.from).codes;
      uint8_t* to = wide + (r - first) * LinearScratch::WideRowBytes(place.columns);
      for (int64_t col = 0; col < part.columns; col += 32, to += 64) {
        const Chunk v = load<Chunk>(codes + col);
        Chunk even = even_bytes(v), odd = odd_bytes(v);
        if (t.terms == 2) {
          const Chunk last = load<Chunk>(codes + t.last_term(col));
          even = (even << kTermBits) + even_bytes(last);
          odd = (odd << kTermBits) + odd_bytes(last);
        }
        store<Chunk>(to, even);
        store<Chunk>(to + 32, odd);
      }
    }
  }

  // kLow times the sums of the first two and of the last two columns of each word, of a scale's words.
  QK_INLINE int32_t pair_sums(const uint8_t* codes) {
    I16<8> pairs = 0;
    unroll<kTogether / 4>([&](int i) QK_LAMBDA {
      const I16<8> four = load<I16<8>>(codes + 16 * i);
      pairs += even_bytes(four) + odd_bytes(four);
    });
    const I16<4> two = pairs.lo + pairs.hi;
    return __builtin_bit_cast(int32_t, (two.lo + two.hi) * static_cast<int16_t>(kLow));
  }

  // Groups that each tile of rows passes before the next, where rows are `bytes`.
  QK_INLINE int64_t groups(int64_t bytes) {
    return G == 2 || (Level::kPanelPairs > 0 && bytes > Level::kPanelPairs) ? 2 : 1;
  }

  // The rows [begin, end) as `rows` takes them, with those from `first` on that stand already.
  __attribute__((always_inline)) void fill(const uint8_t* x, int64_t first, int64_t begin, int64_t end,
                                           const Part& part) const {
    if constexpr (!kMatrix) {
      fill(x, first, end, part);
      return;
    }
    for (int64_t r = begin; r < end; r += M) {
      const int64_t at = r + M <= end ? r : end - M;
      for (int64_t m = 0; m < M; ++m)
        matrix_rows.put(t.columns(x + (at + m) * t.row_bytes, part.from), r - begin + m, part.columns);
    }
  }
  // What goes with the rows [first, end) for all panels: what their sums start with, what minima are
  // multiplied by.
  __attribute__((always_inline)) void fill(const uint8_t* x, int64_t first, int64_t end,
                                           const Part& part) const {
    if constexpr (kWide) fill_wide(x, first, end, part);
    if constexpr (kLow == 0 && !B::kHasMinimum) return;
    for (int64_t r = first; r < end; ++r) {
      const Int8Columns row = t.columns(x + r * t.row_bytes, part.from);
      const int64_t at = (r - first) * row_starts, count = LinearScratch::Starts(B::kForm, part.columns);
      int64_t i = 0;
      if constexpr (!kScaled) {
        if (t.terms == 1) {
          for (; i + 8 <= count; i += 8) fill_eight(row, i, at + i);
        }
      }
      for (; i < count; ++i) fill_one(row, i, at + i);
    }
  }
  // Of a row's numbers the ith, which goes to place `to`.
  __attribute__((always_inline)) void fill_one(const Int8Columns& row, int64_t i, int64_t to) const {
    const int64_t col = i / kSums * 32, g = i % kSums;
    if constexpr (kWraps) {
      starts[to] = pair_sums(row.codes + col + g * 16);
    } else if constexpr (kScaled && kLow != 0) {
      const uint8_t* sums = row.sums + col / 4;
      starts[to] = (load32(sums) & 0xffff) | load32(sums + 4) << 16;
    } else if constexpr (kLow != 0) {
      starts[to] = kLow * t.x_sum(row, col, static_cast<int>(g));
    }
    if constexpr (B::kHasMinimum) weighted[to] = t.x_weighted(row, col, static_cast<int>(g));
  }
  // The same of eight, of a row of one term.
  __attribute__((always_inline)) void fill_eight(const Int8Columns& row, int64_t i, int64_t to) const {
    I32<8> sums;
    if constexpr (kSums == 2) {
      sums = load<I32<8>>(row.sums + 4 * i);
    } else {
      const I32<16> halves = load<I32<16>>(row.sums + 8 * i);
      sums = halves.even + halves.odd;
    }
    if constexpr (kLow != 0) store<I32<8>>(starts + to, sums * kLow);
    if constexpr (B::kHasMinimum) {
      if constexpr (kSums == 1) {
        store<F32<8>>(weighted + to, load<F32<8>>(row.weighted + 4 * i));
      } else {
        const F32<4> scales = load<F32<4>>(row.scales + 2 * i);
        const F32<8> each = __builtin_shufflevector(scales, scales, 0, 0, 1, 1, 2, 2, 3, 3);
        store<F32<8>>(weighted + to, each * to_float<8>(sums));
      }
    }
  }

  // Where vector v of those that are multiplied together lies behind the first.
  __attribute__((always_inline)) int64_t vector_at(int v, int64_t second) const {
    return v / kEach * second + v % kEach * kLanes * 4;
  }

  // Parts p, ... of the panel at `chunk`, with G panels also of that `second` bytes behind it, with the M
  // rows at x; `first` is the number of the first of them in starts. acc: the sums of the columns before.
  __attribute__((always_inline)) Sums tile(const uint8_t* chunk, int64_t second, int p, const uint8_t* x,
                                           int64_t first, const Part& part, const Sums& acc,
                                           Coming& coming) const {
    const auto row = [&](int m) QK_LAMBDA { return t.columns(x + m * t.row_bytes, part.from); };
    const auto weight = [&](int m, int64_t at, int g) QK_LAMBDA {
      __builtin_assume(at >= 0);
      return weighted[(first + m) * row_starts + at / 32 * kSums + g];
    };
    chunk += p * kLanes * 4;
    return tiles(chunk, second, part.columns, acc, weight,
                 [&](const uint8_t* chunk, int64_t at, Sums& sums) QK_LAMBDA {
                   Coming::ask(coming);
                   Sums whole;
                   unroll<kDots>([&](int g) QK_LAMBDA {
                     Dot dot[M][V];
                     dots(chunk, second, row, first, at, g, dot);
                     add_scaled(
                         chunk + place.scale_at + g * 64, second,
                         [&](int m) QK_LAMBDA { return t.x_scale(row(m), at); }, g,
                         [&](int m, int v) QK_LAMBDA { return to_float<kLanes>(Dot::end(dot[m][v])); }, whole,
                         sums);
                   });
                 });
  }

  // products(chunk, at, sums) adds what the chunk `chunk`, columns at, ... gives; weight(m, at, g): what row
  // m's minima are multiplied by.
  template <class Weight, class Products>
  __attribute__((always_inline)) Sums tiles(const uint8_t* chunk, int64_t second, int64_t columns, Sums acc,
                                            Weight weight, Products products) const {
    const uint8_t* base = chunk + place.base_at;
    for (int64_t at = 0; at < columns; base += 64) {
      const int64_t tile_at = at;
      const uint8_t* tile = chunk;
      Sums sums;
      clear_sums(sums);
      for (int j = 0; j < kTileChunks; ++j, at += 32, chunk += place.chunk)
        products(chunk, at, B::kOneBase ? sums : acc);
      if constexpr (B::kOneBase) {
        unroll<V>([&](int v) QK_LAMBDA {
          const Float scale = load<Float>(base + vector_at(v, second));
          unroll<M>([&](int m) QK_LAMBDA { acc.v[m][v] = fma<kLanes>(scale, sums.v[m][v], acc.v[m][v]); });
        });
      }
      if constexpr (B::kHasMinimum) {
        for (int j = 0; j < kTileChunks; ++j)
          add_minima(
              tile + j * place.chunk + place.shift_at, second,
              [&](int m, int g) QK_LAMBDA { return weight(m, tile_at + j * 32, g); }, acc);
      }
    }
    return acc;
  }

  QK_INLINE void clear_sums(Sums& sums) {
    unroll<M * V>([&](int i) QK_LAMBDA { sums.v[i / V][i % V] = Float(0.f); });
  }

  // The integer sums g of the M rows, columns at, ...
  template <class Row>
  __attribute__((always_inline)) void dots(const uint8_t* chunk, int64_t second, Row row, int64_t first,
                                           int64_t at, int g, Dot (&dot)[M][V]) const {
    const auto codes_of = [&](int m) QK_LAMBDA {
      return kWide ? wide + (first + m) * LinearScratch::WideRowBytes(place.columns) : row(m).codes;
    };
    const auto begin = [&](auto value) QK_LAMBDA {
      unroll<M * V>([&](int i) QK_LAMBDA {
        Dot& d = dot[i / V][i % V];
        Dot::begin(d, value(i / V, i % V, d));
      });
    };
    __builtin_assume(at >= 0);  // divided by shifting
    const int32_t* start = starts + first * row_starts + at / 32 * kSums + g;
    const auto started = [&](int m, int v) QK_LAMBDA {
      if constexpr (kLow == 0 || kWraps) return Words(0);
      const Words sums(start[m * row_starts]);
      if constexpr (!kScaled) return sums;
      return Level::add_pairs(Words(0), load<Words>(chunk + place.shift_at + vector_at(v, second)), sums);
    };
    if (t.terms == 2 && !kWide) {
      begin([&](int, int, Dot&) QK_LAMBDA { return Words(0); });
      add_term(chunk, second, start, codes_of, at, g, dot);
      begin([&](int m, int v, Dot& d) QK_LAMBDA { return (Dot::end(d) << kTermBits) + started(m, v); });
    } else {
      begin([&](int m, int v, Dot&) QK_LAMBDA { return started(m, v); });
    }
    add_term(chunk, second, start, codes_of, kWide ? 2 * at : t.last_term(at), g, dot);
  }

  // The products that go into sum g, of the chunk that begins `at` bytes into codes_of(m), the codes of row
  // m.
  template <class Codes>
  __attribute__((always_inline)) void add_term(const uint8_t* chunk, int64_t second, const int32_t* start,
                                               Codes codes_of, int64_t at, int g, Dot (&dot)[M][V]) const {
    constexpr int kMade = kWords / kDots;
    unroll<kMade>([&](int n) QK_LAMBDA {
      const int word = g * kMade + n;
      Words codes[V];
      unroll<V>([&](int v) QK_LAMBDA { codes[v] = load<Words>(chunk + word * 64 + vector_at(v, second)); });
      unroll<M>([&](int m) QK_LAMBDA {
        const int32_t xm = load32(codes_of(m) + at + (kWide ? word % 2 * 32 + word / 2 * 4 : word * 4));
        unroll<V>([&](int v) QK_LAMBDA {
          if constexpr (kScaled) {
            const uint8_t* scale = chunk + place.scale_at + word / kTogether * 64 + vector_at(v, second);
            if constexpr (kWraps) {
              if (n % kTogether == 0)
                Dot::begin_pairs(dot[m][v], Words(start[m * row_starts + n / kTogether]));
            }
            Dot::template add_scaled<kWraps>(dot[m][v], n % kTogether, kTogether, codes[v], xm,
                                             load<Words>(scale));
          } else {
            Dot::add(dot[m][v], n, kMade, codes[v], xm);
          }
        });
      });
    });
  }

  // number_of(m, v): sum g, which goes with the scale at `scales`. whole: a chunk's number for each output,
  // while its sums come in.
  template <class Scale, class NumberOf>
  __attribute__((always_inline)) void add_scaled(const uint8_t* scales, int64_t second, Scale x_scale, int g,
                                                 NumberOf number_of, Sums& whole, Sums& sums) const {
    unroll<V>([&](int v) QK_LAMBDA {
      Float scale;
      if constexpr (!B::kOneBase || kFactors) scale = load<Float>(scales + vector_at(v, second));
      unroll<M>([&](int m) QK_LAMBDA {
        const float xs = x_scale(m);
        const Float number = number_of(m, v);
        Float& sum = sums.v[m][v];
        if constexpr (!B::kOneBase) {
          sum = fma<kLanes>(scale * xs, number, sum);
        } else {
          Float& w = whole.v[m][v];
          if (g == 0) {
            w = kFactors ? number * scale : number;
          } else {
            w = fma<kLanes>(number, scale, w);
          }
          if (g == kDots - 1) sum = fma<kLanes>(Float(xs), w, sum);
        }
      });
    });
  }

  // weight(m, g): what row m's minima are multiplied by.
  template <class Weight>
  __attribute__((always_inline)) void add_minima(const uint8_t* shifts, int64_t second, Weight weight,
                                                 Sums& acc) const {
    unroll<V * kSums>([&](int i) QK_LAMBDA {
      const int g = i / V, v = i % V;
      const Float shift = load<Float>(shifts + g * 64 + vector_at(v, second));
      unroll<M>([&](int m) QK_LAMBDA { acc.v[m][v] = fma<kLanes>(shift, Float(weight(m, g)), acc.v[m][v]); });
    });
  }

  // What the panels give for M rows: sums[0] of the first, sums[1] of the second where it is wanted.
  struct Products {
    Float sums[2][M][kEach];
  };
  // Where vector v of row m of a panel's sums lies, parts p, ...; the second panel's are a stride behind.
  __attribute__((always_inline)) float* sums_at(const Part& part, int64_t panel, int p, int64_t row,
                                                int v) const {
    return part.sums + panel * place.SumsStride() + row * 16 + (p + v) * kLanes;
  }
  // What the columns before gave for the M rows from `first` on, of the panels from the nth on.
  __attribute__((always_inline)) Sums before(const Part& part, int64_t nth, bool second, int p,
                                             int64_t first) const {
    Sums acc;
    if (part.begins) {
      clear_sums(acc);
    } else {
      unroll<M * V>([&](int i) QK_LAMBDA {
        const int m = i / V, v = i % V;
        const int64_t panel = nth + (second ? v / kEach : 0);
        acc.v[m][v] = load<Float>(sums_at(part, panel, p, first + m, v % kEach));
      });
    }
    return acc;
  }
  __attribute__((always_inline)) Products multiply(int p, const uint8_t* xr, int64_t first, bool second,
                                                   const Part& part, Coming& coming) const {
    Products products;
    if constexpr (G == 2) {
      const Sums both =
          tile(panel, second ? place.pair : 0, p, xr, first, part, before(part, 0, second, p, first), coming);
      unroll<M * V>([&](int i) QK_LAMBDA {
        const int m = i / V, v = i % V;
        products.sums[v / kEach][m][v % kEach] = both.v[m][v];
      });
    } else {
      for (int64_t j = 0; j < (second ? 2 : 1); ++j) {
        const Sums acc = before(part, j, false, p, first);
        const Sums one = tile(panel + j * place.pair, 0, p, xr, first, part, acc, coming);
        unroll<M * V>([&](int i) QK_LAMBDA { products.sums[j][i / V][i % V] = one.v[i / V][i % V]; });
      }
    }
    return products;
  }
  // Keeps them for the next columns, or for `leave`.
  __attribute__((always_inline)) void keep(const Part& part, int p, int64_t first, int64_t skip, bool both,
                                           const Products& products) const {
    for (int64_t j = 0; j < (both ? 2 : 1); ++j) {
      unroll<M>([&](int m) QK_LAMBDA {
        if (m < skip) return;
        unroll<kEach>([&](int v) QK_LAMBDA {
          store<Float>(sums_at(part, j, p, first + m, v), products.sums[j][m][v]);
        });
      });
    }
  }

  // What `keep` has of row r of group `nth`, of the rows' first on.
  __attribute__((always_inline)) Float kept(int64_t nth, int64_t r, int v) const {
    return load<Float>(sums + nth * place.SumsStride() + r * 16 + v * kLanes);
  }

  // The panel, or `both`, with rows [begin, end); `first`'s starts are at starts[0]. What is left of less
  // than a tile is taken with rows that stand already, from `first` on: with a matrix's last columns
  // store(p, at, skip, products) is for parts p, ... of the rows at, at + 1, ..., of which the first `skip`
  // stand. after_next: the group, or both, that is unpacked then; it is asked for.
  template <class Store>
  __attribute__((always_inline)) void rows(const uint8_t* x, int64_t first, int64_t begin, int64_t end,
                                           bool both, const Part& part, const uint8_t* after_next,
                                           Store store) const {
    const int64_t bytes = part.bytes();
    const int64_t tiles = (end - begin + M - 1) / M * (kParts / kEach) * (both && G == 1 ? 2 : 1);
    Coming coming = {after_next, after_next + bytes, both ? after_next + t.group_bytes : nullptr, bytes,
                     (both ? 2 : 1) * bytes / (tiles * (part.columns / 32) * 64) + 1};
    const auto leave = [&](int p, int64_t r, int64_t at, const Products& products) QK_LAMBDA {
      if (part.keeps) {
        keep(part, p, at - first, r - at, both, products);
      } else {
        store(p, at, r - at, products);
      }
    };
    if constexpr (kMatrix) {
      matrix_rows_of(*this, first, begin, end, both, part, coming, leave);
      return;
    }
    for (int64_t r = begin; r < end; r += M) {
      const int64_t at = r + M <= end ? r : end - M;
      unroll<kParts / kEach>([&](int i) QK_LAMBDA {
        const int p = i * kEach;
        leave(p, r, at, multiply(p, x + at * t.row_bytes, at - first, both, part, coming));
      });
    }
  }
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LINEAR_PANEL_H_
