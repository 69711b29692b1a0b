#include "framework/experiment/fields.h"

#include "tests/support/made_parts.h"

namespace attnlab::fields_test {
namespace {

using namespace testing;

TEST(Fields, AreReadWithTheirConditions) {
  EXPECT_EQ(parse_field_rule("class"), (FieldRule{"class", false, "", ""}));
  EXPECT_EQ(parse_field_rule("edges@edge>node?"), (FieldRule{"edges@edge>node", true, "", ""}));
  EXPECT_EQ(parse_field_rule("class@node if head=node"),
            (FieldRule{"class@node", false, "head", "node"}));
  for (const char* wrong : {"", "?", "a b", "a if head", "a if =x", "a if head="}) {
    message_of<PluginError>([&] { parse_field_rule(wrong); });
  }
}

/// A model of graphs with two heads, and data that may have positions.
class ConditionalFields : public ::testing::Test {
 protected:
  ConditionalFields() {
    const auto list = [](const char* text) { return nlohmann::json::parse(text); };
    write(Kind::attention, "standard", {{"traits", {{"causal", true}}}});
    write(Kind::model, "gps",
          {{"takes", {"type@node", "position@node?"}},
           {"gives", {"logits if head=graph", "logits@node if head=node"}},
           {"options", list(R"([{"name": "head", "type": "string", "default": "graph", "help": "",
                                 "choices": ["graph", "node"]}])")}});
    write(Kind::task, "nodes", {{"takes", {"logits@node", "class@node"}}});
    write(Kind::task, "places", {{"takes", {"logits", "position@node"}}});
    write(Kind::dataset, "graphs", {{"gives", {"type@node", "class@node", "position@node?"}}});
    write(Kind::dataset, "plain", {{"gives", {"type@node", "class@node"}}});
    write(Kind::model, "many",
          {{"takes", {"type@node"}},
           {"gives", {"logits if heads=graph", "logits@node if heads=node"}},
           {"options", list(R"([{"name": "heads", "type": "string", "list": true, "default": [],
                                 "help": "", "choices": ["graph", "node"]}])")}});
    write(Kind::model, "broken", {{"takes", {"type@node"}}, {"gives", {"logits if hed=node"}}});
  }
  std::string refusal(const std::string& yaml) const {
    return message_of<ConfigError>([&] { resolve(yaml); });
  }
  Experiment resolve(const std::string& yaml) const {
    return resolve_experiment(parse_yaml("schema: 1\nattention: standard\n" + yaml, "f.yaml"),
                              catalogue_of(folder_ / "plugins"), "made");
  }

 private:
  void write(Kind kind, const std::string& name, const nlohmann::json& members) const {
    nlohmann::json manifest = made_manifest(kind, name);
    manifest.update(members);
    write_plugin(folder_, "plugins/" + name + ".so", manifest);
  }
  TempFolder folder_;
};

TEST_F(ConditionalFields, CountUnderTheirOptionAlone) {
  resolve("model: {use: gps, head: node}\ntask: nodes\ndataset: graphs\n");
  EXPECT_THAT(refusal("model: gps\ntask: nodes\ndataset: graphs\n"),
              says({"f.yaml:4:7:", "'nodes'", "'logits@node'", "'gps'", "'graphs'",
                    "gives type@node, class@node, position@node"}));
}

TEST_F(ConditionalFields, CountWhereAListHoldsTheValue) {
  resolve("model: {use: many, heads: [graph, node]}\ntask: nodes\ndataset: graphs\n");
  for (const std::string heads : {"[graph]", "[]"}) {
    EXPECT_THAT(refusal("model: {use: many, heads: " + heads + "}\ntask: nodes\ndataset: graphs\n"),
                mentions("'nodes'", "'logits@node'", "nothing gives"))
        << heads;
  }
}

TEST_F(ConditionalFields, MayBeMissingWhereTheyAreOptional) {
  resolve("model: {use: gps, head: node}\ntask: nodes\ndataset: plain\n");
  resolve("model: gps\ntask: places\ndataset: graphs\n");  // the data may have it
  EXPECT_THAT(refusal("model: gps\ntask: places\ndataset: plain\n"),
              mentions("'places'", "'position@node'", "nothing gives"));
}

TEST_F(ConditionalFields, OnAnOptionThatThePluginLacksAreItsMistake) {
  EXPECT_THAT(refusal("model: broken\ntask: nodes\ndataset: plain\n"),
              mentions("broken.so:", "'logits if hed=node'", "no option 'hed'", ".gives"));
}

}  // namespace
}  // namespace attnlab::fields_test
