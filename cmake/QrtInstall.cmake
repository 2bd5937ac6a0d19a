# libqrt.so, and what `cmake --install` puts where: components `runtime` (libqrt, headers, qrun, what find_package and
# pkg-config read) and `compiler` (qcc). A tool's manual pages and completion go with it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The version that programs are built against is that of qrt.h.
set(header ${PROJECT_SOURCE_DIR}/runtime/include/qrt/qrt.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
foreach(part MAJOR MINOR)
  file(STRINGS ${header} QRT_API_${part} REGEX "^#define QRT_API_${part} [0-9]+")
  string(REGEX REPLACE ".* " "" QRT_API_${part} "${QRT_API_${part}}")
endforeach()
set(QRT_API_VERSION ${QRT_API_MAJOR}.${QRT_API_MINOR})

# The same object as in libqrt.a. Its libstdc++ is the system's, which a program in C++ shares.
set(map ${PROJECT_SOURCE_DIR}/runtime/capi/qrt.map)
add_library(qrt_shared SHARED ${QRT_OBJECT})
set_source_files_properties(${QRT_OBJECT} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_dependencies(qrt_shared qrt_archive)
set_target_properties(qrt_shared PROPERTIES OUTPUT_NAME qrt LINKER_LANGUAGE CXX VERSION ${QRT_API_VERSION}
                      SOVERSION ${QRT_API_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib LINK_DEPENDS ${map})
target_link_options(qrt_shared PRIVATE LINKER:--version-script=${map} LINKER:--no-undefined LINKER:--gc-sections)
target_link_libraries(qrt_shared PRIVATE m ${CMAKE_DL_LIBS})

# What libqrt.a needs behind it, in the order in which a linker wants it.
set(QRT_PRIVATE_LIBRARIES stdc++ m pthread ${CMAKE_DL_LIBS})
list(TRANSFORM QRT_PRIVATE_LIBRARIES PREPEND -l OUTPUT_VARIABLE QRT_PRIVATE_FLAGS)
list(JOIN QRT_PRIVATE_FLAGS " " QRT_PRIVATE_FLAGS)

set(generated ${PROJECT_BINARY_DIR}/cmake)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/qrt)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/qrtConfig.cmake.in ${generated}/qrtConfig.cmake
                              INSTALL_DESTINATION ${package_folder}
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${generated}/qrtConfigVersion.cmake VERSION ${QRT_API_VERSION}
                                 COMPATIBILITY SameMajorVersion)
# Relative to the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH QRT_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/qrt.pc.in ${generated}/qrt.pc @ONLY)

# qcc_install_pages(TOOL COMPONENT)
function(qcc_install_pages tool component)
  set(out ${PROJECT_BINARY_DIR}/pages/${tool})
  set(script ${PROJECT_SOURCE_DIR}/cmake/MakePages.cmake)
  add_custom_command(OUTPUT ${out}.made
    COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:${tool}> -DOUT=${out} -P ${script}
    COMMAND ${CMAKE_COMMAND} -E touch ${out}.made
    DEPENDS ${tool} ${script} COMMENT "Making the manual pages of ${tool}" VERBATIM)
  add_custom_target(${tool}_pages ALL DEPENDS ${out}.made)
  install(DIRECTORY ${out}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${component})
  install(DIRECTORY ${out}/data/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT ${component})
endfunction()

install(TARGETS qrt_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(FILES ${PROJECT_BINARY_DIR}/lib/libqrt.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/qrt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime)
install(TARGETS qrun RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
qcc_install_pages(qrun runtime)
install(FILES ${generated}/qrtConfig.cmake ${generated}/qrtConfigVersion.cmake DESTINATION ${package_folder}
        COMPONENT runtime)
install(FILES ${generated}/qrt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
if(TARGET qcc)
  # LLVM's own folder, where Debian has it outside of the loader's.
  set_target_properties(qcc PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS qcc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
  qcc_install_pages(qcc compiler)
endif()
