// A query somewhere in a reference.
#include <algorithm>
#include <map>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::sequence_retrieval_test {
namespace {

using ::testing::HasSubstr;
using testing::make_dataset;
using testing::message_of;
using Numbers = std::vector<std::int64_t>;

struct Example {
  Numbers query, content;
  std::int64_t place = 0;
};

Example example(const Dataset& data, std::int64_t index) {
  const NamedTensors one = data.example(Split::train, index, nullptr);
  const auto numbers = [](const Tensor& values) {
    const std::int64_t* first = values.data_ptr<std::int64_t>();
    return Numbers(first, first + values.numel());
  };
  return {numbers(one.at("condition").masked_select(one.at("condition_valid"))),
          numbers(one.at("content")), one.at("targets").item<std::int64_t>()};
}

/// Every place where the query begins.
Numbers places(const Example& one) {
  Numbers out;
  for (std::size_t i = 0; i + one.query.size() <= one.content.size(); ++i) {
    if (std::equal(one.query.begin(), one.query.end(), one.content.begin() + long(i))) {
      out.push_back(std::int64_t(i));
    }
  }
  return out;
}

TEST(SequenceRetrieval, HoldsTheQueryAtTheTargetAndNowhereElse) {
  for (const char* insert : {"overwrite", "lengthen"}) {
    const auto data = make_dataset("sequence_retrieval", std::string("{insert: ") + insert + "}");
    const bool longer = insert[0] == 'l';
    EXPECT_EQ(data->info().classes, longer ? 11 : 8);
    EXPECT_EQ(data->info().field("condition").shape, (Numbers{longer ? 13 : 10}));
    std::map<std::int64_t, int> counts;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const Example one = example(*data, i);
      EXPECT_EQ(one.query.size(), 3U);
      EXPECT_EQ(places(one), (Numbers{one.place})) << insert << " " << i;
      ++counts[one.place];
    }
    EXPECT_EQ(counts.size(), longer ? 11U : 8U);
    for (const auto& count : counts) {
      EXPECT_NEAR(count.second, longer ? 91 : 125, 45) << "places are drawn uniformly";
    }
  }
}

TEST(SequenceRetrieval, PadsTheQueryWithATokenOfItsOwn) {
  const auto data = make_dataset("sequence_retrieval");
  const NamedTensors one = data->example(Split::train, 0, nullptr);
  EXPECT_TRUE(one.at("condition").narrow(0, 3, 7).eq(10).all().item<bool>());
  EXPECT_LT(one.at("content").max().item<std::int64_t>(), 10);
  EXPECT_EQ(data->info().vocabulary, 11);
}

TEST(SequenceRetrieval, LeavesSecondOccurrencesWhereAsked) {
  const auto data =
      make_dataset("sequence_retrieval", "{unique: false, symbols: 3, query: 2, length: 9}");
  int twice = 0;
  for (std::int64_t i = 0; i < 300; ++i) twice += places(example(*data, i)).size() > 1;
  EXPECT_GT(twice, 100);
}

TEST(SequenceRetrieval, RefusesWhatCannotBeMade) {
  const auto message = [](const char* options) {
    return message_of<ConfigError>([&] { make_dataset("sequence_retrieval", options); });
  };
  EXPECT_THAT(message("{query: 11}"), HasSubstr("11 symbols do not fit into 10"));
  EXPECT_THAT(message("{symbols: 2, query: 1}"), HasSubstr("unique: "));
  EXPECT_NE(make_dataset("sequence_retrieval", "{symbols: 2, query: 1, unique: false}"), nullptr);
}

}  // namespace
}  // namespace attnlab::sequence_retrieval_test
