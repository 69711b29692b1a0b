// CrossViT against its equations, in plain tensor operations, and its published sizes.
#include <gtest/gtest.h>

#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/sizes_alone.h"
#include "tests/support/naive_attention.h"
#include "tests/support/noted_places.h"
#include "tests/support/plugins.h"

namespace attnlab::crossvit_test {
namespace {

using testing::largest_difference;

constexpr const char* kSmall =
    "preset: '', sizes: [18, 16], patch_sizes: [6, 8], dims: [4, 8], depths: [1, 2], heads: [2, "
    "4], stages: 2, mlp_ratio: 2";

DatasetInfo images(std::int64_t size, std::int64_t classes) {
  DatasetInfo data;
  data.name = "test images";
  data.fields = {{"image", {3, size, size}, at::kFloat}, {"class", {}, at::kLong}};
  data.classes = classes;
  return data;
}

std::shared_ptr<Model> crossvit(const std::string& options, std::int64_t size = 18,
                                std::int64_t classes = 5) {
  return testing::make_model("crossvit", images(size, classes), "{" + options + "}");
}

Tensor logits(Model& model, const Tensor& image, AttentionTrace* trace = nullptr) {
  Batch batch;
  batch.size = image.size(0);
  batch.fields.set("image", image);
  ForwardPass pass{trace};
  return model.forward(batch, pass).at("logits");
}

TEST(CrossVit, PresetsHaveThePublishedParameterCounts) {
  const SizesAlone sizes;
  // The paper's 8.8, 26.7 and 44.3 million; the counts are those of the public code's models.
  EXPECT_EQ(testing::parameter_count(*crossvit("preset: 9d", 240, 1000)), 8'776'592);
  EXPECT_EQ(testing::parameter_count(*crossvit("preset: S", 240, 1000)), 26'856'272);
  EXPECT_EQ(testing::parameter_count(*crossvit("preset: 18d", 240, 1000)), 44'266'976);
}

/// The model again, from its parameters by name.
class Plain {
 public:
  explicit Plain(const Model& model) : parameters_(model.named_parameters()) {}

  Tensor logits(const Tensor& image) {
    Tensor x[2];
    const std::int64_t sizes[] = {18, 16}, patches[] = {6, 8};
    for (int b = 0; b < 2; ++b) {
      const std::string end = std::to_string(b);
      const Tensor own =
          at::upsample_bicubic2d(image, {sizes[b], sizes[b]}, false, c10::nullopt, c10::nullopt);
      const Tensor tokens =
          at::conv2d(own, p("patches" + end + ".weight"), p("patches" + end + ".bias"), patches[b])
              .flatten(2)
              .transpose(1, 2);
      x[b] = at::cat({p("class_token" + end).expand({image.size(0), 1, -1}), tokens}, 1) +
             p("positions" + end);
    }
    for (int s = 0; s < 2; ++s) {
      const std::string stage = "stage" + std::to_string(s) + "_";
      for (int i = 0; i < 1; ++i) x[0] = block(x[0], stage + "branch0_block0.", 2);
      for (int i = 0; i < 2; ++i) {
        x[1] = block(x[1], stage + "branch1_block" + std::to_string(i) + ".", 4);
      }
      const Tensor first = crossed(x[0], x[1], stage + "crossing0.", 4);
      x[1] = crossed(x[1], x[0], stage + "crossing1.", 2);
      x[0] = first;
    }
    return (head(x[0], "0") + head(x[1], "1")) / 2;
  }

 private:
  Tensor p(const std::string& name) const { return parameters_[name]; }
  Tensor norm(const Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {x.size(-1)}, p(name + ".weight"), p(name + ".bias"), 1e-6);
  }
  Tensor linear(const Tensor& x, const std::string& name) const {
    return at::linear(x, p(name + ".weight"), p(name + ".bias"));
  }
  Tensor attended(const Tensor& from, const Tensor& to, const std::string& name,
                  std::int64_t heads) const {
    const std::int64_t dim = to.size(2), head = dim / heads;
    const Tensor weight = p(name + "qkv.weight"), bias = p(name + "qkv.bias");
    const auto part = [&](const Tensor& x, std::int64_t which) {
      return at::linear(x, weight.narrow(0, which * dim, dim), bias.narrow(0, which * dim, dim))
          .view({x.size(0), x.size(1), heads, head})
          .transpose(1, 2);
    };
    const Tensor products = part(from, 0).matmul(part(to, 1).transpose(-1, -2));
    const Tensor weights = (products / std::sqrt(double(head))).softmax(-1);
    const Tensor y = weights.matmul(part(to, 2)).transpose(1, 2).reshape(from.sizes());
    return linear(y, name + "output");
  }
  Tensor block(const Tensor& x, const std::string& name, std::int64_t heads) const {
    const Tensor before = norm(x, name + "attention_norm");
    const Tensor y = x + attended(before, before, name + "attention.", heads);
    return y +
           linear(at::gelu(linear(norm(y, name + "mlp_norm"), name + "mlp.in")), name + "mlp.out");
  }
  Tensor crossed(const Tensor& own, const Tensor& other, const std::string& name,
                 std::int64_t heads) const {
    const Tensor token =
        linear(at::gelu(norm(own.slice(1, 0, 1), name + "out_norm")), name + "out");
    const Tensor y = norm(at::cat({token, other.slice(1, 1)}, 1), name + "norm");
    const Tensor read = token + attended(y.slice(1, 0, 1), y, name + "attention.", heads);
    const Tensor back = linear(at::gelu(norm(read, name + "back_norm")), name + "back");
    return at::cat({back, own.slice(1, 1)}, 1);
  }
  Tensor head(const Tensor& x, const std::string& end) const {
    return linear(norm(x, "norm" + end).select(1, 0), "head" + end);
  }

  torch::OrderedDict<std::string, Tensor> parameters_;
};

TEST(CrossVit, IsItsEquations) {
  at::manual_seed(1);
  const auto model = crossvit(kSmall);
  for (Tensor& parameter : model->parameters()) parameter.data().normal_(0, 0.3);
  const Tensor x = at::randn({2, 3, 18, 18});
  EXPECT_LT(largest_difference(logits(*model, x).detach(), Plain(*model).logits(x).detach()), 1e-5);
}

TEST(CrossVit, ReadsTheOtherBranchByItsClassTokenAlone) {
  at::manual_seed(2);
  const auto model = crossvit(kSmall);
  AttentionTrace trace;
  trace.weights = true;
  logits(*model, at::randn({2, 3, 18, 18}), &trace);
  ASSERT_EQ(trace.layers.size(), 10U);  // two stages of 1 + 2 blocks and 2 crossings
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(trace.layers[i].layer, std::int64_t(i));
    shapes.push_back(trace.layers[i].weights.sizes().vec());
  }
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shapes[0], (Shape{2, 2, 10, 10}));
  EXPECT_EQ(shapes[1], (Shape{2, 4, 5, 5}));
  EXPECT_EQ(shapes[3], (Shape{2, 4, 1, 5}));
  EXPECT_EQ(shapes[4], (Shape{2, 2, 1, 10}));
}

// Three patches a side in the first branch, two in the second.
TEST(CrossVit, TellsEveryLayerWhereTheTokensThatItReadsStand) {
  std::vector<testing::NotedPlaces> noted;
  const auto model =
      testing::noting_places("crossvit", images(18, 5), "{" + std::string(kSmall) + "}", noted);
  logits(*model, at::randn({2, 3, 18, 18}));
  ASSERT_EQ(noted.size(), 10U);
  const auto tokens = [](std::int64_t side) {
    const double middle = double(side - 1) / 2;
    std::vector<double> all = {middle, middle};
    for (std::int64_t i = 0; i < side * side; ++i) {
      all.push_back(double(i / side));
      all.push_back(double(i % side));
    }
    return at::tensor(all, at::kDouble).view({1, -1, 2});
  };
  const std::int64_t sides[] = {3, 2, 2, 2, 3};  // by layer of a stage
  for (const testing::NotedPlaces& layer : noted) {
    const std::int64_t within = layer.layer % 5;
    const Tensor expected = tokens(sides[within]);
    const bool crossing = within >= 3;
    EXPECT_LT(largest_difference(layer.keys, expected), 1e-6) << layer.layer;
    EXPECT_LT(largest_difference(layer.queries, crossing ? expected.narrow(1, 0, 1) : expected),
              1e-6)
        << layer.layer;
  }
}

TEST(CrossVit, DropsPathsAsThePublishedCode) {
  std::vector<double> rates;
  for (const auto& module : crossvit(std::string(kSmall) + ", drop_path: 0.3")->modules()) {
    const auto* drop = dynamic_cast<const DropPath*>(module.get());
    if (drop != nullptr) rates.push_back(drop->probability());
  }
  // linspace(0, 0.3, 2 stages of 2 blocks): the first branch has the first rate of each stage.
  const std::vector<double> expected = {0, 0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3};
  ASSERT_EQ(rates.size(), expected.size());
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-12) << i;
}

// Stages of one and two blocks beside each other, and the attention across behind them.
TEST(CrossVit, LayersLieBehindEachOther) {
  const auto model = crossvit(kSmall);
  for (const auto& [name, depth] : {std::pair{"patches0.weight", 0},
                                    {"class_token1", 0},
                                    {"positions0", 0},
                                    {"stage0_branch0_block0.mlp.in.weight", 1},
                                    {"stage0_branch1_block0.mlp.in.weight", 1},
                                    {"stage0_branch1_block1.mlp_norm.bias", 2},
                                    {"stage0_crossing0.attention.qkv.weight", 3},
                                    {"stage1_branch0_block0.attention.qkv.bias", 4},
                                    {"stage1_crossing1.back.weight", 6},
                                    {"norm0.weight", 7},
                                    {"head1.bias", 7}}) {
    ASSERT_TRUE(model->named_parameters().contains(name)) << name;
    EXPECT_EQ(model->depth(name), depth) << name;
  }
}

TEST(CrossVit, MakesPatchesByConvolutions) {
  const auto model = crossvit(
      "preset: '', sizes: [24, 32], patch_sizes: [12, 16], dims: [8, 16], depths: [1, 1], heads: "
      "[2, 2], stages: 1, mlp_ratio: 1, stem: convolutions",
      24);
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["positions0"].size(1), 1 + 2 * 2);
  EXPECT_EQ(parameters["patches0.third.weight"].sizes(), at::IntArrayRef({8, 4, 3, 3}));
  EXPECT_EQ(logits(*model, at::randn({2, 3, 24, 24})).sizes(), at::IntArrayRef({2, 5}));
}

TEST(CrossVit, RefusesSizesThatDoNotFit) {
  const auto refusal = [](const std::string& options) {
    try {
      crossvit(options);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(refusal("preset: 9d, heads: [3, 4]").find("3 heads do not divide"), std::string::npos);
  EXPECT_NE(refusal("preset: 9d, sizes: [241, 224]").find("12 does not divide"), std::string::npos);
  EXPECT_NE(refusal("preset: 9d, dims: [8]").find("two numbers"), std::string::npos);
  EXPECT_NE(refusal("preset: ''").find("or a preset"), std::string::npos);
  EXPECT_NE(refusal("mlp_ratio: 1e300").find("1e300 is out of range"), std::string::npos);
  EXPECT_NE(refusal("dims: [4611686018427387904, 8]").find("is out of range"), std::string::npos);
  EXPECT_NE(refusal("preset: 9d, patch_sizes: [8, 16]").find("12 and 16"), std::string::npos);
}

}  // namespace
}  // namespace attnlab::crossvit_test
