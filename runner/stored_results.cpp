#include "runner/stored_results.h"

#include <fmt/format.h>

#include <iostream>
#include <map>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/suites/stored_cells.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostRefused = 5;

/// "3 of 6 stored runs are not used: ...": reasons, each with how many and the first of them.
std::string refusals_text(const StoredUse& use) {
  std::map<std::string, std::pair<std::string, std::size_t>> reasons;
  for (const std::string& line : use.refused) {
    const std::size_t colon = line.find(": ");
    auto& [first, count] = reasons[line.substr(colon + 2)];
    if (count++ == 0) first = line.substr(0, colon);
  }
  std::string text;
  std::size_t shown = 0;
  for (const auto& [reason, who] : reasons) {
    if (++shown > kMostRefused)
      return text + fmt::format("  and {} other reasons\n", reasons.size() - kMostRefused);
    text += fmt::format("  {}{}: {}\n", one_line(who.first, kLongestMessageLine),
                        who.second > 1 ? fmt::format(" and {} more", who.second - 1) : "",
                        one_line(reason, kLongestMessageLine));
  }
  return text;
}

}  // namespace

void take_stored(Suite& suite, const Catalogue& catalogue, const Rerun& rerun, bool dry_run) {
  check_restored(suite, catalogue, rerun.stale, dry_run);
  if (suite.stored.empty()) return;
  const StoredUse use = find_stored(suite, catalogue, rerun.accept_revision);
  for (const std::string& damage : use.damaged)
    std::cerr << one_line(damage, kLongestMessageLine) << "\n";
  const bool waits = std::any_of(suite.cells.begin(), suite.cells.end(),
                                 [](const Cell& cell) { return cell.action == CellAction::run; });
  if (waits && use.files == 0 && use.damaged.empty()) {
    std::cerr << fmt::format("stored results: none in {}; what is not finished is run\n",
                             join(suite.stored, ", "));
  }
  if (!use.matches.empty()) {
    std::cerr << fmt::format("stored results: {} {} taken from {} instead of being run\n",
                             use.matches.size(), use.matches.size() == 1 ? "run is" : "runs are",
                             join(suite.stored, ", "));
  }
  if (!use.refused.empty()) {
    std::cerr << fmt::format("stored results: {} not used, these cells are run:\n{}",
                             use.refused.size(), refusals_text(use));
  }
  const std::string warning = refusal_warning(use);
  if (!warning.empty()) std::cerr << "\n*** WARNING: " << warning << " ***\n\n" << std::flush;
  if (!dry_run) return use_stored(use, suite);
  for (const StoredUse::Match& match : use.matches) {
    suite.cells[match.cell].action = CellAction::finished;
  }
}

void warn_of(const Suite& suite) {
  if (suite.warning.empty()) return;
  std::cerr << "\n*** WARNING: " << one_line(suite.warning, kLongestMessageLine) << " ***\n\n"
            << std::flush;
}

void say_missing(const std::map<std::string, std::string>& missing) {
  if (missing.empty()) return;
  std::map<std::string, std::vector<std::string>> by_text;
  for (const auto& [experiment, text] : missing) by_text[text].push_back(experiment);
  std::cerr << "Left out, for what they need is not on this machine; all else runs:\n";
  for (const auto& [text, experiments] : by_text) {
    std::cerr << fmt::format("  {}: {}\n", one_line(join(experiments, ", "), kLongestMessageLine),
                             one_line(text, kLongestMessageLine));
  }
  std::cerr << std::flush;
}

}  // namespace attnlab
