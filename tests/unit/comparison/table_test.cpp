// Tables and numbers, letter by letter.
#include "framework/comparison/table.h"

#include "tests/support/compositions.h"

namespace attnlab::table_test {
namespace {

using namespace testing;

const MetricInfo kAccuracy{"accuracy", Better::higher, "share"};
const MetricInfo kNll{"nll", Better::lower, "nats"};
const MetricInfo kMemory{"peak_memory", Better::lower, "bytes"};
const MetricInfo kFlops{"flops", Better::lower, "flop"};
const MetricInfo kSpeed{"examples_per_second", Better::higher, ""};
const MetricInfo kCorrect{"outcome/correct", Better::higher, "share of runs"};
const MetricInfo kDepth{"outcome/depth", Better::higher, "share of runs"};

TEST(Tables, LineUpInATerminal) {
  const std::vector<std::vector<std::string>> rows = {{"who", "value"}, {"quest", "1 ± 2"}};
  EXPECT_EQ(table_text(rows, TableStyle::text),
            "who    value\n"
            "-----  -----\n"
            "quest  1 ± 2\n");
  EXPECT_EQ(table_text(rows),
            "| who   | value |\n"
            "|-------|-------|\n"
            "| quest | 1 ± 2 |\n");
  EXPECT_EQ(table_text({}), "");
}

TEST(Tables, KeepForeignNamesInTheirCells) {
  const std::string clear = "\x1b[2J", turned = "\xe2\x80\xae";
  for (const TableStyle style : {TableStyle::text, TableStyle::markdown}) {
    const std::string table = table_text({{"who"}, {"a\nb" + clear + turned}}, style);
    EXPECT_THAT(table, AllOf(HasSubstr("a b\\x1b[2J\\u202e"), Not(HasSubstr("\x1b"))));
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  }
}

TEST(Tables, WriteMetricsAsTheyAreRead) {
  EXPECT_EQ(metric_heading(kAccuracy), "accuracy (%)");
  EXPECT_EQ(metric_heading(kNll), "nll (nats)");
  EXPECT_EQ(metric_heading(kMemory), "peak_memory (MB)");
  EXPECT_EQ(value_text(kMemory, 412.3e6), "412");
  EXPECT_EQ(value_text(kMemory, 1.53e9), "1530");
  EXPECT_EQ(metric_heading(kFlops), "flops (M)");
  EXPECT_EQ(value_text(kFlops, 681856), "0.682");
  EXPECT_EQ(value_text(kAccuracy, 0.85494), "85.49");
  EXPECT_EQ(value_text(kNll, 0.47253), "0.473");
  EXPECT_EQ(value_text(kSpeed, 2260.4), "2260");
  EXPECT_EQ(summary_text(kAccuracy, {3, 0.8549, 0.002}), "85.49 ± 0.20");
  EXPECT_EQ(summary_text(kAccuracy, {1, 0.8549, 0}), "85.49") << "one seed has no spread";
  EXPECT_EQ(summary_text(kAccuracy, {}), "-");
  EXPECT_EQ(interval_text(kNll, {0.1, 0.25}, 0.2), "[0.100, 0.250]");
  EXPECT_EQ(difference_text(kAccuracy, 0.0052, 0.8), "+0.52");
  EXPECT_EQ(difference_text(kNll, -0.013, 0.4), "-0.013");
}

// What is printed beside a mean must be seen in it: "123 ± 0" hides a deviation of 0.2.
TEST(Tables, ShowTwoDigitsOfANumberAndOfItsSpread) {
  EXPECT_EQ(value_text(kNll, 0.000123), "0.00012");
  EXPECT_EQ(value_text(kNll, 0), "0.000");
  EXPECT_EQ(summary_text(kNll, {3, 123.4, 0.2}), "123.40 ± 0.20");
  EXPECT_EQ(summary_text(kNll, {3, 0.4725, 0.00042}), "0.47250 ± 0.00042");
  EXPECT_EQ(summary_text(kMemory, {3, 1.53e9, 7e6}), "1530.0 ± 7.0");
  EXPECT_EQ(summary_text(kNll, {3, 123.4, 1e-9}), "123 ± 0") << "rounding is no spread";
  EXPECT_EQ(summary_text(kNll, {3, 1e-17, 1.3e-17}), "0.000 ± 0.000");
  EXPECT_EQ(interval_text(kNll, {123.2, 123.6}, 123.4), "[123.20, 123.60]");
  EXPECT_EQ(difference_text(kNll, 30.2, 123.4, Interval{30, 30.4}), "+30.20") << "as the interval";
  EXPECT_EQ(difference_text(kNll, -0.00042, 0.4), "-0.00042");
}

TEST(Tables, ShowForeignTextInMarkdownAsItIs) {
  EXPECT_EQ(markdown_line("a|b <b>x</b> <!-- [t](u) [t][u] [t]: u"),
            "a\\|b \\<b>x\\</b> \\<!-- [t\\](u) [t\\][u] [t\\]: u");
  EXPECT_EQ(markdown_line("[t\\](u) a\\|b \\x1b"), "[t\\\\\\](u) a\\\\\\|b \\x1b");
  EXPECT_EQ(markdown_line("p < 0.05, [0.1, 0.2], a_b"), "p < 0.05, [0.1, 0.2], a_b");
  EXPECT_THAT(table_text({{"who"}, {"[t](u)"}}), HasSubstr("| [t\\](u) |"));
}

// One in four is anything between 5 and 70 %: a deviation of 0.5 would say nothing.
TEST(Tables, WriteSharesOfRunsWithWilsonsInterval) {
  const Summary one_in_four = summary_of({1, 0, 0, 0});
  EXPECT_EQ(metric_heading(kCorrect), "outcome/correct (%)");
  EXPECT_EQ(summary_text(kCorrect, one_in_four), "25.00 [4.56, 69.94]");
  EXPECT_EQ(summary_text(kCorrect, summary_of({0, 0})), "0.00 [0.00, 65.76]");
  EXPECT_EQ(summary_text(kCorrect, {}), "-");
  EXPECT_NEAR(interval_of(kCorrect, one_in_four)->high, 0.69935815741760, 1e-12);
  EXPECT_NEAR(interval_of(kNll, summary_of({-1, 1}))->high, 12.7062, 1e-4) << "Student's";
  EXPECT_EQ(summary_text(kDepth, summary_of({3, 5})), "400.00 ± 141.42") << "no share";
  // A share that rounding moved past one is one.
  EXPECT_EQ(interval_of(kCorrect, {3, 1.0000000000000002, 0})->high, 1);
}

TEST(Tables, ShowPercentsAsTheyAreAndWhatIsNotKnownAsAPlainNumber) {
  const MetricInfo ap{"ap50", Better::higher, "percent"}, old{"accuracy", Better::neither, ""};
  EXPECT_EQ(metric_heading(ap), "ap50 (%)");
  EXPECT_EQ(value_text(ap, 41.234), "41.23");
  EXPECT_EQ(difference_heading(ap), "difference (points)");
  EXPECT_EQ(difference_heading(kNll), "difference (nats)");
  EXPECT_EQ(metric_heading(old), "accuracy");
  EXPECT_EQ(value_text(old, 0.85494), "0.855");
  EXPECT_EQ(difference_heading(old), "difference");
}

TEST(Tables, WriteProbabilitiesWithoutFalseZeros) {
  EXPECT_EQ(p_text(0.0625), "0.0625");
  EXPECT_EQ(p_text(1), "1");
  EXPECT_EQ(p_text(0.00012), "0.00012");
  EXPECT_EQ(p_text(1e-9), "< 0.0001");
}

}  // namespace
}  // namespace attnlab::table_test
