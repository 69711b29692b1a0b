// Fuzzes comparisons and reports of runs: whatever the bytes of their files, there is a report in
// every format, or an error that names the file; text moves no cursor; the page and Markdown hold
// no element of theirs; CSV and JSON have all runs.
//
// Code: framework/runs/run_records.cpp framework/runs/run_differences.cpp
// Code: framework/runs/run_search.cpp framework/runs/page_spec.cpp framework/runs/metric_infos.cpp
// Code: framework/comparison/comparison.cpp framework/comparison/comparison_text.cpp
// Code: framework/report/curves.cpp framework/report/html.cpp framework/report/html_data.cpp
// Code: framework/report/html_results.cpp framework/report/records.cpp
// Code: framework/document/markup.cpp framework/document/text.cpp framework/document/html.cpp
// Code: framework/document/latex.cpp
// Code: framework/report/report.cpp framework/report/slices.cpp framework/report/latex.cpp
// Code: framework/report/bias.cpp framework/report/image_pictures.cpp
// Code: framework/report/graph_pictures.cpp framework/report/graph_layout.cpp
// Code: framework/report/box_pictures.cpp framework/report/cloud_pictures.cpp
// Code: framework/report/label_pictures.cpp
// Code: framework/report/cloud_still.cpp
#include "framework/report/report.h"

#include <algorithm>
#include <sstream>

#include "framework/base/json.h"
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

/// Whether a character stands for itself.
bool is_escaped(const std::string& text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] == '\\') --begin;
  return (at - begin) % 2 == 1;
}

bool holds_plain(const std::string& text, const std::string& what) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) {
    if (!is_escaped(text, at)) return true;
  }
  return false;
}

/// @param at  of the first quote
/// @returns what stands behind the last one.
std::size_t end_of_quoted(const std::string& text, std::size_t at) {
  while (true) {
    at = text.find('"', at + 1);
    if (at == std::string::npos) fail("CSV: a quote without its end");
    if (text.compare(at, 2, "\"\"") != 0) return at + 1;
    ++at;  // two quotes stand for one
  }
}

/// Numbers of fields of each record, by RFC 4180.
std::vector<std::size_t> csv_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t at = 0; at < text.size();) {
    for (sizes.push_back(1);; ++at) {  // a field each
      at = text[at] == '"' ? end_of_quoted(text, at)
                           : std::min(text.find_first_of(",\"\r\n", at), text.size());
      if (text.compare(at, 1, ",") != 0) break;
      ++sizes.back();
    }
    if (text.compare(at, 2, "\r\n") != 0) fail("CSV: a record that does not end: " + text);
    at += 2;
  }
  return sizes;
}

void check_csv(const std::string& text, std::size_t runs) {
  const std::vector<std::size_t> sizes = csv_sizes(text);
  if (sizes.size() != runs + 1) fail("CSV: records are lost");
  for (const std::size_t size : sizes) {
    if (size != sizes.front()) fail("CSV: a record with other fields than the header: " + text);
  }
}

/// Outside of blocks of code, whose fences are lines by themselves.
void check_markdown(const std::string& text) {
  std::istringstream lines(text);
  std::string fence;
  std::size_t bars = 0;  // of the table's lines so far; 0: there is none
  for (std::string line; std::getline(lines, line);) {
    if (!fence.empty()) {
      if (line == fence) fence.clear();
      continue;
    }
    const bool only_ticks = line.find_first_not_of('`') == std::string::npos;
    if (line.size() >= 3 && only_ticks) {
      fence = line;
      continue;
    }
    if (holds_plain(line, kForeignElement)) fail("Markdown: an element of foreign text's: " + line);
    if (line.rfind("|", 0) != 0) {
      bars = 0;
      continue;
    }
    std::size_t here = 0;
    for (std::size_t i = 0; i < line.size(); ++i) here += line[i] == '|' && !is_escaped(line, i);
    if (bars != 0 && here != bars) fail("Markdown: a row with other cells than its table: " + line);
    bars = here;
  }
  if (!fence.empty()) fail("Markdown: a block of code without its end");
}

void show(const Comparison& comparison) {
  check_shown(comparison_text(comparison, TableStyle::text));
  if (!nlohmann::json::parse(comparison_json(comparison)).is_object()) fail("JSON: no object");
}

void show(const Report& report) {
  const std::size_t runs = report.collection.runs.size();
  check_markdown(report_markdown(report));
  check_shown(report_latex(report));
  check_csv(report_csv(report), runs);
  const auto whole = nlohmann::json::parse(report_json(report));
  if (whole.at("runs").size() != runs) fail("JSON: runs are lost");
  if (whole.at("biases").size() != report.biases.size()) fail("JSON: biases are lost");
  const std::string page = report_html(report, "nonce");
  if (page.find(kForeignElement) != std::string::npos) fail("an element of foreign text's");
  // (The page's data have quotes behind a backslash.)
  if (holds_plain(page, "\" zz=")) fail("an attribute of foreign text's");
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
