// The check that a program and the kernels it is linked with agree on argument structs: the embedded bitcode
// of every level passes it, and what differs in a name, a type, a place or a count is found and named.
#include "codegen/cpu/lower/KernelSignature.h"

#include <gtest/gtest.h>

#include <functional>

#include "codegen/cpu/kernels/bitcode.h"
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/lower/EmitBlob.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Support/SourceMgr.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"

namespace qcc::cpu {
namespace {

std::unique_ptr<llvm::Module> Parse(llvm::LLVMContext& context, const std::string& text) {
  llvm::SMDiagnostic error;
  auto module = llvm::parseAssemblyString(text, error, context);
  EXPECT_TRUE(module) << error.getMessage().str() << "\n" << text;
  return module;
}

std::unique_ptr<llvm::Module> Kernels(llvm::LLVMContext& context, Isa isa) {
  const std::string_view bitcode = kernel_bitcode(isa);
  auto module = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(llvm::StringRef(bitcode.data(), bitcode.size()), "kernels"), context);
  EXPECT_TRUE(static_cast<bool>(module));
  return std::move(*module);
}

std::string Declare(const std::string& kernel, const std::string& fields) {
  return "declare void @" + kernel + "(ptr) \"qcc-kernel-args\"=\"" + fields + "\"\n";
}

// The field list as a program has it, changed.
std::string Changed(std::string fields, const std::string& from, const std::string& to) {
  const size_t at = fields.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << fields;
  return fields.replace(at, from.size(), to);
}

class KernelSignature : public ::testing::Test {
 protected:
  // Of a program with these declarations and the embedded kernels; empty: they agree.
  std::string Check(const std::string& declarations, Isa isa = Isa::base) {
    auto program = Parse(context, declarations);
    auto kernels = Kernels(context, isa);
    return llvm::toString(checkKernelSignatures(*program, *kernels));
  }
  llvm::LLVMContext context;
};

TEST_F(KernelSignature, EveryKernelOfEveryLevelTakesTheStructOfItsFamily) {
  std::string text;
  for (const auto& [kernel, fields] : {std::pair("qk_norm", norm_args_fields),
                                       {"qk_quantize", quantize_args_fields},
                                       {"qk_swiglu", swiglu_args_fields},
                                       {"qk_add", add_args_fields},
                                       {"qk_concat", concat_args_fields},
                                       {"qk_select_rows", select_rows_args_fields},
                                       {"qk_trace", trace_args_fields},
                                       {"qk_rope_table", rope_table_args_fields},
                                       {"qk_norm_rope_store", qk_norm_rope_store_args_fields},
                                       {"qk_attention", attention_args_fields},
                                       {"qk_attention_parts", attention_args_fields},
                                       {"qk_attention_fold", attention_args_fields},
                                       {"qk_gated_delta", gated_delta_args_fields},
                                       {"qk_moe_route", moe_route_args_fields},
                                       {"qk_moe_group", moe_group_args_fields}})
    text += Declare(kernel, fields);
#define QK_PLAIN_FORMAT(id, name)                                        \
  text += Declare("qk_linear_" name "_f32", linear_args_fields);         \
  text += Declare("qk_moe_linear_" name "_f32", moe_linear_args_fields); \
  text += Declare("qk_embed_" name, embed_args_fields);
#define QK_BLOCK_FORMAT(id, name)                                 \
  QK_PLAIN_FORMAT(id, name)                                       \
  text += Declare("qk_linear_" name "_int8", linear_args_fields); \
  text += Declare("qk_moe_linear_" name "_int8", moe_linear_args_fields);
#include "codegen/cpu/kernels/kernels.def"
  for (const IsaInfo& isa : isa_table()) EXPECT_EQ(Check(text, isa.id), "") << isa.name;
}

TEST_F(KernelSignature, AFieldThatDiffersIsNamed) {
  const std::string norm = norm_args_fields;
  struct Case {
    std::string fields, says;
  };
  for (const Case& c :
       {Case{Changed(norm, "float eps", "double eps"),
             "field 1 of its arguments is 'double eps' where it is called, 'float eps' in the kernel"},
        {Changed(norm, "float eps;", ""), "is 'int64_t source' where it is called, 'float eps'"},
        {Changed(norm, "out_q", "out_r"), "'uint8_t* out_r' where it is called, 'uint8_t* out_q'"},
        {Changed(norm, "int64_t end;", ""), "is 'no field' where it is called, 'int64_t end'"},
        {norm + "int64_t more;", "is 'int64_t more' where it is called, 'no field' in the kernel"}}) {
    const std::string found = Check(Declare("qk_norm", c.fields));
    EXPECT_NE(found.find("kernel 'qk_norm': "), std::string::npos) << found;
    EXPECT_NE(found.find(c.says), std::string::npos) << found;
  }
}

TEST_F(KernelSignature, AKernelThatIsNotThereOrIsCalledOtherwiseIsNamed) {
  EXPECT_NE(Check(Declare("qk_nothing", "")).find("kernel 'qk_nothing': there is none of this name"),
            std::string::npos);
  EXPECT_NE(
      Check("declare void @qk_norm(ptr, i64)\n").find("it is called as void (ptr, i64), and is void (ptr)"),
      std::string::npos);
  EXPECT_NE(Check("declare void @qk_norm(ptr)\n").find("'qk_norm': it is called without its arguments"),
            std::string::npos);
  EXPECT_NE(Check("declare void @qk_barrier(ptr, i64) \"qcc-kernel-args\"=\"int64_t n;\"\n")
                .find("'qk_barrier': it says nothing of its arguments"),
            std::string::npos);
}

// The same on the way that qcc goes: a blob is not made of a program that fills another struct.
TEST_F(KernelSignature, NoBlobIsMadeOfAMismatch) {
  const auto emit = [](const std::string& fields) {
    mlir::MLIRContext mlir_context;
    mlir_context.loadDialect<mlir::LLVM::LLVMDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        R"(
llvm.func @qk_add(!llvm.ptr) attributes {passthrough = [["qcc-kernel-args", ")" +
            fields + R"("]]}
llvm.func @step(%args: !llvm.ptr, %thread: i32, %threads: i32) {
  llvm.call @qk_add(%args) : (!llvm.ptr) -> ()
  llvm.return
})",
        &mlir_context);
    EXPECT_TRUE(module);
    auto blobs = emitBlobs(BlobRequest{*module, {Isa::base}, {"step"}, "", {}}, 1);
    return blobs ? std::string() : llvm::toString(blobs.takeError());
  };
  EXPECT_EQ(emit(add_args_fields), "");
  const std::string found = emit(Changed(add_args_fields, "int64_t cols", "float cols"));
  EXPECT_NE(
      found.find("cpu codegen: kernel 'qk_add': field 0 of its arguments is 'float cols' where it is called"),
      std::string::npos)
      << found;
}

}  // namespace
}  // namespace qcc::cpu
