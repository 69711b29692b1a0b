// `evaluate:` of an experiment: its composition with some values changed, asked and not trained.
//
//   evaluate:
//     clean: {}                                  the run itself
//     fog: {set: {dataset: {corruption: fog}}, when: each}
//     swap: {over: {dataset.word_swap: [0.01]}}  swap/0.01, ..., and swap, their mean
//     knn: {set: {task: {use: knn}}, weights: average}
//     answers: {predictions: true}               the run itself, with its score of each example
//
// `set` is merged as compositions are, so that another `use:` drops the old options; the result is
// checked like any experiment. Nothing here is part of a training, so that entries may be added to
// a run that is finished; the one that `train.early_stop.metric` names is the exception.
#pragma once

#include <string>
#include <vector>

#include "framework/experiment/experiment.h"

namespace attnlab {

/// Stands for the run itself.
inline constexpr const char* kClean = "clean";

/// What an entry says beside `set` and `over`.
struct EvaluationOptions {
  std::string when = "end";
  std::string weights = "last";
  std::string split = "test";
  bool predictions = false;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("when", when, one_of("end", "each"),
      "only at the end of training, or also whenever the run itself is evaluated");
    v("weights", weights, one_of("last", "average"),
      "the run's weights, or their running mean (train.average)");
    v("split", split, one_of("test", "validation"), "split of the entry's dataset");
    v("predictions", predictions,
      "keep the metrics of each example, for `attnlab compare --pair example`; costs a forward "
      "pass per example");
  }
};

/// One evaluation: an entry, or one point of an entry's `over`.
struct EvaluationEntry {
  std::string name;   ///< "fog", "swap/0.01"
  std::string group;  ///< "swap", whose mean it is part of; empty: of none
  EvaluationOptions options;
  Node set;               ///< what it changes, `over`'s value included
  Experiment experiment;  ///< the composition with that

  bool each() const { return options.when == "each"; }
  bool average() const { return options.weights == "average"; }
};

/// The entries of an experiment in their order, without `clean`.
/// @throws ConfigError with every problem; IncompatibleError.
std::vector<EvaluationEntry> evaluations_of(const Experiment& experiment,
                                            const Catalogue& catalogue);

/// Checks a composition's `evaluate` against the experiment, whose other parts are resolved.
/// @param section   null: none
/// @param problems  what is wrong is appended
/// @param unfit     what is wrong with attentions alone
/// @returns the section with its defaults filled in; null where there is none
Node resolve_evaluations(const Node& section, Experiment& experiment, const Catalogue& catalogue,
                         std::vector<std::string>& problems, std::vector<std::string>& unfit);

/// The same where other parts of the experiment are wrong: what can be said without them.
void check_evaluation_keys(const Node& section, const Experiment& experiment,
                           const Catalogue& catalogue, std::vector<std::string>& problems);

/// The experiment with the entries of a file in the place of its own.
/// @param path  of a file with an `evaluate:` map; it may extend others
/// @throws ConfigError.
Experiment with_evaluations(const Experiment& experiment, const std::string& path,
                            const Catalogue& catalogue);

/// The entry or group of entries whose result a metric is: "fog/accuracy" is fog's.
/// @returns a key of `evaluate`, or nothing.
std::string entry_of_metric(const Node& evaluate, const std::string& metric);

/// 8 hexadecimal digits of what an entry evaluates: its parts with their options and plugin files,
/// split, whether predictions are kept, and the file of weights. The data are told apart by the
/// digits after these.
/// @param weights  the weights' file_hash
/// @throws FileError when a plugin's file cannot be read.
std::string evaluation_hash(const EvaluationEntry& entry, const std::string& weights);
/// The whole hash: 16 digits.
/// @param data  the fingerprint of the entry's dataset
std::string evaluation_hash(const EvaluationEntry& entry, const std::string& weights,
                            const std::string& data);

}  // namespace attnlab
