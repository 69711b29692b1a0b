// What a metric says of itself: its name, which way is better, and its unit. Tasks state it, runs
// record it, and tables, comparisons, reports and early stopping read it: nothing is guessed from
// the name.
#pragma once

#include <string>
#include <vector>

namespace attnlab {

enum class Better { higher, lower, neither };

struct MetricInfo {
  std::string name;  ///< "accuracy"; within an evaluation named "fog" its value is "fog/accuracy"
  Better better = Better::higher;
  /// "share": a part of one, shown in percent. "share of runs": 1 or 0 of each run, so that the
  /// mean over runs is a share of them. "bytes": shown in MB. "flop": in millions. Else shown as it
  /// is, behind the name where it is not empty: "percent", "nats", "nats/token", "bits/character",
  /// "s".
  std::string unit{};
  /// The class that it is about, as its name ends: "shirt" of "ap50_shirt"; empty: all of them. The
  /// report's page shows such metrics in tables with a row a class.
  std::string of_class{};

  bool operator==(const MetricInfo&) const = default;
};

}  // namespace attnlab
