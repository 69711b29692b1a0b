// Which runs can be trained together, by what their plugins' manifests say.
#include "framework/experiment/ensembles.h"

#include "tests/support/compositions.h"

namespace attnlab::ensembles_test {
namespace {

using attnlab::testing::says;
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
  EXPECT_THAT(obstacle("model", {{"ensemble", false}}), says({"model 'model'", "several members"}));
  EXPECT_THAT(obstacle("task", {{"ensemble", false}}), says({"task 'task'", "losses"}));
}

TEST_F(Ensembles, AreNotForFieldsWithAnAxis) {
  EXPECT_THAT(obstacle("dataset", {{"gives", {"x", "x@node"}}}), says({"'dataset'", "'x@node'"}));
}

TEST_F(Ensembles, AreNotForStepsInPartsBudgetsAndMeans) {
  EXPECT_EQ(obstacle("", {}, "train: {accumulate: 2}"), "train.accumulate is above 1");
  EXPECT_EQ(obstacle("", {}, "train: {parts: 2}"), "train.parts is above 1");
  EXPECT_THAT(obstacle("", {}, "train: {batching: {budget: 9}}"), says({"train.batching.budget"}));
  EXPECT_THAT(obstacle("", {}, "train: {average: {decay: 0.9}}"), says({"train.average"}));
  EXPECT_THAT(obstacle("", {}, "train: {precision: float16}"),
              says({"train.precision", "float16"}));
  EXPECT_THAT(obstacle("", {}, "train: {attention_losses: {entropy: 0.1}}"),
              says({"train.attention_losses"}));
}

}  // namespace
}  // namespace attnlab::ensembles_test
