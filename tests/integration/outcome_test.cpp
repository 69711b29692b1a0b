// Outcomes of runs through the program: in the status, again by eval, and as shares of a suite.
#include <cmath>

#include "tests/integration/workspace.h"

namespace attnlab::testing::outcome_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Outcomes : public Workspace {
 protected:
  Outcomes() {
    folder_.write("toy.yaml", R"(schema: 1
model: toy_transformer
attention: standard
task: {use: sequence_classification, outcomes: {record: true, correct_above: 0, chance_margin: 0}}
dataset: {use: spurious_retrieval, train: 70, test: 40, tokens: 4, key_dim: 3, classes: 3}
train: {epochs: 2, batch_size: 16, threads: 1, tensorboard: false, eval_batch_size: 32}
)");
  }
};

TEST_F(Outcomes, AreToldOfTheWholeTrainingSplitAndByEvalAgain) {
  must({"run", "toy.yaml"});
  const std::string folder = run_folder("toy/standard");
  const json metrics = status_of(folder).at("metrics");
  EXPECT_EQ(metrics.at("outcome/correct"), 1) << metrics << ": any accuracy is above 0 here";
  for (const char* other : {"outcome/biased", "outcome/degenerate", "outcome/other"}) {
    EXPECT_EQ(metrics.at(other), 0);
  }
  // Of 70 examples, though an epoch leaves six out.
  const double right = 70 * metrics.at("training/accuracy").get<double>();
  EXPECT_NEAR(right, std::round(right), 1e-9);
  const json again = json::parse(must({"eval", folder, "--json"}).out);
  for (const char* name : {"accuracy", "training/accuracy", "training/nll", "outcome/correct"}) {
    EXPECT_EQ(again.at(name), metrics.at(name)) << name;
  }
}

TEST_F(Outcomes, AreAbsentWhereTheTaskDoesNotAsk) {
  must({"run", "toy.yaml", "task.outcomes.record=false", "train.epochs=1"});
  const json metrics = status_of(run_folder("toy/standard")).at("metrics");
  EXPECT_FALSE(metrics.contains("outcome/correct"));
  EXPECT_FALSE(metrics.contains("training/accuracy"));
}

TEST_F(Outcomes, AreSharesOfASuitesRunsWithAnInterval) {
  folder_.write("toys.yaml", R"(schema: 1
baseline: standard
attentions: [standard]
experiments: [toy.yaml]
seeds: [0, 1]
set: {train: {epochs: 1}}
)");
  const Ended ended = must({"suite", "toys.yaml"});
  EXPECT_THAT(ended.out, HasSubstr("outcome/correct (%)"));
  EXPECT_THAT(ended.out, HasSubstr("100.00 [34.24, 100.00]")) << "two of two";
  const json table = json::parse(file_text(at("runs/toys/table.json")));
  const json share = table.at("rows").at(0).at("metrics").at("outcome/correct");
  EXPECT_NEAR(share.at("interval").at(0).get<double>(), 0.342380, 1e-6);
}

}  // namespace
}  // namespace attnlab::testing::outcome_test
