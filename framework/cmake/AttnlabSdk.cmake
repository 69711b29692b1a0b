# The SDK: which headers plugins may include (framework/public_headers.txt), their common hash, and
# a hash of all that computes.
#   ATTNLAB_PUBLIC_HEADERS  their paths
#   <build>/sdk_hash.cpp                             what puts the hash into a plugin, and into the host
#   <build>/include/framework/base/revision_hash.h   ATTNLAB_REVISION, of libattnlab's sources
# Both are made when CMake configures, which it does again when one of the files changes; a file
# that would stay the same is not written.
function(attnlab_hash_of_files out)
  set(_all "")
  foreach(_file ${ARGN})
    file(SHA256 ${_file} _hash)
    file(RELATIVE_PATH _name ${CMAKE_SOURCE_DIR} ${_file})
    string(APPEND _all "${_name} ${_hash}\n")
  endforeach()
  string(SHA256 _all "${_all}")
  string(SUBSTRING ${_all} 0 16 _all)
  set(${out} ${_all} PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()

set(_list ${CMAKE_SOURCE_DIR}/framework/public_headers.txt)
file(STRINGS ${_list} _patterns REGEX "^[^#]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_list})
set(ATTNLAB_PUBLIC_HEADERS "")
foreach(_pattern ${_patterns})
  file(GLOB _found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${_pattern})
  if(NOT _found)
    message(FATAL_ERROR "${_list}: no header is called ${_pattern}")
  endif()
  list(APPEND ATTNLAB_PUBLIC_HEADERS ${_found})
endforeach()
list(SORT ATTNLAB_PUBLIC_HEADERS)
attnlab_hash_of_files(ATTNLAB_SDK_HASH ${ATTNLAB_PUBLIC_HEADERS})

set(_computing "")
foreach(_room tensor contracts nn data eval host train)
  file(GLOB_RECURSE _found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/framework/${_room}/*.h
    ${CMAKE_SOURCE_DIR}/framework/${_room}/*.cpp)
  list(APPEND _computing ${_found})
endforeach()
list(SORT _computing)
foreach(_file random.cpp random.h vector_clones.h)
  list(APPEND _computing ${CMAKE_SOURCE_DIR}/framework/base/${_file})
endforeach()
attnlab_hash_of_files(ATTNLAB_REVISION ${_computing})

set(ATTNLAB_MADE_HEADERS ${CMAKE_BINARY_DIR}/include)
set(ATTNLAB_SDK_SOURCE ${CMAKE_BINARY_DIR}/sdk_hash.cpp)
file(CONFIGURE OUTPUT ${ATTNLAB_SDK_SOURCE} @ONLY CONTENT
"// Made by framework/cmake/AttnlabSdk.cmake from the headers that plugins may include.
namespace {
[[gnu::section(\".attnlab.sdk\"), gnu::used]] constexpr char attnlab_sdk[] = \"@ATTNLAB_SDK_HASH@\";
}
")
set_source_files_properties(${ATTNLAB_SDK_SOURCE} PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
file(CONFIGURE OUTPUT ${ATTNLAB_MADE_HEADERS}/framework/base/revision_hash.h @ONLY CONTENT
"// Made by framework/cmake/AttnlabSdk.cmake from the sources of all that computes.
#pragma once
#define ATTNLAB_REVISION \"@ATTNLAB_REVISION@\"
")
