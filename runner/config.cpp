// attnlab config show|explain|diff|schema: what a composition comes to, and why.
#include <fmt/format.h>
#include <filesystem>
#include <iostream>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/origins.h"
#include "framework/experiment/compositions.h"
#include "framework/experiment/experiment.h"
#include "framework/experiment/explain.h"
#include "framework/experiment/keys.h"
#include "framework/suites/json_schema.h"
#include "framework/suites/suite_keys.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

constexpr const char* kConfigHelp = R"(usage: attnlab config COMMAND

  attnlab config show FILE [key=value ...]           everything filled in
  attnlab config explain FILE [KEY] [key=value ...]  every place that set or changed a value
  attnlab config diff A B [key=value ...]            what differs between two configurations
  attnlab config schema [KIND [COMPOSITION ...]]     a JSON Schema, for editors

`attnlab config COMMAND --help` tells more.
)";

int show(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab config show FILE [key=value ...] [--origins]";
  usage.about =
      "Prints an experiment with everything filled in. The output is itself a valid\n"
      "experiment. FILE is a file or the name of one below configs/experiments.";
  usage.options.add_options()(
      "origins", "instead print file:line:column of every value, with its earlier values");
  usage.fewest_words = usage.most_words = 1;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const Catalogue catalogue = Catalogue::of_this_program();
  const std::string path = find_composition(arguments.words[0], "experiments");
  const Experiment experiment = load_experiment(path, arguments.overrides, catalogue);
  std::cout << (arguments.has("origins") ? origins_text(experiment.resolved)
                                         : to_yaml(experiment.resolved));
  return kDone;
}

/// A run's origins are written down; nothing is composed again.
void explain_run(const std::string& folder, const std::string& key) {
  const std::string path = folder + "/origins.txt";
  const std::vector<RecordedOrigin> origins = read_origins(read_text(path, kLargestRecord));
  std::vector<std::string> names;
  bool found = false;
  for (const RecordedOrigin& origin : origins) {
    names.push_back(origin.key);
    if (origin.key != key && origin.key.rfind(key + ".", 0) != 0 && !key.empty()) continue;
    found = true;
    std::cout << origin.key << " = " << origin.value << "\n";
    for (const std::string& step : origin.steps) std::cout << "  " << step << "\n";
  }
  if (!found)
    throw ConfigError(fmt::format("{}: there is no key '{}'{}", path, key, suggestion(key, names)));
}

int explain_key(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab config explain FILE [KEY] [key=value ...] [--json]";
  usage.about =
      "Prints the history of a value, oldest step first: each place that set it, changed it,\n"
      "removed it or refers to another value. KEY is written with dots (train.optimizer.lr);\n"
      "for a map, or without KEY, everything below it is explained. FILE is an experiment, a\n"
      "suite or a run's folder. Files with errors are explained as far as possible.";
  usage.options.add_options()("json", "as JSON");
  usage.fewest_words = 1;
  usage.most_words = 2;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string key = arguments.words.size() > 1 ? arguments.words[1] : "";
  if (std::filesystem::is_directory(arguments.words[0])) {
    if (arguments.has("json")) throw ConfigError("a run's origins are not kept as JSON");
    explain_run(arguments.words[0], key);
    return kDone;
  }
  const std::string path = find_composition(arguments.words[0], "experiments");
  const Composition composition = compose(path, arguments.overrides);
  const bool suite = composition.root.find("experiments") != nullptr;
  const Catalogue catalogue = Catalogue::of_this_program();
  const Schema keys = suite ? suite_keys(catalogue) : experiment_keys(composition.root, catalogue);
  const auto explanations = explain(composition, keys, key);
  std::cout << (arguments.has("json") ? explanation_json(explanations)
                                      : explanation_text(explanations));
  for (const std::string& problem : composition.problems) {
    std::cerr << message_text(problem) << "\n";
  }
  return composition.problems.empty() ? kDone : kUsage;
}

int schema(const Words& words) {
  Usage usage;
  usage.synopsis =
      fmt::format("attnlab config schema [{}] [EXPERIMENT|SUITE ...]", join(schema_kinds(), "|"));
  usage.about =
      "Prints a JSON Schema (draft 2020-12) for a kind of file, by default an experiment: keys,\n"
      "types, ranges, choices, defaults and help, options of each plugin. `base` is a part of\n"
      "an experiment, for others to extend; model, attention, task and dataset are the values\n"
      "of these keys. Editors use it to complete and check; write it again when plugins come or\n"
      "change. It also has the options of Python files that the compositions after the kind\n"
      "name.";
  usage.most_words = kAnyNumber;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string kind = arguments.words.empty() ? "experiment" : arguments.words[0];
  std::vector<Node> compositions;
  for (std::size_t i = 1; i < arguments.words.size(); ++i) {
    const std::string& word = arguments.words[i];
    const std::string file = find_composition(word, kind == "suite" ? "suites" : "experiments");
    compositions.push_back(load_composition(file).root);
  }
  std::cout << json_schema(kind, Catalogue::of_this_program(), compositions);
  return kDone;
}

}  // namespace

int config_command(const Words& words) {
  return run_subcommand("config", kConfigHelp, words,
                        {{"show", show},
                         {"explain", explain_key},
                         {"diff", config_diff_command},
                         {"schema", schema}});
}

}  // namespace attnlab
