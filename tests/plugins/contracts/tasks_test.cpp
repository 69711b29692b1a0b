// Every installed task keeps its contract.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/conformance/memory.h"
#include "framework/conformance/task_conformance.h"
#include "tests/support/plugins.h"

namespace attnlab::tasks_test {
namespace {

using conformance::CheckResult;
using conformance::Outcome;

struct Configured {
  std::string name;  ///< of the test
  std::string id, options = "{}";
};

void PrintTo(const Configured& task, std::ostream* out) { *out << task.id << " " << task.options; }

/// Images with all classes that are right for each: the usual one and the next; none of every
/// fourth.
class WithLabelSets final : public Dataset {
 public:
  explicit WithLabelSets(std::shared_ptr<Dataset> images)
      : images_(std::move(images)), info_(images_->info()) {
    FieldInfo sets{"classes@label", {-1}, at::kLong};
    sets.categories = info_.classes;
    info_.fields.push_back(sets);
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override { return images_->size(split); }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    NamedTensors example = images_->example(split, index, augmentation);
    const auto own = example.at("class").item<std::int64_t>();
    std::vector<std::int64_t> set;
    if (index % 4 != 3) set = {own, (own + 1) % info_.classes};
    example.set("classes@label", at::tensor(set, at::kLong));
    return example;
  }

 private:
  std::shared_ptr<Dataset> images_;
  DatasetInfo info_;
};

/// Tasks that read images are tried on small ones and a small transformer; others on what is made
/// up from what they take.
conformance::Problem problem_for(const std::vector<std::string>& takes) {
  const auto reads = [&](const char* field) {
    return std::find(takes.begin(), takes.end(), field) != takes.end();
  };
  const bool sets = reads("classes@label");
  if (!reads("image") && !sets) return {};
  std::shared_ptr<Dataset> data = testing::make_dataset(
      "synthetic_images", "{classes: 5, size: 8, train: 24, test: 24, noise: 0.1, shift: 0}");
  if (sets) data = std::make_shared<WithLabelSets>(data);
  return {data, [data] {
            return testing::make_model("vit", data->info(),
                                       "{dim: 8, depth: 1, heads: 2, patch_size: 4}");
          }};
}

class EveryTask : public ::testing::TestWithParam<Configured> {};

TEST_P(EveryTask, KeepsTheContract) {
  const Part part = testing::make_part(Kind::task, GetParam().id, GetParam().options);
  auto subject = conformance::task_subject_of(testing::registry(), part);
  subject.problem = problem_for(subject.takes);
  int passed = 0;
  for (const CheckResult& result : run_checks(subject)) {
    EXPECT_NE(result.outcome, Outcome::failed) << result.check << ": " << result.message;
    if (result.outcome == Outcome::passed) ++passed;
  }
  const int uncounted = conformance::counts_memory() ? 0 : 1;  // under a sanitizer
  EXPECT_GE(passed, 8 - uncounted) << "most checks are for every task";
}

std::vector<Configured> installed() {
  std::vector<Configured> all;
  for (const std::string& id : testing::registry().catalogue().names(Kind::task)) {
    // Boxes and label maps cannot be made up: tests/plugins/detection/ and tests/plugins/dense/
    // have data for these.
    if (id.ends_with("_detection") || id == "semantic_segmentation") continue;
    if (id == "segmentation_corruptions") continue;
    // Made-up outputs have no features of layers: tests/plugins/images/ has what these measure.
    const auto& takes = testing::registry().catalogue().find(Kind::task, id).manifest->takes;
    if (std::count(takes.begin(), takes.end(), "layer_features") > 0) continue;
    // Frost, one of the fifteen, needs photos.
    const bool corrupts = id == "image_corruptions";
    all.push_back({id, id, corrupts ? "{corruptions: [fog, contrast], severities: [3]}" : "{}"});
  }
  return all;
}

const Configured kConfigured[] = {
    {"forecasting_by_huber", "forecasting", "{loss: huber, delta: 0.5, steps: [1, 3]}"},
    {"graph_regression_by_squares", "graph_regression", "{loss: mse, headline: rmse}"},
    {"graphs_by_roc_auc", "graph_classification", "{roc_auc: headline}"},
    {"nodes_by_recall", "node_classification", "{headline: recall}"},
    {"links_filtered", "link_prediction", "{headline: mrr_filtered}"},
    {"images_with_smoothing", "image_classification", "{label_smoothing: 0.1}"},
    {"images_with_a_binary_loss", "image_classification", "{loss: binary}"},
    {"images_without_gradients", "image_attack", "{attack: square, steps: 3, eps: 0.02}"},
    {"images_by_rollout", "image_explanation", "{method: rollout}"},
    {"images_by_salience", "image_occlusion", "{order: salient, grid: 4, shares: [0.5]}"},
    {"pairs_with_smoothing", "sequence_pairs", "{label_smoothing: 0.1}"},
    {"sequences_with_outcomes", "sequence_classification", "{outcomes: {record: true}}"},
};

std::string name_of(const ::testing::TestParamInfo<Configured>& task) { return task.param.name; }

INSTANTIATE_TEST_SUITE_P(Installed, EveryTask, ::testing::ValuesIn(installed()), name_of);
INSTANTIATE_TEST_SUITE_P(WithOptions, EveryTask, ::testing::ValuesIn(kConfigured), name_of);

}  // namespace
}  // namespace attnlab::tasks_test
