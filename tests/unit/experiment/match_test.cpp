// `match:` of a suite, with quantities that are made up, so that every answer
// is known.
#include "framework/experiment/match.h"

#include <cmath>

#include "framework/config/origins.h"
#include "framework/runs/run_records.h"
#include "framework/suites/suite.h"
#include "tests/support/made_parts.h"

namespace attnlab::match_test {
namespace {

using namespace testing;

class MatchTest : public WithMadeParts {
 protected:
  MatchTest() {
    temp_.write("small.yaml",
                "schema: 1\nmodel: {use: vit, dim: 64, note: '${model.dim}'}\nattention: standard\n"
                "task: sorting\ndataset: pictures\nseeds: [0, 1]\n");
  }

  /// The parameters of the made-up model: quest has a quarter more than dim^2.
  static std::int64_t made_up(const Experiment& experiment) {
    const std::int64_t dim = *experiment.model.options.at("dim").as_int();
    return experiment.attention.name == "quest" ? dim * dim * 5 / 4 : dim * dim;
  }

  Suite load(const std::string& match, const Matcher& matcher = {}) const {
    return load_suite(temp_.write("s.yaml",
                                  "schema: 1\nattentions: [standard, quest]\n"
                                  "experiments: [small.yaml]\nmatch: " +
                                      match + "\n"),
                      {}, parts().catalogue(), temp_ / "runs", false, matcher);
  }

  /// What is found for quest.
  MatchedValue find(const std::string& match, const QuantityOf& quantity = made_up) const {
    const Suite suite = load(match);
    MatchedValue found;
    load(match, [&](const std::string&, const std::string& attention, const CellWith& cell) {
      if (attention == "quest") {
        found = match_value(*suite.match, suite.match_place, suite.baseline, attention, cell,
                            quantity, parts().catalogue());
      }
      return Node();
    });
    return found;
  }

  std::string refusal(const std::string& match, const QuantityOf& quantity = made_up) const {
    return message_of<ConfigError>([&] { find(match, quantity); });
  }

  const TempFolder temp_;
};

TEST_F(MatchTest, FindsTheNearestValueOfTheOption) {
  // 64^2 = 4096; 57^2 * 5 / 4 = 4061, 58^2 * 5 / 4 = 4205.
  const MatchedValue found = find("{hold: parameters, by: model.dim}");
  EXPECT_TRUE(found.adjusted);
  EXPECT_EQ(found.value, "57");
  EXPECT_EQ(found.quantity, 4061);
  EXPECT_EQ(found.target, 4096);
}

TEST_F(MatchTest, FindsWhatTryingEveryValueFinds) {
  for (std::int64_t target = 10; target < 40000; target = target * 3 / 2 + 1) {
    const auto quantity = [&](const Experiment& experiment) {
      return experiment.attention.name == "standard" ? target : made_up(experiment);
    };
    std::int64_t best = 64;
    for (std::int64_t dim = 1; dim < 400; ++dim) {
      if (std::abs(dim * dim * 5 / 4 - target) < std::abs(best * best * 5 / 4 - target)) best = dim;
    }
    EXPECT_EQ(find("{hold: flops, by: model.dim, within: 1}", quantity).value, std::to_string(best))
        << target;
  }
}

TEST_F(MatchTest, BuildsFewModels) {
  int built = 0;
  find("{hold: parameters, by: model.dim}", [&](const Experiment& experiment) {
    ++built;
    return made_up(experiment);
  });
  EXPECT_LE(built, 10);
}

TEST_F(MatchTest, TriesMultiplesOfTheStepAlone) {
  std::vector<std::int64_t> tried;
  const MatchedValue found =
      find("{hold: parameters, by: model.dim, step: 4, within: 0.1}", [&](const Experiment& one) {
        tried.push_back(*one.model.options.at("dim").as_int());
        return made_up(one);
      });
  EXPECT_EQ(found.value, "56");
  for (const std::int64_t dim : tried) EXPECT_EQ(dim % 4, 0) << dim;
}

TEST_F(MatchTest, LeavesAloneWhatIsEqualAlready) {
  const MatchedValue found =
      find("{hold: parameters, by: model.dim}", [](const Experiment&) { return 7; });
  EXPECT_FALSE(found.adjusted);
  EXPECT_EQ(found.value, "64");
}

TEST_F(MatchTest, NamesTheNearestTwoWhereNoneIsNearEnough) {
  const std::string message = refusal("{hold: parameters, by: model.dim, within: 0.005}");
  EXPECT_THAT(message, AllOf(StartsWith(temp_ / "s.yaml:4:8: match: "), HasSubstr("'quest'")));
  EXPECT_THAT(message, mentions("4096 parameters", "'standard'", "within 0.5 %"));
  EXPECT_THAT(message, HasSubstr("model.dim=57 gives 4061 (-0.854 %)"));
  EXPECT_THAT(message, HasSubstr("model.dim=58 gives 4205 (+2.66 %)"));
}

TEST_F(MatchTest, SaysWhereTheOptionEnds) {
  // Nothing below 1 is allowed, and that is still too much.
  const std::string message = refusal("{hold: flops, by: model.dim}", [](const Experiment& one) {
    return one.attention.name == "quest" ? 100 : 10;
  });
  EXPECT_THAT(message, HasSubstr("model.dim=1 gives 100 (+900 %)"));
}

TEST_F(MatchTest, RefusesWhatIsNoNumberOfTheModel) {
  EXPECT_THAT(refusal("{hold: parameters, by: model.dmi}"), HasSubstr("did you mean 'model.dim'"));
  EXPECT_THAT(refusal("{hold: parameters, by: model.note}"), HasSubstr("there is model.dim"));
  EXPECT_THAT(refusal("{hold: parameters, by: train.epochs}"),
              mentions("'train.epochs'", "option of the model"));
  EXPECT_THAT(refusal("{hold: parameters, by: model.dim, step: 0.5}"),
              mentions("match.step:", "0.5", "whole number"));
}

TEST_F(MatchTest, RefusesAStepThatLeavesNothingToTry) {
  EXPECT_THAT(refusal("{by: model.dim, step: 5000}"),
              mentions("match.step:", "5000", "model.dim", "is 64"));
  EXPECT_THAT(refusal("{by: model.dim}\nset: {model: {dim: 900719925474099300}}"),
              mentions("match.step:", "1 is too fine", "model.dim"));
}

TEST_F(MatchTest, ChecksItsSectionAsOptionsAreChecked) {
  EXPECT_THAT(refusal("{hold: parameter, by: model.dim}"), HasSubstr("s.yaml:4:15"));
  EXPECT_THAT(refusal("{hold: parameters}"), mentions("s.yaml:4:8:", "match.by:", "needs a value"));
}

TEST_F(MatchTest, TellsWhatToDoWhereAModelRefusesAValue) {
  const std::string message =
      refusal("{hold: parameters, by: model.dim}", [](const Experiment& one) -> std::int64_t {
        const std::int64_t dim = *one.model.options.at("dim").as_int();
        if (dim % 4 != 0) throw ConfigError("heads do not divide dim");
        return made_up(one);
      });
  EXPECT_THAT(message, HasSubstr("cannot be tried; set match.step"));
  EXPECT_THAT(message, HasSubstr("heads do not divide dim"));
}

TEST_F(MatchTest, LaysItsValuesOverTheCellsWithTheirOrigin) {
  const std::string match = "{hold: parameters, by: model.dim}";
  const MatchedValues values = {{{"small", "quest"}, {"57", 4061, 4096, true}}};
  const Suite suite = load(match, matcher_of(*load(match).match, "standard", values));
  ASSERT_EQ(suite.cells.size(), 4U);
  const auto& standard = suite.cells[0].experiment;
  const auto& quest = suite.cells[2].experiment;
  EXPECT_EQ(standard.model.options.at("dim").as_int(), 64);
  EXPECT_EQ(quest.model.options.at("dim").as_int(), 57);
  EXPECT_EQ(quest.model.options.at("note").text(), "57") << "references see the matched value";
  EXPECT_THAT(origins_text(quest.resolved),
              mentions("match of parameters", "standard: model.dim = 57\n"));
  EXPECT_NE(suite.cells[0].folder.path(), suite.cells[2].folder.path());
}

TEST_F(MatchTest, PassesItsValuesBetweenProcesses) {
  const MatchedValues values = {{{"small", "quest"}, {"57", 4061, 4096, true}}};
  const MatchedValues read = read_matches(matches_json(values));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read.begin()->first, std::make_pair(std::string("small"), std::string("quest")));
  EXPECT_EQ(read.begin()->second.value, "57");
  EXPECT_EQ(read.begin()->second.target, 4096);
  message_of<DataError>([] { read_matches("{\"small\": 1"); });
}

// ---- comparing

TEST_F(MatchTest, IsPartOfTheAttentionForAComparison) {
  const std::string match = "{hold: parameters, by: model.dim}";
  const MatchedValues values = {{{"small", "quest"}, {"57", 4061, 4096, true}}};
  const Suite suite = load(match, matcher_of(*load(match).match, "standard", values));
  std::vector<RunRecord> runs;
  for (const Cell& cell : suite.cells) {
    cell.folder.freeze(cell.experiment, cell.seed);
    runs.push_back(read_run(cell.folder.path()));
  }
  // `note` follows model.dim here, and nothing says that it was meant to.
  const std::vector<ConfigDifference> found = differences_of(runs);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].key, "model.note");
  const std::vector<ConfigDifference> matched = matched_values(runs);
  ASSERT_EQ(matched.size(), 1U);
  EXPECT_THAT(matched[0].text(), says({"small:", "model.dim", "57 in quest (seeds 0, 1)",
                                       "64 in standard (seeds 0, 1)"}));
}

TEST_F(MatchTest, OfOneAttentionsSeedsMustAgree) {
  const std::string match = "{hold: parameters, by: model.dim}";
  std::vector<RunRecord> runs;
  for (const std::string value : {"57", "58"}) {
    const MatchedValues values = {{{"small", "quest"}, {value, 1, 1, true}}};
    const Suite suite = load(match, matcher_of(*load(match).match, "standard", values));
    const Cell& cell = suite.cells[value == "57" ? 2 : 3];  // seeds 0 and 1 of quest
    cell.folder.freeze(cell.experiment, cell.seed);
    runs.push_back(read_run(cell.folder.path()));
  }
  std::vector<std::string> keys;
  for (const ConfigDifference& one : differences_of(runs)) keys.push_back(one.key);
  EXPECT_THAT(keys, ElementsAre("model.note", "model.dim"));
}

}  // namespace
}  // namespace attnlab::match_test
