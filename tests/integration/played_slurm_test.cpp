// Suites through Slurm's programs as scripts play them: what is submitted, what is said where they
// fail, and tasks. slurm_test.cpp has the real ones.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/integration/pair_suite.h"

namespace attnlab::testing::played_slurm_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class PlayedSlurm : public PairSuite {
 protected:
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

TEST_F(PlayedSlurm, RefusesOptionsOfSbatchInTheEnvironmentToo) {
  const std::pair<std::string, Words> wrong[] = {
      {"SBATCH_CLUSTERS", {"SBATCH_CLUSTERS=far: ", "cluster of this machine"}},
      {"SLURM_CLUSTERS", {"SLURM_CLUSTERS=far: ", "cluster of this machine"}},
      {"SBATCH_WAIT", {"SBATCH_WAIT: ", "wait for the end"}}};
  for (const auto& [name, expected] : wrong) {
    EXPECT_THAT(refusal(suite({"--launcher", "slurm"}), {{name, "far"}}),
                AllOf(mentions(expected), HasSubstr("unset it")));
  }
  EXPECT_FALSE(exists("runs"));
  for (const char* no : {"0", "no", ""}) {
    const Ended ended =
        attnlab(suite({"--launcher", "slurm"}), {{"SBATCH_WAIT", no}, {"PATH", at("empty")}});
    EXPECT_THAT(ended.err, mentions("no program 'sbatch'", "PATH")) << no;
  }
  // Here nobody asks sbatch.
  must(suite({"--dry-run"}), {{"SLURM_CLUSTERS", "far"}});
}

TEST_F(PlayedSlurm, LeavesSbatchItsOtherOptions) {
  const std::string path = play("sbatch", "echo \"$@\" > words; echo 101");
  play("squeue", "exit 0");
  must(suite({"--launcher", "slurm", "--slurm", "wait-all-nodes=1"}),
       {{"PATH", path}, {"SLURM_CLUSTERS", ""}});
  EXPECT_THAT(file_text(at("words")), HasSubstr("--wait-all-nodes=1"));
}

TEST_F(PlayedSlurm, SaysThatSlurmIsNotHere) {
  folder_.write("empty/nothing", "");
  EXPECT_THAT(refusal(suite({"--launcher", "slurm"}), {{"PATH", at("empty")}}),
              mentions("no program 'sbatch'", "PATH", "--launcher local"));
}

TEST_F(PlayedSlurm, RepeatsWhatSbatchSaysWhenItRefuses) {
  const std::string path = play("sbatch", "echo 'sbatch: error: invalid account' >&2; exit 1");
  play("squeue", "exit 0");
  EXPECT_THAT(
      refusal(suite({"--launcher", "slurm", "--slurm", "account=nobody"}), {{"PATH", path}}),
      mentions("nothing was submitted", "--slurm account=nobody", "error: invalid account"));
  EXPECT_THAT(jobs(), SizeIs(0));
}

TEST_F(PlayedSlurm, KeepsAJobThatSlurmTookAlthoughSbatchFailed) {
  const std::string path = play("sbatch",
                                "echo once >> submissions\n"
                                "echo 'sbatch: error: Batch job submission failed: Socket timed "
                                "out on send/recv operation' >&2; exit 1");
  play_queue();
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              mentions("submitted 4 runs", "job 101", "sbatch failed", "Socket timed out"));
  ASSERT_THAT(jobs(), SizeIs(1));
  EXPECT_EQ(jobs()[0].at("id"), "101");
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("4 runs are in Slurm's queue"));
  EXPECT_EQ(file_text(at("submissions")), "once\n");
}

TEST_F(PlayedSlurm, DoesNotSayThatNothingWasSubmittedWhereThatIsNotKnown) {
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
                AllOf(mentions("not known whether",
                               "squeue --name=" + jobs()[0].at("name").get<std::string>()),
                      Not(HasSubstr("nothing was submitted"))));
    play_queue();
    EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
                HasSubstr("4 runs are in Slurm's queue"));
    EXPECT_EQ(file_text(at("submissions")), "once\n");
  }
}

TEST_F(PlayedSlurm, BelievesTheQueueNotANumberThatSbatchPrintsWhereItFails) {
  const std::string path = play("sbatch", "echo 'hours left:'; echo 1200; exit 1");
  play("squeue", "exit 0");
  EXPECT_THAT(refusal(suite({"--launcher", "slurm"}), {{"PATH", path}}),
              mentions("not known whether", "printed 1200"));
  EXPECT_THAT(must({"status", "runs/pair"}, {{"PATH", path}}).out,
              AllOf(HasSubstr("not in Slurm's queue"), Not(HasSubstr("its output"))));
  // One that is there is another's where the folder was made anew meanwhile: names tell them apart.
  const std::string name = jobs()[0].at("name");
  fs::remove_all(at("runs"));
  play("sbatch", "exit 1");
  play("squeue", "echo '101|0|PENDING|" + name + "||Priority'");
  EXPECT_THAT(attnlab(suite({"--launcher", "slurm"}), {{"PATH", path}}).err,
              HasSubstr("nothing was submitted"));
}

TEST_F(PlayedSlurm, SaysWhatWasSubmittedBeforeSlurmRefusedTheRest) {
  const std::string path = play("sbatch",
                                "if [ -e first ]; then\n"
                                "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1\n"
                                "fi\n: > first; echo 101");
  play("squeue", "exit 0");
  play("scontrol", "echo 'MaxArraySize            = 2'");
  EXPECT_THAT(refusal(suite({"--launcher", "slurm"}), {{"PATH", path}}),
              AllOf(mentions("2 of 4 runs", "job 101", "refused", "the same command again",
                             "QOSMaxSubmitJobPerUserLimit"),
                    Not(HasSubstr("nothing was submitted"))));
  ASSERT_THAT(jobs(), SizeIs(1));
  EXPECT_EQ(jobs()[0].at("id"), "101");
}

TEST_F(PlayedSlurm, FindsTheNumberOfAJobAmongASitesOwnWords) {
  std::string path = play("sbatch", "echo 'Welcome; 3 nodes are down'; echo '101;far'; echo Bye");
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              mentions("submitted 4 runs", "job 101\n"));
  EXPECT_EQ(jobs()[0].at("id"), "101");

  fs::remove_all(at("runs"));
  path = play("sbatch", "echo once >> submissions; echo 'Welcome; 3 nodes are down'");
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("sbatch did not print"));
  EXPECT_EQ(jobs()[0].at("id"), "");
  play_queue();
  EXPECT_THAT(must({"status", "runs/pair"}, {{"PATH", path}}).out,
              HasSubstr("queued as job 101_0 (Priority)"));
  // A sentence that was recorded as the number is none.
  json recorded = {{"jobs", jobs()}};
  recorded["jobs"][0]["id"] = "Welcome";
  folder_.write("runs/pair/slurm/jobs.json", recorded.dump());
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              HasSubstr("4 runs are in Slurm's queue"));
  EXPECT_EQ(file_text(at("submissions")), "once\n");
}

TEST_F(PlayedSlurm, SubmitsOneArrayWithTheGivenOptions) {
  const std::string path = play("sbatch", "printf '%s\\n' \"$@\" > arguments; echo '12;cluster'");
  EXPECT_THAT(
      must(suite({"--launcher", "slurm", "-j", "3", "--slurm", "time=4:00:00", "--slurm",
                  "gres=gpu:1"}),
           {{"PATH", path}})
          .out,
      AllOf(mentions("submitted 4 runs", "job 12\n"), HasSubstr("attnlab status runs/pair")));
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

TEST_F(PlayedSlurm, SubmitsNothingTwiceAndTellsWhatSlurmKnows) {
  std::string path = play("sbatch", "echo 12; echo once >> submissions");
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  const std::string name = jobs()[0].at("name");
  // The third has gone, the fourth belongs to an older job of the same name, as earlier versions
  // gave.
  path = play("squeue", "cat <<END\n12|0|RUNNING|" + name + "|node7|None\n12|1|PENDING|" + name +
                            "||Priority\n12|2|OUT_OF_MEMORY|" + name + "|node7|None\n9|3|RUNNING|" +
                            name + "|node7|None\n12|99999999999999999999|RUNNING|" + name +
                            "|node7|None\nEND\n");
  play("sacct", "echo '12_3|NODE_FAIL'");
  const std::string status = must({"status", "runs/pair"}, {{"PATH", path}}).out;
  EXPECT_THAT(
      status,
      AllOf(HasSubstr("running as job 12_0 on node7"), HasSubstr("queued as job 12_1 (Priority)"),
            HasSubstr("job 12_2 ended: out of memory"), HasSubstr("job 12_3 ended: node fail")));
  EXPECT_THAT(must(suite({"--launcher", "slurm"}), {{"PATH", path}}).out,
              mentions("2 runs are in Slurm's queue", "submitted 2 runs", "job 12"));
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

TEST_F(PlayedSlurm, ShowsTheOtherSuitesWhereOneRecordOfJobsIsDamaged) {
  const std::string path = play("sbatch", "echo 101");
  play_queue();
  folder_.write("other.yaml",
                "schema: 1\nattentions: [standard]\nexperiments: [tiny.yaml]\nseeds: [0]\n");
  must(suite({"--launcher", "slurm"}), {{"PATH", path}});
  must({"suite", "other.yaml", "--launcher", "slurm"}, {{"PATH", path}});
  folder_.write("runs/other/slurm/jobs.json", "{\"jobs\": [{}]}");
  EXPECT_THAT(must({"status", "runs"}, {{"PATH", path}}).out,
              mentions("submitted cannot be read: ", "runs/other/slurm/jobs.json: damaged",
                       "job 101_0", "4 queued, 1 pending"));
  const json parsed = json::parse(must({"status", "runs", "--json"}, {{"PATH", path}}).out);
  EXPECT_EQ(parsed.at("counts"), json({{"pending", 1}, {"queued", 4}}));
  EXPECT_THAT(parsed.at("notes").dump(), HasSubstr("jobs.json: damaged"));
  EXPECT_THAT(must({"status", "runs/other"}, {{"PATH", path}}).out, HasSubstr("damaged"));
}

TEST_F(PlayedSlurm, AsksSlurmOnceForEachSuite) {
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

TEST_F(PlayedSlurm, HasNoLineForATaskOfAnyNumber) {
  const std::string cells = folder_.write("cells.txt", "runs/pair/a\ta\n");
  for (const char* number : {"1", "18446744073709551615", "99999999999999999999"}) {
    EXPECT_THAT(refusal({"slurm-task", cells},
                        {{"SLURM_ARRAY_JOB_ID", "12"}, {"SLURM_ARRAY_TASK_ID", number}}),
                mentions("no line", std::string("task ") + number));
  }
}

TEST_F(PlayedSlurm, PutsATaskBackUnlessItComesToNoStepSeveralTimesInARow) {
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
  EXPECT_THAT(last.err, mentions("stopped 3 times", "without a step"));
  EXPECT_EQ(file_text(at("requeued")), requeued);
}

}  // namespace
}  // namespace attnlab::testing::played_slurm_test
