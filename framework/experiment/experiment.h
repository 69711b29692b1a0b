// An experiment: a model, its attention, a task and a dataset, and how to train them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/options.h"
#include "framework/experiment/init_options.h"
#include "framework/experiment/part.h"
#include "framework/experiment/train_options.h"
#include "framework/manifest/discovery.h"

namespace attnlab {

/// What a run records of its attention layers while it trains: framework/train/attention_log.h.
struct TraceOptions {
  std::int64_t every = 100;
  std::vector<std::string> record = {"logit_max", "query_norm", "key_norm", "entropy"};
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("every", every, at_least(0),
      "steps between records, beside the record of the first step; 0: none");
    v("record", record,
      one_of("logit_max", "logit_max_norms", "query_norm", "key_norm", "key_norm_by_kind",
             "entropy", "bias"),
      "what each layer's lines of metrics.jsonl hold");
  }
};

/// What a paper prints of its model, to be held against what is built. 0: it prints none.
struct PublishedCounts {
  double parameters = 0;
  double multiply_adds = 0;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("parameters", parameters, at_least(0), "the model's parameters");
    v("multiply_adds", multiply_adds, at_least(0),
      "multiply-adds of one example's forward pass; papers often call them FLOPs");
  }
};

struct Experiment {
  std::string name;
  Part model, attention, task, dataset;
  TrainOptions train;
  TraceOptions trace{.every = 0};   ///< off unless the composition has `trace`
  std::optional<InitOptions> init;  ///< where the composition has `init`
  PublishedCounts published{};      ///< nothing depends on them
  std::vector<std::int64_t> seeds;
  /// Other plugins than the above in the evaluation that `train.early_stop.metric` names: what they
  /// say chooses the epoch.
  std::vector<Part> judges;
  /// The whole composition with every default filled in; loads again to the same experiment.
  Node resolved;

  /// Model, attention, the attentions of its `layers`, task, dataset. One plugin may serve several.
  std::vector<const Part*> parts() const;
  /// 16 hexadecimal digits of everything that training depends on, that is but for name, seeds,
  /// `published` and `evaluate` (the entry that `train.early_stop.metric` names aside): equal for
  /// equal experiments, however their numbers are written (1e-3 or 0.001). A trace changes no
  /// number of a run, but it is counted where it is on: a run without it, finished before, does not
  /// pass for one with it.
  std::string hash() const;
  /// The same of everything but the attention.
  std::string hash_without_attention() const;
};

/// What readers of an experiment's numbers must know of how its model was chosen; empty for the
/// model of the last epoch.
std::string protocol_note(const Experiment& experiment);

/// The attention does not honour what the model needs, and nothing else is wrong: a finding about
/// the attention, not a mistake in a file.
class IncompatibleError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// Checks a composition against the plugins' manifests: keys, types, ranges, and that the parts fit
/// (what each takes is given by another; the attention has the traits that the model needs).
/// @param composed   as `compose_file` makes it
/// @param name       the experiment's name where the composition gives none
/// @param beginning  files of experiments that begin with this one (`init.experiment`)
/// @throws ConfigError with every problem, a line each; IncompatibleError.
Experiment resolve_experiment(const Node& composed, const Catalogue& catalogue,
                              const std::string& name,
                              const std::vector<std::string>& beginning = {});

/// Composes and resolves a file. The name is the file's, without folder and ending.
Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides,
                           const Catalogue& catalogue);

/// Checks a run's frozen configuration (`frozen_tree`) likewise. No file that it names is composed.
/// @throws also where it begins with an experiment and does not say with which configuration.
Experiment frozen_experiment(const Node& frozen, const Catalogue& catalogue,
                             const std::string& name);

}  // namespace attnlab
