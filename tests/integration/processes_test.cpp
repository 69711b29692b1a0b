// One run on several processes of the program: the same bits on 1, 2 and 4, also after a kill.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/integration/idx_pictures.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::processes_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Processes : public Workspace {
 protected:
  void SetUp() override {
    const Ended first = attnlab(images("first", 2, {"train.steps=1"}));
    if (first.err.find("was built without Gloo") != std::string::npos) {
      GTEST_SKIP() << "libgloo-dev is not here";
    }
    ASSERT_EQ(first.exit_code, 0) << first.story();
  }

  /// Everything on that draws: dropout of three kinds.
  static Words images(const std::string& name, int processes, const Words& more = {}) {
    Words words = {"run",
                   "tiny.yaml",
                   "name=" + name,
                   "model.depth=2",
                   "model.dropout=0.1",
                   "model.attention_dropout=0.1",
                   "model.drop_path=0.1",
                   "train.parts=4",
                   "train.clip_norm=0.5",
                   "train.average.decay=0.9",
                   "train.processes=" + std::to_string(processes),
                   "--resume"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words text(const std::string& name, int processes) {
    return {"run",
            ATTNLAB_TEST_CONFIGS "/experiments/smoke/transformer_xl_synthetic.yaml",
            "name=" + name,
            "train.steps=6",
            "train.schedule.warmup_steps=2",
            "train.parts=4",
            "train.threads=1",
            "dataset.train=20000",
            "dataset.validation=0",
            "dataset.test=700",
            "train.processes=" + std::to_string(processes)};
  }
  std::string run_of(const std::string& name) const { return run_folder(name + "/standard"); }
  void expect_same(const std::string& one, const std::string& other) const {
    EXPECT_EQ(checkpoint_tensors(run_of(one)), checkpoint_tensors(run_of(other))) << other;
    EXPECT_EQ(metric_lines(run_of(one)), metric_lines(run_of(other))) << other;
    EXPECT_EQ(timeless_metrics(run_of(one)), timeless_metrics(run_of(other))) << other;
  }
  /// Steps whose lines are there.
  std::size_t steps_of(const std::string& name) const {
    std::error_code error;
    for (const auto& folder : fs::directory_iterator(at("runs/" + name + "/standard"), error)) {
      std::ifstream lines(folder.path() / "metrics.jsonl");
      std::size_t count = 0;
      for (std::string line; std::getline(lines, line);) ++count;
      return count;
    }
    return 0;
  }
  /// The words of /proc/PID/stat, for a process whose name has no space.
  static Words stat_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    return {std::istream_iterator<std::string>(file), {}};
  }
  /// Whether a process has ended, and waits for its parent to notice.
  static bool has_ended(pid_t pid) {
    const Words words = stat_of(pid);
    return words.size() > 2 && words[2] == "Z";
  }
  /// Which signal ended such a process; 0: none.
  static int signal_of(pid_t pid) {
    const Words words = stat_of(pid);
    return words.empty() ? 0 : std::stoi(words.back()) & 0x7f;  // as of waitpid
  }
  /// The processes that a launcher started.
  static std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> children;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "stat");
      std::string name;
      char state = 0;
      pid_t pid = 0, above = 0;
      if (file >> pid >> name >> state >> above && above == parent) children.push_back(pid);
    }
    std::sort(children.begin(), children.end());
    return children;
  }
};

TEST_F(Processes, OfAnyNumberGiveAVisionModelTheSameBits) {
  for (const int processes : {1, 2, 4}) must(images(std::to_string(processes), processes));
  expect_same("1", "2");
  expect_same("1", "4");
  must(images("shares", 4, {"train.zero=1"}));
  expect_same("1", "shares");
}

/// An experiment of another domain, by the file that it is in.
class ProcessesOfDomains : public Processes, public ::testing::WithParamInterface<const char*> {
 protected:
  /// Pictures for the scenes of a detector, and its experiment.
  void write_detection() {
    write_idx_pictures(folder_);
    folder_.write("detection.yaml",
                  "schema: 1\nmodel: {use: ia_detr, swin: nano, window: 2, stride: 8, dim: 8, "
                  "heads: 2, hidden: 8, depth: 2, queries: 5, many_queries: 0, bias_hidden: 4}\n"
                  "attention: standard\ntask: one_shot_detection\n"
                  "dataset: {use: fashion_scenes, root: idx, train: 16, test: 8, canvas: 32, "
                  "size: 32, prompt_size: 24, largest_scale: 1, one_shot: true}\n"
                  "train: {epochs: 2, batch_size: 8, workers: 0, clip_norm: 0.1}\n");
  }
  Ended trained(int processes, const Words& more = {}) const {
    const std::string domain = GetParam();
    const std::string file = domain == "detection"
                                 ? at("detection.yaml")
                                 : ATTNLAB_TEST_CONFIGS "/experiments/smoke/" + domain + ".yaml";
    Words words = {"run",
                   file,
                   "name=" + std::to_string(processes),
                   "seeds=[0]",
                   "train.parts=4",
                   "train.threads=1",
                   "train.log_every=1",
                   "train.processes=" + std::to_string(processes)};
    words.insert(words.end(), more.begin(), more.end());
    return must(words);
  }
};

TEST_P(ProcessesOfDomains, OfAnyNumberGiveTheSameBits) {
  if (GetParam() == std::string("detection")) write_detection();
  trained(1);
  trained(2);
  trained(4, {"train.zero=1"});
  EXPECT_GT(metric_lines(run_of("1"), "train").size(), 2U);
  expect_same("1", "2");
  expect_same("1", "4");
}

INSTANTIATE_TEST_SUITE_P(Domains, ProcessesOfDomains,
                         ::testing::Values("graph_sbm", "point_scenes", "detection"),
                         [](const auto& all) { return std::string(all.param); });

TEST_F(Processes, OfAnyNumberGiveALanguageModelWithMemoryTheSameBits) {
  for (const int processes : {1, 4}) must(text(std::to_string(processes), processes));
  // Started by whom does not want to know how children end.
  Invocation deaf = invocation(text("2", 2));
  deaf.words.insert(deaf.words.begin(), {"env", "--ignore-signal=CHLD"});
  const Ended ended = run(deaf);
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  expect_same("1", "2");
  expect_same("1", "4");
}

TEST_F(Processes, GoOnWithAnotherNumberAfterOneIsKilled) {
  const Words slow = {"train.epochs=40", "train.checkpoint_seconds=0"};
  must(images("whole", 1, slow));
  {
    Process run(invocation(images("killed", 4, slow)));
    ASSERT_TRUE(wait_for([&] { return steps_of("killed") > 12; }));
    const std::vector<pid_t> all = children_of(run.id());
    ASSERT_EQ(all.size(), 4U);
    ::kill(all[2], SIGKILL);
    const Ended ended = run.wait();
    EXPECT_EQ(ended.exit_code, 1) << ended.story();
    EXPECT_THAT(ended.err, AllOf(HasSubstr("killed by signal 9"), HasSubstr("ended or does not"),
                                 HasSubstr("of 4 (pid " + std::to_string(all[2]))));
  }
  EXPECT_EQ(status_of(run_of("killed")).at("state"), "interrupted");
  must(images("killed", 2, slow));
  expect_same("whole", "killed");
}

TEST_F(Processes, WithMomentsInSharesGoOnWithAnotherNumberAfterOneIsKilled) {
  const Words slow = {"train.epochs=15", "train.checkpoint_seconds=0"};
  Words shared = slow;
  shared.emplace_back("train.zero=1");
  must(images("whole", 1, slow));
  {
    Process run(invocation(images("killed", 4, shared)));
    ASSERT_TRUE(wait_for([&] { return steps_of("killed") > 12; }));
    const std::vector<pid_t> all = children_of(run.id());
    ASSERT_EQ(all.size(), 4U);
    ::kill(all[3], SIGKILL);
    const Ended ended = run.wait();
    EXPECT_EQ(ended.exit_code, 1) << ended.story();
  }
  EXPECT_EQ(status_of(run_of("killed")).at("state"), "interrupted");
  must(images("killed", 2, shared));
  expect_same("whole", "killed");
}

TEST_F(Processes, EndWellWhereTheFirstDidSinceItWritesAll) {
  // Whether the second process still runs when the status is there is a matter of milliseconds.
  constexpr int kMostTries = 10;
  bool was_killed = false;
  for (int i = 0; i < kMostTries && !was_killed; ++i) {
    const std::string name = "ending-" + std::to_string(i);
    Process run(invocation(images(name, 2, {"train.epochs=4"})));
    ASSERT_TRUE(wait_for([&] { return steps_of(name) > 0; }));
    const std::vector<pid_t> all = children_of(run.id());
    ASSERT_EQ(all.size(), 2U);
    run.send(SIGSTOP);  // so that how the others ended can still be seen
    const std::string status = run_of(name) + "/status.json";
    ASSERT_TRUE(wait_for([&] { return file_text(status).find("\"done\"") != std::string::npos; }));
    ::kill(all[1], SIGKILL);  // while it ends
    ASSERT_TRUE(wait_for([&] { return has_ended(all[0]) && has_ended(all[1]); }));
    was_killed = signal_of(all[1]) == SIGKILL;
    run.send(SIGCONT);
    const Ended ended = run.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
  }
  if (!was_killed) GTEST_SKIP() << "it had ended by itself each time";
}

TEST_F(Processes, EndAtOnceWhereTheyAreAskedToStopTwice) {
  // One step takes long enough for two signals.
  const Words slow = {"model.dim=256", "model.depth=12", "dataset.train=1280",
                      "train.batch_size=128", "train.checkpoint_seconds=1000"};
  Process run(invocation(images("twice", 2, slow)));
  ASSERT_TRUE(wait_for([&] { return steps_of("twice") > 0; }));
  run.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  run.send(SIGINT);
  const Ended ended = run.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_FALSE(fs::exists(run_of("twice") + "/checkpoint.safetensors")) << "it was not waited for";
}

TEST_F(Processes, EndTogetherWhereTheCommandIsAskedToStop) {
  const Words slow = {"train.epochs=40"};
  Process run(invocation(images("stopped", 2, slow)));
  ASSERT_TRUE(wait_for([&] { return steps_of("stopped") > 3; }));
  run.send(SIGTERM);
  const Ended ended = run.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.story();
  EXPECT_EQ(status_of(run_of("stopped")).at("state"), "interrupted");
  must(images("stopped", 1, slow));
  must(images("whole", 1, slow));
  expect_same("whole", "stopped");
}

TEST_F(Processes, NameWhoHangsAndEnd) {
  const Words slow = {"train.epochs=400"};
  Process run(invocation(images("held", 2, slow), {{"ATTNLAB_PATIENCE", "8"}}));
  ASSERT_TRUE(wait_for([&] { return steps_of("held") > 3; }));
  const std::vector<pid_t> all = children_of(run.id());
  ASSERT_EQ(all.size(), 2U);
  ::kill(all[1], SIGSTOP);
  const Ended ended = run.wait();
  EXPECT_EQ(ended.exit_code, 1) << ended.story();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("does not answer"), HasSubstr("process 1 of 2 (pid ")));
  EXPECT_EQ(status_of(run_of("held")).at("state"), "interrupted");
}

TEST_F(Processes, AreRefusedBeforeTheFirstStepWhereTheyCannotBeOneRun) {
  EXPECT_THAT(refusal(images("three", 3)),
              AllOf(HasSubstr("train.processes: 3"), HasSubstr("power of two")));
  const auto launched = [](const char* rank, const char* patience = "4") {
    return Environment{{"RANK", rank},
                       {"WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29741"},
                       {"ATTNLAB_PATIENCE", patience}};
  };
  // Alone: nobody comes.
  EXPECT_THAT(refusal(images("alone", 1), launched("0")),
              AllOf(HasSubstr("127.0.0.1:29741"), HasSubstr("ranks 1")));
  // Without a first process, nobody answers.
  EXPECT_THAT(refusal(images("alone", 1), launched("1")),
              AllOf(HasSubstr("no answer"), HasSubstr("MASTER_ADDR")));
  // Of two configurations: both say who differs, and no step is made.
  Process first(invocation(images("mixed", 1), launched("0", "120")));
  const Ended second = attnlab(images("mixed", 1, {"train.clip_norm=1"}), launched("1", "120"));
  const Ended other = first.wait();
  for (const Ended& one : {second, other}) {
    EXPECT_EQ(one.exit_code, 2) << one.story();
    EXPECT_THAT(one.err, AllOf(HasSubstr("process 1 of 2 (pid "), HasSubstr("has another run")));
  }
  EXPECT_EQ(steps_of("mixed"), 0U);
  // With moments in shares in one, and whole in the other.
  Process whole(invocation(images("halved", 1), launched("0", "120")));
  const Ended shares = attnlab(images("halved", 1, {"train.zero=1"}), launched("1", "120"));
  whole.wait();
  EXPECT_EQ(shares.exit_code, 2) << shares.story();
  EXPECT_THAT(shares.err, AllOf(HasSubstr("has another train.zero"), HasSubstr("one command")));
  // On processors that make other numbers.
  Environment slow = launched("1", "120");
  slow["ATEN_CPU_CAPABILITY"] = "default";
  Process fast(invocation(images("unlike", 1), launched("0", "120")));
  const Ended unlike = attnlab(images("unlike", 1), slow);
  fast.wait();
  EXPECT_EQ(unlike.exit_code, 2) << unlike.story();
  EXPECT_THAT(unlike.err, mentions("another set of instructions", "machines that are alike"));
  // Left behind by whom started it, before it could ask to end with that.
  const Ended orphan = attnlab(images("orphan", 1), {{"ATTNLAB_MEETING", at("store")},
                                                     {"ATTNLAB_LAUNCHER", "4194305"},
                                                     {"RANK", "0"},
                                                     {"WORLD_SIZE", "2"},
                                                     {"ATTNLAB_PATIENCE", "4"}});
  EXPECT_EQ(orphan.exit_code, 130) << orphan.story();
}

TEST_F(Processes, AreRefusedWhereTheyDoNotSeeOneFolder) {
  const auto launched = [](const char* rank) {
    return Environment{{"RANK", rank},
                       {"WORLD_SIZE", "2"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", "29743"},
                       {"ATTNLAB_PATIENCE", "8"}};
  };
  fs::create_directory(at("elsewhere"));
  fs::copy_file(at("tiny.yaml"), at("elsewhere/tiny.yaml"));
  Invocation other = invocation(images("apart", 1), launched("1"));
  other.folder = at("elsewhere");
  Process first(invocation(images("apart", 1), launched("0")));
  const Ended second = run(other);
  EXPECT_EQ(second.exit_code, 1) << second.story();
  EXPECT_THAT(second.err, AllOf(HasSubstr("not see this folder"), HasSubstr("--out"),
                                HasSubstr("process 1 of 2 (pid ")));
  EXPECT_EQ(first.wait().exit_code, 1);
  EXPECT_EQ(steps_of("apart"), 0U);
}

}  // namespace
}  // namespace attnlab::testing::processes_test
