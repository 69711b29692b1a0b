// The sequence pair transformer against its equations, in each wiring.
#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/naive_module.h"
#include "tests/support/plugins.h"

namespace attnlab::seq_pair_transformer_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::make_model;
using testing::message_of;

constexpr std::int64_t kLength = 5, kDim = 8, kValid = 3;

DatasetInfo data(std::int64_t targets, std::int64_t classes = 4) {
  DatasetInfo info;
  info.name = "made up";
  info.classes = classes;
  info.vocabulary = 6;
  info.fields = {{"condition", {kLength}, at::kLong},
                 {"condition_valid", {kLength}, at::kBool},
                 {"content", {kLength}, at::kLong},
                 {"targets", {targets}, at::kLong}};
  return info;
}

Batch batch_of() {
  at::manual_seed(5);
  const Tensor valid = (at::arange(kLength) < kValid).expand({2, kLength}).contiguous();
  const Tensor condition = at::randint(5, {2, kLength}, at::kLong).masked_fill(~valid, 5);
  return {{{"condition", condition},
           {"condition_valid", valid},
           {"content", at::randint(5, {2, kLength}, at::kLong)}},
          2};
}

std::shared_ptr<Model> made(const DatasetInfo& info, const std::string& more = "",
                            const std::string& attention = "misaligned") {
  at::manual_seed(3);
  auto model = make_model("seq_pair_transformer", info,
                          "{dim: 8, depth: 2, heads: 2, hidden: 12" + more + "}", attention);
  const at::NoGradGuard no_gradients;
  for (Tensor& p : model->parameters()) p += 0.2 * at::randn_like(p);
  model->eval();
  return model;
}

Tensor logits(Model& model, const Batch& batch) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  return model.forward(batch, pass).at("logits").to(at::kDouble);
}

/// Where queries, keys and values of one example come from, and which of them count.
struct Wiring {
  bool asks_content = true, keys_content = false, values_content = true;
  bool hides_keys = false, one_target = false, self = false;
};

/// The equations in double precision, one example and one head at a time.
class Naive : public testing::NaiveModule {
 public:
  Naive(Model& model, const Wiring& wiring) : NaiveModule(model), wiring_(wiring) {}

  Tensor logits(const Batch& batch, std::int64_t example) const {
    const auto sequence = [&](const char* name) {
      return p("tokens").index_select(0, batch.fields.at(name)[example]) +
             p(std::string(name) + "_positions");
    };
    const Tensor condition = sequence("condition"), content = sequence("content");
    const Tensor keys = wiring_.keys_content ? content : condition;
    const Tensor values = wiring_.values_content ? content : condition;
    Tensor x = p("queries") + (wiring_.asks_content ? content : condition);
    const std::int64_t asking = wiring_.asks_content ? kLength : kValid;
    for (const std::string layer : {"layer0.", "layer1."}) {
      if (wiring_.self) {
        const Tensor y = norm(x, layer + "self_norm");
        x = x + attended(y, y, y, asking, layer + "self");
      }
      x = x + attended(norm(x, layer + "attention_norm"), keys, values,
                       wiring_.hides_keys ? kValid : kLength, layer + "attention");
      const Tensor hidden = linear(norm(x, layer + "mlp_norm"), layer + "mlp.in");
      x = x + linear(hidden * 0.5 * (1 + at::erf(hidden / std::sqrt(2.0))), layer + "mlp.out");
    }
    x = norm(x, "norm");
    if (wiring_.one_target) x = x.narrow(0, 0, asking).mean(0, true);
    return linear(x, "head");
  }

 private:
  /// The first `seen` keys are attended to.
  Tensor attended(const Tensor& from, const Tensor& keys, const Tensor& values, std::int64_t seen,
                  const std::string& name) const {
    const Tensor q = linear(from, name + ".qkv"), k = linear(keys, name + ".qkv");
    const Tensor v = linear(values, name + ".qkv");
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < 2; ++h) {
      const Tensor mine = q.narrow(1, h * 4, 4);
      const Tensor scores = mine.matmul(k.narrow(1, kDim + h * 4, 4).narrow(0, 0, seen).t()) / 2.0;
      heads.push_back(
          scores.softmax(-1).matmul(v.narrow(1, 2 * kDim + h * 4, 4).narrow(0, 0, seen)));
    }
    return linear(at::cat(heads, 1), name + ".output");
  }

  Wiring wiring_;
};

void expect_equations(const DatasetInfo& info, const std::string& options, const Wiring& wiring) {
  const auto model = made(info, options);
  const Batch batch = batch_of();
  const Tensor found = logits(*model, batch);
  const Naive naive(*model, wiring);
  for (std::int64_t i = 0; i < 2; ++i) {
    const Tensor expected = naive.logits(batch, i);
    ASSERT_EQ(found[i].sizes(), expected.sizes()) << options;
    EXPECT_LT((found[i] - expected).abs().max().item<double>(), 2e-4) << options;
  }
}

TEST(SeqPairTransformer, TakesKeysFromTheConditionAndValuesFromTheContent) {
  expect_equations(data(kLength), "", {});
  expect_equations(data(kLength), ", self_attention: true", {.self = true});
  expect_equations(data(1), "", {.one_target = true});
}

TEST(SeqPairTransformer, CrossesLettersWithTheOrderBesideThem) {
  expect_equations(data(kLength), ", wiring: cross", {.values_content = false, .hides_keys = true});
}

TEST(SeqPairTransformer, CrossesAQueryWithItsReference) {
  expect_equations(data(1), ", wiring: cross, self_attention: true",
                   {.asks_content = false, .keys_content = true, .one_target = true, .self = true});
}

// A padded slot of the condition carries a token of the content; hiding it would lose that token.
TEST(SeqPairTransformer, SeesPaddedSlotsThatCarryValues) {
  Batch batch = batch_of();
  const auto changed = [&](Model& model) {
    const Tensor before = logits(model, batch);
    Batch other = batch;
    const Tensor content = batch.fields.at("content").clone();
    content.select(1, kLength - 1).add_(1).remainder_(5);
    other.fields.set("content", content);
    return (logits(model, other) - before).abs().select(1, 0).max().item<double>();
  };
  EXPECT_GT(changed(*made(data(kLength))), 1e-3);
  EXPECT_EQ(changed(*made(data(kLength), ", wiring: cross")), 0)
      << "in cross, only the token itself has to do with its letter";
}

// The condition asks: what stands in its padding must not reach the answer.
TEST(SeqPairTransformer, DoesNotCountPaddingAmongTheQueries) {
  const Batch batch = batch_of();
  Batch other = batch;
  const Tensor condition = batch.fields.at("condition").clone();
  condition.narrow(1, kValid, kLength - kValid).fill_(2);
  other.fields.set("condition", condition);
  for (const std::string& attention : testing::attentions_with("padding")) {
    const auto model = made(data(1), ", wiring: cross", attention);
    EXPECT_TRUE(logits(*model, other).allclose(logits(*model, batch), 1e-5, 1e-6)) << attention;
  }
}

TEST(SeqPairTransformer, MovesIndirectAttentionsReferencesFromLayerToLayer) {
  const auto model = made(data(kLength), "", "indirect");
  const Batch batch = batch_of();
  const Tensor before = logits(*model, batch);
  const at::NoGradGuard no_gradients;
  bool found = false;
  for (auto& item : model->named_parameters()) {
    if (item.key().find("layer0.attention.attention.refine.weight") == std::string::npos) continue;
    item.value().add_(2.0);
    found = true;
  }
  ASSERT_TRUE(found);
  EXPECT_GT((logits(*model, batch) - before).abs().max().item<double>(), 1e-4)
      << "the second layer's bias must follow what the first layer found";
}

TEST(SeqPairTransformer, PointsAtTokensAsItsClasses) {
  const auto model = made(data(1, 4), ", pool: pointer");
  const Tensor out = logits(*model, batch_of());
  EXPECT_EQ(out.sizes(), (std::vector<std::int64_t>{2, 1, 4}));
  EXPECT_EQ(model->named_parameters()["head.weight"].sizes(), (std::vector<std::int64_t>{1, kDim}));
  EXPECT_THAT(message_of<ConfigError>([] { made(data(1), ", pool: pointer, wiring: cross"); }),
              mentions("pool:", "pointer", "the content"));
}

TEST(SeqPairTransformer, TrainsEveryParameter) {
  for (const char* attention : {"indirect", "misaligned", "quest"}) {
    const auto model = made(data(kLength), ", self_attention: true", attention);
    model->train();
    ForwardPass pass;
    model->forward(batch_of(), pass).at("logits").pow(2).sum().backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << attention << " " << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << attention << " " << item.key();
    }
  }
}

TEST(SeqPairTransformer, DecaysMapsNotEmbeddings) {
  const auto model = made(data(kLength));
  for (const auto& item : model->named_parameters()) {
    const bool map = item.key().find(".weight") != std::string::npos && item.value().dim() == 2;
    EXPECT_EQ(model->decays(item.key(), item.value()), map) << item.key();
  }
}

TEST(SeqPairTransformer, TracesTheAttentionUnderStudyAlone) {
  const auto model = made(data(kLength), ", self_attention: true");
  AttentionTrace trace;
  trace.weights = true;
  ForwardPass pass{&trace};
  model->forward(batch_of(), pass);
  ASSERT_EQ(trace.layers.size(), 2U);
  EXPECT_EQ(trace.layers[1].layer, 1);
}

TEST(SeqPairTransformer, RefusesWhatItCannotBeBuiltFor) {
  EXPECT_THAT(message_of<ConfigError>([] { made(data(kLength), ", queries: condition"); }),
              mentions("queries:", "target for each"));
  EXPECT_THAT(message_of<DataError>([] { made(data(2)); }), HasSubstr("number of targets"));
  DatasetInfo none = data(1);
  none.vocabulary = 0;
  EXPECT_THAT(message_of<DataError>([&] { made(none); }), HasSubstr("vocabulary"));
  EXPECT_THAT(
      message_of<ConfigError>([] { make_model("seq_pair_transformer", data(1), "{heads: 3}"); }),
      HasSubstr("3 heads do not divide dim 128"));
}

/// An attention that takes keys and values from one sequence only.
class OneSource final : public Attention {
 public:
  explicit OneSource(const AttentionShape& shape) : Attention(shape, {}) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext&) override { return input.values; }
};

TEST(SeqPairTransformer, RefusesAnAttentionOfOneSourceBeforeAnythingRuns) {
  const AttentionBuilder builder = [](const AttentionShape& shape) {
    return std::make_shared<OneSource>(shape);
  };
  const Part part = testing::make_part(Kind::model, "seq_pair_transformer");
  const DatasetInfo info = data(1);
  EXPECT_THAT(message_of<TraitError>([&] {
                testing::registry().model(part, {info, builder});
              }),
              HasSubstr("does not honour 'different_source'"));
}

}  // namespace
}  // namespace attnlab::seq_pair_transformer_test
