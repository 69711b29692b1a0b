#include "framework/tensor/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "framework/base/blas.h"
#include "framework/base/cores.h"
#include "framework/base/launched.h"
#include "framework/base/limits.h"
#include "framework/base/threads.h"
#include "framework/tensor/blas.h"

namespace attnlab {

void use_threads(std::int64_t threads) {
  const std::int64_t count = threads == 0 ? available_cores() : threads;
  if (!threads_are_limited()) {
    at::set_num_threads(static_cast<int>(count));
    return;
  }
  // LibTorch's pool waits for ever where one of its threads cannot start. It has a thread for each
  // processor first; a pool of another size is made before the one before it ends, also by each of
  // OpenMP's threads when it first works.
  const std::int64_t processors = ::sysconf(_SC_NPROCESSORS_CONF);
  check_threads(std::max(processors - 1 + count - 1, 3 * (count - 1)));
  at::set_num_threads(static_cast<int>(count));
  at::parallel_for(0, count, 1, [](std::int64_t, std::int64_t) { at::get_num_threads(); });
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

void use_tf32(bool wanted) {
  at::globalContext().setAllowTF32CuBLAS(wanted);
  at::globalContext().setAllowTF32CuDNN(wanted);
}

void use_deterministic_kernels(bool wanted) {
  at::globalContext().setDeterministicAlgorithms(wanted, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(wanted);
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
  // What cuBLAS needs to be deterministic. It is read once in a process, at the first product.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  const std::int64_t index = gpu_of(at::detail::getCUDAHooks().getNumGPUs());
  return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
}

}  // namespace attnlab
