#include "framework/experiment/ensembles.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/experiment/identity.h"
#include "framework/experiment/keys.h"
#include "framework/manifest/python_file.h"

namespace attnlab {

namespace {

/// A field with rows of an axis among `fields`; empty without one.
std::string field_with_axis(const std::vector<std::string>& fields) {
  const auto found = std::find_if(fields.begin(), fields.end(), [](const std::string& field) {
    return field.find('@') != std::string::npos;
  });
  return found == fields.end() ? "" : *found;
}

std::string obstacle_in_training(const TrainOptions& train) {
  if (train.accumulate > 1) return "train.accumulate is above 1";
  if (train.parts > 1) return "train.parts is above 1";
  if (train.recompute != "none") return "train.recompute computes the layers of one run again";
  if (train.precision == "float16") return "train.precision: float16 scales the loss of one run";
  if (train.batching.budget > 0) return "train.batching.budget makes batches of uneven size";
  if (train.average.decay > 0) return "train.average keeps means of the weights";
  if (!train.attention_losses.empty()) {
    return "train.attention_losses weighs one loss of a layer, not one for each member";
  }
  return "";
}

}  // namespace

std::string obstacle_to_ensemble(const Experiment& experiment, const Catalogue& catalogue) {
  const Manifest& model = *catalogue.find(Kind::model, lookup_name(experiment.model)).manifest;
  const Manifest& task = *catalogue.find(Kind::task, experiment.task.id).manifest;
  const Manifest& dataset =
      *catalogue.find(Kind::dataset, lookup_name(experiment.dataset)).manifest;
  if (!model.ensemble) {
    return fmt::format("model '{}' does not hold several members", experiment.model.name);
  }
  if (!task.ensemble) {
    return fmt::format("task '{}' does not promise that its losses are its steps",
                       experiment.task.name);
  }
  for (const Part* part : experiment.parts()) {
    if (!is_python_name(part->path)) continue;
    return fmt::format("{} '{}' is a class in Python, {}", name_of(part->kind), part->name,
                       part->kind == Kind::dataset ? "which several runs cannot share"
                                                   : "which holds one run's parameters");
  }
  if (const std::string field = field_with_axis(dataset.gives); !field.empty()) {
    return fmt::format("dataset '{}' gives '{}', of uneven rows", experiment.dataset.name, field);
  }
  if (const std::string field = field_with_axis(model.takes); !field.empty()) {
    return fmt::format("model '{}' takes '{}', of uneven rows", experiment.model.name, field);
  }
  return obstacle_in_training(experiment.train);
}

std::string ensemble_key(const Experiment& experiment) {
  Node rest = counted(experiment.resolved, Role::identity);
  rest.erase("dataset");
  rest.find("train")->erase("optimizer");
  // (What is set for the whole process must agree, too.)
  return fmt::format("{}\n{}\n{}\n{}", canonical_text(rest), experiment.dataset.id,
                     experiment.train.optimizer.use, experiment.train.deterministic);
}

}  // namespace attnlab
