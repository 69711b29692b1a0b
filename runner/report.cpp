// attnlab report DIR...: a page, a paper's table, or records of runs.
#include "framework/report/report.h"
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <random>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "runner/commands.h"
#include "runner/compare_options.h"
#include "runner/domain_page.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

/// What --format says, and what files of it end in.
struct Format {
  const char* name;
  const char* ending;
};
constexpr Format kFormats[] = {
    {"html", "html"}, {"md", "md"}, {"latex", "tex"}, {"csv", "csv"}, {"json", "json"}};

void declare(Usage& usage) {
  usage.synopsis =
      "attnlab report DIR... [--format html|md|latex|csv|json] [--output FILE] [--bib FILE]";
  usage.about =
      "Writes a report of runs, whatever state they are in. DIR is a run's folder or one with "
      "runs\n"
      "below it (runs/SUITE). html is one page that works offline: finding, grid, distributions,\n"
      "curves, layers, costs, tests, ranks, settings, failed runs. latex is a table for a paper;\n"
      "csv has a line a run; json has everything. Without --output: DIR/report.html, .md, .tex,\n"
      ".csv or .json, below the first DIR; - is standard output. Without --format: by the ending\n"
      "of --output, else html.\n"
      "Reads files only: needs no LibTorch.";
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  usage.options.add_options()("format", text("html|md|latex|csv|json"), "default: html")(
      "output,o", text("PATH"), "file to write; -: standard output")(
      "bib", text("PATH"), "with latex: write the plugins' citations there, as BibTeX")(
      "title", text("TEXT"), "of the page");
  add_compare_options(usage);
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
}

const Format& chosen_format(const Arguments& arguments) {
  const std::string ending = fs::path(arguments.text("output", "")).extension();
  std::vector<std::string> names;
  for (const Format& format : kFormats) {
    names.emplace_back(format.name);
    if (arguments.text("format", "") == format.name) return format;
    if (!arguments.has("format") && ending == std::string(".") + format.ending) return format;
  }
  if (!arguments.has("format")) return kFormats[0];
  const std::string given = arguments.text("format", "");
  throw ConfigError(
      fmt::format("--format: unknown format '{}'{}", given, suggestion(given, names)));
}

void refuse_unwritable(const std::string& option, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    throw ConfigError(fmt::format("{}: {}: there is no folder {}; make it first: mkdir -p {}",
                                  option, path, folder.string(), folder.string()));
  }
  if (fs::is_directory(path, error)) {
    throw ConfigError(fmt::format("{}: {} is a folder; name a file in it", option, path));
  }
}

/// A word that nobody can guess, which scripts must carry to run in the page.
std::string new_nonce() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 4; ++i) out += hex(device()).substr(8);
  return out;
}

std::string command_of(const Words& words) {
  std::string command = "attnlab report";
  for (const std::string& word : words) command += " " + shell_word(word);
  return command;
}

std::string text_of(const Report& report, const std::string& format, bool with_bibtex) {
  if (format == "md") return report_markdown(report);
  if (format == "latex") return report_latex(report, with_bibtex);
  if (format == "csv") return report_csv(report);
  if (format == "json") return report_json(report);
  return report_html(report, new_nonce());
}

Report made_report(const Arguments& arguments, const Words& words) {
  RunCollection collection = find_runs(arguments.words);
  if (collection.runs.empty()) {
    throw ConfigError(arguments.words.front() +
                      ": no run belongs to the present suite; run the suite, or name the runs' own "
                      "folders");
  }
  const CompareOptions options = compare_options(compare_section(collection, arguments));
  const Catalogue catalogue = Catalogue::of_this_program();
  Comparison comparison =
      compare_runs(collection, options, arguments.text("baseline", ""), &catalogue);
  Report report = build_report(std::move(collection), std::move(comparison), catalogue);
  report.command = command_of(words);
  report.date = now_in_utc();
  report.title = arguments.text("title", report.title);
  return report;
}

}  // namespace

int report_command(const Words& words) {
  Usage usage;
  declare(usage);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Format& format = chosen_format(arguments);
  const std::string bib = arguments.text("bib", "");
  if (!bib.empty() && std::string(format.name) != "latex") {
    throw ConfigError("--bib goes with --format latex alone");
  }
  const std::string beside =
      (fs::path(arguments.words.front()) / (std::string("report.") + format.ending)).string();
  const std::string output = arguments.text("output", beside);
  const bool to_output = output == "-";
  if (arguments.has("output") && !to_output) refuse_unwritable("--output", output);
  if (!bib.empty()) refuse_unwritable("--bib", bib);
  const Report report = made_report(arguments, words);
  const std::string text = text_of(report, format.name, bib.empty());
  if (!bib.empty()) write_file(bib, bibtex_of(report.citations));
  if (to_output) {
    std::cout << text;
    return kDone;
  }
  write_file(output, text);
  std::cout << output << "\n";
  if (!bib.empty()) std::cout << bib << "\n";
  return kDone;
}

}  // namespace attnlab
