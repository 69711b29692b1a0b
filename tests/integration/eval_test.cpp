// Evaluations: finished runs asked about other data and by other tasks, never trained again.
#include <filesystem>

#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::eval_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Evaluate : public Workspace {
 protected:
  /// A made-up corruption of the test images: noise, and gratings that are moved.
  void write_experiment(const std::string& evaluate) const {
    folder_.write("asked.yaml", "schema: 1\nextends: tiny.yaml\nevaluate:\n" + evaluate);
  }
  std::string folder() const { return run_folder("asked/standard"); }
  /// What is filed for an entry; one result of it must be there.
  json filed(const std::string& entry) const {
    std::vector<json> found;
    std::error_code error;
    for (const auto& file : fs::directory_iterator(folder() + "/evaluations", error)) {
      json record = json::parse(file_text(file.path().string()));
      if (record.at("entry") == entry) found.push_back(std::move(record));
    }
    EXPECT_EQ(found.size(), 1U) << entry;
    return found.empty() ? json() : found.front();
  }
  double accuracy(const std::string& entry) const {
    return filed(entry).at("metrics").at("accuracy");
  }
  json own() const { return status_of(folder()).at("metrics"); }
};

const std::string kEntries =
    "  clean: {}\n"
    "  noisy: {set: {dataset: {noise: 3}}}\n"
    "  sequence: {set: {task: {use: sequence_classification}}}\n"
    "  fog: {over: {dataset.noise: [0.25, 1], dataset.shift: [0, 8]}}\n";

TEST_F(Evaluate, AsksAFinishedRunOtherThingsAndFilesEachAnswer) {
  write_experiment(kEntries);
  must({"run", "asked.yaml"});
  const json noisy = filed("noisy");
  EXPECT_EQ(noisy.at("state"), "done");
  EXPECT_EQ(noisy.at("split"), "test");
  EXPECT_EQ(noisy.at("set"), json::parse(R"({"dataset": {"noise": 3}})"));
  EXPECT_EQ(noisy.at("task").at("use"), "image_classification");
  EXPECT_EQ(noisy.at("task").at("label_smoothing"), 0) << "left at its default";
  EXPECT_EQ(noisy.at("seed"), 0);
  EXPECT_EQ(noisy.at("weights"), "last");
  EXPECT_EQ(noisy.at("infos").at(0).at("name"), "accuracy");
  EXPECT_NE(noisy.at("metrics").at("nll"), own().at("nll"));
  // Another task, on the same outputs of the same model, of the same test split.
  EXPECT_EQ(filed("sequence").at("metrics").at("nll"), own().at("nll"));
  double sum = 0;
  for (const char* point : {"fog/0.25/0", "fog/0.25/8", "fog/1/0", "fog/1/8"}) {
    sum += accuracy(point);
  }
  EXPECT_NEAR(accuracy("fog"), sum / 4, 1e-12);
  EXPECT_FALSE(own().contains("noisy/accuracy")) << "no part of the run's own result";
}

TEST_F(Evaluate, SaysWhatChangedSinceTheRunBegan) {
  write_experiment("  noisy: {set: {dataset: {noise: 3}}}\n");
  must({"run", "asked.yaml"});
  EXPECT_FALSE(filed("noisy").contains("changes"));
  const std::string path = folder() + "/environment.json";
  json environment = json::parse(file_text(path));
  environment["model"]["hash"] = "0";
  write_file(path, environment.dump());
  json status = status_of(folder());  // which knows that file
  status.erase("check");
  status.erase("files");
  write_file(folder() + "/status.json", status.dump());
  EXPECT_THAT(must({"eval", folder(), "noisy", "--again"}).err,
              mentions("since this run began", "file of model 'vit'"));
  ASSERT_EQ(filed("noisy").at("changes").size(), 1U);
  EXPECT_THAT(filed("noisy").at("changes").at(0), HasSubstr("file of model 'vit'"));
  for (const Words& words : {Words{"eval", folder(), "clean"}, Words{"show", folder()}}) {
    EXPECT_THAT(must(words).err,
                mentions(folder() + ": since this run began", "file of model 'vit'"))
        << words[0];
  }
  EXPECT_THAT(must({"compare", "runs"}).out,
              mentions("evaluation noisy: ", "since the run began", "file of model 'vit'"));
}

TEST_F(Evaluate, AndGoingOnFindARunsRelativeDataFromAnyFolder) {
  std::string table = "species,a,b,c\n";
  for (int i = 0; i < 20; ++i) table += i % 2 == 0 ? "x,1,2,3\n" : "y,3,2,1\n";
  folder_.write("data/measured.csv", table);
  folder_.write("measured.yaml",
                "schema: 1\nmodel: {use: timeseries_transformer, dim: 8, depth: 1, heads: 2}\n"
                "attention: standard\ntask: sequence_classification\n"
                "dataset: {use: table, file: data/measured.csv, label: species}\n"
                "train: {epochs: 2, batch_size: 8, threads: 1}\n");
  must({"run", "measured.yaml"});
  const std::string run = fs::canonical(run_folder("measured/standard")).string();
  const TempFolder elsewhere;
  const auto from_elsewhere = [&](const Words& words) {
    Invocation there = invocation(words);
    there.folder = elsewhere.path();
    return testing::run(there);
  };
  const Ended evaluated = from_elsewhere({"eval", run});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.story();
  call_interrupted(run);
  const Ended resumed = from_elsewhere({"run", run, "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.story();
  EXPECT_EQ(status_of(run).at("state"), "done");
  fs::rename(at("data"), at("moved"));
  const Ended gone = from_elsewhere({"eval", run});
  EXPECT_THAT(gone.err, AllOf(HasSubstr("data/measured.csv"), HasSubstr("`file`")));
}

TEST_F(Evaluate, TrainsNothingWhenOnlyEvaluationsChange) {
  write_experiment("  noisy: {set: {dataset: {noise: 3}}}\n");
  must({"run", "asked.yaml"});
  const auto weights = checkpoint_tensors(folder());
  const json noisy = filed("noisy");
  write_experiment(kEntries);
  EXPECT_THAT(must({"run", "asked.yaml"}).out,
              AllOf(HasSubstr("done before"), HasSubstr("sequence: "), Not(HasSubstr("noisy: "))));
  EXPECT_EQ(checkpoint_tensors(folder()), weights);
  EXPECT_EQ(filed("noisy"), noisy) << "not evaluated again";
  EXPECT_EQ(filed("sequence").at("state"), "done");
}

TEST_F(Evaluate, OneEntryThatFailsDoesNotKeepTheOthersFromTheirTurn) {
  write_experiment(
      "  small: {set: {dataset: {size: 20}}}\n"
      "  held: {set: {model: {heads: 2}}, split: validation}\n"
      "  noisy: {set: {dataset: {noise: 3}}}\n");
  must({"run", "asked.yaml"});
  EXPECT_EQ(filed("small").at("state"), "failed");
  EXPECT_NE(filed("small").at("reason"), "");
  EXPECT_THAT(filed("held").at("reason").get<std::string>(),
              HasSubstr("has no validation examples"));
  EXPECT_EQ(filed("noisy").at("state"), "done");
  const Ended ended = attnlab({"eval", folder()});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("noisy"), HasSubstr("held failed: ")));
  const Ended as_json = attnlab({"eval", folder(), "--json"});
  EXPECT_EQ(as_json.exit_code, 1) << as_json.story();
  EXPECT_THAT(as_json.err, HasSubstr("attnlab eval: held failed: "));
  EXPECT_TRUE(json::parse(as_json.out).contains("noisy/accuracy"));
}

TEST_F(Evaluate, AnEntryThatGoesAwayAndThrowsIsFiledWithItsRun) {
  write_experiment("  clean: {}\n");
  must({"run", "asked.yaml"});
  folder_.write("more.yaml",
                "evaluate: {lost: {set: {attention: changes_folder_and_throws}}, noisy: {set: "
                "{dataset: {noise: 3}}}}\n");
  const std::string relative = folder().substr(at("").size());
  const Ended ended = attnlab({"eval", relative, "--with", "more.yaml"},
                              {{"ATTNLAB_PLUGIN_PATH", broken_plugins()}});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.out, HasSubstr("lost failed: lost its way"));
  EXPECT_EQ(filed("lost").at("reason"), "lost its way");
  EXPECT_EQ(filed("noisy").at("state"), "done");
}

TEST_F(Evaluate, OneWhoseDataAreGoneLeavesTheResultThatIsThere) {
  for (const char* root : {"data", "disk"}) {
    std::string records;
    for (char label = 0; label < 8; ++label) records += label + std::string(3072, char(9 * label));
    folder_.write(std::string(root) + "/data_batch_1.bin", records);
    folder_.write(std::string(root) + "/test_batch.bin", records);
  }
  folder_.write("asked.yaml", R"(schema: 1
model: {use: vit, patch_size: 8, dim: 16, depth: 1, heads: 2}
attention: standard
task: image_classification
dataset: {use: cifar, root: data, batches: [1], partial: true}
train: {epochs: 1, batch_size: 8, threads: 1}
evaluate:
  other: {set: {dataset: {root: disk}}}
)");
  must({"run", "asked.yaml"});
  const json before = filed("other");
  ASSERT_EQ(before.at("state"), "done");
  fs::rename(at("disk"), at("gone"));
  const Ended ended = attnlab({"eval", folder()});
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.out, mentions("other failed: ", "data in 'disk'", "option `root`",
                                  "earlier result stays"));
  EXPECT_EQ(filed("other"), before);
  fs::rename(at("gone"), at("disk"));
  must({"eval", folder()});
  EXPECT_EQ(filed("other"), before);
}

TEST_F(Evaluate, WhatATaskFindsWrongIsToldBeforeTraining) {
  write_experiment(
      "  noisy: {set: {dataset: {noise: 3}}}\n"
      "  auto: {set: {task: {use: image_attack, attack: auto}}}\n"
      "dataset: {classes: 3}\n");
  folder_.write("s.yaml", "schema: 1\nattentions: [standard]\nexperiments: [asked.yaml]\n");
  const std::vector<Words> all = {{"run", "asked.yaml"},
                                  {"run", "asked.yaml", "--dry-run"},
                                  {"probe", "asked.yaml", "--steps", "0"},
                                  {"suite", "s.yaml"}};
  for (const Words& words : all) {
    const Ended ended = attnlab(words);
    EXPECT_NE(ended.exit_code, 0) << words[0];
    EXPECT_THAT(ended.err, mentions("apgd_t", "four classes", "data have 3"));
    EXPECT_FALSE(exists("runs")) << words[0];
  }
  EXPECT_THAT(attnlab(all[0]).err, HasSubstr("asked.yaml:5:"));
}

TEST_F(Evaluate, ANameOfTheRunsOwnMetricsIsRefusedBeforeTraining) {
  write_experiment("  training: {set: {dataset: {noise: 3}}}\n");
  for (const Words& words : {Words{"run", "asked.yaml"}, Words{"run", "asked.yaml", "--dry-run"}}) {
    const Ended ended = attnlab(words);
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_THAT(ended.err,
                mentions("asked.yaml:4:", "evaluate.training: ", "'training/...'", "another name"));
    EXPECT_FALSE(exists("runs"));
  }
  write_experiment("  held: {set: {dataset: {noise: 3}}}\n");
  must({"run", "asked.yaml"});
  folder_.write("more.yaml", "evaluate: {training: {set: {dataset: {noise: 1}}}}\n");
  EXPECT_THAT(refusal({"eval", folder(), "--with", "more.yaml"}), HasSubstr("more.yaml:1:"));
}

TEST_F(Evaluate, WeightsThatTheChangedModelLacksOrMissesAreTold) {
  write_experiment(
      "  deeper: {set: {model: {depth: 2}}}\n"
      "  other: {set: {attention: quest}}\n");
  must({"run", "asked.yaml"});
  EXPECT_THAT(filed("deeper").at("reason").get<std::string>(),
              AllOf(HasSubstr("do not fit evaluation 'deeper'"), HasSubstr("is missing")));
  EXPECT_EQ(filed("other").at("state"), "done") << "the same weights under another attention";
  EXPECT_NE(filed("other").at("metrics").at("nll"), own().at("nll"));
}

TEST_F(Evaluate, AMeanIsOfPointsOfOneSettingAlone) {
  write_experiment("  clean: {}\n");
  must({"run", "asked.yaml"});
  const auto with = [&](const std::string& file, const std::string& noise) {
    folder_.write(file, "evaluate: {fog: {set: {dataset: {noise: " + noise +
                            "}}, over: {dataset.shift: [0, 8]}}}\n");
  };
  with("one.yaml", "0.25");
  with("other.yaml", "1");
  must({"eval", folder(), "--with", "one.yaml"});
  EXPECT_EQ(filed("fog").at("state"), "done");
  must({"eval", folder(), "fog/0", "--with", "other.yaml"});
  for (const auto& file : fs::directory_iterator(folder() + "/evaluations")) {
    EXPECT_NE(json::parse(file_text(file.path().string())).at("entry"), "fog") << file.path();
  }
  must({"eval", folder(), "--with", "other.yaml"});
  EXPECT_EQ(filed("fog").at("state"), "done");
  must({"eval", folder(), "--with", "one.yaml"});  // two means are there
  must({"eval", folder(), "fog/0", "--with", "other.yaml"});
  for (const auto& file : fs::directory_iterator(folder() + "/evaluations")) {
    EXPECT_NE(json::parse(file_text(file.path().string())).at("entry"), "fog") << file.path();
  }
}

TEST_F(Evaluate, AMeanIsWrittenAnewWhereAPointWas) {
  write_experiment("  fog: {over: {dataset.noise: [0.25, 1]}}\n");
  must({"run", "asked.yaml"});
  const json first = filed("fog");
  must({"eval", folder()});
  EXPECT_EQ(filed("fog"), first) << "nothing was evaluated again";
  must({"eval", folder(), "fog/0.25", "--again"});
  EXPECT_GT(filed("fog").at("written"), filed("fog/0.25").at("written"));
  EXPECT_EQ(filed("fog").at("metrics"), first.at("metrics"));
  // As if the process had ended between the point and its mean.
  const std::string mean = files_like("fog-").at(0);
  const std::string before = file_text(mean);
  must({"eval", folder(), "fog/1", "--again"});
  write_file(mean, before);
  must({"eval", folder()});
  EXPECT_GT(filed("fog").at("written"), filed("fog/1").at("written"));
}

TEST_F(Evaluate, EntriesOfEveryEpochStandInItsLine) {
  write_experiment(
      "  noisy: {when: each, set: {dataset: {noise: 3}}}\n"
      "  fog: {when: each, over: {dataset.noise: [0.25, 1]}}\n");
  must({"run", "asked.yaml"});
  const std::vector<json> lines = metric_lines(folder(), "test");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].at("noisy/accuracy"), accuracy("noisy")) << "by the last epoch's weights";
  EXPECT_EQ(lines[1].at("fog/0.25/nll"), filed("fog/0.25").at("metrics").at("nll"));
  EXPECT_EQ(lines[1].at("fog/nll"), filed("fog").at("metrics").at("nll"));
  EXPECT_NE(lines[0].at("noisy/nll"), lines[1].at("noisy/nll"));
  // What is evaluated beside it changes no number of the run.
  must({"run", "tiny.yaml"});
  EXPECT_EQ(model_tensors(run_folder("tiny/standard")), model_tensors(folder()));
}

TEST_F(Evaluate, AnEntryMayChooseTheEpoch) {
  write_experiment(
      "  noisy: {when: each, split: validation, set: {dataset: {noise: 3}}}\n"
      "train: {protocol: sound, early_stop: {metric: noisy/nll, mode: min}}\n"
      "dataset: {validation: 32}\n");
  must({"run", "asked.yaml"});
  const std::vector<json> lines = metric_lines(folder(), "validation");
  ASSERT_EQ(lines.size(), 2U);
  const bool first = lines[0].at("noisy/nll") < lines[1].at("noisy/nll");
  EXPECT_EQ(own().at("best_epoch"), first ? 1 : 2);
  EXPECT_EQ(filed("noisy").at("metrics").at("nll"), lines[first ? 0 : 1].at("noisy/nll"));
}

TEST_F(Evaluate, TakesEntriesFromAFileAndByName) {
  write_experiment("  noisy: {set: {dataset: {noise: 3}}}\n");
  must({"run", "asked.yaml"});
  folder_.write("more.yaml",
                "evaluate: {still: {set: {dataset: {shift: 0}}}, x: {set: {dataset: "
                "{shift: 1}}}}\n");
  EXPECT_THAT(must({"eval", folder(), "still", "--with", "more.yaml"}).out,
              AllOf(HasSubstr("clean"), HasSubstr("still"), Not(HasSubstr("noisy"))));
  const json still = filed("still");
  must({"eval", folder(), "still", "--with", "more.yaml"});
  EXPECT_EQ(filed("still"), still) << "seconds included: it was not evaluated again";
  const json all = json::parse(must({"eval", folder(), "--json", "--again"}).out);
  EXPECT_EQ(all.at("noisy/nll"), filed("noisy").at("metrics").at("nll"));
  EXPECT_EQ(all.at("nll"), own().at("nll"));
  EXPECT_THAT(refusal({"eval", folder(), "nosy"}),
              mentions("evaluation 'nosy'", "did you mean 'noisy'?"));
}

TEST_F(Evaluate, SuitesRunWhatFinishedRunsLack) {
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [standard, quest]\nexperiments: [asked.yaml]\n");
  write_experiment("  clean: {}\n");
  must({"suite", "pair.yaml"});
  write_experiment("  noisy: {set: {dataset: {noise: 3}}}\n");
  EXPECT_THAT(must({"suite", "pair.yaml", "--dry-run"}).out,
              AllOf(HasSubstr("would evaluate asked/standard/0: noisy"),
                    HasSubstr("would evaluate asked/quest/0: noisy")));
  EXPECT_THAT(files_like("noisy-"), ElementsAre());
  must({"suite", "pair.yaml"});
  EXPECT_EQ(files_like("noisy-").size(), 2U);
  EXPECT_THAT(must({"suite", "pair.yaml"}).out, Not(HasSubstr("evaluating")));
}

TEST_F(Evaluate, SuitesMakeMeansAnewOfThePointsThatAreAsked) {
  folder_.write("one.yaml", "schema: 1\nattentions: [standard]\nexperiments: [asked.yaml]\n");
  write_experiment("  fog: {over: {dataset.noise: [0.25, 1]}}\n");
  must({"suite", "one.yaml"});
  write_experiment("  fog: {over: {dataset.noise: [0.25]}}\n");
  must({"suite", "one.yaml"});
  const json metrics =
      json::parse(file_text(at("runs/one/table.json"))).at("rows").at(0).at("metrics");
  EXPECT_EQ(metrics.at("fog/accuracy").at("mean"), metrics.at("fog/0.25/accuracy").at("mean"));
  EXPECT_EQ(metrics.at("fog/nll").at("mean"), metrics.at("fog/0.25/nll").at("mean"));
  EXPECT_THAT(must({"suite", "one.yaml"}).out, Not(HasSubstr("evaluating")));
}

TEST_F(Evaluate, SuitesSayWhatCannotBeEvaluatedWithoutItsModel) {
  folder_.write("one.yaml", "schema: 1\nattentions: [standard]\nexperiments: [asked.yaml]\n");
  write_experiment("  noisy: {set: {dataset: {noise: 3}}}\n");
  must({"suite", "one.yaml"});
  const std::string model = files_like("checkpoint.safetensors").at(0);
  fs::remove(model);
  EXPECT_THAT(must({"suite", "one.yaml"}).out, Not(HasSubstr("not evaluated")));
  write_experiment("  noisy: {set: {dataset: {noise: 1}}}\n");
  EXPECT_THAT(must({"suite", "one.yaml", "--dry-run"}).out,
              mentions("cannot evaluate", "model is not there", "asked/standard/0: noisy"));
  EXPECT_THAT(must({"suite", "one.yaml"}).out,
              mentions("asked/standard/0: not evaluated: noisy", "older result",
                       "model is not there", "checkpoint.safetensors back, or remove "));
}

TEST_F(Evaluate, NamesCannotLeaveTheFolder) {
  EXPECT_THAT(refusal({"run", "tiny.yaml", "name=.."}), mentions("'..'", "stands for a folder"));
  EXPECT_FALSE(exists("runs"));
  EXPECT_EQ(attnlab({"run", "tiny.yaml", "attention.as=.."}).exit_code, 2);
}

}  // namespace
}  // namespace attnlab::testing::eval_test
