// Rotary frequencies from `{arch}.rope.*`, with linear and YaRN scaling folded in.
#ifndef QCC_FRONTENDS_MODELS_ROPEFREQUENCIES_H_
#define QCC_FRONTENDS_MODELS_ROPEFREQUENCIES_H_

#include <cstdint>
#include <vector>

#include "frontends/models/Metadata.h"

namespace qcc::models {

struct RopeFrequencies {
  std::vector<double> invFreq;  // radians per position, one per pair; dims / 2 of them
  double magnitude = 1;         // factor of cos and sin

  int64_t dims() const { return 2 * static_cast<int64_t>(invFreq.size()); }
};

// Plain frequencies: base^(-2s / dims) for pair s.
std::vector<double> plainFrequencies(double base, int64_t dims);

// What YaRN (Peng et al., arXiv 2309.00071) needs besides base and dims.
struct YarnParameters {
  double factor;           // context extension
  double originalContext;  // tokens
  double betaFast = 32;    // rotations over the original context above which a pair keeps its frequency
  double betaSlow = 1;     // ... below which it is divided by `factor`
  double extFactor = 1;    // weight of the mix; 0: plain division
  double attnFactor = 1;   // further factor of cos and sin
};

RopeFrequencies yarnFrequencies(double base, int64_t dims, const YarnParameters& yarn);

// Reads freq_base (else `defaultBase`) and scaling. Errors stick in `metadata`: a scaling type other than
// none, linear and yarn, factors that are not positive.
RopeFrequencies readRopeFrequencies(Metadata& metadata, int64_t dims, double defaultBase,
                                    int64_t contextLength);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_ROPEFREQUENCIES_H_
