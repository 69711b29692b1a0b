// What a layer tells its attention of places (`attention.positions`): loops over pairs, text that
// is written token by token, memories, members of an ensemble.
#include "framework/nn/modules/layer_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/nn/modules/language.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "tests/support/gradcheck.h"
#include "tests/support/message_of.h"
#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::layer_positions_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::message_of;
using testing::Row;
using testing::row;

using Kind = Positions::Kind;

constexpr double kTolerance = 1e-10;
constexpr std::int64_t kDim = 16, kHeads = 2, kWidth = 8, kBatch = 2;
const Positions kRotary{Kind::rotary, 100};
const Positions kAlibi{Kind::alibi};
const Positions kT5{Kind::t5, 1, 8, 6};  // few buckets, so that every kind of them is met

AttentionBuilder with(const Positions& positions, const std::string& id = "standard",
                      const Projection& projection = {}) {
  return [=](const AttentionShape& shape) {
    auto attention = testing::make_attention(id, shape);
    attention->set_positions(positions);
    attention->set_projection(projection);
    return attention;
  };
}

/// In float64, with random parameters. @param seed  of these
std::shared_ptr<MultiHeadAttention> layer_of(const AttentionBuilder& attention,
                                             std::int64_t members = 1, std::uint64_t seed = 1) {
  MultiHeadOptions options;
  options.dim = kDim, options.heads = kHeads, options.members = members;
  auto layer = std::make_shared<MultiHeadAttention>(options, attention);
  layer->to(at::kDouble);
  at::manual_seed(seed);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : layer->parameters()) parameter.normal_(0, 0.5);
  return layer;
}

Tensor random_tokens(std::int64_t length, std::int64_t batch = kBatch) {
  return at::randn({batch, length, kDim}, at::kDouble);
}

/// What a layer with packed projections makes of its sequences.
AttentionInput projected(const MultiHeadAttention& layer, const Tensor& queries,
                         const Tensor& keys) {
  const auto weights = layer.named_parameters();
  const auto part = [&](const Tensor& x, std::int64_t i) {
    const Tensor y = at::matmul(x, weights["qkv.weight"].narrow(0, kDim * i, kDim).t()) +
                     weights["qkv.bias"].narrow(0, kDim * i, kDim);
    return at::stack(y.chunk(kHeads, 2), 1).detach();
  };
  AttentionInput in;
  in.queries = part(queries, 0), in.keys = part(keys, 1), in.values = part(keys, 2);
  return in;
}

/// Places [B or 1, L, P], or 0, 1, 2, ..., as [B, L, P] float64.
Tensor every_place(const Tensor& given, std::int64_t length) {
  const Tensor all = given.defined() ? given.to(at::kDouble)
                                     : at::arange(length, at::kDouble).view({1, length, 1});
  return all.expand({kBatch, length, all.size(2)}).contiguous();
}

Tensor naive_turned(const Tensor& x, const Tensor& places, double base) {
  Tensor y = x.clone(at::MemoryFormat::Contiguous);
  auto out = y.accessor<double, 4>();
  const auto at = places.accessor<double, 3>();
  const std::int64_t pairs = kWidth / (2 * places.size(2));
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t h = 0; h < x.size(1); ++h) {
      for (std::int64_t i = 0; i < x.size(2); ++i) {
        for (std::int64_t n = 0; n < pairs * places.size(2); ++n) {
          const double rate = std::pow(base, -double(n % pairs) / double(pairs));
          const double angle = at[b][i][n / pairs] * rate;
          const double even = out[b][h][i][2 * n], odd = out[b][h][i][2 * n + 1];
          out[b][h][i][2 * n] = even * std::cos(angle) - odd * std::sin(angle);
          out[b][h][i][2 * n + 1] = even * std::sin(angle) + odd * std::cos(angle);
        }
      }
    }
  }
  return y;
}

/// The last bucket that begins at no more than the distance.
std::int64_t naive_bucket(double offset, bool causal) {
  const std::int64_t own = causal ? kT5.buckets : kT5.buckets / 2, exact = own / 2;
  const std::int64_t first = !causal && offset > 0 ? own : 0;
  const double distance = causal ? std::max(-offset, 0.0) : std::abs(offset);
  const auto begins = [&](std::int64_t b) {
    const double share = double(b - exact) / double(own - exact);
    return b < exact ? double(b)
                     : double(exact) * std::pow(double(kT5.max_distance) / double(exact), share);
  };
  std::int64_t bucket = 0;
  while (bucket + 1 < own && begins(bucket + 1) <= distance + 1e-6) ++bucket;
  return first + bucket;
}

Tensor naive_bias(const Positions& positions, const Tensor& table, const AttentionInput& in,
                  const Tensor& queries, const Tensor& keys) {
  Tensor bias = at::zeros({kBatch, kHeads, in.query_count(), in.key_count()}, at::kDouble);
  auto out = bias.accessor<double, 4>();
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t i = 0; i < in.query_count(); ++i) {
        for (std::int64_t j = 0; j < in.key_count(); ++j) {
          Row offset = row(keys, {b, j});
          const Row from = row(queries, {b, i});
          for (std::size_t p = 0; p < offset.size(); ++p) offset[p] -= from[p];
          const double slope = std::pow(2.0, -8.0 * double(h + 1) / double(kHeads));
          out[b][h][i][j] =
              positions.kind == Kind::alibi
                  ? -slope * std::sqrt(testing::dot(offset, offset))
                  : table[h * kT5.buckets + naive_bucket(offset[0], in.visible.causal)]
                        .item<double>();
        }
      }
    }
  }
  return bias;
}

/// Linear attention by its definition, [B, H, Lq, D].
Tensor naive_linear(const AttentionInput& in) {
  const auto feature = [](Row x) {
    for (double& c : x) c = c > 0 ? c + 1 : std::exp(c);
    return x;
  };
  Tensor out = at::zeros_like(in.queries);
  for (std::int64_t b = 0; b < in.batch(); ++b) {
    for (std::int64_t h = 0; h < in.heads(); ++h) {
      for (std::int64_t i = 0; i < in.query_count(); ++i) {
        double sum = 1e-6;
        Tensor y = at::zeros({in.values.size(3)}, at::kDouble);
        for (std::int64_t j = 0; j < in.key_count(); ++j) {
          if (!testing::sees(in, b, h, i, j)) continue;
          const double weight =
              testing::dot(feature(row(in.queries, {b, h, i})), feature(row(in.keys, {b, h, j})));
          sum += weight;
          y += in.values[b][h][j] * weight;
        }
        out[b][h][i] = y / sum;
      }
    }
  }
  return out;
}

/// The whole layer by its definition.
Tensor naive(const MultiHeadAttention& layer, const Positions& positions, const std::string& id,
             const Tensor& queries, const Tensor& keys, const AttentionExtras& extras) {
  const auto weights = layer.named_parameters();
  AttentionInput in = projected(layer, queries, keys);
  in.visible = extras.visible;
  const Tensor of_queries = every_place(extras.query_positions, in.query_count());
  const Tensor of_keys = every_place(extras.key_positions, in.key_count());
  if (positions.kind == Kind::rotary) {
    in.queries = naive_turned(in.queries, of_queries, positions.base);
    in.keys = naive_turned(in.keys, of_keys, positions.base);
  } else {
    const Tensor* table = weights.find("positions.table");
    in.bias = naive_bias(positions, table == nullptr ? Tensor() : table->detach(), in, of_queries,
                         of_keys);
  }
  Tensor heads;
  if (id == "linear") {
    heads = naive_linear(in);
  } else if (id == "quest") {
    heads = testing::naive_attention(in, {.scale = 1, .unit_keys = true});
  } else {
    heads = testing::naive_attention(in, {.scale = 1 / std::sqrt(double(kWidth))});
  }
  return at::matmul(at::cat(heads.unbind(1), 2), weights["output.weight"].t()) +
         weights["output.bias"];
}

/// Where 5 queries and 7 keys stand, under a name: in a row from 0 or elsewhere, and not in a row.
struct NamedPlaces {
  const char* name;
  Tensor queries, keys;
};

std::vector<NamedPlaces> one_coordinate() {
  const auto line = [](double first, std::int64_t length) {
    return (at::arange(length, at::kFloat) + first).view({1, length, 1});
  };
  return {{"not given", {}, {}},
          {"in a row", line(4, 5), line(0, 7)},
          {"keys further on", line(1, 5), line(3, 7)},
          {"whole numbers in any order", at::randint(9, {kBatch, 5, 1}, at::kDouble),
           at::randint(9, {kBatch, 7, 1}, at::kDouble)}};
}

std::vector<NamedPlaces> any_places() {
  std::vector<NamedPlaces> all = one_coordinate();
  const auto places = [](std::int64_t batch, std::int64_t length, std::int64_t coordinates) {
    return at::randn({batch, length, coordinates}, at::kDouble) * 3;
  };
  all.push_back({"anywhere", places(kBatch, 5, 1), places(1, 7, 1)});
  all.push_back({"in the plane", places(1, 5, 2), places(1, 7, 2)});
  all.push_back({"in space", places(kBatch, 5, 3), places(kBatch, 7, 3)});
  return all;
}

void expect_naive(const Positions& positions, const std::string& id,
                  const std::vector<NamedPlaces>& places) {
  const auto layer = layer_of(with(positions, id));
  const Tensor queries = random_tokens(5), keys = random_tokens(7);
  AttentionContext context;
  for (const NamedPlaces& where : places) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(id + ", " + where.name + (causal ? ", causal" : ""));
      AttentionExtras extras;
      extras.visible.causal = causal;
      extras.query_positions = where.queries, extras.key_positions = where.keys;
      EXPECT_LT(largest_difference(layer->forward(queries, keys, keys, context, extras),
                                   naive(*layer, positions, id, queries, keys, extras)),
                kTolerance);
    }
  }
  const Tensor x = random_tokens(9);  // farther apart than the last bucket begins
  AttentionExtras extras;
  for (const bool causal : {false, true}) {
    extras.visible.causal = causal;
    EXPECT_LT(largest_difference(layer->forward(x, context, extras),
                                 naive(*layer, positions, id, x, x, extras)),
              kTolerance)
        << id;
  }
}

TEST(LayerPositions, TurnQueriesAndKeysBeforeTheMapsOfAnyAttention) {
  for (const char* id : {"standard", "quest", "linear"}) expect_naive(kRotary, id, any_places());
}

TEST(LayerPositions, AddABiasThatFallsWithTheDistance) {
  for (const char* id : {"standard", "quest"}) expect_naive(kAlibi, id, any_places());
}

TEST(LayerPositions, AddABiasThatIsLearnedForEachHeadAndBucket) {
  for (const char* id : {"standard", "quest"}) expect_naive(kT5, id, one_coordinate());
}

TEST(LayerPositions, HaveTheBucketsOfTheAuthorsCode) {
  // Its 32 buckets up to 128 under the causal rule: 16 of one distance each, then ranges that begin
  // at 16 * 8^(k / 16).
  MultiHeadOptions options;
  options.dim = kDim, options.heads = kHeads;
  MultiHeadAttention layer(options, with({Kind::t5}));
  layer.to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (const auto& item : layer.named_parameters()) Tensor(item.value()).zero_();
  const auto weights = layer.named_parameters();
  ASSERT_EQ(weights["positions.table"].sizes(), at::IntArrayRef({kHeads * 32}));
  // Values tell their key's place, and one bucket alone is seen.
  const std::int64_t length = 150;
  Tensor x = at::zeros({1, length, kDim}, at::kDouble);
  x.select(2, 0).copy_(at::arange(length, at::kDouble).unsqueeze(0));
  weights["qkv.weight"][2 * kDim][0] = 1;
  weights["output.weight"][0][0] = 1;
  AttentionContext context;
  AttentionExtras extras;
  extras.visible.causal = true;
  const auto middle = [&](std::int64_t bucket) {  // of the distances in a bucket
    weights["positions.table"].fill_(-1000).view({kHeads, 32}).select(1, bucket).fill_(0);
    const double place = layer.forward(x, context, extras)[0][length - 1][0].item<double>();
    return double(length - 1) - place;
  };
  for (const auto& [bucket, first, last] :
       {std::tuple(0, 0, 0), std::tuple(15, 15, 15), std::tuple(16, 16, 18), std::tuple(17, 19, 20),
        std::tuple(24, 46, 51), std::tuple(30, 99, 112), std::tuple(31, 113, 149)}) {
    EXPECT_NEAR(middle(bucket), 0.5 * (first + last), 1e-9) << bucket;
  }
}

TEST(LayerPositions, ThatAreLearnedStartAsNone) {
  MultiHeadOptions options;
  options.dim = kDim, options.heads = kHeads;
  at::manual_seed(3);
  MultiHeadAttention plain(options, with({}));
  at::manual_seed(3);
  MultiHeadAttention learned(options, with({Kind::t5}));
  const Tensor x = at::randn({kBatch, 5, kDim});
  AttentionContext context;
  EXPECT_LT(largest_difference(learned.forward(x, context), plain.forward(x, context)), 1e-6);
  EXPECT_FALSE(plain.named_parameters().contains("positions.table"));
}

/// Causal attentions that each kind can stand beside, some with a memory of their own.
std::vector<std::string> writers(const Positions& positions) {
  if (positions.kind != Kind::rotary) return {"standard", "quest"};
  return {"standard", "quest", "linear", "gated_delta_net"};
}

const Projection kProjections[] = {{}, {1, 0}, {0, 6}, {1, 6}};

TEST(LayerPositions, WriteTokenByTokenWhatTheWholeTextGives) {
  AttentionExtras causal;
  causal.visible.causal = true;
  for (const Positions& positions : {kRotary, kAlibi, kT5}) {
    for (const std::string& id : writers(positions)) {
      for (const Projection& projection : kProjections) {
        SCOPED_TRACE(id + ", key_heads " + std::to_string(projection.key_heads) + ", rank " +
                     std::to_string(projection.rank));
        const auto layer = layer_of(with(positions, id, projection));
        const Tensor x = random_tokens(11);
        KeyCache cache;
        for (std::int64_t first = 0, count = 3; first < 11; first += count, count = 1) {
          AttentionContext context;
          AttentionExtras extras = causal;
          set_places(first, count, extras);
          const Tensor written =
              layer->forward_cached(x.narrow(1, first, count), cache, context, extras);
          const Tensor whole = layer->forward(x.narrow(1, 0, first + count), context, causal);
          EXPECT_LT(largest_difference(written, whole.narrow(1, first, count)), 1e-9) << first;
        }
      }
    }
  }
}

/// The mean of all queries so far, in each row: queries depend on each other.
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

TEST(LayerPositions, TurnQueriesThatAreAskedAgainOnce) {
  const auto layer = layer_of([](const AttentionShape& shape) {
    auto attention = std::make_shared<MeanOfQueries>(shape);
    attention->set_positions(kRotary);
    return attention;
  });
  const Tensor x = random_tokens(6);
  AttentionContext context;
  AttentionExtras causal;
  causal.visible.causal = true;
  const Tensor whole = layer->forward(x, context, causal);
  KeyCache cache;
  for (std::int64_t t = 0; t < 6; t += 2) {
    const Tensor written = layer->forward_cached(x.narrow(1, t, 2), cache, context, causal);
    EXPECT_LT(largest_difference(written, whole.narrow(1, t, 2)), 1e-9) << t;
  }
}

// Keys that are forgotten leave the others where they are to each other.
TEST(LayerPositions, SlideOverATextThatIsForgotten) {
  AttentionExtras causal;
  causal.visible.causal = true;
  for (const Positions& positions : {kRotary, kAlibi, kT5}) {
    for (const Projection& projection : kProjections) {
      const auto layer = layer_of(with(positions, "quest", projection));
      const Tensor x = random_tokens(9);
      KeyCache cache;
      for (std::int64_t t = 0; t < 9; ++t) {
        AttentionContext context;
        AttentionExtras extras = causal;
        set_places(cache.tokens(), 1, extras);  // counted anew, as Transformer-XL does
        const Tensor written = layer->forward_cached(x.narrow(1, t, 1), cache, context, extras);
        const std::int64_t seen = std::min<std::int64_t>(t, 3) + 1;
        const Tensor whole = layer->forward(x.narrow(1, t + 1 - seen, seen), context, causal);
        EXPECT_LT(largest_difference(written, whole.narrow(1, seen - 1, 1)), 1e-9) << t;
        cache = cache.last(3);
        EXPECT_EQ(cache.place.defined(), positions.kind == Kind::rotary);
      }
    }
  }
}

TEST(LayerPositions, SurviveBeingCarried) {
  AttentionExtras causal;
  causal.visible.causal = true;
  const auto layer = layer_of(with(kRotary));
  const Tensor x = random_tokens(6);
  AttentionContext context;
  std::vector<KeyCache> caches(1);
  layer->forward_cached(x.narrow(1, 0, 5), caches[0], context, causal);
  NamedTensors carried;
  write_caches(caches, 2, carried);
  caches = read_caches(carried, 1);
  const Tensor written = layer->forward_cached(x.narrow(1, 5, 1), caches[0], context, causal);
  const Tensor whole = layer->forward(x.narrow(1, 3, 3), context, causal);
  EXPECT_LT(largest_difference(written, whole.narrow(1, 2, 1)), 1e-9);
}

TEST(LayerPositions, ReachIntoAMemoryAndToLearnedPlaces) {
  for (const Positions& positions : {kRotary, kAlibi, kT5}) {
    for (const Projection& projection : kProjections) {
      const auto layer = layer_of(with(positions, "quest", projection));
      const Tensor before = random_tokens(4), x = random_tokens(5);
      AttentionContext context;
      AttentionExtras causal, behind;
      causal.visible.causal = behind.visible.causal = true;
      set_places(4, 5, behind);
      const Tensor whole = layer->forward(at::cat({before, x}, 1), context, causal);
      EXPECT_LT(largest_difference(layer->forward_after(before, x, context, behind),
                                   whole.narrow(1, 4, 5)),
                1e-9);
      const Tensor places = at::randn({4, kDim}, at::kDouble);
      const Tensor first = x.narrow(1, 0, 1), placed = before + places;
      EXPECT_LT(largest_difference(layer->forward_placed(first, before, places, context),
                                   layer->forward(first, placed, placed, context)),
                1e-9);
    }
  }
}

TEST(LayerPositions, OfAnEnsembleAreEachMembersOwn) {
  constexpr std::int64_t kMembers = 3, kLength = 7;
  const Tensor places = at::randint(9, {kMembers * kBatch, kLength, 1}, at::kDouble);
  for (const Positions& positions : {kRotary, kAlibi, kT5}) {
    for (const std::string& id : {std::string("standard"), std::string("qknorm")}) {
      const auto together = layer_of(with(positions, id), kMembers);
      const Tensor x = random_tokens(kLength, kMembers * kBatch);
      for (const bool placed : {false, true}) {
        if (placed && id == "qknorm") continue;  // its heads stand side by side
        SCOPED_TRACE(id + (placed ? ", at places of their own" : ""));
        AttentionContext context;
        AttentionExtras extras;
        if (placed) extras.query_positions = extras.key_positions = places;
        const Tensor found = together->forward(x, context, extras);
        for (std::int64_t m = 0; m < kMembers; ++m) {
          const auto single = layer_of(with(positions, id));
          const at::NoGradGuard no_gradients;
          for (const auto& item : single->named_parameters()) {
            const Tensor all = together->named_parameters()[item.key()];
            Tensor(item.value()).copy_(all.chunk(kMembers)[static_cast<std::size_t>(m)]);
          }
          AttentionExtras own = extras;
          if (placed) {
            own.query_positions = own.key_positions = places.narrow(0, m * kBatch, kBatch);
          }
          const Tensor alone = single->forward(x.narrow(0, m * kBatch, kBatch), context, own);
          EXPECT_LT(largest_difference(found.narrow(0, m * kBatch, kBatch), alone), 1e-9) << m;
        }
      }
    }
  }
}

TEST(LayerPositions, HaveRightGradients) {
  AttentionExtras causal;
  causal.visible.causal = true;
  for (const Positions& positions : {kRotary, kAlibi, kT5}) {
    const auto layer = layer_of(with(positions, "quest"));
    const Tensor x = random_tokens(5);
    AttentionContext context;
    const auto f = [&] { return layer->forward(x, context, causal); };
    EXPECT_LT(testing::leaf_gradient_error(f, layer->parameters()), 1e-6);
  }
}

TEST(LayerPositions, WorkInSixteenBits) {
  for (const Positions& positions : {kRotary, kAlibi, kT5}) {
    const auto layer = layer_of(with(positions));
    const Tensor x = random_tokens(5);
    AttentionContext context;
    const at::NoGradGuard no_gradients;
    const Tensor expected = layer->forward(x, context);
    layer->to(at::kBFloat16);
    const Tensor found = layer->forward(x.to(at::kBFloat16), context);
    EXPECT_EQ(found.scalar_type(), at::kBFloat16);
    EXPECT_LT(testing::relative_error(found, expected), 0.1);
  }
}

/// Keeps the last input that it was given.
class Spying final : public Attention {
 public:
  Spying(const AttentionShape& shape, bool reads)
      : Attention(shape, {.bias = true, .different_lengths = true, .places = reads}) {}
  AttentionInput seen;

 protected:
  Tensor attend(const AttentionInput& in, AttentionContext&) override {
    seen = in;
    return at::zeros_like(in.queries);
  }
};

TEST(LayerPositions, ReadPlacesThatTheAttentionDoesNotGet) {
  for (const bool reads : {false, true}) {
    const auto layer = layer_of([reads](const AttentionShape& shape) {
      auto attention = std::make_shared<Spying>(shape, reads);
      attention->set_positions(kRotary);
      return attention;
    });
    auto& spy = static_cast<Spying&>(layer->attention());
    EXPECT_TRUE(spy.traits().places) << "models that know places give them";
    EXPECT_EQ(spy.reads_places(), reads);
    AttentionExtras extras;
    AttentionContext context;
    extras.query_positions = extras.key_positions = at::zeros({1, 4, 2});
    layer->forward(random_tokens(4), context, extras);
    EXPECT_EQ(spy.seen.key_positions.defined(), reads);
    extras.query_positions = extras.key_positions = at::zeros({1, 4, 1});
    layer->forward(random_tokens(4), context, extras);
    EXPECT_TRUE(spy.seen.key_positions.defined()) << "as language models give them to all";
  }
}

TEST(LayerPositions, RefuseWhatDoesNotFitBeforeAnythingRuns) {
  const auto refusal = [](const Positions& positions, std::int64_t heads = kHeads) {
    return message_of<ConfigError>([&] {
      MultiHeadOptions options;
      options.dim = kDim, options.heads = heads;
      MultiHeadAttention(options, with(positions));
    });
  };
  EXPECT_THAT(refusal({Kind::rotary, 0.5}),
              AllOf(HasSubstr("attention.positions.base"), HasSubstr("take 10000")));
  EXPECT_THAT(refusal({Kind::rotary, 0}), HasSubstr("attention.positions.base"));
  EXPECT_THAT(refusal(kRotary, kDim),
              AllOf(HasSubstr("attention.positions.use"), HasSubstr("wider heads")));
  EXPECT_THAT(refusal({Kind::t5, 1, 2, 6}), HasSubstr("attention.positions.buckets"));
  EXPECT_THAT(refusal({Kind::t5, 1, 32, 16}),
              AllOf(HasSubstr("attention.positions.max_distance"), HasSubstr("make it larger")));
}

TEST(LayerPositions, RefuseInputsThatTheyCannotServe) {
  const Tensor x = random_tokens(4);
  const auto pass = [&x](const Positions& positions, const AttentionExtras& extras,
                         const std::string& id = "standard") {
    AttentionContext context;
    layer_of(with(positions, id))->forward(x, context, extras);
  };
  AttentionExtras plane, many, ragged, relative;
  plane.query_positions = plane.key_positions = at::zeros({1, 4, 2});
  many.query_positions = many.key_positions = at::zeros({1, 4, 5});
  ragged.visible.query_offsets = ragged.visible.key_offsets = at::tensor({0, 4}, at::kLong);
  relative.relative.keys = at::zeros({kHeads, 7, kWidth}, at::kDouble);
  EXPECT_THAT(message_of<ShapeError>([&] { pass(kRotary, many); }),
              AllOf(HasSubstr("P = 5"), HasSubstr("8 channels"), HasSubstr("wider heads")));
  EXPECT_THAT(
      message_of<ShapeError>([&] { pass(kT5, plane); }),
      AllOf(HasSubstr("attention.positions"), HasSubstr("P = 2"), HasSubstr("rotary or alibi")));
  EXPECT_THAT(message_of<TraitError>([&] { pass(kAlibi, {}, "linear"); }), HasSubstr("'bias'"));
  for (const Positions& positions : {kAlibi, kT5}) {
    EXPECT_THAT(message_of<ShapeError>([&] { pass(positions, ragged); }),
                AllOf(HasSubstr("attention.positions"), HasSubstr("take rotary")));
  }
  for (const bool as_bias : {false, true}) {
    relative.relative_as_bias = as_bias;
    EXPECT_THAT(message_of<ConfigError>([&] { pass(kRotary, relative); }),
                AllOf(HasSubstr("attention.positions"), HasSubstr("model.positions to none")));
    pass(kAlibi, relative);
  }
  KeyCache cache;
  EXPECT_THAT(message_of<ShapeError>([&] {
                AttentionContext context;
                layer_of(with(kRotary))->forward_cached(x, cache, context, plane);
              }),
              HasSubstr("2 coordinates"));
  const AttentionInput in = testing::random_input(1, 2, 3, 3, 4, 4);
  const auto alone = with(kAlibi)({.heads = 2, .head_dim = 4});
  AttentionContext context;
  EXPECT_THAT(message_of<ConfigError>([&] { alone->forward(in, context); }),
              AllOf(HasSubstr("attention.positions"), HasSubstr("choose another model")));
}

}  // namespace
}  // namespace attnlab::layer_positions_test
