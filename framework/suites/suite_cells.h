// The cells of a suite: each experiment, at each point of the grid, with each attention and seed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/suites/suite.h"
#include "framework/suites/suite_grid.h"

namespace attnlab {

/// An entry of `attentions:`.
struct SuiteAttention {
  std::string label;
  Node part;  ///< {use: quest, eps: 1e-3}: the experiment's section `attention`
  Node set;   ///< what else an experiment has with it: {model: {wiring: cross}}; null: nothing
  Place place;
};

/// `quest`, `{use: quest, as: quest-eps, eps: 1e-3}` and
/// `{use: standard, as: cross, set: {model: {wiring: cross}}}` alike.
/// @throws ConfigError for anything else, and where `set` changes what the suite itself says.
SuiteAttention attention_of(const Node& item);

/// Fills a suite with the cells of its experiments.
class CellMaker {
 public:
  /// All of them must outlive it. @param root  the suite's file, composed
  CellMaker(Suite& suite, const Node& root, const Catalogue& catalogue, bool use_fallback,
            const Matcher& matcher, std::vector<std::string>& problems);

  /// Adds the cells of an experiment. What is wrong is appended to the problems, each once.
  /// @param item  of `experiments:`
  void add(const Node& item, const std::vector<SuiteAttention>& attentions, const SuiteGrid& grid);

  /// Where no attention fits any experiment, that is the suite's problem.
  void refuse_if_nothing_fits();
  /// Whether every item gave a name to an experiment: else nobody knows what the suite has.
  bool knows_all() const { return knows_all_; }

 private:
  /// What the cells of one experiment have in common.
  struct Source {
    const Node& item;
    std::string file;
    Node changed;  ///< the file with what the suite changes in every experiment
    const std::vector<SuiteAttention>& attentions;
    std::vector<TunePoint> tries;  ///< of `tune:`; empty: none
  };

  void add_experiment(const Node& item, const std::vector<SuiteAttention>& attentions,
                      const SuiteGrid& grid);
  void lay_over(Node& composed, Node over);
  Node composed_cell(const Source& source, const GridVariant& variant,
                     const SuiteAttention& attention, const Node& matched);
  void add_variant(const Source& source, const GridVariant& variant);
  /// Where `missing_plugins: skip` is said and one is missing: its cells are absent.
  bool leave_out_uninstalled(const Source& source, const Node& composed, const std::string& name);
  void begin_experiment(const Source& source, const GridVariant& variant, const std::string& name);
  void add_cells(const Node& composed, const std::string& name, const SuiteAttention& attention,
                 const CellWith& with, const std::vector<TunePoint>& tries);
  Experiment add_tuned(const std::string& name, const SuiteAttention& attention,
                       const CellWith& with, const Node& matched,
                       const std::vector<TunePoint>& tries);
  void note_composing(const std::string& text);
  void note(const std::string& text);

  Suite& suite_;
  const Node& root_;
  const Catalogue& catalogue_;
  bool use_fallback_;
  const Matcher& matcher_;
  std::vector<std::string>& problems_;
  std::set<std::string> seen_;  // one mistake in an experiment would else stand there per attention
  std::set<std::string> begun_;                 // names of experiments
  std::vector<std::string> unfit_, composing_;  // what composing found is among the problems, too
  bool knows_all_ = true;
};

/// The seeds of a composition that cannot be resolved; sound ones only, 0 where there are none.
std::vector<std::int64_t> seeds_in(const Node& composed);

}  // namespace attnlab
