// Which of OpenBLAS's kernels matrix products run on.
#pragma once

#include <string>

namespace attnlab {

/// OpenBLAS's name for the processor that its kernels are for, "SkylakeX" say, as LibTorch loaded
/// it; empty for another BLAS.
std::string blas_core();

}  // namespace attnlab
