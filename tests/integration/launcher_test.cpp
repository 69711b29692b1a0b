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
  /// A squeue that has the four tasks of each job that it is asked for, as job 101.
  std::string play_queue() const {
    return play("squeue",
                "for word; do case $word in --name=*) names=${word#--name=};; esac; done\n"
                "for name in $(echo $names | tr , ' '); do for task in 0 1 2 3; do\n"
                "echo \"101|$task|PENDING|$name||Priority\"; done; done\n");
  }
  json jobs() const { return json::parse(file_text(at("runs/pair/slurm/jobs.json"))).at("jobs"); }

  /// The only task of a job that was submitted, in a job that Slurm has put back often.
  Invocation task(const std::string& path) const {
    return invocation({"slurm-task", at("runs/pair/slurm/1/cells.txt")},
                      {{"PATH", path},
                       {"SLURM_ARRAY_JOB_ID", "12"},
                       {"SLURM_ARRAY_TASK_ID", "0"},
                       {"SLURM_RESTART_COUNT", "7"}});
  }
  /// The task once, its run killed before it can come to a step.
  Ended task_in_vain(const std::string& path) const {
    Process process(task(path));
    EXPECT_TRUE(wait_for([&] { return !running().empty() || !process.running(); }));
    EXPECT_TRUE(wait_for([&] {
      process.send(SIGTERM);
      return !process.running();
    }));
    return process.wait();
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
      {{"--launcher", "slurm", "--slurm", "arr=0-3"}, "may be short for --array"},
      {{"--launcher", "slurm", "--slurm", "t=4:00:00"}, "expected KEY=VALUE"},
      {{"--launcher", "slurm", "--slurm", "help"}, "with --help sbatch does not say which job"},
      {{"--launcher", "slurm", "--slurm", "usage"}, "with --usage sbatch does not say which job"},
      {{"--launcher", "slurm", "--slurm", "version"}, "with --version sbatch does not say which"},
      {{"--launcher", "slurm", "--slurm", "quiet"}, "with --quiet sbatch does not say which job"},
      {{"--launcher", "slurm", "--slurm", "wait"}, "sbatch would wait for the end of all runs"},
      {{"--launcher", "slurm", "--slurm", "wait=1"}, "follow the runs with: attnlab status"},
      {{"--launcher", "slurm", "--slurm", "wa"}, "may be short for --wait"},
      {{"--launcher", "slurm", "--slurm", "test-only"},
       "attnlab says --test-only to sbatch itself"},
      {{"--launcher", "slurm", "--slurm", "clusters=far"}, "asks the cluster of this machine"},
      {{"--launcher", "slurm", "--slurm", "cluster=far"}, "submit from a machine of that cluster"},
      {{"--launcher", "slurm", "--slurm", "M=far"}, "expected KEY=VALUE"},
  };
  for (const auto& [words, expected] : wrong) {
    const Ended ended = attnlab(suite(words));
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, HasSubstr(expected));
  }
  EXPECT_FALSE(exists("runs"));
}

TEST_F(Launching, RefusesOptionsOfSbatchInTheEnvironmentToo) {
  const std::pair<std::string, std::string> wrong[] = {
      {"SBATCH_CLUSTERS", "SBATCH_CLUSTERS=far: attnlab asks the cluster of this machine"},
      {"SLURM_CLUSTERS", "SLURM_CLUSTERS=far: attnlab asks the cluster of this machine"},
      {"SBATCH_WAIT", "SBATCH_WAIT: sbatch would wait for the end of all runs"}};
  for (const auto& [name, expected] : wrong) {
    const Ended ended = attnlab(suite({"--launcher", "slurm"}), {{name, "far"}});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, AllOf(HasSubstr(expected), HasSubstr("unset it")));
  }
  EXPECT_FALSE(exists("runs"));
  for (const char* no : {"0", "no", ""}) {
    const Ended ended =
        attnlab(suite({"--launcher", "slurm"}), {{"SBATCH_WAIT", no}, {"PATH", at("empty")}});
    EXPECT_THAT(ended.err, HasSubstr("there is no program 'sbatch' in PATH")) << no;
  }
  // Here nobody asks sbatch.
  must(suite({"--dry-run"}), {{"SLURM_CLUSTERS", "far"}});
}

TEST_F(Launching, LeavesSbatchItsOtherOptions) {
  const std::string path = play("sbatch", "echo \"$@\" > words; echo 101");
  play("squeue", "exit 0");
  must(suite({"--launcher", "slurm", "--slurm", "wait-all-nodes=1"}),
       {{"PATH", path}, {"SLURM_CLUSTERS", ""}});
  EXPECT_THAT(file_text(at("words")), HasSubstr("--wait-all-nodes=1"));
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
  play("squeue", "exit 0");
  const Ended ended =
      attnlab(suite({"--launcher", "slurm", "--slurm", "account=nobody"}), {{"PATH", path}});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("nothing was submitted; mend its options: --slurm account=nobody"),
                    HasSubstr("sbatch: error: invalid account")));
  EXPECT_THAT(jobs(), SizeIs(0));
}

TEST_F(Launching, KeepsAJobThatSlurmTookAlthoughSbatchFailed) {
  const std::string path = play("sbatch",
                                "echo once >> submissions\n"
                                "echo 'sbatch: error: Batch job submission failed: Socket timed "
                                "out on send/recv operation' >&2; exit 1");
  play_queue();
  const Ended ended = must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  EXPECT_THAT(ended.out, AllOf(HasSubstr("submitted 4 runs as Slurm's job 101; sbatch failed"),
                               HasSubstr("Socket timed out")));
  ASSERT_THAT(jobs(), SizeIs(1));
  EXPECT_EQ(jobs()[0].at("id"), "101");
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("4 runs are in Slurm's queue already"));
  EXPECT_EQ(file_text(at("submissions")), "once\n");
}

TEST_F(Launching, DoesNotSayThatNothingWasSubmittedWhereThatIsNotKnown) {
  const std::string path = play("sbatch", "echo once >> submissions; kill -9 $$");
  // First squeue fails; then it answers, and the job may still come into the queue.
  for (const char* queue : {"echo 'slurm_load_jobs error' >&2; exit 1", "exit 0"}) {
    fs::remove_all(at("runs"));
    fs::remove(at("submissions"));
    play("squeue", queue);
    const Ended ended = attnlab(suite({"--launcher", "slurm"}), {{"PATH", path}});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    ASSERT_THAT(jobs(), SizeIs(1)) << queue;
    EXPECT_EQ(jobs()[0].at("id"), "");
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("it is not known whether Slurm took the job"),
                      HasSubstr("squeue --name=" + jobs()[0].at("name").get<std::string>()),
                      Not(HasSubstr("nothing was submitted"))));
    play_queue();
    EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
                HasSubstr("4 runs are in Slurm's queue already"));
    EXPECT_EQ(file_text(at("submissions")), "once\n");
  }
}

TEST_F(Launching, BelievesTheQueueNotANumberThatSbatchPrintsWhereItFails) {
  const std::string path = play("sbatch", "echo 'hours left:'; echo 1200; exit 1");
  play("squeue", "exit 0");
  const Ended ended = attnlab(suite({"--launcher", "slurm"}), {{"PATH", path}});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("it is not known whether Slurm took the job"),
                               HasSubstr("it printed 1200, which is not there")));
  EXPECT_THAT(must({"status", "runs/pair"}, {{"PATH", path}}).out,
              AllOf(HasSubstr(", which is not in Slurm's queue"), Not(HasSubstr("its output"))));
  // One that is there is another's where the folder was made anew meanwhile: names tell them apart.
  const std::string name = jobs()[0].at("name");
  fs::remove_all(at("runs"));
  play("sbatch", "exit 1");
  play("squeue", "echo '101|0|PENDING|" + name + "||Priority'");
  EXPECT_THAT(attnlab(suite({"--launcher", "slurm"}), {{"PATH", path}}).err,
              HasSubstr("nothing was submitted"));
}

TEST_F(Launching, SaysWhatWasSubmittedBeforeSlurmRefusedTheRest) {
  const std::string path = play("sbatch",
                                "if [ -e first ]; then\n"
                                "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1\n"
                                "fi\n: > first; echo 101");
  play("squeue", "exit 0");
  play("scontrol", "echo 'MaxArraySize            = 2'");
  const Ended ended = attnlab(suite({"--launcher", "slurm"}), {{"PATH", path}});
  EXPECT_EQ(ended.exit_code, 2) << ended.story();
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("2 of 4 runs were submitted as job 101, the rest was refused"),
                    HasSubstr("the same command again"), HasSubstr("QOSMaxSubmitJobPerUserLimit"),
                    Not(HasSubstr("nothing was submitted"))));
  ASSERT_THAT(jobs(), SizeIs(1));
  EXPECT_EQ(jobs()[0].at("id"), "101");
}

TEST_F(Launching, FindsTheNumberOfAJobAmongASitesOwnWords) {
  std::string path = play("sbatch", "echo 'Welcome; 3 nodes are down'; echo '101;far'; echo Bye");
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("submitted 4 runs as Slurm's job 101\n"));
  EXPECT_EQ(jobs()[0].at("id"), "101");

  fs::remove_all(at("runs"));
  path = play("sbatch", "echo once >> submissions; echo 'Welcome; 3 nodes are down'");
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("sbatch did not print its number"));
  EXPECT_EQ(jobs()[0].at("id"), "");
  play_queue();
  EXPECT_THAT(must({"status", "runs/pair"}, {{"PATH", path}}).out,
              HasSubstr("queued as job 101_0 (Priority)"));
  // A sentence that was recorded as the number is none.
  json recorded = {{"jobs", jobs()}};
  recorded["jobs"][0]["id"] = "Welcome";
  folder_.write("runs/pair/slurm/jobs.json", recorded.dump());
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("4 runs are in Slurm's queue already"));
  EXPECT_EQ(file_text(at("submissions")), "once\n");
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
  ASSERT_THAT(jobs(), SizeIs(1));
  EXPECT_EQ(jobs()[0].at("id"), "12");
  EXPECT_THAT(jobs()[0].at("cells"), SizeIs(4));
}

TEST_F(Launching, SubmitsNothingTwiceAndTellsWhatSlurmKnows) {
  std::string path = play("sbatch", "echo 12; echo once >> submissions");
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  const std::string name = jobs()[0].at("name");
  // The third has gone, the fourth belongs to an older job of the same name, as earlier versions
  // gave.
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

TEST_F(Launching, ShowsTheOtherSuitesWhereOneRecordOfJobsIsDamaged) {
  const std::string path = play("sbatch", "echo 101");
  play_queue();
  folder_.write("other.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml]\nseeds: [0]\n");
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  must({"suite", "other.yaml", "--launcher", "slurm"}, {{"PATH", path}});
  folder_.write("runs/other/slurm/jobs.json", "{\"jobs\": [{}]}");
  const Ended all = must({"status", "runs"}, {{"PATH", path}});
  EXPECT_THAT(all.out, AllOf(HasSubstr("what was submitted cannot be read: "),
                             HasSubstr("runs/other/slurm/jobs.json: damaged"),
                             HasSubstr("queued as job 101_0"), HasSubstr("4 queued, 1 pending")));
  const json parsed = json::parse(must({"status", "runs", "--json"}, {{"PATH", path}}).out);
  EXPECT_EQ(parsed.at("counts"), json({{"pending", 1}, {"queued", 4}}));
  EXPECT_THAT(parsed.at("notes").dump(), HasSubstr("jobs.json: damaged"));
  EXPECT_THAT(must({"status", "runs/other"}, {{"PATH", path}}).out, HasSubstr("damaged"));
}

TEST_F(Launching, AsksSlurmOnceForEachSuite) {
  const std::string path = play("sbatch", "echo 101");
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  play("squeue", "echo once >> asked");
  play("sacct", "exit 0");
  for (const char* folder : {"runs", "runs/pair"}) {
    fs::remove(at("asked"));
    must({"status", folder}, {{"PATH", path}});
    EXPECT_EQ(file_text(at("asked")), "once\n") << folder;
  }
  EXPECT_THAT(must({"status", "--help"}).out,
              AllOf(HasSubstr("squeue"), Not(HasSubstr("files only"))));
}

TEST_F(Launching, PutsATaskBackUnlessItComesToNoStepSeveralTimesInARow) {
  // A step takes about ten seconds of processor time: none is taken before the run is killed.
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [quest]\nexperiments: [tiny.yaml]\nseeds: [0]\n"
                "set:\n  model: {dim: 512, depth: 8, heads: 8}\n  dataset: {train: 256}\n"
                "  train: {batch_size: 256}\n");
  const std::string path = play("sbatch", "echo 12");
  play("scontrol", "case $1 in requeue) echo $2 >> requeued;; *) echo JobState=RUNNING;; esac");
  folder_.write("runs/pair/slurm/1/vain-0.txt", "0 3\n");  // of a record that was deleted
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  std::string requeued;
  const auto expect_back = [&](const Ended& ended) {
    requeued += "12_0\n";
    EXPECT_EQ(ended.exit_code, 0) << ended.story();
    EXPECT_EQ(file_text(at("requeued")), requeued) << ended.story();
  };
  expect_back(task_in_vain(path));
  expect_back(task_in_vain(path));
  const Ended last = task_in_vain(path);
  EXPECT_EQ(last.exit_code, 130) << last.story();
  EXPECT_THAT(last.err, HasSubstr("stopped 3 times in a row without a step"));
  EXPECT_EQ(file_text(at("requeued")), requeued);
}

}  // namespace
}  // namespace attnlab::testing::launcher_test
