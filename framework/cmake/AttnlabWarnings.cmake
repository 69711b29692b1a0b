# Warnings and sanitizers of our own code; plugins of other labs choose their own warnings.
add_library(attnlab_warnings INTERFACE)
target_compile_options(attnlab_warnings INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms on std::string + at -O2 and above (GCC bug 105651, mended in 13).
  target_compile_options(attnlab_warnings INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # False alarms on std::vector<bool>::reserve, inlined from LibTorch's autograd functions.
  target_compile_options(attnlab_warnings INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(ATTNLAB_WERROR)
  target_compile_options(attnlab_warnings INTERFACE -Werror)
endif()
if(ATTNLAB_SANITIZE STREQUAL thread)
  # Atomic fences, which it does not know, are in the standard library alone.
  target_compile_options(attnlab_warnings INTERFACE -Wno-tsan)
  add_compile_options(-fsanitize=thread -O1 -g1)
  add_link_options(-fsanitize=thread)
elseif(ATTNLAB_SANITIZE STREQUAL fuzzer)
  # Clang alone: what libFuzzer is guided by, and what llvm-cov counts lines with.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -O1 -g1
    -fno-sanitize=vptr -fprofile-instr-generate -fcoverage-mapping
    -include ${CMAKE_SOURCE_DIR}/scripts/clang_prelude.h)
  add_link_options(-fsanitize=address,undefined -fprofile-instr-generate)
elseif(ATTNLAB_SANITIZE)
  # The instrumented code looks uninitialised to GCC in LibTorch's own headers.
  target_compile_options(attnlab_warnings INTERFACE -Wno-maybe-uninitialized)
  # Without optimisation: with it, JSON and LibTorch's headers take GCC twice as long.
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -O0 -g1)
  # vptr checks need every class's typeinfo visible, which LibTorch's hidden ones are not. What null
  # and object-size find the address checks find too; they take a third of the compiler's time.
  add_compile_options(-fno-sanitize=vptr,null,object-size)
  add_link_options(-fsanitize=address,undefined)
endif()
