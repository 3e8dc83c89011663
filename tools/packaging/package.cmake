# A Debian package, by cpack in the build folder: one, with library, headers, programs, recipes and manual. They are of
# one version and are handed on as one file; what runs stored plans alone is a library in it that needs no LLVM.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME traincc)
set(CPACK_PACKAGE_CONTACT "TrainCC developers <traincc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "graph-compiling training runtime in C")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # LLVM among them, as the build links it
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libc6-dev, pkg-config | pkgconf")
# to link with the static library
set(suggests llvm-${LLVM_VERSION_MAJOR}-dev zlib1g-dev libcjson-dev libutf8proc-dev libpng-dev libjpeg-dev
    libwebp-dev libzstd-dev libsqlite3-dev bash-completion
    "openmpi-bin | mpich") # whose libraries our modules for them find in the process
list(JOIN suggests ", " CPACK_DEBIAN_PACKAGE_SUGGESTS)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "TrainCC traces a model that is written as a C function, builds the whole
training step from it and compiles it through LLVM for a CPU or an NVIDIA
GPU. This package has the program tcc-train, which trains from a recipe,
and the C library with its headers and manual.")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/triggers)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
include(CPack)
