// attnlab sweep: a grid of runs with one table, that resumes and compares as a suite does.

#include "tests/integration/workspace.h"

namespace attnlab::testing::sweep_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SweepCommand : public Workspace {
 protected:
  const Words words_ = {"sweep",   "tiny.yaml", "lr=1e-3,1e-2", "attention=standard,quest",
                        "--seeds", "0-1",       "epochs=1",     "--progress",
                        "plain"};
  json table() const { return json::parse(file_text(at("runs/tiny-sweep/table.json"))); }
};

TEST_F(SweepCommand, RunsTheGridOnceAndComparesIt) {
  const Ended ended = must(words_);
  EXPECT_EQ(table().at("rows").size(), 4U);
  EXPECT_EQ(table().at("runs").size(), 8U);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("tiny,lr=0.001 "), HasSubstr("standard (baseline)")));
  const json config =
      json::parse(must({"config", "diff", run_folder("tiny-sweep/tiny,lr=0.001/quest"),
                        run_folder("tiny-sweep/tiny,lr=0.01/quest"), "--json"})
                      .out);
  EXPECT_THAT(config.dump(), HasSubstr("train.optimizer.lr"));
  EXPECT_THAT(must(words_).out, AllOf(HasSubstr("done before"), Not(HasSubstr("starts"))));
  EXPECT_THAT(must({"compare", "runs/tiny-sweep"}).out,
              AllOf(HasSubstr("tiny,lr=0.001"), HasSubstr("tiny,lr=0.01")));
  EXPECT_THAT(must({"status", "runs/tiny-sweep"}).out, HasSubstr("runs/tiny-sweep: 8 done\n"));
}

TEST_F(SweepCommand, DryRunWritesNothing) {
  Words words = words_;
  words.emplace_back("--dry-run");
  EXPECT_THAT(must(words).out, HasSubstr("8 runs: 8 to run"));
  EXPECT_FALSE(exists("runs"));
}

TEST_F(SweepCommand, RefusesBeforeAnythingIsWritten) {
  const auto refusal = [&](Words words) {
    words.insert(words.begin(), {"sweep", "tiny.yaml"});
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  };
  EXPECT_THAT(refusal({"zip(lr=[1,2],epochs=[3])"}), HasSubstr("has 2 values and 'epochs' has 1"));
  EXPECT_THAT(refusal({"epohcs=1,2"}), HasSubstr("did you mean 'epochs'?"));
  EXPECT_THAT(refusal({"epochs=1,0"}), mentions("train.epochs: ", "0 is out of range"));
  EXPECT_THAT(refusal({"lr=1,2", "--seeds", "3-1"}), HasSubstr("--seeds 3-1"));
  EXPECT_THAT(refusal({"lr=1,2", "--name", "a/b"}), HasSubstr("without slashes"));
  EXPECT_FALSE(exists("runs"));
}

}  // namespace
}  // namespace attnlab::testing::sweep_test
