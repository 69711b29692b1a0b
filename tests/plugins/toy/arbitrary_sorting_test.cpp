// Letters ranked by an order that stands beside them.
#include <algorithm>
#include <set>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::arbitrary_sorting_test {
namespace {

using attnlab::testing::mentions;
using testing::make_dataset;
using testing::message_of;
using Numbers = std::vector<std::int64_t>;

Numbers numbers(const Dataset& data, const char* field, std::int64_t index,
                Split split = Split::train) {
  const Tensor values = data.example(split, index, nullptr).at(field).to(at::kLong).contiguous();
  return {values.data_ptr<std::int64_t>(), values.data_ptr<std::int64_t>() + values.numel()};
}

/// The places of a content's letters in the order beside it.
Numbers places(const Numbers& content, const Numbers& order) {
  Numbers out;
  for (const std::int64_t letter : content) {
    out.push_back(std::find(order.begin(), order.end(), letter) - order.begin());
  }
  return out;
}

TEST(ArbitrarySorting, TargetsSortTheContentStably) {
  const auto data = make_dataset("arbitrary_sorting");
  EXPECT_EQ(data->info().classes, 10);
  EXPECT_EQ(data->info().vocabulary, 10);
  EXPECT_EQ(data->size(Split::train), 1000);
  EXPECT_EQ(data->size(Split::test), 200);
  bool repeated = false;
  for (std::int64_t i = 0; i < 200; ++i) {
    const Numbers found = numbers(*data, "targets", i);
    const Numbers place = places(numbers(*data, "content", i), numbers(*data, "condition", i));
    std::vector<std::size_t> order(10);
    for (std::size_t k = 0; k < 10; ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return place[a] < place[b]; });
    for (std::size_t rank = 0; rank < 10; ++rank) EXPECT_EQ(found[order[rank]], rank) << i;
    repeated = repeated || std::set<std::int64_t>(place.begin(), place.end()).size() < 10;
  }
  EXPECT_TRUE(repeated) << "letters are drawn with replacement";
}

TEST(ArbitrarySorting, GivesEqualLettersOneRankWhereAsked) {
  const auto data = make_dataset("arbitrary_sorting", "{ties: shared}");
  for (std::int64_t i = 0; i < 100; ++i) {
    const Numbers found = numbers(*data, "targets", i);
    const Numbers place = places(numbers(*data, "content", i), numbers(*data, "condition", i));
    for (std::size_t k = 0; k < 10; ++k) {
      EXPECT_EQ(found[k], std::count_if(place.begin(), place.end(),
                                        [&](std::int64_t other) { return other < place[k]; }));
    }
  }
}

TEST(ArbitrarySorting, TrainsAndTestsOnOnePoolOfOrders) {
  const auto orders = [](const Dataset& data) {
    std::set<Numbers> all;
    for (std::int64_t i = 0; i < 200; ++i) {
      for (const Split split : {Split::train, Split::test}) {
        Numbers order = numbers(data, "condition", i, split);
        all.insert(order);
        std::sort(order.begin(), order.end());
        for (std::int64_t k = 0; k < 10; ++k) EXPECT_EQ(order[std::size_t(k)], k);
      }
    }
    return all.size();
  };
  EXPECT_EQ(orders(*make_dataset("arbitrary_sorting")), 5U);
  EXPECT_EQ(orders(*make_dataset("arbitrary_sorting", "{orderings: 2}")), 2U);
  EXPECT_GT(orders(*make_dataset("arbitrary_sorting", "{orderings: 0}")), 390U);
}

TEST(ArbitrarySorting, PadsTheOrderToTheContent) {
  const auto data = make_dataset("arbitrary_sorting", "{letters: 4, length: 7}");
  EXPECT_EQ(data->info().vocabulary, 5);
  EXPECT_EQ(numbers(*data, "condition_valid", 0), (Numbers{1, 1, 1, 1, 0, 0, 0}));
  const Numbers condition = numbers(*data, "condition", 0);
  EXPECT_EQ(Numbers(condition.begin() + 4, condition.end()), (Numbers{4, 4, 4}));
  const Numbers content = numbers(*data, "content", 0);
  EXPECT_LT(*std::max_element(content.begin(), content.end()), 4);
  EXPECT_THAT(message_of<ConfigError>([] { make_dataset("arbitrary_sorting", "{length: 9}"); }),
              mentions("length:", "9", "10 letters"));
}

}  // namespace
}  // namespace attnlab::arbitrary_sorting_test
