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
      "Says for each two attentions how many seeds a difference of D needs to be found with the\n"
      "probability P, by the test that `attnlab compare` makes, and which difference the seeds at\n"
      "hand can show. D is in the unit that tables have: points of accuracy, nats. The spread is\n"
      "that of the finished runs below DIR, of which each attention needs two seeds. State the\n"
      "difference that would matter to you, not the one that was found. Reads files only.";
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
