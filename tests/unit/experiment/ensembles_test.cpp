// Which runs can be trained together, by what their plugins' manifests say.
#include "framework/experiment/ensembles.h"

#include "tests/support/compositions.h"

namespace attnlab::ensembles_test {
namespace {

using nlohmann::json;
using testing::made_manifest;
using testing::write_plugin;

/// Plugins that can be trained together, with some members of some manifests replaced.
class Ensembles : public ::testing::Test {
 protected:
  std::string obstacle(const std::string& kind, const json& members,
                       const std::string& train = "") {
    const testing::TempFolder folder;
    const auto write = [&](Kind of, const std::string& name, json own) {
      json manifest = made_manifest(of, name);
      manifest.update(own);
      if (name == kind) manifest.update(members);
      write_plugin(folder, "plugins/" + name + ".so", manifest);
    };
    write(Kind::attention, "attention", json::object());
    write(Kind::model, "model", {{"takes", {"x"}}, {"gives", {"y"}}, {"ensemble", true}});
    write(Kind::task, "task", {{"takes", {"y"}}, {"ensemble", true}});
    write(Kind::dataset, "dataset", {{"gives", {"x"}}});
    const Catalogue catalogue = testing::catalogue_of(folder / "plugins");
    const Node composed = parse_yaml(
        "schema: 1\nmodel: model\nattention: attention\ntask: task\ndataset: dataset\n" + train,
        "f.yaml");
    return obstacle_to_ensemble(resolve_experiment(composed, catalogue, "made"), catalogue);
  }
};

TEST_F(Ensembles, AreForModelsAndTasksThatSaySo) {
  EXPECT_EQ(obstacle("", {}), "");
  EXPECT_EQ(obstacle("model", {{"ensemble", false}}),
            "model 'model' does not hold several members");
  EXPECT_EQ(obstacle("task", {{"ensemble", false}}),
            "task 'task' does not promise that its losses are its steps");
}

TEST_F(Ensembles, AreNotForFieldsWithAnAxis) {
  EXPECT_EQ(obstacle("dataset", {{"gives", {"x", "x@node"}}}),
            "dataset 'dataset' gives 'x@node', of uneven rows");
}

TEST_F(Ensembles, AreNotForStepsInPartsBudgetsAndMeans) {
  EXPECT_EQ(obstacle("", {}, "train: {accumulate: 2}"), "train.accumulate is above 1");
  EXPECT_EQ(obstacle("", {}, "train: {parts: 2}"), "train.parts is above 1");
  EXPECT_EQ(obstacle("", {}, "train: {batching: {budget: 9}}"),
            "train.batching.budget makes batches of uneven size");
  EXPECT_EQ(obstacle("", {}, "train: {average: {decay: 0.9}}"),
            "train.average keeps means of the weights");
  EXPECT_EQ(obstacle("", {}, "train: {attention_losses: {entropy: 0.1}}"),
            "train.attention_losses weighs one loss of a layer, not one for each member");
}

}  // namespace
}  // namespace attnlab::ensembles_test
