// Segmenter and the tasks of segmentation keep their contracts, on data that the kit cannot make
// up, and a whole experiment of them trains.
#include "framework/experiment/experiment.h"
#include "tests/support/data_files.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::dense_contracts_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DenseContracts : public ::testing::Test {
 protected:
  /// A small Segmenter on small scenes.
  Experiment experiment(const std::string& model, const std::string& task,
                        const std::string& data = "") const {
    const std::string file = folder_.write(
        "experiment.yaml",
        "schema: 1\nmodel: {use: segmenter, dim: 8, depth: 1, heads: 2, patch_size: 4, "
        "mlp_ratio: 1, " +
            model + "}\nattention: standard\ntask: " + task +
            "\ndataset: {use: painted_scenes, train: 24, test: 16, size: 16, most: 2, noise: 0" +
            data + "}\ntrain: {batch_size: 4, workers: 0}\n");
    return load_experiment(file, {}, testing::registry().catalogue());
  }

  testing::TempFolder folder_;
};

TEST_F(DenseContracts, OfTheModelsForms) {
  for (const std::string form : {"mask, decoder_depth: 1, decoder_dropout: 0.1", "linear"}) {
    SCOPED_TRACE(form);
    testing::expect_contract_kept(Kind::model,
                                  experiment("decoder: " + form, "semantic_segmentation"));
  }
}

TEST_F(DenseContracts, HashIsThatOfVersionsWithoutBackbones) {
  Experiment given = experiment("decoder: linear", "semantic_segmentation");
  const std::string with = given.hash();
  for (const char* option : {"backbone", "swin", "swin_window", "resnet", "stages"}) {
    ASSERT_NE(given.resolved.at("model").find(option), nullptr) << option;
    given.resolved.find("model")->erase(option);
  }
  EXPECT_EQ(given.hash(), with);
  EXPECT_NE(experiment("decoder: linear, swin_window: 4", "semantic_segmentation").hash(), with);
}

TEST_F(DenseContracts, RefuseAnAttentionThatSwinsWindowsCannotUse) {
  const std::string file = folder_.write(
      "windows.yaml",
      "schema: 1\nmodel: {use: segmenter, backbone: swin, swin: nano, stages: 2, decoder: linear}\n"
      "attention: linear\ntask: semantic_segmentation\n"
      "dataset: {use: painted_scenes, train: 8, test: 8, size: 16}\n");
  EXPECT_THAT(testing::message_of<ConfigError>(
                  [&] { load_experiment(file, {}, testing::registry().catalogue()); }),
              AllOf(HasSubstr("linear"), HasSubstr("bias")));
}

TEST_F(DenseContracts, OfTheTasks) {
  for (const std::string task :
       {"semantic_segmentation", "{use: semantic_segmentation, dice: 1, lovasz: 1}",
        "{use: semantic_segmentation, window: 8, stride: 4, scales: [1, 2], flip: true}",
        "{use: segmentation_corruptions, corruptions: [contrast], severities: [2]}"}) {
    SCOPED_TRACE(task);
    testing::expect_contract_kept(Kind::task, experiment("decoder: linear", task));
  }
}

TEST_F(DenseContracts, RefuseATaskOfAnotherKindBeforeAnythingRuns) {
  EXPECT_THAT(testing::message_of<ConfigError>(
                  [&] { experiment("decoder: linear", "image_classification"); }),
              mentions("'image_classification'", "'logits'", "nothing gives"));
}

}  // namespace
}  // namespace attnlab::dense_contracts_test
