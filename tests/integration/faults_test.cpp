// Outputs that are not plain files, hostile input, and signals: nothing lost, nothing silent.
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include "framework/base/file_lock.h"
#include "framework/base/files.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::faults_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Faults : public Workspace {
 protected:
  /// The program with these words, as a shell runs it: "list >/dev/full".
  Ended in_shell(const std::string& words) const {
    Invocation shell = invocation({});
    const std::string program = shell.words.at(0);
    shell.words = {"/bin/sh", "-c", program + " " + words};
    return run(shell);
  }

  /// Waits until it takes signals itself, and a moment longer. @returns whether it still runs
  static bool at_work(Process& process) {
    const bool began = wait_for([&] { return !process.running() || process.handles(SIGTERM); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return began && process.running();
  }

  /// How it ended after a SIGTERM. How fast is said, not tested: that depends on the machine.
  static Ended ended_after_sigterm(Process& process) {
    const auto begin = std::chrono::steady_clock::now();
    process.send(SIGTERM);
    Ended ended = process.wait();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    std::cout << "ended " << taken.count() << " ms after SIGTERM\n";
    return ended;
  }

  /// Two runs that can be trained together, over so many epochs that they can be stopped.
  void write_toy() const {
    folder_.write("toy.yaml", R"(schema: 1
model: toy_transformer
attention: qknorm
task: sequence_classification
dataset: {use: spurious_retrieval, train: 70, test: 40, tokens: 4, key_dim: 3, classes: 3, data_seed: 0}
train: {epochs: 400, batch_size: 16, drop_last: false, threads: 1, log_every: 1}
seeds: [0, 1]
)");
  }
};

// ---- files that are not ours

TEST_F(Faults, StandardOutputThatCannotBeWrittenIsAnError) {
  must({"run", "tiny.yaml", "train.epochs=1"});
  for (const char* words :
       {"list", "list --json", "describe quest --json", "config show tiny.yaml", "config schema",
        "--help", "completion bash", "report runs --output -", "run tiny.yaml train.epochs=1",
        "run tiny.yaml --dry-run", "run tiny.yaml train.epochs=1 --out plain",
        "run tiny.yaml train.epochs=1 --out json --progress json",
        "run tiny.yaml train.epochs=1 --out bar --progress bar"}) {
    const Ended ended = in_shell(std::string(words) + " >/dev/full");
    EXPECT_NE(ended.exit_code, 0) << words;
    EXPECT_THAT(ended.err, HasSubstr("cannot write")) << words;
  }
}

// The next file that is opened would take its number, and progress would go into that.
TEST_F(Faults, StandardOutputThatIsClosedIsAnErrorAndNoFileTakesItsPlace) {
  for (const char* words : {"list", "run tiny.yaml train.epochs=1"}) {
    const Ended ended = in_shell(std::string(words) + " >&-");
    EXPECT_NE(ended.exit_code, 0) << words;
    EXPECT_THAT(ended.err, HasSubstr("cannot write")) << words;
  }
  EXPECT_EQ(in_shell("run tiny.yaml --out quiet <&- >&- 2>&-").exit_code, 1);
  for (const std::string& file : files_like("")) {
    if (fs::is_regular_file(file) && fs::path(file).filename() == "lock") {
      EXPECT_EQ(file_text(file), "") << file;
    }
  }
  EXPECT_EQ(status_of(run_folder("tiny/standard")).at("state"), "done");
}

TEST_F(Faults, ReportsGoToDevicesAndThroughLinks) {
  must({"run", "tiny.yaml", "train.epochs=1"});
  const Ended full = attnlab({"report", "runs", "--output", "/dev/full"});
  EXPECT_EQ(full.exit_code, 2) << full.story();
  EXPECT_THAT(full.err, mentions("/dev/full: ", "No space left"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  must({"report", "runs", "--output", "/dev/null"});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  folder_.write("real/page.html", "old");
  fs::create_symlink("real/page.html", at("page.html"));
  must({"report", "runs", "--output", "page.html"});
  EXPECT_TRUE(fs::is_symlink(at("page.html")));
  EXPECT_THAT(file_text(at("real/page.html")), HasSubstr("<html"));
  EXPECT_TRUE(files_like(".tmp-").empty());
}

TEST_F(Faults, TheSameFolderAsOutputWorksTwice) {
  const Words words = {"run", "tiny.yaml", "train.epochs=1", "--out", "."};
  must(words);
  EXPECT_THAT(must(words).out, HasSubstr("done before"));
}

TEST_F(Faults, NamesStayBelowTheOutputFolder) {
  for (const std::string name : {"name=..", "name=.", "attention.as=..", "name='a\tb'"}) {
    const Ended ended = attnlab({"run", "tiny.yaml", name, "--out", "out"});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
  }
  folder_.write("suite.yaml",
                "schema: 1\nname: ..\nbaseline: standard\nattentions: [standard]\n"
                "experiments: [tiny.yaml]\nseeds: [0]\n");
  EXPECT_EQ(attnlab({"suite", "suite.yaml", "--out", "out"}).exit_code, 2);
  folder_.write("...yaml",  // without its ending: ".."
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml]\nseeds: [0]\n");
  EXPECT_THAT(refusal({"suite", "...yaml", "--out", "out"}), HasSubstr("give it 'name: WORD'"));
  for (const std::string name : {"..", ".", "a/b", "a\tb", "a\x1b[2J"}) {
    EXPECT_THAT(refusal({"sweep", "tiny.yaml", "epochs=1,2", "--name", name, "--out", "out/in"}),
                HasSubstr("; --out sets the folder above"))
        << name;
  }
  EXPECT_FALSE(exists("out"));
}

TEST_F(Faults, ARunsFilesAreWrittenThroughNoLink) {
  must({"run", "tiny.yaml", "train.epochs=1"});
  const std::string folder = run_folder("tiny/standard");
  folder_.write("precious", "text");
  const auto linked = [&](const std::string& name) {
    fs::create_symlink(at("precious"), folder + "/" + name);
    return AllOf(HasSubstr(fs::path(folder).filename().string() + "/" + name + ": "),
                 HasSubstr("is a link"));
  };
  const auto evaluation = linked("evaluation.json");
  EXPECT_THAT(attnlab({"eval", folder, "clean"}).err, evaluation);
  fs::remove_all(folder);
  fs::create_directories(folder);
  const auto metrics = linked("metrics.jsonl");
  EXPECT_THAT(refusal({"run", "tiny.yaml", "train.epochs=1"}), metrics);
  EXPECT_EQ(file_text(at("precious")), "text");
  EXPECT_THAT(files_like("config.yaml"), ::testing::IsEmpty()) << "it began";
}

TEST_F(Faults, ASuitesFilesAreWrittenThroughNoLink) {
  folder_.write("small.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml]\nseeds: [0]\n");
  folder_.write("precious", "text");
  for (const std::string name : {"table.md", "suite.json"}) {
    const std::string link = "runs/small/" + name;
    fs::create_directories(at("runs/small"));
    fs::create_symlink(at("precious"), at(link));
    EXPECT_THAT(attnlab({"suite", "small.yaml"}).err, mentions(link + ": ", "is a link"));
    fs::remove(at(link));
  }
  EXPECT_THAT(files_like("config.yaml"), ::testing::IsEmpty()) << "it began";
  must({"suite", "small.yaml", "set.train.epochs=1"});
  fs::create_symlink(at("precious"), at("runs/report.html"));
  EXPECT_THAT(attnlab({"report", "runs"}).err, mentions("report.html: ", "is a link"));
  must({"report", "runs", "--output", "runs/report.html"});  // named by the user: it is followed
  EXPECT_TRUE(fs::is_symlink(at("runs/report.html")));
  EXPECT_THAT(file_text(at("precious")), HasSubstr("<html"));
  folder_.write("precious", "text");
  fs::create_directories(at("kept"));
  must({"runs", "store", "runs", "--to", "kept"});
  const std::string stored = fs::directory_iterator(at("kept/tiny/standard"))->path();
  fs::remove(stored);
  fs::create_symlink(at("precious"), stored);
  EXPECT_THAT(attnlab({"runs", "store", "runs", "--to", "kept", "--replace"}).err,
              mentions(fs::path(stored).filename().string() + ": ", "is a link"));
  EXPECT_EQ(file_text(at("precious")), "text");
}

// ---- bounds

TEST_F(Faults, CompositionsThatNeverEndAreRefused) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  folder_.write("extends_fifo.yaml", "extends: fifo\n");
  folder_.write("extends_zero.yaml", "extends: /dev/zero\n");
  for (const char* file : {"fifo", "/dev/zero", "extends_fifo.yaml", "extends_zero.yaml"}) {
    const Ended ended = attnlab({"validate", file});
    EXPECT_EQ(ended.exit_code, 2) << file;
    EXPECT_THAT(ended.err, HasSubstr("a pipe or a socket")) << file;
  }
}

TEST_F(Faults, SizesThatOverflowAreRefusedBeforeAFolderIsMade) {
  for (const char* size :
       {"train.epochs=9223372036854775807", "train.batch_size=4611686018427387904",
        "model.dim=4611686018427387904", "dataset.train=4611686018427387904",
        "dataset.test=4611686018427387904", "dataset.validation=4611686018427387904"}) {
    const Ended ended = attnlab({"run", "tiny.yaml", size});
    EXPECT_NE(ended.exit_code, 0) << size;
    EXPECT_THAT(ended.err, Not(HasSubstr("frame #"))) << size;
    EXPECT_FALSE(exists("runs")) << size;
    if (std::string(size).starts_with("dataset.")) {
      EXPECT_THAT(ended.err, mentions(size, "out of range", "int in")) << size;
    }
  }
}

TEST_F(Faults, SigtermEndsTheMakingOfData) {
  const std::string experiment = ATTNLAB_TEST_CONFIGS "/experiments/smoke/graph_sbm.yaml";
  // Data of many minutes.
  Process process(invocation({"run", experiment, "dataset.train=2000000"}));
  ASSERT_TRUE(at_work(process));
  const Ended ended = ended_after_sigterm(process);
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_FALSE(exists("runs"));
}

TEST_F(Faults, ASecondSigtermEndsAtOnce) {
  const std::string experiment = ATTNLAB_TEST_CONFIGS "/experiments/smoke/graph_sbm.yaml";
  Process process(invocation({"run", experiment, "dataset.train=2000000"}));
  ASSERT_TRUE(at_work(process));
  process.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Ended ended = ended_after_sigterm(process);
  EXPECT_EQ(ended.signal, SIGTERM) << ended.story();
}

TEST_F(Faults, SigtermEndsAnEvaluation) {
  must({"run", "tiny.yaml", "train.epochs=1", "dataset.test=100000"});
  const std::string folder = run_folder("tiny/standard"),
                    before = file_text(folder + "/status.json");
  Process process(invocation({"eval", folder, "clean"}));
  ASSERT_TRUE(at_work(process)) << "it was evaluated too fast to see it";
  const Ended ended = ended_after_sigterm(process);
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_EQ(file_text(folder + "/status.json"), before);
}

// ---- foreign text

TEST_F(Faults, NamesOfFilesMoveNoCursor) {
  EXPECT_THAT(refusal({"validate", "no\x1b[31msuch.yaml"}),
              AllOf(HasSubstr("no\\x1b[31msuch.yaml"), Not(HasSubstr("\x1b"))));
}

TEST_F(Faults, TextOfFilesMovesNoCursorInProgress) {
  folder_.write("odd\x1b[31m\a/tiny.yaml", file_text(at("tiny.yaml")));
  Invocation inside = invocation({"run", "tiny.yaml", "--dry-run", "--out", "o\x1b[31m\a"});
  inside.folder = at("odd\x1b[31m\a");
  const Ended ended = run(inside);
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  EXPECT_THAT(ended.out, AllOf(HasSubstr("o\\x1b[31m\\x07/"), Not(HasSubstr("\x1b"))));
}

// ---- resume tells the truth

TEST_F(Faults, WhatChangedBehindARunsBackIsNamed) {
  must({"run", "tiny.yaml", "train.epochs=1"});
  const std::string folder = run_folder("tiny/standard"), log = folder + "/metrics.jsonl";
  const std::string lines = file_text(log);
  write_file(log, lines + "{}\n");
  EXPECT_THAT(attnlab({"run", folder}).err, HasSubstr("metrics.jsonl is missing"));
  fs::remove(log);
  EXPECT_THAT(attnlab({"run", folder}).err, HasSubstr("metrics.jsonl is missing"));
  write_file(log, lines);
  must({"run", folder});
  std::string status = file_text(folder + "/status.json");
  status.replace(status.find("\"accuracy\": 0."), 14, "\"accuracy\": 1.");
  write_file(folder + "/status.json", status);
  EXPECT_THAT(attnlab({"run", folder}).err, HasSubstr("does not fit its check"));
}

TEST_F(Faults, EditedEvaluationsAndConfigurationsOfFinishedRunsAreNamed) {
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\nevaluate: {noisy: {set: {dataset: {noise: 3}}}}\n");
  must({"run", "asked.yaml", "train.epochs=1"});
  const std::string folder = run_folder("asked/standard"), evaluation = files_like("noisy-").at(0),
                    config = folder + "/config.yaml";
  std::string text = file_text(evaluation);
  text.replace(text.find("\"accuracy\": "), 14, "\"accuracy\": 9.");
  write_file(evaluation, text);
  for (const Words& words : {Words{"compare", "runs"}, Words{"status", "runs"}}) {
    EXPECT_THAT(must(words).out, HasSubstr("an evaluation cannot be read")) << words[0];
  }
  write_file(config, file_text(config) + "# edited\n");
  for (const Words& words : {Words{"compare", "runs"}, Words{"status", "runs"}}) {
    const Ended ended = attnlab(words);
    EXPECT_THAT(ended.out + ended.err, HasSubstr("config.yaml is missing"));
  }
}

TEST_F(Faults, AResultThatIsNoNumberCountsNowhere) {
  must({"run", "tiny.yaml", "train.steps=1", "train.optimizer.lr=1e10"});
  EXPECT_EQ(status_of(run_folder("tiny/standard")).at("state"), "diverged");
}

TEST_F(Faults, AChangeThatWasAcceptedShowsInComparisons) {
  must({"run", "tiny.yaml"});
  const std::string folder = run_folder("tiny/standard");
  nlohmann::json environment = nlohmann::json::parse(file_text(folder + "/environment.json"));
  environment["model"]["hash"] = "0";
  write_file(folder + "/environment.json", environment.dump());
  call_interrupted(folder);
  must({"run", folder, "--resume", "--accept-changes"});
  EXPECT_THAT(must({"compare", "runs"}).out, mentions("--accept-changes", "file of model 'vit'"));
}

TEST_F(Faults, AnotherPluginOfAnEntryThatEachEpochAsksIsNoticed) {
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\n"
                "evaluate: {other: {set: {task: {use: sequence_classification}}, when: each}}\n");
  must({"run", "asked.yaml"});
  const std::string folder = run_folder("asked/standard"), path = folder + "/environment.json";
  nlohmann::json environment = nlohmann::json::parse(file_text(path));
  environment.at("each").at("the file of task 'sequence_classification'") = "0";
  write_file(path, environment.dump());
  call_interrupted(folder);
  const Ended refused = attnlab({"run", folder, "--resume"});
  EXPECT_EQ(refused.exit_code, 2) << refused.story();
  EXPECT_THAT(refused.err,
              mentions("since this run began", "file of task 'sequence_classification'"));
  must({"run", folder, "--resume", "--accept-changes"});
}

TEST_F(Faults, AMemberOfAnEnsembleThatWentOnAloneIsMarked) {
  write_toy();
  const Words words = {"run", "toy.yaml", "--ensemble"};
  Process process(invocation(words));
  ASSERT_TRUE(wait_for([&] {
    return exists("runs/toy/qknorm") && files_like("metrics.jsonl").size() == 2 &&
           !metric_lines(run_folder("toy/qknorm", 1)).empty();
  }));
  process.send(SIGINT);
  const Ended ended = process.wait();
  ASSERT_EQ(ended.exit_code, 130) << ended.story();
  must({"run", run_folder("toy/qknorm", 1), "--resume"});
  EXPECT_THAT(must({"compare", "runs"}).out,
              mentions("toy/qknorm/1: ", "one of 2", "alone from step"));
}

TEST_F(Faults, AMemberOfAnEnsembleThatBeginsAnewAloneIsMarked) {
  write_toy();
  must({"run", "toy.yaml", "--ensemble", "train.epochs=2"});
  const std::string folder = run_folder("toy/qknorm", 1);
  for (const int again : {1, 2}) {
    for (const char* file : {"/status.json", "/checkpoint.safetensors"}) fs::remove(folder + file);
    must({"run", folder, "--resume"});
    EXPECT_THAT(must({"compare", "runs"}).out, mentions("toy/qknorm/1: ", "one of 2", "alone"))
        << again;
  }
}

TEST_F(Faults, AFlippedBitInTheWeightsIsNoticedByEvaluations) {
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\nevaluate: {noisy: {set: {dataset: {noise: 3}}}}\n");
  must({"run", "asked.yaml", "train.epochs=1"});
  const std::string folder = run_folder("asked/standard");
  const std::string weights = folder + "/checkpoint.safetensors";
  std::string bytes = file_text(weights);
  bytes[bytes.size() - 9] ^= 1;
  write_file(weights, bytes);
  for (const Words& entry :
       {Words{"eval", folder, "clean"}, Words{"eval", folder, "noisy", "--again"}}) {
    const Ended ended = attnlab(entry);
    EXPECT_NE(ended.exit_code, 0) << ended.story();
    EXPECT_THAT(ended.out + ended.err, HasSubstr("does not fit its checksum"));
  }
}

TEST_F(Faults, TheLockComesBeforeTheFirstByte) {
  const std::string plan = must({"run", "tiny.yaml", "--dry-run"}).out;
  std::string folder = plan.substr(plan.rfind("would go to ") + 12);
  folder = at(folder.substr(0, folder.find('\n')));
  fs::create_directories(folder);
  const FileLock other(folder + "/lock");
  EXPECT_THAT(refusal({"run", "tiny.yaml"}), HasSubstr("is being run by"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "the lock alone";
}

}  // namespace
}  // namespace attnlab::testing::faults_test
