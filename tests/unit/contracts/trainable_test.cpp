// What models and tasks say of their parameters by default.
#include "framework/contracts/trainable.h"

#include <gtest/gtest.h>

namespace attnlab::trainable_test {
namespace {

TEST(Trainable, DecaysMatricesAndNoVectors) {
  const Trainable module;
  EXPECT_TRUE(module.decays("weight", at::zeros({4, 3})));
  EXPECT_TRUE(module.decays("convolution", at::zeros({4, 1, 3, 3})));
  EXPECT_TRUE(module.decays("weight of one input", at::zeros({4, 1})));
  EXPECT_FALSE(module.decays("bias", at::zeros({4})));
  EXPECT_FALSE(module.decays("scale of each head", at::zeros({4, 1, 1})));
}

}  // namespace
}  // namespace attnlab::trainable_test
