// attnlab power DIR...: how many seeds a difference needs, by the spread that finished runs have.
#include "framework/comparison/power.h"

#include <iostream>

#include "runner/commands.h"
#include "runner/compare_options.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

Usage power_usage() {
  Usage usage;
  usage.synopsis =
      "attnlab power DIR... --difference D [--power P] [--metric NAME] [--test NAME] [--json]";
  usage.about =
      "Power analysis: says for each pair of attentions how many seeds are needed to find a\n"
      "difference of D with probability P, by the test of `attnlab compare`, and which\n"
      "difference the present seeds can show. D is in the unit of the tables: points of\n"
      "accuracy, nats. The spread comes from the finished runs below DIR; each attention needs\n"
      "two seeds. Give the difference that would matter to you, not the one that was found.\n"
      "Reads files only.";
  usage.options.add_options()("difference", po::value<double>()->value_name("D"),
                              "the difference that would matter, above 0")(
      "power", po::value<double>()->value_name("P")->default_value(0.8, "0.8"),
      "probability of finding it, between 0 and 1");
  add_compare_options(usage);
  usage.options.add_options()("json", "print JSON");
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  return usage;
}

}  // namespace

int power_command(const Words& words) {
  Usage usage = power_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  if (!arguments.has("difference")) {
    throw ConfigError(
        "--difference is missing: state the difference that would matter, as --difference 0.5 (in "
        "the unit of the table: points of accuracy)");
  }
  const RunCollection collection = runs_to_compare(arguments.words);
  CompareOptions options = compare_options(compare_section(collection, arguments));
  options.pair = "seed";  // of which it counts how many are needed
  const Comparison comparison = compare_runs(collection, options, arguments.text("baseline", ""));
  const PowerReport report = power_report(comparison, arguments.options["difference"].as<double>(),
                                          arguments.options["power"].as<double>());
  std::cout << (arguments.has("json") ? power_json(report) : power_text(report));
  return kDone;
}

}  // namespace attnlab
