// Friedman, the studentized range and Nemenyi against published values and enumeration.
#include "framework/comparison/ranks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "tests/support/compositions.h"

namespace attnlab::ranks_test {
namespace {

using namespace testing;
using ::testing::DoubleNear;
using ::testing::Pair;
using ::testing::Pointwise;
using Blocks = std::vector<std::vector<double>>;

/// Ranks of Demšar (2006), table 6: C4.5, with pruning parameter m, with cf, with both; 14 sets.
const Blocks kDemsar = {{4, 3, 2, 1}, {1, 2, 3, 4},         {4, 1, 2, 3},     {4, 1, 3, 2},
                        {4, 2, 3, 1}, {1, 2.5, 4, 2.5},     {3, 2, 4, 1},     {2.5, 2.5, 4, 1},
                        {4, 3, 2, 1}, {2.5, 2.5, 2.5, 2.5}, {4, 2.5, 1, 2.5}, {3, 2, 4, 1},
                        {4, 1, 2, 3}, {3, 1, 4, 2}};

/// Hollander and Wolfe (1973), p. 140: three ways to round first base, 22 players; the example of
/// R's ?friedman.test.
const Blocks kRounding = {
    {5.40, 5.50, 5.55}, {5.85, 5.70, 5.75}, {5.20, 5.60, 5.50}, {5.55, 5.50, 5.40},
    {5.90, 5.85, 5.70}, {5.45, 5.55, 5.60}, {5.40, 5.40, 5.35}, {5.45, 5.50, 5.35},
    {5.25, 5.15, 5.00}, {5.85, 5.80, 5.70}, {5.25, 5.20, 5.10}, {5.65, 5.55, 5.45},
    {5.60, 5.35, 5.45}, {5.05, 5.00, 4.95}, {5.50, 5.50, 5.40}, {5.45, 5.55, 5.50},
    {5.55, 5.55, 5.35}, {5.45, 5.50, 5.55}, {5.50, 5.45, 5.25}, {5.65, 5.60, 5.40},
    {5.70, 5.65, 5.55}, {6.30, 6.30, 6.25}};

TEST(Friedman, AgreesWithRsExample) {
  // R: Friedman chi-squared = 11.143, df = 2, p-value = 0.003805.
  const FriedmanResult result = friedman(kRounding);
  EXPECT_NEAR(result.chi_squared, 11.143, 5e-4);
  EXPECT_NEAR(result.chi_squared_p, 0.003805, 5e-7);
}

TEST(Friedman, AgreesWithDemsarsExample) {
  const FriedmanResult result = friedman(kDemsar);
  EXPECT_THAT(result.mean_ranks, Pointwise(DoubleNear(5e-4), {3.143, 2.000, 2.893, 1.964}));
  // The paper's 9.28 and F = 3.69 are without the correction for ties, 1 - 78 / (14 x 60).
  const double plain = result.chi_squared * (1 - 78.0 / 840);
  EXPECT_NEAR(plain, 9.28, 5e-3);
  EXPECT_NEAR(13 * plain / (14 * 3 - plain), 3.69, 5e-3);
  EXPECT_NEAR(result.f, 13 * result.chi_squared / (14 * 3 - result.chi_squared), 1e-12);
}

TEST(Friedman, IsExactForFewBlocks) {
  // Tables of Friedman's statistic (Hollander and Wolfe, A.15): k = 3: P(6; n = 3) = 0.028,
  // P(14/3; n = 3) = 0.194, P(8; n = 4) = 0.0046.
  const FriedmanResult agree = friedman({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}});
  EXPECT_NEAR(agree.chi_squared, 6, 1e-12);
  EXPECT_NEAR(agree.exact_p.value(), 1.0 / 36, 1e-12);
  EXPECT_EQ(agree.f_p, 0) << "where all blocks agree F is infinite; p_value() is the exact one";
  EXPECT_EQ(agree.p_value(), agree.exact_p.value());
  const FriedmanResult less = friedman({{1, 2, 3}, {1, 2, 3}, {1, 3, 2}});
  EXPECT_NEAR(less.chi_squared, 14.0 / 3, 1e-12);
  EXPECT_NEAR(less.exact_p.value(), 7.0 / 36, 1e-12);
  EXPECT_NEAR(friedman({{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}}).exact_p.value(), 1.0 / 216,
              1e-12);
}

/// The exact p-value by trying every order within every block.
double counted_p(const Blocks& ranks) {
  const auto spread = [](const Blocks& blocks) {
    double total = 0;
    for (std::size_t j = 0; j < blocks[0].size(); ++j) {
      double sum = 0;
      for (const auto& block : blocks) sum += block[j];
      total += sum * sum;
    }
    return total;
  };
  const double observed = spread(ranks);
  double all = 0, as_far = 0;
  Blocks tried = ranks;
  const std::function<void(std::size_t)> place = [&](std::size_t b) {
    if (b == tried.size()) {
      all += 1;
      as_far += spread(tried) >= observed - 1e-9 ? 1 : 0;
      return;
    }
    std::vector<std::size_t> order(tried[b].size());
    for (std::size_t j = 0; j < order.size(); ++j) order[j] = j;
    do {
      for (std::size_t j = 0; j < order.size(); ++j) tried[b][j] = ranks[b][order[j]];
      place(b + 1);
    } while (std::next_permutation(order.begin(), order.end()));
  };
  place(0);
  return as_far / all;
}

TEST(Friedman, IsExactWithTies) {
  for (const Blocks& ranks : {Blocks{{1.5, 1.5, 3}, {1, 2, 3}, {2, 2, 2}, {1, 3, 2}},
                              Blocks{{1, 2.5, 2.5, 4}, {2, 1, 3.5, 3.5}, {1, 2, 3, 4}}}) {
    EXPECT_NEAR(friedman(ranks).exact_p.value(), counted_p(ranks), 1e-12);
  }
}

TEST(Friedman, OfTiesAloneShowsNothing) {
  const FriedmanResult result = friedman({{1, 1, 1}, {2, 2, 2}});
  EXPECT_EQ(result.chi_squared, 0);
  EXPECT_EQ(result.chi_squared_p, 1);
  EXPECT_EQ(result.p_value(), 1);
}

TEST(Friedman, FallsBackWhereThereAreTooManyOrders) {
  const Blocks seven(3, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_FALSE(friedman(seven).exact_p.has_value());
  EXPECT_NE(message_of<Error>([] { friedman({{1, 2}}); }), "");
  EXPECT_NE(message_of<Error>([] { friedman({{1, 2}, {1, 2, 3}}); }), "");
}

TEST(StudentizedRange, AgreesWithPublishedTables) {
  // Demšar (2006), table 5(a): q over sqrt(2), two-sided Nemenyi, k = 2 to 10.
  const double five[] = {1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164};
  const double ten[] = {1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920};
  for (std::int64_t k = 2; k <= 10; ++k) {
    const auto i = static_cast<std::size_t>(k - 2);
    // The paper truncates rather than rounds in some places.
    EXPECT_NEAR(studentized_range_quantile(0.95, k) / std::sqrt(2.0), five[i], 1.01e-3) << k;
    EXPECT_NEAR(studentized_range_quantile(0.90, k) / std::sqrt(2.0), ten[i], 1.01e-3) << k;
  }
  // Tables of the studentized range, infinitely many degrees of freedom (Harter 1960).
  EXPECT_NEAR(studentized_range_quantile(0.95, 3), 3.314, 5e-4);
  EXPECT_NEAR(studentized_range_quantile(0.95, 20), 5.012, 1e-3);
  EXPECT_NEAR(studentized_range_quantile(0.99, 5), 4.603, 5e-4);
}

TEST(StudentizedRange, OfTwoIsANormalDifference) {
  for (const double q : {0.1, 1.0, 3.0, 6.0}) {
    EXPECT_NEAR(studentized_range_cdf(q, 2), std::erf(q / 2), 1e-10) << q;
  }
  EXPECT_EQ(studentized_range_cdf(0, 3), 0);
}

TEST(Nemenyi, CriticalDifferencesAreDemsars) {
  EXPECT_NEAR(nemenyi_difference(4, 14, 0.05), 1.25, 5e-3);
  EXPECT_NEAR(nemenyi_difference(4, 14, 0.10), 1.12, 5e-3);
}

TEST(Nemenyi, GroupsAreDemsarsFigure) {
  // At 0.10 C4.5 differs from m and from both; cf cannot be placed.
  const RankGroups groups = rank_groups({3.143, 2.000, 2.893, 1.964}, 1.12);
  EXPECT_THAT(groups.order, ElementsAre(3, 1, 2, 0));
  EXPECT_THAT(groups.groups, ElementsAre(Pair(0, 2), Pair(2, 3)));
  EXPECT_THAT(rank_groups({1, 3, 2}, 0.5).groups, IsEmpty());
}

TEST(Nemenyi, TheDiagramIsToScale) {
  const std::string diagram = rank_diagram({"standard", "quest", "qnorm"}, {2.8, 1.2, 2.0}, 1.0);
  std::vector<std::string> lines;
  std::istringstream text(diagram);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 8U) << diagram;
  EXPECT_EQ(lines[0].find('3') - lines[0].find('1'), 60U);
  EXPECT_EQ(lines[2].find('*'), 2U + 6) << "0.2 of 30 columns a rank";
  EXPECT_THAT(lines[2], EndsWith("1.20  quest"));
  EXPECT_THAT(lines[4], EndsWith("2.80  standard"));
  EXPECT_EQ(std::count(lines[5].begin(), lines[5].end(), '='), 25);
  EXPECT_THAT(lines[5], EndsWith("no significant difference: quest, qnorm"));
  EXPECT_THAT(lines[6], EndsWith("no significant difference: qnorm, standard"));
  EXPECT_EQ(std::count(lines[7].begin(), lines[7].end(), '~'), 31);
  EXPECT_THAT(lines[7], EndsWith("critical difference 1.00"));
}

}  // namespace
}  // namespace attnlab::ranks_test
