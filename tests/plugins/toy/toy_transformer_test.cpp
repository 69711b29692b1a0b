// The toy transformer against algorithm A2, line by line, and against the usual pre-norm layer.
#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/naive_module.h"
#include "tests/support/plugins.h"

namespace attnlab::toy_transformer_test {
namespace {

using ::testing::HasSubstr;
using testing::make_model;
using testing::message_of;

constexpr std::int64_t kTokens = 5, kDim = 6;

DatasetInfo data(std::int64_t tokens = kTokens, std::int64_t dim = kDim) {
  DatasetInfo info;
  info.name = "made up";
  info.classes = 4;
  info.fields = {{"series", {tokens, dim}, at::kFloat}};
  return info;
}

Batch batch_of(std::int64_t size = 3) {
  at::manual_seed(11);
  return {{{"series", at::randn({size, kTokens, kDim})}}, size};
}

std::shared_ptr<Model> made(const std::string& options = "{hidden: 7}",
                            const std::string& attention = "standard") {
  at::manual_seed(2);
  auto model = make_model("toy_transformer", data(), options, attention);
  // Norms and biases away from their plain start, so that leaving one out shows.
  const at::NoGradGuard no_gradients;
  for (Tensor& p : model->parameters()) p += 0.3 * at::randn_like(p);
  return model;
}

Tensor logits(Model& model, const Batch& batch, AttentionTrace* trace = nullptr) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  pass.trace = trace;
  return model.forward(batch, pass).at("logits");
}

/// Algorithm A2 in double precision, one sample at a time.
class Naive : public testing::NaiveModule {
 public:
  using NaiveModule::NaiveModule;

  Tensor embedded(const Tensor& series) const {
    return at::cat({p("class_token"), series.to(at::kDouble)}) + p("positions");  // lines 6, 7
  }
  Tensor as_printed(const Tensor& series) const {
    const Tensor x = embedded(series);
    Tensor y = norm(x, "norm1");  // line 8
    y = y + attention(x);         // lines 9 to 12
    y = x + norm(y, "norm2");     // line 13
    y = x + mlp(y);               // line 14
    return linear(y[0], "head");  // line 15
  }
  Tensor pre_norm(const Tensor& series) const {
    Tensor x = embedded(series);
    x = x + attention(norm(x, "norm1"));
    x = x + mlp(norm(x, "norm2"));
    return linear(norm(x, "norm")[0], "head");
  }
  Tensor keys(const Tensor& x) const { return part(x, 1); }

 private:
  Tensor part(const Tensor& x, std::int64_t which) const {
    return linear(x, "attention.qkv").narrow(1, which * kDim, kDim);
  }
  Tensor attention(const Tensor& x) const {
    const Tensor scores = part(x, 0).matmul(part(x, 1).t()) / std::sqrt(double(kDim));
    const Tensor weights = scores.exp() / scores.exp().sum(1, true);
    return linear(weights.matmul(part(x, 2)), "attention.output");
  }
  Tensor mlp(const Tensor& x) const {
    const Tensor hidden = linear(x, "mlp_in");
    return linear(hidden * 0.5 * (1 + at::erf(hidden / std::sqrt(2.0))), "mlp_out");
  }
};

TEST(ToyTransformer, IsAlgorithmA2AsPrinted) {
  const auto model = made();
  const Batch batch = batch_of();
  const Tensor found = logits(*model, batch).to(at::kDouble);
  const Naive naive(*model);
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor expected = naive.as_printed(batch.fields.at("series")[i]);
    EXPECT_LT((found[i] - expected).abs().max().item<double>(), 1e-4);
  }
}

TEST(ToyTransformer, IsTheUsualPreNormLayerWhereAsked) {
  const auto model = made("{hidden: 7, block: pre_norm}");
  const Batch batch = batch_of();
  const Tensor found = logits(*model, batch).to(at::kDouble);
  const Naive naive(*model);
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor expected = naive.pre_norm(batch.fields.at("series")[i]);
    EXPECT_LT((found[i] - expected).abs().max().item<double>(), 1e-4);
  }
}

TEST(ToyTransformer, GivesKeysOfTokensThatWereNotNormalised) {
  const auto model = made();
  const Batch batch = batch_of(1);
  AttentionTrace trace;
  trace.norms = true;
  logits(*model, batch, &trace);
  ASSERT_EQ(trace.layers.size(), 1U);
  const Naive naive(*model);
  const Tensor expected = naive.keys(naive.embedded(batch.fields.at("series")[0])).norm(2, 1);
  const Tensor found = trace.layers[0].key_norms[0][0].to(at::kDouble);
  ASSERT_EQ(found.numel(), kTokens + 1);
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-4);
}

TEST(ToyTransformer, HasTheSizeOfThePapersModel) {
  DatasetInfo info = data(20, 20);
  info.classes = 10;
  const auto count = [&](const char* options) {
    std::int64_t sum = 0;
    const auto model = make_model("toy_transformer", info, options);
    for (const Tensor& p : model->parameters()) sum += p.numel();
    return sum;
  };
  const std::int64_t expected = 20 + 21 * 20 + 4 * (20 * 20 + 20)  // token, positions, attention
                                + 2 * (20 * 20 + 20) + 2 * 2 * 20 + 20 * 10 + 10;
  EXPECT_EQ(count("{}"), expected);
  EXPECT_EQ(count("{block: pre_norm}"), expected + 2 * 20);
}

TEST(ToyTransformer, WorksWithEveryAttention) {
  int tried = 0;
  for (const std::string& name : testing::attentions_without("ordered")) {
    const auto model = made("{}", name);
    const Batch batch = batch_of();
    ForwardPass pass;
    const Tensor out = model->forward(batch, pass).at("logits");
    EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{3, 4})) << name;
    EXPECT_TRUE(out.isfinite().all().item<bool>()) << name;
    out.pow(2).sum().backward();
    for (const auto& item : model->named_parameters()) {
      EXPECT_TRUE(item.value().grad().defined()) << name << ": " << item.key();
    }
    ++tried;
  }
  EXPECT_GT(tried, 10);
}

TEST(ToyTransformer, StartsAsItsOptionsSay) {
  at::manual_seed(0);
  const auto uniform = make_model("toy_transformer", data(20, 20), "{position_std: 0.5}");
  const auto p = uniform->named_parameters();
  EXPECT_NEAR(p["head.weight"].abs().max().item<double>(), 1 / std::sqrt(20.0), 0.01);
  EXPECT_NEAR(p["attention.qkv.weight"].abs().max().item<double>(), 1 / std::sqrt(20.0), 0.001);
  EXPECT_GT(p["attention.output.bias"].abs().max().item<double>(), 0.1);
  EXPECT_NEAR(p["positions"].std().item<double>(), 0.5, 0.06);
  EXPECT_LT(p["class_token"].abs().max().item<double>(), 0.1);
  const auto normal = make_model("toy_transformer", data(20, 20), "{start: truncated_normal}");
  const auto n = normal->named_parameters();
  EXPECT_NEAR(n["attention.qkv.weight"].std().item<double>(), 0.02, 0.002);
  EXPECT_EQ(n["head.bias"].abs().max().item<double>(), 0);
}

TEST(ToyTransformer, DecaysAllOrMatricesOnly) {
  const auto decayed = [](const char* options) {
    std::vector<std::string> names;
    const auto model = make_model("toy_transformer", data(), options);
    for (const auto& item : model->named_parameters()) {
      if (model->decays(item.key(), item.value())) names.push_back(item.key());
    }
    return names;
  };
  EXPECT_EQ(decayed("{}").size(), made()->named_parameters().size());
  EXPECT_THAT(decayed("{decay: matrices}"),
              ::testing::UnorderedElementsAre("attention.qkv.weight", "attention.output.weight",
                                              "mlp_in.weight", "mlp_out.weight", "head.weight"));
}

TEST(ToyTransformer, RefusesWhatItCannotBeBuiltFor) {
  EXPECT_THAT(message_of<DataError>([] { make_model("toy_transformer", data(-1)); }),
              HasSubstr("differ in length"));
  DatasetInfo marked = data();
  marked.fields.push_back({"valid", {kTokens}, at::kBool});
  EXPECT_THAT(message_of<DataError>([&] { make_model("toy_transformer", marked); }),
              HasSubstr("marks padding"));
  DatasetInfo none = data();
  none.classes = 0;
  EXPECT_THAT(message_of<DataError>([&] { make_model("toy_transformer", none); }),
              HasSubstr("no classes"));
  const auto model = made();
  EXPECT_THAT(message_of<ShapeError>([&] {
                logits(*model, {{{"series", at::zeros({2, 4, kDim})}}, 2});
              }),
              HasSubstr("[B, 5, 6], found [2, 4, 6]"));
}

}  // namespace
}  // namespace attnlab::toy_transformer_test
