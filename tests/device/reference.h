// What the kernel families mean, in double; inputs as the kernels see them.
#ifndef TESTS_DEVICE_REFERENCE_H_
#define TESTS_DEVICE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "dialects/formats/formats.h"
#include "tests/device/conformance.h"

namespace qcc::conformance {

// Rows of a GGUF matrix, decoded.
std::vector<double> Decode(Format format, const Bytes& gguf, int64_t rows, int64_t cols);
// The same packed: x16, or x16_pair with `second`.
Bytes Pack(Format format, const Bytes& gguf, int64_t rows, int64_t cols, const Bytes* second = nullptr);

// int8 rows (kernel_families.md) of f32 rows, in f32 as they are defined.
Bytes Quantized(const std::vector<float>& x, int64_t cols);
// The same as a device may make them whose division is 2.5 ulp off: where x / scale lies that close to a
// half, the code is that of `got`, if it is the integer on either side. The scales are exact, and sums those
// of the codes.
Bytes QuantizedLike(const Bytes& got, const std::vector<float>& x, int64_t cols);
// Equal int8 rows; what pads a row to its stride does not count.
testing::AssertionResult SameInt8Rows(const Bytes& a, const Bytes& b, int64_t cols);
// What int8 rows stand for.
std::vector<double> Dequantized(const Bytes& rows, int64_t cols);

double Silu(double x);

// x [rows][k] times w [n][k]; [rows][n].
std::vector<double> Matmul(const std::vector<double>& x, const std::vector<double>& w, int64_t k, int64_t n);

// Columns [0, n) of rows with `ld` columns.
std::vector<float> Columns(const std::vector<float>& rows, int64_t ld, int64_t n);
// Adds rows [first, first + count) of `cols` columns to `to`.
void AppendRows(std::vector<float>& to, const std::vector<float>& rows, int64_t cols, int64_t first,
                int64_t count);

}  // namespace qcc::conformance

#endif  // TESTS_DEVICE_REFERENCE_H_
