// `match:` of a suite: attentions compared at equal size, or at equal cost.
//
//   match: {hold: parameters, by: model.dim, step: 4, within: 0.01}
//
// Every attention's model gets the parameters (or FLOPs) that the baseline's has, as nearly as the
// named option allows: per experiment, its value is the multiple of `step` whose quantity is
// nearest. What is counted is known once a model is built, so the search asks for it; where that is
// done is the caller's business.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "framework/experiment/experiment.h"

namespace attnlab {

struct MatchOptions {
  std::string hold = "parameters";
  std::string by;
  double step = 0;
  double within = 0.01;
  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("hold", hold, one_of("parameters", "flops"),
      "what is equal to the baseline's for every attention");
    v("by", by, required(), "the option that is adjusted, a number of the model: model.dim");
    v("step", step, at_least(0),
      "values that are tried are multiples of it (the number of heads, say); 0: 1 for a whole "
      "number, 0.01 for another");
    v("within", within, range(0, 1), "accepted difference to the baseline, as a share of it");
  }
};

/// Checks that an experiment's model has such an option, with a value to start from.
/// @param place  of the section
/// @throws ConfigError naming the options that there are.
void check_match(const MatchOptions& options, const Place& place, const Experiment& experiment,
                 const Catalogue& catalogue);

/// Composes an experiment of a suite under one of its attentions, with `over` laid over it (null:
/// as it is). @throws ConfigError.
using CellWith = std::function<Experiment(const std::string& attention, const Node& over)>;

/// What is laid over a cell of a suite; null: nothing.
/// @param experiment, attention  the cell's, by name and label
using Matcher = std::function<Node(const std::string& experiment, const std::string& attention,
                                   const CellWith& cell)>;

/// What an experiment's model has of the quantity that is held.
using QuantityOf = std::function<std::int64_t(const Experiment& experiment)>;

/// A value that was found.
struct MatchedValue {
  std::string value;
  std::int64_t quantity = 0, target = 0;  ///< with it; of the baseline
  bool adjusted = false;                  ///< it is another than the experiment's own
};
/// By experiment and attention; adjusted ones alone.
using MatchedValues = std::map<std::pair<std::string, std::string>, MatchedValue>;

/// The value of the option under which `attention` has what `baseline` has: by bisection, as the
/// quantity grows with the option.
/// @returns the value; the one that it has already where no other is nearer.
/// @throws ConfigError where the option is not a number of the model, or has no value to start
/// from,
///         and where no value is near enough, with the nearest two.
MatchedValue match_value(const MatchOptions& options, const Place& place,
                         const std::string& baseline, const std::string& attention,
                         const CellWith& cell, const QuantityOf& quantity,
                         const Catalogue& catalogue);

/// The tree {model: {dim: 124}} whose value has match's origin.
Node matched_tree(const MatchOptions& options, const std::string& baseline,
                  const std::string& value);

/// Lays over what was found before.
Matcher matcher_of(const MatchOptions& options, const std::string& baseline, MatchedValues values);

/// JSON and back, for the process that searches. @throws DataError for other text.
std::string matches_json(const MatchedValues& values);
MatchedValues read_matches(const std::string& json);

}  // namespace attnlab
