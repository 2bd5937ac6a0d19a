# cmake -DTOOL=FILE -DOUT=FOLDER -P MakePages.cmake: the manual pages of a built tool and of its commands, and its completion
# for each shell, by the names under which they are installed: OUT/man below man's folder, OUT/data below `share`.
cmake_minimum_required(VERSION 3.25)
cmake_path(GET TOOL STEM name)

function(print_into file)
  execute_process(COMMAND ${TOOL} ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The page of `title` ("qcc-cache"), asked for by the words in ARGN, and of all that it refers to below itself.
function(make_manual title)
  set(page ${OUT}/man/man1/${title}.1)
  print_into(${page} man ${ARGN})
  file(STRINGS ${page} references REGEX "^\\.BR .* \\(1\\)")
  foreach(reference IN LISTS references)
    string(REGEX REPLACE "^\\.BR (.*) \\(1\\).*" "\\1" other "${reference}")
    string(REPLACE "\\-" "-" other "${other}")
    string(REGEX REPLACE "^${title}-" "" word "${other}")
    make_manual(${other} ${ARGN} ${word})
  endforeach()
endfunction()

set(bash ${OUT}/data/bash-completion/completions/${name})
set(zsh ${OUT}/data/zsh/vendor-completions/_${name})
set(fish ${OUT}/data/fish/vendor_completions.d/${name}.fish)
file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT}/man/man1)
make_manual(${name})
foreach(shell bash zsh fish)
  cmake_path(GET ${shell} PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  print_into(${${shell}} completion ${shell})
endforeach()
