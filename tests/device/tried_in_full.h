// Which formats the tests of kernels try in every combination of profile, epilogue, variant and bucket.
#ifndef TESTS_DEVICE_TRIED_IN_FULL_H_
#define TESTS_DEVICE_TRIED_IN_FULL_H_

#include "dialects/formats/format_id.h"

namespace qcc {

// All ways to read codes in planes, group scales and minima are among these. The others, which differ in
// numbers, value tables and base scales, run a case of each variant and numerics.
constexpr bool TriedInFull(Format format) {
  for (Format f : {Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_0, Format::Q4_1,
                   Format::Q4_K, Format::Q5_K, Format::Q6_K}) {
    if (f == format) return true;
  }
  return false;
}

}  // namespace qcc

#endif  // TESTS_DEVICE_TRIED_IN_FULL_H_
