# What an installation has beside program, plugins and SDK: completions, manual pages (where help2man is
# there), the licence; and the Debian package that `make deb` makes with CPack.
install(CODE "
  set(_prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  set(_program \"\${_prefix}/${CMAKE_INSTALL_BINDIR}/attnlab\")
  set(_data \"\${_prefix}/${CMAKE_INSTALL_DATADIR}\")
")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_help.cmake)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/attnlab RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGE_CONTACT "attnlab's maintainers <maintainers@attnlab.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "comparison of attention mechanisms across domains")
set(CPACK_PACKAGE_DESCRIPTION "Attentions, models, tasks and datasets as plugins, composed by YAML:
trains them, compares them over seeds and domains, with tests, pages and
bundles that another lab can repeat.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# LibTorch and the others by what the files need; OpenBLAS must be the build with OpenMP.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-openmp")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, cmake, make, libtorch-dev")  # to build a plugin of one's own
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "dataset-fashion-mnist")
include(CPack)
