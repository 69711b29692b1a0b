// Maps of a layer's input, alone and for several members.
#include "framework/nn/attention/source_map.h"

#include <gtest/gtest.h>

#include <c10/core/GradMode.h>

#include "tests/support/naive_attention.h"

namespace attnlab::source_map_test {
namespace {

using testing::largest_difference;

constexpr std::int64_t kMembers = 3, kHeads = 2, kWidth = 5, kChannels = 4;

AttentionShape shape_of(std::int64_t members) {
  AttentionShape shape;
  shape.heads = members * kHeads;
  shape.members = members;
  return shape;
}

/// Gives each of an ensemble's parameters its own rows from the members' modules.
template <class Module>
void take_over(const Module& together, const std::vector<std::shared_ptr<Module>>& singles) {
  const at::NoGradGuard no_gradients;
  for (const auto& item : together.named_parameters()) {
    std::vector<Tensor> rows;
    for (const auto& single : singles) rows.push_back(single->named_parameters()[item.key()]);
    Tensor(item.value()).copy_(at::cat(rows));
  }
}

TEST(SourceMap, IsALinearMapToEachHead) {
  at::manual_seed(1);
  const SourceMap map(kWidth, kChannels, shape_of(1), 1.5);
  const auto parameters = map.named_parameters();
  EXPECT_TRUE(parameters["map.bias"].eq(1.5).all().item<bool>());
  const Tensor x = at::randn({2, 7, kWidth});
  const Tensor y = at::matmul(x, parameters["map.weight"].t()) + 1.5;
  const Tensor found = map.forward(x);
  ASSERT_EQ(found.sizes(), at::IntArrayRef({2, kHeads, 7, kChannels}));
  for (std::int64_t h = 0; h < kHeads; ++h) {
    EXPECT_LT(largest_difference(found.select(1, h), y.narrow(2, h * kChannels, kChannels)), 1e-6);
  }
  EXPECT_FALSE(SourceMap(kWidth, 1, shape_of(1), 0, false).named_parameters().contains("map.bias"));
}

TEST(SourceMap, MembersSideBySideAreEachAlone) {
  at::manual_seed(2);
  std::vector<std::shared_ptr<SourceMap>> singles;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    singles.push_back(std::make_shared<SourceMap>(kWidth, kChannels, shape_of(1), double(m)));
  }
  const SourceMap together(kWidth, kChannels, shape_of(kMembers));
  take_over(together, singles);
  const Tensor x = at::randn({kMembers * 2, 7, kWidth});
  const Tensor found = together.forward(x);
  ASSERT_EQ(found.sizes(), at::IntArrayRef({2, kMembers * kHeads, 7, kChannels}));
  for (std::int64_t m = 0; m < kMembers; ++m) {
    const Tensor alone = singles[static_cast<std::size_t>(m)]->forward(x.narrow(0, m * 2, 2));
    EXPECT_LT(largest_difference(found.narrow(1, m * kHeads, kHeads), alone), 1e-6);
  }
}

TEST(HeadRmsNorm, DividesByTheRootOfTheMeanSquare) {
  at::manual_seed(3);
  HeadRmsNorm norm(kChannels, shape_of(1), 1e-3);
  const at::NoGradGuard no_gradients;
  norm.weight.copy_(at::tensor({1.0, 2.0, -1.0, 0.5}));
  const Tensor x = at::randn({2, kHeads, 3, kChannels}) * 5;
  const Tensor root = ((x * x).sum(-1, true) / kChannels + 1e-3).sqrt();
  EXPECT_LT(largest_difference(norm.forward(x), x / root * norm.weight), 1e-5);
}

TEST(HeadRmsNorm, MembersHaveFactorsOfTheirOwn) {
  at::manual_seed(4);
  std::vector<std::shared_ptr<HeadRmsNorm>> singles;
  const at::NoGradGuard no_gradients;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    singles.push_back(std::make_shared<HeadRmsNorm>(kChannels, shape_of(1)));
    singles.back()->weight.normal_();
  }
  const HeadRmsNorm together(kChannels, shape_of(kMembers));
  take_over(together, singles);
  const Tensor x = at::randn({2, kMembers * kHeads, 3, kChannels});
  const Tensor found = together.forward(x);
  for (std::int64_t m = 0; m < kMembers; ++m) {
    const Tensor part = x.narrow(1, m * kHeads, kHeads);
    EXPECT_LT(largest_difference(found.narrow(1, m * kHeads, kHeads),
                                 singles[static_cast<std::size_t>(m)]->forward(part)),
              1e-6);
  }
}

}  // namespace
}  // namespace attnlab::source_map_test
