// Runs side by side: the same numbers as one after the other, each on its share of the cores; one
// that dies leaves the others alone. Slurm's programs are played by scripts here; slurm_test.cpp
// has the real ones.
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "tests/integration/workspace.h"

namespace attnlab::testing::launcher_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class Launching : public Workspace {
 protected:
  Launching() {
    folder_.write("pair.yaml",
                  "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\n"
                  "seeds: [0, 1]\n");
  }

  /// A suite of four runs; each takes some seconds with `epochs=400`.
  static Words suite(const Words& more, int epochs = 2) {
    Words words = {"suite", "pair.yaml", "set.train.epochs=" + std::to_string(epochs)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string folder_of(const std::string& attention, int seed,
                        const std::string& suite = "pair") const {
    return run_folder(suite + "/tiny/" + attention, seed);
  }
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

  /// The processes that run cells of this workspace, by their run's folder as on their command
  /// line.
  std::map<std::string, pid_t> running() const {
    std::map<std::string, pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::error_code error;
      if (fs::read_symlink(entry.path() / "cwd", error) != fs::path(folder_.path())) continue;
      std::istringstream words(file_text(entry.path() / "cmdline"));
      Words all;
      for (std::string word; std::getline(words, word, '\0');) all.push_back(word);
      if (all.size() > 2 && all[1] == "run") found[all[2]] = std::stoi(name);
    }
    return found;
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

  /// A program that a script plays. @returns PATH with it in front.
  std::string play(const std::string& name, const std::string& script) const {
    const std::string path = folder_.write("bin/" + name, "#!/bin/sh\n" + script);
    fs::permissions(path, fs::perms::owner_all);
    return at("bin") + ":" + std::getenv("PATH");
  }
};

TEST_F(Launching, GivesTheSameNumbersSideBySideAsOneAfterTheOther) {
  must(suite({"--out", "single"}));
  fs::rename(at("single"), at("runs"));
  std::vector<std::map<std::string, std::string>> expected;
  for (const std::string& folder : folders()) expected.push_back(checkpoint_tensors(folder));
  fs::remove_all(at("runs"));
  const Ended ended = must(suite({"-j", "4"}));
  EXPECT_THAT(ended.out, HasSubstr("4 runs side by side on "));
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
              AllOf(HasSubstr("killed by signal 9 (Killed)"), HasSubstr("memory ran out"),
                    ::testing::ContainsRegex("held up to [1-9][0-9.]* [MG]B of memory")));
  EXPECT_THAT(ended.out, HasSubstr("failed: killed by signal 9 (Killed)"));
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
  EXPECT_THAT(ended.out, HasSubstr("its result stands; its process failed after it: killed by "
                                   "signal 11 (Segmentation fault)"));
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
              HasSubstr("killed by signal 11 (Segmentation fault)"));
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
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"-j", "0"}, "--jobs: expected 1 to 256 runs at once, found 0"},
      {{"-j", "1000"}, "found 1000"},
      {{"-j", "two"}, "two"},
      {{"--launcher", "slrum"}, "there is no launcher 'slrum'; did you mean 'slurm'?"},
      {{"--fail-fast", "--keep-going"}, "contradict each other"},
      {{"--slurm", "time=1"}, "--slurm time=1: is for Slurm only; add --launcher slurm"},
      {{"--launcher", "slurm", "--slurm", "array=0-3"}, "-j sets how many runs there are at once"},
      {{"--launcher", "slurm", "--slurm", "--time=1"}, "expected KEY=VALUE"},
      {{"--launcher", "slurm", "--slurm", "Time=1"}, "--slurm time=4:00:00"},
  };
  for (const auto& [words, expected] : wrong) {
    const Ended ended = attnlab(suite(words));
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, HasSubstr(expected));
  }
  EXPECT_FALSE(exists("runs"));
}

TEST_F(Launching, SaysThatSlurmIsNotHere) {
  folder_.write("empty/nothing", "");
  const Ended ended = attnlab(suite({"--launcher", "slurm"}), {{"PATH", at("empty")}});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("there is no program 'sbatch' in PATH"),
                               HasSubstr("--launcher local")));
}

TEST_F(Launching, RepeatsWhatSbatchSaysWhenItRefuses) {
  const std::string path = play("sbatch", "echo 'sbatch: error: invalid account' >&2; exit 1");
  const Ended ended =
      attnlab(suite({"--launcher", "slurm", "--slurm", "account=nobody"}), {{"PATH", path}});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("nothing was submitted; mend its options: --slurm account=nobody"),
                    HasSubstr("sbatch: error: invalid account")));
  EXPECT_THAT(json::parse(file_text(at("runs/pair/slurm/jobs.json"))).at("jobs"), SizeIs(0));
}

TEST_F(Launching, SubmitsOneArrayWithTheGivenOptions) {
  const std::string path = play("sbatch", "printf '%s\\n' \"$@\" > arguments; echo '12;cluster'");
  const Ended ended = must(
      suite({"--launcher", "slurm", "-j", "3", "--slurm", "time=4:00:00", "--slurm", "gres=gpu:1"}),
      {{"PATH", path}});
  EXPECT_THAT(ended.out, AllOf(HasSubstr("submitted 4 runs as Slurm's job 12\n"),
                               HasSubstr("attnlab status runs/pair")));
  const std::string arguments = "\n" + file_text(at("arguments"));
  for (const char* expected :
       {"\n--array=0-3%3\n", "\n--requeue\n", "\n--open-mode=append\n", "\n--signal=B:TERM@",
        "\n--time=4:00:00\n", "\n--gres=gpu:1\n", "\nruns/pair/slurm/1/job.sh\n"}) {
    EXPECT_THAT(arguments, HasSubstr(expected));
  }
  const json jobs = json::parse(file_text(at("runs/pair/slurm/jobs.json"))).at("jobs");
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].at("id"), "12");
  EXPECT_THAT(jobs[0].at("cells"), SizeIs(4));
}

TEST_F(Launching, SubmitsNothingTwiceAndTellsWhatSlurmKnows) {
  std::string path = play("sbatch", "echo 12; echo once >> submissions");
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  const std::string name =
      json::parse(file_text(at("runs/pair/slurm/jobs.json"))).at("jobs")[0].at("name");
  // The third has gone, the fourth belongs to an older job of the same name.
  path = play("squeue", "cat <<END\n12|0|RUNNING|" + name + "|node7|None\n12|1|PENDING|" + name +
                            "||Priority\n12|2|OUT_OF_MEMORY|" + name + "|node7|None\n9|3|RUNNING|" +
                            name + "|node7|None\nEND\n");
  play("sacct", "echo '12_3|NODE_FAIL'");
  const std::string status = must({"status", "runs/pair"}, {{"PATH", path}}).out;
  EXPECT_THAT(
      status,
      AllOf(HasSubstr("running as job 12_0 on node7"), HasSubstr("queued as job 12_1 (Priority)"),
            HasSubstr("job 12_2 ended: out of memory"), HasSubstr("job 12_3 ended: node fail")));
  const Ended again = must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  EXPECT_THAT(again.out, AllOf(HasSubstr("2 runs are in Slurm's queue already"),
                               HasSubstr("submitted 2 runs as Slurm's job 12")));
  EXPECT_THAT(file_text(at("runs/pair/slurm/2/cells.txt")),
              AllOf(HasSubstr("\ttiny/quest/0\n"), HasSubstr("\ttiny/quest/1\n"),
                    Not(HasSubstr("tiny/standard"))));

  play("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
  const Ended blind = attnlab(suite({"--launcher", "slurm"}), {{"PATH", path}});
  EXPECT_NE(blind.exit_code, 0);
  EXPECT_THAT(blind.err, HasSubstr("Unable to contact slurm controller"));
  EXPECT_EQ(file_text(at("submissions")), "once\nonce\n") << "what cannot be known is not done";
  EXPECT_THAT(must({"status", "runs/pair"}, {{"PATH", path}}).out,
              HasSubstr("Unable to contact slurm controller"));
}

}  // namespace
}  // namespace attnlab::testing::launcher_test
