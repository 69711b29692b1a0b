// Entries of `evaluate:` of a finished run.
#include "framework/train/entries.h"

#include <atomic>
#include <filesystem>
#include <functional>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/config/compose.h"
#include "framework/runs/missing_evaluations.h"
#include "tests/support/plugins.h"
#include "tests/support/thread_world.h"
#include "tests/support/tiny_parts.h"

namespace attnlab::entries_test {
namespace {

using attnlab::testing::says;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::registry;

/// Gives what it is told to, and has metrics of names with a slash.
class Told final : public testing::Sorting {
 public:
  std::vector<MetricInfo> metrics() const override {
    return {{"accuracy", Better::higher, "share"}, {"kind/good", Better::higher, "share"}};
  }
  Metrics evaluate(Evaluation&) const override { return answer(); }

  std::function<Metrics()> answer;
};

class Entries : public ::testing::Test {
 protected:
  Experiment asked(const std::string& evaluate) const {
    return resolve_experiment(
        parse_yaml("schema: 1\n"
                   "model: {use: vit, patch_size: 7, dim: 8, depth: 1, heads: 1}\n"
                   "attention: standard\ntask: image_classification\n"
                   "dataset: {use: synthetic_images, train: 16, test: 8, validation: 8}\n"
                   "train: {epochs: 1, batch_size: 8, threads: 1, workers: 0, tensorboard: false,"
                   " average: {decay: 0.5}}\n"
                   "evaluate:\n" +
                       evaluate,
                   "asked.yaml"),
        registry().catalogue(), "asked");
  }
  /// A finished run.
  BuiltRun trained(const Experiment& experiment) const {
    return testing::trained_run(experiment, run_, registry());
  }
  /// What evaluating its entries files for one of them.
  EvaluationRecord evaluated(const BuiltRun& run, const std::string& name) const {
    evaluate_entries(run, run_, evaluations_of(run.experiment, registry().catalogue()), {},
                     registry(), stop_, [](const EvaluationRecord&, bool) {});
    const auto records = read_evaluations(run_.path()).records;
    const EvaluationRecord* found = result_of(records, name);
    EXPECT_NE(found, nullptr) << name;
    return found == nullptr ? EvaluationRecord() : *found;
  }
  std::string file_of(const EvaluationRecord& record) const {
    return run_.file(evaluation_file(record.entry, record.hash));
  }

  const testing::TempFolder folder_;
  const RunFolder run_{folder_ / "runs/asked/standard/0-01234567"};
  const std::atomic<bool> stop_{false};
};

TEST_F(Entries, SayOfWhichWeightsTheyAre) {
  const BuiltRun run =
      trained(asked("  held: {split: validation}\n"
                    "  mean: {weights: average, over: {dataset.noise: [0.25, 1]}}\n"));
  EXPECT_EQ(evaluated(run, "held").weights, "last");
  EXPECT_EQ(evaluated(run, "mean/1").weights, "average");
  EXPECT_EQ(evaluated(run, "mean").weights, "average") << "the mean of its points";
}

TEST_F(Entries, LeaveAnEarlierResultAsItWasWhereTheyAreInterrupted) {
  BuiltRun run = trained(asked("  held: {split: validation}\n"));
  const auto task = std::make_shared<Told>();
  run.task = task;
  task->answer = []() -> Metrics { throw DataError("no answer"); };
  const EvaluationRecord failed = evaluated(run, "held");
  EXPECT_EQ(failed.reason, "no answer");
  const std::string before = read_text(file_of(failed));
  EXPECT_TRUE(nlohmann::json::parse(before).contains("task"));
  task->answer = []() -> Metrics { throw Interrupted(); };
  EXPECT_THROW(evaluated(run, "held"), Interrupted);
  EXPECT_EQ(read_text(file_of(failed)), before);
  std::filesystem::remove(file_of(failed));
  EXPECT_THROW(evaluated(run, "held"), Interrupted);
  EXPECT_FALSE(std::filesystem::exists(file_of(failed))) << "there was none";
}

TEST_F(Entries, ThatFailLeaveAGoodResultOfTheirSettingsAsItWas) {
  BuiltRun run = trained(asked("  held: {split: validation}\n"));
  const auto task = std::make_shared<Told>();
  run.task = task;
  task->answer = [] { return Metrics{{"accuracy", 0.5}}; };
  const EvaluationRecord good = evaluated(run, "held");
  ASSERT_TRUE(good.done);
  const std::string before = read_text(file_of(good));
  task->answer = []() -> Metrics { throw DataError("no answer"); };
  const auto fails = [&](const ::testing::Matcher<std::string>& why) {
    std::vector<EvaluationRecord> told;
    evaluate_entries(run, run_, evaluations_of(run.experiment, registry().catalogue()),
                     {.names = {}, .again = true}, registry(), stop_,
                     [&](const EvaluationRecord& record, bool) { told.push_back(record); });
    ASSERT_EQ(told.size(), 1U);
    EXPECT_FALSE(told[0].done);
    EXPECT_THAT(told[0].reason, why);
    EXPECT_TRUE(told[0].metrics.empty());
  };
  fails(says({"no answer", "earlier result stays"}));
  EXPECT_EQ(read_text(file_of(good)), before);
  EXPECT_EQ(read_evaluations(run_.path()).records.size(), 1U);
  // Other weights: what is there is no result of these.
  const std::string path = weights_file(run.experiment, run_);
  TensorFile weights = read_safetensors(path);
  weights.metadata.erase("checksum");
  write_safetensors(path, weights);
  fails("no answer");
  EXPECT_FALSE(read_evaluations(run_.path()).records.at(0).done);
}

TEST_F(Entries, OfDataThatFitNoMoreLeaveNoEarlierResult) {
  const auto series = [&](const std::string& folder, const std::string& classes) {
    for (const char* part : {"TRAIN", "TEST"}) {
      std::string text = "@dimensions 2\n@classLabel true " + classes + "\n@data\n";
      for (int i = 0; i < 8; ++i) {
        const std::string at = std::to_string(i);
        text += at + ",1," + at + ",2:" + at + ",3,1," + at + ":" +
                classes.substr(i % 2 == 0 ? 0 : 2, 1) + "\n";
      }
      folder_.write(folder + "/Set/Set_" + part + ".ts", text);
    }
  };
  series("own", "a b");
  series("other", "a b");
  const BuiltRun run = trained(resolve_experiment(
      parse_yaml(
          "schema: 1\nmodel: toy_transformer\nattention: standard\n"
          "task: sequence_classification\n"
          "dataset: {use: uea, name: Set, root: " +
              (folder_ / "own") +
              ", validation: 0}\n"
              "train: {epochs: 1, batch_size: 8, threads: 1, workers: 0, tensorboard: false}\n"
              "evaluate: {there: {set: {dataset: {root: " +
              (folder_ / "other") + "}}}}\n",
          "asked.yaml"),
      registry().catalogue(), "asked"));
  EXPECT_TRUE(evaluated(run, "there").done);
  std::filesystem::remove_all(folder_ / "other/Set");
  EXPECT_TRUE(evaluated(run, "there").done) << "nothing says that it is not of these data";
  series("other", "a c");
  const EvaluationRecord now = evaluated(run, "there");
  EXPECT_FALSE(now.done);
  EXPECT_THAT(now.reason, ::testing::HasSubstr("class 1 is \"c\", not \"b\""));
}

TEST_F(Entries, ThatFailAreFiledWhereTheRunIsWhereverTheyThrow) {
  BuiltRun run = trained(asked("  held: {split: validation}\n"));
  const testing::InFolder inside(folder_.path());
  const RunFolder relative("runs/asked/standard/0-01234567");
  const auto task = std::make_shared<Told>();
  run.task = task;
  std::filesystem::create_directory("elsewhere");
  task->answer = []() -> Metrics {
    std::filesystem::current_path("elsewhere");
    throw DataError("lost its way");
  };
  evaluate_entries(run, relative, evaluations_of(run.experiment, registry().catalogue()), {},
                   registry(), stop_, [](const EvaluationRecord&, bool) {});
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "elsewhere"));
  const Evaluations filed = read_evaluations(run_.path());
  ASSERT_EQ(filed.records.size(), 1U);
  EXPECT_EQ(filed.records[0].reason, "lost its way");
}

TEST_F(Entries, OfEachEpochAreLeftOutWhereTheyFailInAllProcesses) {
  const Experiment experiment = asked("  held: {split: validation, when: each}\n");
  std::vector<BuiltRun> runs;
  std::vector<std::shared_ptr<Told>> tasks;
  for (int i = 0; i < 2; ++i) {
    BuiltRun& run = runs.emplace_back(build_run(experiment, 0, registry()));
    run.task = tasks.emplace_back(std::make_shared<Told>());
    run.each = each_evaluations(run, registry());
  }
  const auto complaints = [&](const std::function<Metrics(std::int64_t)>& answer) {
    std::atomic<int> count{0};
    testing::in_world(2, [&](const std::shared_ptr<World>& world) {
      const auto rank = static_cast<std::size_t>(world->rank());
      runs[rank].world = world;
      tasks[rank]->answer = [&] { return answer(world->rank()); };
      runs[rank].each->evaluate(runs[rank], Split::validation, {}, stop_,
                                [&](const std::string&) { ++count; });
      world->meet();
    });
    return count.load();
  };
  EXPECT_EQ(complaints([](std::int64_t) -> Metrics { throw DataError("no answer"); }), 2);
  EXPECT_EQ(message_of<DataError>([&] {
              complaints([](std::int64_t rank) -> Metrics {
                if (rank == 1) throw DataError("a hole in its disk");
                return {};
              });
            }),
            "a hole in its disk")
      << "with an entry less, its calls would not fit those of the other";
}

TEST_F(Entries, CannotHaveTheNameOfTheRunsOwnMetrics) {
  EXPECT_THAT(
      message_of<ConfigError>(
          [&] { build_run(asked("  training: {set: {dataset: {noise: 1}}}\n"), 0, registry()); }),
      AllOf(HasSubstr("asked.yaml:8:"), HasSubstr("evaluate.training: the run's own metrics"),
            HasSubstr("give the entry another name")));
  for (const char* entry : {"kind: {split: validation}", "kind: {over: {dataset.noise: [1]}}"}) {
    BuiltRun run = build_run(asked(std::string("  ") + entry + "\n"), 0, registry());
    run.task = std::make_shared<Told>();
    EXPECT_THAT(message_of<ConfigError>([&] { each_evaluations(run, registry()); }),
                HasSubstr("names such as 'kind/good'"))
        << entry;
  }
  BuiltRun run = build_run(asked("  kin: {split: validation}\n"), 0, registry());
  run.task = std::make_shared<Told>();
  EXPECT_EQ(each_evaluations(run, registry()), nullptr) << "an entry of another name";
}

}  // namespace
}  // namespace attnlab::entries_test
