// Attentions that couple rows: what an example gives does not depend on who else is in the batch.
#include <cmath>
#include <map>

#include "tests/integration/workspace.h"

namespace attnlab::testing::coupled_rows_test {
namespace {

/// Domains whose batches hold padding.
class CoupledRows : public Workspace, public ::testing::WithParamInterface<const char*> {
 protected:
  /// What the task measured: all metrics but those of time, memory and training.
  std::map<std::string, double> evaluated(const std::string& batch_size) const {
    const std::string name = "by" + batch_size;
    must({"run", std::string(ATTNLAB_TEST_CONFIGS "/experiments/smoke/") + GetParam() + ".yaml",
          "name=" + name, "attention.use=doubly_stochastic", "attention.max_iter=20", "seeds=[0]",
          "train.epochs=1", "train.threads=1", "train.eval_batch_size=" + batch_size});
    std::map<std::string, double> metrics =
        status_of(run_folder(name + "/doubly_stochastic")).at("metrics");
    std::erase_if(metrics, [](const auto& metric) {
      return metric.first == "train_loss" || metric.first == "peak_memory" ||
             metric.first == "host_share" || metric.first.ends_with("_per_second");
    });
    return metrics;
  }
};

TEST_P(CoupledRows, EvaluateAlikeInBatchesOf1And64) {
  const std::map<std::string, double> alone = evaluated("1"), together = evaluated("64");
  ASSERT_FALSE(together.empty());
  ASSERT_EQ(alone.size(), together.size());
  for (const auto& [name, value] : together) {
    EXPECT_NEAR(alone.at(name), value, 1e-5 * std::abs(value)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Domains, CoupledRows,
                         ::testing::Values("timeseries_synthetic", "graph_sbm", "point_scenes",
                                           "sequence_pairs"),
                         [](const auto& all) { return std::string(all.param); });

}  // namespace
}  // namespace attnlab::testing::coupled_rows_test
