// What compositions that share sections are made of.
#include "framework/experiment/resolved_parts.h"

#include "framework/config/compose.h"
#include "tests/support/compositions.h"

namespace attnlab::resolved_parts_test {
namespace {

using namespace testing;
using nlohmann::json;

/// What a node holds: nodes that share it have it at one place.
const void* body_of(const Node& node) { return &node.entries(); }

class ResolvedPartsTest : public ::testing::Test {
 protected:
  ResolvedPartsTest() {
    json net = made_manifest(Kind::model, "net");
    net["options"] = json::parse(R"([{"name": "depth", "type": "int", "default": 3, "help": ""}])");
    for (const json& one : {net, made_manifest(Kind::attention, "plain"),
                            made_manifest(Kind::task, "t"), made_manifest(Kind::dataset, "d")}) {
      const std::string id = one.at("id");
      write_plugin(folder_, id.substr(4) + ".so", one);
    }
    catalogue_.emplace(catalogue_of(folder_.path()));
  }

  Experiment known(const Node& composed) {
    return resolve_experiment(composed, *catalogue_, "made", parts_);
  }
  Experiment anew(const Node& composed) const {
    return resolve_experiment(composed, *catalogue_, "made");
  }

  const TempFolder folder_;
  std::optional<Catalogue> catalogue_;
  ResolvedParts parts_;
  const Node first_ = parse_yaml(
      "schema: 1\ntask: t\ndataset: d\nmodel: {use: net, depth: 4}\nattention: plain\n"
      "train: {epochs: 1}\n",
      "f.yaml");
};

TEST_F(ResolvedPartsTest, ASectionThatIsSharedIsResolvedOnce) {
  Node second = first_;
  second.find("train")->set("epochs", Node::scalar("2"));
  const Experiment one = known(first_), two = known(second);
  EXPECT_EQ(body_of(one.resolved.at("model")), body_of(two.resolved.at("model")));
  EXPECT_EQ(two.train.epochs, 2);
  EXPECT_EQ(to_yaml(two.resolved), to_yaml(anew(second).resolved));
  EXPECT_EQ(two.hash(), anew(second).hash());
  EXPECT_EQ(two.model.id, anew(second).model.id);
}

TEST_F(ResolvedPartsTest, ASectionThatDiffersIsNotTakenForAnother) {
  Node second = first_;
  second.find("model")->set("depth", Node::scalar("5"));
  known(first_);
  const Experiment two = known(second);
  EXPECT_EQ(two.model.options.at("depth").text(), "5");
  EXPECT_EQ(to_yaml(two.resolved), to_yaml(anew(second).resolved));
}

TEST_F(ResolvedPartsTest, AnAliasIsAPartOfEachKind) {
  json both = made_manifest(Kind::model, "plain");
  both["options"] = json::parse(R"([{"name": "width", "type": "int", "default": 2, "help": ""}])");
  write_plugin(folder_, "plain_model.so", both);
  catalogue_.emplace(catalogue_of(folder_.path()));
  const Node composed = parse_yaml(
      "schema: 1\ntask: t\ndataset: d\nmodel: &one {use: plain}\nattention: *one\n", "f.yaml");
  const Experiment experiment = known(composed);
  EXPECT_EQ(to_yaml(experiment.resolved), to_yaml(anew(composed).resolved));
  EXPECT_EQ(experiment.attention.kind, Kind::attention);
  EXPECT_EQ(experiment.resolved.at("attention").find("width"), nullptr);
}

TEST_F(ResolvedPartsTest, WhatIsWrongIsSaidAgain) {
  Node wrong = first_;
  wrong.find("model")->set("dept", Node::scalar("5"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(message_of<ConfigError>([&] { known(wrong); }).find("dept"), std::string::npos);
  }
}

}  // namespace
}  // namespace attnlab::resolved_parts_test
