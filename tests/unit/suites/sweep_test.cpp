#include "framework/suites/sweep.h"

#include <fmt/format.h>

#include <set>

#include "framework/config/compose.h"
#include "framework/experiment/identity.h"
#include "framework/suites/grid.h"
#include "tests/support/made_parts.h"

namespace attnlab::sweep_test {
namespace {

using namespace testing;
using Words = std::vector<std::string>;

class SweepTest : public WithMadeParts {
 protected:
  SweepTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 8}\nattention: {use: standard}\n"
                "task: sorting\ndataset: {use: pictures, root: real}\nseeds: [0, 1]\n");
  }

  Suite sweep(const Words& words, const std::vector<std::int64_t>& seeds = {5},
              const std::string& baseline = "") const {
    return make_sweep({temp_ / "small.yaml", words, seeds, "", baseline}, parts().catalogue(),
                      temp_ / "runs");
  }
  std::string refusal(const Words& words) const {
    return message_of<ConfigError>([&] { sweep(words); });
  }

  const TempFolder temp_;
};

TEST_F(SweepTest, RunsEveryCombination) {
  const Suite suite = sweep({"lr=1e-4,3e-4", "epochs=range(1,3,1)"}, {0, 4});
  EXPECT_EQ(suite.name, "small-sweep");
  EXPECT_THAT(suite.experiments,
              ElementsAre("small,lr=0.0001,epochs=1", "small,lr=0.0001,epochs=2",
                          "small,lr=0.0001,epochs=3", "small,lr=0.0003,epochs=1",
                          "small,lr=0.0003,epochs=2", "small,lr=0.0003,epochs=3"));
  ASSERT_EQ(suite.cells.size(), 12U);
  std::set<std::tuple<double, std::int64_t, std::int64_t>> points;
  std::set<std::string> folders;
  for (const Cell& cell : suite.cells) {
    const TrainOptions& train = cell.experiment.train;
    points.insert({train.optimizer.lr, train.epochs, cell.seed});
    folders.insert(cell.folder.path());
  }
  EXPECT_EQ(points.size(), 12U);
  EXPECT_EQ(folders.size(), 12U);
  EXPECT_THAT(suite.cells[0].folder.path(),
              StartsWith(temp_ / "runs/small-sweep/small,lr=0.0001,epochs=1/standard/0-"));
}

TEST_F(SweepTest, ResolvesEachOfManyPointsAsIfItWereAlone) {
  const Suite suite = sweep({"attention=quest,standard", "dim=range(8,528,8)", "lr=1e-4,3e-4"});
  ASSERT_EQ(suite.cells.size(), 264U);  // more models than are kept, on several threads
  for (const Cell& cell : suite.cells) {
    const Experiment& one = cell.experiment;
    const Words keys = {"attention=" + one.attention.name,
                        "model.dim=" + one.model.options.at("dim").text(), "seeds=[5]",
                        fmt::format("train.optimizer.lr={}", one.train.optimizer.lr)};
    const Node composed = compose_file(temp_ / "small.yaml", keys);
    const Experiment alone = resolve_experiment(composed, parts().catalogue(), one.name);
    ASSERT_EQ(canonical_text(one.resolved), canonical_text(alone.resolved)) << one.name;
    ASSERT_EQ(one.hash(), alone.hash()) << one.name;
  }
}

TEST_F(SweepTest, VariesOptionsOfGroupsThatTheFileNames) {
  temp_.write("grouped.yaml",
              "extends: small.yaml\n"
              "train: {optimizer: {groups: {head: {match: [\"head.*\"]}}}}\n");
  const auto scales = [&](const Words& words) {
    std::vector<double> found;
    const Suite suite = make_sweep({temp_ / "grouped.yaml", words, {5}, "", ""},
                                   parts().catalogue(), temp_ / "runs");
    for (const Cell& cell : suite.cells) {
      found.push_back(cell.experiment.train.optimizer.groups.at(0).second.lr_scale);
    }
    return found;
  };
  EXPECT_THAT(scales({"train.optimizer.groups.head.lr_scale=1,0.5"}), ElementsAre(1, 0.5));
  EXPECT_THAT(scales({"lr_scale=0.5,2", "train.optimizer.groups.head.weight_decay=0"}),
              ElementsAre(0.5, 2));
  EXPECT_THAT(
      message_of<ConfigError>([&] { scales({"train.optimizer.groups.haed.lr_scale=1,2"}); }),
      HasSubstr("did you mean 'train.optimizer.groups.head.lr_scale'?"));
}

TEST_F(SweepTest, VariesAttentionsAsTheTablesAttentions) {
  const Suite suite = sweep({"attention=quest,standard", "dim=8,16"});
  EXPECT_THAT(suite.attentions, ElementsAre("quest", "standard"));
  EXPECT_EQ(suite.baseline, "standard");
  EXPECT_THAT(suite.experiments, ElementsAre("small,dim=8", "small,dim=16"));
  EXPECT_EQ(suite.cells.size(), 4U);
  EXPECT_EQ(sweep({"attention=quest,standard"}, {5}, "quest").baseline, "quest");
  EXPECT_THAT(message_of<ConfigError>([&] { sweep({"dim=8,9"}, {5}, "quest"); }),
              AllOf(StartsWith("--baseline:"), HasSubstr("'quest'")));
}

TEST_F(SweepTest, KeepsAttentionsOfOneNameApart) {
  EXPECT_THAT(refusal({"attention=quest,{use: quest, eps: 0.1}"}),
              mentions("two attentions 'quest'", "'{use: quest, ..., as: LABEL}'"));
  const Suite suite =
      sweep({"attention={use: quest, as: A},{use: quest, eps: 0.1, as: B}"}, {5}, "A");
  EXPECT_THAT(suite.attentions, ElementsAre("A", "B"));
  EXPECT_EQ(suite.baseline, "A");
}

TEST_F(SweepTest, NamesAPointAlikeForAllAttentions) {
  // Two values that are written alike, so that a hash tells their names apart.
  const Suite suite = sweep({"lr=0.12345671,0.12345672", "attention=standard,quest"});
  EXPECT_EQ(suite.cells.size(), 4U);
  EXPECT_EQ(suite.experiments.size(), 2U);
}

TEST_F(SweepTest, RefusesAFixedValueOfWhatVaries) {
  EXPECT_THAT(refusal({"lr=0.001,0.01", "train.optimizer.lr=0.1"}),
              mentions("argument 'train.optimizer.lr=0.1'", "varied already"));
}

TEST_F(SweepTest, VariesOptionsOfAnAttentionThatTheFileDoesNotName) {
  const Suite suite = sweep({"attention.eps=0.1,0.2", "attention=quest"});
  ASSERT_EQ(suite.cells.size(), 2U);
  EXPECT_EQ(suite.cells[1].experiment.attention.options.at("eps").as_double(), 0.2);
  EXPECT_THAT(suite.attentions, ElementsAre("quest"));
}

TEST_F(SweepTest, ZipsChangeSeveralKeysTogether) {
  const Suite suite = sweep({"zip(dim=[8,16],lr=[0.1,0.2])"});
  ASSERT_EQ(suite.cells.size(), 2U);
  EXPECT_EQ(suite.cells[1].experiment.model.options.at("dim").as_int(), 16);
  EXPECT_EQ(suite.cells[1].experiment.train.optimizer.lr, 0.2);
  EXPECT_THAT(suite.experiments, ElementsAre("small,dim=8,lr=0.1", "small,dim=16,lr=0.2"));
}

TEST_F(SweepTest, SetsFixedValuesAtEveryPoint) {
  const Suite suite = sweep({"epochs=3", "train.batch_size=4", "rates=[0.1,0.2]"});
  ASSERT_EQ(suite.cells.size(), 1U);
  EXPECT_EQ(suite.cells[0].experiment.train.epochs, 3);
  EXPECT_EQ(suite.cells[0].experiment.model.options.at("rates").items().size(), 2U);
  EXPECT_THAT(suite.experiments, ElementsAre("small"));
}

TEST_F(SweepTest, TakesGroupsByTheirWholeNames) {
  temp_.write("small.yaml", read_text(temp_ / "small.yaml") + "init: null\ntrace: {every: 5}\n");
  const Suite fixed = sweep({"init=null", "trace=null", "lr=0.1,0.2"});
  ASSERT_EQ(fixed.cells.size(), 2U);
  EXPECT_FALSE(fixed.cells[0].experiment.init);
  EXPECT_EQ(fixed.cells[1].experiment.train.optimizer.lr, 0.2);
  const Suite varied = sweep({"train.optimizer={lr: 0.1},{lr: 0.2}", "init=null"});
  ASSERT_EQ(varied.cells.size(), 2U);
  EXPECT_EQ(varied.cells[0].experiment.train.optimizer.lr, 0.1);
  EXPECT_EQ(varied.cells[1].experiment.train.optimizer.lr, 0.2);
  EXPECT_NE(varied.experiments[0], varied.experiments[1]);
  EXPECT_THAT(refusal({"optimizer=null", "lr=1,2"}), HasSubstr("'optimizer' is not a key"))
      << "a group has no short name";
}

TEST_F(SweepTest, UsesTheExperimentsOwnSeedsUnlessOthersAreGiven) {
  EXPECT_EQ(sweep({"epochs=1,2"}, {}).cells.size(), 4U);
}

TEST_F(SweepTest, MakesNamesOfFoldersFromAnyValue) {
  const Suite suite = sweep({"note='a/b c','a-bc',\"../x\"", "rates=[1,2],[3]"});
  std::set<std::string> names(suite.experiments.begin(), suite.experiments.end());
  EXPECT_EQ(names.size(), 6U) << "each point has a name of its own";
  for (const std::string& name : names) {
    EXPECT_EQ(name.find_first_of("/ []'\"\n"), std::string::npos) << name;
  }
  // 'a/b c' and 'a-bc' have one word: it does not stand for both.
  EXPECT_EQ(suite.experiments[0], "small,note=a-bc~1118fa,rates=1+2");
  const Suite longer = sweep({"note=" + std::string(300, 'x') + "," + std::string(300, 'y')});
  for (const std::string& name : longer.experiments) EXPECT_LT(name.size(), 200U);
}

TEST_F(SweepTest, CutsNoValueOffAtAHash) {
  const Suite suite = sweep({"root=data/set,data/set #2"});
  EXPECT_THAT(suite.experiments, ElementsAre("small,root=data-set", "small,root=data-set2"));
  ASSERT_EQ(suite.cells.size(), 2U);
  EXPECT_EQ(suite.cells[1].experiment.dataset.options.at("root").text(), "data/set #2");
}

TEST_F(SweepTest, SaysWhatIsWrongWithItsWordsAndItsFileAtOnce) {
  temp_.write("small.yaml", "schema: 1\nextends: gone.yaml\n");
  EXPECT_THAT(refusal({"lr=1,,2", "dim=8]"}),
              mentions("'lr=1,,2'", "missing between commas", "'dim=8]': ']' closes nothing",
                       "gone.yaml: cannot read"));
}

TEST_F(SweepTest, FindsShortKeysAndRefusesDoubtfulOnes) {
  const Words keys = {"train.optimizer.lr", "train.schedule.min_lr", "model.dim", "dataset.root",
                      "dim"};
  EXPECT_EQ(full_key("lr", keys, "lr=1"), "train.optimizer.lr");
  EXPECT_EQ(full_key("optimizer.lr", keys, "x"), "train.optimizer.lr");
  EXPECT_EQ(full_key("dim", keys, "x"), "dim") << "a whole key is not a short one";
  EXPECT_THAT(refusal({"use=vit,lm"}),
              AllOf(StartsWith("argument 'use=vit,lm'"), HasSubstr("model.use or attention.use")));
  EXPECT_THAT(refusal({"attention=quest", "eps=1,2"}),
              mentions("'eps'", "attention.eps or train.optimizer.eps"));
  EXPECT_THAT(refusal({"epohcs=1,2"}), mentions("'epohcs'", "'epochs'"));
  EXPECT_THAT(refusal({"train.optimizer.rl=1,2"}), HasSubstr("did you mean 'train.optimizer.lr'?"));
}

TEST_F(SweepTest, RefusesWhatASweepCannotVary) {
  EXPECT_THAT(refusal({"seeds=1,2"}), HasSubstr("give --seeds 0-4"));
  EXPECT_THAT(refusal({"name=a,b"}), HasSubstr("each point gets its own"));
  EXPECT_THAT(refusal({"lr=1,2", "train.optimizer.lr=3,4"}),
              HasSubstr("'train.optimizer.lr' is varied already"));
}

TEST_F(SweepTest, ReportsEveryWrongValueOnce) {
  const std::string message = refusal({"epochs=0,1,x", "dim=8,16"});
  EXPECT_THAT(message,
              mentions("train.epochs: 0 is out of range", "expected an integer", "found x"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
}

TEST_F(SweepTest, IncompatibleAttentionsAreAbsentNotErrors) {
  const Words words = {"model=lm", "dataset=texts", "attention=standard,quest"};
  const Suite suite = sweep(words, {0, 1});
  EXPECT_EQ(suite.cells.size(), 2U);
  ASSERT_EQ(suite.absent.size(), 2U);
  EXPECT_EQ(suite.absent[1].attention, "quest");
  EXPECT_EQ(suite.absent[1].seed, 1);
  EXPECT_THAT(suite.absent[0].gap.text(),
              AllOf(StartsWith("incompatible:"), mentions("'quest'", "'causal'")));
  EXPECT_THAT(refusal({"model=lm", "dataset=texts", "attention=quest"}),
              HasSubstr("does not honour 'causal'"))
      << "where nothing can run, that is the answer";
}

}  // namespace
}  // namespace attnlab::sweep_test
