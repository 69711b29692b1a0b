// Which of OpenBLAS's kernels matrix products run on.
#pragma once

#include <string>

namespace attnlab {

/// OpenBLAS's name for the processor that its kernels are for, "SkylakeX" say; empty for another
/// BLAS.
std::string blas_core();

/// What OpenBLAS should be told instead where it took kernels without AVX2 for a processor that has
/// it; empty: nothing.
/// @param core  blas_core()
std::string better_blas_core(const std::string& core, bool avx2, bool avx512);

/// OpenBLAS knows the processors of its own time. On a later one it falls back to SSE3, which makes
/// everything three times slower. Then the program begins again, with OPENBLAS_CORETYPE set, which
/// OpenBLAS reads once, when it is loaded. Call it before anything is read or written.
/// OPENBLAS_CORETYPE in the environment wins.
void use_fitting_blas();

}  // namespace attnlab
