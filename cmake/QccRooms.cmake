# One library per room. Every target sees the repository root (so includes read `dialects/formats/formats.h`)
# and the build root (generated headers mirror the source tree).

find_package(Threads REQUIRED)

# g++ collects garbage in its own heap whenever that has grown by a third; left to grow to 1 GB (of address space: what a
# file does not need is not taken) it saves 7 to 14 % of the time of our files with MLIR.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>")

# Parsing headers is most of what compiling a file of ours takes: MLIR's 4 to 8 s, GoogleTest's 2 s, the standard
# library's 1 s of 2 to 3. They are parsed once. The debug preset goes without, so that a file that lacks an include is
# found.
option(QCC_PCH "Precompile the headers of MLIR, GoogleTest and the standard library" ON)

# Up to six files of a target are compiled as one: headers are read once for all of them, and what becomes of templates is
# made once. The debug preset and clang-tidy go without, so that a file that lacks an include is found.
option(QCC_UNITY "Compile the files of a target several at a time" ON)

# qcc_join_sources(NAME [FILES...]): all files of the target NAME but these, whose own names are also those of others.
function(qcc_join_sources name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  if(QCC_UNITY AND count GREATER 1)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

add_library(qcc_warnings INTERFACE)
# -Wrestrict: g++ 12 reports every `"literal" + std::string` at -O3 (GCC bug 105651). Clang reports `VkSomething x{type}`,
# which g++ does not, and what libstdc++ 12 deprecates in its own algorithms. SHELL: as LLVM's own flags hold the same
# word, CMake would keep only theirs, which stands before -Wextra.
target_compile_options(qcc_warnings INTERFACE -Wall -Wextra -Wno-unused-parameter -fno-strict-aliasing
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Wno-missing-field-initializers -Wno-deprecated-declarations>")
if(QCC_PCH)
  # Precompiled, the standard library's headers are no system headers to g++ 12, which then reports what it believes of
  # the insides of strings and containers.
  target_compile_options(qcc_warnings INTERFACE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-stringop-overread>")
endif()

add_library(qcc_sanitizers INTERFACE)
if(QCC_SANITIZE)
  target_compile_options(qcc_sanitizers INTERFACE -fsanitize=${QCC_SANITIZE} -fno-omit-frame-pointer -g1)
  if(QCC_SANITIZE MATCHES "undefined")
    target_compile_options(qcc_sanitizers INTERFACE -fno-sanitize-recover=undefined)
  endif()
  target_link_options(qcc_sanitizers INTERFACE -fsanitize=${QCC_SANITIZE})
endif()

# GNU ld was seen to take 15 s for one of our programs on a busy machine. lld comes with LLVM, which is not always there.
find_program(QCC_LLD ld.lld HINTS /usr/lib/llvm-22/bin)
if(QCC_LLD)
  cmake_path(GET QCC_LLD PARENT_PATH lld_folder)
  add_link_options(-fuse-ld=lld -B${lld_folder})
endif()

# For programs that open GPU drivers: see the file.
function(qcc_keep_libraries name)
  if(QCC_SANITIZE MATCHES "address")
    set(keep ${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_libraries.c)
    target_sources(${name} PRIVATE ${keep})
    set_source_files_properties(${keep} TARGET_DIRECTORY ${name}
                                PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
    target_link_options(${name} PRIVATE LINKER:--export-dynamic-symbol=dlclose)
  endif()
endfunction()

# qcc_make_pch(NAME LIBRARY FLAGS HEADERS...): the headers of LIBRARY, for qcc_use_pch. Who uses it gets FLAGS too: a
# precompiled header serves only those that are compiled as it was.
function(qcc_make_pch name library flags)
  if(NOT QCC_PCH)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/cmake/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Only its precompiled header is of use.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${library} qcc_sanitizers qcc_warnings)
  if(flags)
    target_compile_options(${name} PRIVATE ${flags})
  endif()
  set_target_properties(${name} PROPERTIES QCC_PCH_FLAGS "${flags}")
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

function(qcc_use_pch name pch)
  if(TARGET ${pch})
    get_target_property(flags ${pch} QCC_PCH_FLAGS)
    if(flags)
      target_compile_options(${name} PRIVATE ${flags})
    endif()
    target_precompile_headers(${name} REUSE_FROM ${pch})
  endif()
endfunction()

# qcc_room(NAME [MLIR] SRCS ... [DEPS ...] [ALONE ...]): a static library with the house flags. MLIR: its sources include
# MLIR. ALONE: see qcc_join_sources.
function(qcc_room name)
  cmake_parse_arguments(ARG "MLIR" "" "SRCS;DEPS;ALONE" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} qcc_sanitizers PRIVATE qcc_warnings)
  qcc_join_sources(${name} ${ARG_ALONE})
  if(ARG_MLIR)
    qcc_use_pch(${name} ${QCC_ROOMS_PCH})
  else()
    if(QCC_PCH AND NOT TARGET qcc_std_pch)
      qcc_make_pch(qcc_std_pch qcc_warnings "" <algorithm> <array> <atomic> <cstdint> <cstring> <functional> <map> <memory>
                   <mutex> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>)
    endif()
    qcc_use_pch(${name} qcc_std_pch)
  endif()
endfunction()

# qcc_test_limit(TEST SECONDS): how many seconds of a processor the test takes on a quiet machine. The longest begin first,
# so that none is left to run alone at the end; one that takes twenty times as long hangs: other people's work on the
# machine was seen to make it five times. Sanitized, a test takes up to ten times as long.
function(qcc_test_limit test seconds)
  set(times 20)
  if(QCC_SANITIZE)
    set(times 100)
  endif()
  math(EXPR limit "${seconds} * ${times}")
  if(limit LESS 900)
    set(limit 900)
  endif()
  set_tests_properties(${test} PROPERTIES COST ${seconds} TIMEOUT ${limit})
endfunction()

# qcc_test_entry(NAME TEST SECONDS LABELS COMMAND...): one more ctest entry of what qcc_test_environment(NAME) is about.
function(qcc_test_entry name test seconds labels)
  add_test(NAME ${test} COMMAND ${ARGN})
  qcc_test_limit(${test} ${seconds})
  set_tests_properties(${test} PROPERTIES LABELS "${labels}")
  set_property(DIRECTORY APPEND PROPERTY QCC_ENTRIES_${name} ${test})
endfunction()

# qcc_test_environment(NAME VARIABLE=VALUE ...): for every ctest entry of this qcc_test.
function(qcc_test_environment name)
  get_property(tests DIRECTORY PROPERTY QCC_ENTRIES_${name})
  set_tests_properties(${tests} PROPERTIES ENVIRONMENT "${ARGN}")
endfunction()

# qcc_test(NAME [MLIR] [COMPUTES] [ONE_THREAD] SRCS ... [ALONE ...] [DEPS ...] [LABELS ...] [SECONDS n] [SPLIT PART=FILTER ...]):
# one gtest binary and its ctest entries: NAME, or NAME.PART for the cases of each filter and NAME.rest for those of none, so
# that each case runs in exactly one if no two filters overlap. SECONDS: see qcc_test_limit; of the longest part. ALONE: see
# qcc_join_sources. COMPUTES: what the test itself computes (a reference in plain loops) takes longer than optimising it.
# ONE_THREAD: neither it nor the rooms that it uses start threads. ThreadSanitizer finds nothing there and takes ten times as
# long, so it is not built for it.
function(qcc_test name)
  cmake_parse_arguments(ARG "MLIR;COMPUTES;ONE_THREAD" "SECONDS" "SRCS;ALONE;DEPS;LABELS;SPLIT" ${ARGN})
  if(ARG_ONE_THREAD)
    foreach(source IN LISTS ARG_SRCS)
      cmake_path(ABSOLUTE_PATH source)
      file(STRINGS ${source} threads REGEX "#include <(future|pthread\\.h|thread)>|fork\\(")
      if(threads)
        message(FATAL_ERROR "${name} is said to be of ONE_THREAD, but ${source} has: ${threads}")
      endif()
    endforeach()
    if(QCC_SANITIZE STREQUAL "thread")
      return()
    endif()
  endif()
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 5)
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_compile_definitions(${name} PRIVATE QCC_SOURCE_DIR="${PROJECT_SOURCE_DIR}" QCC_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest_main qcc_warnings qcc_sanitizers)
  qcc_keep_libraries(${name})
  qcc_join_sources(${name} ${ARG_ALONE})
  # What most tests do between their checks is not what takes time when they run, but it is when they are built.
  set(level O0)
  if(ARG_MLIR OR (ARG_COMPUTES AND NOT QCC_SANITIZE))
    set(level O1)
  endif()
  if(ARG_MLIR)
    qcc_use_pch(${name} ${QCC_ROOMS_PCH})
  else()
    set(pch qcc_gtest_pch_${level})
    if(QCC_PCH AND NOT TARGET ${pch})
      qcc_make_pch(${pch} GTest::gtest -fPIC <gtest/gtest.h> <filesystem> <fstream> <functional> <map> <random>)
      target_compile_options(${pch} PRIVATE -${level})
    endif()
    qcc_use_pch(${name} ${pch})
  endif()
  # A case names those members of a struct that it is about.
  target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-${level}> -Wno-missing-field-initializers)
  if(NOT ARG_SPLIT)
    qcc_test_entry(${name} ${name} ${ARG_SECONDS} "${ARG_LABELS}" ${name})
    return()
  endif()
  set(others "")
  foreach(part IN LISTS ARG_SPLIT)
    string(REGEX MATCH "^([a-z0-9_]+)=(.+)$" _ "${part}")
    set(filter "${CMAKE_MATCH_2}")
    qcc_test_entry(${name} ${name}.${CMAKE_MATCH_1} ${ARG_SECONDS} "${ARG_LABELS}" ${name} --gtest_filter=${filter})
    set_tests_properties(${name}.${CMAKE_MATCH_1} PROPERTIES FAIL_REGULAR_EXPRESSION " 0 tests from 0 test suites ran")
    list(APPEND others ${filter})
  endforeach()
  list(JOIN others ":" others)
  qcc_test_entry(${name} ${name}.rest ${ARG_SECONDS} "${ARG_LABELS}" ${name} "--gtest_filter=-${others}")
endfunction()
