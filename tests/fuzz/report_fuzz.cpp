// Fuzzes comparisons and reports of runs: whatever the bytes of their files, there is a report in
// every format, or an error that names the file; text moves no cursor, and the page holds no
// element of theirs.
//
// Code: framework/runs/run_records.cpp framework/runs/run_differences.cpp
// Code: framework/runs/run_search.cpp framework/runs/page_spec.cpp framework/runs/metric_infos.cpp
// Code: framework/comparison/comparison.cpp framework/comparison/comparison_text.cpp
// Code: framework/report/curves.cpp framework/report/html.cpp framework/report/html_data.cpp
// Code: framework/report/html_results.cpp framework/report/markup.cpp framework/report/records.cpp
// Code: framework/report/report.cpp framework/report/slices.cpp framework/report/latex.cpp
#include "framework/report/report.h"
#include "tests/fuzz/run_files.h"

namespace attnlab::fuzz {

Target target() { return target_of_runs(); }

namespace {

/// Empty where the runs have no baseline, or no metric whose better direction is known.
std::optional<Comparison> comparison_of(const RunCollection& collection) {
  try {
    CompareOptions options;
    if (!collection.suites.empty() && !collection.suites.front().compare.is_null()) {
      options = compare_options(collection.suites.front().compare);
    }
    return compare_runs(collection, options, "");
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void show(const Comparison& comparison) {
  check_shown(comparison_text(comparison, TableStyle::text));
  comparison_json(comparison);
}

void show(const Report& report) {
  report_markdown(report);
  check_shown(report_latex(report));
  report_csv(report);
  report_json(report);
  const std::string page = report_html(report, "nonce");
  if (page.find(kForeignElement) != std::string::npos) fail("an element of foreign text's");
}

}  // namespace
}  // namespace attnlab::fuzz

int attnlab::fuzz::try_input(const std::uint8_t* data, std::size_t size) {
  using namespace attnlab;
  static const Catalogue none({}, {});
  fuzz::runs().write({reinterpret_cast<const char*>(data), size});
  bool whole = false;  // else the run that the input makes was left out, with a note
  fuzz::is_read([&] {
    RunCollection collection = find_runs({fuzz::runs().folder.path()});
    if (collection.runs.empty()) return;
    whole = collection.unreadable.empty();
    std::optional<Comparison> comparison = fuzz::comparison_of(collection);
    if (!comparison) return;
    fuzz::show(*comparison);
    fuzz::show(build_report(std::move(collection), std::move(*comparison), none));
  });
  return whole ? 0 : -1;
}
