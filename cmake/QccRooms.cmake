# One library per room. Every target sees the repository root (so includes read `dialects/formats/formats.h`)
# and the build root (generated headers mirror the source tree).

find_package(Threads REQUIRED)

add_library(qcc_warnings INTERFACE)
# -Wrestrict: g++ 12 reports every `"literal" + std::string` at -O3 (GCC bug 105651).
target_compile_options(qcc_warnings INTERFACE -Wall -Wextra -Wno-unused-parameter -fno-strict-aliasing
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

add_library(qcc_sanitizers INTERFACE)
if(QCC_SANITIZE)
  target_compile_options(qcc_sanitizers INTERFACE -fsanitize=${QCC_SANITIZE} -fno-omit-frame-pointer -g1)
  if(QCC_SANITIZE MATCHES "undefined")
    target_compile_options(qcc_sanitizers INTERFACE -fno-sanitize-recover=undefined)
  endif()
  target_link_options(qcc_sanitizers INTERFACE -fsanitize=${QCC_SANITIZE})
endif()

# For programs that open GPU drivers: see the file.
function(qcc_keep_libraries name)
  if(QCC_SANITIZE MATCHES "address")
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_libraries.c)
    target_link_options(${name} PRIVATE LINKER:--export-dynamic-symbol=dlclose)
  endif()
endfunction()

# qcc_room(NAME SRCS ... [DEPS ...]): a static library with the house flags.
function(qcc_room name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} qcc_sanitizers PRIVATE qcc_warnings)
endfunction()

# qcc_test(NAME SRCS ... [DEPS ...] [LABELS ...]): one gtest binary, one ctest entry.
function(qcc_test name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_compile_definitions(${name} PRIVATE QCC_SOURCE_DIR="${PROJECT_SOURCE_DIR}" QCC_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest_main qcc_warnings qcc_sanitizers)
  qcc_keep_libraries(${name})
  add_test(NAME ${name} COMMAND ${name})
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()
