// PatchTST, iTransformer and DLinear against their equations in plain float64 loops.
#include <algorithm>
#include <cmath>

#include "framework/nn/modules/forecasting.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::forecasting_models_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::make_model;
using testing::message_of;

constexpr std::int64_t kLookback = 10, kHorizon = 3, kChannels = 2, kDim = 4, kHeads = 2;
constexpr double kClose = 1e-9;

DatasetInfo data(std::int64_t lookback = kLookback, bool calendar = false,
                 std::int64_t future_channels = kChannels) {
  DatasetInfo info;
  info.name = "made up";
  info.fields = {{.name = "series", .shape = {lookback, kChannels}},
                 {.name = "future", .shape = {kHorizon, future_channels}}};
  if (calendar) info.fields.push_back({.name = "calendar", .shape = {lookback, 4}});
  return info;
}

Batch batch_of(std::int64_t examples, bool calendar = false) {
  at::manual_seed(5);
  Batch batch;
  batch.size = examples;
  batch.fields = {{"series", at::randn({examples, kLookback, kChannels}, at::kDouble) * 3 + 20},
                  {"future", at::zeros({examples, kHorizon, kChannels}, at::kDouble)}};
  if (calendar) batch.fields.set("calendar", at::randn({examples, kLookback, 4}, at::kDouble));
  return batch;
}

/// In float64 and evaluation, all that it keeps moved off its start.
std::shared_ptr<Model> model_of(const std::string& id, const std::string& options,
                                const std::string& attention = "standard",
                                const DatasetInfo& info = data()) {
  at::manual_seed(3);
  auto model = make_model(id, info, options, attention);
  model->to(at::kDouble);
  model->eval();
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.3);
  for (Tensor& buffer : model->buffers()) buffer.add_(at::rand_like(buffer), 0.7);
  return model;
}

Tensor forecast(Model& model, const Batch& batch, AttentionTrace* trace = nullptr) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  pass.trace = trace;
  return model.forward(batch, pass).at("forecast");
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance = kClose) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_LT((found - expected).abs().max().item<double>(), tolerance);
}

using Row = std::vector<double>;
using Rows = std::vector<Row>;

double gelu(double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }

/// A model's numbers by name, and what its layers share, on rows of doubles.
class Loops {
 public:
  explicit Loops(Model& model) {
    for (const auto& item : model.named_parameters()) kept_.set(item.key(), item.value().detach());
    for (const auto& item : model.named_buffers()) kept_.set(item.key(), item.value());
  }

  double number(const std::string& name, std::int64_t i, std::int64_t j = -1) const {
    const Tensor& tensor = kept_.at(name);
    return j < 0 ? tensor[i].item<double>() : tensor[i][j].item<double>();
  }
  std::int64_t rows(const std::string& name) const { return kept_.at(name).size(0); }

  Row linear(const Row& x, const std::string& name) const {
    Row y;
    for (std::int64_t o = 0; o < rows(name + ".weight"); ++o) {
      double sum = number(name + ".bias", o);
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += number(name + ".weight", o, std::int64_t(i)) * x[i];
      }
      y.push_back(sum);
    }
    return y;
  }

  /// Attention of all rows to all, with its projections.
  /// @param logits  by head, query and key: added to, and then those of this layer; null: none
  Rows attention(const Rows& x, const std::string& name, std::vector<Rows>* logits) const {
    Rows qkv, merged(x.size(), Row(kDim));
    for (const Row& row : x) qkv.push_back(linear(row, name + ".qkv"));
    const std::size_t width = kDim / kHeads;
    for (std::size_t h = 0; h < kHeads; ++h) {
      Rows all;
      for (std::size_t i = 0; i < x.size(); ++i) {
        Row scores;
        for (std::size_t j = 0; j < x.size(); ++j) {
          double score = 0;
          for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
            score += qkv[i][c] * qkv[j][kDim + c];
          }
          score /= std::sqrt(double(width));
          if (logits != nullptr && h < logits->size()) score += (*logits)[h][i][j];
          scores.push_back(score);
        }
        const double most = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (const double score : scores) sum += std::exp(score - most);
        for (std::size_t j = 0; j < x.size(); ++j) {
          for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
            merged[i][c] += std::exp(scores[j] - most) / sum * qkv[j][2 * kDim + c];
          }
        }
        all.push_back(scores);
      }
      if (logits == nullptr) continue;
      if (h < logits->size()) {
        (*logits)[h] = all;
      } else {
        logits->push_back(all);
      }
    }
    Rows y;
    for (const Row& row : merged) y.push_back(linear(row, name + ".output"));
    return y;
  }

  Row mlp(const Row& x, const std::string& name) const {
    Row hidden = linear(x, name + ".in");
    for (double& value : hidden) value = gelu(value);
    return linear(hidden, name + ".out");
  }

  Row layer_norm(const Row& x, const std::string& name) const {
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / double(x.size());
    for (const double value : x) variance += std::pow(value - mean, 2) / double(x.size());
    Row y;
    for (std::size_t c = 0; c < x.size(); ++c) {
      y.push_back((x[c] - mean) / std::sqrt(variance + 1e-5) *
                      number(name + ".weight", std::int64_t(c)) +
                  number(name + ".bias", std::int64_t(c)));
    }
    return y;
  }

  /// Over the rows of all sequences, or by the running statistics.
  void batch_norm(std::vector<Rows>& x, const std::string& name, bool training) const {
    for (std::int64_t c = 0; c < kDim; ++c) {
      double mean = 0, variance = 0, count = 0;
      const auto each = [&](const auto& use) {
        for (Rows& rows : x) {
          for (Row& row : rows) use(row[std::size_t(c)]);
        }
      };
      each([&](double) { count += 1; });
      each([&](double value) { mean += value / count; });
      each([&](double value) { variance += std::pow(value - mean, 2) / count; });
      if (!training) {
        mean = number(name + ".running_mean", c);
        variance = number(name + ".running_variance", c);
      }
      each([&](double& value) {
        value = (value - mean) / std::sqrt(variance + 1e-5) * number(name + ".weight", c) +
                number(name + ".bias", c);
      });
    }
  }

 private:
  NamedTensors kept_;
};

/// One channel of one example: its normed steps, and what undoes the norm.
struct Normed {
  Row steps;
  double mean = 0, deviation = 1;

  Normed(const Batch& batch, std::int64_t example, std::int64_t channel, bool norm = true) {
    const Tensor series = batch.fields.at("series");
    for (std::int64_t t = 0; t < kLookback; ++t) {
      steps.push_back(series[example][t][channel].item<double>());
    }
    if (!norm) return;
    double variance = 0;
    for (const double x : steps) mean += x / kLookback;
    for (const double x : steps) variance += (x - mean) * (x - mean) / kLookback;
    deviation = std::sqrt(variance + 1e-5);
    for (double& x : steps) x = (x - mean) / deviation;
  }
};

struct PatchCase {
  std::int64_t stride = 3, depth = 2;
  bool padding = true, residual = false, norm = true, training = false;

  std::string options() const {
    const auto text = [](bool value) { return value ? "true" : "false"; };
    return "{patch: 4, dim: 4, heads: 2, hidden: 6, dropout: 0, stride: " + std::to_string(stride) +
           ", depth: " + std::to_string(depth) + ", padding: " + text(padding) +
           ", residual_logits: " + text(residual) + ", instance_norm: " + text(norm) + "}";
  }
};

Tensor patch_tst_by_loops(Model& model, const Batch& batch, const PatchCase& c) {
  const Loops loops(model);
  std::vector<Rows> x;  // by example and channel
  std::vector<Normed> normed;
  for (std::int64_t i = 0; i < batch.size; ++i) {
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      normed.emplace_back(batch, i, channel, c.norm);
      Row steps = normed.back().steps;
      for (std::int64_t t = 0; c.padding && t < c.stride; ++t) steps.push_back(steps.back());
      Rows tokens;
      for (std::size_t begin = 0; begin + 4 <= steps.size(); begin += std::size_t(c.stride)) {
        const auto from = steps.begin() + std::ptrdiff_t(begin);
        tokens.push_back(loops.linear(Row(from, from + 4), "embedding"));
        for (std::int64_t d = 0; d < kDim; ++d) {
          tokens.back()[std::size_t(d)] +=
              loops.number("positions", std::int64_t(tokens.size()) - 1, d);
        }
      }
      x.push_back(tokens);
    }
  }
  EXPECT_EQ(std::ssize(x.front()), loops.rows("positions")) << "patches";
  std::vector<std::vector<Rows>> logits(x.size());
  for (std::int64_t layer = 0; layer < c.depth; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const auto add = [](Rows& to, const Rows& more) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        for (std::size_t d = 0; d < to[i].size(); ++d) to[i][d] += more[i][d];
      }
    };
    for (std::size_t s = 0; s < x.size(); ++s) {
      add(x[s], loops.attention(x[s], name + ".attention", c.residual ? &logits[s] : nullptr));
    }
    loops.batch_norm(x, name + ".attention_norm", c.training);
    for (Rows& rows : x) {
      Rows more;
      for (const Row& row : rows) more.push_back(loops.mlp(row, name + ".mlp"));
      add(rows, more);
    }
    loops.batch_norm(x, name + ".mlp_norm", c.training);
  }
  const Tensor out = at::zeros({batch.size, kHorizon, kChannels}, at::kDouble);
  for (std::size_t s = 0; s < x.size(); ++s) {
    Row flat;
    for (const Row& row : x[s]) flat.insert(flat.end(), row.begin(), row.end());
    const Row steps = loops.linear(flat, "head");
    for (std::int64_t t = 0; t < kHorizon; ++t) {
      out[std::int64_t(s) / kChannels][t][std::int64_t(s) % kChannels] =
          steps[std::size_t(t)] * normed[s].deviation + normed[s].mean;
    }
  }
  return out;
}

TEST(PatchTst, IsItsEquations) {
  const Batch batch = batch_of(3);
  for (const PatchCase& c :
       {PatchCase{}, PatchCase{.stride = 4, .padding = false}, PatchCase{.norm = false},
        PatchCase{.depth = 3, .residual = true}, PatchCase{.training = true}}) {
    const auto model = model_of("patch_tst", c.options());
    const Tensor expected = patch_tst_by_loops(*model, batch, c);
    model->train(c.training);
    SCOPED_TRACE(c.options());
    expect_near(forecast(*model, batch), expected);
  }
}

TEST(PatchTst, HasAsManyPatchesAsItsNameSays) {
  const auto patches = [](std::int64_t lookback, const std::string& more) {
    const auto model =
        make_model("patch_tst", data(lookback), "{dim: 4, heads: 2, depth: 1" + more + "}");
    return model->named_parameters()["positions"].size(0);
  };
  EXPECT_EQ(patches(336, ""), 42) << "PatchTST/42";
  EXPECT_EQ(patches(512, ""), 64) << "PatchTST/64";
  EXPECT_EQ(patches(336, ", padding: false"), 41);
  EXPECT_EQ(patches(16, ", padding: false"), 1);
}

TEST(PatchTst, ReadsEachChannelByItself) {
  const auto model = model_of("patch_tst", PatchCase{}.options(), "quest");
  const Batch batch = batch_of(2);
  Batch other = batch_of(2);
  other.fields.at("series").select(2, 1).normal_();
  const Tensor before = forecast(*model, batch), after = forecast(*model, other);
  expect_near(after.select(2, 0), before.select(2, 0), 1e-12);
  EXPECT_GT((before - after).select(2, 1).abs().max().item<double>(), 1e-3);
  EXPECT_FALSE(model->decays("positions", model->named_parameters()["positions"]));
}

TEST(PatchTst, RecordsWhatATraceAsksForWhereLogitsAreCarried) {
  const auto model = model_of("patch_tst", PatchCase{.residual = true}.options());
  const Batch batch = batch_of(2);
  AttentionTrace trace;
  trace.weights = true;
  ForwardPass pass;
  pass.trace = &trace;
  model->forward(batch, pass);
  ASSERT_EQ(trace.layers.size(), 2U);
  for (const LayerTrace& layer : trace.layers) {
    EXPECT_EQ(layer.weights.sizes(), (std::vector<std::int64_t>{4, 2, 4, 4}));
    EXPECT_FALSE(layer.weights.requires_grad());
    EXPECT_FALSE(layer.logits.defined());
  }
  std::vector<std::int64_t> layers;
  AttentionTrace logits;
  logits.logits = true;
  logits.on_layer = [&](const LayerTrace& layer) {
    layers.push_back(layer.layer);
    EXPECT_TRUE(layer.logits.defined());
  };
  forecast(*model, batch, &logits);
  EXPECT_EQ(layers, (std::vector<std::int64_t>{0, 1}));
}

TEST(PatchTst, TrainsThroughLogitsOfLayersBefore) {
  const auto model = model_of("patch_tst", PatchCase{.depth = 2, .residual = true}.options());
  const auto gradient = [&] {
    ForwardPass pass;
    model->zero_grad();
    model->forward(batch_of(2), pass).at("forecast").square().sum().backward();
    return model->named_parameters()["layer0.attention.qkv.weight"].grad().clone();
  };
  const Tensor found = gradient();
  Tensor weight = model->named_parameters()["layer0.attention.qkv.weight"];
  const auto loss = [&](double by) {
    const at::NoGradGuard no_gradients;
    weight[1][2] += by;
    const double value = forecast(*model, batch_of(2)).square().sum().item<double>();
    weight[1][2] -= by;
    return value;
  };
  const double slope = (loss(1e-5) - loss(-1e-5)) / 2e-5;
  EXPECT_NEAR(found[1][2].item<double>(), slope, 1e-4 * std::max(1.0, std::abs(slope)));
}

TEST(PatchTst, RefusesWhatDoesNotFit) {
  EXPECT_THAT(message_of<ConfigError>([] { make_model("patch_tst", data(), "{patch: 11}"); }),
              AllOf(HasSubstr("patch"), HasSubstr("10"), HasSubstr("lookback")));
  EXPECT_THAT(
      message_of<ConfigError>([] { make_model("patch_tst", data(), "{patch: 4, heads: 3}"); }),
      AllOf(HasSubstr("heads"), HasSubstr("divide")));
  EXPECT_THAT(message_of<TraitError>([] {
                make_model("patch_tst", data(), PatchCase{.residual = true}.options(), "linear");
              }),
              HasSubstr("no trait 'bias'"));
  for (const char* id : {"patch_tst", "itransformer", "dlinear"}) {
    EXPECT_THAT(message_of<ShapeError>([&] { make_model(id, data(-1), "{}"); }),
                AllOf(HasSubstr(id), HasSubstr("[-1, 2]"), HasSubstr("forecasting")));
    EXPECT_THAT(message_of<ShapeError>([&] { make_model(id, data(kLookback, false, 1), "{}"); }),
                HasSubstr("[3, 1]"));
  }
  const auto model = model_of("patch_tst", PatchCase{}.options());
  Batch batch = batch_of(1);
  batch.fields.set("series", at::zeros({1, 9, kChannels}, at::kDouble));
  EXPECT_THAT(message_of<ShapeError>([&] { forecast(*model, batch); }),
              AllOf(HasSubstr("[1, 9, 2]"), HasSubstr("10 time steps")));
}

Tensor itransformer_by_loops(Model& model, const Batch& batch, bool norm) {
  const Loops loops(model);
  const Tensor out = at::zeros({batch.size, kHorizon, kChannels}, at::kDouble);
  const Tensor* const calendar = batch.fields.find("calendar");
  for (std::int64_t i = 0; i < batch.size; ++i) {
    std::vector<Normed> normed;
    Rows x;
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      normed.emplace_back(batch, i, channel, norm);
      x.push_back(loops.linear(normed.back().steps, "embedding"));
    }
    for (std::int64_t feature = 0; calendar != nullptr && feature < 4; ++feature) {
      Row steps;
      for (std::int64_t t = 0; t < kLookback; ++t) {
        steps.push_back((*calendar)[i][t][feature].item<double>());
      }
      x.push_back(loops.linear(steps, "embedding"));
    }
    for (const std::string name : {"layer0", "layer1"}) {
      const Rows attended = loops.attention(x, name + ".attention", nullptr);
      for (std::size_t k = 0; k < x.size(); ++k) {
        for (std::size_t d = 0; d < kDim; ++d) x[k][d] += attended[k][d];
        x[k] = loops.layer_norm(x[k], name + ".attention_norm");
        const Row more = loops.mlp(x[k], name + ".mlp");
        for (std::size_t d = 0; d < kDim; ++d) x[k][d] += more[d];
        x[k] = loops.layer_norm(x[k], name + ".mlp_norm");
      }
    }
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      const auto c = static_cast<std::size_t>(channel);
      const Row steps = loops.linear(loops.layer_norm(x[c], "norm"), "head");
      for (std::int64_t t = 0; t < kHorizon; ++t) {
        out[i][t][channel] = steps[std::size_t(t)] * normed[c].deviation + normed[c].mean;
      }
    }
  }
  return out;
}

const std::string kInverted = "{dim: 4, heads: 2, depth: 2, hidden: 6, instance_norm: ";

TEST(ITransformer, IsItsEquationsWithAndWithoutACalendar) {
  for (const bool calendar : {false, true}) {
    for (const bool norm : {true, false}) {
      const auto model = model_of("itransformer", kInverted + (norm ? "true}" : "false}"),
                                  "standard", data(kLookback, calendar));
      const Batch batch = batch_of(3, calendar);
      SCOPED_TRACE(calendar);
      expect_near(forecast(*model, batch), itransformer_by_loops(*model, batch, norm));
    }
  }
}

TEST(ITransformer, KnowsNoOrderOfChannelsAndReadsThemAll) {
  const auto model = model_of("itransformer", kInverted + "true}", "quest");
  const Batch batch = batch_of(2);
  Batch turned = batch_of(2), other = batch_of(2);
  turned.fields.set("series", batch.fields.at("series").flip(2));
  const Tensor found = forecast(*model, batch);
  expect_near(forecast(*model, turned), found.flip(2));
  other.fields.at("series").select(2, 1).normal_();
  const Tensor moved = (forecast(*model, other) - found).select(2, 0);
  EXPECT_GT(moved.abs().max().item<double>(), 1e-6);
}

TEST(InstanceNorm, IsUndoneAndMovesForecastsWithTheirSeries) {
  const Batch batch = batch_of(2);
  const Tensor series = batch.fields.at("series");
  const InstanceNorm norm(series);
  const Tensor normed = norm.normed(series);
  EXPECT_LT(normed.mean(1).abs().max().item<double>(), 1e-12);
  EXPECT_LT((normed.square().mean(1) - 1).abs().max().item<double>(), 1e-4);
  expect_near(norm.undone(normed), series);
  Batch moved = batch_of(2), wide = batch_of(2);
  const Tensor by = at::tensor(std::vector<double>{7, -3}, at::kDouble);
  moved.fields.set("series", series + by);
  wide.fields.set("series", series * 50);
  for (const std::string id : {"patch_tst", "itransformer"}) {
    const auto model =
        model_of(id, id == "patch_tst" ? PatchCase{}.options() : kInverted + "true}");
    const Tensor found = forecast(*model, batch);
    expect_near(forecast(*model, moved), found + by);
    expect_near(forecast(*model, wide) / 50, found, 1e-3);
  }
}

TEST(DLinear, IsLinearInTheMovingAverageAndInTheRest) {
  const auto model = model_of("dlinear", "{window: 5}");
  const Batch batch = batch_of(2);
  const Loops loops(*model);
  const Tensor expected = at::zeros({2, kHorizon, kChannels}, at::kDouble);
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      const Row x = Normed(batch, i, channel, false).steps;
      Row trend, rest;
      for (std::int64_t t = 0; t < kLookback; ++t) {
        double sum = 0;
        for (std::int64_t by = -2; by <= 2; ++by) {
          sum += x[std::size_t(std::clamp<std::int64_t>(t + by, 0, kLookback - 1))];
        }
        trend.push_back(sum / 5);
        rest.push_back(x[std::size_t(t)] - sum / 5);
      }
      const Row slow = loops.linear(trend, "trend"), fast = loops.linear(rest, "seasonal");
      for (std::int64_t t = 0; t < kHorizon; ++t) {
        expected[i][t][channel] = slow[std::size_t(t)] + fast[std::size_t(t)];
      }
    }
  }
  expect_near(forecast(*model, batch), expected);
  EXPECT_THAT(message_of<ConfigError>([] { make_model("dlinear", data(), "{window: 4}"); }),
              AllOf(HasSubstr("window"), HasSubstr("odd")));
}

}  // namespace
}  // namespace attnlab::forecasting_models_test
