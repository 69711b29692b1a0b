// `attention.positions`: what a composition asks layers to tell an attention of places.
#include "framework/config/compose.h"
#include "framework/experiment/experiment.h"
#include "framework/nn/modules/multi_head_attention.h"
#include "tests/support/message_of.h"
#include "tests/support/plugins.h"

namespace attnlab::positions_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::registry;
using ::testing::StartsWith;

Experiment resolved(const std::string& attention, const std::string& model = "toy_transformer") {
  const Node composed =
      parse_yaml("schema: 1\nmodel: {use: " + model + "}\nattention: " + attention +
                     "\ntask: {use: sequence_classification}\ndataset: {use: spurious_retrieval}\n",
                 "f.yaml");
  return resolve_experiment(composed, registry().catalogue(), "toy");
}

std::string refusal(const std::string& attention) {
  return message_of<ConfigError>([&] { resolved(attention); });
}

TEST(PositionsKey, MayBeAKindAloneAndKeepsTheOptionsThatItReads) {
  EXPECT_EQ(resolved("{use: quest, positions: rotary}").hash(),
            resolved("{use: quest, positions: {use: rotary, base: 1e4}}").hash());
  const Experiment rotary = resolved("{use: standard, positions: rotary}");
  EXPECT_EQ(rotary.resolved.at("attention").at("positions").entries().size(), 2U);
  EXPECT_EQ(rotary.resolved.at("attention").at("positions").at("base").as_double(), 10000);
  const Experiment t5 = resolved("{use: standard, positions: {use: t5, buckets: 16}}");
  EXPECT_EQ(to_flow(t5.resolved.at("attention").at("positions")),
            "{use: t5, buckets: 16, max_distance: 128}");
  EXPECT_EQ(t5.attention.positions.buckets, 16);
  EXPECT_EQ(
      to_flow(
          resolved("{use: standard, positions: alibi}").resolved.at("attention").at("positions")),
      "{use: alibi}");
}

TEST(PositionsKey, CountsForTheHashAndIsLeftOutWhereItAsksForNothing) {
  const Experiment plain = resolved("{use: standard}");
  for (const char* nothing : {"{use: standard, positions: none}", "{use: standard, positions: }",
                              "{use: standard, positions: {use: none}}"}) {
    EXPECT_EQ(resolved(nothing).hash(), plain.hash()) << nothing;
    EXPECT_EQ(resolved(nothing).resolved.at("attention").find("positions"), nullptr) << nothing;
  }
  const Experiment rotary = resolved("{use: standard, positions: {use: rotary, base: 100}}");
  EXPECT_NE(rotary.hash(), plain.hash());
  EXPECT_NE(rotary.hash(), resolved("{use: standard, positions: rotary}").hash());
  EXPECT_EQ(rotary.hash_without_attention(), plain.hash_without_attention());
  EXPECT_EQ(rotary.attention.label, "standard");
  const Experiment again = frozen_experiment(rotary.resolved, registry().catalogue(), "toy");
  EXPECT_EQ(again.hash(), rotary.hash()) << "a frozen file loads again";
  EXPECT_EQ(again.attention.positions.base, 100);
}

TEST(PositionsKey, NamesWhatIsWrongWithItsPlace) {
  EXPECT_THAT(refusal("{use: standard, positions: rotery}"),
              AllOf(StartsWith("f.yaml:3:39: attention.positions.use:"), HasSubstr("'rotery'"),
                    HasSubstr("did you mean 'rotary'?")));
  EXPECT_THAT(refusal("{use: standard, positions: {use: rotary, base: 0}}"),
              AllOf(StartsWith("f.yaml:3:59: attention.positions.base:"),
                    HasSubstr("0 is out of range"), HasSubstr("expected float in [1, ")));
  EXPECT_THAT(refusal("{use: standard, positions: {use: alibi, base: 100}}"),
              AllOf(StartsWith("f.yaml:3:52: attention.positions.base:"), HasSubstr("'alibi'"),
                    HasSubstr("leave it out")));
  EXPECT_THAT(refusal("{use: standard, positions: {base: 100}}"),
              AllOf(HasSubstr("attention.positions.use"), HasSubstr("needs a value")));
  EXPECT_THAT(refusal("{use: standard, positions: {use: rotary, bse: 1}}"),
              AllOf(HasSubstr("f.yaml:3:53:"), HasSubstr("unknown key 'bse'")));
  EXPECT_THAT(refusal("{use: standard, positions: {use: t5, max_distance: 16}}"),
              AllOf(StartsWith("f.yaml:3:63: attention.positions.max_distance:"),
                    HasSubstr("make it larger")));
  EXPECT_THAT(refusal("{use: standard, positions: [rotary]}"),
              HasSubstr("attention.positions: expected a map"));
  EXPECT_THAT(refusal("{use: standard, layers: {last: {use: quest, positions: rotary}}}"),
              mentions("attention.layers.last:", "one mechanism", "positions"));
}

TEST(PositionsKey, OfABiasNeedAttentionsThatHonourOne) {
  for (const char* kind : {"alibi", "t5"}) {
    EXPECT_THAT(message_of<IncompatibleError>(
                    [&] { resolved("{use: linear, positions: " + std::string(kind) + "}"); }),
                AllOf(StartsWith("f.yaml:3:37: attention.positions:"),
                      mentions(kind, "'linear'", "'bias'", "take rotary, or another attention")));
    resolved("{use: quest, positions: " + std::string(kind) + "}");
  }
  EXPECT_THAT(
      message_of<IncompatibleError>(
          [] { resolved("{use: standard, positions: t5, layers: {last: linear}}"); }),
      AllOf(StartsWith("f.yaml:3:39:"), HasSubstr("attention 'linear' of attention.layers.last")));
  resolved("{use: linear, positions: rotary}");
}

TEST(PositionsKey, ReachTheLayersOfAModel) {
  const Experiment t5 = resolved("{use: standard, positions: {use: t5, buckets: 8}}");
  MultiHeadOptions options;
  options.dim = 8, options.heads = 2;
  const MultiHeadAttention layer(options,
                                 registry().attention_builder(t5.attention, RandomStreams(1)));
  EXPECT_EQ(layer.named_parameters()["positions.table"].sizes(), at::IntArrayRef({2 * 8}));
}

// The trait that a model needs under one option alone.
TEST(PositionsKey, OfAModelSayWhichTraitsItNeeds) {
  const auto needs = [](const std::string& options) {
    const Part model = testing::make_part(Kind::model, "transformer_xl", options);
    return needs_of(model, *registry().catalogue().find(Kind::model, model.id).manifest);
  };
  EXPECT_THAT(needs("{}"),
              ::testing::ElementsAre("causal", "different_lengths", "relative_positions"));
  EXPECT_THAT(needs("{positions: none}"), ::testing::ElementsAre("causal", "different_lengths"));
}

TEST(PositionsKey, OfModelsChangeNoHashWhereTheyAreAsTheyWere) {
  for (const char* model : {"timeseries_transformer", "transformer_xl"}) {
    Node composed = parse_yaml("schema: 1\nattention: standard\n", "f.yaml");
    composed.set("model", Node::scalar(model));
    const bool series = std::string(model) == "timeseries_transformer";
    composed.set("task", Node::scalar(series ? "sequence_classification" : "language_modelling"));
    composed.set("dataset", Node::scalar(series ? "synthetic_series" : "synthetic_text"));
    Experiment experiment = resolve_experiment(composed, registry().catalogue(), "made");
    const std::string hash = experiment.hash();
    Node& options = *experiment.resolved.find("model");
    options.set("positions", Node::scalar("none"));
    EXPECT_NE(experiment.hash(), hash) << model;
    options.erase("positions");
    EXPECT_EQ(experiment.hash(), hash) << model;
  }
}

}  // namespace
}  // namespace attnlab::positions_test
