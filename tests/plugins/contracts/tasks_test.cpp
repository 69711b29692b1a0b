// Every installed task keeps its contract.
#include <gtest/gtest.h>

#include <algorithm>

#include "framework/conformance/task_conformance.h"
#include "tests/support/plugins.h"

namespace attnlab {
namespace {

using conformance::CheckResult;
using conformance::Outcome;

struct Configured {
  std::string name;  ///< of the test
  std::string id, options = "{}";
};

void PrintTo(const Configured& task, std::ostream* out) { *out << task.id << " " << task.options; }

/// Tasks that read images are tried on small ones and a small transformer; others on what is made
/// up from what they take.
conformance::Problem problem_for(const std::vector<std::string>& takes) {
  if (std::find(takes.begin(), takes.end(), "image") == takes.end()) return {};
  const std::shared_ptr<Dataset> data = testing::make_dataset(
      "synthetic_images", "{classes: 5, size: 8, train: 24, test: 24, noise: 0.1, shift: 0}");
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
  EXPECT_GE(passed, 8) << "most checks are for every task";
}

std::vector<Configured> installed() {
  std::vector<Configured> all;
  for (const std::string& id : testing::registry().catalogue().names(Kind::task)) {
    // Boxes cannot be made up: tests/plugins/detection/ has data for these.
    if (id.ends_with("_detection")) continue;
    // Frost, one of the fifteen, needs photos.
    const bool corrupts = id == "image_corruptions";
    all.push_back({id, id, corrupts ? "{corruptions: [fog, contrast], severities: [3]}" : "{}"});
  }
  return all;
}

const Configured kConfigured[] = {
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
}  // namespace attnlab
