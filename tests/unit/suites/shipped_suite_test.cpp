// The suite over every domain as it is shipped: its size as the pages say it, its claims, and the
// stored runs that came with it. Loads files and trains nothing.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "framework/base/text.h"
#include "framework/suites/planned_test.h"
#include "framework/suites/stored_cells.h"
#include "tests/support/compositions.h"

namespace attnlab::shipped_suite_test {
namespace {

using namespace testing;

class ShippedSuite : public ::testing::Test {
 protected:
  Suite suite(const std::vector<std::string>& overrides = {}) const {
    return load_suite(ATTNLAB_SOURCES "/configs/suites/cross_domain.yaml", overrides, catalogue_,
                      temp_ / "runs");
  }

  const Catalogue catalogue_ = Catalogue::of_this_program();
  const TempFolder temp_;
};

std::int64_t absent_as(const Suite& suite, Absence kind) {
  return std::count_if(suite.absent.begin(), suite.absent.end(),
                       [&](const AbsentCell& cell) { return cell.gap.kind == kind; });
}

std::string count_of(const Suite& suite) { return std::to_string(suite.cells.size()); }

TEST_F(ShippedSuite, HasAsManyRunsAsThePagesSay) {
  const Suite all = suite({"attentions+=[{use: quest, as: mine}]"});
  if (absent_as(all, Absence::no_plugin) > 0) {
    GTEST_SKIP() << "some of its plugins are not built here";
  }
  EXPECT_EQ(all.attentions.size(), 14U) << "'fourteen' in docs/cross_domain.md";
  const std::string page = read_text(ATTNLAB_SOURCES "/docs/cross_domain.md");
  EXPECT_THAT(page, HasSubstr("is " + count_of(all) + ", of fourteen attentions (" +
                              std::to_string(absent_as(all, Absence::incompatible)) +
                              " more are incompatible)"));
  const Suite two = suite({"attentions=[standard, {use: quest, as: mine}]"});
  EXPECT_THAT(page,
              HasSubstr("is " + count_of(two) + " runs: two attentions, thirteen experiments"));
  EXPECT_EQ(two.experiments.size(), 13U);
  const std::string file = read_text(ATTNLAB_SOURCES "/configs/suites/cross_domain.yaml");
  EXPECT_THAT(file, HasSubstr("is " + count_of(two) + " runs."));
  EXPECT_THAT(file, HasSubstr(": " + count_of(all) + " runs, less those"));
}

TEST_F(ShippedSuite, HasAColumnAndAnAttentionForEveryClaim) {
  const Suite all = suite();
  ASSERT_TRUE(all.page);
  EXPECT_GT(all.page->claims.size(), 5U);
  const auto& columns = all.page->columns;
  for (const PageClaim& claim : all.page->claims) {
    const std::string text = claim.metric + " of " + claim.experiment + ", " + claim.source;
    EXPECT_TRUE(std::any_of(columns.begin(), columns.end(),
                            [&](const PageColumn& column) {
                              return column.experiment == claim.experiment &&
                                     column.metric == claim.metric;
                            }))
        << text << ": no column shows it";
    EXPECT_EQ(std::count(all.attentions.begin(), all.attentions.end(), claim.attention), 1)
        << text << ": '" << claim.attention << "' is not one of its attentions";
    EXPECT_NE(claim.attention, all.baseline) << text;
  }
}

/// Of every suite that is shipped.
TEST_F(ShippedSuite, HasATestThatItsSeedsCanReachTheLevelWith) {
  std::size_t loaded = 0;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(ATTNLAB_SOURCES "/configs/suites")) {
    if (file.path().extension() != ".yaml") continue;
    try {
      Suite one = load_suite(file.path(), {}, catalogue_, temp_ / "runs");
      ++loaded;
      const auto [pairs, tests] = pairs_and_tests(one);
      CompareOptions options = one.compare.value_or(CompareOptions{});
      if (!one.planned_test.empty()) options.test = one.planned_test;
      if (pairs > 1 && tests > 0) {
        EXPECT_EQ(reach_note(options, pairs, tests), "") << file.path();
      }
    } catch (const Error&) {  // plugins that are not built here
    }
  }
  EXPECT_GT(loaded, 5U);
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether a table's numbers are of what cannot be run here: other work, data that cannot be read.
bool is_not_run(const std::string& experiment) {
  return experiment.starts_with("others") || experiment == "pcqm_contact";
}

/// A number of an experiment or attention that the suite does not have would be shown nowhere.
TEST_F(ShippedSuite, OfAPapersTableHasARowForEachOfItsNumbers) {
  std::size_t loaded = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(ATTNLAB_SOURCES "/configs/suites/paper")) {
    const std::string table = file.path().stem();
    Suite paper;
    try {
      paper = load_suite(file.path(), {}, catalogue_, temp_ / "runs");
    } catch (const Error&) {  // plugins that are not built here
      continue;
    }
    ++loaded;
    EXPECT_FALSE(paper.references.empty()) << table;
    for (const PublishedNumbers& one : paper.references) {
      for (const auto& [experiment, row] : one.values) {
        if (is_not_run(experiment)) continue;
        EXPECT_TRUE(holds(paper.experiments, experiment)) << table << ": " << experiment;
        if (table == "quest_table_7") continue;  // two columns of table A8, whose numbers it has
        for (const auto& [attention, number] : row) {
          EXPECT_TRUE(holds(paper.attentions, attention))
              << table << ": " << experiment << ": " << attention << ", " << number;
        }
      }
    }
  }
  EXPECT_GT(loaded, 5U);
}

/// A cell that a stored run would stand for, on a machine that has the data. Seeds differ in
/// nothing that is compared.
const Cell* cell_of(const Suite& suite, const StoredRun& run) {
  const auto found = std::find_if(suite.cells.begin(), suite.cells.end(), [&](const Cell& cell) {
    return cell.experiment.name == run.experiment &&
           cell.experiment.attention.label == run.attention;
  });
  return found == suite.cells.end() ? nullptr : &*found;
}

bool lacks_plugin(const Suite& suite, const StoredRun& run) {
  return std::any_of(suite.absent.begin(), suite.absent.end(), [&](const AbsentCell& cell) {
    return cell.gap.kind == Absence::no_plugin && cell.experiment == run.experiment;
  });
}

/// Why a stored run does not stand for its cell; empty where it does.
std::string refusal_of(const Suite& suite, const StoredRun& run, const Catalogue& catalogue) {
  const Cell* const found = cell_of(suite, run);
  if (found == nullptr) return "the suite has no such cell";
  Cell cell = *found;
  cell.identity.data = run.identity.data;  // which data there are is not asked here
  bool other_numbers = false;
  return join(differences_to(run, cell, catalogue, other_numbers), ", ");
}

// Four and a half hours of two cores that one commit can make worthless without any other test
// failing.
TEST_F(ShippedSuite, IsWhatItsStoredRunsAreOf) {
  const Suite all = suite();
  ASSERT_EQ(all.stored.size(), 1U);
  EXPECT_TRUE(std::filesystem::equivalent(all.stored.front(),
                                          ATTNLAB_SOURCES "/docs/results/cross_domain"));
  std::vector<std::string> unreadable;
  const std::vector<std::string> files = stored_files(all.stored.front(), unreadable);
  EXPECT_TRUE(unreadable.empty());
  ASSERT_FALSE(files.empty());
  std::size_t judged = 0, refused = 0;
  std::map<std::string, std::pair<std::size_t, std::size_t>> of;  // by experiment: judged, refused
  std::map<std::string, std::size_t> reasons;
  for (const std::string& file : files) {
    const StoredRun run = read_stored(file);  // a damaged one fails by itself
    if (lacks_plugin(all, run)) continue;
    ++judged;
    ++of[run.experiment].first;
    const std::string why = refusal_of(all, run, catalogue_);
    if (why.empty()) continue;
    ++refused;
    ++of[run.experiment].second;
    ++reasons[why];
  }
  std::cout << files.size() << " stored runs, " << judged << " judged, " << refused << " refused\n";
  std::string text;
  for (const auto& [why, count] : reasons)
    text += "  " + std::to_string(count) + " of them: " + why + "\n";
  std::cout << text;
  for (const auto& [experiment, counts] : of) {
    EXPECT_LE(2 * counts.second, counts.first)
        << "most stored runs of " << experiment
        << " in docs/results/cross_domain do not count any more; all of them took four and a half "
           "hours of two cores:\n"
        << text
        << "Undo what changed them (an option of another default, a value of configs/, a version "
           "that was raised without need), or make and store them anew.";
  }
}

/// A page that is read as one of all experiments must say of which it is not.
TEST_F(ShippedSuite, HasStoredRunsOfEveryExperimentThatThePageDoesNotName) {
  const Suite all = suite();
  std::vector<std::string> unreadable;
  std::set<std::string> recorded;
  for (const std::string& file : stored_files(all.stored.front(), unreadable)) {
    recorded.insert(read_stored(file).experiment);
  }
  const std::string results = read_text(ATTNLAB_SOURCES "/docs/results/cross_domain.md");
  const std::string page = read_text(ATTNLAB_SOURCES "/docs/cross_domain.md");
  for (const std::string& experiment : all.experiments) {
    if (recorded.contains(experiment)) continue;
    EXPECT_THAT(results, HasSubstr("`" + experiment + "`")) << "it is not recorded";
    EXPECT_THAT(page, HasSubstr("/" + experiment + ".yaml")) << "how to leave it out";
  }
}

TEST(MakeDemo, EndsByNamingTheSuiteOverEveryDomain) {
  const std::string makefile = read_text(ATTNLAB_SOURCES "/Makefile");
  const std::size_t begin = makefile.find("\ndemo:");
  ASSERT_NE(begin, std::string::npos);
  const std::string recipe = makefile.substr(begin, makefile.find("\n\n", begin) - begin);
  const std::size_t suite = recipe.find("attnlab suite quickstart");
  const std::size_t named = recipe.find("attnlab suite cross_domain");
  ASSERT_NE(suite, std::string::npos);
  ASSERT_NE(named, std::string::npos) << recipe;
  EXPECT_LT(suite, named) << "it comes last";
  EXPECT_NE(recipe.rfind("@echo", named), std::string::npos) << "named, not run";
}

}  // namespace
}  // namespace attnlab::shipped_suite_test
