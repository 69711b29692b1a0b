// Devices and threads.
#pragma once

#include <cstdint>
#include <string>

#include "framework/tensor/tensor.h"

namespace attnlab {

/// Sets LibTorch's threads, and starts them; 0 means `available_cores`. (Some builds of LibTorch
/// start with one.)
/// @throws ThreadError where they cannot start.
void use_threads(std::int64_t threads);

/// Lets LibTorch use AVX-512 where the processor has it (releases before 2.x stop at AVX2 unless
/// told), and its BLAS what it has, for which the program may begin again (see blas.h). Call it
/// first of all; ATEN_CPU_CAPABILITY and OPENBLAS_CORETYPE in the environment win.
void use_widest_vectors();

/// Makes malloc keep what is freed instead of giving it back to the system. A training step frees
/// and asks for the same large blocks over and over; with glibc's defaults each one is mapped anew
/// and its pages are cleared again. Call it before anything is allocated; for whole programs.
void keep_freed_memory();

/// Whether products and convolutions of float32 tensors round their factors to TF32 on a GPU, in
/// this process from now on.
void use_tf32(bool wanted);

/// Whether LibTorch takes only kernels that give the same bits each time, in this process from now
/// on. An operation that has no such kernel throws (`text_of` explains it).
void use_deterministic_kernels(bool wanted);

/// "cpu" or "cuda"; of that also sets CUBLAS_WORKSPACE_CONFIG, unless the environment has it, so
/// that cuBLAS can be deterministic (https://docs.nvidia.com/cuda/cublas, "Results
/// reproducibility").
/// @throws ConfigError where this machine does not have the device.
at::Device device_of(const std::string& name);

}  // namespace attnlab
