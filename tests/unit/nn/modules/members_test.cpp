// Members' products and parameters against what each member computes alone.
#include "framework/nn/modules/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "framework/tensor/flop_counter.h"
#include "tests/support/data_files.h"
#include "tests/support/gradcheck.h"
#include "tests/support/naive_attention.h"

namespace attnlab::members_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::message_of;

constexpr std::int64_t kMembers = 3;

struct Case {
  std::int64_t batch, length, in, out;
};

/// Odd widths, one example, and a matrix beyond the own kernel's.
const std::vector<Case> kCases = {
    {4, 5, 20, 40}, {1, 1, 3, 2}, {2, 3, 33, 10}, {1, 70, 7, 1}, {2, 2, 160, 130}};

struct Leaves {
  Tensor x, weight, bias;

  Leaves(const Case& c, at::ScalarType dtype, bool biased = true) {
    const auto leaf = [&](at::IntArrayRef sizes) {
      return at::randn(sizes, at::TensorOptions().dtype(dtype)).requires_grad_();
    };
    x = leaf({kMembers * c.batch, c.length, c.in});
    weight = leaf({kMembers * c.out, c.in});
    if (biased) bias = leaf({kMembers * c.out});
  }

  std::vector<Tensor> all() const {
    return bias.defined() ? std::vector<Tensor>{x, weight, bias} : std::vector<Tensor>{x, weight};
  }
};

/// Each member's own map, by at::linear in float64.
Tensor one_by_one(const Leaves& of, MemberRows rows) {
  std::vector<Tensor> outputs;
  const auto xs = of.x.to(at::kDouble).chunk(kMembers);
  const auto weights = of.weight.to(at::kDouble).chunk(kMembers);
  for (std::size_t m = 0; m < xs.size(); ++m) {
    const std::int64_t count = rows.count == 0 ? weights[m].size(0) - rows.first : rows.count;
    const Tensor bias =
        of.bias.defined() ? of.bias.to(at::kDouble).chunk(kMembers)[m].narrow(0, rows.first, count)
                          : Tensor();
    outputs.push_back(at::linear(xs[m], weights[m].narrow(0, rows.first, count), bias));
  }
  return at::cat(outputs);
}

void expect_equal(const Leaves& of, MemberRows rows, double tolerance) {
  const Tensor y = member_linear(of.x, of.weight, of.bias, kMembers, rows);
  const Tensor expected = one_by_one(of, rows);
  ASSERT_EQ(y.sizes(), expected.sizes());
  EXPECT_EQ(y.scalar_type(), of.x.scalar_type());
  EXPECT_LT(largest_difference(y.to(at::kDouble), expected), tolerance);
  const Tensor probe = testing::probe_like(y);
  const auto found = torch::autograd::grad({(y * probe).sum()}, of.all());
  const auto wanted = torch::autograd::grad({(expected * probe).sum()}, of.all());
  for (std::size_t n = 0; n < found.size(); ++n) {
    EXPECT_LT(largest_difference(found[n].to(at::kDouble), wanted[n].to(at::kDouble)), tolerance)
        << "gradient " << n;
  }
  const at::NoGradGuard no_gradients;
  EXPECT_TRUE(member_linear(of.x, of.weight, of.bias, kMembers, rows).equal(y));
}

TEST(MemberLinear, IsEachMembersOwnMap) {
  at::manual_seed(1);
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::to_string(c.in) + " to " + std::to_string(c.out));
    for (const bool biased : {true, false}) {
      expect_equal(Leaves(c, at::kFloat, biased), {}, 1e-4);
      expect_equal(Leaves(c, at::kDouble, biased), {}, 1e-10);
    }
  }
}

TEST(MemberLinear, TakesSomeRowsOfEachMembersMatrix) {
  at::manual_seed(2);
  const Case packed{4, 5, 8, 24};
  for (const MemberRows rows : {MemberRows{0, 8}, MemberRows{8, 16}, MemberRows{16, 0}}) {
    SCOPED_TRACE(rows.first);
    expect_equal(Leaves(packed, at::kFloat), rows, 1e-4);
    expect_equal(Leaves(packed, at::kDouble), rows, 1e-10);
    expect_equal(Leaves(packed, at::kDouble, false), rows, 1e-10);
  }
}

TEST(MemberLinear, GivesPartsOfAPackedMatrixAtOnce) {
  at::manual_seed(5);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Leaves of({4, 5, 8, 24}, dtype);
    const double tolerance = dtype == at::kFloat ? 1e-4 : 1e-10;
    const auto parts = member_linears(of.x, of.weight, of.bias, kMembers, 3, {8, 2, 6});
    ASSERT_EQ(parts.size(), 3U);
    const MemberRows rows[] = {{3, 8}, {11, 2}, {13, 6}};
    Tensor found = at::zeros({}, at::kDouble), wanted = found;
    for (std::size_t n = 0; n < parts.size(); ++n) {
      const Tensor expected = one_by_one(of, rows[n]);
      EXPECT_LT(largest_difference(parts[n].to(at::kDouble), expected), tolerance) << n;
      found = found + (parts[n].to(at::kDouble) * testing::probe_like(expected)).sum() * (n + 1.0);
      wanted = wanted + (expected * testing::probe_like(expected)).sum() * (n + 1.0);
    }
    const auto gradients = torch::autograd::grad({found}, of.all());
    const auto expected = torch::autograd::grad({wanted}, of.all());
    for (std::size_t n = 0; n < gradients.size(); ++n) {
      EXPECT_LT(largest_difference(gradients[n], expected[n]), tolerance) << n;
    }
  }
  const Tensor x = at::randn({4, 8}), weight = at::randn({24, 8});
  const auto alone = member_linears(x, weight, {}, 1, 0, {8, 16});
  EXPECT_TRUE(at::cat(alone, -1).equal(at::linear(x, weight)));
}

/// The gradients of x, places, weight and bias, then the outputs, for a sum over all of them.
std::vector<Tensor> everything(const std::vector<Tensor>& parts, const Leaves& of,
                               const Tensor& places) {
  Tensor sum = at::zeros({}, at::kDouble);
  for (const Tensor& part : parts) {
    sum = sum + (part.to(at::kDouble) * testing::probe_like(part.to(at::kDouble))).sum();
  }
  std::vector<Tensor> leaves = of.all();
  leaves.push_back(places);
  std::vector<Tensor> all = torch::autograd::grad({sum}, leaves);
  all.insert(all.end(), parts.begin(), parts.end());
  return all;
}

TEST(PlacedLinears, AreTheMapsOfTheSum) {
  at::manual_seed(6);
  for (const std::int64_t members : {kMembers, std::int64_t{1}}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      for (const bool biased : {true, false}) {
        Leaves of({4, 5, 8, 24}, dtype, biased);
        if (members == 1) of.weight = of.weight.detach().narrow(0, 0, 24).requires_grad_();
        if (members == 1 && biased) of.bias = of.bias.detach().narrow(0, 0, 24).requires_grad_();
        const Tensor places = at::randn({members * 5, 8}, of.x.options()).requires_grad_();
        const std::vector<std::int64_t> widths = {8, 2, 6};
        const auto found = everything(
            placed_linears(of.x, places, of.weight, of.bias, members, 3, widths), of, places);
        const auto expected = everything(member_linears(add_by_member(of.x, places, members),
                                                        of.weight, of.bias, members, 3, widths),
                                         of, places);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t n = 0; n < found.size(); ++n) {
          EXPECT_LT(largest_difference(found[n], expected[n]), dtype == at::kFloat ? 1e-4 : 1e-11)
              << n << ", " << members << " members";
        }
      }
    }
  }
}

TEST(PlacedLinears, AreDifferentiableTwice) {
  at::manual_seed(7);
  const Leaves of({2, 3, 4, 6}, at::kDouble);
  const Tensor places = at::randn({kMembers * 3, 4}, at::kDouble).requires_grad_();
  const auto f = [](const std::vector<Tensor>& x) {
    return placed_linears(x[0], x[3], x[1], x[2], kMembers, 1, {5})[0].tanh();
  };
  EXPECT_LT(testing::gradient_error(f, {of.x, of.weight, of.bias, places}), 1e-7);
  EXPECT_LT(testing::second_gradient_error(f, {of.x, of.weight, of.bias, places}), 1e-6);
}

TEST(PlacedLinears, RefusePlacesThatDoNotFit) {
  const Tensor x = at::randn({6, 5, 8}), weight = at::randn({30, 8});
  EXPECT_THAT(message_of<ShapeError>([&] {
                placed_linears(x, at::randn({14, 8}), weight, {}, kMembers, 0, {10});
              }),
              mentions("places:", "[members * N, in]", "3 members"));
}

TEST(MemberLinear, ReadsInputsThatLieInAnyOrder) {
  at::manual_seed(3);
  Leaves of({4, 5, 6, 7}, at::kFloat);
  const Tensor turned = at::randn({kMembers * 4, 6, 5}).requires_grad_();
  of.x = turned.transpose(1, 2);
  const Tensor y = member_linear(of.x, of.weight, of.bias, kMembers);
  EXPECT_LT(largest_difference(y.to(at::kDouble), one_by_one(of, {})), 1e-4);
  // A gradient that comes expanded from a sum.
  y.sum().backward();
  EXPECT_LT(largest_difference(of.bias.grad(), at::full_like(of.bias, 20)), 1e-4);
  const auto expected = torch::autograd::grad({one_by_one(of, {}).sum()}, {turned});
  EXPECT_LT(largest_difference(turned.grad(), expected[0]), 1e-4);
}

TEST(MemberLinear, DifferentiatesNoMoreThanWhatIsAskedFor) {
  Leaves of({2, 3, 4, 5}, at::kFloat);
  const Tensor data = of.x.detach();
  member_linear(data, of.weight, of.bias, kMembers).sum().backward();
  EXPECT_TRUE(of.weight.grad().defined());
  EXPECT_FALSE(data.grad().defined());
  FlopCounter backward;
  member_linear(data, of.weight, of.bias, kMembers).sum().backward();
  EXPECT_EQ(backward.total(), 2 * 2 * kMembers * 2 * 3 * 4 * 5);  // forward, and dW alone
}

TEST(MemberLinear, HasSecondDerivatives) {
  at::manual_seed(4);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const Leaves of({2, 3, 4, 6}, dtype);
    for (const MemberRows rows : {MemberRows{}, MemberRows{2, 3}}) {
      const auto second = [&](const Tensor& y) {
        const auto first = torch::autograd::grad({y.sin().sum()}, of.all(), {}, true, true);
        Tensor total = at::zeros({}, at::kDouble);
        for (const Tensor& g : first) total = total + g.to(at::kDouble).pow(2).sum();
        return torch::autograd::grad({total}, of.all());
      };
      const auto found = second(member_linear(of.x, of.weight, of.bias, kMembers, rows));
      const auto wanted = second(one_by_one(of, rows));
      for (std::size_t n = 0; n < found.size(); ++n) {
        const double scale = wanted[n].abs().max().item<double>();
        EXPECT_LT(largest_difference(found[n].to(at::kDouble), wanted[n].to(at::kDouble)),
                  scale * (dtype == at::kFloat ? 1e-4 : 1e-12))
            << n;
      }
    }
  }
}

TEST(MemberLinear, OfOneMemberIsTheLinearMapItself) {
  const Tensor x = at::randn({4, 5, 6}), weight = at::randn({9, 6}), bias = at::randn({9});
  EXPECT_TRUE(member_linear(x, weight, bias, 1).equal(at::linear(x, weight, bias)));
  EXPECT_TRUE(member_linear(x, weight, bias, 1, {3, 6})
                  .equal(at::linear(x, weight.narrow(0, 3, 6), bias.narrow(0, 3, 6))));
}

TEST(MemberLinear, KeepsNotANumberToItsMember) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    Leaves of({2, 2, 5, 6}, dtype);
    of.x.data().narrow(0, 2, 1).fill_(NAN);
    of.weight.data().narrow(0, 6, 6).fill_(INFINITY);
    const Tensor y = member_linear(of.x, of.weight, of.bias, kMembers);
    y.pow(2).sum().backward();
    for (const std::int64_t m : {0, 2}) {
      EXPECT_TRUE(y.narrow(0, 2 * m, 2).isfinite().all().item<bool>());
      EXPECT_TRUE(of.weight.grad().narrow(0, 6 * m, 6).isfinite().all().item<bool>());
    }
    EXPECT_FALSE(y.narrow(0, 2, 2).isfinite().any().item<bool>());
  }
}

TEST(MemberLinear, CountsItsOperations) {
  const Leaves of({2, 3, 4, 5}, at::kFloat);
  FlopCounter flops;
  member_linear(of.x, of.weight, of.bias, kMembers);
  EXPECT_EQ(flops.total(), 2 * kMembers * 2 * 3 * 4 * 5);
}

TEST(MemberLinear, RefusesWhatDoesNotDivideAmongMembers) {
  const Tensor weight = at::zeros({6, 4});
  EXPECT_THAT(message_of<ShapeError>([&] {
                member_linear(at::zeros({7, 4}), weight, {}, 3);
              }),
              mentions("3 members", "own"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                member_linear(at::zeros({6, 4}), at::zeros({7, 4}), {}, 3);
              }),
              HasSubstr("a matrix"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                member_linear(at::zeros({6, 5}), weight, {}, 3);
              }),
              HasSubstr("takes [..., 4], found [6, 5]"));
}

TEST(ByMember, PutsAParameterBesideEveryExampleOfItsMember) {
  const Tensor parameter = at::arange(12).view({6, 2});  // three members, two rows of two
  const Tensor beside = by_member(parameter, 3, 4);
  ASSERT_EQ(beside.sizes(), at::IntArrayRef({12, 2, 2}));
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_TRUE(beside[i].equal(parameter.narrow(0, i / 4 * 2, 2))) << i;
  }
  const Tensor x = at::randn({12, 2, 2});
  EXPECT_TRUE(add_by_member(x, parameter, 3).equal(x + beside));
  EXPECT_TRUE(add_by_member(x, parameter.narrow(0, 0, 2), 1).equal(x + parameter.narrow(0, 0, 2)));
  EXPECT_EQ(batch_of_member(x, 3), 4);
  EXPECT_THROW(batch_of_member(x, 5), ShapeError);
  EXPECT_THROW(by_member(parameter, 4, 4), ShapeError);
  EXPECT_THROW(add_by_member(x, parameter, 4), ShapeError);
}

TEST(PerHead, GivesEachHeadTheRowOfItsGroup) {
  const Tensor parameter = at::arange(6);  // groups of rows of two
  const Tensor rows = per_head(parameter, 3, 12);
  ASSERT_EQ(rows.sizes(), at::IntArrayRef({12, 1, 2}));
  for (std::int64_t h = 0; h < 12; ++h) {
    EXPECT_TRUE(rows[h][0].equal(parameter.narrow(0, h / 4 * 2, 2))) << h;
  }
  EXPECT_EQ(per_head(parameter, 1, 12).sizes(), at::IntArrayRef({1, 1, 6}));
  EXPECT_EQ(per_head(parameter, 3, 3).sizes(), at::IntArrayRef({3, 1, 2}));
}

}  // namespace
}  // namespace attnlab::members_test
