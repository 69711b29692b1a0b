// Rules between options of `train`.
#include "framework/experiment/train_options.h"

#include <fmt/format.h>

#include "framework/experiment/keys.h"
#include "framework/manifest/option_lookup.h"
#include "tests/support/made_parts.h"

namespace attnlab::train_options_test {
namespace {

using namespace testing;

struct Checked {
  TrainOptions train;
  Node resolved;
  std::vector<std::string> problems;
};

Checked checked(const std::string& yaml) {
  Checked out;
  out.resolved = resolve_options(parse_yaml(yaml, "f.yaml"), schema_of<TrainOptions>(), "train",
                                 "train", out.problems);
  if (!out.problems.empty()) return out;
  out.train = read_options<TrainOptions>(out.resolved);
  check_train(out.train, out.resolved, out.problems);
  return out;
}

std::vector<std::string> problems(const std::string& yaml) { return checked(yaml).problems; }

TEST(TrainOptions, AreSoundByDefault) { EXPECT_THAT(problems("{}"), IsEmpty()); }

TEST(TrainOptions, RefuseSizesThatOverflow) {
  EXPECT_THAT(problems("{epochs: 9223372036854775807, batch_size: 4611686018427387904}"),
              ElementsAre("f.yaml:1:10: train.epochs: 9223372036854775807 is more than 1000000000",
                          "f.yaml:1:43: train.batch_size: 4611686018427387904 is more than "
                          "1000000000"));
  EXPECT_THAT(problems("{steps: 2000000000}"), ::testing::SizeIs(1));
  EXPECT_THAT(problems("{batching: {repeat: 2000000000}}"), ::testing::SizeIs(1));
  EXPECT_THAT(problems("{batching: {budget: 9223372036854775807}}"), ::testing::SizeIs(1));
  EXPECT_THAT(problems("{evaluate_every: 9223372036854775807}"),
              ElementsAre(HasSubstr("train.evaluate_every: 9223372036854775807 is more than ")));
  EXPECT_THAT(problems("{schedule: {warmup_epochs: 1.0e+300}}"),
              ElementsAre(HasSubstr("train.schedule.warmup_epochs: ")));
  EXPECT_THAT(problems("{schedule: {shape: step, milestones: [1, 1.0e+300]}}"),
              ElementsAre(HasSubstr("train.schedule.milestones: ")));
}

TEST(TrainOptions, RefuseRatesThatAreNotFinite) {
  EXPECT_THAT(problems("optimizer: {lr: .inf}"),
              ElementsAre(mentions("f.yaml:1:17:", "train.optimizer.lr:", ".inf is not finite",
                                   "float >= 0")));
  EXPECT_THAT(problems("optimizer: {lr: .nan}"), ::testing::SizeIs(1));
}

TEST(TrainOptions, HoldGroupsByNamesOfTheUsersChoice) {
  const Checked result = checked(
      "optimizer: {groups: {backbone: {match: [\"backbone.*\"], lr_scale: 0.1, epochs: [0, 2]}, "
      "last: {match: [\"task.*last*\"], weight_decay: 0, epochs: [1, -1]}}}");
  EXPECT_THAT(result.problems, IsEmpty());
  const auto& groups = result.train.optimizer.groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].first, "backbone");
  EXPECT_EQ(groups[0].second.lr_scale, 0.1);
  EXPECT_THAT(groups[0].second.epochs, ElementsAre(0, 2));
  EXPECT_EQ(groups[0].second.weight_decay, -1);
  EXPECT_EQ(groups[1].second.weight_decay, 0);
  EXPECT_THAT(groups[1].second.match, ElementsAre("task.*last*"));
}

TEST(TrainOptions, RefuseWhatTheChosenOptimiserDoesNotRead) {
  EXPECT_THAT(
      problems("optimizer: {use: adamw, momentum: 0.9, nesterov: true}"),
      ElementsAre(
          mentions("f.yaml:1:35:", "train.optimizer.momentum:", "'adamw' does not read", "sgd"),
          mentions("f.yaml:1:50:", "train.optimizer.nesterov:", "'adamw' does not read", "sgd")));
  EXPECT_THAT(problems("optimizer: {use: sgd, beta1: 0.8}"),
              ElementsAre(mentions("'sgd' does not read", "only adamw, radam, adam, lamb")));
  EXPECT_THAT(problems("optimizer: {use: adam, max_grad_norm: 2}"), ElementsAre(HasSubstr("lamb")));
  EXPECT_THAT(problems("optimizer: {use: sgd, beta1: 0.90, max_grad_norm: 1.0, momentum: 0.9}"),
              IsEmpty())
      << "the default, however it is written, claims nothing";
}

TEST(TrainOptions, RefuseWhatTheChosenScheduleDoesNotRead) {
  EXPECT_THAT(
      problems("schedule: {shape: cosine, milestones: [3], power: 2}"),
      ElementsAre(mentions("train.schedule.milestones:", "'cosine' does not read", "only step"),
                  mentions("train.schedule.power:", "'cosine' does not read", "only polynomial")));
  EXPECT_THAT(problems("schedule: {shape: constant, min_lr: 0.1, warmup_lr: 0.2}"), IsEmpty());
}

TEST(TrainOptions, RefuseContradictionsAllAtOnceEachWithItsPlace) {
  EXPECT_THAT(
      problems("batch_size: 10\naccumulate: 3\n"
               "optimizer:\n  use: sgd\n  nesterov: true\n  weight_decay_end: -0.5\n"
               "  groups:\n    a: {match: []}\n    b: {match: [x], epochs: [2, 2]}\n"
               "    c: {match: [x], epochs: [1]}\n    d: {match: [x], weight_decay: -0.1}\n"
               "    e: {match: [x], epochs: [-1, 4]}\n"
               "schedule: {shape: onecycle, warmup_epochs: 2, pct_start: 0.1}\n"
               "average: {end: 1}\n"),
      ElementsAre(
          mentions("f.yaml:2:13:", "train.accumulate:", "3 does not divide", "train.batch_size 10"),
          mentions("f.yaml:6:21:", "train.optimizer.weight_decay_end:", "-0.5"),
          mentions("f.yaml:5:13:", "train.optimizer.nesterov:", "train.optimizer.momentum"),
          mentions("f.yaml:8:16:", "train.optimizer.groups.a.match:", "[\"backbone.*\"]"),
          mentions("f.yaml:9:29:", "train.optimizer.groups.b.epochs:", "no epoch", "2"),
          "f.yaml:10:29: train.optimizer.groups.c.epochs: expected two numbers, [first, end)",
          mentions("f.yaml:11:35:", "train.optimizer.groups.d.weight_decay:", "-0.1"),
          mentions("f.yaml:12:29:", "train.optimizer.groups.e.epochs:", "first epoch is 0"),
          mentions("f.yaml:13:44:", "train.schedule.warmup_epochs:", "train.schedule.pct_start",
                   "'onecycle'"),
          mentions("f.yaml:14:16:", "train.average.end:", "train.average.decay")));
}

TEST(TrainOptions, RefusePartsThatProcessesCannotShareOut) {
  EXPECT_THAT(problems("{parts: 8, processes: 4}"), IsEmpty());
  EXPECT_THAT(problems("{parts: 8, batch_size: 4, batching: {budget: 100}}"), IsEmpty());
  EXPECT_THAT(problems("{parts: 6}"),
              ElementsAre(mentions("f.yaml:1:9:", "train.parts:", "6 is not a power of two")));
  EXPECT_THAT(
      problems("{parts: 8, batch_size: 4}"),
      ElementsAre(mentions("f.yaml:1:9:", "train.parts:", "8 is more", "train.batch_size 4")));
  EXPECT_THAT(problems("{parts: 8, accumulate: 2}"),
              ElementsAre(mentions("train.parts:", "train.accumulate cuts")));
  for (const char* count : {"3", "6", "16"}) {
    EXPECT_THAT(problems(fmt::format("{{parts: 8, processes: {}}}", count)),
                ElementsAre(::testing::AllOf(HasSubstr("f.yaml:1:23: train.processes: "),
                                             HasSubstr("cannot share train.parts 8"),
                                             HasSubstr("take another number"))));
  }
  EXPECT_THAT(problems("{processes: 3}"), ElementsAre(HasSubstr("set train.parts: 4")));
}

TEST(TrainOptions, AskForWhatAScheduleNeeds) {
  EXPECT_THAT(problems("schedule: {shape: step}"),
              ElementsAre(HasSubstr("train.schedule.milestones: 'step' needs epochs")));
  EXPECT_THAT(problems("schedule: {shape: step, milestones: [5, 3]}"),
              ElementsAre(EndsWith("expected epochs in rising order")));
  EXPECT_THAT(problems("schedule: {shape: step, milestones: [3, 5.5]}"), IsEmpty());
  EXPECT_THAT(problems("schedule: {shape: inverse_root}"),
              ElementsAre(HasSubstr("end of the warm-up")));
  EXPECT_THAT(problems("schedule: {shape: inverse_root, warmup_steps: 4000}"), IsEmpty());
  EXPECT_THAT(problems("schedule: {shape: onecycle, warmup_epochs: 2}"), IsEmpty());
  EXPECT_THAT(problems("schedule: {warmup_steps: 10, warmup_epochs: 2}"),
              ElementsAre(HasSubstr("train.schedule.warmup_epochs is given too")));
}

class GroupsInExperiments : public ::testing::Test {
 protected:
  static std::string with(const std::string& groups) {
    return kImages + "train: {optimizer: {groups: {" + groups + "}}}\n";
  }
  MadeParts parts_;
};

TEST_F(GroupsInExperiments, LoadAgainFromTheResolvedConfiguration) {
  const Experiment first =
      parts_.resolve(with("b: {match: [\"*\"]}, a: {match: [x], lr_scale: 2}"));
  const Experiment again = parts_.resolve(to_yaml(first.resolved));
  EXPECT_EQ(to_flow(again.resolved), to_flow(first.resolved));
  EXPECT_EQ(again.hash(), first.hash());
  EXPECT_EQ(again.train.optimizer.groups[1].second.lr_scale, 2);
}

TEST_F(GroupsInExperiments, CountWithTheirOrderBecauseTheFirstTakesAParameter) {
  EXPECT_NE(parts_.resolve(with("a: {match: [\"*\"]}, b: {match: [x]}")).hash(),
            parts_.resolve(with("b: {match: [x]}, a: {match: [\"*\"]}")).hash());
}

TEST_F(GroupsInExperiments, HaveKeysLikeOtherOptions) {
  const Node composed = parse_yaml(with("a: {match: [x]}"), "f.yaml");
  const Schema keys = experiment_keys(composed, parts_.catalogue());
  EXPECT_THAT(option_keys(keys), ::testing::Contains("train.optimizer.groups.a.lr_scale"));
  const OptionSpec* other = find_option(keys, "train.optimizer.groups.other.lr_scale");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->type_text(), "float >= 0");
}

}  // namespace
}  // namespace attnlab::train_options_test
