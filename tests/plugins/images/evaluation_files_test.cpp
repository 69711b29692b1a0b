// The files of configs/evaluations about images compose over a run, and their tasks are built.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "framework/experiment/evaluations.h"
#include "tests/support/plugins.h"

namespace attnlab::evaluation_files_test {
namespace {

namespace fs = std::filesystem;

/// As cifar says it; nothing is read.
DatasetInfo small_pictures() {
  DatasetInfo info;
  info.name = "small pictures";
  info.classes = 10;
  info.fields = {{"image", {3, 32, 32}, at::kFloat}, {"class", {}, at::kLong}};
  info.fields[0].mean = {0.5, 0.5, 0.5};
  info.fields[0].deviation = {0.25, 0.25, 0.25};
  return info;
}

std::vector<std::string> files_about_images() {
  std::vector<std::string> files;
  for (const auto& entry :
       fs::directory_iterator(std::string(ATTNLAB_TEST_CONFIGS) + "/evaluations")) {
    const std::string name = entry.path().stem().string();
    if (name.starts_with("language_") || name.starts_with("transformer_")) continue;
    files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

class EvaluationFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(EvaluationFiles, ComposeOverARun) {
  const Catalogue& catalogue = testing::registry().catalogue();
  const std::string configs = ATTNLAB_TEST_CONFIGS;
  const bool folders = GetParam() == "imagenet_variants";
  const std::vector<std::string> datasets = catalogue.names(Kind::dataset);
  if (folders && std::count(datasets.begin(), datasets.end(), "image_folder") == 0) {
    GTEST_SKIP() << "needs image_folder, which needs OpenCV";
  }
  const std::string run = folders ? "paper/deit/deit_ti" : "accuracy/vit_cifar10";
  const Experiment experiment =
      load_experiment(configs + "/experiments/" + run + ".yaml", {}, catalogue);
  const Experiment asked =
      with_evaluations(experiment, configs + "/evaluations/" + GetParam() + ".yaml", catalogue);
  const std::vector<EvaluationEntry> entries = evaluations_of(asked, catalogue);
  EXPECT_FALSE(entries.empty());
  const DatasetInfo info = small_pictures();
  for (const EvaluationEntry& entry : entries) {
    EXPECT_NO_THROW(testing::registry().task(entry.experiment.task, {info, {}})) << entry.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EvaluationFiles, ::testing::ValuesIn(files_about_images()),
                         [](const auto& file) { return file.param; });

/// A run's own augmentation is not what probes are published with.
TEST(FilesAboutImages, AugmentAsPublishedProbesDo) {
  const Catalogue& catalogue = testing::registry().catalogue();
  const std::string configs = ATTNLAB_TEST_CONFIGS;
  const Experiment run = load_experiment(
      configs + "/experiments/accuracy/vit_cifar10.yaml",
      {"dataset.augmentation.policy=rand", "dataset.augmentation.erase=0.25",
       "dataset.augmentation.colour_jitter=0.3", "dataset.augmentation.crop_padding=4"},
      catalogue);
  const Experiment asked =
      with_evaluations(run, configs + "/evaluations/linear_probe.yaml", catalogue);
  bool found = false;
  for (const EvaluationEntry& entry : evaluations_of(asked, catalogue)) {
    if (entry.name != "linear_augmented") continue;
    found = true;
    const Node& changes = entry.experiment.resolved.at("dataset").at("augmentation");
    EXPECT_EQ(changes.at("policy").text(), "none");
    EXPECT_EQ(changes.at("resized_crop").text(), "true");
    for (const char* none : {"erase", "colour_jitter", "crop_padding"}) {
      EXPECT_EQ(changes.at(none).text(), "0") << none;
    }
  }
  EXPECT_TRUE(found);
}

TEST(FilesAboutImages, AreWhereTheyAreLookedFor) { EXPECT_GE(files_about_images().size(), 8U); }

}  // namespace
}  // namespace attnlab::evaluation_files_test
