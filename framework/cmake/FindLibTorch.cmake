# Finds LibTorch by its headers and libraries: the target LibTorch::LibTorch, and
#   LibTorch_VERSION, LibTorch_SONAME (of its core library), LibTorch_CUDA_VERSION ("" without).
#
# LibTorch's own TorchConfig.cmake pulls in protobuf, MKL probes and a CUDA toolkit search that fail
# on machines where the library itself works. Set LibTorch_ROOT (or CMAKE_PREFIX_PATH) to a folder
# with include/ and lib/, e.g. the `torch` folder of a Python installation, to choose one.
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h)
find_path(LibTorch_API_INCLUDE_DIR torch/nn/module.h
          HINTS ${LibTorch_INCLUDE_DIR} PATH_SUFFIXES torch/csrc/api/include)
find_library(LibTorch_LIBRARY torch)
find_library(LibTorch_CPU_LIBRARY torch_cpu)
find_library(LibTorch_C10_LIBRARY c10)
find_library(LibTorch_CUDA_LIBRARY torch_cuda)
find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_API_INCLUDE_DIR LibTorch_LIBRARY
                 LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_CUDA_LIBRARY
                 LibTorch_C10_CUDA_LIBRARY)

if(LibTorch_API_INCLUDE_DIR)
  file(READ ${LibTorch_API_INCLUDE_DIR}/torch/version.h _version)
  set(_numbers_file ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h)
  if(EXISTS ${_numbers_file})  # newer releases keep the numbers there
    file(READ ${_numbers_file} _version)
  endif()
  foreach(_part MAJOR MINOR PATCH)
    string(REGEX MATCH "TORCH_VERSION_${_part} +([0-9]+)" _ "${_version}")
    list(APPEND _numbers ${CMAKE_MATCH_1})
  endforeach()
  list(JOIN _numbers . LibTorch_VERSION)
  unset(_numbers)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_LIBRARY LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
                LibTorch_API_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "install libtorch-dev, or set LibTorch_ROOT to a LibTorch folder")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  if(LibTorch_VERSION VERSION_LESS 1.13)
    message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} is too old: attnlab needs 1.13 or newer")
  endif()
  file(REAL_PATH ${LibTorch_CPU_LIBRARY} _file)
  find_program(ATTNLAB_READELF NAMES readelf eu-readelf)
  mark_as_advanced(ATTNLAB_READELF)
  execute_process(COMMAND ${ATTNLAB_READELF} -d ${_file} OUTPUT_VARIABLE _dynamic ERROR_QUIET)
  if(_dynamic MATCHES "SONAME[^[]*\\[([^]]+)\\]")
    set(LibTorch_SONAME ${CMAKE_MATCH_1})
  else()
    message(FATAL_ERROR "cannot read the soname of ${_file} (is binutils installed?)")
  endif()

  # Debian's uses the system's oneDNN; PyPI's has one of its own inside.
  set(LibTorch_USES_SYSTEM_ONEDNN OFF)
  if(_dynamic MATCHES "NEEDED[^[]*\\[libdnnl\\.so")
    set(LibTorch_USES_SYSTEM_ONEDNN ON)
  endif()

  # Releases on PyPI before 2.7 keep std::string as GCC 4 laid it out; no other library of a system does.
  file(STRINGS ${LibTorch_C10_LIBRARY} _new_strings REGEX "__cxx11" LIMIT_COUNT 1)
  if(NOT _new_strings)
    message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${LibTorch_INCLUDE_DIR} was built with the C++ "
      "ABI from before GCC 5, which no other library here has: take a newer one (from PyPI: torch 2.7 or newer)")
  endif()

  set(LibTorch_CUDA_VERSION "")
  set(_libraries ${LibTorch_LIBRARY} ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY})
  if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY)
    # --no-as-needed: nothing refers to the CUDA library by name, it registers itself when loaded.
    list(APPEND _libraries -Wl,--no-as-needed ${LibTorch_CUDA_LIBRARY} ${LibTorch_C10_CUDA_LIBRARY}
         -Wl,--as-needed)
    execute_process(COMMAND ${ATTNLAB_READELF} -d ${LibTorch_CUDA_LIBRARY}
                    OUTPUT_VARIABLE _dynamic ERROR_QUIET)
    if(_dynamic MATCHES "libcudart\\.so\\.([0-9.]+)")
      set(LibTorch_CUDA_VERSION ${CMAKE_MATCH_1})
    else()
      set(LibTorch_CUDA_VERSION unknown)
    endif()
  endif()

  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_API_INCLUDE_DIR})
  target_link_libraries(LibTorch::LibTorch INTERFACE ${_libraries})
  target_compile_definitions(LibTorch::LibTorch INTERFACE
    ATTNLAB_LIBTORCH_SONAME="${LibTorch_SONAME}" ATTNLAB_CUDA_VERSION="${LibTorch_CUDA_VERSION}")
endif()
