# attnlab_add_plugin(<kind> <name> <sources>...): one shared library that is one plugin.
#
#   kind     attention, model, task or dataset
#   name     the registered name; the file becomes <name>.so
#   sources  the plugin's files; presets are read from <name>.presets.yaml beside <name>.cpp
#
# The same function serves attnlab's own plugins and those of other labs (find_package(attnlab)).
# It hides everything but the one entry symbol, sets the folder that the host searches below, and
# keeps the build compatible with the host that it will be loaded into. The target is called
# attnlab_<kind>_<name>; link further libraries to it as usual.
get_filename_component(ATTNLAB_CMAKE_DIR ${CMAKE_CURRENT_LIST_FILE} DIRECTORY)

function(attnlab_add_plugin kind name)
  set(_kinds attention model task dataset)
  if(NOT kind IN_LIST _kinds)
    message(FATAL_ERROR "attnlab_add_plugin: '${kind}' is not a kind of plugin (${_kinds})")
  endif()
  if(NOT ARGN)
    message(FATAL_ERROR "attnlab_add_plugin: plugin '${name}' has no sources")
  endif()
  set(_target attnlab_${kind}_${name})
  add_library(${_target} MODULE ${ARGN})
  target_link_libraries(${_target} PRIVATE attnlab::attnlab)
  # The hash of the headers that it is compiled against, in a section of its own.
  if(TARGET attnlab_sdk)
    target_sources(${_target} PRIVATE $<TARGET_OBJECTS:attnlab_sdk>)
  else()
    target_sources(${_target} PRIVATE ${ATTNLAB_CMAKE_DIR}/sdk_hash.cpp)
  endif()
  # Presets, NAME.presets.yaml beside NAME.cpp, in a section of their own (framework/manifest/presets.h).
  set(_file "${ARGN}")
  list(FILTER _file INCLUDE REGEX "(^|/)${name}\\.cpp$")
  string(REGEX REPLACE "cpp$" "presets.yaml" _file "${_file}")
  get_filename_component(_file "${_file}" ABSOLUTE)
  file(GLOB _found CONFIGURE_DEPENDS ${_file})
  if(_found MATCHES "\\.yaml$")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_file})
    file(READ ${_file} _presets)
    file(CONFIGURE OUTPUT ${_target}_presets.cpp @ONLY CONTENT
      "[[gnu::section(\".attnlab.presets\"), gnu::used]] constexpr char presets[] = R\"yaml(@_presets@)yaml\";\n")
    target_sources(${_target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${_target}_presets.cpp)
  endif()
  target_compile_features(${_target} PRIVATE cxx_std_20)
  set_target_properties(${_target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/attnlab/plugins/${kind})
  set(_script ${ATTNLAB_CMAKE_DIR}/plugin_symbols.map)
  target_link_options(${_target} PRIVATE -Wl,--version-script=${_script} -Wl,-z,defs)
  set_property(TARGET ${_target} APPEND PROPERTY LINK_DEPENDS ${_script})
  if(ATTNLAB_SANITIZE)  # the sanitizers' runtime is resolved in the program
    set_property(TARGET ${_target} PROPERTY LINK_OPTIONS -Wl,--version-script=${_script})
  endif()
  # The build stamp must agree with the host: without a build type of your own, take the host's.
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND ATTNLAB_BUILD_TYPE)
    set_target_properties(${_target} PROPERTIES COMPILE_OPTIONS "${ATTNLAB_BUILD_FLAGS}")
  endif()
endfunction()
