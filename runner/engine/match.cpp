// attnlab match: the values that a suite's `match:` asks for, found by building models.
#include "framework/experiment/match.h"

#include <iostream>
#include <map>

#include "framework/experiment/compositions.h"
#include "framework/experiment/identity.h"
#include "framework/suites/suite.h"
#include "framework/train/costs.h"
#include "runner/engine/engine.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// Counts by building models, on data that are opened once.
class Counter {
 public:
  Counter(std::string hold, Registry& registry) : hold_(std::move(hold)), registry_(registry) {}

  std::int64_t operator()(const Experiment& experiment) {
    const std::int64_t seed = experiment.seeds.at(0);
    std::shared_ptr<Dataset>& opened =
        opened_[{canonical_text(experiment.resolved.at("dataset")), seed}];
    const BuiltRun run = build_run(experiment, seed, registry_, opened);
    opened = run.dataset;
    return hold_ == "flops" ? forward_flops(run) : run.parameter_count();
  }

 private:
  std::string hold_;
  Registry& registry_;
  std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<Dataset>> opened_;
};

}  // namespace

int match_command(const Words& words) {
  Usage usage = match_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const Catalogue& catalogue = registry.catalogue();
  const std::string file = find_composition(arguments.words[0], "suites");
  const Suite suite = load_suite(file, arguments.overrides, catalogue, kRunsFolder);
  if (!suite.match) {
    throw ConfigError(Place{file, 0, 0}, "has no `match:` section, which says what to hold equal");
  }
  MatchedValues values;
  Counter count(suite.match->hold, registry);
  const Matcher search = [&](const std::string& experiment, const std::string& attention,
                             const CellWith& cell) {
    if (attention == suite.baseline) return Node();
    try {
      const MatchedValue found = match_value(
          *suite.match, suite.match_place, suite.baseline, attention, cell,
          [&](const Experiment& one) { return count(one); }, catalogue);
      if (found.adjusted) values[{experiment, attention}] = found;
    } catch (const DataMissingError&) {  // the suite says what becomes of these cells
    }
    return Node();
  };
  load_suite(file, arguments.overrides, catalogue, kRunsFolder, arguments.has("fallback"), search);
  std::cout << matches_json(values) << "\n";
  return kDone;
}

}  // namespace attnlab
