// A transformer layer with RMS norms and SwiGLU, against loops in double precision.
#include "framework/nn/modules/transformer_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::transformer_layer_test {
namespace {

using testing::largest_difference;
using testing::Row;
using testing::row;

constexpr std::int64_t kDim = 6, kHeads = 2, kHidden = 5, kTokens = 4;
constexpr double kEps = 1e-3;

/// Numbers of a layer by name.
class Numbers {
 public:
  explicit Numbers(const torch::nn::Module& module) : all_(module.named_parameters()) {}

  Row linear(const Row& x, const std::string& name) const {
    const Tensor& w = all_[name + ".weight"];
    const Tensor* const bias = all_.find(name + ".bias");
    Row y;
    for (std::int64_t o = 0; o < w.size(0); ++o) {
      y.push_back(bias == nullptr ? 0 : (*bias)[o].item<double>());
      for (std::int64_t i = 0; i < w.size(1); ++i) {
        y.back() += w[o][i].item<double>() * x[std::size_t(i)];
      }
    }
    return y;
  }
  Row norm(const Row& x, const std::string& name, bool rms) const {
    const Tensor* const bias = all_.find(name + ".bias");
    double mean = 0, squares = 0;
    for (const double value : x) mean += rms ? 0 : value / double(x.size());
    for (const double value : x) squares += (value - mean) * (value - mean) / double(x.size());
    Row y;
    for (std::size_t c = 0; c < x.size(); ++c) {
      y.push_back((x[c] - mean) / std::sqrt(squares + kEps) *
                  all_[name + ".weight"][std::int64_t(c)].item<double>());
      if (bias != nullptr) y.back() += (*bias)[std::int64_t(c)].item<double>();
    }
    return y;
  }

 private:
  torch::OrderedDict<std::string, Tensor> all_;
};

std::vector<Row> attended(const Numbers& p, const std::vector<Row>& x) {
  const std::size_t width = kDim / kHeads;
  std::vector<Row> packed, out;
  for (const Row& token : x) packed.push_back(p.linear(token, "attention.qkv"));
  for (std::size_t i = 0; i < x.size(); ++i) {
    Row merged;
    for (std::size_t h = 0; h < std::size_t(kHeads); ++h) {
      std::vector<double> weights;
      double sum = 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        double logit = 0;
        for (std::size_t c = 0; c < width; ++c) {
          logit += packed[i][h * width + c] * packed[j][std::size_t(kDim) + h * width + c];
        }
        weights.push_back(std::exp(logit / std::sqrt(double(width))));
        sum += weights.back();
      }
      for (std::size_t c = 0; c < width; ++c) {
        merged.push_back(0);
        for (std::size_t j = 0; j < x.size(); ++j) {
          merged.back() += weights[j] / sum * packed[j][2 * std::size_t(kDim) + h * width + c];
        }
      }
    }
    out.push_back(p.linear(merged, "attention.output"));
  }
  return out;
}

Row gated(const Numbers& p, const Row& x) {
  const Row both = p.linear(x, "mlp.in");
  Row hidden;
  for (std::size_t c = 0; c < std::size_t(kHidden); ++c) {
    hidden.push_back(both[c] / (1 + std::exp(-both[c])) * both[std::size_t(kHidden) + c]);
  }
  return p.linear(hidden, "mlp.out");
}

Row plus(Row a, const Row& b) {
  for (std::size_t c = 0; c < a.size(); ++c) a[c] += b[c];
  return a;
}

/// The layer, one token and number after the other. @param x  [L, dim]
Tensor by_loops(const TransformerLayer& layer, const Tensor& x, bool norm_first, bool rms) {
  const Numbers p(layer);
  std::vector<Row> tokens, in;
  for (std::int64_t i = 0; i < x.size(0); ++i) {
    tokens.push_back(row(x[i]));
    in.push_back(norm_first ? p.norm(tokens.back(), "attention_norm", rms) : tokens.back());
  }
  const std::vector<Row> seen = attended(p, in);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Row y = plus(tokens[i], seen[i]);
    if (!norm_first) y = p.norm(y, "attention_norm", rms);
    y = plus(y, gated(p, norm_first ? p.norm(y, "mlp_norm", rms) : y));
    out.push_back(at::tensor(norm_first ? y : p.norm(y, "mlp_norm", rms), at::kDouble));
  }
  return at::stack(out);
}

TransformerLayerOptions options_of(bool norm_first, NormKind norm, bool bias) {
  TransformerLayerOptions options;
  options.attention = {
      .dim = kDim, .heads = kHeads, .qkv_bias = bias, .output_bias = bias, .layers = 1};
  options.mlp = {.dim = kDim, .hidden = kHidden, .swiglu = true, .bias = bias};
  options.norm_first = norm_first;
  options.norm = norm;
  options.eps = kEps;
  return options;
}

AttentionBuilder standard() {
  return [](const AttentionShape& shape) { return testing::make_attention("standard", shape); };
}

/// In double precision, no number at its start.
std::shared_ptr<TransformerLayer> layer_of(const TransformerLayerOptions& options) {
  auto layer = std::make_shared<TransformerLayer>(options, standard());
  layer->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : layer->parameters()) {
    parameter.add_(at::randn(parameter.sizes(), parameter.options()), 0.4);
  }
  return layer;
}

TEST(TransformerLayer, WithRmsNormsAndSwigluAgainstLoops) {
  at::manual_seed(4);
  for (const bool norm_first : {true, false}) {
    for (const NormKind norm : {NormKind::rms, NormKind::layer}) {
      const auto layer = layer_of(options_of(norm_first, norm, /*bias=*/norm_first));
      const Tensor x = at::randn({2, kTokens, kDim}, at::kDouble);
      AttentionContext context;
      const Tensor y = layer->forward({x}, context).sum();
      for (std::int64_t b = 0; b < 2; ++b) {
        EXPECT_LT(
            largest_difference(y[b], by_loops(*layer, x[b], norm_first, norm == NormKind::rms)),
            1e-10)
            << norm_first;
      }
    }
  }
}

TEST(TransformerLayer, InSinglePrecisionIsThatOfDouble) {
  at::manual_seed(5);
  const auto wide = layer_of(options_of(true, NormKind::rms, false));
  const auto narrow =
      std::make_shared<TransformerLayer>(options_of(true, NormKind::rms, false), standard());
  {
    const at::NoGradGuard no_gradients;
    auto to = narrow->named_parameters();
    for (const auto& item : wide->named_parameters()) to[item.key()].copy_(item.value());
  }
  const Tensor x = at::randn({2, kTokens, kDim}, at::kDouble);
  const Tensor added = at::randn({2, kTokens, kDim}, at::kDouble);
  AttentionContext context;
  // As behind another layer: the norm adds what that one gave.
  const auto run = [&](TransformerLayer& layer, at::ScalarType type) {
    const Tensor in = x.clone().to(type).requires_grad_();
    const Tensor y = layer.forward({in, added.to(type)}, context).sum();
    y.square().sum().backward();
    return std::pair(y.detach().to(at::kDouble), in.grad().to(at::kDouble));
  };
  const auto [expected, slope] = run(*wide, at::kDouble);
  const auto [found, found_slope] = run(*narrow, at::kFloat);
  EXPECT_LT(largest_difference(found, expected), 1e-4);
  EXPECT_LT(largest_difference(found_slope, slope), 1e-3 * slope.abs().max().item<double>());
}

TEST(TransformerLayer, HasNoBiasInRmsNormsAndTwoMapsInSwiglu) {
  const auto layer = layer_of(options_of(true, NormKind::rms, true));
  const auto all = layer->named_parameters();
  EXPECT_FALSE(all.contains("attention_norm.bias"));
  EXPECT_FALSE(all.contains("mlp_norm.bias"));
  EXPECT_EQ(all["mlp.in.weight"].sizes(), at::IntArrayRef({2 * kHidden, kDim}));
  // Two norms; qkv and output; gate, map and output of the MLP.
  EXPECT_EQ(testing::parameter_count(*layer),
            2 * kDim + 4 * kDim * (kDim + 1) + 2 * kHidden * (kDim + 1) + kDim * (kHidden + 1));
}

TEST(TransformerLayer, NumbersOfLayersAreReadFromNames) {
  EXPECT_EQ(number_behind("layer", "layer12.mlp.in.weight"), 12);
  EXPECT_EQ(number_behind("layer", "layer0.attention.qkv.bias"), 0);
  EXPECT_EQ(number_behind("layer", "norm.weight"), -1);
  EXPECT_EQ(number_behind("layer", "layers"), -1);
}

}  // namespace
}  // namespace attnlab::transformer_layer_test
