# Finds what code needs in which C++ and Python share tensors; nothing here is required.
#
#   ATTNLAB_PYTHON_FOUND        whether the interpreter below, its headers, pybind11's and libtorch_python are here
#   ATTNLAB_PYTHON_LACKS        what is missing, in words, where it is not
#   ATTNLAB_PYTHON_EXECUTABLE   the interpreter whose torch uses this very LibTorch
#   ATTNLAB_PYTHON_EMBED_FOUND  whether an interpreter can be linked into a program (Python3::Python)
#   attnlab::torch_python       headers and libtorch_python; Python's own symbols come from the process
#
# The interpreter is Python3_EXECUTABLE where that is given; else the first of python3 on PATH, /usr/bin/python3
# and that of the virtual environment in which LibTorch lies that can import a torch with this LibTorch. Two
# LibTorches in one process would be two sets of types and kernels: such a torch is not taken.
# Include it behind AttnlabDependencies, which finds LibTorch.
include_guard(DIRECTORY)

# Sets `out` to the folder of the torch that an interpreter imports, "" where it has none.
function(_attnlab_torch_of python out)
  execute_process(
    COMMAND ${python} -c
      "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE _folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${_folder}" PARENT_SCOPE)
endfunction()

# Sets `out` to the interpreter whose torch is this LibTorch, "" where there is none.
function(_attnlab_find_python out)
  get_filename_component(_library_folder ${LibTorch_CPU_LIBRARY} DIRECTORY)
  if(Python3_EXECUTABLE)
    set(_candidates ${Python3_EXECUTABLE})
  else()
    set(_candidates python3 /usr/bin/python3 ${_library_folder}/../../../../../bin/python3)
  endif()
  file(REAL_PATH ${LibTorch_CPU_LIBRARY} _ours)
  foreach(_python ${_candidates})
    _attnlab_torch_of(${_python} _folder)
    if(_folder AND EXISTS ${_folder}/lib/libtorch_cpu.so)
      file(REAL_PATH ${_folder}/lib/libtorch_cpu.so _theirs)
      if(_theirs STREQUAL _ours)
        # A shim on PATH stands for another file, beside which CMake finds headers and library.
        execute_process(COMMAND ${_python} -c "import sys; print(sys.executable)"
          OUTPUT_VARIABLE _python OUTPUT_STRIP_TRAILING_WHITESPACE)
        set(${out} ${_python} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

set(ATTNLAB_PYTHON_FOUND OFF)
set(ATTNLAB_PYTHON_EMBED_FOUND OFF)
set(ATTNLAB_PYTHON_LACKS "")
get_filename_component(_hint ${LibTorch_CPU_LIBRARY} DIRECTORY)
find_library(ATTNLAB_TORCH_PYTHON torch_python HINTS ${_hint})
# PyPI's torch brings the pybind11 that it was built with; Debian's was built with the system's.
find_path(ATTNLAB_PYBIND11 pybind11/pybind11.h HINTS ${LibTorch_INCLUDE_DIR})
mark_as_advanced(ATTNLAB_TORCH_PYTHON ATTNLAB_PYBIND11)
_attnlab_find_python(ATTNLAB_PYTHON_EXECUTABLE)
if(NOT ATTNLAB_PYTHON_EXECUTABLE)
  list(APPEND ATTNLAB_PYTHON_LACKS "a Python whose torch uses ${LibTorch_CPU_LIBRARY} (python3-torch)")
else()
  set(Python3_EXECUTABLE ${ATTNLAB_PYTHON_EXECUTABLE})
  find_package(Python3 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.Embed)
  if(NOT Python3_Development.Module_FOUND)
    list(APPEND ATTNLAB_PYTHON_LACKS "Python's headers (python3-dev)")
  endif()
endif()
if(NOT ATTNLAB_TORCH_PYTHON)
  list(APPEND ATTNLAB_PYTHON_LACKS "libtorch_python (libtorch-dev)")
endif()
if(NOT ATTNLAB_PYBIND11)
  list(APPEND ATTNLAB_PYTHON_LACKS "pybind11 (pybind11-dev)")
endif()
list(JOIN ATTNLAB_PYTHON_LACKS ", " ATTNLAB_PYTHON_LACKS)

if(NOT ATTNLAB_PYTHON_LACKS)
  set(ATTNLAB_PYTHON_FOUND ON)
  if(Python3_Development.Embed_FOUND)
    set(ATTNLAB_PYTHON_EMBED_FOUND ON)
  endif()
  add_library(attnlab::torch_python INTERFACE IMPORTED)
  target_include_directories(attnlab::torch_python SYSTEM INTERFACE
    ${ATTNLAB_PYBIND11} ${Python3_INCLUDE_DIRS})
  target_link_libraries(attnlab::torch_python INTERFACE LibTorch::LibTorch ${ATTNLAB_TORCH_PYTHON})
endif()
