// Descriptions of tensors and collections by name.
#include "framework/tensor/tensor.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace attnlab::tensor_test {
namespace {

using attnlab::testing::says;

TEST(Describe, GivesShapeAndDtype) {
  EXPECT_EQ(describe(at::zeros({2, 3, 4})), "[2, 3, 4] float32");
  EXPECT_EQ(describe(at::zeros({}, at::kLong)), "[] int64");
  EXPECT_EQ(describe(at::zeros({0}, at::kBool)), "[0] bool");
  EXPECT_EQ(describe(at::zeros({1}, at::kBFloat16)), "[1] bfloat16");
  EXPECT_EQ(describe(Tensor()), "undefined");
}

TEST(NamedTensors, KeepsTheOrderOfInsertionAndReplacesByName) {
  NamedTensors tensors = {{"b", at::zeros({1})}, {"a", at::zeros({2})}};
  tensors.set("c", at::zeros({3}));
  tensors.set("b", at::zeros({4}));
  std::string names;
  for (const auto& [name, tensor] : tensors) names += name;
  EXPECT_EQ(names, "bac");
  EXPECT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors.at("b").size(0), 4);
  EXPECT_EQ(tensors.find("d"), nullptr);
}

TEST(NamedTensors, NamesWhatThereIsWhereANameIsMissing) {
  const NamedTensors tensors = {{"image", at::zeros({1})}, {"class", at::zeros({1})}};
  try {
    tensors.at("label");
    FAIL() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), says({"'label'", "image, class"}));
  }
  EXPECT_THROW(NamedTensors().at("x"), ShapeError);
}

TEST(NamedTensors, MovesWithoutCopyingWhatIsThereAlready) {
  const NamedTensors tensors = {{"x", at::zeros({3})}};
  EXPECT_TRUE(tensors.to(at::kCPU).at("x").is_same(tensors.at("x")));
}

}  // namespace
}  // namespace attnlab::tensor_test
