// What a builder must know of the types of values.
#ifndef QCC_CODEGEN_GPU_BUILD_VALUE_TYPES_H_
#define QCC_CODEGEN_GPU_BUILD_VALUE_TYPES_H_

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

inline const char* nameOf(Type type) {
  static const char* const kNames[] = {"bool", "i32", "i64", "f32", "i32x2", "i32x4", "f32x2", "f32x4"};
  return kNames[static_cast<int>(type)];
}
inline int lanesOf(Type type) {
  switch (type) {
    case Type::kI32x2:
    case Type::kF32x2:
      return 2;
    case Type::kI32x4:
    case Type::kF32x4:
      return 4;
    default:
      return 1;
  }
}
inline Type elementOf(Type type) {
  switch (type) {
    case Type::kI32x2:
    case Type::kI32x4:
      return Type::kI32;
    case Type::kF32x2:
    case Type::kF32x4:
      return Type::kF32;
    default:
      return type;
  }
}
inline Type vectorOf(Type element, int lanes) {
  if (lanes == 1) return element;
  if (element == Type::kF32) return lanes == 2 ? Type::kF32x2 : Type::kF32x4;
  return lanes == 2 ? Type::kI32x2 : Type::kI32x4;
}
inline bool isFloat(Type type) {
  return elementOf(type) == Type::kF32;
}
inline bool isInt(Type type) {
  return elementOf(type) == Type::kI32 || type == Type::kI64;
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_BUILD_VALUE_TYPES_H_
