// The formats by name. Stand-alone: kernels see no library.
#ifndef QCC_DIALECTS_FORMATS_FORMAT_ID_H_
#define QCC_DIALECTS_FORMATS_FORMAT_ID_H_

#include <stdint.h>

namespace qcc {

enum class Format : uint8_t {
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) id,
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
};

inline constexpr int kFormatCount = 0
#define QCC_FORMAT(...) +1
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
    ;

}  // namespace qcc

#endif  // QCC_DIALECTS_FORMATS_FORMAT_ID_H_
