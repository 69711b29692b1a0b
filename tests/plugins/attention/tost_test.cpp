// Token statistics self-attention: y = -π v / (1 + the second moment of the group's values).
#include <gtest/gtest.h>

#include "tests/support/attended.h"
#include "tests/support/sourced_input.h"

namespace attnlab::tost_test {
namespace {

using testing::attended;
using testing::Index;
using testing::largest_difference;

constexpr AttentionTraits kTraits{
    .causal = true, .padding = true, .second_order = true, .linear_cost = true};

/// By the definition, a token at a time. Heads are those of one model.
class Naive {
 public:
  Naive(const Attention& attention, const AttentionInput& in)
      : in_(in), temperature_(testing::row(attention.named_parameters()["temperature"])) {}

  Tensor output() const {
    Tensor out = at::zeros(in_.values.sizes(), at::kDouble);
    auto to = out.accessor<double, 4>();
    testing::each_pair(out, [&](Index b, Index h, Index i, Index c) {
      if (!real(b, i)) return;
      double moment = 0, sum = 1e-8;
      for (Index j = 0; j < last(i); ++j) {
        if (!real(b, j)) continue;
        const double v = testing::at_pair(in_.values, b, h, j, c);
        moment += share(b, h, j) * v * v;
        sum += share(b, h, j);
      }
      const double v = testing::at_pair(in_.values, b, h, i, c);
      to[b][h][i][c] = -share(b, h, i) * v / (1 + moment / sum);
    });
    return out;
  }

  /// π.
  double share(Index b, Index h, Index i) const {
    double sum = 0;
    for (Index g = 0; g < in_.heads(); ++g) sum += std::exp(logit(b, g, i));
    return std::exp(logit(b, h, i)) / sum;
  }

 private:
  bool real(Index b, Index i) const {
    const Visibility& visible = in_.visible;
    const auto says = [&](const Tensor& mask) {
      return !mask.defined() || testing::at_pair(mask, 0, 0, b, i) != 0;
    };
    return says(visible.key_valid) && says(visible.query_valid);
  }
  /// One behind the last token that counts for token i.
  Index last(Index i) const { return in_.visible.causal ? i + 1 : in_.key_count(); }

  double length_of_channel(const Tensor& x, Index b, Index h, Index i, Index c) const {
    double squares = 0;
    for (Index j = 0; j < last(i); ++j) {
      if (real(b, j)) squares += std::pow(testing::at_pair(x, b, h, j, c), 2);
    }
    return std::sqrt(std::max(squares, 1e-12));
  }

  double logit(Index b, Index h, Index i) const {
    double agreement = 0;
    for (Index c = 0; c < in_.keys.size(3); ++c) {
      agreement +=
          testing::at_pair(in_.queries, b, h, i, c) * testing::at_pair(in_.keys, b, h, i, c) /
          (length_of_channel(in_.queries, b, h, i, c) * length_of_channel(in_.keys, b, h, i, c));
    }
    return temperature_[static_cast<std::size_t>(h)] * agreement;
  }

  const AttentionInput& in_;
  testing::Row temperature_;
};

/// With and without the causal rule and padding.
std::vector<AttentionInput> inputs() {
  std::vector<AttentionInput> all;
  for (const std::int64_t length : {1, 6}) {
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        AttentionInput in = testing::random_input(2, 3, length, length, 4, 5);
        in.visible.causal = causal;
        if (padded) in.visible.key_valid = at::rand({2, length}) < 0.6;
        if (padded && causal) in.visible.query_valid = at::rand({2, length}) < 0.9;
        all.push_back(in);
      }
    }
  }
  return all;
}

std::shared_ptr<Attention> made(const AttentionInput& in) {
  return testing::drawn_attention("tost", in);
}

TEST(TostAttention, TakesOneSequenceAndNoPairs) {
  const AttentionInput in = testing::random_input(1, 2, 3, 5, 4, 3);
  const auto attention = made(in);
  EXPECT_EQ(attention->traits(), kTraits);
  EXPECT_TRUE(attention->couples_queries());
  EXPECT_TRUE(attention->reads_order()) << "query i and key i are one token";
  EXPECT_EQ(testing::parameter_count(*attention), 2);
  EXPECT_THROW(attended(*attention, in), TraitError);
  EXPECT_TRUE(at::equal(testing::make_attention("tost", testing::shape_of(in))->parameters()[0],
                        at::ones({2})));
}

TEST(TostAttention, EqualsItsEquation) {
  at::manual_seed(1);
  int tried = 0;
  for (const AttentionInput& in : inputs()) {
    const auto attention = made(in);
    EXPECT_LT(largest_difference(attended(*attention, in), Naive(*attention, in).output()), 1e-10)
        << tried;
    ++tried;
  }
  EXPECT_EQ(tried, 8);
}

/// The published equation of one map of each token.
Tensor published(const Tensor& w, double temperature, bool causal) {
  Tensor out = at::zeros_like(w);
  auto to = out.accessor<double, 4>();
  const Index length = w.size(2);
  const auto number = [&](Index h, Index i, Index c) { return testing::at_pair(w, 0, h, i, c); };
  const auto share = [&](Index h, Index i, Index last) {
    double sum = 0, own = 0;
    for (Index g = 0; g < w.size(1); ++g) {
      double energy = 0;
      for (Index c = 0; c < w.size(3); ++c) {
        double squares = 0;
        for (Index j = 0; j < last; ++j) squares += number(g, j, c) * number(g, j, c);
        energy += number(g, i, c) * number(g, i, c) / squares;
      }
      sum += std::exp(temperature * energy);
      if (g == h) own = std::exp(temperature * energy);
    }
    return own / sum;
  };
  testing::each_pair(w, [&](Index, Index h, Index i, Index c) {
    double moment = 0, sum = 1e-8;
    for (Index j = 0; j < (causal ? i + 1 : length); ++j) {
      const double part = share(h, j, causal ? j + 1 : length);
      moment += part * number(h, j, c) * number(h, j, c);
      sum += part;
    }
    to[0][h][i][c] = -number(h, i, c) * share(h, i, causal ? i + 1 : length) / (1 + moment / sum);
  });
  return out;
}

TEST(TostAttention, IsThePublishedLayerWhereATokensThreeMapsAreOne) {
  at::manual_seed(2);
  AttentionInput in = testing::random_input(1, 2, 6, 6, 4, 4);
  in.keys = in.values = in.queries;
  const auto attention = made(in);
  for (Tensor& p : attention->parameters()) {
    const at::NoGradGuard no_gradients;
    p.fill_(1.5);
  }
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    EXPECT_LT(largest_difference(attended(*attention, in), published(in.queries, 1.5, causal)),
              1e-10);
  }
}

TEST(TostAttention, MembershipSumsToOneOverTheHeadsOfEachMember) {
  at::manual_seed(3);
  AttentionInput in = testing::random_input(1, 4, 5, 5, 4, 3);
  in.values.fill_(1);  // the moment is 1, so that y is -π / 2
  AttentionShape shape = testing::shape_of(in);
  shape.members = 2;
  const auto attention = testing::make_attention("tost", shape);
  attention->to(at::kDouble);
  const Tensor shares = attended(*attention, in) * -2;
  for (const std::int64_t first : {0, 2}) {
    EXPECT_LT((shares.narrow(1, first, 2).sum(1) - 1).abs().max().item<double>(), 1e-7);
  }
}

TEST(TostAttention, ChannelsWithLargeMomentsArePushedDown) {
  at::manual_seed(4);
  AttentionInput in = testing::random_input(1, 2, 8, 8, 4, 3);
  AttentionInput louder = in;
  louder.values = in.values.clone();
  louder.values.select(2, 7).select(2, 1).fill_(1e4);
  const auto attention = made(in);
  const Tensor before = attended(*attention, in), after = attended(*attention, louder);
  const Tensor earlier = (after / before).narrow(2, 0, 7);
  EXPECT_LT(earlier.select(3, 1).max().item<double>(), 0.1);
  EXPECT_LT((earlier.select(3, 0) - 1).abs().max().item<double>(), 1e-12);
}

TEST(TostAttention, RemembersSumsAlone) {
  at::manual_seed(5);
  AttentionInput in = testing::random_input(1, 2, 9, 9, 4, 3);
  in.visible.causal = true;
  const auto attention = made(in);
  const Tensor expected = attended(*attention, in).detach();
  AttentionContext context;
  AttentionMemory memory;
  for (Index t = 0; t < 9; ++t) {
    AttentionInput one = in;
    for (Tensor* x : {&one.queries, &one.keys, &one.values}) *x = x->narrow(2, t, 1);
    const Tensor row = attention->extend(one, memory, context).detach();
    EXPECT_LT(largest_difference(row, expected.narrow(2, t, 1)), 1e-11) << t;
    EXPECT_EQ(memory.bytes(), 2 * (4 + 4 + 3 + 1) * 8);
  }
  in.queries = in.queries.narrow(1, 0, 2).repeat({2, 1, 1, 1});
  in.keys = in.keys.repeat({2, 1, 1, 1}), in.values = in.values.repeat({2, 1, 1, 1});
  EXPECT_THROW(attention->extend(in, memory, context), ShapeError) << "another batch";
}

TEST(TostAttention, DropsNumbersOfTheFactorInTraining) {
  at::manual_seed(6);
  const AttentionInput in = testing::random_input(1, 2, 6, 6, 4, 30);
  AttentionShape shape = testing::shape_of(in);
  shape.dropout = 0.5;
  const auto attention = testing::make_attention("tost", shape);
  attention->to(at::kDouble);
  attention->train();
  const Tensor dropped = attended(*attention, in);
  attention->eval();
  const Tensor whole = attended(*attention, in);
  const Tensor ratio = dropped / whole;
  const Tensor kept = (ratio - 2).abs().lt(1e-9), gone = ratio.eq(0);
  EXPECT_TRUE(kept.logical_or(gone).all().item<bool>());
  EXPECT_TRUE(kept.any().item<bool>() && gone.any().item<bool>());
}

TEST(TostAttention, RecordsNormsAlone) {
  at::manual_seed(7);
  const AttentionInput in = testing::random_input(1, 2, 4, 4, 4, 3);
  const LayerTrace seen = testing::traced(*made(in), in);
  EXPECT_LT(largest_difference(seen.query_norms, in.queries.norm(2, -1)), 1e-12);
  EXPECT_LT(largest_difference(seen.key_norms, in.keys.norm(2, -1)), 1e-12);
  EXPECT_FALSE(seen.weights.defined() || seen.logits.defined() || seen.entropy.defined());
}

TEST(TostAttention, GradientsAreRightTwice) {
  at::manual_seed(8);
  AttentionInput in = testing::random_input(1, 2, 3, 3, 3, 2);
  const auto attention = made(in);
  for (const bool causal : {false, true}) {
    in.visible.causal = causal;
    const auto f = testing::of_tokens(
        in, [&](const AttentionInput& one) { return attended(*attention, one); });
    // Quotients of small numbers bend much: a short step.
    const std::vector<Tensor> inputs = {in.queries, in.keys, in.values};
    EXPECT_LT(testing::gradient_error(f, inputs, 1e-6), 1e-6);
    EXPECT_LT(testing::second_gradient_error(f, inputs, 1e-6), 1e-5);
    EXPECT_LT(testing::leaf_gradient_error([&] { return attended(*attention, in); },
                                           attention->parameters(), 1e-6),
              1e-6);
  }
}

}  // namespace
}  // namespace attnlab::tost_test
