#include "framework/tensor/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>

#include "framework/base/blas.h"
#include "framework/base/cores.h"
#include "framework/tensor/blas.h"

namespace attnlab {

void use_threads(std::int64_t threads) {
  at::set_num_threads(static_cast<int>(threads == 0 ? available_cores() : threads));
}

void use_widest_vectors() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    ::setenv("ATEN_CPU_CAPABILITY", "avx512", 0);
  }
#endif
  use_fitting_blas(blas_core());
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
  ::mallopt(M_TOP_PAD, 64 << 20);
#endif
}

at::Device device_of(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name != "cuda") {
    throw ConfigError(fmt::format("unknown device '{}'; there is cpu, cuda", name));
  }
  if (!at::globalContext().hasCUDA()) {
    throw ConfigError(
        "train.device: cuda: this LibTorch has no CUDA, or there is no GPU; use train.device=cpu");
  }
  return at::Device(at::kCUDA, 0);
}

}  // namespace attnlab
