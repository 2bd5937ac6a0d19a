# `cmake --build BUILD --target package` or `cpack` in the build folder: a .deb of each component of QrtInstall.cmake, and
# one tarball of all.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME qcc)
set(CPACK_PACKAGE_VENDOR "qcc")
set(CPACK_PACKAGE_CONTACT "qcc developers <qcc@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME qrt)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "runtime for language models that qcc compiled
qrun, the library libqrt, and the headers to build against it.")
# The loader's cache learns of libqrt.so.1, and shlibdeps of programs that use it.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME qcc)
set(CPACK_DEBIAN_COMPILER_DESCRIPTION "ahead-of-time compiler for GGUF language models
It makes of a GGUF file one artifact with native code, packed weights, tokenizer and
chat template, which qrun and libqrt run.")
include(CPack)
cpack_add_component(runtime REQUIRED)
if(TARGET qcc)
  cpack_add_component(compiler DEPENDS runtime)  # qcc bundle takes the qrun beside it
endif()
