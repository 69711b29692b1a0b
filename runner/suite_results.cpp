// What a suite writes beside its runs when they are done: see the header.
#include "runner/suite_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "runner/domain_page.h"

namespace attnlab {

void remove_older_results(const Suite& suite) {
  for (const char* name : {"comparison.md", "comparison.json"}) {
    remove_older(suite.folder + "/" + name);
  }
  remove_suite_page(suite.folder);
}

bool write_table(const Suite& suite, const std::string& command) {
  const std::vector<SuiteRow> rows = summarise(suite);
  const std::string markdown = suite_markdown(suite, rows, command);
  write_file(suite.folder + "/table.md", printable(markdown));
  const std::string table = suite_json(suite, rows, command);
  write_file(suite.folder + "/table.json", table);
  std::cout << "\n"
            << markdown << "\nwritten to " << suite.folder << "/table.md and table.json\n"
            << std::flush;
  const bool whole = parsed_json(table).at("complete").get<bool>();
  if (!whole && complete(suite)) {
    std::cerr << "attnlab: files of a finished run could not be read for the table, which is not "
                 "complete; repeat the command\n";
  }
  return whole;
}

void write_comparison(const Suite& suite, const Catalogue& catalogue) {
  if (!suite.compare) return;
  const auto counts = [](const Cell& cell) { return cell.action != CellAction::stale; };
  if (std::none_of(suite.cells.begin(), suite.cells.end(), counts)) return;
  const Comparison comparison =
      compare_runs(find_runs({suite.folder}), *suite.compare, suite.baseline, &catalogue);
  write_file(suite.folder + "/comparison.md",
             printable(comparison_text(comparison, TableStyle::markdown)));
  write_file(suite.folder + "/comparison.json", comparison_json(comparison));
  std::cout << "\n"
            << comparison_text(comparison, TableStyle::text) << "\nwritten to " << suite.folder
            << "/comparison.md and comparison.json\n"
            << std::flush;
}

void write_page(const Suite& suite, const std::string& command, const Catalogue& catalogue) {
  if (!suite.page) return;
  const RunCollection collection = find_runs({suite.folder});
  if (collection.runs.empty()) return;
  CompareOptions options = suite.compare.value_or(CompareOptions{});
  if (!suite.planned_test.empty()) options.test = suite.planned_test;
  const DomainPage page = build_domain_page(collection, options, suite.baseline, &catalogue);
  const std::vector<std::string> files = write_domain_page(page, suite.folder, command);
  std::cout << "the page over domains: " << join(files, ", ") << "\n" << std::flush;
}

}  // namespace attnlab
