// The Transformer LM against its equations and published sizes; what it must not see; how it
// writes.
#include "tests/plugins/language/language_models.h"
#include "tests/support/data_files.h"

namespace attnlab::transformer_lm_test {
namespace {

using ::testing::HasSubstr;
using namespace testing;

constexpr std::int64_t kWindow = 8;
const std::string kGpt = "{dim: 8, depth: 2, heads: 2, hidden: 12}";
const std::string kXlStyle =
    "{style: transformer_xl, dim: 8, depth: 2, heads: 2, hidden: 12, softmax: plain}";

std::shared_ptr<Model> lm(const std::string& options = kGpt,
                          const std::string& attention = "standard",
                          const DatasetInfo& data = text_of(kWindow)) {
  at::manual_seed(3);
  return settled(make_model("transformer_lm", data, options, attention));
}

std::int64_t parameters_of(const std::string& options, std::int64_t vocabulary,
                           std::int64_t window) {
  return parameter_count(*make_model("transformer_lm", text_of(window, vocabulary), options));
}

TEST(TransformerLm, HasThePublishedSizes) {
  EXPECT_EQ(parameters_of("{preset: small}", 267735, 256), 44'018'394) << "44M";
  EXPECT_EQ(parameters_of("{preset: medium}", 267735, 384), 89'833'434) << "90M";
  // nanoGPT counts without the positions: "number of parameters: 0.80M".
  EXPECT_EQ(parameters_of("{preset: nano_gpt}", 65, 64) - 64 * 128, 795'904);
  // GPT-2 of 12 layers, from its first two: all are alike.
  const std::int64_t one = parameters_of("{preset: gpt2, depth: 1}", 50257, 64);
  const std::int64_t two = parameters_of("{preset: gpt2, depth: 2}", 50257, 64);
  EXPECT_EQ(one + 11 * (two - one), 124'439'808);
}

TEST(TransformerLm, StartsAsPublished) {
  at::manual_seed(1);
  const auto small = make_model("transformer_lm", text_of(16, 500), "{preset: small, depth: 2}");
  const auto nano = make_model("transformer_lm", text_of(64, 500), "{preset: nano_gpt}");
  const Parameters a(*small), b(*nano);
  const auto deviation = [](const Tensor& x) { return x.std().item<double>(); };
  EXPECT_NEAR(deviation(a.at("table.weight")), 0.02, 3e-4);
  EXPECT_NEAR(deviation(a.at("layer1.mlp.out.weight")), 0.02, 3e-4);
  EXPECT_NEAR(a.at("layer1.mlp_norm.weight").mean().item<double>(), 1, 6e-3);
  EXPECT_NEAR(deviation(a.at("layer1.mlp_norm.weight")), 0.02, 4e-3);
  EXPECT_TRUE(a.at("layer0.mlp.in.bias").eq(0).all().item<bool>());
  EXPECT_TRUE(a.at("table.bias").eq(0).all().item<bool>());
  EXPECT_NEAR(deviation(b.at("layer3.attention.qkv.weight")), 0.02, 3e-4);
  EXPECT_NEAR(deviation(b.at("layer3.attention.output.weight")), 0.02 / std::sqrt(8), 2e-4);
  EXPECT_NEAR(deviation(b.at("layer3.mlp.out.weight")), 0.02 / std::sqrt(8), 2e-4);
  EXPECT_NEAR(deviation(b.at("positions")), 0.02, 1e-3);
  EXPECT_TRUE(b.at("norm.weight").eq(1).all().item<bool>());
  for (const auto& item : nano->named_parameters()) {
    EXPECT_THAT(item.key(), ::testing::Not(HasSubstr("bias")));
  }
  for (const auto& item : small->named_parameters()) {
    EXPECT_THAT(item.key(), ::testing::Not(HasSubstr("attention.qkv.bias")));
    EXPECT_THAT(item.key(), ::testing::Not(HasSubstr("attention.output.bias")));
  }
}

/// Everything of one line written out. @param tokens  [L]
Tensor naive(const Model& model, const Tensor& tokens, const Tensor& targets, bool gpt) {
  const Parameters p(model);
  const std::int64_t length = tokens.size(0), dim = 8, heads = 2;
  Tensor x = p.at("table.weight").index_select(0, tokens);
  for (std::int64_t i = 0; i < length && !gpt; ++i) {
    for (std::int64_t c = 0; c < dim; ++c) {
      const double rate = std::pow(10000.0, -2.0 * double(c % (dim / 2)) / double(dim));
      const double angle = double(kWindow - 1 - i) * rate;
      x[i][c] =
          x[i][c] * std::sqrt(double(dim)) + (c < dim / 2 ? std::sin(angle) : std::cos(angle));
    }
  }
  if (gpt) x = x + p.at("positions").narrow(0, 0, length);
  const NaiveLogit logit = [&](std::int64_t, const Tensor& q, const Tensor& k, std::int64_t,
                               std::int64_t) { return q.dot(k).item<double>() / 2; };
  for (const std::string& layer : {std::string("layer0."), std::string("layer1.")}) {
    const Tensor in = gpt ? p.norm(x, layer + "attention_norm") : x;
    x = x + naive_attention(p, layer + "attention", in, in, heads, logit);
    if (!gpt) x = p.norm(x, layer + "attention_norm");
    Tensor hidden = p.linear(gpt ? p.norm(x, layer + "mlp_norm") : x, layer + "mlp.in");
    hidden = gpt ? hidden * 0.5 * (1 + (hidden / std::sqrt(2.0)).erf()) : hidden.clamp_min(0);
    x = x + p.linear(hidden, layer + "mlp.out");
    if (!gpt) x = p.norm(x, layer + "mlp_norm");
  }
  return naive_nll(p, gpt ? p.norm(x, "norm") : x, targets);
}

TEST(TransformerLm, ComputesItsEquations) {
  for (const bool gpt : {true, false}) {
    const auto model = lm(gpt ? kGpt : kXlStyle);
    for (const std::int64_t length : {kWindow, std::int64_t{5}}) {
      const Batch batch = lines(words({2, length}));
      const Tensor nll = output(*model, batch);
      for (std::int64_t b = 0; b < 2; ++b) {
        expect_equal(
            nll[b], naive(*model, batch.fields.at("tokens")[b], batch.fields.at("targets")[b], gpt),
            (gpt ? "gpt2, " : "transformer_xl, ") + std::to_string(length) + " tokens");
      }
    }
  }
}

TEST(TransformerLm, NeverSeesTheFuture) {
  for (const std::string& style : {kGpt, kXlStyle}) {
    for (const std::string& attention : attentions_with_all({"causal"})) {
      const auto model = lm(style, attention);
      expect_no_sight_of_the_future([&](const Batch& line) { return output(*model, line); },
                                    lines(words({1, kWindow})), style + ", " + attention);
    }
  }
}

TEST(TransformerLm, GivesALineTheSameAloneAndPadded) {
  const std::vector<std::int64_t> lengths = {3, 8, 5};
  for (const std::string& style : {kGpt, kXlStyle}) {
    for (const std::string& attention : attentions_with_all({"causal", "padding"})) {
      const auto model = lm(style, attention, text_of(kWindow, kWords, true));
      const Tensor nll = expect_same_alone(*model, lines(words({3, kWindow})),
                                           at::tensor(lengths, at::kLong), attention);
      for (std::size_t b = 0; b < lengths.size(); ++b) {
        const Tensor padding = nll[std::int64_t(b)].narrow(0, lengths[b], kWindow - lengths[b]);
        EXPECT_TRUE(padding.eq(0).all().item<bool>());
      }
    }
  }
}

TEST(TransformerLm, CountsNoTargetBelowZero) {
  const auto model = lm();
  Batch batch = lines(words({2, kWindow}));
  const Tensor all = output(*model, batch);
  const Tensor counted = at::arange(kWindow).eq(kWindow - 1).expand({2, kWindow});
  batch.fields.set("targets", batch.fields.at("targets").masked_fill(counted.logical_not(), -1));
  expect_equal(output(*model, batch), all * counted);
}

TEST(TransformerLm, WithATableOfZerosKnowsNothing) {
  const auto model = lm(kXlStyle);
  const at::NoGradGuard no_gradients;
  for (auto& item : model->named_parameters()) {
    if (item.key().rfind("table", 0) == 0) item.value().zero_();
  }
  const Tensor nll = output(*model, lines(words({2, kWindow})));
  EXPECT_NEAR(nll.mean().exp().item<double>(), double(kWords), 1e-9) << "perplexity";
}

TEST(TransformerLm, WritesFromCachedKeysWhatTheWholeTextGives) {
  for (const std::string& style : {kGpt, kXlStyle}) {
    for (const std::string& attention : attentions_with_all({"causal", "different_lengths"})) {
      const auto model = lm(style, attention);
      const Tensor tokens = words({2, kWindow});
      NamedTensors carried;
      expect_equal(output(*model, prompt(tokens.narrow(1, 0, 3)), &carried),
                   output(*model, prompt(tokens.narrow(1, 0, 3))), attention);
      for (std::int64_t t = 3; t < kWindow; ++t) {
        expect_equal(output(*model, prompt(tokens.narrow(1, t, 1)), &carried),
                     output(*model, prompt(tokens.narrow(1, 0, t + 1))),
                     attention + ", token " + std::to_string(t));
      }
    }
  }
}

/// Transformer-XL's logits between the tokens of one line: `positions: relative`.
TEST(TransformerLm, HasRelativePositionsOfEachLayer) {
  const auto model = lm("{dim: 8, depth: 2, heads: 2, hidden: 12, positions: relative}");
  const Parameters p(*model);
  const Batch batch = lines(words({1, kWindow}));
  Tensor x = p.at("table.weight").index_select(0, batch.fields.at("tokens")[0]);
  for (const std::string& i : {std::string("0"), std::string("1")}) {
    const std::string layer = "layer" + i + ".", places = "relative" + i + ".";
    const NaiveLogit logit = [&](std::int64_t h, const Tensor& q, const Tensor& k, std::int64_t a,
                                 std::int64_t b) {
      Tensor sine = at::zeros({8}, at::kDouble);
      for (std::int64_t c = 0; c < 8; ++c) {
        const double angle = double(a - b) * std::pow(10000.0, -2.0 * double(c % 4) / 8.0);
        sine[c] = c < 4 ? std::sin(angle) : std::cos(angle);
      }
      const Tensor r = p.linear(sine, places + "places").narrow(0, 4 * h, 4);
      const Tensor content = (q + p.at(places + "content_bias")[h]).dot(k);
      const Tensor place = (q + p.at(places + "position_bias")[h]).dot(r);
      return (content + place).item<double>() / 2;
    };
    const Tensor in = p.norm(x, layer + "attention_norm");
    x = x + naive_attention(p, layer + "attention", in, in, 2, logit);
    const Tensor hidden = p.linear(p.norm(x, layer + "mlp_norm"), layer + "mlp.in");
    const Tensor gelu = hidden * 0.5 * (1 + (hidden / std::sqrt(2.0)).erf());
    x = x + p.linear(gelu, layer + "mlp.out");
  }
  expect_equal(output(*model, batch)[0],
               naive_nll(p, p.norm(x, "norm"), batch.fields.at("targets")[0]));
  EXPECT_FALSE(model->decays("relative0.content_bias", p.at("relative0.content_bias")));
  EXPECT_TRUE(model->decays("relative0.places.weight", p.at("relative0.places.weight")));
}

/// Text that is written token by token, and begun again where the context is full.
void expect_written_as_read(Model& model, const std::string& what) {
  const Tensor tokens = words({2, kWindow + 3});
  NamedTensors carried;
  output(model, prompt(tokens.narrow(1, 0, 3)), &carried);
  for (std::int64_t t = 3; t < kWindow + 3; ++t) {
    const std::int64_t begin = t < kWindow ? 0 : kWindow - kWindow / 2 + 1;
    expect_equal(output(model, prompt(tokens.narrow(1, t, 1)), &carried),
                 output(model, prompt(tokens.narrow(1, begin, t + 1 - begin))),
                 what + ", token " + std::to_string(t), 1e-9);
  }
}

TEST(TransformerLm, WritesWhatItReadsWithAnyPositions) {
  const std::string sizes = "{dim: 8, depth: 2, heads: 2, hidden: 12, positions: ";
  for (const char* own : {"none", "learned", "sinusoidal", "relative"}) {
    for (const char* attention : {"standard", "quest"}) {
      expect_written_as_read(*lm(sizes + own + "}", attention), std::string(own) + attention);
    }
  }
  for (const std::string& kind : {std::string("rotary"), std::string("alibi"), std::string("t5")}) {
    std::vector<std::string> attentions = {"standard", "quest", "qknorm"};
    if (kind == "rotary") attentions.insert(attentions.end(), {"linear", "gated_delta_net"});
    for (const std::string& attention : attentions) {
      const auto model =
          model_at_places("transformer_lm", text_of(kWindow), sizes + "none}", attention, kind);
      expect_written_as_read(*model, kind + " " + attention);
      expect_no_sight_of_the_future([&](const Batch& line) { return output(*model, line); },
                                    lines(words({1, kWindow})), kind + " " + attention);
    }
  }
}

// Without positions a causal model sees no order among earlier tokens, in its first layer.
TEST(TransformerLm, KnowsTheOrderOfEarlierTokensByPositionsAlone) {
  const std::string one = "{dim: 8, depth: 1, heads: 2, hidden: 12, positions: none}";
  const Tensor tokens = words({1, kWindow});
  const Tensor mixed = at::cat({tokens.narrow(1, 0, kWindow - 1).flip(1), tokens.slice(1, -1)}, 1);
  for (const char* kind : {"none", "rotary", "alibi", "t5"}) {
    const auto model = model_at_places("transformer_lm", text_of(kWindow), one, "quest", kind);
    const double change =
        (output(*model, prompt(mixed)) - output(*model, prompt(tokens))).abs().max().item<double>();
    EXPECT_EQ(change > 1e-9, std::string(kind) != "none") << kind << ": " << change;
  }
}

TEST(TransformerLm, SaysWhatItsNllSays) {
  const auto model = lm();
  const Batch batch = lines(words({2, kWindow}));
  const Tensor last = output(*model, prompt(batch.fields.at("tokens")));
  const Tensor targets = batch.fields.at("targets").narrow(1, kWindow - 1, 1);
  expect_equal(-last.gather(1, targets), output(*model, batch).narrow(1, kWindow - 1, 1));
}

TEST(TransformerLm, AnswersWithTheMostLikelyTokenWhereThereIsATarget) {
  for (const std::string& softmax : {std::string("plain"), std::string("adaptive")}) {
    const auto model =
        lm("{dim: 8, depth: 2, heads: 2, hidden: 12, answers: true, cutoffs: [5], "
           "softmax: " +
           softmax + "}");
    Batch batch = lines(words({3, kWindow}));
    const Tensor tokens = batch.fields.at("tokens");
    batch.fields.at("targets").narrow(1, 2, 3).fill_(-1);
    const at::NoGradGuard no_gradients;
    ForwardPass pass;
    const NamedTensors outputs = model->forward(batch, pass);
    const Tensor answers = outputs.at("answers");
    EXPECT_EQ(outputs.size(), 2U);
    for (std::int64_t t = 0; t < kWindow; ++t) {
      const Tensor best = output(*model, prompt(tokens.narrow(1, 0, t + 1))).argmax(1);
      const bool asked = t < 2 || t >= 5;
      EXPECT_TRUE(answers.select(1, t).equal(asked ? best : at::full_like(best, -1))) << t;
    }
    batch.fields.at("targets").fill_(-1);
    EXPECT_TRUE(model->forward(batch, pass).at("answers").eq(-1).all().item<bool>());
  }
}

TEST(TransformerLm, BeginsAgainWithTheLastHalfWhereTheContextIsFull) {
  const auto model = lm();
  const Tensor tokens = words({1, 2 * kWindow});
  NamedTensors carried;
  output(*model, prompt(tokens.narrow(1, 0, kWindow)), &carried);
  const std::int64_t half = kWindow / 2;
  for (std::int64_t t = kWindow; t < 2 * kWindow; ++t) {
    // The ninth token finds eight: the text is now the last four, which grow again.
    const std::int64_t begin = t < kWindow + half + 1 ? kWindow - half + 1 : kWindow + 2;
    expect_equal(output(*model, prompt(tokens.narrow(1, t, 1)), &carried),
                 output(*model, prompt(tokens.narrow(1, begin, t + 1 - begin))),
                 "token " + std::to_string(t));
  }
}

TEST(TransformerLm, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& options, const DatasetInfo& data) {
    return message_of<Error>([&] { make_model("transformer_lm", data, options); });
  };
  EXPECT_THAT(message("{}", text_of(8)), HasSubstr("set preset to small"));
  EXPECT_THAT(message("{dim: 8, depth: 1, heads: 3}", text_of(8)),
              HasSubstr("3 heads do not divide dim 8"));
  EXPECT_THAT(message("{dim: 4611686018427387904, depth: 1, heads: 1}", text_of(8)),
              HasSubstr("dim: 4611686018427387904 is out of range"));
  EXPECT_THAT(message(kGpt, text_of(-1)), HasSubstr("context"));
  EXPECT_THAT(message("{dim: 9, depth: 1, heads: 3, positions: sinusoidal}", text_of(8)),
              HasSubstr("make it even"));
  EXPECT_THAT(message(kGpt, text_of(8, 0)), HasSubstr("how large its vocabulary is"));
  const auto model = lm();
  EXPECT_THAT(message_of<ShapeError>([&] {
                output(*model, lines(words({1, kWindow + 1})));
              }),
              mentions("8 tokens", "has 9"));
  Batch outside = lines(words({1, kWindow}));
  outside.fields.at("tokens")[0][2] = kWords;
  EXPECT_THAT(message_of<DataError>([&] { output(*model, outside); }),
              mentions("has 17", "0 to 16"));
}

}  // namespace
}  // namespace attnlab::transformer_lm_test
