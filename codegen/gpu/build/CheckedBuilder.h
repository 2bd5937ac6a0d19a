// The values of a kernel that is written in MLIR, and what is said of their misuse.
#ifndef QCC_CODEGEN_GPU_BUILD_CHECKEDBUILDER_H_
#define QCC_CODEGEN_GPU_BUILD_CHECKEDBUILDER_H_

#include <string>
#include <vector>

#include "codegen/gpu/build/value_types.h"
#include "codegen/gpu/kernels/builder.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace qcc::gpu {

// Misuse does not stop the kernel that is being written: the first one is kept, and what it should have given
// is a zero of the right type.
class CheckedBuilder : public Builder {
 public:
  // Of the first misuse; empty: there was none.
  const std::string& error() const { return error_; }
  const Profile& profile() const override { return profile_; }

 protected:
  CheckedBuilder(const Profile& profile, mlir::Location loc)
      : profile_(profile), loc_(loc), b_(loc.getContext()) {}

  mlir::Value get(Val v) { return mlir::Value::getFromOpaquePointer(v.value()); }
  Val wrap(mlir::Value value, Type type) { return Val(this, value.getAsOpaquePointer(), type); }
  llvm::SmallVector<mlir::Value> values(const std::vector<Val>& vals) {
    llvm::SmallVector<mlir::Value> out;
    for (const Val& v : vals) out.push_back(get(v));
    return out;
  }
  static std::string list(const std::vector<Val>& vals) {
    std::string out = "(";
    for (const Val& v : vals) {
      if (out.size() > 1) out += ", ";
      out += v ? nameOf(v.type()) : "no value";
    }
    return out + ")";
  }
  mlir::Type lower(Type type) {
    mlir::Type element = isFloat(type)         ? mlir::Type(b_.getF32Type())
                         : type == Type::kBool ? mlir::Type(b_.getI1Type())
                         : type == Type::kI64  ? mlir::Type(b_.getI64Type())
                                               : mlir::Type(b_.getI32Type());
    int lanes = lanesOf(type);
    return lanes == 1 ? element : mlir::VectorType::get({lanes}, element);
  }
  Val zero(Type type) {
    return wrap(
        mlir::arith::ConstantOp::create(b_, loc_, llvm::cast<mlir::TypedAttr>(b_.getZeroAttr(lower(type)))),
        type);
  }
  Val fail(Type type, const llvm::Twine& what) {
    if (error_.empty()) error_ = what.str();
    return zero(type);
  }
  bool usable(const char* method, Val v) {
    if (v && v.builder() == this) return true;
    fail(Type::kI32, llvm::Twine(method) + (v ? ": a value of another kernel" : ": no value"));
    return false;
  }
  bool want(const char* method, const std::vector<Val>& vals, Type type) {
    for (const Val& v : vals) {
      if (!usable(method, v)) return false;
      if (v.type() != type) {
        fail(type, llvm::Twine(method) + ": wants " + nameOf(type) + ", found " + nameOf(v.type()));
        return false;
      }
    }
    return true;
  }
  bool wantShared(const char* method, const Shared& shared, Val index) {
    if (shared.id < 0 || shared.id >= static_cast<int>(shared_.size())) {
      fail(Type::kI32, llvm::Twine(method) + ": workgroup memory that was not allocated");
      return false;
    }
    return want(method, {index}, Type::kI32);
  }

  const Profile& profile_;
  mlir::Location loc_;
  mlir::OpBuilder b_;
  llvm::SmallVector<mlir::Value> shared_;  // by Shared::id

 private:
  std::string error_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_BUILD_CHECKEDBUILDER_H_
