// Language models with RMS norms and SwiGLU: against loops, in sizes of LLaMA's rule, written token
// by token; and how deep their parameters lie.
#include "tests/plugins/language/language_models.h"

namespace attnlab::llama_layers_test {
namespace {

using namespace testing;

constexpr std::int64_t kWindow = 6, kHidden = 10;
const std::string kLlama =
    "{dim: 8, depth: 2, heads: 2, hidden: 12, biases: none, norm: rms, mlp: swiglu, "
    "swiglu_multiple: 5}";

std::shared_ptr<Model> model_of(const std::string& id, const std::string& options) {
  at::manual_seed(3);
  return settled(make_model(id, text_of(kWindow), options));
}

Tensor rms(const Tensor& x, const Tensor& weight) {
  return x / ((x * x).sum(-1, true) / double(x.size(1)) + 1e-5).sqrt() * weight;
}

/// A line of GPT-2's style with LLaMA's layers. @param tokens  [L]
Tensor naive(const Model& model, const Tensor& tokens, const Tensor& targets) {
  const Parameters p(model);
  Tensor x =
      p.at("table.weight").index_select(0, tokens) + p.at("positions").narrow(0, 0, tokens.size(0));
  const NaiveLogit logit = [](std::int64_t, const Tensor& q, const Tensor& k, std::int64_t,
                              std::int64_t) { return q.dot(k).item<double>() / 2; };
  for (const std::string& layer : {std::string("layer0."), std::string("layer1.")}) {
    const Tensor in = rms(x, p.at(layer + "attention_norm.weight"));
    x = x + naive_attention(p, layer + "attention", in, in, 2, logit);
    const Tensor both = p.linear(rms(x, p.at(layer + "mlp_norm.weight")), layer + "mlp.in");
    Tensor hidden = at::zeros({x.size(0), kHidden}, x.options());
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      for (std::int64_t c = 0; c < kHidden; ++c) {
        const double gate = both[i][c].item<double>(), up = both[i][kHidden + c].item<double>();
        hidden[i][c] = gate / (1 + std::exp(-gate)) * up;
      }
    }
    x = x + p.linear(hidden, layer + "mlp.out");
  }
  return naive_nll(p, rms(x, p.at("norm.weight")), targets);
}

TEST(LlamaLayers, OfTransformerLmAgainstLoops) {
  const auto model = model_of("transformer_lm", kLlama);
  for (const auto& item : model->named_parameters()) {
    EXPECT_FALSE(item.key().ends_with("bias")) << item.key();
  }
  // Two thirds of 12 are 8; the next multiple of 5 is 10.
  EXPECT_EQ(model->named_parameters()["layer0.mlp.in.weight"].sizes(),
            at::IntArrayRef({2 * kHidden, 8}));
  const Batch batch = lines(words({2, kWindow}));
  const Tensor nll = output(*model, batch);
  for (std::int64_t b = 0; b < 2; ++b) {
    expect_equal(nll[b],
                 naive(*model, batch.fields.at("tokens")[b], batch.fields.at("targets")[b]));
  }
}

TEST(LlamaLayers, AreWrittenTokenByTokenAsRead) {
  for (const auto& [id, options] :
       {std::pair<std::string, std::string>{"transformer_lm", kLlama},
        {"transformer_lm",
         "{style: transformer_xl, softmax: plain, dim: 8, depth: 2, heads: 2, hidden: 12, norm: "
         "rms, mlp: swiglu, swiglu_multiple: 0}"},
        {"transformer_xl",
         "{dim: 8, depth: 2, heads: 2, hidden: 12, softmax: plain, norm: first, norm_kind: rms, "
         "mlp: swiglu, swiglu_multiple: 2}"}}) {
    const auto model = model_of(id, options);
    const Tensor text = words({1, kWindow}, 5);
    const Tensor whole = output(*model, prompt(text));
    NamedTensors carried;
    Tensor last;
    for (std::int64_t t = 0; t < kWindow; ++t) {
      last = output(*model, prompt(text.narrow(1, t, 1)), &carried);
    }
    expect_equal(last, whole, id + options);
  }
}

TEST(LlamaLayers, HaveTheParametersOfTheirRule) {
  const auto count = [](const std::string& id, const std::string& more) {
    return parameter_count(*make_model(
        id, text_of(kWindow), "{dim: 12, depth: 1, heads: 2, softmax: plain" + more + "}"));
  };
  for (const std::string id : {"transformer_lm", "transformer_xl"}) {
    const std::int64_t plain = count(id, "");
    // 48 hidden channels: with two maps 24 of 12, out and in; 32 with three.
    EXPECT_EQ(count(id, ", mlp: swiglu, swiglu_multiple: 1") - plain,
              (3 * 32 - 2 * 48) * 12 + 2 * 32 - 48)
        << id;
    EXPECT_EQ(count(id, ", mlp: swiglu, swiglu_multiple: 0") - plain, 48 * 12 + 48) << id;
    EXPECT_EQ(count(id, ", mlp: swiglu") - plain, (3 * 256 - 2 * 48) * 12 + 2 * 256 - 48) << id;
  }
  EXPECT_EQ(count("transformer_xl", ", norm_kind: rms") - count("transformer_xl", ""), -2 * 12);
  EXPECT_EQ(count("transformer_lm", ", norm: rms") - count("transformer_lm", ""), -3 * 12);
}

TEST(LanguageModels, LayersLieBehindEachOther) {
  const auto expect_depths = [](const Model& model,
                                const std::vector<std::pair<std::string, std::int64_t>>& all) {
    for (const auto& [name, depth] : all) {
      ASSERT_TRUE(model.named_parameters().contains(name)) << name;
      EXPECT_EQ(model.depth(name), depth) << name;
    }
  };
  expect_depths(*model_of("transformer_lm", kLlama), {{"table.weight", 0},
                                                      {"positions", 0},
                                                      {"layer0.attention.qkv.weight", 1},
                                                      {"layer1.mlp.out.weight", 2},
                                                      {"norm.weight", 3}});
  expect_depths(
      *model_of("transformer_lm", "{dim: 8, depth: 2, heads: 2, hidden: 12, positions: relative}"),
      {{"layer1.mlp_norm.bias", 2}, {"relative0.places.weight", 1}});
  expect_depths(
      *model_of("transformer_xl", "{dim: 8, depth: 2, heads: 2, hidden: 12, softmax: plain}"),
      {{"table.weight", 0},
       {"content_bias", 0},
       {"layer0.places.weight", 1},
       {"layer1.layer.mlp.in.weight", 2}});
}

}  // namespace
}  // namespace attnlab::llama_layers_test
