# Within a build of a wheel (python/pyproject.toml): against the LibTorch of the Python that builds it, which the
# installed files find beside their own package.
find_package(Python REQUIRED COMPONENTS Interpreter)
execute_process(COMMAND ${Python_EXECUTABLE} -c
  "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0], end='')"
  OUTPUT_VARIABLE LibTorch_ROOT COMMAND_ERROR_IS_FATAL ANY)
set(Python3_EXECUTABLE ${Python_EXECUTABLE})  # the one that the extension is for
set(ATTNLAB_LIBTORCH_FROM_LIB ../../../torch/lib)  # from site-packages/attnlab/installation/lib
set(ATTNLAB_TESTS OFF)
