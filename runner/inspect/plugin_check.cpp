// attnlab plugin check PATH CHECK [key=value ...]: one check of the conformance kit, its result as
// a line of JSON. Not for people: `attnlab plugin test` runs one for each check.
#include <csignal>
#include <iostream>
#include <optional>

#include "framework/base/json.h"
#include "framework/conformance/check_plugin.h"
#include "runner/engine/engine.h"
#include "runner/signals.h"
#include "runner/tested_plugin.h"

namespace attnlab {
namespace {

/// A line of its own, whatever the plugin printed; bytes that are not text do not stop it.
void print_line(const nlohmann::json& line) {
  std::cout << "\n" << json_text(line, -1) << std::flush;
}

void print(const conformance::CheckResult& result) {
  print_line({{"check", result.check},
              {"outcome", conformance::name_of(result.outcome)},
              {"message", result.message},
              {"seconds", result.seconds}});
}

}  // namespace

int plugin_check_command(const Words& words) {
  Usage usage;
  usage.synopsis = "attnlab plugin check PATH CHECK [key=value ...] [--experiment EXPERIMENT]";
  usage.about = "Runs one check of `attnlab plugin test` and prints its result as JSON.";
  usage.options.add_options()(
      "experiment",
      boost::program_options::value<std::string>()->value_name("EXPERIMENT")->default_value("", ""),
      "whose parts the plugin is tried with");
  usage.fewest_words = usage.most_words = 2;
  usage.takes_overrides = true;
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  for (const int signal : {SIGINT, SIGTERM}) {  // nothing to save
    if (!is_ignored(signal)) std::signal(signal, SIG_DFL);
  }
  const TestedPlugin tested =
      tested_plugin(arguments.words[0], arguments.overrides, arguments.text("experiment", ""));
  Registry registry(tested.catalogue);
  conformance::PluginCheck how;
  how.options_given = !arguments.overrides.empty() || tested.experiment.has_value();
  how.trying = [](const std::string& what) { print_line({{"trying", what}}); };
  std::optional<Registry> others;  // attentions for a model, an experiment's parts
  if (tested.part.kind == Kind::model || tested.experiment) {
    others.emplace(Catalogue::of_this_program());
    how.others = &*others;
  }
  if (tested.experiment) how.experiment = &*tested.experiment;
  print(conformance::check_plugin(registry, tested.part, arguments.words[1], how));
  return kDone;
}

}  // namespace attnlab
