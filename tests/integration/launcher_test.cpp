// Runs side by side: the same numbers as one after the other, each on its share of the cores; one
// that dies leaves the others alone. Slurm: played_slurm_test.cpp.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "framework/base/launched.h"
#include "tests/integration/pair_suite.h"

namespace attnlab::testing::launcher_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Launching : public PairSuite {
 protected:
  std::vector<std::string> folders() const {
    return {folder_of("standard", 0), folder_of("standard", 1), folder_of("quest", 0),
            folder_of("quest", 1)};
  }
  std::vector<std::string> states() const {
    std::vector<std::string> all;
    for (const std::string& folder : folders()) {
      const bool begun = fs::exists(folder + "/status.json");
      all.push_back(begun ? status_of(folder).at("state").get<std::string>() : "pending");
    }
    return all;
  }

  /// A variable of the environment that a process was started with; empty where there is none.
  static std::string variable_of(pid_t pid, const std::string& name) {
    std::istringstream all(file_text("/proc/" + std::to_string(pid) + "/environ"));
    for (std::string one; std::getline(all, one, '\0');) {
      if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
    }
    return "";
  }

  /// What a process has used of processors, its threads together; 0 when it is gone.
  static double processor_seconds(pid_t pid) {
    clockid_t clock = 0;
    timespec used{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }

  /// Waits until `count` runs have trained for a while. @returns their processes.
  std::map<std::string, pid_t> wait_until_training(Process& suite, std::size_t count) {
    std::map<std::string, pid_t> training;
    EXPECT_TRUE(wait_for([&] {
      if (!suite.running()) return true;
      training = running();
      std::erase_if(training, [&](const auto& run) {
        return file_text(at(run.first + "/metrics.jsonl")).size() < 2000;
      });
      return training.size() == count;
    })) << "runs do not train";
    EXPECT_THAT(training, SizeIs(count));
    return training;
  }
};

TEST_F(Launching, GivesTheSameNumbersSideBySideAsOneAfterTheOther) {
  must(suite({"--out", "single"}));
  fs::rename(at("single"), at("runs"));
  std::vector<std::map<std::string, std::string>> expected;
  for (const std::string& folder : folders()) expected.push_back(checkpoint_tensors(folder));
  fs::remove_all(at("runs"));
  EXPECT_THAT(must(suite({"-j", "4"})).out, HasSubstr("4 runs side by side on "));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(checkpoint_tensors(folders()[i]), expected[i]) << folders()[i];
  }
}

TEST_F(Launching, GivesEachRunItsShareOfTheCores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  if (CPU_COUNT(&set) < 2) GTEST_SKIP() << "this process has one core; two runs cannot share it";
  const int share = CPU_COUNT(&set) / 2;
  Process process(invocation(suite({"-j", "2", "set.train.threads=0"}, 300)));
  std::vector<std::set<int>> taken;
  for (const auto& [folder, pid] : wait_until_training(process, 2)) {
    cpu_set_t own;
    CPU_ZERO(&own);
    ASSERT_EQ(::sched_getaffinity(pid, sizeof own, &own), 0);
    std::set<int>& cores = taken.emplace_back();
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &own)) continue;
      cores.insert(core);
      EXPECT_TRUE(CPU_ISSET(core, &set)) << core;
    }
    EXPECT_THAT(cores, SizeIs(share));
    const json environment = json::parse(file_text(at(folder + "/environment.json")));
    EXPECT_EQ(environment.at("threads"), share);
  }
  ASSERT_THAT(taken, SizeIs(2));
  for (const int core : taken[0]) EXPECT_EQ(taken[1].count(core), 0U) << core;
  process.send(SIGINT);
  EXPECT_EQ(process.wait().exit_code, 130);
}

// By its place a run takes one of the machine's GPUs (`gpu_of`).
TEST_F(Launching, TellsEachRunItsPlace) {
  Process process(invocation(suite({"-j", "2"}, 300)));
  std::set<std::string> places;
  for (const auto& [folder, pid] : wait_until_training(process, 2)) {
    places.insert(variable_of(pid, kRunPlace));
  }
  EXPECT_THAT(places, ElementsAre("0", "1"));
  process.send(SIGINT);
  EXPECT_EQ(process.wait().exit_code, 130);
}

TEST_F(Launching, WritesJsonLinesThatNameTheirRun) {
  const Ended ended = must(suite({"-j", "2", "--progress", "json"}));
  std::map<std::string, std::vector<std::string>> events;
  std::map<std::string, std::int64_t> steps;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind('{', 0) != 0) break;  // the table
    const json event = json::parse(line);
    if (event.at("event") == "note") continue;
    const std::string run = event.at("run");
    events[run].push_back(event.at("event"));
    if (event.at("event") != "step") continue;
    EXPECT_EQ(event.at("step"), ++steps[run]);
  }
  ASSERT_THAT(events, SizeIs(4));
  for (const auto& [run, kinds] : events) {
    EXPECT_THAT(run, AnyOf(StartsWith("tiny/standard/"), StartsWith("tiny/quest/")));
    EXPECT_EQ(kinds.front(), "start");
    EXPECT_EQ(kinds.back(), "end");
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "start"), 1);
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), "end"), 1);
    EXPECT_EQ(steps[run], 8);
  }
}

TEST_F(Launching, LeavesTheOthersAloneWhenARunIsKilled) {
  Process process(invocation(suite({"-j", "2"}, 300)));
  const auto training = wait_until_training(process, 2);
  ASSERT_THAT(training, SizeIs(2));
  const std::string victim = at(training.begin()->first);
  ::kill(training.begin()->second, SIGKILL);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  const json status = status_of(victim);
  EXPECT_EQ(status.at("state"), "failed");
  EXPECT_THAT(status.at("reason").get<std::string>(),
              AllOf(HasSubstr("signal 9 (Killed)"), HasSubstr("memory ran out"),
                    ::testing::ContainsRegex("held up to [1-9][0-9.]* [MG]B of memory")));
  EXPECT_THAT(ended.out, mentions("failed: ", "signal 9 (Killed)"));
  for (const std::string& folder : folders()) {
    if (folder == victim) continue;
    EXPECT_EQ(status_of(folder).at("state"), "done") << folder;
  }
}

TEST_F(Launching, KeepsTheResultOfARunWhoseProcessDiesAfterIt) {
  folder_.write("asked.yaml",
                "schema: 1\nextends: tiny.yaml\nname: tiny\ndataset: {test: 4096}\n"
                "evaluate: {fog: {over: {dataset.shift: [0, 1, 2, 3, 4, 5, 6, 7]}}}\n");
  folder_.write("one.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [asked.yaml]\nseeds: [0]\n");
  Process process(invocation({"suite", "one.yaml"}));
  std::map<std::string, pid_t> evaluating;
  ASSERT_TRUE(wait_for([&] {
    evaluating = running();
    if (evaluating.empty()) return !process.running();
    const std::string status = file_text(at(evaluating.begin()->first + "/status.json"));
    return status.find("\"done\"") != std::string::npos;
  }));
  ASSERT_THAT(evaluating, SizeIs(1)) << "it ended before it could be killed";
  ::kill(evaluating.begin()->second, SIGSEGV);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.story();
  const std::string folder = at(evaluating.begin()->first);
  EXPECT_EQ(status_of(folder).at("state"), "done");
  EXPECT_THAT(ended.out,
              mentions("result stands", "process failed", "signal 11 (Segmentation fault)"));
  const auto evaluations = fs::directory_iterator(folder + "/evaluations");
  EXPECT_EQ(std::distance(begin(evaluations), end(evaluations)), 9) << "eight, and their mean";
}

TEST_F(Launching, StopsTheOthersWithCheckpointsUponFailFast) {
  const Words words = suite({"-j", "2", "--fail-fast"}, 400);
  Process process(invocation(words));
  const auto training = wait_until_training(process, 2);
  ASSERT_THAT(training, SizeIs(2));
  ::kill(training.begin()->second, SIGSEGV);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.story();
  std::vector<std::string> all = states();
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre("failed", "interrupted", "pending", "pending"));
  EXPECT_TRUE(exists(std::next(training.begin())->first + "/checkpoint.safetensors"));
  EXPECT_THAT(status_of(at(training.begin()->first)).at("reason").get<std::string>(),
              HasSubstr("signal 11 (Segmentation fault)"));
}

TEST_F(Launching, EndsAllRunsWithCheckpointsWhenInterruptedAndGoesOn) {
  const Words words = suite({"-j", "2", "seeds=[0]"}, 400);
  {
    Process process(invocation(words));
    ASSERT_THAT(wait_until_training(process, 2), SizeIs(2));
    process.send(SIGINT);
    const Ended ended = process.wait();
    ASSERT_EQ(ended.exit_code, 130) << ended.story();
  }
  for (const char* attention : {"standard", "quest"}) {
    EXPECT_EQ(status_of(folder_of(attention, 0)).at("state"), "interrupted");
  }
  EXPECT_THAT(must(words).out, HasSubstr("resumes at step"));
  must({"run", "tiny.yaml", "attention=quest", "train.epochs=400"});
  EXPECT_EQ(checkpoint_tensors(folder_of("quest", 0)),
            checkpoint_tensors(run_folder("tiny/quest")));
}

TEST_F(Launching, KillsRunsInTheMiddleOfAStepUponASecondSignal) {
  // One step, of about ten seconds of processor time; to begin takes one.
  folder_.write("slow.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml]\nseeds: [0, 1]\n"
                "set:\n  model: {dim: 512, depth: 8, heads: 8}\n  dataset: {train: 256}\n"
                "  train: {batch_size: 256}\n");
  Process process(invocation({"suite", "slow.yaml", "-j", "2"}));
  std::map<pid_t, double> begun;  // what each had used when its status was there
  const auto both_compute = [&] {
    std::size_t computing = 0;
    for (const auto& [folder, pid] : running()) {
      const double used = processor_seconds(pid);
      if (fs::exists(at(folder + "/status.json"))) begun.try_emplace(pid, used);
      computing += begun.count(pid) > 0 && used > std::max(3.0, begun.at(pid) + 1) ? 1 : 0;
    }
    return computing == 2 || !process.running();
  };
  ASSERT_TRUE(wait_for(both_compute));
  process.send(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_TRUE(process.running()) << "the first signal waits for the end of a step";
  process.send(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 130);
  EXPECT_THAT(running(), SizeIs(0));
  for (const int seed : {0, 1}) {
    EXPECT_EQ(status_of(run_folder("slow/tiny/standard", seed)).at("state"), "running")
        << "it was killed, and had no time to say anything";
  }
}

TEST_F(Launching, RefusesWhatCannotBeBeforeAnythingIsWritten) {
  const std::vector<std::pair<Words, Words>> wrong = {
      {{"-j", "0"}, {"--jobs: ", "1 to 256 runs", "found 0"}},
      {{"-j", "1000"}, {"found 1000"}},
      {{"-j", "two"}, {"two"}},
      {{"--launcher", "slrum"}, {"launcher 'slrum'", "did you mean 'slurm'?"}},
      {{"--fail-fast", "--keep-going"}, {"contradict each other"}},
      {{"--slurm", "time=1"}, {"--slurm time=1: ", "--launcher slurm"}},
      {{"--launcher", "slurm", "--slurm", "array=0-3"}, {"-j sets how many"}},
      {{"--launcher", "slurm", "--slurm", "--time=1"}, {"expected KEY=VALUE"}},
      {{"--launcher", "slurm", "--slurm", "Time=1"}, {"--slurm time=4:00:00"}},
      {{"--launcher", "slurm", "--slurm", "arr=0-3"}, {"short for --array"}},
      {{"--launcher", "slurm", "--slurm", "t=4:00:00"}, {"expected KEY=VALUE"}},
      {{"--launcher", "slurm", "--slurm", "help"}, {"--help", "which job"}},
      {{"--launcher", "slurm", "--slurm", "usage"}, {"--usage", "which job"}},
      {{"--launcher", "slurm", "--slurm", "version"}, {"--version", "which job"}},
      {{"--launcher", "slurm", "--slurm", "quiet"}, {"--quiet", "which job"}},
      {{"--launcher", "slurm", "--slurm", "wait"}, {"wait for the end"}},
      {{"--launcher", "slurm", "--slurm", "wait=1"}, {"attnlab status"}},
      {{"--launcher", "slurm", "--slurm", "wa"}, {"short for --wait"}},
      {{"--launcher", "slurm", "--slurm", "test-only"}, {"attnlab says --test-only"}},
      {{"--launcher", "slurm", "--slurm", "clusters=far"}, {"cluster of this machine"}},
      {{"--launcher", "slurm", "--slurm", "cluster=far"}, {"machine of that cluster"}},
      {{"--launcher", "slurm", "--slurm", "M=far"}, {"expected KEY=VALUE"}},
  };
  for (const auto& [words, expected] : wrong) {
    EXPECT_THAT(refusal(suite(words)), mentions(expected));
  }
  EXPECT_FALSE(exists("runs"));
}

}  // namespace
}  // namespace attnlab::testing::launcher_test
