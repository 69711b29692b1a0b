// Which of OpenBLAS's kernels matrix products should run on.
#pragma once

#include <string>

namespace attnlab {

/// OpenBLAS's name for the processor that its kernels are for, "SkylakeX" say, in the system's own
/// library, which LibTorch will load if it uses OpenBLAS; empty where there is none.
std::string system_blas_core();

/// What OpenBLAS should be told instead where it took kernels without AVX2 for a processor that has
/// it; empty: nothing.
/// @param core  as OpenBLAS names it; empty: another BLAS
std::string better_blas_core(const std::string& core, bool avx2, bool avx512);

/// OpenBLAS knows the processors of its own time. On a later one it falls back to SSE3, which makes
/// everything three times slower. Then the program begins again, with OPENBLAS_CORETYPE set, which
/// OpenBLAS reads once, when it is loaded. Call it before anything is read or written, and best
/// before LibTorch is loaded, which takes most of a second.
/// OPENBLAS_CORETYPE in the environment wins.
/// @param core  what OpenBLAS took
void use_fitting_blas(const std::string& core);

}  // namespace attnlab
