// `attention.projection`: what a composition asks of the layers that project for an attention.
#include "framework/config/compose.h"
#include "framework/experiment/experiment.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "tests/support/message_of.h"
#include "tests/support/plugins.h"

namespace attnlab::projection_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using testing::registry;

Experiment resolved(const std::string& attention) {
  const Node composed =
      parse_yaml("schema: 1\nmodel: {use: toy_transformer}\nattention: " + attention +
                     "\ntask: {use: sequence_classification}\ndataset: {use: spurious_retrieval}\n",
                 "f.yaml");
  return resolve_experiment(composed, registry().catalogue(), "toy");
}

TEST(ProjectionKey, CountsForTheHashAndIsLeftOutWhereItAsksForNothing) {
  const Experiment plain = resolved("{use: standard}");
  const Experiment nothing = resolved("{use: standard, projection: {key_heads: 0}}");
  const Experiment grouped = resolved("{use: standard, projection: {key_heads: 1}}");
  EXPECT_EQ(nothing.hash(), plain.hash());
  EXPECT_EQ(nothing.resolved.at("attention").find("projection"), nullptr);
  EXPECT_NE(grouped.hash(), plain.hash());
  EXPECT_EQ(grouped.attention.projection.key_heads, 1);
  const Experiment again = frozen_experiment(grouped.resolved, registry().catalogue(), "toy");
  EXPECT_EQ(again.hash(), grouped.hash()) << "a frozen file loads again";
  EXPECT_EQ(again.attention.projection.key_heads, 1);
}

TEST(ProjectionKey, NamesWhatIsWrongWithItsPlace) {
  EXPECT_THAT(
      message_of<ConfigError>([] { resolved("{use: standard, projection: {key_heds: 1}}"); }),
      HasSubstr("f.yaml:3:41: attention.projection: unknown key 'key_heds'"));
  EXPECT_THAT(message_of<ConfigError>([] { resolved("{use: standard, projection: {rank: -1}}"); }),
              HasSubstr("attention.projection.rank"));
  EXPECT_THAT(message_of<ConfigError>([] {
                resolved("{use: standard, layers: {last: {use: quest, projection: {rank: 2}}}}");
              }),
              mentions("attention.layers.last:", "one mechanism"));
}

TEST(ProjectionKey, ReachesTheLayersOfAModel) {
  const Experiment grouped = resolved("{use: standard, projection: {key_heads: 1, rank: 3}}");
  const AttentionBuilder build = registry().attention_builder(grouped.attention, RandomStreams(1));
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2;
  const MultiHeadAttention layer(options, build);
  const auto parameters = layer.named_parameters();
  EXPECT_EQ(parameters["latent.weight"].sizes(), at::IntArrayRef({3, 8}));
  EXPECT_EQ(parameters["key.weight"].sizes(), at::IntArrayRef({4, 3}));
  EXPECT_FALSE(parameters.contains("qkv.weight"));
}

}  // namespace
}  // namespace attnlab::projection_test
