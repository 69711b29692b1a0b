#include "framework/experiment/init_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/compositions.h"

namespace attnlab {
namespace {

/// The configuration that an experiment's file has with an attention.
std::string configuration_of(const std::string& experiment, const Node& attention,
                             const Catalogue& catalogue, std::vector<std::string> beginning) {
  const std::string path = find_composition(experiment, "experiments");
  if (std::find(beginning.begin(), beginning.end(), path) != beginning.end()) {
    throw ConfigError(fmt::format(
        "{} and the experiments that it begins with begin with each other; one of them must begin "
        "by itself",
        path));
  }
  beginning.push_back(path);
  Node composed = compose_file(path);
  composed.set("attention", attention);
  const std::string name = std::filesystem::path(path).stem().string();
  return resolve_experiment(composed, catalogue, name, beginning).hash_without_attention();
}

/// Digits stay a text, whatever number they look like.
Node text_node(const std::string& text, const Place& place) {
  return Node::scalar(text, place, /*quoted=*/true);
}

}  // namespace

void resolve_init(Experiment& experiment, const Catalogue& catalogue,
                  const std::vector<std::string>& beginning, Problems& problems, Problems& unfit) {
  const Node* init = experiment.resolved.find("init");
  if (init == nullptr || init->is_null()) return;
  const InitOptions& options = *experiment.init;
  if (options.from.empty() == options.experiment.empty()) {
    add_problem(problems, init->place(), "init: give either `from`, a file, or `experiment`");
    return;
  }
  const Node* attention = experiment.resolved.find("attention");
  if (options.experiment.empty() || !options.configuration.empty() || attention == nullptr) return;
  const Place place = init->at("experiment").place();
  const auto what = [](const ConfigError& error) {
    return fmt::format("init.experiment: {}", error.what());
  };
  try {
    set_source(experiment, configuration_of(options.experiment, *attention, catalogue, beginning),
               place);
  } catch (const IncompatibleError& error) {
    add_problem(unfit, place, what(error));
  } catch (const ConfigError& error) {
    add_problem(problems, place, what(error));
  }
}

void set_source(Experiment& experiment, const std::string& configuration, const Place& place) {
  experiment.init->configuration = configuration;
  experiment.resolved.find("init")->set("configuration", text_node(configuration, place));
}

}  // namespace attnlab
