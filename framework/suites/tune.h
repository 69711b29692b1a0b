// `tune:` of a suite: before its seeds, each attention gets the same number of tries on each
// experiment, and its seeds run with the best.
//
//   tune:
//     lr: [1.0e-4, 3.0e-4, 1.0e-3]     keys and values as in `grid:`
//     weight_decay: [0.01, 0.1]
//     budget: 4                        tries of each attention; without it all combinations
//     seed: 1000                       of the tries: none of the seeds whose results count
//
// That is the rule for external tuning of AlgoPerf (Dahl et al. 2023, arXiv:2306.07179): equal
// budgets, a choice on the validation split. A try is an ordinary run below SUITE/tries, trained
// with one seed and not evaluated any further; its score is what `train.protocol: sound` chooses
// the epoch by. The value that won is an override of the attention's cells, and counts as part of
// it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/experiment/experiment.h"
#include "framework/runs/tuning.h"
#include "framework/suites/cell.h"
#include "framework/suites/suite_grid.h"

namespace attnlab {

struct Suite;

/// What is tried at once.
struct TunePoint {
  std::string suffix;                                       ///< of the try's name: ",lr=0.001"
  std::string text;                                         ///< "lr=0.001, weight_decay=0.1"
  std::vector<std::pair<std::string, std::string>> values;  ///< {"train.optimizer.lr", "0.001"}
  Node changes;                                             ///< to merge into the experiment
};

/// An attention of the suite on one of its experiments.
struct TunedCell {
  std::string experiment, attention;
  std::vector<TunePoint> points;
  std::vector<Experiment> candidates;  ///< with each point's values
};

struct Tuning {
  Place place;
  std::int64_t seed = 1000;
  std::int64_t budget = 0;  ///< 0: every combination
  SuiteGrid lists;
  std::vector<TunedCell> cells;
};

/// @param section   the value of `tune`
/// @param problems  as of `read_grid`
Tuning read_tune(const Node& section, std::vector<std::string>& problems);

/// The combinations that are tried, in the order of the grid. Where they are more than the budget,
/// each is the one whose values were taken least often so far, of equals the first: a larger budget
/// keeps those of a smaller one.
/// @param all  as `variants_of` gives them
/// @throws ConfigError for fewer than two, or fewer than the budget.
std::vector<TunePoint> tune_points(const Tuning& tuning, std::vector<GridVariant> all);

/// Checks that an experiment can be tuned: its epochs are chosen on the validation split, its seeds
/// are not the tries', it does not begin with another one's run.
/// @throws ConfigError.
void check_tuned(const Tuning& tuning, const Experiment& experiment);

/// The tries of all attentions that have cells, in the order of those. The data's fingerprints are
/// taken from there.
std::vector<Cell> try_cells(const Suite& suite);

/// Fills `suite.tuned` and gives each cell the value that the tries of its attention chose. Cells
/// of one whose tries have not all ended, or all diverged, become absent, with the reason.
/// @param tries    `try_cells`, decided on
/// @param waiting  where it is given, it gets the cells that are not chosen yet, instead
void choose_values(Suite& suite, const std::vector<Cell>& tries,
                   std::vector<Cell>* waiting = nullptr);

/// What a suite that is changed in its tries says: that there were others before; empty: none.
std::string earlier_tries_note(const Suite& suite, const std::vector<Cell>& tries);

/// "train.optimizer.lr is chosen by 3 tries of each attention...", and what is chosen by now: lines
/// for a dry run.
std::string tuning_plan(const Suite& suite);

}  // namespace attnlab
