// The time-series transformer against its equations, and what padding must not change.
#include <cmath>

#include "framework/nn/modules/layers.h"
#include "tests/support/data_files.h"
#include "tests/support/naive_module.h"
#include "tests/support/noted_places.h"
#include "tests/support/plugins.h"

namespace attnlab::timeseries_transformer_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_model;
using testing::message_of;

DatasetInfo data(std::int64_t length = -1, bool marked = true, std::int64_t channels = 3) {
  DatasetInfo info;
  info.name = "made up";
  info.classes = 4;
  info.fields = {{"series", {length, channels}, at::kFloat}, {"length", {}, at::kLong}};
  if (marked) info.fields.push_back({"valid", {length}, at::kBool});
  return info;
}

/// Series of the given lengths, padded with `filler`.
Batch batch_of(const std::vector<std::int64_t>& lengths, std::int64_t padded, bool marked,
               double filler = 0, std::int64_t channels = 3) {
  at::manual_seed(7);
  Batch batch;
  batch.size = static_cast<std::int64_t>(lengths.size());
  const Tensor series = at::full({batch.size, padded, channels}, filler);
  const Tensor length = at::tensor(lengths, at::kLong);
  for (std::int64_t i = 0; i < batch.size; ++i) {
    const std::int64_t n = lengths[std::size_t(i)];
    series[i].narrow(0, 0, n).copy_(at::randn({n, channels}));
  }
  batch.fields = {{"series", series}, {"length", length}};
  if (marked) batch.fields.set("valid", at::arange(padded) < length.unsqueeze(1));
  return batch;
}

Tensor logits(Model& model, const Batch& batch) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  return model.forward(batch, pass).at("logits");
}

std::shared_ptr<Model> small(const DatasetInfo& info, const std::string& more = "",
                             const std::string& attention = "standard",
                             const std::string& of_attention = "{}") {
  at::manual_seed(3);
  auto model = make_model("timeseries_transformer", info,
                          "{dim: 8, depth: 2, heads: 2, hidden: 12" + more + "}", attention, 1,
                          of_attention);
  model->eval();
  return model;
}

/// Everything of one layer and head written out in double precision, for one series without
/// padding.
class Naive : public testing::NaiveModule {
 public:
  using NaiveModule::NaiveModule;

  /// @param positions  "sinusoidal", "none", "learned" or "relative"
  /// @param series     [L, 3]. @returns [classes].
  Tensor logits(const Tensor& series, bool class_token,
                const std::string& positions = "sinusoidal") const {
    const std::int64_t length = series.size(0), dim = 8;
    Tensor x = at::zeros({length, dim}, at::kDouble);
    const Tensor& weight = p("embedding.weight");
    for (std::int64_t t = 0; t < length; ++t) {
      for (int tap = 0; tap < 3; ++tap) {
        const std::int64_t from = (t + tap - 1 + length) % length;
        x[t] += weight.select(1, tap).matmul(series[from]);
      }
      if (positions == "learned") x[t] += p("positions")[t];
      for (std::int64_t c = 0; c < dim && positions == "sinusoidal"; ++c) {
        const double angle = double(t) / std::pow(10000.0, double(c - c % 2) / double(dim));
        x[t][c] += c % 2 == 0 ? std::sin(angle) : std::cos(angle);
      }
    }
    if (class_token) x = at::cat({p("class_token")[0], x});
    for (const char* i : {"0.", "1."}) {
      const std::string number = i;
      x = block(x, "layer" + number, positions == "relative" ? "relative" + number : "");
    }
    x = norm(x, "norm");
    const Tensor features =
        class_token ? x[0] : (x * 0.5 * (1 + at::erf(x / std::sqrt(2.0)))).flatten();
    return p("head.weight").matmul(features) + p("head.bias");
  }

 private:
  /// What Transformer-XL adds to q_i . k_j of one head: u . k_j + (q_i + w) . r_{i-j}.
  Tensor relative_scores(const Tensor& q, const Tensor& k, std::int64_t h,
                         const std::string& places) const {
    Tensor scores = at::zeros({q.size(0), k.size(0)}, at::kDouble);
    const Tensor u = p(places + "content_bias")[h], w = p(places + "position_bias")[h];
    for (std::int64_t i = 0; i < q.size(0); ++i) {
      for (std::int64_t j = 0; j < k.size(0); ++j) {
        Tensor sine = at::zeros({8}, at::kDouble);
        for (std::int64_t c = 0; c < 8; ++c) {
          const double angle = double(i - j) * std::pow(10000.0, -2.0 * double(c % 4) / 8.0);
          sine[c] = c < 4 ? std::sin(angle) : std::cos(angle);
        }
        const Tensor r = p(places + "places.weight").matmul(sine).narrow(0, 4 * h, 4);
        scores[i][j] = u.dot(k[j]) + (q[i] + w).dot(r);
      }
    }
    return scores;
  }
  /// @param places  of the relative positions' parameters; empty: there are none
  Tensor block(const Tensor& x, const std::string& layer, const std::string& places) const {
    const Tensor qkv = linear(x, layer + "attention.qkv");
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < 2; ++h) {
      const auto part = [&](std::int64_t which) { return qkv.narrow(1, which * 8 + h * 4, 4); };
      Tensor scores = part(0).matmul(part(1).t());
      if (!places.empty()) scores = scores + relative_scores(part(0), part(1), h, places);
      scores = scores / 2.0;  // sqrt of 4 channels
      heads.push_back(scores.softmax(-1).matmul(part(2)));
    }
    const Tensor y =
        norm(x + linear(at::cat(heads, 1), layer + "attention.output"), layer + "attention_norm");
    const Tensor hidden = linear(y, layer + "mlp.in");
    const Tensor gelu = hidden * 0.5 * (1 + at::erf(hidden / std::sqrt(2.0)));
    return norm(y + linear(gelu, layer + "mlp.out"), layer + "mlp_norm");
  }
};

TEST(TimeseriesTransformer, IsItsEquationsWithEitherHead) {
  for (const bool class_token : {true, false}) {
    const auto model = small(data(6, false), class_token ? "" : ", head: concatenated");
    const Batch batch = batch_of({6, 6}, 6, false);
    const Tensor found = logits(*model, batch).to(at::kDouble);
    const Naive naive(*model);
    for (int i = 0; i < 2; ++i) {
      const Tensor expected =
          naive.logits(batch.fields.at("series")[i].to(at::kDouble), class_token);
      EXPECT_LT((found[i] - expected).abs().max().item<double>(), 2e-5) << class_token;
    }
  }
}

TEST(TimeseriesTransformer, HasOtherPositionsWhereAskedFor) {
  const Batch batch = batch_of({6, 6}, 6, false);
  for (const std::string positions : {"none", "learned", "relative"}) {
    for (const bool class_token : {true, false}) {
      const auto model = small(data(6, false), ", positions: " + positions +
                                                   (class_token ? "" : ", head: concatenated"));
      const at::NoGradGuard no_gradients;
      for (const auto& item : model->named_parameters()) {
        if (item.key().find("positions") == 0 || item.key().find("relative") == 0) {
          Tensor(item.value()).normal_(0, 0.5);  // starts of 0.02 hide what goes wrong
        }
      }
      const Tensor found = logits(*model, batch).to(at::kDouble);
      const Naive naive(*model);
      for (int i = 0; i < 2; ++i) {
        const Tensor expected =
            naive.logits(batch.fields.at("series")[i].to(at::kDouble), class_token, positions);
        EXPECT_LT((found[i] - expected).abs().max().item<double>(), 5e-5) << positions;
      }
      for (const auto& item : model->named_parameters()) {
        if (!item.key().ends_with("_bias") && item.key() != "positions") continue;
        EXPECT_FALSE(model->decays(item.key(), item.value())) << item.key();
      }
    }
  }
}

TEST(TimeseriesTransformer, RefusesPositionsThatDoNotFit) {
  EXPECT_THAT(message_of<ConfigError>([] { small(data(), ", positions: learned"); }),
              AllOf(HasSubstr("positions"), HasSubstr("of one length")));
  EXPECT_THAT(message_of<ConfigError>([] {
                make_model("timeseries_transformer", data(),
                           "{dim: 9, heads: 3, positions: relative}");
              }),
              HasSubstr("make it even"));
  const auto model = small(data(6, false), ", positions: learned");
  EXPECT_THAT(message_of<ShapeError>([&] {
                logits(*model, batch_of({7, 7}, 7, false));
              }),
              AllOf(HasSubstr("for 6 time steps"), HasSubstr("has 7")));
}

/// What stands in the padding, how much of it there is and what else is in the batch: all the same.
void expect_blind_to_padding(const std::string& attention, const std::string& options = "{}",
                             const std::string& more = "") {
  const auto model = small(data(), more, attention, options);
  const Tensor alone = logits(*model, batch_of({4, 4}, 4, true));
  const Tensor padded = logits(*model, batch_of({4, 4, 9}, 9, true, 0));
  const Tensor filled = logits(*model, batch_of({4, 4, 9}, 9, true, 1e3));
  EXPECT_TRUE(padded.narrow(0, 0, 2).allclose(alone, 1e-4, 1e-5)) << attention << options;
  EXPECT_TRUE(filled.allclose(padded, 1e-4, 1e-5)) << attention << options;
}

TEST(TimeseriesTransformer, GivesASeriesTheSameWhateverItIsPaddedWith) {
  for (const std::string& attention : testing::attentions_with("padding")) {
    expect_blind_to_padding(attention);
  }
  expect_blind_to_padding("standard", "{}", ", positions: relative");
  expect_blind_to_padding("quest", "{}", ", positions: none");
  expect_blind_to_padding("composed", "{normaliser: {kind: sinkhorn}}");
  expect_blind_to_padding("doubly_stochastic", "{max_iter: 20, total: inverse_n}");
}

TEST(TimeseriesTransformer, SeesPaddingWhereItIsNotMarkedAsPublishedCodeDoes) {
  const auto model = small(data(9, false));
  const Tensor shorter = logits(*model, batch_of({4, 4}, 4, false));
  const Tensor padded = logits(*model, batch_of({4, 4}, 9, false));
  EXPECT_FALSE(padded.allclose(shorter, 1e-3, 1e-3));
}

TEST(TimeseriesTransformer, ConcatenatesRealTimeStepsOnly) {
  const auto model = small(data(6, true), ", head: concatenated");
  const Tensor zeros = logits(*model, batch_of({2, 6}, 6, true, 0));
  const Tensor filled = logits(*model, batch_of({2, 6}, 6, true, 50));
  EXPECT_TRUE(filled.allclose(zeros, 1e-4, 1e-5));
  EXPECT_THAT(message_of<ShapeError>([&] {
                logits(*model, batch_of({2, 5}, 5, true));
              }),
              AllOf(HasSubstr("6 time steps"), HasSubstr("5")));
}

TEST(TimeseriesTransformer, DropsInTrainingOnly) {
  const auto model = small(data());
  const Batch batch = batch_of({5, 3}, 5, true);
  EXPECT_TRUE(logits(*model, batch).equal(logits(*model, batch)));
  model->train();
  at::manual_seed(1);
  const Tensor first = logits(*model, batch);
  const Tensor second = logits(*model, batch);
  EXPECT_FALSE(first.allclose(second));
  at::manual_seed(1);
  EXPECT_TRUE(logits(*model, batch).equal(first));
}

TEST(TimeseriesTransformer, TrainsEveryParameter) {
  for (const char* head : {"", ", head: concatenated"}) {
    const auto model = small(data(5, true), head);
    model->train();
    ForwardPass pass;
    model->forward(batch_of({5, 3}, 5, true), pass).at("logits").pow(2).sum().backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
    }
  }
}

// The class token at 0, and time steps at 1, 2, ...
TEST(TimeseriesTransformer, LeavesTimeToWhereTokensUsuallyStand) {
  std::vector<testing::NotedPlaces> noted;
  const auto model = testing::noting_places("timeseries_transformer", data(),
                                            "{dim: 8, depth: 2, heads: 2, hidden: 12}", noted);
  logits(*model, batch_of({4, 3}, 4, true));
  ASSERT_EQ(noted.size(), 2u);
  for (const testing::NotedPlaces& layer : noted) {
    EXPECT_FALSE(layer.queries.defined() || layer.keys.defined());
  }
}

TEST(TimeseriesTransformer, HasTheParametersOfThePublishedModel) {
  const auto model = make_model("timeseries_transformer", data(29, false, 12));
  const std::int64_t layer = 4 * (128 * 128 + 128) + 2 * 128 * 256 + 256 + 128 + 4 * 128;
  EXPECT_EQ(testing::parameter_count(*model),
            128 * 3 * 12 + 128 + 3 * layer + 2 * 128 + 128 * 4 + 4);
}

TEST(TimeseriesTransformer, StartsAsPyTorchDoes) {
  at::manual_seed(0);
  const auto model = make_model("timeseries_transformer", data(29, false, 12));
  const auto parameters = model->named_parameters();
  const auto bound = [&](const char* name) { return parameters[name].abs().max().item<double>(); };
  EXPECT_NEAR(bound("layer0.attention.qkv.weight"), 1 / std::sqrt(128.0), 1e-4);
  EXPECT_NEAR(bound("layer2.mlp.out.weight"), 1 / std::sqrt(256.0), 1e-4);
  EXPECT_LE(bound("layer1.mlp.out.bias"), 1 / std::sqrt(256.0));
  EXPECT_GT(bound("layer1.mlp.out.bias"), 0);
  EXPECT_NEAR(parameters["embedding.weight"].std().item<double>(), std::sqrt(2 / 1.0001 / 36),
              0.006);
}

/// An attention that cannot hide padding.
class Unmasked final : public Attention {
 public:
  explicit Unmasked(const AttentionShape& shape) : Attention(shape, {}) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override { return input.values; }
};

TEST(TimeseriesTransformer, RefusesAnAttentionThatCannotHidePaddingBeforeAnythingRuns) {
  const AttentionBuilder builder = [](const AttentionShape& shape) {
    return std::make_shared<Unmasked>(shape);
  };
  const Part part = testing::make_part(Kind::model, "timeseries_transformer");
  const DatasetInfo marked = data(), unmarked = data(9, false);
  EXPECT_THAT(message_of<TraitError>([&] {
                testing::registry().model(part, {marked, builder});
              }),
              AllOf(HasSubstr("does not honour 'padding'"), HasSubstr("padding: published")));
  EXPECT_NE(testing::registry().model(part, {unmarked, builder}), nullptr);
}

TEST(TimeseriesTransformer, RefusesWhatItCannotBeBuiltFor) {
  EXPECT_THAT(
      message_of<ConfigError>([] { make_model("timeseries_transformer", data(), "{heads: 7}"); }),
      HasSubstr("7 heads do not divide dim 128"));
  EXPECT_THAT(message_of<ConfigError>(
                  [] { make_model("timeseries_transformer", data(), "{head: concatenated}"); }),
              HasSubstr("padding: maximum or published"));
  DatasetInfo none = data();
  none.classes = 0;
  EXPECT_THAT(message_of<DataError>([&] { make_model("timeseries_transformer", none); }),
              HasSubstr("no classes"));
}

}  // namespace
}  // namespace attnlab::timeseries_transformer_test
