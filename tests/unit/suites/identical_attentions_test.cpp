// A/A on what was trained: standard attention under two names, its recorded seeds dealt out to
// both. domains_test.cpp does the same with made-up noise that is normal; real seeds are not quite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <set>
#include <tuple>

#include "framework/comparison/domains.h"
#include "framework/runs/run_records.h"
#include "framework/runs/stored_run.h"
#include "framework/suites/suite.h"
#include "tests/support/compositions.h"

namespace attnlab::identical_attentions_test {
namespace {

using namespace testing;

constexpr std::size_t kSeeds = 9, kPairs = 3;  // pairs: as many seeds as the suite has

/// Recorded runs of standard attention, restored as folders and read again.
std::vector<RunRecord> recorded_standard(const Suite& suite, const std::string& scratch) {
  std::vector<std::string> unreadable;
  std::vector<RunRecord> runs;
  for (const std::string& file : stored_files(suite.stored.front(), unreadable)) {
    const StoredRun stored = read_stored(file);
    if (stored.attention != "standard") continue;
    const auto cell =
        std::find_if(suite.cells.begin(), suite.cells.end(), [&](const Cell& candidate) {
          return candidate.experiment.name == stored.experiment &&
                 candidate.experiment.attention.label == stored.attention;
        });
    if (cell == suite.cells.end()) continue;  // a plugin that is not built here
    const RunFolder folder(scratch + "/" + stored.name());
    Experiment experiment = cell->experiment;
    restore(stored, folder, experiment, stored.identity);
    runs.push_back(read_run(folder.path()));
    runs.back().seed = stored.seed;
    // All are of one configuration: to compare it anew for every page takes most of the time.
    runs.back().config = Node::map();
  }
  return runs;
}

/// Every way to deal nine seeds out to two names, three each, in order; a deal and the same with
/// the names swapped are one.
std::vector<std::array<std::vector<std::int64_t>, 2>> deals() {
  std::vector<std::array<std::vector<std::int64_t>, 2>> all;
  std::vector<int> of(kSeeds, 0);  // 0: none's
  std::fill(of.end() - 2 * kPairs, of.end() - kPairs, 1);
  std::fill(of.end() - kPairs, of.end(), 2);
  do {
    std::array<std::vector<std::int64_t>, 2> deal;
    for (std::size_t seed = 0; seed < kSeeds; ++seed) {
      if (of[seed] > 0) deal[of[seed] - 1].push_back(static_cast<std::int64_t>(seed));
    }
    if (deal[0].front() < deal[1].front()) all.push_back(std::move(deal));
  } while (std::next_permutation(of.begin(), of.end()));
  return all;
}

TEST(RecordedSeeds, OfOneAttentionUnderTwoNamesAreNotToldApartBeyondTheLevel) {
  const Catalogue catalogue = Catalogue::of_this_program();
  const TempFolder temp;
  const Suite suite = load_suite(ATTNLAB_SOURCES "/configs/suites/cross_domain.yaml",
                                 {"attentions=[standard]"}, catalogue, temp / "runs");
  const std::vector<RunRecord> runs = recorded_standard(suite, temp / "restored");
  std::set<std::string> experiments;
  for (const RunRecord& run : runs) experiments.insert(run.experiment);
  const bool built =
      std::none_of(suite.absent.begin(), suite.absent.end(),
                   [](const AbsentCell& cell) { return cell.gap.kind == Absence::no_plugin; });
  if (!built) GTEST_SKIP() << "some of the suite's plugins are not built here";
  ASSERT_GE(experiments.size(), 11U);
  PageSpec recorded = *suite.page;
  recorded.claims.clear();
  std::erase_if(recorded.columns,
                [&](const PageColumn& column) { return !experiments.contains(column.experiment); });
  ASSERT_EQ(runs.size(), experiments.size() * kSeeds);

  std::size_t told_apart = 0, verdicts = 0, cells = 0;
  const auto all = deals();
  for (const auto& deal : all) {
    RunCollection collection;
    SuiteRecord record;
    record.folder = "runs/identical";
    record.baseline = "standard";
    record.page = recorded;
    collection.suites.push_back(std::move(record));
    for (const RunRecord& run : runs) {
      for (std::size_t name = 0; name < 2; ++name) {
        const auto found = std::find(deal[name].begin(), deal[name].end(), run.seed);
        if (found == deal[name].end()) continue;
        RunRecord& under = collection.runs.emplace_back(run);
        under.attention = name == 0 ? "standard" : "twin";
        under.seed = found - deal[name].begin();
      }
    }
    std::stable_sort(collection.runs.begin(), collection.runs.end(),
                     [](const RunRecord& a, const RunRecord& b) {
                       return std::tie(a.experiment, a.attention, a.seed) <
                              std::tie(b.experiment, b.attention, b.seed);
                     });
    CompareOptions options;
    options.test = "t";
    const DomainPage page = build_domain_page(collection, options, "");
    ASSERT_EQ(page.columns.size(), recorded.columns.size());
    std::size_t found = 0;
    for (std::size_t i = 0; i < page.columns.size(); ++i) {
      const std::string verdict = cell_verdict(page, page.row("twin"), i);
      cells += verdict == "not shown" || verdict == "better" || verdict == "worse" ? 1 : 0;
      found += verdict == "better" || verdict == "worse" ? 1 : 0;
    }
    verdicts += found;
    told_apart += found > 0 ? 1 : 0;
  }
  const double rate = static_cast<double>(told_apart) / static_cast<double>(all.size());
  std::cout << told_apart << " of " << all.size() << " rows told apart (" << 100 * rate << " %), "
            << verdicts << " verdicts in " << cells << " tested cells\n";
  // Deals share seeds, and pair seeds that have nothing in common: this sees a page that is far
  // off, not one that is a little. The simulation in domains_test.cpp is the closer one.
  EXPECT_LE(rate, 0.05);
  EXPECT_GT(cells, 10 * all.size()) << "columns were not tested";
}

}  // namespace
}  // namespace attnlab::identical_attentions_test
