# attnlab_installed_below_lib(<target> <up>): lets an installed library find ours, and LibTorch where it was found
# when this was built. `up` leads from the library's folder to the installation's lib/.
function(attnlab_installed_below_lib target up)
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "$ORIGIN/${up}" INSTALL_RPATH_USE_LINK_PATH ON)
endfunction()
