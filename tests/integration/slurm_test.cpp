// Suites through a real Slurm of one node: submitted, followed, interrupted, requeued and resumed.

#include "tests/integration/one_node_slurm.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::slurm_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SlurmSuite : public Workspace {
 protected:
  static void SetUpTestSuite() { slurm_ = std::make_unique<OneNodeSlurm>(); }
  static void TearDownTestSuite() { slurm_ = nullptr; }
  void SetUp() override {
    if (!slurm_->problem().empty()) GTEST_SKIP() << "no Slurm: " << slurm_->problem();
    folder_.write("pair.yaml",
                  "schema: 1\nattentions: [standard, quest]\nexperiments: [tiny.yaml]\n");
  }
  void TearDown() override {
    if (!slurm_->problem().empty()) return;
    // Nothing may write into the folder that is about to go.
    slurm_->command({"scancel", "--partition=main"});
    wait_for([] { return slurm_->command({"squeue", "--noheader"}).out.empty(); });
  }

  Words submission(const Words& more = {}) const {
    Words words = {"suite", "pair.yaml", "--launcher", "slurm"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string folder_of(const std::string& attention) const {
    return run_folder("pair/tiny/" + attention);
  }
  bool wait_for_state(const std::string& folder, const std::string& state) const {
    return wait_for([&] {
      return file_text(folder + "/status.json").find("\"" + state + "\"") != std::string::npos;
    });
  }
  std::string status() const { return must({"status", "runs/pair"}, slurm_->environment()).out; }

  inline static std::unique_ptr<OneNodeSlurm> slurm_;
};

TEST_F(SlurmSuite, RunsToItsEndWithTheNumbersOfALocalOne) {
  const Ended submitted = must(submission(), slurm_->environment());
  EXPECT_THAT(submitted.out,
              AllOf(mentions("submitted 2 runs", "job ", "with: attnlab status runs/pair"),
                    Not(HasSubstr("# Suite"))))
      << "it returns before there is a table";
  for (const char* attention : {"standard", "quest"}) {
    ASSERT_TRUE(wait_for_state(folder_of(attention), "done"))
        << file_text(at("runs/pair/slurm/1/task-0.txt")) << slurm_->command({"squeue"}).out;
  }
  EXPECT_THAT(must({"suite", "pair.yaml"}).out,
              AllOf(HasSubstr("done before"), HasSubstr("# Suite pair")));
  must({"run", "tiny.yaml", "attention=quest"});
  EXPECT_EQ(checkpoint_tensors(folder_of("quest")), checkpoint_tensors(run_folder("tiny/quest")));
}

TEST_F(SlurmSuite, ResumesARunThatSlurmStoppedAndEndsWithTheSameNumbers) {
  const Words words = submission({"set.train.epochs=800", "attentions=[quest]"});
  must(words, slurm_->environment());
  const std::string folder = folder_of("quest");
  ASSERT_TRUE(wait_for([&] { return file_text(folder + "/metrics.jsonl").size() > 5000; }));
  EXPECT_THAT(status(), AnyOf(HasSubstr("running as job"), HasSubstr("running")));
  EXPECT_THAT(attnlab(words, slurm_->environment()).out,
              AllOf(AnyOf(HasSubstr("in Slurm's queue"), HasSubstr("is being run by")),
                    Not(HasSubstr("submitted 1 run"))));

  // What Slurm does when the time limit comes near.
  const std::string task =
      slurm_->command({"squeue", "--noheader", "--states=R", "--format=%i"}).out;
  ASSERT_THAT(task, HasSubstr("_0\n"));
  slurm_->command({"scancel", "--signal=TERM", "--batch", task.substr(0, task.find('\n'))});
  ASSERT_TRUE(wait_for_state(folder, "interrupted"));
  EXPECT_TRUE(slurm_->says({"squeue", "--noheader", "--format=%T"}, "PENDING")) << "not requeued";
  EXPECT_THAT(status(), HasSubstr("queued as job " + task.substr(0, task.find('\n'))));

  ASSERT_TRUE(wait_for_state(folder, "done")) << slurm_->command({"scontrol", "show", "job"}).out;
  EXPECT_THAT(file_text(at("runs/pair/slurm/1/task-0.txt")),
              AllOf(HasSubstr("interrupted: at step"), HasSubstr("resumes at step")));
  must({"run", "tiny.yaml", "attention=quest", "train.epochs=800"});
  const std::string undisturbed = run_folder("tiny/quest");
  EXPECT_EQ(checkpoint_tensors(folder), checkpoint_tensors(undisturbed));
  EXPECT_EQ(file_text(folder + "/metrics.jsonl"), file_text(undisturbed + "/metrics.jsonl"));
}

TEST_F(SlurmSuite, GivesARunAsManyTasksAsItHasParts) {
  folder_.write("pair.yaml",
                "schema: 1\nattentions: [quest]\nexperiments: [two.yaml, tiny.yaml]\n");
  folder_.write("two.yaml", "extends: tiny.yaml\ntrain: {parts: 2, epochs: 800, threads: 1}\n");
  must(submission({"--slurm", "ntasks-per-node=2"}), slurm_->environment());
  const std::string two = run_folder("pair/two/quest"), one = run_folder("pair/tiny/quest");
  ASSERT_TRUE(wait_for([&] { return file_text(two + "/metrics.jsonl").size() > 5000; }))
      << file_text(at("runs/pair/slurm/1/task-0.txt"));
  const std::string task =
      slurm_->command({"squeue", "--noheader", "--states=R", "--format=%i"}).out;
  slurm_->command({"scancel", "--signal=TERM", "--batch", task.substr(0, task.find('\n'))});
  ASSERT_TRUE(wait_for_state(two, "interrupted"));
  ASSERT_TRUE(wait_for_state(two, "done")) << slurm_->command({"scontrol", "show", "job"}).out;
  ASSERT_TRUE(wait_for_state(one, "done")) << file_text(at("runs/pair/slurm/1/task-1.txt"));
  EXPECT_THAT(file_text(two + "/environment.json"), HasSubstr("\"processes\": 2"));
  EXPECT_THAT(file_text(at("runs/pair/slurm/1/task-0.txt")),
              AllOf(HasSubstr("interrupted: at step"), HasSubstr("resumes at step")));
  EXPECT_THAT(file_text(at("runs/pair/slurm/1/task-1.txt")),
              mentions("train.parts: 1", "1 of the job's 2 tasks"));
  must({"run", "two.yaml", "attention=quest"});
  EXPECT_EQ(checkpoint_tensors(two), checkpoint_tensors(run_folder("two/quest")));
}

TEST_F(SlurmSuite, TakesACancelledRunAgain) {
  const Words words = submission({"set.train.epochs=800", "attentions=[quest]"});
  must(words, slurm_->environment());
  const std::string folder = folder_of("quest");
  ASSERT_TRUE(wait_for([&] { return file_text(folder + "/metrics.jsonl").size() > 5000; }));
  slurm_->command({"scancel", "--partition=main"});
  ASSERT_TRUE(wait_for([] {
    return slurm_->command({"squeue", "--noheader"}).out.empty();
  })) << "it has put itself back into the queue";
  EXPECT_EQ(status_of(folder).at("state"), "interrupted") << "it had time for a checkpoint";
  EXPECT_THAT(status(), HasSubstr("ended: cancelled"));
  EXPECT_THAT(must(words, slurm_->environment()).out, HasSubstr("submitted 1 run as"));
  EXPECT_TRUE(wait_for_state(folder, "done"));
}

TEST_F(SlurmSuite, RepeatsSlurmsOwnWords) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"partition=nowhere", "invalid partition specified: nowhere"},
      {"nonsense=1", "unrecognized option '--nonsense=1'"},
      {"time=soon", "time"},
  };
  for (const auto& [option, expected] : wrong) {
    EXPECT_THAT(refusal(submission({"--slurm", option}), slurm_->environment()),
                mentions("--launcher slurm: ", "sbatch refused", "--slurm " + option, expected));
  }
  EXPECT_THAT(slurm_->command({"squeue", "--noheader"}).out, "");
}

}  // namespace
}  // namespace attnlab::testing::slurm_test
