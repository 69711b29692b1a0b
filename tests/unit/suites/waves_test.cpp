// The order of a suite's runs where some begin with others' parameters.
#include "framework/suites/waves.h"

#include "tests/support/made_parts.h"

namespace attnlab {
namespace {

using namespace testing;

/// A cell of an experiment that begins with another's run; with none where `source` is empty.
Cell cell(const std::string& name, const std::string& source) {
  Cell made{{}, 0, RunFolder(""), {}, CellAction::run, "", false};
  made.experiment.name = name;
  if (!source.empty()) made.experiment.init = InitOptions{.experiment = source};
  return made;
}

std::vector<std::vector<std::string>> names(const std::vector<Cell>& cells) {
  std::vector<std::vector<std::string>> all;
  for (const auto& wave : waves_of(cells)) {
    std::vector<std::string>& of_wave = all.emplace_back();
    for (const Cell* one : wave) of_wave.push_back(one->experiment.name);
  }
  return all;
}

TEST(Waves, PutWhatARunBeginsWithBeforeIt) {
  const std::vector<Cell> cells = {cell("third", "paper/second.yaml"), cell("second", "first"),
                                   cell("other", ""), cell("first", ""), cell("second", "first")};
  EXPECT_THAT(names(cells), ElementsAre(ElementsAre("other", "first"),
                                        ElementsAre("second", "second"), ElementsAre("third")));
}

TEST(Waves, AreOneWhereTheSourceIsNoCellOfTheSuite) {
  EXPECT_THAT(names({cell("second", "elsewhere"), cell("first", "")}),
              ElementsAre(ElementsAre("second", "first")));
  EXPECT_THAT(names({}), IsEmpty());
}

TEST(Waves, RefuseExperimentsThatBeginWithEachOther) {
  EXPECT_THROW(waves_of({cell("a", "b"), cell("b", "a")}), ConfigError);
}

}  // namespace
}  // namespace attnlab
