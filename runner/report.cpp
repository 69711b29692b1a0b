// attnlab report DIR...: a page, a paper's table, or records of runs.
#include "framework/report/report.h"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <random>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/links.h"
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

void declare_report(Usage& usage) {
  usage.synopsis =
      "attnlab report DIR... [--format html|md|latex|csv|json] [--output FILE] [--bib FILE]\n"
      "       [--stills FOLDER [--view TURN,TILT] [--hide CLASS ...]]";
  usage.about =
      "Writes a report of runs, finished or not. DIR is a run's folder or one with runs below\n"
      "it (runs/SUITE). html is one page that works offline: finding, grid, distributions,\n"
      "curves, layers, costs, tests, ranks, settings, failed runs; without --output, table.csv\n"
      "beside it has the numbers of its tables. latex is a table for a paper; csv has one line\n"
      "per run; json has everything. Without --output: DIR/report.html, .md, .tex, .csv or\n"
      ".json, below the first DIR; - is standard output. Without --format: by the ending of\n"
      "--output, else html. --stills also writes pictures of the clouds that `attnlab show`\n"
      "kept. Reads files only: needs no LibTorch.";
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  usage.options.add_options()("format", text("html|md|latex|csv|json"), "default: html")(
      "output,o", text("PATH"), "file to write; -: standard output")(
      "bib", text("PATH"), "with latex: write the plugins' citations there, as BibTeX")(
      "title", text("TEXT"), "title of the page")(
      "stills", text("FOLDER"),
      "write still pictures of clouds there, for a paper: an SVG by label, prediction, error and "
      "attention")("view", text("TURN,TILT"),
                   "with --stills: degrees around the vertical axis and above the ground; default: "
                   "30,30")("hide", po::value<std::vector<std::string>>()->value_name("CLASS"),
                            "with --stills: leave out points with this label (ceiling); may be "
                            "given several times");
  add_compare_options(usage);
  add_pair_option(usage);
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

/// A number of degrees of "TURN,TILT".
double degrees(const std::string& given, std::string_view part, double most) {
  const auto value = parsed_number<double>(part);
  if (value && std::abs(*value) <= most) return *value;
  throw ConfigError(fmt::format(
      "--view: '{}' is not TURN,TILT: degrees from -360 to 360 and from -90 to 90", given));
}

StillOptions still_options(const Arguments& arguments) {
  for (const char* name : {"view", "hide"}) {
    if (arguments.has(name) && !arguments.has("stills")) {
      throw ConfigError(fmt::format("--{} goes with --stills alone", name));
    }
  }
  StillOptions options;
  if (arguments.has("view")) {
    const std::string given = arguments.text("view", "");
    const std::string_view all = given;
    const std::size_t comma = std::min(all.find(','), all.size());
    options.turn = degrees(given, all.substr(0, comma), 360);
    options.tilt = degrees(given, comma < all.size() ? all.substr(comma + 1) : "", 90);
  }
  if (arguments.has("hide")) {
    const auto names = arguments.options["hide"].as<std::vector<std::string>>();
    options.hidden = {names.begin(), names.end()};
  }
  return options;
}

/// @throws ConfigError where there is nothing to draw, or a class that is to be hidden is none.
std::vector<CloudFile> stills_of(const Report& report, const StillOptions& options) {
  if (report.clouds.empty()) {
    throw ConfigError(
        "--stills: no run here has clouds to draw; `attnlab show RUN_DIR` keeps some beside a run "
        "of a point task");
  }
  std::vector<std::string> names;
  for (const CloudPicture& one : report.clouds) {
    names.insert(names.end(), one.cloud.classes.begin(), one.cloud.classes.end());
  }
  for (const std::string& name : options.hidden) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw ConfigError(
          fmt::format("--hide: there is no class '{}'{}", name, suggestion(name, names)));
    }
  }
  return cloud_files(report.clouds, options);
}

void write_stills(const std::string& folder, const std::vector<CloudFile>& files, bool tell) {
  std::error_code error;  // what keeps the folder away keeps its files away, too
  if (!files.empty()) fs::create_directories(folder, error);
  for (const CloudFile& file : files) {
    const std::string path = (fs::path(folder) / file.name).string();
    write_file(path, file.svg);
    if (tell) std::cout << path << "\n";
  }
}

std::string text_of(const Report& report, const std::string& format, bool with_bibtex) {
  if (format == "md") return printable(report_markdown(report));
  if (format == "latex") return report_latex(report, with_bibtex);
  if (format == "csv") return report_csv(report);
  if (format == "json") return report_json(report);
  return report_html(report, new_nonce());
}

Report made_report(const Arguments& arguments, const Words& words) {
  RunCollection collection = runs_to_compare(arguments.words);
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
  declare_report(usage);
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
  std::string table;  // where the page's numbers go
  if (!arguments.has("output")) {
    refuse_link(output);
    if (std::string(format.name) == "html") {
      table = (fs::path(arguments.words.front()) / "table.csv").string();
      refuse_link(table);
    }
  } else if (!to_output) {
    refuse_unwritable("--output", output);
  }
  if (!bib.empty()) refuse_unwritable("--bib", bib);
  const StillOptions still = still_options(arguments);
  const Report report = made_report(arguments, words);
  const std::string stills = arguments.text("stills", "");
  const std::vector<CloudFile> files =
      stills.empty() ? std::vector<CloudFile>{} : stills_of(report, still);
  const std::string text = text_of(report, format.name, bib.empty());
  if (!bib.empty()) write_file(bib, bibtex_of(report.citations));
  if (to_output) {
    write_stills(stills, files, /*tell=*/false);
    std::cout << text;
    return kDone;
  }
  write_file(output, text);
  std::cout << output << "\n";
  if (!table.empty()) {
    write_file(table, report_table(report));
    std::cout << table << "\n";
  }
  if (!bib.empty()) std::cout << bib << "\n";
  write_stills(stills, files, /*tell=*/true);
  return kDone;
}

}  // namespace attnlab
