# attnlab_unity(<target>...): compiles files of one room together, so many at a time.
#
# LibTorch's headers cost a compiler eight seconds before it has read a line of ours, even precompiled.
# Together, a file costs less than half. A change to one then compiles its neighbours again: who works on few files
# switches it off, -DATTNLAB_UNITY=OFF, as does who wants ccache's hits from another clone (before CMake 3.31
# the joined files name their parts by whole paths) or each file in compile_commands.json.
# CONTRIBUTING.md has the rule for names.
option(ATTNLAB_UNITY "Compile several files of a room together" ON)
set(_ATTNLAB_TOGETHER 6)

function(attnlab_unity)
  if(NOT ATTNLAB_UNITY)
    return()
  endif()
  foreach(_target ${ARGN})
    get_target_property(_sources ${_target} SOURCES)
    list(FILTER _sources INCLUDE REGEX "\\.cpp$")
    set(_rooms "")
    foreach(_source ${_sources})
      cmake_path(ABSOLUTE_PATH _source)
      cmake_path(RELATIVE_PATH _source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE _name)
      cmake_path(GET _name PARENT_PATH _room)
      string(REPLACE "/" "_" _room "${_room}")
      if(NOT _room IN_LIST _rooms)
        list(APPEND _rooms "${_room}")
        set(_of_${_room} "")
      endif()
      list(APPEND _of_${_room} ${_source})
    endforeach()
    foreach(_room ${_rooms})
      list(LENGTH _of_${_room} _count)
      if(_count EQUAL 1)
        continue()
      endif()
      set(_at 0)
      foreach(_source ${_of_${_room}})
        math(EXPR _group "${_at} / ${_ATTNLAB_TOGETHER}")
        math(EXPR _at "${_at} + 1")
        set_source_files_properties(${_source} PROPERTIES UNITY_GROUP ${_room}_${_group})
      endforeach()
    endforeach()
    set_target_properties(${_target} PROPERTIES
      UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  endforeach()
endfunction()
