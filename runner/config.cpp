// attnlab config show FILE: the resolved composition, and where each value came from.
#include <iostream>

#include "framework/core/experiment.h"
#include "framework/core/text.h"
#include "runner/commands.h"

namespace attnlab {

int config_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab config show FILE [key=value ...] [--origins]";
  usage.about =
      "Prints an experiment with everything filled in. The output is itself a valid\n"
      "experiment. FILE is a file or the name of one below configs/experiments.";
  usage.options.add_options()("origins",
                              "instead, file:line:column of every value, with its earlier values");
  usage.fewest_words = usage.most_words = 2;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  if (arguments.words[0] != "show") {
    throw ConfigError("unknown command 'config " + arguments.words[0] + "'" +
                      suggestion(arguments.words[0], {"show"}));
  }
  const Catalogue catalogue = Catalogue::of_this_program();
  const std::string path = find_composition(arguments.words[1], "experiments");
  const Experiment experiment = load_experiment(path, arguments.overrides, catalogue);
  std::cout << (arguments.has("origins") ? origins_text(experiment.resolved)
                                         : to_yaml(experiment.resolved));
  return kDone;
}

}  // namespace attnlab
