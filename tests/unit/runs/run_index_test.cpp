// What a second call over many runs takes from the index, and what it reads anew.
#include <fcntl.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "framework/base/json.h"
#include "framework/comparison/comparison.h"
#include "framework/report/run_files.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/run_reader.h"
#include "tests/support/cache_folder.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::run_index_test {
namespace {

using namespace testing;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kRuns = RunIndex::kWorth + 6;

/// All that a record says.
std::string text_of(const RunRecord& run) {
  json out = {{"folder", run.folder},
              {"experiment", run.experiment},
              {"attention", run.attention},
              {"seed", run.seed},
              {"config", to_yaml(run.config.tree())},
              {"matched", run.matched},
              {"state", name_of(run.status.state)},
              {"step", run.status.step},
              {"steps", run.status.steps},
              {"epoch", run.status.epoch},
              {"seconds", run.status.seconds},
              {"reason", run.status.reason},
              {"metrics", run.status.metrics},
              {"infos", metric_infos_json(run.infos)},
              {"environment", run.environment},
              {"costs", run.costs},
              {"together", run.together},
              {"headlines", metric_infos_json(run.evaluation_headlines)},
              {"stored", run.stored},
              {"notes", run.notes},
              {"damaged", run.damaged}};
  for (const EvaluationRecord& one : run.evaluations) {
    out["evaluations"].push_back({one.entry, one.hash, one.split, one.done, one.reason, one.metrics,
                                  metric_infos_json(one.infos), one.set, one.changes, one.seconds,
                                  one.written, one.weights});
  }
  return out.dump(1);
}

std::string text_of(const RunDetails& details) {
  return (details.identity ? identity_json(*details.identity) : "none") + details.start.second +
         std::to_string(details.start.first) + " " + std::to_string(details.last_step);
}

class RunIndexTest : public WithMadeParts {
 protected:
  RunIndexTest() {
    for (std::size_t i = 0; i < kRuns; ++i) {
      write_run(i % 2 == 0 ? "standard" : "quest", static_cast<std::int64_t>(i / 2));
    }
  }

  /// With all that a record can hold.
  std::string write_run(const std::string& attention, std::int64_t seed,
                        RunState state = RunState::done) {
    const Experiment made =
        parts().resolve("schema: 1\nname: small\nmodel: vit\nattention: " + attention +
                        "\ntask: sorting\ndataset: pictures\n");
    const RunFolder folder = RunFolder::of(temp_ / "runs", made, seed);
    folder.freeze(made, seed);
    const double value = 0.5 + 0.001 * static_cast<double>(seed);
    write_file(folder.file("metrics.jsonl"), "{\"split\": \"train\", \"step\": 7}\n");
    write_environment(folder, {{"device", "cpu"},
                               {"attention", {{"hash", attention}}},
                               {"data", {{"fingerprint", std::to_string(seed)}}},
                               {"started", "2026-01-02T03:04:05Z"},
                               {"began_together", 3},
                               {"parameters", 100}});
    EvaluationRecord fog{"fog",
                         "0123456789abcdef",
                         "test",
                         true,
                         "",
                         {{"accuracy", value / 2}},
                         {kMadeMetrics.front()}};
    fog.set = R"({"dataset":{"fog":1}})";
    fog.changes = {"the file of attention 'quest' changed"};
    write_evaluation(folder.path(), fog);
    folder.write_status({state, 7, 8, 1.5, 2.5, {{"accuracy", value}, {"nll", NAN}}, "no reason"});
    return folder.path();
  }

  /// Behind the time in which a file may be changed unseen.
  static std::int64_t later() { return now_in_nanoseconds() + 10'000'000'000; }
  std::vector<std::string> folders() const { return {temp_ / "runs"}; }

  struct Read {
    std::vector<std::string> texts;
    std::size_t opened = 0;
  };
  /// As one call of the program reads all runs.
  Read read(bool closely = false, std::int64_t now = later()) const {
    RunReader reader(folders(), now);
    Read all;
    reader.read(
        search_folders(temp_ / "runs").runs, closely,
        [&](IndexedRun&& run) {
          all.texts.push_back(text_of(run.record) + (closely ? text_of(*run.details) : ""));
        },
        [&](const Unreadable& one) { all.texts.push_back(one.text()); });
    reader.keep();
    all.opened = reader.opened();
    return all;
  }
  std::string index() const {
    const std::vector<std::string> all = indices();
    return all.size() == 1 ? all.front() : "";
  }
  std::vector<std::string> indices() const {
    std::vector<std::string> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(cache_.folder() / "attnlab/runs", error)) {
      all.push_back(entry.path());
    }
    return all;
  }

  const CacheFolder cache_;
  const TempFolder temp_;
};

TEST_F(RunIndexTest, OpensNoFinishedRunTwice) {
  const Read first = read(), second = read();
  EXPECT_EQ(first.opened, kRuns);
  EXPECT_EQ(second.opened, 0U);
  EXPECT_EQ(second.texts, first.texts);
  EXPECT_THAT(first.texts.front(), AllOf(HasSubstr("fog"), HasSubstr("begun as one of 3")));
}

TEST_F(RunIndexTest, GivesAComparisonTheSameTextColdAndWarm) {
  const auto text = [&] {
    return comparison_json(compare_runs(find_runs(folders()), {}, "standard"));
  };
  const std::string cold = text();
  read();
  ASSERT_NE(index(), "");
  EXPECT_EQ(text(), cold);
}

TEST_F(RunIndexTest, ReadsDetailsOnceTheyAreAskedFor) {
  read();
  const Read first = read(/*closely=*/true), second = read(/*closely=*/true);
  EXPECT_EQ(first.opened, kRuns) << "the first call did not ask for them";
  EXPECT_EQ(second.opened, 0U);
  EXPECT_EQ(second.texts, first.texts);
  EXPECT_EQ(read().opened, 0U);
}

TEST_F(RunIndexTest, SeesEveryFileThatChanges) {
  const std::vector<std::string> runs = search_folders(temp_ / "runs").runs;
  read();
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(runs.front())) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), runs.front()));
  }
  ASSERT_THAT(names, ::testing::IsSupersetOf({"config.yaml", "status.json", "environment.json",
                                              "identity.json", "metrics.jsonl", "origins.txt",
                                              "evaluations/fog-0123456789abcdef.json"}));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string file = runs.at(i) + "/" + names.at(i);
    write_file(file, read_text(file) + " ");
    EXPECT_EQ(read().opened, i + 1) << names.at(i);
  }
}

TEST_F(RunIndexTest, SeesWhatIsWrittenInPlaceWithItsOldSizeAndTime) {
  const std::string run = search_folders(temp_ / "runs").runs.at(3), file = run + "/status.json";
  read();
  struct stat before {};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  std::string text = read_text(file);
  text.at(text.find("\"epoch\": 1.5") + 11) = '6';
  const int open = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::write(open, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::futimens(open, times), 0);
  ::close(open);
  EXPECT_THAT(read().texts.at(3), HasSubstr("does not fit its check"));
}

TEST_F(RunIndexTest, TellsWhichFilesAFolderDoesNotHold) {
  const std::string folder = search_folders(temp_ / "runs").runs.front();
  for (const auto& entry : fs::directory_iterator(folder)) {
    EXPECT_TRUE(state_of_folder(folder)->may_hold(entry.path().filename().string()));
  }
  const std::string others[] = {"graphs.json", "clouds.json", "boxes.json", "label_maps.json",
                                "images.json"};
  for (const std::string& name : others) {
    EXPECT_FALSE(state_of_folder(folder)->may_hold(name)) << name;
  }
  for (const std::string& name : others) {
    write_file(folder + "/" + name, "{}");
    EXPECT_TRUE(state_of_folder(folder)->may_hold(name)) << name;
  }
}

TEST_F(RunIndexTest, KeepsWhatAReportTakesFromTheFiles) {
  const std::vector<std::string> runs = search_folders(temp_ / "runs").runs;
  const std::string lost = runs.front() + "/metrics.jsonl";
  Report report;
  RunReader(folders(), later())
      .read(
          runs, /*closely=*/false,
          [&](IndexedRun&& run) { report.collection.runs.push_back(std::move(run.record)); },
          [](const Unreadable&) {});
  report.slices = slices_of(report.collection);
  fs::remove(lost);
  fs::create_directory(lost);
  Report first = report, second = report;
  read_run_files(first);
  fs::remove(lost);  // read again, it would not be missed
  read_run_files(second);
  EXPECT_THAT(first.lost_logs, ElementsAre(lost));
  EXPECT_EQ(second.lost_logs, first.lost_logs);
  ASSERT_FALSE(first.environment.empty());
  ASSERT_EQ(second.environment.size(), first.environment.size());
  EXPECT_EQ(second.environment.front().values, first.environment.front().values);
}

TEST_F(RunIndexTest, SeesRunsThatComeAndGo) {
  const Read first = read();
  const std::string added = write_run("quest", 1000);
  EXPECT_EQ(read().opened, 1U);
  fs::remove_all(added);
  const Read last = read();
  EXPECT_EQ(last.opened, 0U);
  EXPECT_EQ(last.texts, first.texts);
}

TEST_F(RunIndexTest, KeepsWhatIsKnownWhenMuchIsAdded) {
  read();
  for (std::size_t i = 0; i < RunIndex::kWorth; ++i) {
    write_run("quest", 1000 + static_cast<std::int64_t>(i));
  }
  const Read first = read(), second = read();
  EXPECT_EQ(first.opened, RunIndex::kWorth);
  EXPECT_EQ(second.opened, 0U);
  EXPECT_EQ(second.texts, first.texts);
}

TEST_F(RunIndexTest, ReadsUnfinishedRunsEachTime) {
  write_run("quest", 1000, RunState::interrupted);
  read();
  EXPECT_EQ(read().opened, 1U);
}

TEST_F(RunIndexTest, DoesNotKeepWhatMayBeWrittenAgainAtTheSameMoment) {
  read(/*closely=*/false, now_in_nanoseconds());
  EXPECT_EQ(index(), "");
  EXPECT_EQ(read().opened, kRuns);
}

TEST_F(RunIndexTest, TakesNothingFromADamagedFile) {
  const Read first = read();
  const std::string file = index(), whole = read_text(file);
  ASSERT_GT(whole.size(), 1000U);
  std::vector<std::string> damaged = {"", "attnlab", whole + "x",
                                      whole.substr(0, whole.size() / 2)};
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 20) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(~damaged.back()[at]);
  }
  for (const std::string& text : damaged) {
    write_file(file, text);
    const Read again = read();
    EXPECT_EQ(again.opened, kRuns);
    EXPECT_EQ(again.texts, first.texts);
    EXPECT_EQ(read_text(file).size(), whole.size()) << "a whole one has its place";
  }
}

TEST_F(RunIndexTest, WorksWithoutAFolderToWriteTo) {
  cache_.folder().write("attnlab", "a file in the folder's place");
  const Read first = read(), second = read();
  EXPECT_EQ(second.opened, kRuns);
  EXPECT_EQ(second.texts, first.texts);
}

TEST_F(RunIndexTest, IsForItsOwnerAlone) {
  read();
  struct stat folder {};
  ASSERT_EQ(::stat(fs::path(index()).parent_path().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700U);
}

TEST_F(RunIndexTest, IsNotThereWhereItIsSwitchedOff) {
  ::setenv("ATTNLAB_RUN_INDEX", "off", 1);
  read();
  const Read second = read();
  ::unsetenv("ATTNLAB_RUN_INDEX");
  EXPECT_EQ(second.opened, kRuns);
  EXPECT_THAT(indices(), IsEmpty());
}

TEST_F(RunIndexTest, ParsesByWhatIsNewInARun) {
  RunReader reader(folders(), later());
  std::vector<std::size_t> sections;
  for (const std::string& folder : search_folders(temp_ / "runs").runs) {
    reader.read(
        {folder}, /*closely=*/false, [](const IndexedRun&) {}, [](const Unreadable&) {});
    sections.push_back(reader.sections());
  }
  const std::size_t seeds = (kRuns + 1) / 2;
  // Two attentions; schema, name, model, task and the like once, however many runs there are.
  EXPECT_EQ(sections.back(), sections.front() + (seeds - 1) + 1);
}

}  // namespace
}  // namespace attnlab::run_index_test
