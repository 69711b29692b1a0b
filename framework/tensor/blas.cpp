#include "framework/tensor/blas.h"

#include <dlfcn.h>

namespace attnlab {

std::string blas_core() {
  // In the scope of this library, which LibTorch and its BLAS are loaded with.
  using CoreName = const char* (*)();
  const auto name = reinterpret_cast<CoreName>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const char* core = name == nullptr ? nullptr : name();
  return core == nullptr ? "" : core;
}

}  // namespace attnlab
