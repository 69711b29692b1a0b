// attnlab compare DIR...: whether attentions differ, from what finished runs left on disk.
#include <fmt/format.h>
#include <iostream>

#include "framework/base/text.h"
#include "framework/comparison/comparison.h"
#include "runner/commands.h"
#include "runner/compare_options.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

void declare_compare(Usage& usage) {
  usage.synopsis =
      "attnlab compare DIR... [--baseline LABEL] [--metric NAME] [--test NAME] [--json]";
  usage.about =
      "Compares the attentions of finished runs. DIR is a run's folder or one with runs below\n"
      "it (runs/SUITE). First the frozen configurations are compared: if runs differ in more\n"
      "than the attention, that is printed and the exit code is 2. Then means with intervals,\n"
      "tests paired by seed (--pair example: also by example), effect sizes, and, from two\n"
      "experiments on, ranks. The suite's `compare:` section has the defaults. Reads files\n"
      "only: needs no LibTorch.";
  add_compare_options(usage);
  add_pair_option(usage);
  usage.options.add_options()("format", po::value<std::string>()->value_name("text|md|json"),
                              "text (default), md or json")("json", "the same as --format json")(
      "allow-differences", "compare runs that differ in more than the attention, and say so");
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
}

std::string format_of(const Arguments& arguments) {
  const std::string format = arguments.text("format", arguments.has("json") ? "json" : "text");
  for (const char* known : {"text", "md", "json"}) {
    if (format == known) return format;
  }
  throw ConfigError(
      fmt::format("unknown format '{}'{}", format, suggestion(format, {"text", "md", "json"})));
}

void refuse_differences(const Comparison& comparison) {
  if (comparison.differences.empty()) return;
  std::string text = "these runs differ in more than the attention:\n";
  for (const ConfigDifference& one : comparison.differences)
    text += fmt::format("  {}\n", one.text());
  throw ConfigError(text + "run them alike, or compare them all the same with --allow-differences");
}

}  // namespace

int compare_command(const Words& words) {
  Usage usage;
  declare_compare(usage);
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string format = format_of(arguments);
  const RunCollection collection = runs_to_compare(arguments.words);
  const CompareOptions options = compare_options(compare_section(collection, arguments));
  const Catalogue catalogue = Catalogue::of_this_program();
  const Comparison comparison =
      compare_runs(collection, options, arguments.text("baseline", ""), &catalogue);
  if (!arguments.has("allow-differences")) refuse_differences(comparison);
  std::cout << (format == "json" ? comparison_json(comparison)
                                 : comparison_text(comparison, format == "md" ? TableStyle::markdown
                                                                              : TableStyle::text));
  return kDone;
}

}  // namespace attnlab
