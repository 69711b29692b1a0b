// Boxes: overlap by hand, its gradients, optimal matching, the bias from boxes to pixels.
#include "framework/nn/boxes/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/nn/boxes/best_answers.h"
#include "framework/nn/boxes/box_bias.h"
#include "framework/nn/boxes/matching.h"
#include "framework/nn/boxes/sine_positions.h"
#include "tests/support/gradcheck.h"

namespace attnlab::boxes_test {
namespace {

Tensor box(std::vector<double> numbers) { return at::tensor(numbers, at::kDouble).view({-1, 4}); }

TEST(Boxes, CornersAndCentresAreTheSameBoxes) {
  const Tensor centred = box({5, 6, 4, 2, 0.5, 0.5, 1, 1});
  EXPECT_TRUE(corners_of(centred).equal(box({3, 5, 7, 7, 0, 0, 1, 1})));
  EXPECT_TRUE(centred_of(corners_of(centred)).equal(centred));
}

TEST(Boxes, OverlapAsByHand) {
  const Tensor a = box({0, 0, 2, 2});
  const Tensor b = box({0, 0, 2, 2, 1, 1, 3, 3, 4, 0, 6, 2, 2, 0, 4, 2, 1, 1, 1, 1});
  // The same; a corner of 1 in 7, around both 9; apart, around both 12; side by side; a point in
  // it.
  const Tensor iou = at::tensor({1.0, 1.0 / 7, 0.0, 0.0, 0.0}, at::kDouble).view({1, 5});
  const Tensor generalised =
      at::tensor({1.0, 1.0 / 7 - 2.0 / 9, -4.0 / 12, 0.0, 0.0}, at::kDouble).view({1, 5});
  EXPECT_TRUE(at::allclose(pairwise_iou(a, b), iou, 0, 1e-12));
  EXPECT_TRUE(at::allclose(pairwise_giou(a, b), generalised, 0, 1e-12));
  EXPECT_TRUE(at::allclose(giou(a.expand({5, 4}), b), generalised.squeeze(0), 0, 1e-12));
}

TEST(Boxes, BoxesWithoutAreaGiveNumbers) {
  const Tensor point = box({1, 1, 1, 1});
  EXPECT_EQ(pairwise_iou(point, point).item<double>(), 0);
  EXPECT_TRUE(std::isfinite(pairwise_giou(point, point).item<double>()));
}

TEST(Boxes, GeneralisedOverlapHasItsGradient) {
  const Tensor a = box({0.1, 0.2, 1.3, 1.1, 3.0, 3.1, 4.2, 4.7, 0.3, 0.2, 0.9, 0.8});
  const Tensor b = box({0.5, 0.6, 2.1, 1.9, 0.2, 0.3, 1.1, 1.4, 0.1, 0.1, 1.5, 1.2});
  const auto f = [](const std::vector<Tensor>& x) { return giou(x[0], x[1]); };
  EXPECT_LT(testing::gradient_error(f, {a, b}), 1e-8);
}

TEST(Boxes, InverseSigmoidTakesBack) {
  const Tensor x = at::linspace(-6, 6, 25, at::kDouble);
  EXPECT_TRUE(at::allclose(inverse_sigmoid(x.sigmoid()), x, 0, 1e-9));
  EXPECT_TRUE(inverse_sigmoid(at::tensor({0.0, 1.0})).isfinite().all().item<bool>());
}

double cost_of(const Tensor& cost, const std::vector<std::int64_t>& columns) {
  double sum = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] >= 0) sum += cost[std::int64_t(i)][columns[i]].item<double>();
  }
  return sum;
}

/// The least cost, by trying every order of the longer side.
double least_cost(const Tensor& cost) {
  const Tensor wide = cost.size(0) <= cost.size(1) ? cost : cost.t();
  std::vector<std::int64_t> order(static_cast<std::size_t>(wide.size(1)));
  std::iota(order.begin(), order.end(), 0);
  double least = INFINITY;
  do {
    least = std::min(least, cost_of(wide, {order.begin(), order.begin() + wide.size(0)}));
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Matching, IsAsCheapAsTheBestOfAllOrders) {
  at::manual_seed(1);
  for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 5}, {3, 3}, {4, 6}, {6, 6}, {6, 2}}) {
    for (int trial = 0; trial < 20; ++trial) {
      // Every second time whole numbers, so that many assignments cost the same.
      Tensor cost = at::randn({rows, columns}, at::kDouble) * 3;
      if (trial % 2 == 0) cost = cost.round();
      const std::vector<std::int64_t> found = cheapest_assignment(cost);
      std::vector<std::int64_t> used;
      std::copy_if(found.begin(), found.end(), std::back_inserter(used),
                   [](std::int64_t c) { return c >= 0; });
      EXPECT_EQ(used.size(), std::size_t(std::min(rows, columns)));
      std::sort(used.begin(), used.end());
      EXPECT_EQ(std::adjacent_find(used.begin(), used.end()), used.end());
      EXPECT_NEAR(cost_of(cost, found), least_cost(cost), 1e-9) << rows << " x " << columns;
    }
  }
}

TEST(Matching, TakesNothingAndRefusesNoNumbers) {
  EXPECT_TRUE(cheapest_assignment(at::zeros({0, 4})).empty());
  EXPECT_EQ(cheapest_assignment(at::zeros({2, 0})), (std::vector<std::int64_t>{-1, -1}));
  EXPECT_THROW(cheapest_assignment(at::full({1, 1}, NAN)), ShapeError);
  EXPECT_THROW(cheapest_assignment(at::zeros({3})), ShapeError);
}

TEST(BestAnswers, PutWhatIsNoNumberLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const BestAnswers best =
      best_answers(at::tensor({nan, 0.f, 1.f}).view({1, 3, 1}), at::full({1, 3, 4}, 0.5), 3);
  EXPECT_GT(best.scores[0][0].item<float>(), best.scores[0][1].item<float>());
  EXPECT_EQ(best.scores[0][2].item<float>(), kNoScore);
}

TEST(BestAnswers, AreSortedByScoreOverQueriesAndClasses) {
  const Tensor logits = at::tensor({0.0, 2.0, 3.0, -1.0, 2.0, 0.0}, at::kDouble).view({1, 3, 2});
  const Tensor boxes = box({1, 1, 2, 2, 5, 5, 2, 2, 9, 9, 2, 2}).unsqueeze(0);
  const BestAnswers best = best_answers(logits, boxes, 3);
  EXPECT_TRUE(best.labels.equal(at::tensor({0, 1, 0}, at::kLong).view({1, 3})));
  EXPECT_TRUE(best.scores.equal(at::tensor({3.0, 2.0, 2.0}, at::kDouble).sigmoid().view({1, 3})));
  EXPECT_TRUE(best.boxes[0].equal(box({4, 4, 6, 6, 0, 0, 2, 2, 8, 8, 10, 10})));
  EXPECT_EQ(best_answers(logits, boxes, 100).scores.size(1), 6);
}

TEST(BoxBias, IsThatOfTheEquationOnAGridOfNine) {
  at::manual_seed(3);
  BoxBias bias(4, 2);
  bias.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& p : bias.parameters()) p.normal_();
  const double stride = 8, x0 = 3, y0 = 1, x1 = 20, y1 = 9;
  const Tensor found = bias.forward(box({x0, y0, x1, y1}).unsqueeze(0), 3, 3, stride);
  ASSERT_EQ(found.sizes(), (at::IntArrayRef{1, 2, 1, 9}));
  const auto named = bias.named_parameters();
  const auto f = [&](const std::string& axis, double low, double high, std::int64_t head) {
    double sum = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      const Tensor w = named[axis + ".in_weight"][k];
      const double hidden = w[0].item<double>() * low + w[1].item<double>() * high +
                            named[axis + ".in_bias"][k].item<double>();
      sum += named[axis + ".out_weight"][head][k].item<double>() * std::max(hidden, 0.0);
    }
    return sum;
  };
  for (std::int64_t head = 0; head < 2; ++head) {
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column) {
        const double x = (column + 0.5) * stride, y = (row + 0.5) * stride;
        const double expected = f("x", x0 - x, x1 - x, head) + f("y", y0 - y, y1 - y, head);
        EXPECT_NEAR(found[0][head][0][3 * row + column].item<double>(), expected, 1e-9);
      }
    }
  }
}

TEST(SinePositions, AreThoseOfTheEquation) {
  const Tensor found = sine_positions(at::tensor({0.25, 0.5}, at::kDouble), 4);
  const double slow = 2 * M_PI / 100;
  const Tensor expected = at::tensor({1.0, 0.0, std::sin(0.25 * slow), std::cos(0.25 * slow), 0.0,
                                      -1.0, std::sin(0.5 * slow), std::cos(0.5 * slow)},
                                     at::kDouble);
  EXPECT_TRUE(at::allclose(found, expected, 0, 1e-12));
}

TEST(SinePositions, PlacesAreSharesOfWhatIsReal) {
  Tensor valid = at::zeros({1, 3, 4}, at::kBool);
  valid.narrow(1, 0, 2).narrow(2, 0, 2).fill_(true);
  const Tensor places = grid_places(3, 4, valid_sizes(valid)).view({3, 4, 2});
  EXPECT_TRUE(places[1][0].equal(at::tensor({0.75f, 0.25f})));
  EXPECT_TRUE(valid_sizes(valid).equal(at::tensor({2.f, 2.f}).view({1, 2})));
  // 37 x 50 pixels at a stride of 16: cells lie where their pixels do, the last one's middle is
  // cut.
  const Tensor cut = grid_places(3, 4, at::tensor({37.f / 16, 50.f / 16}).view({1, 2}));
  const Tensor pixels = cut.view({3, 4, 2}) * at::tensor({37.f, 50.f});
  EXPECT_TRUE(pixels[1][2].allclose(at::tensor({24.f, 40.f})));
  EXPECT_TRUE(pixels[2][3].allclose(at::tensor({37.f, 50.f})));
}

}  // namespace
}  // namespace attnlab::boxes_test
