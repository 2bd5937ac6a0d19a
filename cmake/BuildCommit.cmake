# Run at every build (cmake -DSOURCE=... -DOUT=... -P): writes OUT, which defines qrt::kBuildCommit, if the commit has
# changed. A repository that merely contains the sources says nothing about them.
cmake_minimum_required(VERSION 3.25)  # its policies: a script has none of its own

set(commit "")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} rev-parse --show-prefix WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE prefix
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND ${git} describe --always --dirty --abbrev=12 WORKING_DIRECTORY ${SOURCE}
                    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT
  "#include \"runtime/base/build_commit.h\"\n\nconst char* const qrt::kBuildCommit = \"@commit@\";\n" @ONLY)
