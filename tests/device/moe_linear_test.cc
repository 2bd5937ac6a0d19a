// moe_linear on every device: values against double; each expert's products have the bits that `linear` gives
// with its matrix on the same device, in every bucket; experts that no row has are poison. Where `linear` has
// an order of sums of its own, experts' products have one set of bits in all buckets.
#include <algorithm>
#include <random>

#include "dialects/formats/descriptions.h"
#include "dialects/layouts/layouts.h"
#include "tests/device/conformance.h"
#include "tests/device/moe_lists.h"
#include "tests/device/reference.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::conformance {
namespace {

using cpu::Random;

constexpr int64_t kMostRows = 64;
const int64_t kBuckets[] = {1, 2, 8, 17, kMostRows};

struct Shape {
  Format format;
  bool int8;
  std::string epilogue;
  int64_t k, n, experts = 6, top_k = 3;
  int scales = 0;  // bits: 1 scale, 2 up_scale, 4 the same ones for all experts

  bool Adds() const { return epilogue == "add"; }
  bool Pair() const { return epilogue == "swiglu"; }
  int64_t XCols() const { return Adds() ? top_k * k : k; }
  int64_t YCols() const { return Adds() ? n : top_k * n; }
  int64_t ScaleCount() const { return scales & 4 ? 1 : experts; }
  std::string FormatName() const { return std::string(format_info(format).name); }
  std::string Key() const {
    return FormatName() + (int8 ? "_int8_" : "_f32_") + epilogue + "_k" + std::to_string(k) + "_n" +
           std::to_string(n) + "_e" + std::to_string(experts) + "x" + std::to_string(top_k) + "_s" +
           std::to_string(scales);
  }
  std::string Name(int64_t bucket) const { return "moe_" + Key() + "_r" + std::to_string(bucket); }
  std::string LinearName(int64_t expert) const { return "linear_" + Key() + "_" + std::to_string(expert); }
  uint32_t Seed() const { return static_cast<uint32_t>(std::hash<std::string>()(Key())); }
  Bytes Matrix(int64_t expert, int which) const {
    return cpu::random_gguf(format, n, k, Seed() + static_cast<uint32_t>(2 * expert + which));
  }
};

std::vector<Shape> MakeShapes() {
  std::vector<Shape> shapes;
  for (const char* epilogue : {"store", "add", "swiglu"}) {
    shapes.push_back({Format::Q8_0, true, epilogue, 96, 48});
    shapes.push_back({Format::Q4_K, true, epilogue, 256, 32, 5, 2});
    shapes.push_back({Format::Q6_K, false, epilogue, 256, 16, 9, 4});
    shapes.push_back({Format::BF16, false, epilogue, 64, 48});
    // One expert for all rows, as a shared one; one of a row; scales of each expert, and of all.
    shapes.push_back({Format::Q8_0, true, epilogue, 64, 64, 1, 1, 1});
    shapes.push_back({Format::Q4_0, true, epilogue, 96, 32, 4, 1, 5});
    shapes.push_back(
        {Format::NVFP4, true, epilogue, 64, 32, 6, 3, std::string(epilogue) == "swiglu" ? 3 : 1});
    // Enough tiles for the kernels of many rows, also for those of CUDA that have 64.
    shapes.push_back({Format::Q4_1, true, epilogue, 32, 3328, 3, 2});
  }
  shapes.push_back({Format::Q5_K, true, "swiglu", 256, 64, 3, 2});
  shapes.push_back({Format::Q6_K, true, "add", 256, 64, 3, 2});
  return shapes;
}
const std::vector<Shape>& Shapes() {
  static const auto* shapes = new std::vector<Shape>(MakeShapes());
  return *shapes;
}

// Inputs of all rows, and the matrices.
struct Problem {
  explicit Problem(const Shape& s) : s(s) {
    std::mt19937 bits(s.Seed());
    ids = RandomIds(kMostRows, s.experts, s.top_k, [&] {
      const uint32_t id = static_cast<uint32_t>(bits()) % static_cast<uint32_t>(s.experts);
      return s.experts > s.top_k + 1 ? id - id % 4 / 3 : id;  // one of four has no rows
    });
    Random random(s.Seed() + 99);
    x = random.normals(static_cast<size_t>(kMostRows * s.XCols()));
    before = random.normals(static_cast<size_t>(kMostRows * s.n));
    weights = random.normals(static_cast<size_t>(kMostRows * s.top_k));
    for (int which : {0, 1}) scales[which] = random.normals(static_cast<size_t>(s.ScaleCount()));
  }
  bool Used(int64_t expert) const { return std::find(ids.begin(), ids.end(), expert) != ids.end(); }
  float Scale(int which, int64_t expert) const {
    if (!(s.scales & 1 << which)) return 1.f;
    return scales[which][s.scales & 4 ? 0 : static_cast<size_t>(expert)];
  }
  Bytes Packed(int64_t expert) const {
    const Bytes a = s.Matrix(expert, 0), b = s.Pair() ? s.Matrix(expert, 1) : Bytes();
    return Pack(s.format, a, s.n, s.k, s.Pair() ? &b : nullptr);
  }
  // The slots of an expert among the first rows.
  std::vector<int64_t> Slots(int64_t expert) const {
    std::vector<int64_t> slots;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == expert) slots.push_back(static_cast<int64_t>(i));
    }
    return slots;
  }
  // The columns of x that belong to a slot.
  std::vector<float> Input(int64_t slot) const {
    const auto first = x.begin() + (s.Adds() ? slot : slot / s.top_k) * s.k;
    return {first, first + s.k};
  }

  const Shape& s;
  std::vector<int32_t> ids;
  std::vector<float> x, before, weights, scales[2];
};

std::string SpecOf(const Shape& s, const std::string& epilogue) {
  return "{format = \"" + s.FormatName() + "\", numerics = \"" + (s.int8 ? "int8" : "f32") +
         "\", k = " + std::to_string(s.k) + " : i64, n = " + std::to_string(s.n) + " : i64, epilogue = \"" +
         epilogue + "\", ";
}

// With scales of `count` numbers from `first` on.
void AddScales(const Problem& p, Case& c, int64_t first, int64_t count) {
  for (int which : {0, 1}) {
    const std::string role = which ? "up_scale" : "scale";
    if (!(p.s.scales & 1 << which)) {
      c.without.insert(role);
      continue;
    }
    const auto begin = p.scales[which].begin() + (p.s.scales & 4 ? 0 : first);
    c.weights[role] = AsBytes(std::vector<float>(begin, begin + count));
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Shape& s : Shapes()) {
    const Problem p(s);
    Bytes all;
    for (int64_t e = 0; e < s.experts; ++e) {
      Bytes packed = p.Packed(e);
      if (!p.Used(e)) {
        all.insert(all.end(), packed.size(), 0xff);
        continue;
      }
      all.insert(all.end(), packed.begin(), packed.end());
      Case c;
      c.name = s.LinearName(e);
      c.family = "linear";
      c.spec = SpecOf(s, s.Adds() ? "store" : s.epilogue) + "rows = \"rows\"}";
      c.rows = kMostRows;
      c.weights["w"] = std::move(packed);
      AddScales(p, c, e, 1);
      cases.push_back(std::move(c));
    }
    for (int64_t bucket : kBuckets) {
      Case c;
      c.name = s.Name(bucket);
      c.family = "moe_linear";
      const auto integer = [](const char* key, int64_t v) {
        return std::string(key) + " = " + std::to_string(v) + " : i64";
      };
      c.spec = SpecOf(s, s.epilogue) + integer("experts", s.experts) + ", " + integer("top_k", s.top_k) +
               ", " + integer("scale_count", s.ScaleCount()) + ", " +
               integer("up_scale_count", s.ScaleCount()) + "}";
      c.rows = bucket;
      c.weights["w"] = all;
      AddScales(p, c, 0, s.ScaleCount());
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

const Suite& MoeLinearSuite() {
  static const auto* suite = new Suite("moe_linear", Cases());
  return *suite;
}

Step Plain(int64_t rows) {
  Step step;
  step.sequences = {{nullptr, 0, rows}};
  return step;
}

template <typename T>
std::vector<T> Rows(const std::vector<T>& all, int64_t cols, int64_t first, int64_t count) {
  return {all.begin() + first * cols, all.begin() + (first + count) * cols};
}

// y of all rows as `linear` and the sums of kernel_families.md give it.
std::vector<float> ByLinear(Lab& lab, const Problem& p) {
  const Shape& s = p.s;
  std::vector<float> products(static_cast<size_t>(kMostRows * s.top_k * s.n));
  for (int64_t e = 0; e < s.experts; ++e) {
    const std::vector<int64_t> slots = p.Slots(e);
    if (slots.empty()) continue;
    std::vector<float> x;
    for (int64_t slot : slots) AppendRows(x, p.Input(slot), s.k, 0, 1);
    const Bytes input = s.int8 ? Quantized(x, s.k) : AsBytes(x);
    const std::vector<float> y =
        As<float>(RunCase(lab, s.LinearName(e), Plain(static_cast<int64_t>(slots.size())),
                          {{s.int8 ? "xq" : "x", input}})["y"]);
    for (size_t i = 0; i < slots.size() && !y.empty(); ++i) {
      std::copy_n(y.begin() + static_cast<int64_t>(i) * s.n, s.n, products.begin() + slots[i] * s.n);
    }
  }
  if (!s.Adds()) return products;
  std::vector<float> y = p.before;
  for (size_t i = 0; i < products.size(); ++i) {
    const auto slot = static_cast<int64_t>(i) / s.n, column = static_cast<int64_t>(i) % s.n;
    volatile float product = p.weights[static_cast<size_t>(slot)] * products[i];
    y[static_cast<size_t>(slot / s.top_k * s.n + column)] += product;
  }
  return y;
}

std::vector<double> Want(const Problem& p) {
  const Shape& s = p.s;
  std::vector<double> y(static_cast<size_t>(kMostRows * s.YCols()));
  if (s.Adds()) y.assign(p.before.begin(), p.before.end());
  for (int64_t e = 0; e < s.experts; ++e) {
    std::vector<double> matrix[2];
    for (int which = 0; which < (s.Pair() ? 2 : 1); ++which) {
      matrix[which] = Decode(s.format, s.Matrix(e, which), s.n, s.k);
    }
    for (int64_t slot : p.Slots(e)) {
      const std::vector<float> input = p.Input(slot);
      const std::vector<double> x =
          s.int8 ? Dequantized(Quantized(input, s.k), s.k) : std::vector<double>(input.begin(), input.end());
      std::vector<double> product = Matmul(x, matrix[0], s.k, s.n);
      for (double& v : product) v *= double{p.Scale(0, e)};
      const std::vector<double> up = s.Pair() ? Matmul(x, matrix[1], s.k, s.n) : product;
      for (int64_t c = 0; c < s.n; ++c) {
        if (s.Adds()) {
          y[static_cast<size_t>(slot / s.top_k * s.n + c)] +=
              p.weights[static_cast<size_t>(slot)] * product[c];
        } else {
          y[static_cast<size_t>(slot * s.n + c)] =
              s.Pair() ? Silu(product[c]) * (up[c] * double{p.Scale(1, e)}) : product[c];
        }
      }
    }
  }
  return y;
}

// y of rows [first, first + count).
Bytes Y(Lab& lab, const Problem& p, int64_t bucket, int64_t first, int64_t count) {
  const Shape& s = p.s;
  std::map<std::string, Bytes> inputs;
  const std::vector<float> x = Rows(p.x, s.XCols(), first, count);
  inputs[s.int8 ? "xq" : "x"] = s.int8 ? Quantized(x, s.XCols()) : AsBytes(x);
  if (s.experts > 1) {
    const std::vector<int32_t> ids = Rows(p.ids, s.top_k, first, count);
    const MoeLists lists = GroupedSlots(ids, s.experts);
    inputs["ids"] = AsBytes(ids);
    inputs["groups"] = AsBytes(lists.groups);
    inputs["order"] = AsBytes(lists.order);
  }
  if (s.Adds()) {
    inputs["weights"] = AsBytes(Rows(p.weights, s.top_k, first, count));
    inputs["y"] = AsBytes(Rows(p.before, s.n, first, count));
  }
  return RunCase(lab, s.Name(bucket), Plain(count), inputs)["y"];
}

// Whether `linear` adds products in the order that experts' are added in. Where matrix units multiply floats,
// they make those of float weights for `linear` alone (codegen/gpu/kernels/linear.cc), and round their sums
// otherwise than multiply-adds do: of bf16 and 64 columns an H100's differ in the last bits.
bool LinearAddsAlike(const Shape& s, const Target& target) {
  const bool float_weights = description(s.format).plain.block == 0;
  return !(float_weights && MultipliesFloatsOnMatrixUnits(target));
}

class MoeLinearConformance : public ConformanceTest {};
QCC_INSTANTIATE_CONFORMANCE(MoeLinearConformance);

TEST_P(MoeLinearConformance, ValuesAndBits) {
  QCC_OPEN_OR_SKIP(lab, MoeLinearSuite());
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.Key());
    const Problem p(s);
    const std::vector<float> want =
        LinearAddsAlike(s, GetParam()) ? ByLinear(lab, p) : As<float>(Y(lab, p, kMostRows, 0, kMostRows));
    ASSERT_TRUE(Near(want, Want(p), 1e-10, s.YCols()));
    for (int64_t bucket : kBuckets) {
      for (int64_t count : {bucket, bucket * 2 / 3, int64_t{1}}) {
        if (count == 0) continue;
        const int64_t first = kMostRows - count;
        EXPECT_TRUE(SameBits(Y(lab, p, bucket, first, count), AsBytes(Rows(want, s.YCols(), first, count))))
            << "bucket " << bucket << ", rows " << count;
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace qcc::conformance
