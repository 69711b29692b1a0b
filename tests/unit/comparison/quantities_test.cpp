// Numbers of metrics, letter by letter.
#include "framework/comparison/quantities.h"

#include "tests/support/compositions.h"

namespace attnlab::quantities_test {
namespace {

using namespace testing;

const MetricInfo kAccuracy{"accuracy", Better::higher, "share"};
const MetricInfo kNll{"nll", Better::lower, "nats"};
const MetricInfo kMemory{"peak_memory", Better::lower, "bytes"};
const MetricInfo kFlops{"flops", Better::lower, "flop"};
const MetricInfo kSpeed{"examples_per_second", Better::higher, ""};
const MetricInfo kCorrect{"outcome/correct", Better::higher, "share of runs"};
const MetricInfo kDepth{"outcome/depth", Better::higher, "share of runs"};

TEST(Quantities, WriteMetricsAsTheyAreRead) {
  EXPECT_EQ(metric_heading(kAccuracy), "accuracy (%)");
  EXPECT_EQ(metric_heading(kNll), "nll (nats)");
  EXPECT_EQ(metric_heading(kMemory), "peak_memory (MB)");
  EXPECT_EQ(plain(quantity_of(kMemory, 412.3e6)), "412");
  EXPECT_EQ(plain(quantity_of(kMemory, 1.53e9)), "1530");
  EXPECT_EQ(metric_heading(kFlops), "flops (M)");
  EXPECT_EQ(plain(quantity_of(kFlops, 681856)), "0.682");
  EXPECT_EQ(plain(quantity_of(kAccuracy, 0.85494)), "85.49");
  EXPECT_EQ(plain(quantity_of(kNll, 0.47253)), "0.473");
  EXPECT_EQ(plain(quantity_of(kSpeed, 2260.4)), "2260");
  EXPECT_EQ(plain(quantity_of(kAccuracy, Summary{3, 0.8549, 0.002})), "85.49 ± 0.20");
  EXPECT_EQ(plain(quantity_of(kAccuracy, Summary{1, 0.8549, 0})), "85.49")
      << "one seed has no spread";
  EXPECT_EQ(interval_text(kNll, {0.1, 0.25}, 0.2), "[0.100, 0.250]");
  EXPECT_EQ(plain(difference_of(kAccuracy, 0.0052, 0.8)), "+0.52");
  EXPECT_EQ(plain(difference_of(kNll, -0.013, 0.4)), "-0.013");
}

// What is printed beside a mean must be seen in it: "123 ± 0" hides a deviation of 0.2.
TEST(Quantities, ShowTwoDigitsOfANumberAndOfItsSpread) {
  EXPECT_EQ(plain(quantity_of(kNll, 0.000123)), "0.00012");
  EXPECT_EQ(plain(quantity_of(kNll, 0)), "0.000");
  EXPECT_EQ(plain(quantity_of(kNll, Summary{3, 123.4, 0.2})), "123.40 ± 0.20");
  EXPECT_EQ(plain(quantity_of(kNll, Summary{3, 0.4725, 0.00042})), "0.47250 ± 0.00042");
  EXPECT_EQ(plain(quantity_of(kMemory, Summary{3, 1.53e9, 7e6})), "1530.0 ± 7.0");
  EXPECT_EQ(plain(quantity_of(kNll, Summary{3, 123.4, 1e-9})), "123 ± 0")
      << "rounding is not a spread";
  EXPECT_EQ(plain(quantity_of(kNll, Summary{3, 1e-17, 1.3e-17})), "0.000 ± 0.000");
  EXPECT_EQ(interval_text(kNll, {123.2, 123.6}, 123.4), "[123.20, 123.60]");
  EXPECT_EQ(plain(difference_of(kNll, 30.2, 123.4, Interval{30, 30.4})), "+30.20 [30.00, 30.40]");
  EXPECT_EQ(plain(difference_of(kNll, -0.00042, 0.4)), "-0.00042");
}

// One in four is anything between 5 and 70 %: a deviation of 0.5 would say nothing.
TEST(Quantities, WriteSharesOfRunsWithWilsonsInterval) {
  const Summary one_in_four = summary_of({1, 0, 0, 0});
  EXPECT_EQ(metric_heading(kCorrect), "outcome/correct (%)");
  EXPECT_EQ(plain(quantity_of(kCorrect, one_in_four)), "25.00 [4.56, 69.94]");
  EXPECT_EQ(plain(quantity_of(kCorrect, summary_of({0, 0}))), "0.00 [0.00, 65.76]");
  EXPECT_NEAR(interval_of(kCorrect, one_in_four)->high, 0.69935815741760, 1e-12);
  EXPECT_NEAR(interval_of(kNll, summary_of({-1, 1}))->high, 12.7062, 1e-4) << "Student's";
  EXPECT_EQ(plain(quantity_of(kDepth, summary_of({3, 5}))), "400.00 ± 141.42") << "no share";
  // A share that rounding moved past one is one.
  EXPECT_EQ(interval_of(kCorrect, {3, 1.0000000000000002, 0})->high, 1);
}

TEST(Quantities, ShowPercentsAsTheyAreAndWhatIsNotKnownAsAPlainNumber) {
  const MetricInfo ap{"ap50", Better::higher, "percent"}, old{"accuracy", Better::neither, ""};
  EXPECT_EQ(metric_heading(ap), "ap50 (%)");
  EXPECT_EQ(plain(quantity_of(ap, 41.234)), "41.23");
  EXPECT_EQ(difference_heading(ap), "difference (points)");
  EXPECT_EQ(difference_heading(kNll), "difference (nats)");
  EXPECT_EQ(metric_heading(old), "accuracy");
  EXPECT_EQ(plain(quantity_of(old, 0.85494)), "0.855");
  EXPECT_EQ(difference_heading(old), "difference");
}

TEST(Quantities, WriteProbabilitiesWithoutFalseZeros) {
  EXPECT_EQ(p_text(0.0625), "0.0625");
  EXPECT_EQ(p_text(1), "1");
  EXPECT_EQ(p_text(0.00012), "0.00012");
  EXPECT_EQ(p_text(1e-9), "< 0.0001");
}

}  // namespace
}  // namespace attnlab::quantities_test
