// The trace of a run: norms of keys by kind of token, and the bias that an attention adds, against
// plain loops.
#include "framework/base/json.h"
#include "framework/train/attention_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::attention_log_parts_test {
namespace {

using attnlab::testing::mentions;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::message_of;

const std::vector<std::string> kEverything = TraceOptions{}.record;

/// One attention whose queries, keys and values are the batch itself, with a bias of the model's
/// own.
class OneLayer final : public Model {
 public:
  explicit OneLayer(const std::string& name, const std::string& options = "{}") {
    const AttentionShape shape{.heads = 2, .head_dim = 3};
    attention = register_module("attention", testing::make_attention(name, shape, options));
    attention->to(at::kDouble);
  }
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    AttentionInput input;
    input.queries = batch.fields.at("q");
    input.keys = batch.fields.at("k");
    input.values = batch.fields.at("k");
    input.bias = at::full({1, 1, 1, 1}, 100.0, at::kDouble);
    AttentionContext context{0, nullptr, pass.trace};
    out = attention->forward(input, context);
    return {};
  }

  std::shared_ptr<Attention> attention;
  Tensor out;
};

Batch four_by_six() {
  Batch batch;
  batch.size = 2;
  batch.fields.set("q", at::randn({2, 2, 4, 3}, at::kDouble));
  batch.fields.set("k", at::randn({2, 2, 6, 3}, at::kDouble));
  return batch;
}

// ---- key norms by kind of token

/// Three examples of five keys: a class token first, then four tokens.
Batch batch_of_kinds() {
  Batch batch;
  batch.size = 3;
  batch.fields.set("q", at::randn({3, 2, 5, 3}, at::kDouble));
  batch.fields.set("k", at::randn({3, 2, 5, 3}, at::kDouble));
  batch.fields.set("kind",
                   at::tensor({0, 0, 2, -1, 0, 2, 0, 0, 1, 0, 0, 0}, at::kLong).view({3, 4}));
  return batch;
}

DatasetInfo named_kinds() {
  DatasetInfo info;
  info.fields = {{"kind", {4}, at::kLong, {"other", "answer"}}};
  return info;
}

/// The mean norm of the keys of one kind, by loops; 0 where there is none.
double naive_mean(const Batch& batch, std::int64_t kind) {
  const auto k = batch.fields.at("k").accessor<double, 4>();
  const auto kinds = batch.fields.at("kind").accessor<std::int64_t, 2>();
  double sum = 0, count = 0;
  for (std::int64_t b = 0; b < batch.size; ++b) {
    for (std::int64_t token = 0; token < kinds.size(1); ++token) {
      if (kinds[b][token] != kind) continue;
      for (std::int64_t h = 0; h < 2; ++h) {
        double square = 0;
        for (int c = 0; c < 3; ++c) square += std::pow(k[b][h][token + 1][c], 2);
        sum += std::sqrt(square);
        ++count;
      }
    }
  }
  return count == 0 ? 0 : sum / count;
}

TEST(KeyNormsByKind, AreMeansOverTheTokensOfEachKindByTheNamesOfTheDataset) {
  at::manual_seed(4);
  const auto model = std::make_shared<OneLayer>("standard");
  const Batch batch = batch_of_kinds();
  const DatasetInfo info = named_kinds();
  const Metrics numbers =
      summarise_attention(*model, {batch}, {"key_norm_by_kind"}, &info)[0].numbers;
  ASSERT_EQ(numbers.size(), 3U) << "neither the whole mean nor tokens of no kind";
  EXPECT_NEAR(numbers.at("key_norm_mean/other"), naive_mean(batch, 0), 1e-12);
  EXPECT_NEAR(numbers.at("key_norm_mean/answer"), naive_mean(batch, 1), 1e-12);
  EXPECT_NEAR(numbers.at("key_norm_mean/kind_2"), naive_mean(batch, 2), 1e-12);
}

TEST(KeyNormsByKind, OfPartsAreThoseOfTheWholeAndAnAbsentKindGivesNone) {
  at::manual_seed(5);
  const auto model = std::make_shared<OneLayer>("standard");
  const Batch whole = batch_of_kinds();
  const auto one = [&](std::int64_t example) {
    Batch part;
    part.size = 1;
    for (const auto& [name, tensor] : whole.fields) {
      part.fields.set(name, tensor.narrow(0, example, 1));
    }
    return part;
  };
  const std::vector<std::string> record = {"key_norm_by_kind"};
  const Metrics parts = summarise_attention(*model, {one(0), one(1), one(2)}, record)[0].numbers;
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_NEAR(parts.at("key_norm_mean/kind_0"), naive_mean(whole, 0), 1e-12);
  EXPECT_NEAR(parts.at("key_norm_mean/kind_2"), naive_mean(whole, 2), 1e-12);
  EXPECT_EQ(summarise_attention(*model, {one(0)}, record)[0].numbers.count("key_norm_mean/kind_1"),
            0U);
}

TEST(KeyNormsByKind, RefusesABatchWithoutKindsAndKeysThatAreNoTokens) {
  const auto model = std::make_shared<OneLayer>("standard");
  const auto refused = [&](const Batch& batch) {
    return message_of<Error>([&] { summarise_attention(*model, {batch}, {"key_norm_by_kind"}); });
  };
  EXPECT_THAT(refused(four_by_six()), mentions("field 'kind'", "leave it out"));
  Batch batch = batch_of_kinds();
  batch.fields.set("kind", at::zeros({3, 6}, at::kLong));
  EXPECT_THAT(refused(batch), mentions("layer 0", "[B, H, Lk] = [3, 2, 5] float64",
                                       "'kind' is [B, N] = [3, 6] int64"));
  batch.fields.set("kind", at::zeros({2, 4}, at::kLong));
  EXPECT_THAT(refused(batch), HasSubstr("[2, 4] int64"));
  batch.fields.set("kind", at::zeros({3}, at::kLong));
  EXPECT_THAT(refused(batch), mentions("[B, N] int64", "found [3] int64"));
}

// ---- the bias

TEST(BiasRecord, IsWhatIndirectAttentionAddsAtEachOffset) {
  at::manual_seed(6);
  const auto model = std::make_shared<OneLayer>("indirect", "{hidden: 7, bias: after_scaling}");
  const auto layers = summarise_attention(*model, {four_by_six()}, {"bias"});
  ASSERT_EQ(layers.size(), 1U);
  ASSERT_TRUE(layers[0].bias.has_value());
  EXPECT_TRUE(layers[0].numbers.empty());
  const BiasByOffset& bias = *layers[0].bias;
  EXPECT_EQ(bias.first, -3);
  ASSERT_EQ(bias.heads.size(), 2U);
  const auto parameters = model->attention->named_parameters();
  const Tensor& w1 = parameters["position_bias.in_weight"];
  const Tensor& b1 = parameters["position_bias.in_bias"];
  const Tensor& w2 = parameters["position_bias.out_weight"];
  for (std::int64_t h = 0; h < 2; ++h) {
    ASSERT_EQ(bias.heads[h].size(), 9U);
    for (std::int64_t offset = -3; offset <= 5; ++offset) {
      double expected = 0;
      for (std::int64_t m = 0; m < 7; ++m) {
        const double hidden =
            w1[m][0].item<double>() * static_cast<double>(offset) + b1[m].item<double>();
        expected += w2[h][m].item<double>() * std::max(hidden, 0.0);
      }
      EXPECT_NEAR(bias.heads[h][static_cast<std::size_t>(offset + 3)], expected, 1e-10) << offset;
    }
  }
}

TEST(BiasRecord, LeavesTheOtherRecordsAndTheOutputAsTheyAre) {
  at::manual_seed(7);
  const auto model = std::make_shared<OneLayer>("indirect", "{hidden: 7, bias: after_scaling}");
  const Batch batch = four_by_six();
  const Metrics without = summarise_attention(*model, {batch}, kEverything)[0].numbers;
  const Tensor out = model->out;
  std::vector<std::string> all = kEverything;
  all.emplace_back("bias");
  EXPECT_EQ(summarise_attention(*model, {batch}, all)[0].numbers, without);
  EXPECT_TRUE(model->out.equal(out));
}

TEST(BiasRecord, OfPartsIsThatOfTheWholeAndOthersHaveNone) {
  at::manual_seed(8);
  const auto model = std::make_shared<OneLayer>("indirect", "{hidden: 7, bias: after_scaling}");
  const Batch batch = four_by_six();
  const auto whole = *summarise_attention(*model, {batch}, {"bias"})[0].bias;
  const auto twice = *summarise_attention(*model, {batch, batch}, {"bias"})[0].bias;
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(twice.heads[1][i], whole.heads[1][i], 1e-12);
  const auto others = std::make_shared<OneLayer>("standard");
  EXPECT_FALSE(summarise_attention(*others, {four_by_six()}, {"bias"})[0].bias.has_value());
}

TEST(BiasRecord, StandsInALineAsOneMapBesideTheNumbers) {
  LayerSummary layer;
  layer.layer = 3;
  layer.call = 1;
  layer.numbers = {{"entropy", 0.5}, {"logit_max", -std::numeric_limits<double>::infinity()}};
  layer.bias = BiasByOffset{-1, {{1, 2, std::nan("")}}};
  EXPECT_EQ(trace_line(layer), json::parse(R"({"entropy": 0.5, "logit_max": null, "layer": 3,
      "call": 1, "bias": {"first": -1, "heads": [[1.0, 2.0, null]]}})"));
  EXPECT_EQ(trace_line(LayerSummary{}), json::parse(R"({"layer": 0})"));
}

}  // namespace
}  // namespace attnlab::attention_log_parts_test
