#include "framework/train/overlay.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/experiment/fields.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/part.h"
#include "framework/host/given_fields.h"

namespace attnlab {
namespace {

/// Puts the process's random numbers back where they were.
class SameRandomNumbers {
 public:
  SameRandomNumbers()
      : generator_(at::detail::getDefaultCPUGenerator()), before_(generator_.get_state()) {}
  ~SameRandomNumbers() { generator_.set_state(before_); }
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  at::Generator generator_;
  Tensor before_;
};

/// Calls visit(name, tensor) for every parameter and buffer.
template <class Visit>
void each_tensor(const torch::nn::Module& module, const std::string& prefix, Visit&& visit) {
  for (const auto& item : module.named_parameters()) visit(prefix + item.key(), item.value());
  for (const auto& item : module.named_buffers()) visit(prefix + item.key(), item.value());
}

void add_weights(const torch::nn::Module& module, const std::string& prefix,
                 NamedTensors& weights) {
  each_tensor(module, prefix, [&](const std::string& name, const Tensor& tensor) {
    weights.set(name, tensor.detach());
  });
}

bool differs(const Experiment& a, const Experiment& b, const char* part) {
  Node left = a.resolved.at(part), right = b.resolved.at(part);
  left.erase("as");  // a label alone
  right.erase("as");
  return canonical_text(left) != canonical_text(right);
}

/// A model of text reads tokens by their numbers: another vocabulary of the same size, or a smaller
/// one, would be read without a complaint, and wrongly.
/// @throws DataError where a token of the two texts stands for something else.
void check_vocabulary(const Dataset& own, const Dataset& other) {
  const TextCodec *ours = own.codec(), *theirs = other.codec();
  if (ours == nullptr || theirs == nullptr) return;
  const auto problem = [&](const std::string& what) {
    return DataError(fmt::format(
        "the vocabulary of '{}' ({}) is not the run's, of '{}' ({}): {}; keep the run's training "
        "text and name the other text with dataset.test, or, by word, set dataset.vocabulary to "
        "one file in both",
        other.info().name, other.info().source, own.info().name, own.info().source, what));
  };
  const std::int64_t size = own.info().vocabulary;
  if (other.info().vocabulary != size) {
    throw problem(fmt::format("it has {} tokens, not {}", other.info().vocabulary, size));
  }
  for (std::int64_t token = 0; token < size; ++token) {
    const std::string found = theirs->decode(token, -1), expected = ours->decode(token, -1);
    if (found == expected) continue;
    throw problem(
        fmt::format("token {} is {}, not {}", token, json_quote(found), json_quote(expected)));
  }
}

bool has_field(const DatasetInfo& data, std::string_view name) {
  return std::any_of(data.fields.begin(), data.fields.end(),
                     [&](const FieldInfo& field) { return field.name == name; });
}

/// A model answers by the numbers of classes: other ones, or the same in another order, would be
/// counted without a complaint, and wrongly. What is shown in a prompt needs no number. Classes
/// that have names nowhere may be places in a sequence, of which another may have more.
/// @throws DataError where a number stands for another class than in the run's own data.
void check_classes(const DatasetInfo& own, const DatasetInfo& other) {
  const auto &ours = own.class_names, &theirs = other.class_names;
  if (own.classes == 0 || other.classes == 0 || has_field(other, "prompt")) return;
  if (ours.empty() && theirs.empty()) return;
  const auto problem = [&](const std::string& what) {
    return DataError(fmt::format(
        "the classes of '{}' ({}) are not the run's, of '{}' ({}): {}; evaluate on data with the "
        "run's classes in their order (image_folder takes them by dataset.classes_from, others by "
        "dataset.classes)",
        other.name, other.source, own.name, own.source, what));
  };
  if (other.classes != own.classes) {
    throw problem(fmt::format("there are {}, not {}", other.classes, own.classes));
  }
  for (std::size_t k = 0; k < std::min(ours.size(), theirs.size()); ++k) {
    if (theirs[k] == ours[k]) continue;
    throw problem(
        fmt::format("class {} is {}, not {}", k, json_quote(theirs[k]), json_quote(ours[k])));
  }
}

/// Whether the task learns from features what they say, so that the model's answers do not count.
bool reads_features(const Experiment& experiment, const Catalogue& catalogue) {
  const auto takes = catalogue.find(Kind::task, lookup_name(experiment.task)).manifest->takes;
  return rule_of(rules_under(takes, experiment.task), "layer_features") != nullptr;
}

/// A model answers in the units that its own training rows gave, target by target.
/// @throws DataError where the other data's targets are scaled by other rows, or are others.
void check_targets(const DatasetInfo& own, const DatasetInfo& other) {
  for (const FieldInfo& theirs : other.fields) {
    const auto ours = std::find_if(own.fields.begin(), own.fields.end(), [&](const auto& field) {
      return field.name == "labels" && field.name == theirs.name;
    });
    if (ours == own.fields.end()) continue;
    const auto problem = [&](const std::string& what) {
      return DataError(fmt::format("the targets of '{}' ({}) are not the run's, of '{}' ({}): {}",
                                   other.name, other.source, own.name, own.source, what));
    };
    if (theirs.mean != ours->mean || theirs.deviation != ours->deviation) {
      throw problem(
          "they are scaled by other training rows; keep the run's training rows, or set "
          "dataset.scale_targets: false in both");
    }
    if (!theirs.values.empty() && !ours->values.empty() && theirs.values != ours->values) {
      throw problem("they have other names, or another order; choose the run's");
    }
  }
}

Split checked_split(const BuiltRun& overlay, const EvaluationEntry& entry) {
  const Split split = entry.options.split == "test" ? Split::test : Split::validation;
  if (overlay.dataset->size(split) > 0) return split;
  throw DataError(fmt::format("dataset '{}' has no {} examples; choose another split",
                              overlay.dataset->info().name, entry.options.split));
}

/// With the random numbers of the entry.
BuiltRun drawing_as(const BuiltRun& overlay, const EvaluationEntry& entry) {
  BuiltRun drawing = overlay;
  drawing.streams = RandomStreams(overlay.streams.key("evaluation", fingerprint(entry.name)));
  return drawing;
}

}  // namespace

NamedTensors live_weights(const BuiltRun& run) {
  NamedTensors weights;
  add_weights(*run.model, "model.", weights);
  add_weights(*run.task, "task.", weights);
  return weights;
}

NamedTensors average_weights(const BuiltRun& run) {
  NamedTensors weights;
  if (run.average_model == nullptr) return weights;
  add_weights(*run.average_model, "average.model.", weights);
  add_weights(*run.average_task, "average.task.", weights);
  return weights;
}

std::shared_ptr<Dataset> data_of_entry(const BuiltRun& run, const EvaluationEntry& entry,
                                       Registry& registry) {
  const SameRandomNumbers same;
  if (!differs(run.experiment, entry.experiment, "dataset")) return run.dataset;
  return registry.dataset(entry.experiment.dataset, {run.streams});
}

void check_data_fits(const BuiltRun& run, const EvaluationEntry& entry, const Dataset& dataset,
                     Registry& registry) {
  if (&dataset == run.dataset.get()) return;
  check_vocabulary(*run.dataset, dataset);
  if (!reads_features(entry.experiment, registry.catalogue())) {
    check_classes(run.dataset->info(), dataset.info());
  }
  check_targets(run.dataset->info(), dataset.info());
}

BuiltRun overlaid(const BuiltRun& run, const EvaluationEntry& entry, Registry& registry,
                  std::shared_ptr<Dataset> dataset) {
  if (!dataset) {
    dataset = data_of_entry(run, entry, registry);
    check_data_fits(run, entry, *dataset, registry);
  }
  const SameRandomNumbers same;
  const Experiment &base = run.experiment, &experiment = entry.experiment;
  const bool other_data = dataset != run.dataset;
  const bool other_model = differs(base, experiment, "model") ||
                           differs(base, experiment, "attention") || entry.average();
  const bool other_task = other_data || other_model || differs(base, experiment, "task");
  BuiltRun overlay = run;
  overlay.experiment = experiment;
  overlay.dataset = std::move(dataset);
  if (other_model) {
    at::manual_seed(run.streams.key("initialisation"));
    // A task of features keeps the run's model: its head has the run's classes, its positions the
    // run's sizes.
    const DatasetInfo& data = reads_features(experiment, registry.catalogue())
                                  ? run.dataset->info()
                                  : overlay.dataset->info();
    overlay.model = registry.model(
        experiment.model, {data, registry.attention_builder(experiment.attention, run.streams)});
    overlay.model->to(run.device);
  }
  check_given(experiment, overlay.dataset->info(), overlay.model->outputs(), registry.catalogue());
  if (other_task) {
    at::manual_seed(run.streams.key("task"));
    overlay.task =
        registry.task(experiment.task, {overlay.dataset->info(), overlay.model->outputs()});
    overlay.task->to(run.device);
  }
  return overlay;
}

void take_weights(const BuiltRun& overlay, const BuiltRun& run, const EvaluationEntry& entry,
                  const NamedTensors& weights, const std::string& source) {
  std::vector<std::string> problems;
  std::vector<std::pair<Tensor, Tensor>> copies;
  const std::string prefix = entry.average() ? "average." : "";
  const auto find = [&](const std::string& name, const Tensor& tensor) {
    const Tensor* saved = weights.find(prefix + name);
    if (saved == nullptr) {
      problems.push_back(fmt::format("{}{} is missing", prefix, name));
    } else if (saved->sizes() != tensor.sizes()) {
      problems.push_back(
          fmt::format("{}{} is {}, expected {}", prefix, name, describe(*saved), describe(tensor)));
    } else {
      copies.emplace_back(tensor, *saved);
    }
  };
  if (overlay.model != run.model) each_tensor(*overlay.model, "model.", find);
  if (overlay.task != run.task) each_tensor(*overlay.task, "task.", find);
  if (!problems.empty()) {
    throw DataError(fmt::format("{}: the weights do not fit evaluation '{}': {}", source,
                                entry.name, join(problems, "; ")));
  }
  const c10::NoGradGuard no_grad;
  for (auto& [tensor, saved] : copies) tensor.copy_(saved);
}

Metrics evaluate_overlay(BuiltRun& overlay, const EvaluationEntry& entry,
                         const std::atomic<bool>& stop, Fitted* fitted) {
  const Split split = checked_split(overlay, entry);
  BuiltRun drawing = drawing_as(overlay, entry);
  const SameRandomNumbers same;
  at::manual_seed(drawing.streams.key("passes"));  // of models that draw
  return evaluate_split(drawing, split, stop, fitted);
}

void evaluate_overlay_examples(BuiltRun& overlay, const EvaluationEntry& entry,
                               const std::atomic<bool>& stop,
                               const std::function<void(const ExampleMetrics&)>& use,
                               Fitted* fitted) {
  const Split split = checked_split(overlay, entry);
  BuiltRun drawing = drawing_as(overlay, entry);
  const SameRandomNumbers same;
  at::manual_seed(drawing.streams.key("passes"));
  evaluate_examples(drawing, split, stop, use, fitted);
}

}  // namespace attnlab
