#include "framework/runs/run_folder.h"

#include <chrono>
#include <cmath>
#include <ctime>

#include "framework/runs/run_records.h"
#include "tests/support/made_parts.h"

namespace attnlab::run_folder_test {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class RunFolderTest : public WithMadeParts {
 protected:
  static Experiment experiment(const std::string& more = "") {
    return parts().resolve(kImages + more);
  }
  const TempFolder temp_;
};

TEST_F(RunFolderTest, IsCalledByExperimentAttentionSeedAndHash) {
  const Experiment made = experiment();
  EXPECT_EQ(RunFolder::of("runs/s", made, 3).path(),
            "runs/s/made/quest/3-" + identity_of(made, "").hash().substr(0, 8));
  EXPECT_EQ(RunFolder::label(made, 3), "made/quest/3");
}

TEST_F(RunFolderTest, DiffersWhereAnOptionDiffers) {
  EXPECT_NE(RunFolder::of("r", experiment(), 0).path(),
            RunFolder::of("r", experiment("train: {epochs: 3}\n"), 0).path());
}

TEST_F(RunFolderTest, FreezesOneSeedOfTheExperiment) {
  const Experiment made = experiment("seeds: [3, 4]\nname: mine\n");
  const RunFolder folder = RunFolder::of(temp_.path(), made, 4);
  EXPECT_FALSE(folder.exists());
  folder.freeze(made, 4);
  EXPECT_TRUE(folder.exists());
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("config.yaml", "identity.json", "lock.json", "origins.txt"));
  EXPECT_THAT(read_text(folder.file("origins.txt")),
              HasSubstr("f.yaml:3:18: attention.use = quest"));
  const Experiment again = folder.experiment(parts().catalogue());
  EXPECT_THAT(again.seeds, ElementsAre(4));
  EXPECT_EQ(again.name, "mine");
  EXPECT_EQ(again.hash(), made.hash());
  EXPECT_EQ(RunFolder::of(temp_.path(), again, 4).path(), folder.path());
}

TEST_F(RunFolderTest, OfAStrangerNamesNoFileAndNothingOfTheEnvironment) {
  const Environment secret("ATTNLAB_TEST_SECRET", "s3cret");
  const std::string other = temp_.write("other.yaml", "name: of_another_file\n");
  const RunFolder folder = RunFolder::of(temp_.path(), experiment(), 0);
  folder.freeze(experiment(), 0);
  const std::string frozen = read_text(folder.file("config.yaml"));
  write_file(
      folder.file("config.yaml"),
      frozen + "published: {note: \"${env:ATTNLAB_TEST_SECRET}\"}\nextends: " + other + "\n");
  const auto refused = AllOf(HasSubstr("config.yaml:"), HasSubstr("extends: "),
                             HasSubstr("${env:ATTNLAB_TEST_SECRET}: "), Not(HasSubstr("s3cret")));
  EXPECT_THAT(message_of<ConfigError>([&] { folder.experiment(parts().catalogue()); }), refused);
  EXPECT_THAT(message_of<ConfigError>([&] { read_run(folder.path()); }), refused);
}

TEST_F(RunFolderTest, OfAStrangerThatBeginsWithAnExperimentSaysWithWhich) {
  const RunFolder folder = RunFolder::of(temp_.path(), experiment(), 0);
  folder.freeze(experiment(), 0);
  const std::string frozen = read_text(folder.file("config.yaml"));
  const std::string other = temp_.write("other.yaml", "no: [composition");
  write_file(folder.file("config.yaml"), frozen + "init: {experiment: " + other + "}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { folder.experiment(parts().catalogue()); }),
              AllOf(HasSubstr("init.configuration"), Not(HasSubstr("other.yaml:"))));
}

TEST_F(RunFolderTest, FreezesTextsThatLookLikeReferences) {
  const Environment unset("ATTNLAB_TEST_UNSET", nullptr);
  const Experiment made = parts().resolve(
      "{schema: 1, model: {use: vit, note: '$${env:ATTNLAB_TEST_UNSET} $$${x} a: #'}, "
      "attention: quest, task: sorting, dataset: pictures}");
  const RunFolder folder = RunFolder::of(temp_.path(), made, 0);
  folder.freeze(made, 0);
  const Experiment again = folder.experiment(parts().catalogue());
  EXPECT_EQ(again.model.options.at("note").text(), "${env:ATTNLAB_TEST_UNSET} $${x} a: #");
  EXPECT_EQ(again.hash(), made.hash());
}

TEST_F(RunFolderTest, LeavesAFrozenConfigurationAsItIs) {
  const Experiment made = experiment();
  const RunFolder folder = RunFolder::of(temp_.path(), made, 0);
  folder.freeze(made, 0);
  const std::string frozen = read_text(folder.file("config.yaml")) + "# a remark\n";
  write_file(folder.file("config.yaml"), frozen);
  folder.freeze(made, 0);
  EXPECT_EQ(read_text(folder.file("config.yaml")), frozen);
}

TEST_F(RunFolderTest, WasBegunWhenItsEnvironmentSaysWhateverItsFilesTimes) {
  const RunFolder folder(temp_ / "small/quest/0-01234567");
  temp_.write("small/quest/0-01234567/config.yaml", "");
  temp_.write(
      "small/quest/0-01234567/environment.json",
      R"({"started": "2026-03-01T00:00:10Z", "resumed": [{"started": "2026-04-01T00:00:00Z"}]})");
  EXPECT_EQ(folder.start(), (RunStart{1772323210, "small/quest/0-01234567"}));
}

TEST_F(RunFolderTest, WithoutAStartInItsEnvironmentIsAsOldAsItsConfiguration) {
  const RunFolder folder(temp_ / "0-01234567");
  const std::string config = temp_.write("0-01234567/config.yaml", "");
  fs::last_write_time(config, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const std::time_t now = std::time(nullptr);
  const auto expect_an_hour = [&](const std::string& environment) {
    EXPECT_NEAR(double(folder.start().first), double(now - 3600), 5) << environment;
  };
  expect_an_hour("none");
  for (const std::string text : {"{", "[]", "{}", R"({"started": 7})", R"({"started": "today"})",
                                 R"({"started": "2026-03-01T00:00:10Z, about"})"}) {
    temp_.write("0-01234567/environment.json", text);
    expect_an_hour(text);
  }
  EXPECT_EQ(RunFolder(temp_ / "none").start().first, 0);
}

TEST_F(RunFolderTest, OfRunsBegunInOneSecondTheirPlacesDecide) {
  std::vector<RunStart> starts;
  for (const char* place : {"small/quest/0-89abcdef", "small/quest/0-01234567"}) {
    temp_.write(std::string(place) + "/environment.json", R"({"started": "2026-03-01T00:00:10Z"})");
    starts.push_back(RunFolder(temp_ / place).start());
  }
  EXPECT_GT(starts[0], starts[1]);
}

TEST_F(RunFolderTest, RefusesAFolderThatIsNoRuns) {
  EXPECT_THAT(
      message_of<ConfigError>([&] { RunFolder(temp_.path()).experiment(parts().catalogue()); }),
      says({temp_.path(), "a run folder", "config.yaml"}));
}

TEST_F(RunFolderTest, CannotBeMadeBelowAFile) {
  temp_.write("file", "x");
  const Experiment made = experiment();
  EXPECT_THAT(
      message_of<FileError>([&] { RunFolder::of(temp_ / "file", made, 0).freeze(made, 0); }),
      mentions("cannot create", "Not a directory"));
}

TEST_F(RunFolderTest, KeepsItsStatusExactly) {
  const RunFolder folder(temp_.path());
  for (const RunState state : {RunState::pending, RunState::running, RunState::interrupted,
                               RunState::done, RunState::diverged, RunState::failed}) {
    RunStatus written{state, 7, 40, 0.7, 12.5, {{"accuracy", 1.0 / 3.0}}, "because"};
    folder.write_status(written);
    const RunStatus read = folder.status();
    EXPECT_EQ(read.state, state);
    EXPECT_EQ(read.step, 7);
    EXPECT_EQ(read.steps, 40);
    EXPECT_EQ(read.epoch, 0.7);
    EXPECT_EQ(read.seconds, 12.5);
    EXPECT_EQ(read.metrics, written.metrics);
    EXPECT_EQ(read.reason, "because");
    EXPECT_EQ(read.finished(), state == RunState::done || state == RunState::diverged);
  }
}

TEST_F(RunFolderTest, IsPendingWithoutAStatus) {
  EXPECT_EQ(RunFolder(temp_.path()).status().state, RunState::pending);
}

TEST_F(RunFolderTest, RecordsMetricsThatAreNoFiniteNumbers) {
  const RunFolder folder(temp_.path());
  RunStatus written;
  written.state = RunState::diverged;
  written.metrics = {{"nll", std::nan("")}, {"norm", INFINITY}};
  folder.write_status(written);
  EXPECT_TRUE(std::isnan(folder.status().metrics.at("nll")));
  EXPECT_TRUE(std::isnan(folder.status().metrics.at("norm")));
}

TEST_F(RunFolderTest, RecordsAReasonThatIsNoUtf8) {
  const RunFolder folder(temp_.path());
  RunStatus written;
  written.state = RunState::failed;
  written.reason = "cannot read pictures\xff.gz";
  folder.write_status(written);
  EXPECT_EQ(folder.status().state, RunState::failed);
  EXPECT_THAT(folder.status().reason, StartsWith("cannot read pictures"));
}

TEST_F(RunFolderTest, NoticesAStatusThatWasEdited) {
  const RunFolder folder(temp_.path());
  RunStatus status;
  status.state = RunState::running;
  status.metrics = {{"accuracy", 0.1}, {"nll", std::nan("")}};
  folder.write_status(status);
  EXPECT_EQ(folder.status().state, RunState::running);
  std::string text = read_text(folder.file("status.json"));
  text.replace(text.find("running"), 7, "done");
  write_file(folder.file("status.json"), text);
  EXPECT_THAT(message_of<DataError>([&] { folder.status(); }), HasSubstr("not fit its check"));
}

TEST_F(RunFolderTest, NoticesLinesAndCheckpointsThatAreGoneOrChanged) {
  const RunFolder folder(temp_.path());
  write_file(folder.file("metrics.jsonl"), "{}\n");
  write_file(folder.file("checkpoint.safetensors"), "x");
  RunStatus status;
  status.state = RunState::interrupted;
  folder.write_status(status);
  EXPECT_EQ(folder.status().state, RunState::interrupted);
  fs::remove(folder.file("checkpoint.safetensors"));
  EXPECT_THAT(message_of<DataError>([&] { folder.status(); }),
              HasSubstr("checkpoint.safetensors is missing"));
  status.state = RunState::done;
  folder.write_status(status);
  EXPECT_EQ(folder.status().state, RunState::done) << "a result needs no checkpoint";
  write_file(folder.file("metrics.jsonl"), "[]\n");
  EXPECT_THAT(message_of<DataError>([&] { folder.status(); }),
              HasSubstr("metrics.jsonl is missing or was changed"));
  fs::remove(folder.file("metrics.jsonl"));
  EXPECT_THAT(message_of<DataError>([&] { folder.status(); }),
              HasSubstr("metrics.jsonl is missing or was changed"));
}

TEST_F(RunFolderTest, NoticesThatAFinishedRunsConfigurationDataOrEnvironmentWereChanged) {
  const Experiment made = experiment();
  const Identity identity = identity_of(made, "data-a");
  const RunFolder folder = RunFolder::of(temp_.path(), made, 0, identity);
  folder.freeze(made, 0, identity);
  write_file(folder.file("environment.json"), "{}\n");
  RunStatus status;
  status.state = RunState::done;
  folder.write_status(status);
  for (const char* name : {"config.yaml", "identity.json", "environment.json"}) {
    const std::string path = folder.file(name), text = read_text(path);
    std::string other = text + " # edited\n";
    if (name == std::string("identity.json")) {
      other = text;
      other.replace(other.find("data-a"), 6, "data-b");
    }
    write_file(path, other);
    const std::string said = std::string(name) + " is missing or was changed";
    EXPECT_THAT(message_of<DataError>([&] { folder.status(); }), HasSubstr(said));
    fs::remove(path);
    EXPECT_THAT(message_of<DataError>([&] { folder.status(); }), HasSubstr(said));
    write_file(path, text);
    EXPECT_EQ(folder.status().state, RunState::done);
  }
  accept_revision(folder.path(), "1234");
  EXPECT_EQ(folder.status().state, RunState::done) << "that is recorded there later";
}

TEST_F(RunFolderTest, NoticesThatARunUnderWayHasLostAFile) {
  for (const std::string name : {"environment.json", "best.safetensors"}) {
    const RunFolder folder(temp_ / name);
    fs::create_directory(folder.path());
    write_file(folder.file(name), "{}\n");
    RunStatus status;
    status.state = RunState::interrupted;
    folder.write_status(status);
    EXPECT_EQ(folder.status().state, RunState::interrupted);
    fs::remove(folder.file(name));
    EXPECT_THAT(message_of<DataError>([&] { folder.status(); }), mentions(name, "is missing"));
  }
}

TEST_F(RunFolderTest, KeepsReasonsOnOneLineWithoutBacktraces) {
  const RunFolder folder(temp_.path());
  RunStatus status;
  status.state = RunState::failed;
  status.reason = "bad \x1b[31m shape\nException raised from f\nframe #0: f\n";
  folder.write_status(status);
  EXPECT_EQ(folder.status().reason, "bad \\x1b[31m shape");
}

TEST_F(RunFolderTest, NamesADamagedStatusAndTheRemedy) {
  const RunFolder folder(temp_.path());
  for (const char* text : {"", "{\"state\": \"do", "[]", "{\"state\": \"dancing\"}",
                           R"({"state": "done", "step": "x"})"}) {
    write_file(folder.file("status.json"), text);
    EXPECT_THAT(message_of<DataError>([&] { folder.status(); }),
                AllOf(StartsWith(folder.file("status.json") + ": damaged: "),
                      HasSubstr("remove the run's folder")))
        << text;
  }
}

TEST_F(RunFolderTest, StatusWithANumberThatDoesNotFitIsDamaged) {
  const RunFolder folder(temp_.path());
  folder.write_status({});
  const std::string text = read_text(folder.file("status.json"));
  for (const char* number : {"46666666666666666666", "-1e30", "2.5"}) {
    nlohmann::json status = nlohmann::json::parse(text);
    status.erase("check");
    status["step"] = nlohmann::json::parse(number);
    write_file(folder.file("status.json"), status.dump());
    EXPECT_THAT(message_of<DataError>([&] { static_cast<void>(folder.status()); }),
                AllOf(HasSubstr("status.json"), HasSubstr("whole number of 64 bits")));
  }
}

}  // namespace
}  // namespace attnlab::run_folder_test
