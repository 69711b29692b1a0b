# How the libraries are found; third_party/README.md says why each is here. Used by the build of
# attnlab itself and by the package that labs use (attnlabConfig.cmake).
include(CMakeFindDependencyMacro)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
find_dependency(LibTorch)

if(NOT ATTNLAB_SDK_ONLY)
  find_dependency(yaml-cpp)
  find_dependency(fmt)
  find_dependency(nlohmann_json)
  find_dependency(TBB)
  find_dependency(ZLIB)
  find_dependency(OpenMP)
  find_dependency(Boost 1.74 CONFIG COMPONENTS program_options filesystem)
  if(TARGET yaml-cpp::yaml-cpp)
    set(ATTNLAB_YAML yaml-cpp::yaml-cpp)
  else()
    set(ATTNLAB_YAML yaml-cpp)
  endif()
endif()
