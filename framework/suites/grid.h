// The points of a grid of values: what a sweep and the `grid:` of a suite have in common.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/node.h"
#include "framework/manifest/discovery.h"
#include "framework/suites/sweep_grammar.h"

namespace attnlab {

/// Values, as YAML, of keys at one point.
using GridPoint = std::vector<std::pair<std::string, std::string>>;

/// "model" of "model" and "model.use", "attention" of "attention.layers.last", too: keys that
/// choose a plugin, and with it which keys there are. Empty for other keys.
std::string chosen_part(const std::string& key);

/// The full key that a word stands for: itself, or the only key that ends with it
/// ("lr": "train.optimizer.lr").
/// @param keys    of the experiment
/// @param source  for messages
/// @throws ConfigError with the candidates where there is none or more than one.
std::string full_key(const std::string& word, const std::vector<std::string>& keys,
                     const std::string& source);

/// Replaces short keys by full ones.
/// @param with  the experiment's composition with these arguments: each plugin that is chosen has
///              its own keys
/// @throws ConfigError with every problem: unknown and doubtful keys, keys that vary twice, and
///         those that make the runs themselves (seeds, name).
void expand_keys(SweepWords& sweep,
                 const std::function<Node(const std::vector<std::string>&)>& with,
                 const Catalogue& catalogue);

/// Every combination, the last axis fastest. @throws ConfigError for more than 10,000.
std::vector<GridPoint> grid_points(const std::vector<SweepAxis>& axes);

/// What is set at one point, "key=value": choices of plugins first, since they drop options.
std::vector<std::string> arguments_of(const std::vector<std::string>& fixed,
                                      const GridPoint& point);

/// Names of points: "vit,lr=0.0001,depth=2", the varied keys by their last word, in full where two
/// share it. The attention is not among them: it is a table's other dimension.
class PointNames {
 public:
  PointNames(std::string base, const std::vector<SweepAxis>& axes);

  /// Short, and another for each point.
  std::string of(const GridPoint& point);
  /// {"lr", "0.0001"}, {"depth", "2"}: another word for each value of a key.
  GridPoint words_of(const GridPoint& point) const;

 private:
  void add_words(const SweepAxis& axis);

  std::string base_;
  std::map<std::string, int> count_;
  std::map<std::pair<std::string, std::string>, std::string> words_;  // by key and value
  std::map<std::string, GridPoint> points_;
};

}  // namespace attnlab
