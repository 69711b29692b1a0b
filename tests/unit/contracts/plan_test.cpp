// The default plan of an epoch.
#include <algorithm>
#include <set>

#include "framework/contracts/dataset.h"
#include "tests/support/data_files.h"

namespace attnlab::plan_test {
namespace {

using attnlab::testing::mentions;
using testing::message_of;
using Numbers = std::vector<std::int64_t>;

/// Example i costs i % 7 + 1.
class Sets final : public Dataset {
 public:
  explicit Sets(std::int64_t size) : size_(size) {}
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return size_; }
  NamedTensors make_example(Split, std::int64_t, Random*) const override { return {}; }
  std::int64_t cost(Split, std::int64_t index) const override { return index % 7 + 1; }

 private:
  std::int64_t size_;
  DatasetInfo info_;
};

std::vector<Numbers> batches_of(const EpochPlan& plan) {
  std::vector<Numbers> batches;
  std::int64_t begin = 0;
  for (const std::int64_t end : plan.ends) {
    batches.emplace_back(plan.order.begin() + begin, plan.order.begin() + end);
    begin = end;
  }
  return batches;
}

Numbers in_order(std::int64_t n) {
  Numbers all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::int64_t cost_of(const Numbers& batch) {
  std::int64_t sum = 0;
  for (const std::int64_t index : batch) sum += index % 7 + 1;
  return sum;
}

PlanRequest training(std::int64_t batch_size, std::uint64_t epoch = 0) {
  return {.training = true, .batch_size = batch_size, .epoch = epoch, .streams = RandomStreams(3)};
}

TEST(DefaultPlan, IsEachExampleOnceInOrderInEvaluation) {
  const EpochPlan plan = Sets(10).plan({.split = Split::test, .batch_size = 4});
  EXPECT_EQ(plan.order, in_order(10));
  EXPECT_EQ(plan.ends, (Numbers{4, 8, 10}));
  EXPECT_FALSE(plan.continues);
}

TEST(DefaultPlan, LeavesNothingOutOfEvaluation) {
  const EpochPlan plan = Sets(10).plan({.batch_size = 4, .drop_last = true, .repeat = 3});
  EXPECT_EQ(plan.order, in_order(10));
  EXPECT_EQ(plan.ends.back(), 10);
}

// The order in which every recorded run saw its examples.
TEST(DefaultPlan, IsTheEpochsPermutationInTraining) {
  for (const std::uint64_t epoch : {0, 1, 7}) {
    const EpochPlan plan = Sets(10).plan(training(4, epoch));
    EXPECT_EQ(plan.order, permutation(10, RandomStreams(3).stream("order", epoch)));
    EXPECT_EQ(plan.ends, (Numbers{4, 8, 10}));
  }
}

TEST(DefaultPlan, LeavesOutTheLastBatchWhereAskedTo) {
  PlanRequest request = training(4);
  request.drop_last = true;
  EXPECT_EQ(Sets(10).plan(request).ends, (Numbers{4, 8}));
  EXPECT_EQ(Sets(8).plan(request).ends, (Numbers{4, 8}));
  EXPECT_EQ(Sets(3).plan(request).batches(), 0);
}

TEST(DefaultPlan, HoldsEachExampleAsOftenAsAsked) {
  PlanRequest request = training(4);
  request.repeat = 3;
  const EpochPlan plan = Sets(10).plan(request);
  Numbers expected;
  for (std::int64_t i = 0; i < 10; ++i) expected.insert(expected.end(), 3, i);
  EXPECT_EQ(sorted(plan.order), expected);
  EXPECT_EQ(plan.batches(), 8);
  EXPECT_EQ(plan.ends.back(), 30);
  // Repeated augmentation is of copies that meet in a batch: they follow each other, in the order
  // that the epoch has without copies.
  const Numbers once = permutation(10, RandomStreams(3).stream("order", 0));
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(plan.order[i], once[i / 3]) << i;
  request.drop_last = true;
  EXPECT_EQ(Sets(10).plan(request).batches(), 7);
}

TEST(DefaultPlan, FillsBatchesUpToABudget) {
  PlanRequest request = training(1);
  request.budget = 20;
  for (request.epoch = 0; request.epoch < 4; ++request.epoch) {
    const EpochPlan plan = Sets(100).plan(request);
    EXPECT_EQ(sorted(plan.order), in_order(100));
    for (const Numbers& batch : batches_of(plan)) {
      EXPECT_LE(cost_of(batch), 20);
      EXPECT_FALSE(batch.empty());
    }
  }
  request.repeat = 2;
  EXPECT_EQ(Sets(100).plan(request).order.size(), 200U);
}

// Each full batch could not have held the next example: a cheaper plan is not thrown away.
TEST(DefaultPlan, BeginsABatchOnlyWhereTheOneBeforeIsFull) {
  PlanRequest request{.split = Split::test, .budget = 20};
  const std::vector<Numbers> batches = batches_of(Sets(100).plan(request));
  for (std::size_t i = 0; i + 1 < batches.size(); ++i) {
    EXPECT_GT(cost_of(batches[i]) + cost_of({batches[i + 1].front()}), 20);
  }
}

TEST(DefaultPlan, KeepsTheBatchesOfABudgetAndChangesTheirOrder) {
  PlanRequest request = training(1);
  request.budget = 20;
  const std::vector<Numbers> first = batches_of(Sets(100).plan(request));
  request.epoch = 1;
  const std::vector<Numbers> second = batches_of(Sets(100).plan(request));
  EXPECT_NE(first, second);
  EXPECT_EQ(std::multiset<Numbers>(first.begin(), first.end()),
            std::multiset<Numbers>(second.begin(), second.end()));
}

TEST(DefaultPlan, RefusesAnExampleThatTheBudgetCannotHold) {
  PlanRequest request = training(1);
  request.budget = 6;
  EXPECT_THAT(message_of<DataError>([&] { Sets(10).plan(request); }),
              mentions("example 6", "train split", "costs 7", "train.batching.budget (6)"));
}

TEST(DefaultPlan, IsAFunctionOfTheRequest) {
  for (const std::int64_t budget : {0, 30}) {
    PlanRequest request = training(4, 2);
    request.budget = budget;
    const EpochPlan a = Sets(50).plan(request), b = Sets(50).plan(request);
    EXPECT_EQ(a.order, b.order);
    EXPECT_EQ(a.ends, b.ends);
    request.streams = RandomStreams(4);
    EXPECT_NE(Sets(50).plan(request).order, a.order);
  }
}

TEST(DefaultPlan, OfAnEmptySplitHasNoBatches) {
  EXPECT_EQ(Sets(0).plan({.batch_size = 4}).batches(), 0);
  EXPECT_EQ(Sets(0).plan({.budget = 4}).batches(), 0);
  EXPECT_EQ(Sets(0).plan(training(4)).batches(), 0);
}

}  // namespace
}  // namespace attnlab::plan_test
