# MLIR, LLVM and LLD 22 as shared libraries (never mixed with the static libMLIR*.a: two copies of the type ids).
set(QCC_LLVM_PREFIX /usr/lib/llvm-22 CACHE PATH "LLVM 22 prefix")
find_package(MLIR 22.1 REQUIRED CONFIG HINTS ${QCC_LLVM_PREFIX}/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(qcc_mlir INTERFACE)
target_include_directories(qcc_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
separate_arguments(QCC_LLVM_DEFS UNIX_COMMAND "${LLVM_DEFINITIONS}")
# These say what holds anyway in C++20 with libstdc++, and would keep out headers precompiled without them.
list(FILTER QCC_LLVM_DEFS EXCLUDE REGEX "__STDC_|_GLIBCXX_USE_CXX11_ABI=1")
target_compile_options(qcc_mlir INTERFACE ${QCC_LLVM_DEFS})
target_link_libraries(qcc_mlir INTERFACE MLIR LLVM)

# -O1: what uses MLIR runs for milliseconds; optimising it took a fifth of its time to compile (BuildPlan.cpp: 7.4 s at
# -O3, 5.8 s at -O1).
set(mlir_headers
  <llvm/ADT/TypeSwitch.h>
  <mlir/Bytecode/BytecodeOpInterface.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h>
  <mlir/Parser/Parser.h>
  <mlir/Pass/PassManager.h>)
qcc_make_pch(qcc_mlir_pch qcc_mlir "-fPIC;-O1" ${mlir_headers})

# qcc_make_dialects_pch(): the same and our own dialects, for the rooms above these. QCC_ROOMS_PCH: what MLIR rooms use.
set(QCC_ROOMS_PCH qcc_mlir_pch)
macro(qcc_make_dialects_pch)
  if(QCC_PCH)
    qcc_make_pch(qcc_dialects_pch "qcc_hir;qcc_plan" "-fPIC;-O1" ${mlir_headers} <dialects/hir/IR/Hir.h>
      <dialects/plan/IR/Plan.h>)
    add_dependencies(qcc_dialects_pch QccHirIncGen QccPlanIncGen)
    set(QCC_ROOMS_PCH qcc_dialects_pch)
  endif()
endmacro()

# qcc_tablegen(TD OUT FLAGS...): TD is relative to the caller's source folder, OUT to its binary folder, which mirrors
# it, so that generated files are included as `dialects/hir/IR/HirOps.h.inc`. Several calls, then
# add_public_tablegen_target(<name>) and add_dependencies(<library> <name>): whoever links the library is built after it.
macro(qcc_tablegen td out)
  set(LLVM_TARGET_DEFINITIONS ${CMAKE_CURRENT_SOURCE_DIR}/${td})
  mlir_tablegen(${out} ${ARGN} -I${PROJECT_SOURCE_DIR} -I${MLIR_INCLUDE_DIRS})
endmacro()

# Reference pages made from the ODS descriptions: `ninja qcc-docs` writes them to docs/reference/.
add_custom_target(qcc-docs)
# qcc_dialect_doc(DIALECT TD): docs/reference/DIALECT.md.
function(qcc_dialect_doc dialect td)
  set(out ${PROJECT_SOURCE_DIR}/docs/reference/${dialect}.md)
  add_custom_target(qcc-docs-${dialect}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_SOURCE_DIR}/docs/reference
    COMMAND ${MLIR_TABLEGEN_EXE} -gen-dialect-doc -dialect=${dialect} ${CMAKE_CURRENT_SOURCE_DIR}/${td}
            -I${PROJECT_SOURCE_DIR} -I${MLIR_INCLUDE_DIRS} -o ${out}
    COMMENT "docs/reference/${dialect}.md" VERBATIM)
  add_dependencies(qcc-docs qcc-docs-${dialect})
endfunction()
