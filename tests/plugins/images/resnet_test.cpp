// ResNet as a classifier: torchvision's logits, and the names that its checkpoints load by.
#include "tests/plugins/images/backbone_numbers.h"

namespace attnlab::resnet_test {
namespace {

using testing::backbone_images;
using testing::make_model;

/// Parameters have torchvision's names, those of the network behind `net.`.
std::string torchvision_name(const std::string& own) {
  return own.starts_with("net.") ? own.substr(4) : own;
}

TEST(ResNetModel, GivesTorchvisionsLogits) {
  const auto small = make_model("resnet", backbone_images(), "{depth: 18}");
  testing::expect_close(testing::logits_by_rule(*small, torchvision_name),
                        {399503.615088872146, 586653.348720094189, 734838.174273684970,
                         834215.778208173579, 878185.569631367689},
                        1e-10);
  const auto deep = make_model("resnet", backbone_images(), "{depth: 50}");
  testing::expect_close(testing::logits_by_rule(*deep, torchvision_name),
                        {-153940803.186898052692, 151598012.961904764175, 309056009.231456935406,
                         164628338.726329743862, -140608163.554389029741},
                        1e-10);
}

TEST(ResNetModel, SaysHowDeepAParameterLies) {
  const auto model = make_model("resnet", backbone_images(), "{depth: 18, stages: 2}");
  EXPECT_EQ(model->depth("net.conv1.weight"), 0);
  EXPECT_EQ(model->depth("net.layer2.1.bn2.bias"), 4);
  EXPECT_EQ(model->depth("fc.weight"), -1) << "the head";
  EXPECT_FALSE(model->named_parameters().contains("net.layer3.0.conv1.weight"));
}

TEST(ResNetModel, TakesImagesWithClassesAlone) { testing::expect_only_images_taken("resnet"); }

}  // namespace
}  // namespace attnlab::resnet_test
