// The kernels of OpenBLAS: told where it does not know the processor, and else left alone.
#include "framework/base/blas.h"

#include <gtest/gtest.h>

namespace attnlab::blas_test {
namespace {

TEST(BetterBlasCore, IsNamedWhereOpenBlasFellBehindTheProcessor) {
  EXPECT_EQ(better_blas_core("Prescott", true, true), "SkylakeX");
  EXPECT_EQ(better_blas_core("Nehalem", true, false), "Haswell");
  EXPECT_EQ(better_blas_core("Sandybridge", true, false), "Haswell");
}

TEST(BetterBlasCore, IsNotNamedForKernelsThatFit) {
  for (const char* core : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "ZEN"}) {
    EXPECT_EQ(better_blas_core(core, true, true), "") << core;
  }
}

TEST(BetterBlasCore, IsNotNamedWithoutAvx2OrForAnotherBlas) {
  EXPECT_EQ(better_blas_core("Prescott", false, false), "");
  EXPECT_EQ(better_blas_core("", true, true), "");
}

}  // namespace
}  // namespace attnlab::blas_test
