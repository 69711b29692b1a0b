// attnlab page DIR...: each attention's difference to the baseline in every domain, on one page.
#include <filesystem>
#include <iostream>

#include "framework/base/text.h"
#include "runner/commands.h"
#include "runner/compare_options.h"
#include "runner/domain_page.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

void declare_page(Usage& usage) {
  usage.synopsis = "attnlab page DIR... [--output DIR] [--title TEXT]";
  usage.about =
      "Writes a page that compares attentions over domains: a table whose cells are the\n"
      "difference to the baseline, in the domain's own unit, with interval and verdict; cost,\n"
      "ranks over domains, a summary of standardised differences, published claims. DIR is a\n"
      "run's folder or one with runs below it (runs/cross_domain). The suite's `page:` has\n"
      "columns and claims; without it each experiment is a column. Writes page.html, page.md,\n"
      "page.json, page.tex (for a paper), page.svg (for a talk) and ranks.svg into the folder\n"
      "that --output names, else into the first DIR. Reads files only: needs no LibTorch.";
  usage.options.add_options()("output,o", po::value<std::string>()->value_name("DIR"),
                              "folder for the files; must exist")(
      "title", po::value<std::string>()->value_name("TEXT"), "title of the page");
  add_compare_options(usage, /*metrics=*/false);
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
}

}  // namespace

int page_command(const Words& words) {
  Usage usage;
  declare_page(usage);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string folder = arguments.text("output", arguments.words.front());
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError("--output: " + folder + ": there is no such folder; make it first");
  }
  const RunCollection collection = runs_to_compare(arguments.words);
  const CompareOptions options = compare_options(compare_section(collection, arguments));
  const Catalogue catalogue = Catalogue::of_this_program();
  DomainPage page =
      build_domain_page(collection, options, arguments.text("baseline", ""), &catalogue);
  page.title = arguments.text("title", page.title);
  std::string command = "attnlab page";
  for (const std::string& word : words) command += " " + shell_word(word);
  for (const std::string& path : write_domain_page(page, folder, command)) {
    std::cout << path << "\n";
  }
  return kDone;
}

}  // namespace attnlab
