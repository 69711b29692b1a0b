// Groups and layer decay.
#include "framework/train/parameter_groups.h"

#include "tests/support/data_files.h"

namespace attnlab::parameter_groups_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::vector<OptimizedParameter> parameters(const std::vector<std::string>& names) {
  std::vector<OptimizedParameter> all;
  for (const std::string& name : names) all.push_back({name, at::zeros({2, 2})});
  return all;
}

const std::vector<std::string> kNames = {"backbone.conv.weight", "backbone.norm.weight",
                                         "head.weight", "task.centre"};

OptimizerOptions with_groups(const OptionMap<ParameterGroupOptions>& groups) {
  OptimizerOptions options;
  options.groups = groups;
  return options;
}

std::string refusal(const OptimizerOptions& options) {
  auto all = parameters(kNames);
  return message_of<ConfigError>([&] { apply_groups(all, options); });
}

TEST(Patterns, StandForAnyTextOrOneCharacter) {
  for (const char* pattern : {"*", "a.b.c", "a.*", "*.c", "a*c", "*b*", "?.b.c", "a.?.*", "**c"}) {
    EXPECT_TRUE(matches_pattern("a.b.c", pattern)) << pattern;
  }
  for (const char* pattern : {"", "a", "a.b", "b*", "*b", "?", "a.b.c?", "a.b.c.*", "A.*"}) {
    EXPECT_FALSE(matches_pattern("a.b.c", pattern)) << pattern;
  }
  EXPECT_TRUE(matches_pattern("aaab", "*a*ab"));
  EXPECT_FALSE(matches_pattern("aaab", "*aab*ab"));
}

TEST(ParameterGroups, SetRateDecayAndEpochsOfWhatTheyMatch) {
  auto all = parameters(kNames);
  apply_groups(
      all,
      with_groups(
          {{"backbone", {.match = {"backbone.*"}, .lr_scale = 0.1, .epochs = {0, 2}}},
           {"last", {.match = {"head.*", "task.*"}, .weight_decay = 0.5, .epochs = {1, -1}}}}));
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(all[i].lr_scale, 0.1);
    EXPECT_FALSE(all[i].weight_decay.has_value());
    EXPECT_EQ(all[i].first_epoch, 0);
    EXPECT_EQ(all[i].end_epoch, 2);
  }
  for (const std::size_t i : {2, 3}) {
    EXPECT_EQ(all[i].lr_scale, 1);
    EXPECT_EQ(all[i].weight_decay, 0.5);
    EXPECT_EQ(all[i].first_epoch, 1);
    EXPECT_EQ(all[i].end_epoch, -1);
  }
}

/// Which parameters decay, of a matrix, a bias and a norm.
std::vector<bool> decayed(const OptimizerOptions& options) {
  std::vector<OptimizedParameter> all = {{"head.weight", at::zeros({2, 2})},
                                         {"head.bias", at::zeros({2}), /*decays=*/false},
                                         {"norm.weight", at::zeros({2}), /*decays=*/false}};
  apply_groups(all, options);
  std::vector<bool> result;
  for (const OptimizedParameter& one : all) result.push_back(one.decays);
  return result;
}

TEST(ParameterGroups, DecayWhatTheModelSaysOrAll) {
  OptimizerOptions options;
  EXPECT_EQ(decayed(options), (std::vector<bool>{true, false, false}));
  options.decay = "all";
  EXPECT_EQ(decayed(options), (std::vector<bool>{true, true, true}));
  options.groups = {{"norms", {.match = {"norm.*"}, .decay = "matrices"}},
                    {"biases", {.match = {"*.bias"}, .lr_scale = 2}}};
  EXPECT_EQ(decayed(options), (std::vector<bool>{true, true, false})) << "a group's own word wins";
  options.decay = "matrices";
  options.groups = {{"norms", {.match = {"norm.*"}, .decay = "all"}},
                    {"biases", {.match = {"*.bias"}, .weight_decay = 0.5}}};
  EXPECT_EQ(decayed(options), (std::vector<bool>{true, false, true}))
      << "how much decays says nothing of what";
}

TEST(ParameterGroups, TakeAParameterInTheirOrder) {
  auto all = parameters(kNames);
  apply_groups(all, with_groups({{"norms", {.match = {"*norm*"}, .lr_scale = 3}},
                                 {"rest", {.match = {"*"}, .lr_scale = 2}}}));
  EXPECT_EQ(all[0].lr_scale, 2);
  EXPECT_EQ(all[1].lr_scale, 3);
}

TEST(ParameterGroups, RefusePatternsThatFitNothingAllAtOnceWithNearNames) {
  const std::string message = refusal(with_groups({{"a", {.match = {"backbon.*", "head.*"}}},
                                                   {"b", {.match = {"head.wieght"}}},
                                                   {"c", {.match = {"decoder.mask.*"}}}}));
  EXPECT_THAT(message,
              mentions("train.optimizer.groups.a.match:", "'backbon.*'", "'backbone.*'",
                       "groups.b.match:", "'head.wieght'", "'head.weight'",
                       "groups.c.match:", "'decoder.mask.*'", "backbone.*, head.*, task.*"));
  EXPECT_THAT(message, Not(HasSubstr("'head.*'")));
}

TEST(ParameterGroups, RefuseAGroupThatOthersLeaveNothing) {
  EXPECT_THAT(refusal(with_groups({{"all", {.match = {"*"}}}, {"head", {.match = {"head.*"}}}})),
              mentions("train.optimizer.groups.head.match:", "groups before it"));
}

TEST(LayerDecay, ShrinksTheRateWithTheDistanceFromTheDeepestLayer) {
  auto all = parameters({"embed", "block.0", "block.1", "head", "scale"});
  for (std::size_t i = 0; i < 4; ++i) all[i].depth = std::int64_t(i);
  OptimizerOptions options = with_groups({{"first", {.match = {"block.0"}, .lr_scale = 10}}});
  options.layer_decay = 0.5;
  apply_groups(all, options);
  EXPECT_DOUBLE_EQ(all[0].lr_scale, 0.125);
  EXPECT_DOUBLE_EQ(all[1].lr_scale, 10 * 0.25);
  EXPECT_DOUBLE_EQ(all[2].lr_scale, 0.5);
  EXPECT_DOUBLE_EQ(all[3].lr_scale, 1);
  EXPECT_DOUBLE_EQ(all[4].lr_scale, 1) << "in no layer";
}

TEST(LayerDecay, NeedsAModelThatSaysHowDeepItsLayersAre) {
  OptimizerOptions options;
  options.layer_decay = 0.75;
  EXPECT_THAT(refusal(options), HasSubstr("how deep its layers"));
}

}  // namespace
}  // namespace attnlab::parameter_groups_test
