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
target_compile_options(qcc_mlir INTERFACE ${QCC_LLVM_DEFS})
target_link_libraries(qcc_mlir INTERFACE MLIR LLVM)

# qcc_tablegen(TARGET TD OUT flags... ): OUT is relative to the build root; TD relative to the caller.
# Several calls followed by add_public_tablegen_target(<name>) as in MLIR.
macro(qcc_tablegen td out)
  set(LLVM_TARGET_DEFINITIONS ${CMAKE_CURRENT_SOURCE_DIR}/${td})
  set(MLIR_TABLEGEN_FLAGS -I${PROJECT_SOURCE_DIR} -I${MLIR_INCLUDE_DIRS})
  mlir_tablegen(${out} ${ARGN} -I${PROJECT_SOURCE_DIR})
endmacro()
