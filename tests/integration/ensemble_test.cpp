// Runs trained together: the numbers that each has alone, failures, resuming, errors.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "tests/integration/workspace.h"

namespace attnlab::testing::ensemble_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EnsembleCommand : public Workspace {
 protected:
  EnsembleCommand() {
    folder_.write("toy.yaml", R"(schema: 1
model: toy_transformer
attention: qknorm
task: {use: sequence_classification, outcomes: {record: true}}
dataset: {use: spurious_retrieval, train: 70, test: 40, tokens: 4, key_dim: 3, classes: 3, data_seed: 0}
train:
  {epochs: 3, batch_size: 16, drop_last: false, threads: 1, tensorboard: false, log_every: 1,
   optimizer: {lr: 1.0e-3, weight_decay: 0}, schedule: {shape: constant}}
seeds: [0, 1]
)");
  }

  /// Folders of all runs below a folder, relative to it.
  std::vector<std::string> runs_below(const std::string& root) const {
    std::vector<std::string> runs;
    for (const auto& entry : fs::recursive_directory_iterator(at(root))) {
      if (entry.path().filename() != "config.yaml") continue;
      runs.push_back(fs::relative(entry.path().parent_path(), at(root)));
    }
    return runs;
  }

  /// Steps in the log of the first run below a folder.
  std::size_t steps_logged(const std::string& root) const {
    if (!exists(root + "/toy/qknorm")) return 0;
    const std::vector<std::string> runs = runs_below(root);
    return runs.empty() ? 0 : metric_lines(at(root + "/" + runs.front()), "train").size();
  }

  int trained_together(const std::string& run) const {
    return json::parse(file_text(at(run + "/environment.json"))).value("together", 1);
  }

  /// What two runs logged of each step, and their results, agree up to rounding.
  void expect_same(const std::string& one, const std::string& other) const {
    const std::vector<json> lines = metric_lines(at(one)), twins = metric_lines(at(other));
    ASSERT_EQ(lines.size(), twins.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const auto& [key, value] : lines[i].items()) {
        if (!value.is_number()) continue;
        EXPECT_NEAR(value.get<double>(), twins[i].at(key).get<double>(),
                    1e-4 * (1 + std::abs(value.get<double>())))
            << other << ": " << key << " of line " << i;
      }
    }
    const json metrics = timeless_metrics(at(one)), twin = timeless_metrics(at(other));
    for (const auto& [key, value] : metrics.items()) {
      EXPECT_NEAR(value.get<double>(), twin.at(key).get<double>(), 1e-3) << other << ": " << key;
    }
  }
};

TEST_F(EnsembleCommand, GivesEachRunTheNumbersThatItHasAlone) {
  const Words grid = {"sweep", "toy.yaml", "train.optimizer.lr=1e-3,4e-3",
                      "train.optimizer.weight_decay=0,0.1", "dataset.data_seed=0,1"};
  const auto with = [&](const std::string& members, const std::string& out) {
    Words words = grid;
    for (const char* more : {"--ensemble", members.c_str(), "--out", out.c_str()}) {
      words.emplace_back(more);
    }
    return must(words);
  };
  with("1", "alone");
  with("6", "together");
  const std::vector<std::string> runs = runs_below("alone");
  ASSERT_EQ(runs.size(), 16);
  for (const std::string& run : runs) {
    EXPECT_EQ(trained_together("alone/" + run), 1);
    EXPECT_GE(trained_together("together/" + run), 4) << "6, 6 and 4";
    expect_same("alone/" + run, "together/" + run);
  }
}

// Data from files have one fingerprint, whatever is held out of them, and however they are scaled.
TEST_F(EnsembleCommand, GivesEachRunItsOwnSplitAndScaleOfOneSetOfFiles) {
  std::mt19937_64 random(1);
  const auto series = [&](int count) {
    std::string text = "@dimensions 2\n@classLabel true a b\n@data\n";
    for (int i = 0; i < count; ++i) {
      for (int value = 0; value < 8; ++value) {
        text +=
            std::to_string(double(random() % 1000) / 100) + (value == 3 || value == 7 ? ":" : ",");
      }
      text += i % 2 == 0 ? "a\n" : "b\n";
    }
    return text;
  };
  folder_.write("data/Set/Set_TRAIN.ts", series(40));
  folder_.write("data/Set/Set_TEST.ts", series(20));
  folder_.write("files.yaml", R"(schema: 1
model: toy_transformer
attention: qknorm
task: sequence_classification
dataset: {use: uea, name: Set, root: data, validation: 0.3}
train:
  {epochs: 2, batch_size: 4, threads: 1, tensorboard: false, log_every: 1,
   optimizer: {lr: 1.0e-2}, schedule: {shape: constant}}
)");
  for (const char* members : {"1", "6"}) {
    must({"sweep", "files.yaml", "dataset.normalise=train,published", "--seeds", "0-2",
          "--ensemble", members, "--out", members});
  }
  const std::vector<std::string> runs = runs_below("1");
  ASSERT_EQ(runs.size(), 6);
  for (const std::string& run : runs) {
    EXPECT_EQ(trained_together("6/" + run), 6);
    expect_same("1/" + run, "6/" + run);
  }
}

TEST_F(EnsembleCommand, FillsWholeRoundsOfThePlaces) {
  must({"sweep", "toy.yaml", "train.epochs=1", "dataset.data_seed=0,1,2,3,4,5,6,7", "--ensemble",
        "6", "-j", "2", "--out", "grid"});
  const std::vector<std::string> runs = runs_below("grid");
  ASSERT_EQ(runs.size(), 16);
  for (const std::string& run : runs) {
    EXPECT_EQ(trained_together("grid/" + run), 4) << "two rounds of two groups, not 6, 6 and 4";
  }
}

TEST_F(EnsembleCommand, TrainsTheSeedsOfOneExperimentToo) {
  must({"run", "toy.yaml", "--ensemble"});
  EXPECT_EQ(trained_together(fs::relative(run_folder("toy/qknorm", 1), at("."))), 2);
  EXPECT_THAT(must({"run", "toy.yaml", "--ensemble"}).out, HasSubstr("done before"));
}

TEST_F(EnsembleCommand, SaysWhyAModelCannotHoldMembers) {
  EXPECT_THAT(refusal({"run", "tiny.yaml", "--ensemble"}),
              mentions("--ensemble: ", "model 'vit'", "several members"));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(EnsembleCommand, RunsTheOthersAloneWhereOneCannotGoOn) {
  folder_.write("suite.yaml",
                "schema: 1\nbaseline: qknorm\nattentions: [qknorm]\n"
                "experiments: [toy.yaml]\nseeds: [0, 1, 2]\n");
  must({"suite", "suite.yaml", "--out", "first", "--ensemble", "1"});
  std::string damaged;
  for (const std::string& run : runs_below("first/suite")) {
    const std::string folder = at("first/suite/" + run);
    fs::remove(folder + "/status.json");
    if (fs::path(run).filename().string()[0] != '1') {
      fs::remove(folder + "/checkpoint.safetensors");
      continue;
    }
    damaged = folder;
    folder_.write("first/suite/" + run + "/checkpoint.safetensors", "not a checkpoint");
  }
  const Ended ended = attnlab({"suite", "suite.yaml", "--out", "first", "--ensemble", "3"});
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  EXPECT_THAT(ended.out + ended.err, HasSubstr("runs one by one"));
  for (const std::string& run : runs_below("first/suite")) {
    const std::string folder = at("first/suite/" + run);
    EXPECT_EQ(status_of(folder).at("state"), folder == damaged ? "failed" : "done") << run;
  }
}

TEST_F(EnsembleCommand, EndsEachRunForReadersOfItsProgressWhereTheyFail) {
  must({"run", "toy.yaml", "--ensemble", "train.epochs=1"});
  for (const int seed : {0, 1}) {
    const std::string folder = run_folder("toy/qknorm", seed);
    fs::remove(folder + "/status.json");
    fs::remove(folder + "/checkpoint.safetensors");
    if (seed == 1) std::ofstream(folder + "/checkpoint.safetensors") << "not a checkpoint";
  }
  const Ended ended = attnlab(
      {"run", "toy.yaml", "--ensemble", "train.epochs=1", "--resume", "--progress", "json"});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  std::map<std::string, int> ends;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event.at("event") != "end") continue;
    ++ends[event.at("run").get<std::string>()];
    EXPECT_THAT(event.at("text").get<std::string>(),
                AllOf(StartsWith("failed: "), HasSubstr("together with others: ")));
  }
  EXPECT_EQ(ends, (std::map<std::string, int>{{"toy/qknorm/0", 1}, {"toy/qknorm/1", 1}}));
}

TEST_F(EnsembleCommand, GoesOnWhereItWasStopped) {
  must({"run", "toy.yaml", "--ensemble", "--out", "whole", "train.epochs=60"});
  {
    Process process(invocation({"run", "toy.yaml", "--ensemble", "--out", "halves",
                                "train.epochs=60", "--progress", "none"}));
    ASSERT_TRUE(wait_for([&] { return steps_logged("halves") >= 20; }));
    process.send(SIGTERM);
    const Ended ended = process.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
  }
  must({"run", "toy.yaml", "--ensemble", "--out", "halves", "train.epochs=60", "--resume"});
  for (const std::string& run : runs_below("whole")) {
    EXPECT_EQ(checkpoint_tensors(at("whole/" + run)), checkpoint_tensors(at("halves/" + run)))
        << run << ": bit for bit";
  }
}

}  // namespace
}  // namespace attnlab::testing::ensemble_test
