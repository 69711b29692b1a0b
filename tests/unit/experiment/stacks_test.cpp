// What is found wrong with `attention.layers` before a model is built: its stacks, and attentions
// whose layers must follow each other.
#include <fmt/format.h>

#include "framework/experiment/experiment.h"
#include "framework/experiment/part.h"
#include "tests/support/compositions.h"

namespace attnlab::stacks_test {
namespace {

using namespace testing;
using nlohmann::json;

/// Attentions `plain`, `chain` (each layer reads what the one before left, where `refine` is true)
/// and `other_chain`; models `net` (option depth, and a decoder of 2 layers with `decoder: mask`)
/// and `silent`, which says nothing of its depth.
class StacksTest : public ::testing::Test {
 protected:
  StacksTest() {
    json chain = made_manifest(Kind::attention, "chain");
    chain["needs"] = {"consecutive if refine=true"};
    chain["options"] =
        json::parse(R"([{"name": "refine", "type": "bool", "default": true, "help": ""}])");
    json other = made_manifest(Kind::attention, "other_chain");
    other["needs"] = {"consecutive"};
    json net = made_manifest(Kind::model, "net");
    net["options"] = depths_;
    net["stacks"] = {"depth", "decoder_depth if decoder=mask"};
    json silent = made_manifest(Kind::model, "silent");
    silent["options"] = depths_;
    for (const json& one : {chain, other, net, silent, made_manifest(Kind::attention, "plain"),
                            made_manifest(Kind::task, "t"), made_manifest(Kind::dataset, "d")}) {
      write(one);
    }
  }
  void write(const json& manifest) const {
    const std::string id = manifest.at("id");
    write_plugin(folder_, id.substr(4) + ".so", manifest);
  }
  Experiment resolve(const std::string& model, const std::string& attention) const {
    const std::string text =
        fmt::format("schema: 1\ntask: t\ndataset: d\nmodel: {}\nattention: {}\n", model, attention);
    return resolve_experiment(parse_yaml(text, "f.yaml"), catalogue_of(folder_.path()), "made");
  }
  /// With layers of a model of four.
  void take(const std::string& attention) const {
    EXPECT_EQ(resolve("{use: net, depth: 4}", attention).name, "made") << attention;
  }
  std::string refusal(const std::string& attention,
                      const std::string& model = "{use: net, depth: 4}") const {
    return message_of<IncompatibleError>([&] { resolve(model, attention); });
  }

  const json depths_ = json::parse(
      R"([{"name": "depth", "type": "int", "default": 0, "help": ""},
          {"name": "decoder", "type": "string", "default": "linear", "help": ""},
          {"name": "decoder_depth", "type": "int", "default": 2, "help": ""}])");
  const TempFolder folder_;
};

TEST_F(StacksTest, AreThoseOfTheModelsOptions) {
  const auto stacks = [&](const std::string& model) {
    const Part part = resolve(model, "plain").model;
    const Catalogue catalogue = catalogue_of(folder_.path());
    return stacks_of(part, *catalogue.find(Kind::model, part.id).manifest);
  };
  EXPECT_THAT(stacks("{use: net, depth: 4}"), ElementsAre(LayerStack{"model.depth", 4}));
  EXPECT_THAT(stacks("{use: net, depth: 4, decoder: mask, decoder_depth: 3}"),
              ElementsAre(LayerStack{"model.depth", 4}, LayerStack{"model.decoder_depth", 3}));
  EXPECT_THAT(stacks("net"), IsEmpty()) << "0: nobody knows";
  EXPECT_THAT(stacks("{use: silent, depth: 4}"), IsEmpty());
}

TEST_F(StacksTest, LackLayersThatKeysName) {
  EXPECT_THAT(refusal("{use: plain, layers: {last: chain, 2-4: chain}}"),
              says({"f.yaml:5:47:", "attention.layers.2-4:", "no layer 4", "stack of 4",
                    "model.depth", "name some of 0 to 3"}));
  EXPECT_THAT(refusal("{use: plain, layers: {every_5: chain}}"),
              says({"f.yaml:5:34:", "attention.layers.every_5:", "no layer", "stack of 4",
                    "model.depth", "take a smaller number"}));
  EXPECT_THAT(refusal("{use: plain, layers: {last: chain, 3: chain}}"),
              says({"attention.layers.last:", "layer 3", "attention.layers.3 "}));
  take("{use: plain, layers: {first: chain, 3: other_chain}}");
  EXPECT_EQ(resolve("{use: silent, depth: 4}", "{use: plain, layers: {9: chain}}").name, "made")
      << "found when it is built";
}

TEST_F(StacksTest, AreEachLookedAt) {
  EXPECT_THAT(refusal("{use: plain, layers: {3: chain}}",
                      "{use: net, depth: 4, decoder: mask, decoder_depth: 2}"),
              says({"no layer 3", "stack of 2", "model.decoder_depth"}));
  EXPECT_EQ(
      resolve("{use: net, depth: 4, decoder: linear}", "{use: plain, layers: {3: chain}}").name,
      "made");
}

TEST_F(StacksTest, HaveNoGapsBetweenLayersThatReadTheOneBefore) {
  EXPECT_THAT(refusal("{use: plain, layers: {0+2: chain}}"),
              says({"f.yaml:5:34:", "attention.layers.0+2:", "'chain' reads", "layer before",
                    "layers 0 and 2", "stack of 4", "model.depth", "'plain' between them",
                    "name layers in a row"}));
  EXPECT_THAT(refusal("{use: chain, layers: {1: plain}}"),
              says({"f.yaml:5:18: attention: attention 'chain'", "layers 0 and 2"}));
  EXPECT_THAT(refusal("{use: chain, layers: {1: {use: chain, refine: false}}}"),
              says({"layers 0 and 2", "'chain' between them"}));
  EXPECT_THAT(refusal("{use: plain, layers: {first: chain, last: {use: chain, as: b}}}"),
              says({"attention.layers.last", "layers 0 and 3"}));
  for (const char* sound :
       {"chain", "{use: chain, layers: {0: plain}}", "{use: chain, layers: {last: plain}}",
        "{use: plain, layers: {1-2: chain}}", "{use: plain, layers: {2: chain}}",
        "{use: plain, layers: {0+2: {use: chain, refine: false}}}",
        "{use: chain, layers: {2: {use: chain, refine: false}, 3: plain}}",
        "{use: plain, layers: {1: chain, 3: other_chain}}",
        "{use: chain, layers: {1+3: other_chain}}"}) {
    take(sound);
  }
  EXPECT_THAT(refusal("{use: plain, layers: {every_3: chain}}", "{use: net, depth: 6}"),
              says({"layers 2 and 5", "stack of 6"}));
}

TEST_F(StacksTest, OfAManifestThatSaysThemWronglyAreItsMistake) {
  int number = 0;
  for (const char* stack : {"depht", "decoder", "depth if decodr=mask"}) {
    const std::string name = fmt::format("wrong{}", number++);
    json wrong = made_manifest(Kind::model, name);
    wrong["options"] = depths_;
    wrong["stacks"] = {stack};
    write(wrong);
    EXPECT_THAT(message_of<ConfigError>([&] { resolve(name, "plain"); }),
                says({name + ".so: its manifest says '" + std::string(stack) + "'", ".stacks"}));
  }
  json needy = made_manifest(Kind::attention, "needy");
  needy["needs"] = {"consecutve"};
  write(needy);
  EXPECT_THAT(message_of<ConfigError>([&] { resolve("net", "needy"); }),
              says({"needy.so: its manifest says 'consecutve'", "needs 'consecutive' or nothing"}));
}

// ---- the plugins that are built here

/// @throws PluginError where one is not built here.
std::string found_wrong(const std::string& model, const std::string& attention) {
  const Catalogue catalogue = Catalogue::of_this_program();
  const Part of_model = part_of(Kind::model, model, parse_yaml("{depth: 4}", "m.yaml"), catalogue);
  Problems problems;
  Part of_attention;
  Node resolved = Node::map();
  resolve_part(parse_yaml("attention: " + attention, "f.yaml"), Kind::attention, catalogue,
               of_attention, resolved, problems);
  check_stacks(stacks_of(of_model, *catalogue.find(Kind::model, of_model.id).manifest),
               of_attention, catalogue, problems);
  return problems.empty() ? "" : problems.front();
}

TEST(ShippedStacks, AreKnownOfModelsOfOneStack) {
  const Catalogue catalogue = Catalogue::of_this_program();
  for (const char* name : {"vit", "timeseries_transformer", "seq_pair_transformer", "itransformer",
                           "patch_tst", "graph_gps", "transformer_lm", "transformer_xl"}) {
    try {
      const Part model = part_of(Kind::model, name, parse_yaml("{depth: 4}", "m.yaml"), catalogue);
      EXPECT_THAT(stacks_of(model, *catalogue.find(Kind::model, model.id).manifest),
                  ElementsAre(LayerStack{"model.depth", 4}))
          << name;
    } catch (const PluginError&) {  // not built here
    }
  }
}

TEST(ShippedStacks, HaveNoGapsForAttentionsThatReadTheLayerBefore) {
  for (const char* attention : {"elliptical", "elliptical_quest", "indirect",
                                "{use: composed, metric: {kind: elliptical}}"}) {
    const std::string name = attention;
    EXPECT_THAT(found_wrong("vit", "{use: standard, layers: {0+2: " + name + "}}"),
                says({"reads", "layer before", "(model.depth)"}))
        << name;
    EXPECT_EQ(found_wrong("vit", "{use: standard, layers: {1-2: " + name + "}}"), "") << name;
  }
  for (const char* attention : {"quest", "composed", "{use: indirect, refine: false}"}) {
    const std::string name = attention;
    EXPECT_EQ(found_wrong("vit", "{use: standard, layers: {0+2: " + name + "}}"), "") << name;
  }
}

}  // namespace
}  // namespace attnlab::stacks_test
