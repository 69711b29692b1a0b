// The trace of a run: norms of the query and the key with the largest logit, against plain loops.
#include "framework/train/attention_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/plugins.h"

namespace attnlab::largest_pair_test {
namespace {

const AttentionShape kShape{.heads = 2, .head_dim = 3};

/// Knows norms and no logits, as a recurrent attention does.
class NormsOnly final : public Attention {
 public:
  NormsOnly() : Attention(kShape, {.padding = true, .different_lengths = true}) {}

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    LayerTrace seen;
    seen.query_norms = input.queries.norm(2, -1);
    seen.key_norms = input.keys.norm(2, -1);
    context.trace->on_layer(seen);
    return input.queries;
  }
};

/// One attention of two heads of width 3, whose queries and keys are the batch itself, and which a
/// key hides where the batch says so.
class OneLayer final : public Model {
 public:
  explicit OneLayer(const std::string& name)
      : OneLayer(testing::make_attention(name, kShape, "{}")) {}
  explicit OneLayer(std::shared_ptr<Attention> attention)
      : attention_(register_module("attention", std::move(attention))) {
    attention_->to(at::kDouble);
  }
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    AttentionInput input;
    input.queries = batch.fields.at("q");
    input.keys = batch.fields.at("k");
    input.values = batch.fields.at("k");
    input.visible.key_valid = batch.fields.at("seen");
    AttentionContext context{0, nullptr, pass.trace};
    attention_->forward(input, context);
    return {};
  }

 private:
  std::shared_ptr<Attention> attention_;
};

/// Three examples of four queries and six keys, the last of which is hidden and very long.
Batch made_batch() {
  Batch batch;
  batch.size = 3;
  const Tensor keys = at::randn({3, 2, 6, 3}, at::kDouble);
  keys.select(2, 5).mul_(1000);
  const Tensor seen = at::ones({3, 6}, at::kBool);
  seen.select(1, 5).fill_(false);
  batch.fields.set("q", at::randn({3, 2, 4, 3}, at::kDouble));
  batch.fields.set("k", keys);
  batch.fields.set("seen", seen);
  return batch;
}

double length(const double* x) { return std::sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]); }

struct Largest {
  double logit = -std::numeric_limits<double>::infinity(), query = 0, key = 0;

  /// @param unit_keys  as QUEST has them, without 1 / sqrt(D)
  void add(const Batch& batch, bool unit_keys) {
    const auto* q = batch.fields.at("q").data_ptr<double>();
    const auto* k = batch.fields.at("k").data_ptr<double>();
    for (int bh = 0; bh < 6; ++bh) {
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 5; ++j) {  // the sixth is hidden
          const double *query = q + (bh * 4 + i) * 3, *key = k + (bh * 6 + j) * 3;
          double found = query[0] * key[0] + query[1] * key[1] + query[2] * key[2];
          found /= unit_keys ? length(key) : std::sqrt(3.0);
          if (found > this->logit) *this = {found, length(query), length(key)};
        }
      }
    }
  }
};

TEST(LargestPair, HasTheNormsOfItsQueryAndItsKey) {
  for (const char* name : {"standard", "quest"}) {
    at::manual_seed(3);
    const auto model = std::make_shared<OneLayer>(name);
    const std::vector<Batch> parts = {made_batch(), made_batch(), made_batch()};
    Largest wanted;
    for (const Batch& part : parts) wanted.add(part, name == std::string("quest"));
    const auto layers =
        summarise_attention(*model, parts, {"logit_max", "logit_max_norms", "query_norm"});
    const Metrics& numbers = layers.at(0).numbers;
    EXPECT_NEAR(numbers.at("logit_max"), wanted.logit, 1e-9) << name;
    EXPECT_NEAR(numbers.at("logit_max_query_norm"), wanted.query, 1e-9) << name;
    EXPECT_NEAR(numbers.at("logit_max_key_norm"), wanted.key, 1e-9) << name;
    EXPECT_LE(numbers.at("logit_max_query_norm"), numbers.at("query_norm_max")) << name;
  }
}

TEST(LargestPair, IsRecordedWhereItIsAskedForAndThere) {
  at::manual_seed(4);
  const auto model = std::make_shared<OneLayer>("standard");
  Batch batch = made_batch();
  const Metrics alone = summarise_attention(*model, {batch}, {"logit_max_norms"}).at(0).numbers;
  EXPECT_EQ(alone.size(), 2U) << "and no other number";
  EXPECT_EQ(summarise_attention(*model, {batch}, {"logit_max"}).at(0).numbers.size(), 1U);
  const auto without = std::make_shared<OneLayer>(std::make_shared<NormsOnly>());
  const Metrics none =
      summarise_attention(*without, {batch}, {"logit_max_norms", "query_norm"}).at(0).numbers;
  EXPECT_EQ(none.count("logit_max_query_norm"), 0U);
  EXPECT_EQ(none.count("query_norm_max"), 1U);
  batch.fields.at("q")[1][0][2][0] = std::nan("");
  const Metrics broken = summarise_attention(*model, {batch}, {"logit_max_norms"}).at(0).numbers;
  EXPECT_TRUE(std::isnan(broken.at("logit_max_query_norm"))) << "it is not hidden";
}

}  // namespace
}  // namespace attnlab::largest_pair_test
