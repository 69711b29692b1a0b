// Multi-head attention against its definition, alone and as an ensemble.
#include "framework/nn/modules/multi_head_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/nn/attention/attention_maps.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "tests/support/data_files.h"
#include "tests/support/naive_attention.h"

namespace attnlab::multi_head_attention_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::message_of;

constexpr double kTolerance = 1e-10;

class Plain final : public DotProductAttention {
 public:
  using DotProductAttention::DotProductAttention;
};

/// Keeps the last input that it was given.
class Spying final : public Attention {
 public:
  explicit Spying(const AttentionShape& shape)
      : Attention(shape, AttentionTraits::all_quadratic()) {}
  AttentionInput seen;
  AttentionContext* context = nullptr;

 protected:
  Tensor attend(const AttentionInput& in, AttentionContext& with) override {
    seen = in;
    context = &with;
    return at::zeros({in.batch(), in.heads(), in.query_count(), in.values.size(3)},
                     in.values.options());
  }
};

/// The same, and reads sources.
class SpyingOnSources final : public Attention {
 public:
  explicit SpyingOnSources(const AttentionShape& shape)
      : Attention(shape, {.causal = true,
                          .different_lengths = true,
                          .different_source = true,
                          .sources = true}) {
    own = register_parameter("own", at::zeros({shape.heads}));
  }
  AttentionInput seen;
  Tensor own;  ///< so that an ensemble's heads stand side by side

 protected:
  Tensor attend(const AttentionInput& in, AttentionContext&) override {
    seen = in;
    return at::zeros({in.batch(), in.heads(), in.query_count(), in.values.size(3)},
                     in.values.options());
  }
};

template <class T>
AttentionBuilder building() {
  return [](const AttentionShape& shape) { return std::make_shared<T>(shape); };
}

/// [B, L, H * D] to [B, H, L, D] by its definition.
Tensor by_head(const Tensor& x, std::int64_t heads) { return at::stack(x.chunk(heads, 2), 1); }

TEST(MultiHeadAttention, SelfAttentionEqualsItsDefinition) {
  at::manual_seed(4);
  MultiHeadOptions options;
  options.dim = 12, options.heads = 3;
  MultiHeadAttention layer(options, building<Plain>());
  layer.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (const auto& parameter : layer.parameters()) parameter.normal_();
  const auto weights = layer.named_parameters();
  const Tensor x = at::randn({2, 5, 12}, at::kDouble);
  const auto projected = [&](std::int64_t i) {
    const Tensor w = weights["qkv.weight"].narrow(0, 12 * i, 12);
    return by_head(at::matmul(x, w.t()) + weights["qkv.bias"].narrow(0, 12 * i, 12), 3);
  };
  AttentionInput in;
  in.queries = projected(0), in.keys = projected(1), in.values = projected(2);
  const Tensor heads = testing::naive_attention(in, {.scale = 0.5});
  const Tensor merged = at::cat(heads.unbind(1), 2);
  const Tensor expected = at::matmul(merged, weights["output.weight"].t()) + weights["output.bias"];
  AttentionContext context;
  EXPECT_LT(largest_difference(layer.forward(x, context), expected), kTolerance);
  // The same weights serve where the three sources are three tensors.
  EXPECT_LT(largest_difference(layer.forward(x.clone(), x.clone(), x.clone(), context), expected),
            kTolerance);
}

TEST(MultiHeadAttention, TakesQueriesKeysAndValuesFromThreeSequences) {
  at::manual_seed(5);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2, options.key_source = 6, options.value_source = 10;
  options.head_dim = 3, options.value_dim = 5, options.qkv_bias = false;
  MultiHeadAttention layer(options, building<Spying>());
  const Tensor q = at::randn({2, 4, 8}), k = at::randn({2, 7, 6}), v = at::randn({2, 7, 10});
  AttentionContext context;
  const Tensor y = layer.forward(q, k, v, context);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 4, 8}));
  const auto weights = layer.named_parameters();
  EXPECT_FALSE(weights.contains("query.bias"));
  const AttentionInput& seen = static_cast<Spying&>(layer.attention()).seen;
  EXPECT_TRUE(seen.values_from_elsewhere);
  const auto projected = [&](const Tensor& x, const char* name) {
    return by_head(at::matmul(x, weights[name].t()), 2);
  };
  EXPECT_LT(largest_difference(seen.queries, projected(q, "query.weight")), 1e-6);
  EXPECT_LT(largest_difference(seen.keys, projected(k, "key.weight")), 1e-6);
  EXPECT_LT(largest_difference(seen.values, projected(v, "value.weight")), 1e-6);
}

TEST(MultiHeadAttention, GivesSourcesToWhoReadsThem) {
  at::manual_seed(7);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2;
  MultiHeadAttention layer(options, building<SpyingOnSources>());
  const auto& spy = static_cast<SpyingOnSources&>(layer.attention());
  EXPECT_EQ(spy.shape().query_width, 8);
  const Tensor x = at::randn({2, 5, 8}), other = at::randn({2, 3, 8});
  AttentionContext context;
  const auto expect = [&](const Tensor& queries, const Tensor& keys, const Tensor& values) {
    EXPECT_TRUE(at::equal(spy.seen.query_source, queries));
    EXPECT_TRUE(at::equal(spy.seen.key_source, keys));
    EXPECT_TRUE(at::equal(spy.seen.value_source, values));
  };
  layer.forward(x, context);
  expect(x, x, x);
  layer.forward(other, x, x * 2, context);
  expect(other, x, x * 2);
  layer.forward_after(other, x, context, {});
  expect(x, at::cat({other, x}, 1), at::cat({other, x}, 1));
  const Tensor places = at::randn({3, 8});
  layer.forward_placed(x, other, places, context);
  expect(x, other + places, other + places);
  KeyCache cache;
  layer.forward_cached(x.narrow(1, 0, 2), cache, context, {});
  layer.forward_cached(x.narrow(1, 2, 3), cache, context, {});
  expect(x.narrow(1, 2, 3), x, x);
  EXPECT_TRUE(at::equal(cache.last(4).sources, x.narrow(1, 1, 4)));
}

TEST(MultiHeadAttention, GivesAnEnsemblesSourcesMemberByMember) {
  at::manual_seed(8);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2, options.members = 3;
  MultiHeadAttention layer(options, building<SpyingOnSources>());
  const auto& spy = static_cast<SpyingOnSources&>(layer.attention());
  EXPECT_EQ(spy.shape().members, 3);
  const Tensor x = at::randn({3 * 2, 5, 8});
  AttentionContext context;
  layer.forward(x, context);
  EXPECT_EQ(spy.seen.queries.size(0), 2);
  EXPECT_TRUE(at::equal(spy.seen.query_source, x));
}

/// The mean of all queries that are given, in each row: queries depend on each other.
class MeanOfQueries final : public Attention {
 public:
  explicit MeanOfQueries(const AttentionShape& shape)
      : Attention(shape, AttentionTraits::all_quadratic()) {}
  bool couples_queries() const override { return true; }

 protected:
  Tensor attend(const AttentionInput& in, AttentionContext&) override {
    const Tensor count = at::arange(1, in.query_count() + 1, in.queries.options());
    return in.queries.cumsum(2) / count.unsqueeze(-1);
  }
};

TEST(MultiHeadAttention, QueriesThatDependOnEachOtherAreAskedAgainBehindACache) {
  at::manual_seed(9);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2;
  MultiHeadAttention layer(options, building<MeanOfQueries>());
  const Tensor x = at::randn({2, 5, 8});
  AttentionContext context;
  const Tensor whole = layer.forward(x, context);
  KeyCache cache;
  AttentionExtras extras;
  extras.visible.causal = true;
  const Tensor first = layer.forward_cached(x.narrow(1, 0, 2), cache, context, extras);
  const Tensor rest = layer.forward_cached(x.narrow(1, 2, 3), cache, context, extras);
  EXPECT_LT(largest_difference(at::cat({first, rest}, 1), whole), 1e-6);
}

/// Builds standard attention that asks for a projection.
AttentionBuilder projecting(const Projection& projection) {
  return [projection](const AttentionShape& shape) {
    auto attention = std::make_shared<Plain>(shape);
    attention->set_projection(projection);
    return attention;
  };
}

/// The layer by its definition, in loops over heads; `weights` are the layer's.
Tensor naive_projected(const MultiHeadAttention& layer, const Tensor& x, std::int64_t heads,
                       std::int64_t key_heads) {
  const auto weights = layer.named_parameters();
  const auto map = [&](const char* name, const Tensor& from) {
    const std::string prefix = name;
    return at::matmul(from, weights[prefix + ".weight"].t()) + weights[prefix + ".bias"];
  };
  const Tensor from = weights.contains("latent.weight") ? map("latent", x) : x;
  const std::vector<Tensor> queries = map("query", x).chunk(heads, 2);
  const std::vector<Tensor> keys = map("key", from).chunk(key_heads, 2);
  const std::vector<Tensor> values = map("value", from).chunk(key_heads, 2);
  std::vector<Tensor> merged;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto g = static_cast<std::size_t>(h / (heads / key_heads));
    const Tensor& q = queries[static_cast<std::size_t>(h)];
    const Tensor logits =
        at::matmul(q, keys[g].transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2)));
    merged.push_back(at::matmul(logits.softmax(-1), values[g]));
  }
  return map("output", at::cat(merged, 2));
}

TEST(MultiHeadAttention, HeadsOfQueriesShareHeadsOfKeys) {
  for (const Projection projection :
       {Projection{1, 0}, Projection{2, 0}, Projection{0, 6}, Projection{2, 6}}) {
    at::manual_seed(10);
    MultiHeadOptions options;
    options.dim = 16, options.heads = 4;
    MultiHeadAttention layer(options, projecting(projection));
    layer.to(at::kDouble);
    const at::NoGradGuard no_gradients;
    for (const auto& parameter : layer.parameters()) parameter.normal_(0, 0.4);
    const std::int64_t key_heads = projection.key_heads == 0 ? 4 : projection.key_heads;
    const auto weights = layer.named_parameters();
    EXPECT_EQ(weights["key.weight"].size(0), key_heads * 4);
    const Tensor x = at::randn({2, 5, 16}, at::kDouble);
    const Tensor expected = naive_projected(layer, x, 4, key_heads);
    AttentionContext context;
    EXPECT_LT(largest_difference(layer.forward(x, context), expected), kTolerance);
    // Token by token, the cache holds what the heads share.
    AttentionExtras extras;
    extras.visible.causal = true;
    const Tensor whole = layer.forward(x, context, extras);
    KeyCache cache;
    std::vector<Tensor> parts;
    for (const auto& [first, count] : {std::pair{0, 2}, std::pair{2, 3}}) {
      parts.push_back(layer.forward_cached(x.narrow(1, first, count), cache, context, extras));
    }
    EXPECT_LT(largest_difference(at::cat(parts, 1), whole), kTolerance);
    EXPECT_EQ(cache.tokens(), 5);
    if (projection.rank > 0) {
      EXPECT_EQ(cache.latent.sizes(), at::IntArrayRef({2, 5, 6}));
      EXPECT_FALSE(cache.keys.defined());
    } else {
      EXPECT_EQ(cache.keys.size(1), key_heads);
    }
  }
}

TEST(MultiHeadAttention, AnEnsembleSharesHeadsOfKeysWithinEachMember) {
  at::manual_seed(11);
  constexpr std::int64_t kMembers = 3;
  MultiHeadOptions options;
  options.dim = 16, options.heads = 4;
  std::vector<std::shared_ptr<MultiHeadAttention>> singles;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    singles.push_back(std::make_shared<MultiHeadAttention>(options, projecting({2, 6})));
  }
  options.members = kMembers;
  MultiHeadAttention together(options, projecting({2, 6}));
  const at::NoGradGuard no_gradients;
  for (const auto& item : together.named_parameters()) {
    std::vector<Tensor> rows;
    for (const auto& single : singles) rows.push_back(single->named_parameters()[item.key()]);
    Tensor(item.value()).copy_(at::cat(rows));
  }
  const Tensor x = at::randn({kMembers * 2, 5, 16});
  AttentionContext context;
  const Tensor found = together.forward(x, context);
  for (std::int64_t m = 0; m < kMembers; ++m) {
    const Tensor alone =
        singles[static_cast<std::size_t>(m)]->forward(x.narrow(0, 2 * m, 2), context);
    EXPECT_LT(largest_difference(found.narrow(0, 2 * m, 2), alone), 1e-5);
  }
}

TEST(MultiHeadAttention, RefusesProjectionsThatDoNotFit) {
  MultiHeadOptions options;
  options.dim = 16, options.heads = 4;
  EXPECT_THAT(message_of<ConfigError>([&] {
                MultiHeadAttention(options, projecting({3, 0}));
              }),
              mentions("3 heads of keys", "4 heads of queries"));
  options.key_source = 8;
  EXPECT_THAT(message_of<ConfigError>([&] {
                MultiHeadAttention(options, projecting({0, 4}));
              }),
              mentions("cannot share", "low rank"));
}

TEST(MultiHeadAttention, AProjectionThatNoLayerReadsIsAnError) {
  const AttentionInput in = testing::random_input(1, 2, 3, 3, 4, 4);
  const auto attention = projecting({1, 0})({.heads = 2, .head_dim = 4});
  AttentionContext context;
  EXPECT_THAT(message_of<ConfigError>([&] { attention->forward(in, context); }),
              HasSubstr("attention.projection"));
}

TEST(MultiHeadAttention, PacksProjectionsOfDifferentWidths) {
  at::manual_seed(6);
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2, options.head_dim = 3, options.value_dim = 5;
  MultiHeadAttention layer(options, building<Spying>());
  const auto weights = layer.named_parameters();
  ASSERT_EQ(weights["qkv.weight"].sizes(), at::IntArrayRef({2 * (3 + 3 + 5), 8}));
  const Tensor x = at::randn({1, 4, 8});
  AttentionContext context;
  layer.forward(x, context);
  const AttentionInput& seen = static_cast<Spying&>(layer.attention()).seen;
  EXPECT_FALSE(seen.values_from_elsewhere);
  const Tensor values = at::matmul(x, weights["qkv.weight"].narrow(0, 12, 10).t());
  EXPECT_LT(largest_difference(seen.values, by_head(values, 2)), 1e-6);
}

TEST(MultiHeadAttention, PassesOnWhatGoesWithTheInput) {
  MultiHeadOptions options;
  options.dim = 4, options.heads = 2, options.attention_dropout = 0.3;
  options.layer = 2, options.layers = 6;
  MultiHeadAttention layer(options, building<Spying>());
  AttentionExtras extras;
  extras.visible.causal = true;
  extras.bias = at::zeros({3, 3});
  extras.relative.keys = at::zeros({2, 5, 2});
  extras.query_positions = at::zeros({1, 3, 2});
  extras.key_positions = at::ones({1, 3, 2});
  AttentionContext context;
  layer.forward(at::randn({1, 3, 4}), context, extras);
  const auto& spy = static_cast<Spying&>(layer.attention());
  EXPECT_EQ(spy.context, &context);
  EXPECT_TRUE(spy.seen.visible.causal);
  EXPECT_TRUE(spy.seen.bias.is_same(extras.bias));
  EXPECT_TRUE(spy.seen.relative.keys.is_same(extras.relative.keys));
  EXPECT_TRUE(spy.seen.query_positions.is_same(extras.query_positions));
  EXPECT_TRUE(spy.seen.key_positions.is_same(extras.key_positions));
  EXPECT_EQ(spy.shape().layer, 2);
  EXPECT_EQ(spy.shape().layers, 6);
  EXPECT_EQ(spy.shape().dropout, 0.3);
}

TEST(MultiHeadAttention, RefusesHeadsThatDoNotDivideTheChannels) {
  MultiHeadOptions options;
  options.dim = 10, options.heads = 3;
  EXPECT_THROW(MultiHeadAttention(options, building<Plain>()), ShapeError);
}

/// With parameters of both kinds: of each head, and one that heads share.
class Learned final : public DotProductAttention {
 public:
  explicit Learned(const AttentionShape& shape, const AttentionTraits& traits = kTraits)
      : DotProductAttention(shape, {}, traits),
        query_(register_module("query", map_of("channel", shape))),
        key_(register_module("key", map_of("head_channel", shape))) {}

 protected:
  Tensor map_queries(const Tensor& q, AttentionContext&) const override {
    return query_->forward(q);
  }
  Tensor map_keys(const Tensor& k, AttentionContext&) const override { return key_->forward(k); }

 private:
  static std::shared_ptr<VectorMap> map_of(const char* scales, const AttentionShape& shape) {
    MapOptions options;
    options.map = "layer_norm";
    options.scales = scales;
    return std::make_shared<VectorMap>(options, shape);
  }
  std::shared_ptr<VectorMap> query_, key_;
};

constexpr std::int64_t kMembers = 3, kBatch = 2, kHeads = 2, kLength = 5, kDim = 8;

MultiHeadOptions heads_of(std::int64_t members) {
  MultiHeadOptions options;
  options.dim = kDim, options.heads = kHeads, options.members = members;
  return options;
}

Tensor of_examples(at::IntArrayRef rest) {
  std::vector<std::int64_t> sizes = rest.vec();
  sizes.insert(sizes.begin(), kMembers * kBatch);
  return at::randn(sizes, at::kDouble);
}

/// The part of what goes with the input that is member m's.
AttentionExtras extras_of(const AttentionExtras& all, std::int64_t m) {
  const auto part = [m](const Tensor& x) {
    if (!x.defined() || x.size(0) != kMembers * kBatch) return x;
    return x.narrow(0, m * kBatch, kBatch);
  };
  AttentionExtras own = all;
  own.visible.key_valid = part(all.visible.key_valid);
  own.visible.query_valid = part(all.visible.query_valid);
  own.visible.pairs = part(all.visible.pairs);
  own.bias = part(all.bias);
  own.key_positions = part(all.key_positions);
  return own;
}

/// Expects three members together to be three layers alone, whatever the sources.
void expect_members_apart(const MultiHeadOptions& options, const AttentionBuilder& attention,
                          const AttentionExtras& extras) {
  const at::NoGradGuard no_gradients;
  MultiHeadAttention together(options, attention);
  together.to(at::kDouble);
  for (Tensor& p : together.parameters()) p.normal_();
  const Tensor x = of_examples({kLength, kDim}), y = of_examples({kLength, kDim});
  std::vector<Tensor> own, cross, apart;
  MultiHeadOptions single = options;
  single.members = 1;
  for (std::int64_t m = 0; m < kMembers; ++m) {
    MultiHeadAttention layer(single, attention);
    layer.to(at::kDouble);
    for (auto& item : layer.named_parameters()) {
      item.value().copy_(together.named_parameters()[item.key()].chunk(kMembers)[m]);
    }
    AttentionContext context;
    const AttentionExtras with = extras_of(extras, m);
    const Tensor a = x.chunk(kMembers)[m], b = y.chunk(kMembers)[m];
    own.push_back(layer.forward(a, context, with));
    cross.push_back(layer.forward(a, b, b, context, with));
    apart.push_back(layer.forward(a, b, a, context, with));
  }
  AttentionContext context;
  EXPECT_LT(largest_difference(together.forward(x, context, extras), at::cat(own)), kTolerance);
  EXPECT_LT(largest_difference(together.forward(x, y, y, context, extras), at::cat(cross)),
            kTolerance);
  EXPECT_LT(largest_difference(together.forward(x, y, x, context, extras), at::cat(apart)),
            kTolerance);
}

struct NamedExtras {
  const char* name;
  AttentionExtras extras;
};

std::vector<NamedExtras> every_extra() {
  const auto random_bool = [](at::IntArrayRef sizes) { return at::rand(sizes) < 0.6; };
  const std::int64_t all = kMembers * kBatch;
  std::vector<NamedExtras> cases(9);
  cases[0].name = "nothing";
  cases[1].name = "causal in a window";
  cases[1].extras.visible.causal = true;
  cases[1].extras.visible.window = 3;
  cases[2].name = "padding of keys";
  cases[2].extras.visible.key_valid = random_bool({all, kLength});
  cases[3].name = "padding of both, and pairs";
  cases[3].extras.visible.key_valid = random_bool({all, kLength});
  cases[3].extras.visible.query_valid = random_bool({all, kLength});
  cases[3].extras.visible.pairs = random_bool({kLength, kLength});
  cases[4].name = "pairs by example and head";
  cases[4].extras.visible.pairs = random_bool({all, kHeads, kLength, kLength});
  cases[5].name = "bias by head";
  cases[5].extras.bias = at::randn({kHeads, kLength, kLength}, at::kDouble);
  cases[6].name = "bias by example";
  cases[6].extras.bias = at::randn({all, 1, 1, kLength}, at::kDouble);
  cases[7].name = "bias for all";
  cases[7].extras.bias = at::randn({1, 1, kLength, kLength}, at::kDouble);
  cases[8].name = "pairs by head";
  cases[8].extras.visible.pairs = random_bool({1, kHeads, 1, kLength});
  return cases;
}

TEST(MultiHeadEnsemble, IsItsMembersAloneWithAnyMaskAndBias) {
  at::manual_seed(31);
  for (const NamedExtras& c : every_extra()) {
    SCOPED_TRACE(c.name);
    expect_members_apart(heads_of(kMembers), building<Plain>(), c.extras);
    expect_members_apart(heads_of(kMembers), building<Learned>(), c.extras);
  }
}

TEST(MultiHeadEnsemble, TakesValuesOfAnotherWidthAndOneHead) {
  at::manual_seed(32);
  MultiHeadOptions options = heads_of(kMembers);
  options.head_dim = 3, options.value_dim = 5, options.qkv_bias = false;
  expect_members_apart(options, building<Plain>(), {});
  expect_members_apart(options, building<Learned>(), {});
  options = heads_of(kMembers);
  options.heads = 1;
  expect_members_apart(options, building<Learned>(), {});
}

TEST(MultiHeadEnsemble, PutsHeadsSideBySideOnlyForAnAttentionWithParameters) {
  MultiHeadAttention plain(heads_of(kMembers), building<Plain>());
  MultiHeadAttention learned(heads_of(kMembers), building<Learned>());
  const auto shape = [](MultiHeadAttention& layer) { return layer.attention().shape(); };
  EXPECT_EQ(shape(plain).heads, kHeads);
  EXPECT_EQ(shape(plain).members, 1);
  EXPECT_EQ(shape(learned).heads, kMembers * kHeads);
  EXPECT_EQ(shape(learned).members, kMembers);
}

/// Forgets that members share nothing.
class Sharing final : public DotProductAttention {
 public:
  explicit Sharing(const AttentionShape& shape)
      : DotProductAttention(shape),
        scale_(register_parameter("scale", at::ones({shape.head_dim}))) {}

 protected:
  Tensor map_queries(const Tensor& q, AttentionContext&) const override { return q * scale_; }

 private:
  Tensor scale_;
};

TEST(MultiHeadEnsemble, RefusesAParameterThatMembersWouldShare) {
  EXPECT_THAT(
      message_of<ShapeError>([] { MultiHeadAttention(heads_of(kMembers), building<Sharing>()); }),
      mentions("'scale'", "[4] float32", "3 times the rows"));
}

TEST(MultiHeadEnsemble, RefusesWhatItCannotTellMembersApartBy) {
  MultiHeadAttention plain(heads_of(kMembers), building<Plain>());
  MultiHeadAttention learned(heads_of(kMembers), building<Learned>());
  MultiHeadAttention unpaired(heads_of(kMembers), [](const AttentionShape& shape) {
    AttentionTraits traits = AttentionTraits::all_quadratic();
    traits.pair_mask = false;
    return std::make_shared<Learned>(shape, traits);
  });
  const Tensor x = at::zeros({kMembers * kBatch, kLength, kDim});
  const auto refusal = [&x](MultiHeadAttention& layer, const AttentionExtras& extras) {
    return message_of<ShapeError>([&] {
      AttentionContext context;
      layer.forward(x, context, extras);
    });
  };
  AttentionExtras ragged, relative, places, padding, wrong;
  ragged.visible.query_offsets = ragged.visible.key_offsets = at::tensor({0, 5}, at::kLong);
  relative.relative.keys = at::zeros({kHeads, 2 * kLength - 1, kDim / kHeads});
  places.query_positions = at::zeros({kMembers * kBatch, kLength, 1});
  padding.visible.key_valid = at::ones({kMembers * kBatch, kLength}, at::kBool);
  wrong.bias = at::zeros({4, 1, kLength, kLength});
  EXPECT_THAT(refusal(plain, ragged), HasSubstr("ragged batches"));
  EXPECT_THAT(refusal(plain, relative), HasSubstr("relative positions"));
  EXPECT_THAT(refusal(learned, places), HasSubstr("positions that differ between examples"));
  EXPECT_THAT(refusal(unpaired, padding), HasSubstr("no trait 'pair_mask'"));
  EXPECT_THAT(refusal(learned, wrong),
              HasSubstr("[members * B, heads, Lq, Lk], found [4, 1, 5, 5]"));
}

}  // namespace
}  // namespace attnlab::multi_head_attention_test
