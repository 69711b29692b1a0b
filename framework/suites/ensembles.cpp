#include "framework/suites/ensembles.h"

#include "framework/experiment/identity.h"

namespace attnlab {

std::string obstacle_to_ensemble(const Experiment& experiment, const Catalogue& catalogue) {
  const Candidate& model = catalogue.find(Kind::model, experiment.model.name);
  if (!model.manifest->ensemble) {
    return "model '" + experiment.model.name + "' does not hold several members";
  }
  if (experiment.train.accumulate > 1) return "train.accumulate is above 1";
  return "";
}

std::string ensemble_key(const Experiment& experiment) {
  std::string key;
  const auto add = [&key](const std::string& name, const Node& value) {
    key += name + "=" + canonical_text(value) + "\n";
  };
  for (const auto& [name, value] : experiment.resolved.entries()) {
    if (name == "name" || name == "seeds" || name == "dataset" || name == "train") continue;
    if (name == "evaluate") continue;
    add(name, value);
  }
  for (const auto& [name, value] : experiment.resolved.at("train").entries()) {
    if (name != "optimizer") add("train." + name, value);
  }
  return key + experiment.dataset.id + "\n" + experiment.train.optimizer.use;
}

}  // namespace attnlab
