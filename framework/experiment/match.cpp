#include "framework/experiment/match.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/origins.h"
#include "framework/manifest/schema.h"

namespace attnlab {
namespace {

/// The multiples of a step that may be tried.
struct Grid {
  double step = 1;
  bool whole = true;                 ///< values are integers
  std::int64_t first = 1, last = 0;  ///< multiples

  std::string text(std::int64_t multiple) const {
    const double value = step * static_cast<double>(multiple);
    return whole ? std::to_string(std::llround(value)) : shortest(std::round(value * 1e9) / 1e9);
  }
};

/// The option's declaration. @throws ConfigError where there is none, or it is
/// no number.
const OptionSpec& spec_of(const MatchOptions& options, const Place& place, const Experiment& start,
                          const Catalogue& catalogue) {
  if (options.by.rfind("model.", 0) != 0) {
    throw ConfigError(place, fmt::format("match.by: '{}' is not an option of the model; name a "
                                         "number of the model, as model.dim",
                                         options.by));
  }
  const std::string name = options.by.substr(6);
  const Manifest& manifest = *catalogue.find(Kind::model, lookup_name(start.model)).manifest;
  std::vector<std::string> names;
  for (const OptionSpec& one : manifest.options) {
    const bool number = one.type == OptionSpec::Type::integer || one.type == OptionSpec::Type::real;
    if (one.name == name && number && !one.list) return one;
    if (number && !one.list) names.push_back("model." + one.name);
  }
  throw ConfigError(
      place,
      fmt::format("match.by: '{}' is not a number among the options of model '{}'{}; there is {}",
                  options.by, start.model.name, suggestion(options.by, names), join(names, ", ")));
}

double step_of(const MatchOptions& options, const Place& place, bool whole) {
  if (options.step == 0) return whole ? 1 : 0.01;
  if (whole && options.step != std::floor(options.step)) {
    throw ConfigError(place, fmt::format("match.step: {} is not a whole number, but '{}' is one",
                                         shortest(options.step), options.by));
  }
  return options.step;
}

Grid grid_of(const MatchOptions& options, const Place& place, const OptionSpec& spec,
             double start) {
  Grid grid;
  grid.whole = spec.type == OptionSpec::Type::integer;
  grid.step = step_of(options, place, grid.whole);
  // 0 often stands for "the preset's", and is not a size of anything.
  const double low = std::max(spec.low.value_or(0), grid.step);
  const double high = std::min(spec.high.value_or(HUGE_VAL), 64 * start);
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it multiples are not distinct
  if (!(high / grid.step <= kExact)) {
    throw ConfigError(place, fmt::format("match.step: {} is too fine for {}, which is {}; set a "
                                         "coarser match.step",
                                         shortest(grid.step), options.by, shortest(start)));
  }
  grid.first = std::llround(std::ceil(low / grid.step - 1e-9));
  grid.last = std::llround(std::floor(high / grid.step + 1e-9));
  if (grid.first > grid.last) {
    throw ConfigError(place, fmt::format("match.step: no multiple of {} can be tried for {}, which "
                                         "is {} and may be {} to {}; set a finer match.step",
                                         shortest(grid.step), options.by, shortest(start),
                                         shortest(low), shortest(high)));
  }
  return grid;
}

/// The value that an experiment has before anything is adjusted.
double value_of(const MatchOptions& options, const Place& place, const Experiment& start) {
  const Node* node = find_key(start.resolved, options.by);
  const std::optional<double> value = node == nullptr ? std::nullopt : node->as_double();
  if (value && *value > 0) return *value;
  throw ConfigError(
      place, fmt::format("match.by: {} of experiment '{}' is {}, which says nothing of its size; "
                         "give it a value, in the experiment or in the suite's `set`",
                         options.by, start.name, node == nullptr ? "not there" : to_flow(*node)));
}

/// Looks for the multiple whose quantity is nearest to the target.
class Search {
 public:
  using QuantityAt = std::function<std::int64_t(std::int64_t multiple)>;

  Search(const Grid& grid, std::int64_t target, QuantityAt at)
      : grid_(grid), target_(target), at_(std::move(at)) {}

  /// @param start  where to look first
  std::int64_t run(std::int64_t start) {
    std::int64_t low = std::clamp(start, grid_.first, grid_.last), high = low;
    if (quantity(low) > target_) {
      while (quantity(low) > target_ && low > grid_.first) {
        high = low;
        low = std::max(grid_.first, low / 2);
      }
    } else {
      while (quantity(high) < target_ && high < grid_.last) {
        low = high;
        high = std::min(grid_.last, high * 2);
      }
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (quantity(middle) <= target_ ? low : high) = middle;
    }
    below = low;
    above = high;
    return distance(high) < distance(low) ? high : low;
  }

  std::int64_t quantity(std::int64_t multiple) {
    const auto known = known_.find(multiple);
    return known != known_.end() ? known->second : known_[multiple] = at_(multiple);
  }
  std::int64_t distance(std::int64_t multiple) { return std::abs(quantity(multiple) - target_); }

  std::int64_t below = 0, above = 0;  ///< the neighbours of the target

 private:
  Grid grid_;
  std::int64_t target_;
  QuantityAt at_;
  std::map<std::int64_t, std::int64_t> known_;
};

/// "model.dim=124 gives 81234 (-1.20 %)".
std::string found_text(const MatchOptions& options, const std::string& value, std::int64_t quantity,
                       std::int64_t target) {
  char share[32];
  std::snprintf(share, sizeof share, "%+.3g %%",
                100 * (static_cast<double>(quantity) / static_cast<double>(target) - 1));
  return fmt::format("{}={} gives {} ({})", options.by, value, quantity, share);
}

/// What the model says of a value that it refuses, with what to do.
std::int64_t quantity_at(const MatchOptions& options, const Place& place, const std::string& value,
                         const std::function<std::int64_t()>& count) {
  try {
    return count();
  } catch (const IncompatibleError&) {
    throw;
  } catch (const ConfigError& error) {
    throw ConfigError(
        place,
        fmt::format("match: {}={} cannot be tried; set match.step so that its multiples can: {}",
                    options.by, value, error.what()));
  }
}

}  // namespace

void check_match(const MatchOptions& options, const Place& place, const Experiment& experiment,
                 const Catalogue& catalogue) {
  const OptionSpec& spec = spec_of(options, place, experiment, catalogue);
  grid_of(options, place, spec, value_of(options, place, experiment));
}

MatchedValue match_value(const MatchOptions& options, const Place& place,
                         const std::string& baseline, const std::string& attention,
                         const CellWith& cell, const QuantityOf& quantity,
                         const Catalogue& catalogue) {
  const Experiment standard = cell(baseline, Node());
  const Experiment start = cell(attention, Node());
  const OptionSpec& spec = spec_of(options, place, start, catalogue);
  const double value = value_of(options, place, start);
  MatchedValue found{shortest(value), quantity(start), quantity(standard), false};
  if (found.quantity == found.target) return found;
  const Grid grid = grid_of(options, place, spec, value);
  Search search(grid, found.target, [&](std::int64_t multiple) {
    const std::string text = grid.text(multiple);
    return quantity_at(options, place, text, [&] {
      return quantity(cell(attention, matched_tree(options, baseline, text)));
    });
  });
  const std::int64_t best = search.run(std::llround(value / grid.step));
  if (search.distance(best) < std::abs(found.quantity - found.target)) {
    found.value = grid.text(best);
    found.quantity = search.quantity(best);
    found.adjusted = true;
  }
  const auto allowed = options.within * static_cast<double>(found.target);
  if (static_cast<double>(std::abs(found.quantity - found.target)) <= allowed) return found;
  const auto text_at = [&](std::int64_t multiple) {
    return found_text(options, grid.text(multiple), search.quantity(multiple), found.target);
  };
  throw ConfigError(
      place,
      fmt::format(
          "match: attention '{}' of experiment '{}' cannot have the {} {} of '{}' within {} %: "
          "{}{}; allow more by match.within, a finer match.step, or adjust another option",
          attention, start.name, found.target, options.hold, baseline,
          shortest(100 * options.within), text_at(search.below),
          search.above == search.below ? "" : ", " + text_at(search.above)));
}

Node matched_tree(const MatchOptions& options, const std::string& baseline,
                  const std::string& value) {
  const Place place{match_origin(options.hold, baseline), 0, 0};
  Node tree = Node::scalar(value, place);
  std::string key = options.by;
  while (!key.empty()) {
    const std::size_t dot = key.rfind('.');
    Node map = Node::map(place);
    map.set(dot == std::string::npos ? key : key.substr(dot + 1), std::move(tree));
    tree = std::move(map);
    key = dot == std::string::npos ? "" : key.substr(0, dot);
  }
  return tree;
}

Matcher matcher_of(const MatchOptions& options, const std::string& baseline, MatchedValues values) {
  return [=, values = std::move(values)](const std::string& experiment,
                                         const std::string& attention, const CellWith&) {
    const auto found = values.find({experiment, attention});
    return found == values.end() ? Node() : matched_tree(options, baseline, found->second.value);
  };
}

std::string matches_json(const MatchedValues& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [cell, found] : values) {
    list.push_back({{"experiment", cell.first},
                    {"attention", cell.second},
                    {"value", found.value},
                    {"quantity", found.quantity},
                    {"target", found.target}});
  }
  return list.dump();
}

MatchedValues read_matches(const std::string& json) {
  try {
    MatchedValues values;
    for (const auto& one : nlohmann::json::parse(json)) {
      values[{one.at("experiment").get<std::string>(), one.at("attention").get<std::string>()}] = {
          one.at("value").get<std::string>(), one.at("quantity").get<std::int64_t>(),
          one.at("target").get<std::int64_t>()};
    }
    return values;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(std::string("match: the search answered something else: ") + error.what());
  }
}

}  // namespace attnlab
