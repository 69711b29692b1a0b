#include "runner/suite_until.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "framework/base/text.h"
#include "framework/comparison/until_width.h"
#include "runner/launcher.h"

namespace attnlab {
namespace {

namespace po = boost::program_options;

/// The seeds of the cells, in their order, and then the next ones.
Words seeds_of(const Suite& suite, std::int64_t count) {
  std::set<std::int64_t> known;
  for (const Cell& cell : suite.cells) known.insert(cell.seed);
  while (static_cast<std::int64_t>(known.size()) < count) known.insert(*known.rbegin() + 1);
  Words words;
  for (const std::int64_t seed : known) words.push_back(std::to_string(seed));
  return words;
}

bool begins_with(const std::string& word, const std::string& key) {
  return word.rfind(key + "=", 0) == 0 || word.rfind(key + "+=", 0) == 0;
}

/// The command line's overrides with the seeds and the level of a look.
Words overrides_of(const Words& given, const Words& seeds, double level) {
  Words all;
  for (const std::string& word : given) {
    if (!begins_with(word, "seeds") && !begins_with(word, "compare.level")) all.push_back(word);
  }
  all.push_back("seeds=[" + join(seeds, ",") + "]");
  all.push_back("compare.level=" + shortest(level));
  return all;
}

/// @throws ConfigError where there is nothing to look at, or one width cannot be meant.
void check(const Suite& suite, const UntilWidth& until, std::int64_t seeds) {
  if (!suite.compare) {
    throw ConfigError(
        "--until-width: the suite compares nothing; give it a section, as compare: {test: t}");
  }
  if (suite.attentions.size() < 2) {
    throw ConfigError("--until-width: the suite has one attention; a difference needs two");
  }
  if (seeds > until.most_seeds) {
    throw ConfigError(fmt::format(
        "--max-seeds: the suite begins with {} seeds, of which two are the fewest; expected a "
        "number from {} on, found {}",
        seeds, seeds, until.most_seeds));
  }
}

Comparison compared(const Suite& suite, double level, const Catalogue& catalogue) {
  CompareOptions options = *suite.compare;
  options.level = level;
  options.pair = "seed";
  return compare_runs(find_runs({suite.folder}), options, suite.baseline, &catalogue);
}

}  // namespace

void add_until_options(Usage& usage) {
  usage.options.add_options()("until-width", po::value<double>()->value_name("W"),
                              "with --max-seeds: add seeds until the interval of every difference "
                              "to the baseline is at most this wide, in the unit of the table "
                              "(points); intervals and tests are corrected for repeated looks")(
      "max-seeds", po::value<std::int64_t>()->value_name("N"),
      "with --until-width: maximum number of seeds");
}

std::optional<UntilWidth> until_width(const Arguments& arguments) {
  const bool width = arguments.has("until-width"), most = arguments.has("max-seeds");
  if (!width && !most) return std::nullopt;
  if (!width || !most) {
    throw ConfigError(
        fmt::format("--{} goes with --{} alone; give both, as --until-width 0.5 "
                    "--max-seeds 20",
                    width ? "until-width" : "max-seeds", width ? "max-seeds" : "until-width"));
  }
  const UntilWidth until{arguments.options["until-width"].as<double>(),
                         arguments.options["max-seeds"].as<std::int64_t>()};
  if (!(until.width > 0) || !std::isfinite(until.width)) {
    throw ConfigError(
        fmt::format("--until-width: expected a number above 0, found {}", shortest(until.width)));
  }
  if (until.most_seeds < 2 || until.most_seeds > 10'000) {
    throw ConfigError(
        fmt::format("--max-seeds: expected a number from 2 to 10000, found {}", until.most_seeds));
  }
  if (arguments.has("dry-run")) {
    throw ConfigError(
        "--dry-run: how many seeds --until-width takes is not known before they run; leave it out, "
        "and give seeds=[...] to see what the most cost");
  }
  if (!launcher_of(arguments)->waits()) {
    throw ConfigError(
        "--until-width looks at results between runs, and this launcher does not wait for them; "
        "take --launcher local");
  }
  return until;
}

int run_until(const UntilWidth& until, const SuiteLoader& loader, const Arguments& arguments,
              const std::string& command, const Catalogue& catalogue) {
  const Suite planned = loader(arguments.overrides)(/*use_fallback=*/false);
  const auto first =
      std::max<std::int64_t>(2, static_cast<std::int64_t>(seeds_of(planned, 0).size()));
  check(planned, until, first);
  const std::vector<std::int64_t> looks = looks_until(first, until.most_seeds);
  const double level = planned.compare->level / static_cast<double>(looks.size());
  for (std::size_t look = 0; look < looks.size(); ++look) {
    const std::string place = fmt::format("look {} of {}", look + 1, looks.size());
    const LoadSuite load =
        loader(overrides_of(arguments.overrides, seeds_of(planned, looks[look]), level));
    const auto noted = [&](bool use_fallback) {
      Suite suite = load(use_fallback);
      suite.notes.push_back(fmt::format(
          "seeds were added until intervals are at most {} wide: {}; for that intervals and tests "
          "have the level {} / {} (Bonferroni)",
          shortest(until.width), place, shortest(planned.compare->level), looks.size()));
      return suite;
    };
    const int code = run_suite(noted, arguments, command, catalogue);
    if (code != kDone) return code;
    const Comparison comparison = compared(planned, level, catalogue);
    if (!common_metric(comparison)) {
      throw ConfigError(
          "--until-width: the experiments are judged by different metrics, so one width does not "
          "apply to all; name a metric that all have (compare.metric=NAME), or take fewer "
          "experiments");
    }
    const std::optional<WidestInterval> widest = widest_interval(comparison);
    if (!widest) {
      throw ConfigError(
          "--until-width: no attention has a value beside one of the baseline's: see the table");
    }
    const bool reached = widest->width <= until.width;
    std::cout << fmt::format(
                     "until-width: {} seeds, {}: the widest interval is {}{}{} ({} on {}), {} {}",
                     looks[look], place, shortest(widest->width), widest->unit.empty() ? "" : " ",
                     widest->unit, widest->attention, widest->experiment,
                     reached ? "at most" : "above", shortest(until.width))
              << "\n"
              << std::flush;
    if (reached) return kDone;
  }
  std::cerr << "attnlab: stopped at --max-seeds: intervals are wider than --until-width\n";
  return kIncomplete;
}

}  // namespace attnlab
