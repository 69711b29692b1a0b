// Nearest neighbours and their votes against loops in float64.
#include "framework/eval/neighbours.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/nn/kernels/unit.h"
#include "tests/support/message_of.h"

namespace attnlab::neighbours_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

/// Rows of the bank by falling cosine, equal ones in order.
std::vector<std::int64_t> order_of(const Tensor& query, const Tensor& bank) {
  const Tensor q = query.to(at::kDouble), x = bank.to(at::kDouble).contiguous();
  const auto channels = x.size(1);
  std::vector<double> similarity;
  for (std::int64_t j = 0; j < x.size(0); ++j) {
    double sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      sum += q[c].item<double>() * x.data_ptr<double>()[j * channels + c];
    }
    similarity.push_back(sum);
  }
  std::vector<std::int64_t> order(similarity.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return similarity[std::size_t(a)] > similarity[std::size_t(b)];
  });
  return order;
}

TEST(Nearest, AreThoseOfALoop) {
  at::manual_seed(1);
  const Tensor bank = unit(at::randn({300, 7}), 1e-12), queries = unit(at::randn({9, 7}), 1e-12);
  for (const std::int64_t k : {1, 20, 300}) {
    const Neighbours found = nearest(queries, bank, k);
    for (std::int64_t i = 0; i < 9; ++i) {
      const std::vector<std::int64_t> order = order_of(queries[i], bank);
      for (std::int64_t j = 0; j < k; ++j) {
        const auto own = found.index[i][j].item<std::int64_t>();
        ASSERT_EQ(own, order[std::size_t(j)]) << i << " " << j;
        ASSERT_NEAR(found.similarity[i][j].item<double>(),
                    (queries[i].to(at::kDouble) * bank[own].to(at::kDouble)).sum().item<double>(),
                    1e-6);
      }
    }
  }
}

/// Rows of a bank that is read in parts, most of them equally near.
TEST(Nearest, TakeEqualOnesInTheOrderOfTheBank) {
  const Tensor bank = at::zeros({20000, 2});
  bank.select(1, 1).fill_(1);
  for (const std::int64_t near : {5, 9000, 19999}) {
    bank[near][0] = 1;
    bank[near][1] = 0;
  }
  const Tensor query = at::tensor({1.f, 0.f}).view({1, 2});
  const Tensor index = nearest(query, bank, 6).index;
  EXPECT_TRUE(index.equal(at::tensor({5, 9000, 19999, 0, 1, 2}, at::kLong).view({1, 6}))) << index;
}

TEST(Nearest, RefuseMoreNeighboursThanThereAre) {
  EXPECT_THAT(message_of<ShapeError>([] {
                nearest(at::ones({1, 2}), at::ones({3, 2}), 4);
              }),
              HasSubstr("4 neighbours of queries [1, 2]"));
  EXPECT_THAT(message_of<ShapeError>([] {
                nearest(at::ones({1, 3}), at::ones({3, 2}), 1);
              }),
              HasSubstr("in a bank [3, 2]"));
}

TEST(Votes, AreSumsOfExponentialsByClass) {
  at::manual_seed(2);
  const Tensor bank = unit(at::randn({50, 4}), 1e-12), queries = unit(at::randn({6, 4}), 1e-12);
  const Tensor classes = at::randint(0, 3, {50}, at::kLong);
  const Neighbours found = nearest(queries, bank, 20);
  for (const std::int64_t k : {1, 10, 20}) {
    const Tensor votes = votes_of(found, classes, k, 0.07, 3);
    for (std::int64_t i = 0; i < 6; ++i) {
      const std::vector<std::int64_t> order = order_of(queries[i], bank);
      std::vector<double> expected(3, 0);
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t near = order[std::size_t(j)];
        double cosine = 0;
        for (std::int64_t c = 0; c < 4; ++c) {
          cosine += queries[i][c].item<double>() * bank[near][c].item<double>();
        }
        expected[std::size_t(classes[near].item<std::int64_t>())] += std::exp(cosine / 0.07);
      }
      for (std::int64_t c = 0; c < 3; ++c) {
        const double own = votes[i][c].item<double>(), right = expected[std::size_t(c)];
        EXPECT_NEAR(own, right, 1e-4 * (1 + right)) << k << " " << i << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace attnlab::neighbours_test
