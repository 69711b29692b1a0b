#include "framework/tensor/device.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/base/error_text.h"

namespace attnlab::testing::device_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DeterministicKernels, RefuseAnOperationThatHasNone) {
  use_deterministic_kernels(true);
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  std::string text;
  try {
    at::globalContext().alertNotDeterministic("scatter_of_a_test");
  } catch (const std::exception& error) {
    text = text_of(error);
  }
  EXPECT_THAT(text, AllOf(HasSubstr("scatter_of_a_test has no deterministic kernel"),
                          HasSubstr("train.deterministic"), Not(HasSubstr("torch."))));
  EXPECT_THAT(text_of(Error("this operation is not deterministic because it uses CuBLAS and you")),
              AllOf(HasSubstr("train.deterministic"), HasSubstr("CUBLAS_WORKSPACE_CONFIG")));
  use_deterministic_kernels(false);
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
  at::globalContext().alertNotDeterministic("scatter_of_a_test");
}

TEST(Tf32, IsUsedWhereItIsAskedForAndNowhereElse) {
  for (const bool wanted : {true, false}) {
    use_tf32(wanted);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), wanted);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), wanted);
  }
}

}  // namespace
}  // namespace attnlab::testing::device_test
