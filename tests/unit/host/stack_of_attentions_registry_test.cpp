// Several mechanisms in one model, as they are built: each layer has the class that the composition
// gives it.
#include "framework/config/compose.h"
#include "tests/support/message_of.h"
#include "tests/support/plugins.h"

namespace attnlab::stack_of_attentions_registry_test {
namespace {

using attnlab::testing::says;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::make_attention;
using testing::make_part;
using testing::message_of;
using testing::registry;

/// `attention: TEXT`, resolved with the build tree's plugins.
Part stack_of(const std::string& text) {
  Part part;
  Node resolved = Node::map();
  Problems problems;
  const Node composed = parse_yaml("attention: " + text + "\n", "f.yaml");
  resolve_part(composed, Kind::attention, registry().catalogue(), part, resolved, problems);
  EXPECT_THAT(problems, IsEmpty());
  return part;
}

AttentionShape shape_of(std::int64_t layer, std::int64_t layers, std::int64_t members = 1) {
  AttentionShape shape;
  shape.heads = 2 * members;
  shape.head_dim = 4;
  shape.layer = layer;
  shape.layers = layers;
  shape.members = members;
  shape.query_width = shape.key_width = shape.value_width = 8;
  return shape;
}

/// "Standard" of attnlab::Standard.
std::string class_of(const Attention& attention) {
  const std::string& name = attention.name();
  return name.substr(name.rfind(':') + 1);
}

std::vector<std::string> classes(const Part& stack, std::int64_t layers, std::int64_t members = 1) {
  const AttentionBuilder build = registry().attention_builder(stack, RandomStreams(1));
  std::vector<std::string> out;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    out.push_back(class_of(*build(shape_of(layer, layers, members))));
  }
  return out;
}

/// A model of two layers.
std::shared_ptr<Model> model_with(const Part& stack) {
  DatasetInfo data;
  data.name = "made up";
  data.classes = 4;
  data.fields = {{"series", {6, 3}, at::kFloat}, {"length", {}, at::kLong}};
  return registry().model(
      make_part(Kind::model, "timeseries_transformer", "{dim: 8, depth: 2, heads: 2, hidden: 12}"),
      {data, registry().attention_builder(stack, RandomStreams(1))});
}

TEST(StackRegistry, BuildsTheClassOfEachLayer) {
  EXPECT_THAT(classes(stack_of("{use: linear, layers: {every_2: standard}}"), 4),
              ElementsAre("LinearAttention", "Standard", "LinearAttention", "Standard"));
  EXPECT_THAT(classes(stack_of("{use: linear, layers: {last: standard, 0+2: quest}}"), 4),
              ElementsAre("Quest", "LinearAttention", "Quest", "Standard"));
  EXPECT_THAT(classes(stack_of("{use: linear, layers: {1: standard}}"), 2, /*members=*/3),
              ElementsAre("LinearAttention", "Standard"))
      << "of models that train together";
}

TEST(StackRegistry, GivesEachMechanismItsOwnOptions) {
  const Part stack =
      stack_of("{use: qknorm_hs, init: 3, layers: {last: {use: qknorm_hs, init: 5}}}");
  const AttentionBuilder build = registry().attention_builder(stack, RandomStreams(1));
  const auto first = build(shape_of(0, 2))->parameters(),
             last = build(shape_of(1, 2))->parameters();
  ASSERT_FALSE(first.empty());
  EXPECT_FALSE(at::equal(first[0], last[0]));
}

TEST(StackRegistry, SaysWhereAMechanismBegins) {
  const auto beginnings = [](const Part& stack) {
    const AttentionBuilder build = registry().attention_builder(stack, RandomStreams(1));
    std::vector<std::int64_t> first;
    for (std::int64_t layer = 0; layer < 4; ++layer) {
      first.push_back(build(shape_of(layer, 4))->shape().first_layer);
    }
    return first;
  };
  EXPECT_THAT(beginnings(stack_of("standard")), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(beginnings(stack_of("{use: linear, layers: {2-3: standard}}")),
              ElementsAre(0, 0, 2, 2));
  EXPECT_THAT(beginnings(stack_of("{use: linear, layers: {every_2: standard}}")),
              ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(beginnings(stack_of("{use: qknorm_hs, layers: {last: {use: qknorm_hs, init: 5}}}")),
              ElementsAre(0, 0, 0, 0))
      << "other options do not make another mechanism";
}

TEST(StackRegistry, LearnsNoFactorsForTheFirstLayerOfAValueResidual) {
  const AttentionBuilder build = registry().attention_builder(
      stack_of("{use: standard, layers: {2-3: {use: value_residual, learned: true}}}"),
      RandomStreams(1));
  EXPECT_EQ(testing::parameter_count(*build(shape_of(2, 4))), 0);
  EXPECT_EQ(testing::parameter_count(*build(shape_of(3, 4))), 2);
}

TEST(StackRegistry, ReachesTheLayersOfAModel) {
  const auto model = model_with(stack_of("{use: standard, layers: {last: quest}}"));
  std::vector<std::string> found;
  for (const auto& module : model->modules()) {
    const auto* attention = dynamic_cast<const Attention*>(module.get());
    if (attention != nullptr) found.push_back(class_of(*attention));
  }
  EXPECT_THAT(found, ElementsAre("Standard", "Quest"));
}

TEST(StackRegistry, SaysWhereAKeyStandsWhoseLayerTheModelLacks) {
  EXPECT_THAT(
      message_of<ConfigError>([] { model_with(stack_of("{use: standard, layers: {7: quest}}")); }),
      says({"f.yaml:1:37:", "attention.layers.7:", "no layer 7", "stack of 2", "0 to 1"}));
  EXPECT_THAT(message_of<ConfigError>([] {
                model_with(stack_of("{use: standard, layers: {last: quest, 1: linear}}"));
              }),
              says({"f.yaml:1:37:", "attention.layers.last:", "layer 1", "attention.layers.1",
                    "f.yaml:1:50"}));
}

TEST(StackRegistry, LeavesTheModelsRandomNumbersAsTheyAre) {
  at::manual_seed(11);
  const Tensor expected = at::rand({3});
  at::manual_seed(11);
  classes(stack_of("{use: qknorm, layers: {last: quest}}"), 2);
  EXPECT_TRUE(at::equal(at::rand({3}), expected));
}

TEST(StackRegistry, TakesAnOrderedAttentionThatWasAskedToReadBothWays) {
  EXPECT_TRUE(make_attention("retention", shape_of(0, 1))->traits().ordered);
  EXPECT_FALSE(make_attention("retention", shape_of(0, 1), "{both_ways: true}")->traits().ordered);
}

}  // namespace
}  // namespace attnlab::stack_of_attentions_registry_test
