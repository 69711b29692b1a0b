// What is left to evaluate of finished runs.
#include "framework/runs/missing_evaluations.h"

#include <filesystem>
#include <map>

#include "framework/experiment/identity.h"
#include "tests/support/made_parts.h"
#include "tests/support/made_runs.h"

namespace attnlab::missing_evaluations_test {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class MissingEvaluations : public WithMadeParts {
 protected:
  static Experiment asked(const std::string& evaluate) {
    return parts().resolve(kImages + "name: small\nevaluate: " + evaluate + "\n");
  }

  /// A finished run with its model.
  RunFolder finish(const Experiment& experiment) const {
    const RunFolder folder = RunFolder::of(temp_ / "runs", experiment, 0);
    folder.freeze(experiment, 0);
    write_file(model_of(folder), "weights");
    folder.write_status({RunState::done, 1, 1, 1, 2, {{"accuracy", 0.5}}, ""});
    return folder;
  }
  static std::string model_of(const RunFolder& folder) {
    return folder.file("checkpoint.safetensors");
  }

  /// Writes what `attnlab eval` does. @param failed  the entry that fails, and its group's mean
  static void evaluate(const RunFolder& folder, const Experiment& experiment,
                       const std::string& failed = "", bool means = true) {
    std::map<std::string, std::vector<EvaluationRecord>> groups;
    const auto file = [&](const EvaluationRecord& record) {
      write_evaluation(folder.path(), record);
    };
    for (const EvaluationEntry& entry : evaluations_of(experiment, parts().catalogue())) {
      EvaluationRecord one;
      one.entry = entry.name;
      one.hash = evaluation_hash(entry, file_hash(model_of(folder)), "data");
      one.split = entry.options.split;
      one.set = canonical_text(entry.set);
      one.done = entry.name != failed;
      file(one);
      if (!entry.group.empty()) groups[entry.group].push_back(one);
    }
    for (const auto& [group, points] : groups) {
      EvaluationRecord mean;
      mean.entry = group;
      mean.split = "test";
      mean.hash = mean_hash(points);
      mean.set = mean_set(points);
      mean.done = failed.empty();
      if (means) file(mean);
    }
  }

  static std::vector<std::string> left(const RunFolder& folder, const Experiment& experiment,
                                       bool failed_again = false) {
    return entries_left(experiment, folder, parts().catalogue(), failed_again);
  }

  const TempFolder temp_;
};

TEST_F(MissingEvaluations, AreThoseOfOtherSettingsWhereTheModelWasDeletedToo) {
  const Experiment before = asked("{fog: {set: {dataset: {root: foggy}}}}");
  const RunFolder folder = finish(before);
  evaluate(folder, before);
  EXPECT_THAT(left(folder, before), IsEmpty());
  fs::remove(model_of(folder));
  EXPECT_THAT(left(folder, before), IsEmpty()) << "the result is what there is";
  EXPECT_THAT(left(folder, asked("{fog: {set: {dataset: {root: foggier}}}}")), ElementsAre("fog"));
  EXPECT_THAT(left(folder, asked("{fog: {split: validation, set: {dataset: {root: foggy}}}}")),
              ElementsAre("fog"));
}

TEST_F(MissingEvaluations, AreThoseOfOtherWeightsWhereAResultSaysThem) {
  const std::string fog = "{fog: {set: {dataset: {root: foggy}}";
  const std::string kept = "}}\ntrain: {average: {decay: 0.5}}";
  const Experiment last = asked(fog + kept), mean = asked(fog + ", weights: average" + kept);
  EvaluationRecord record;
  record.split = "test";
  record.set = R"({"dataset":{"root":"foggy"}})";
  const auto change = [&](const Experiment& experiment) {
    return settings_change(record, evaluations_of(experiment, parts().catalogue()).at(0));
  };
  EXPECT_EQ(change(last) + change(mean), "") << "an earlier attnlab did not say of which it is";
  record.weights = "average";
  EXPECT_EQ(change(mean), "");
  EXPECT_EQ(change(last), "its settings changed");
}

TEST_F(MissingEvaluations, NameAMeanThatIsNotOfThePointsThatThereAre) {
  const Experiment whole = asked("{swap: {over: {dataset.root: [a, b]}}}"),
                   fewer = asked("{swap: {over: {dataset.root: [a]}}}"),
                   more = asked("{swap: {over: {dataset.root: [a, b, c]}}}");
  const RunFolder folder = finish(whole);
  evaluate(folder, whole);
  EXPECT_THAT(left(folder, whole), IsEmpty());
  EXPECT_THAT(left(folder, fewer), ElementsAre("swap"));
  EXPECT_THAT(left(folder, more), ElementsAre("swap/c")) << "whose evaluation makes the mean";
  evaluate(folder, fewer);
  EXPECT_THAT(left(folder, fewer), IsEmpty());
  EXPECT_THAT(left(folder, whole), ElementsAre("swap"));
}

TEST_F(MissingEvaluations, NameAMeanThatTheEndOfAProcessLeftOut) {
  const Experiment whole = asked("{swap: {over: {dataset.root: [a, b]}}}");
  const RunFolder folder = finish(whole);
  evaluate(folder, whole, "", /*means=*/false);
  EXPECT_THAT(left(folder, whole), ElementsAre("swap"));
  evaluate(folder, whole, "swap/b");
  EXPECT_THAT(left(folder, whole), IsEmpty()) << "what failed is left alone";
  EXPECT_THAT(left(folder, whole, /*failed_again=*/true), ElementsAre("swap/b"));
  evaluate(folder, whole, "", /*means=*/false);
  EXPECT_THAT(left(folder, whole), ElementsAre("swap")) << "the mean says that one failed";
}

TEST_F(MissingEvaluations, AMeanSaysOfWhichPointsItIs) {
  EvaluationRecord one, other;
  one.entry = "swap/a";
  other.entry = "swap/b";
  EXPECT_EQ(mean_set({one, other}), R"({"over":["swap/a","swap/b"]})");
}

}  // namespace
}  // namespace attnlab::missing_evaluations_test
