#include "framework/tensor/device.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/base/error_text.h"

namespace attnlab::testing::device_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DeterministicKernels, RefuseAnOperationThatHasNone) {
  use_deterministic_kernels(true);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  std::string text;
  try {
    at::globalContext().alertNotDeterministic("scatter_of_a_test");
  } catch (const std::exception& error) {
    text = text_of(error);
  }
  EXPECT_THAT(text, AllOf(HasSubstr("scatter_of_a_test has no deterministic kernel"),
                          HasSubstr("train.deterministic"), Not(HasSubstr("torch."))));
  use_deterministic_kernels(false);
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
  at::globalContext().alertNotDeterministic("scatter_of_a_test");
}

}  // namespace
}  // namespace attnlab::testing::device_test
