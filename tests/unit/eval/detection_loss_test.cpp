// The loss of detection against its equations.
#include "framework/eval/detection/detection_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace attnlab::detection_loss_test {
namespace {

Objects objects(const std::vector<double>& boxes, const std::vector<std::int64_t>& labels,
                const std::vector<std::int64_t>& starts) {
  const Tensor kinds = at::tensor(labels, at::kLong);
  return {at::tensor(boxes, at::kDouble).view({-1, 4}), kinds, kinds, starts};
}

double focal(double logit, bool right, double alpha = 0.25) {
  const double p = 1 / (1 + std::exp(-logit));
  return right ? -alpha * (1 - p) * (1 - p) * std::log(p) : -(1 - alpha) * p * p * std::log(1 - p);
}

const std::vector<double> kBox = {0.5, 0.5, 0.2, 0.2};

/// One image with one object of a class in that box.
Objects one_object(std::int64_t label = 0) { return objects(kBox, {label}, {0, 1}); }

/// What a model gives of layers; its answers are the one-to-one queries of the last layer.
NamedTensors given(const Tensor& logits, const Tensor& boxes, std::int64_t ones) {
  return {{"logits", logits.select(1, -1).narrow(1, 0, ones)},
          {"layer_logits", logits},
          {"layer_boxes", boxes}};
}

double loss_of(const NamedTensors& outputs, const Objects& asked,
               const DetectionLossOptions& options = {}) {
  return detection_loss(outputs, asked, asked, options).item<double>();
}

TEST(DetectionLoss, IsThatOfTheEquationByHand) {
  // Two queries, two classes, one object of class 1 that lies on the second query's box but for a
  // shift of its middle by 0.1.
  const Tensor logits = at::tensor({0.3, -1.0, 0.2, 2.0}, at::kDouble).view({1, 1, 2, 2});
  const Tensor boxes =
      at::tensor({0.1, 0.1, 0.1, 0.1, 0.6, 0.5, 0.2, 0.2}, at::kDouble).view({1, 1, 2, 4});
  const double classes = focal(0.3, false) + focal(-1, false) + focal(0.2, false) + focal(2, true);
  const double overlap = 1 - (1.0 / 3);  // half of each in common, nothing around beside them
  const double expected = 2 * classes + 5 * 0.1 + 2 * overlap;
  EXPECT_NEAR(loss_of(given(logits, boxes, 2), one_object(1)), expected, 1e-9);
}

TEST(DetectionLoss, MatchesEachLayerByItself) {
  // One object. In the first layer the first query has its box, in the second layer the second one.
  const Tensor right = at::tensor(kBox, at::kDouble), wrong = right * 0.4;
  const Tensor boxes = at::stack({right, wrong, wrong, right}).view({1, 2, 2, 4});
  const Tensor logits = at::tensor({0.3, -0.4, 0.7, 0.1}, at::kDouble).view({1, 2, 2, 1});
  const double expected =
      2 * (focal(0.3, true) + focal(-0.4, false) + focal(0.7, false) + focal(0.1, true));
  EXPECT_NEAR(loss_of(given(logits, boxes, 2), one_object()), expected, 1e-9);
}

TEST(DetectionLoss, MatchesAnObjectManyTimesInOneToManyQueries) {
  // One one-to-one query and four one-to-many; with `many` 3, three of them are right.
  const Tensor logits = at::zeros({1, 1, 5, 1}, at::kDouble);
  const Tensor boxes = at::tensor(kBox, at::kDouble).expand({1, 1, 5, 4});
  DetectionLossOptions options;
  options.many = 3;
  const double one = 2 * focal(0, true);
  const double many = 2 * (3 * focal(0, true) + focal(0, false)) / 3;
  EXPECT_NEAR(loss_of(given(logits, boxes, 1), one_object(), options), one + many, 1e-9);
}

TEST(DetectionLoss, ProposalsThatArePaddingDoNotCount) {
  const Tensor logits = at::zeros({1, 1, 1, 1}, at::kDouble);
  const Tensor box = at::tensor(kBox, at::kDouble);
  NamedTensors outputs = given(logits, box.view({1, 1, 1, 4}), 1);
  const double without = loss_of(outputs, one_object());
  outputs.set("proposal_logits", at::tensor({0.0, 3.0}, at::kDouble).view({1, 2, 1}));
  outputs.set("proposal_boxes", box.expand({1, 2, 4}));
  outputs.set("proposal_valid", at::tensor({1, 0}).to(at::kBool).view({1, 2}));
  EXPECT_NEAR(loss_of(outputs, one_object()) - without, 2 * focal(0, true), 1e-9);
}

TEST(DetectionLoss, AnImageWithoutObjectsTeachesSilence) {
  const Tensor logits = at::zeros({1, 2, 3, 1}, at::kDouble).requires_grad_();
  const Tensor boxes = at::full({1, 2, 3, 4}, 0.5, at::kDouble);
  const Objects none = objects({}, {}, {0, 0});
  const Tensor loss = detection_loss(given(logits, boxes, 3), none, none, {});
  EXPECT_NEAR(loss.item<double>(), 2 * 6 * focal(0, false), 1e-9);
  loss.backward();
  EXPECT_TRUE(logits.grad().gt(0).all().item<bool>());
}

TEST(DetectionLoss, ContrastsOneToManyQueriesToo) {
  // Two images, each with an object of a class of its own, one one-to-one query and three
  // one-to-many, of which `many` 2 are matched: those whose boxes are right.
  at::manual_seed(4);
  const Tensor right = at::tensor(kBox, at::kDouble);
  const Tensor boxes = right.expand({2, 1, 4, 4}).clone();
  boxes.select(2, 2).fill_(0.9);
  const Tensor logits = at::zeros({2, 1, 4, 1}, at::kDouble);
  const Tensor features = at::randn({2, 1, 4, 3}, at::kDouble);
  NamedTensors outputs = {{"logits", logits.squeeze(1).narrow(1, 0, 1)},
                          {"layer_prompt_logits", logits},
                          {"layer_boxes", boxes}};
  Objects asked = objects({0.5, 0.5, 0.2, 0.2, 0.5, 0.5, 0.2, 0.2}, {0, 0}, {0, 1, 2});
  asked.kinds = at::tensor({3, 5}, at::kLong);
  DetectionLossOptions options;
  options.many = 2;
  options.many_weight = 0.3;
  const double without = loss_of(outputs, asked, options);
  outputs.set("layer_features", features);
  std::map<std::string, double> parts;
  const double with = detection_loss(outputs, asked, asked, options, [&](auto name, auto value) {
                        parts[std::string(name)] = value.template item<double>();
                      }).item<double>();
  const Tensor ones = features.select(2, 0).flatten(0, 1);
  const Tensor many = features.index_select(2, at::tensor({1, 3}, at::kLong)).flatten(0, 2);
  const double of_ones =
      contrastive_loss(ones, at::tensor({3, 5}, at::kLong), options.temperature).item<double>();
  const double of_many =
      contrastive_loss(many, at::tensor({3, 3, 5, 5}, at::kLong), options.temperature)
          .item<double>();
  EXPECT_NEAR(parts.at("contrast"), of_ones, 1e-10);
  EXPECT_NEAR(parts.at("many_contrast"), of_many, 1e-10);
  EXPECT_NEAR(with - without, 2 * (of_ones + 0.3 * of_many), 1e-9);
}

TEST(ContrastiveLoss, IsThatOfTheEquation) {
  at::manual_seed(2);
  const Tensor features = at::randn({5, 3}, at::kDouble);
  const std::vector<std::int64_t> kinds = {1, 0, 1, 2, 0};
  const double temperature = 0.5;
  const Tensor unit = features / features.norm(2, {1}, true);
  const Tensor near = (at::matmul(unit, unit.t()) / temperature).exp();
  double sum = 0;
  for (const std::int64_t kind : {0, 1, 2}) {
    double of_class = 0, pairs = 0;
    for (int i = 0; i < 5; ++i) {
      if (kinds[std::size_t(i)] != kind) continue;
      double others = 0;
      for (int k = 0; k < 5; ++k) {
        if (kinds[std::size_t(k)] != kind) others += near[i][k].item<double>();
      }
      for (int j = 0; j < 5; ++j) {
        if (kinds[std::size_t(j)] != kind) continue;
        const double s = near[i][j].item<double>();
        of_class -= std::log(s / (s + others));
        ++pairs;
      }
    }
    sum += of_class / pairs / 3;
  }
  EXPECT_NEAR(contrastive_loss(features, at::tensor(kinds, at::kLong), temperature).item<double>(),
              sum, 1e-10);
}

}  // namespace
}  // namespace attnlab::detection_loss_test
