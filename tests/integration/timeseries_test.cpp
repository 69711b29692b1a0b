// Time series through the program: the best epoch, early stopping, protocols, suites with absent
// data and a publication's numbers.
#include <csignal>
#include <filesystem>

#include "tests/integration/workspace.h"

namespace attnlab::testing::timeseries_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Timeseries : public Workspace {
 protected:
  Timeseries() {
    folder_.write("series.yaml", R"(schema: 1
model: {use: timeseries_transformer, dim: 16, depth: 1, heads: 2, hidden: 16}
attention: quest
task: sequence_classification
dataset: {use: synthetic_series, train: 52, validation: 40, test: 40, length: 12, noise: 1.5}
train:
  {epochs: 12, batch_size: 16, drop_last: false, log_every: 1, threads: 1, checkpoint_seconds: 0,
   clip_norm: 4, optimizer: {use: radam, lr: 0.01, weight_decay: 0}, schedule: {shape: constant},
   protocol: sound, early_stop: {patience: 2}}
)");
  }

  /// The epoch that a run must have chosen and the one after which it must have ended, by the rule.
  static std::pair<int, int> chosen_and_last(const std::vector<json>& lines, int patience) {
    double best = -1;
    int chosen = 0, epoch = 0;
    for (const json& line : lines) {
      ++epoch;
      if (line.at("accuracy") >= best) {
        best = line.at("accuracy");
        chosen = epoch;
      } else if (epoch - chosen == patience) {
        break;
      }
    }
    return {chosen, epoch};
  }

  std::string refusal(const std::string& change) const {
    const Ended ended = attnlab({"run", "series.yaml", "--dry-run", change});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  }
};

TEST_F(Timeseries, EndsEarlyWithTheModelOfTheBestEpoch) {
  const Ended ended = must({"run", "series.yaml"});
  EXPECT_THAT(ended.out + ended.err, HasSubstr("protocol sound"));
  const std::string folder = run_folder("series/quest");
  const auto judged = metric_lines(folder, "validation");
  const auto [chosen, last] = chosen_and_last(judged, 2);
  EXPECT_EQ(judged.size(), std::size_t(last)) << "patience was 2";
  EXPECT_LT(last, 12) << "this test needs a run that ends early";
  const json status = status_of(folder);
  EXPECT_EQ(status.at("state"), "done");
  EXPECT_EQ(status.at("step"), 4 * last) << "52 series are three batches of 16 and one of 4";
  EXPECT_EQ(status.at("metrics").at("best_epoch"), chosen);
  // The test split was read once, with the best epoch's model, which is what eval loads.
  ASSERT_EQ(metric_lines(folder, "test").size(), 1U);
  EXPECT_EQ(metric_lines(folder, "test")[0].at("accuracy"), status.at("metrics").at("accuracy"));
  must({"eval", folder});
  const json evaluation = json::parse(file_text(folder + "/evaluation.json"));
  EXPECT_EQ(evaluation.at("nll"), status.at("metrics").at("nll"));
  // Without that model, the last epoch's is not taken for it.
  fs::remove(folder + "/best.safetensors");
  const Ended refused = attnlab({"eval", folder});
  EXPECT_EQ(refused.exit_code, 2) << refused.story();
  EXPECT_THAT(refused.err, mentions("best.safetensors: ", "not there"));
}

TEST_F(Timeseries, ReportsTheBestTestEpochAndSaysSoWhenAskedForThePublishedProtocol) {
  const Ended ended = must({"run", "series.yaml", "train.protocol=published",
                            "dataset.validation=0", "train.early_stop.patience=0"});
  EXPECT_THAT(ended.out + ended.err, HasSubstr("test split itself"));
  const std::string folder = run_folder("series/quest");
  const auto judged = metric_lines(folder, "test");
  ASSERT_EQ(judged.size(), 12U);
  const int chosen = chosen_and_last(judged, 100).first;
  const json metrics = status_of(folder).at("metrics");
  EXPECT_EQ(metrics.at("best_epoch"), chosen);
  EXPECT_EQ(metrics.at("accuracy"), judged[std::size_t(chosen) - 1].at("accuracy"));
  EXPECT_EQ(metrics.at("nll"), judged[std::size_t(chosen) - 1].at("nll"));
}

TEST_F(Timeseries, EndsWithTheSameNumbersAfterKills) {
  must({"run", "series.yaml", "name=whole"});
  const std::string whole = run_folder("whole/quest");
  const std::size_t all = file_text(whole + "/metrics.jsonl").size();
  const Words words = {"run", "series.yaml", "name=killed", "--resume"};
  const auto written = [&] {
    std::error_code error;
    for (const auto& folder : fs::directory_iterator(at("runs/killed/quest"), error)) {
      return file_text(folder.path().string() + "/metrics.jsonl").size();
    }
    return std::size_t{0};
  };
  int kills = 0;
  for (const double share : {0.2, 0.45, 0.7, 0.95}) {
    Process process(invocation(words));
    ASSERT_TRUE(
        wait_for([&] { return !process.running() || double(written()) > share * double(all); }));
    process.send(SIGKILL);
    kills += process.wait().signal == SIGKILL ? 1 : 0;
  }
  EXPECT_GE(kills, 1) << "no kill came in time";
  must(words);
  const std::string killed = run_folder("killed/quest");
  EXPECT_EQ(timeless_metrics(killed), timeless_metrics(whole));
  EXPECT_EQ(file_text(killed + "/metrics.jsonl"), file_text(whole + "/metrics.jsonl"));
  EXPECT_EQ(checkpoint_tensors(killed), checkpoint_tensors(whole));
  EXPECT_EQ(file_text(killed + "/best.safetensors"), file_text(whole + "/best.safetensors"));
}

TEST_F(Timeseries, RefusesAProtocolWithoutItsSplit) {
  EXPECT_THAT(refusal("dataset.validation=0"),
              AllOf(HasSubstr("train.protocol: sound"), HasSubstr("hold training examples out")));
  EXPECT_THAT(refusal("train.protocol=published"),
              AllOf(HasSubstr("40 training examples"), HasSubstr("hold none out")));
  EXPECT_THAT(refusal("train.protocol=last"),
              AllOf(HasSubstr("train.early_stop.patience"), HasSubstr("sound (validation)")));
}

TEST_F(Timeseries, RefusesAMetricThatTheTaskDoesNotGive) {
  const Ended ended = attnlab(
      {"run", "series.yaml", "train.early_stop.metric=acuracy", "train.early_stop.mode=max"});
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.out + ended.err, HasSubstr("did you mean 'accuracy'?"));
}

TEST_F(Timeseries, LeavesExperimentsWithoutDataOutOfASuiteThatSaysSo) {
  folder_.write("absent.yaml",
                "schema: 1\nextends: series.yaml\ndataset: {use: uea, name: Absent, validation: "
                "0.2}\n");
  folder_.write("both.yaml", R"(schema: 1
attentions: [standard, quest]
experiments: [series.yaml, absent.yaml]
seeds: [0]
set: {train: {epochs: 1}}
missing_data: skip
reference:
  source: A paper
  values: {series: {standard: 97.00, quest: 98.4}, absent: {standard: 12}}
)");
  must({"suite", "both.yaml"});
  const std::string text = file_text(at("runs/both/table.md"));
  EXPECT_THAT(text, AllOf(HasSubstr("| A paper "), HasSubstr("| 97.00 "), HasSubstr("no data")));
  EXPECT_THAT(text, HasSubstr("series: protocol sound"));
  const json table = json::parse(file_text(at("runs/both/table.json")));
  EXPECT_EQ(table.at("reference").at("source"), "A paper");
  ASSERT_EQ(table.at("absent").size(), 2U);
  for (const json& cell : table.at("absent")) {
    EXPECT_EQ(cell.at("experiment"), "absent");
    EXPECT_EQ(cell.at("kind"), "no data");
    EXPECT_THAT(cell.at("reason").get<std::string>(), HasSubstr("uea/Absent"));
  }
  for (const json& row : table.at("rows")) {
    const bool quest = row.at("attention") == "quest", series = row.at("experiment") == "series";
    EXPECT_EQ(row.contains("metrics"), series);
    EXPECT_EQ(row.contains("reference"), series || !quest);
  }
  EXPECT_THAT(must({"compare", "runs/both"}).out, AllOf(HasSubstr("A paper"), HasSubstr("+1.40")));
  // Without the key, missing data are an error.
  const Ended ended = attnlab({"suite", "both.yaml", "missing_data=error"});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err, HasSubstr("uea/Absent"));
}

TEST_F(Timeseries, RefusesAReferenceThatIsNone) {
  folder_.write("suite.yaml", R"(schema: 1
attentions: [standard]
experiments: [series.yaml]
missing_data: sometimes
reference: {sauce: x, values: {series: {standard: high}}}
)");
  const Ended ended = attnlab({"validate", "suite.yaml"});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.out + ended.err,
              AllOf(mentions("suite.yaml:4:15: missing_data: 'sometimes'",
                             "suite.yaml:5:13: reference: ", "'sauce'", "did you mean 'source'?",
                             "reference.source: ", "expected a number"),
                    Not(HasSubstr("terminate"))));
}

}  // namespace
}  // namespace attnlab::testing::timeseries_test
