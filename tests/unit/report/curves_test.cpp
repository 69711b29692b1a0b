// Curves of made-up metrics.jsonl against means worked out by hand.
#include "framework/report/curves.h"

#include <cmath>

#include "tests/support/compositions.h"

namespace attnlab::curves_test {
namespace {

using namespace testing;
using ::testing::DoubleNear;

class CurvesTest : public ::testing::Test {
 protected:
  /// A run's record with its metrics.jsonl.
  void add_run(const std::string& attention, std::int64_t seed, const std::string& lines) {
    RunRecord run;
    run.experiment = "vit";
    run.attention = attention;
    run.seed = seed;
    run.folder = temp_ / (attention + std::to_string(seed));
    temp_.write(attention + std::to_string(seed) + "/metrics.jsonl", lines);
    runs_.push_back(std::move(run));
  }
  static std::string loss(double step, double value) {
    return R"({"split":"train","step":)" + std::to_string(static_cast<int>(step)) + R"(,"loss":)" +
           std::to_string(value) + R"(,"epoch":1})" + "\n";
  }
  static const Curve& only(const std::vector<Curve>& curves, const std::string& metric) {
    const Curve* found = nullptr;
    for (const Curve& curve : curves) {
      if (curve.metric != metric) continue;
      EXPECT_EQ(found, nullptr) << "two curves of " << metric;
      found = &curve;
    }
    if (found == nullptr) throw std::runtime_error("no curve of " + metric);
    return *found;
  }

  std::vector<Curve> curves(const CurveBudget& budget = {}) const {
    RunCollection collection;
    collection.runs = runs_;
    return curves_of(runs_, slices_of(collection).all, budget);
  }

  TempFolder temp_;
  std::vector<RunRecord> runs_;
};

TEST_F(CurvesTest, AreMeansAndDeviationsOverSeedsAtEachStep) {
  add_run("quest", 0, loss(1, 4) + loss(2, 2));
  add_run("quest", 1, loss(1, 8) + loss(2, 3));
  const std::vector<Curve> found = curves();
  ASSERT_EQ(found.size(), 1U) << "step, split and epoch are not curves";
  EXPECT_THAT(found[0].steps, ElementsAre(1, 2));
  EXPECT_THAT(found[0].mean, ElementsAre(DoubleNear(6, 1e-12), DoubleNear(2.5, 1e-12)));
  EXPECT_THAT(found[0].deviation,
              ElementsAre(DoubleNear(std::sqrt(8.0), 1e-12), DoubleNear(std::sqrt(0.5), 1e-12)));
  EXPECT_THAT(found[0].seeds, ElementsAre(2, 2));
  EXPECT_EQ(found[0].split, "train");
}

TEST_F(CurvesTest, CountTheSeedsThatAreThere) {
  add_run("quest", 0, loss(1, 4) + loss(2, 2));
  add_run("quest", 1, loss(1, 8));
  EXPECT_THAT(curves()[0].seeds, ElementsAre(2, 1));
  EXPECT_THAT(curves()[0].mean, ElementsAre(6, 2));
}

TEST_F(CurvesTest, KeepAttentionsAndLayersApart) {
  add_run("quest", 0,
          R"({"split":"trace","step":1,"layer":10,"entropy":2})"
          "\n"
          R"({"split":"trace","step":1,"layer":9,"entropy":1})"
          "\n"
          R"({"split":"trace","step":1,"layer":9,"call":1,"entropy":3})"
          "\n");
  add_run("standard", 0, R"({"split":"trace","step":1,"layer":9,"entropy":7})");
  std::vector<std::string> seen;
  for (const Curve& curve : curves()) {
    seen.push_back(curve.attention + " " + curve.layer + " " +
                   std::to_string(static_cast<int>(curve.mean.at(0))));
  }
  EXPECT_THAT(seen, ElementsAre("quest 9 1", "quest 9 call 1 3", "quest 10 2", "standard 9 7"));
}

TEST_F(CurvesTest, LeaveOutWhatIsCutOffOrNoNumber) {
  add_run("quest", 0,
          loss(1, 4) + R"({"split":"train","step":2,"loss":null})" + "\n[1]\n\n" + loss(3, 2) +
              R"({"split":"train","step":4,"lo)");
  EXPECT_THAT(curves()[0].steps, ElementsAre(1, 3));
  add_run("standard", 0, "");
  runs_.back().folder += "-gone";
  EXPECT_EQ(curves().size(), 1U);
}

TEST_F(CurvesTest, ThinLongRunsWithoutChangingTheirMean) {
  std::string lines;
  double sum = 0;
  for (int step = 1; step <= 1000; ++step) {
    const double value = std::sin(step * 0.7) + step % 13;
    sum += value;
    lines += loss(step, value);
  }
  add_run("quest", 0, lines);
  const Curve curve = only(curves({.most_points = 50, .most_values = 100000}), "loss");
  ASSERT_EQ(curve.steps.size(), 50U);
  double mean = 0;
  for (std::size_t i = 0; i < curve.mean.size(); ++i) {
    mean += curve.mean[i] / 50;  // 20 steps in each bucket
    EXPECT_NEAR(curve.steps[i], 20.0 * static_cast<double>(i) + 10.5, 1e-9);
  }
  EXPECT_NEAR(mean, sum / 1000, 1e-5) << "lines have six decimals";
}

TEST_F(CurvesTest, ShareOneBudget) {
  std::string lines;
  for (int step = 1; step <= 200; ++step) lines += loss(step, 1);
  for (int i = 0; i < 10; ++i) add_run("attention" + std::to_string(i), 0, lines);
  const CurveBudget budget{.most_points = 100, .most_values = 400, .fewest_points = 5};
  const std::vector<Curve> found = curves(budget);
  ASSERT_EQ(found.size(), 10U);
  for (const Curve& curve : found) EXPECT_EQ(curve.steps.size(), 40U);
}

}  // namespace
}  // namespace attnlab::curves_test
