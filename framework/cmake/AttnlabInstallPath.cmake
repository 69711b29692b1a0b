# attnlab_installed_below_lib(<target> <up>): lets an installed library find ours and LibTorch's.
#
# `up` leads from the library's folder to the installation's lib/. LibTorch is where it was found when this was
# built, or, for an installation that moves with its LibTorch (a wheel), at a path relative to lib/.
set(ATTNLAB_LIBTORCH_FROM_LIB "" CACHE STRING
  "LibTorch's lib/ relative to the installation's lib/; empty: where it was found")

function(attnlab_installed_below_lib target up)
  if(ATTNLAB_LIBTORCH_FROM_LIB)
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH "$ORIGIN/${up};$ORIGIN/${up}/${ATTNLAB_LIBTORCH_FROM_LIB}")
  else()
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH "$ORIGIN/${up}" INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
endfunction()
