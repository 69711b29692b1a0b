#include "framework/suites/suite_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "framework/base/text.h"
#include "framework/config/compose.h"

namespace attnlab {
namespace {

using Problems = std::vector<std::string>;
using Words = std::vector<std::string>;

/// "argument 'grid.lr': ..." of the grammar as "file:line:column: grid.lr: ...".
std::string placed(const std::string& line, const SuiteGrid& grid) {
  for (const auto& [source, place] : grid.places) {
    const std::string start = fmt::format("argument '{}': ", source);
    if (line.rfind(start, 0) == 0)
      return fmt::format("{}: {}: {}", place.str(), source, line.substr(start.size()));
  }
  return line;
}

/// Why a grid, or `tune`, does not vary a key; empty where it does.
std::string obstacle(const std::string& key, bool tunes) {
  const std::string part = key.substr(0, key.find('.'));
  if (part == "attention") return "the suite's 'attentions' are what is varied there";
  if (key == "seeds") return "the suite's own 'seeds' are";
  if (key == "name") return "each point gets its own";
  if (key == "schema") return "it is the format's version";
  if (!tunes) return "";
  if (part == "task" || part == "dataset" || part == "evaluate" || key == "train.protocol" ||
      key.starts_with("train.early_stop")) {
    return "tries are judged by it, and would not compare";
  }
  if (!chosen_part(key).empty()) return "it chooses a plugin, and tries differ in values alone";
  return "";
}

/// "1e-3,1e-2" of a list; a text as it stands. @param source  "grid.lr"
std::string values_text(const Node& values, const std::string& source) {
  if (values.is_scalar()) return values.text();
  if (!values.is_list() || values.items().empty()) {
    throw ConfigError(values.place(),
                      fmt::format("{}: expected a list of values, range(start, stop, step) or "
                                  "logspace(low, high, count), found {}",
                                  source, to_flow(values)));
  }
  Words all;
  all.reserve(values.items().size());
  for (const Node& item : values.items()) all.push_back(to_flow(item));
  return join(all, ",");
}

/// `zip: {dim: [32, 64], heads: [2, 4]}`. @param source  "grid.zip"
SweepAxis zipped(const Node& section, const std::string& source) {
  if (!section.is_map() || section.entries().size() < 2) {
    throw ConfigError(
        section.place(),
        fmt::format("{}: expected two or more keys with equally many values, found {}", source,
                    to_flow(section)));
  }
  Words parts;
  for (const auto& [key, values] : section.entries()) {
    const std::string inner = fmt::format("{}.{}", source, key);
    parts.push_back(fmt::format("{}=[{}]", key, values_text(values, inner)));
  }
  const std::string word = fmt::format("zip({})", join(parts, ", ")),
                    start = fmt::format("argument '{}': ", word);
  try {
    SweepAxis axis = parse_sweep({word}).axes.at(0);
    axis.source = source;
    return axis;
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    throw ConfigError(
        section.place(),
        fmt::format("{}: {}", source, text.substr(text.rfind(start, 0) == 0 ? start.size() : 0)));
  }
}

void note(const ConfigError& error, const SuiteGrid& grid, Problems& problems) {
  std::istringstream lines(error.what());
  for (std::string line; std::getline(lines, line);) problems.push_back(placed(line, grid));
}

void refuse_obstacles(const SweepAxis& axis, const Place& place, const std::string& name) {
  for (const std::string& key : axis.keys) {
    const std::string reason = obstacle(key, name == "tune");
    if (!reason.empty()) {
      throw ConfigError(place, fmt::format("{}: does not vary '{}': {}", name, key, reason));
    }
  }
}

std::vector<GridPoint> points_of(const SweepWords& sweep, const SuiteGrid& grid) {
  try {
    return grid_points(sweep.axes);
  } catch (const ConfigError& error) {
    throw ConfigError(grid.places.begin()->second, error.what());
  }
}

}  // namespace

SuiteGrid read_grid(const Node& section, Problems& problems, const std::string& name) {
  SuiteGrid grid;
  grid.name = name;
  if (section.entries().empty()) {
    problems.push_back(
        fmt::format("{}: {}: expected keys of the experiments with lists of values, like {{lr: "
                    "[1e-4, 1e-3]}}, found {}",
                    section.place().str(), name, to_flow(section)));
    return grid;
  }
  for (const auto& [key, values] : section.entries()) {
    const std::string source = fmt::format("{}.{}", name, key);
    const Place place = section.key_place(key);
    grid.places[source] = place;
    try {
      SweepAxis axis = key == "zip" ? zipped(values, source)
                                    : sweep_axis(key, values_text(values, source), source);
      refuse_obstacles(axis, place, name);
      grid.axes.push_back(std::move(axis));
    } catch (const ConfigError& error) {
      note(error, grid, problems);
    }
  }
  return grid;
}

std::vector<GridVariant> variants_of(SuiteGrid grid, const std::function<Node(const Words&)>& with,
                                     const Catalogue& catalogue) {
  if (grid.axes.empty()) return {GridVariant{}};
  SweepWords sweep{grid.axes, {}};
  try {
    expand_keys(sweep, with, catalogue);
    for (const SweepAxis& axis : sweep.axes) {
      refuse_obstacles(axis, grid.places.at(axis.source), grid.name);
    }
  } catch (const ConfigError& error) {
    Problems problems;
    note(error, grid, problems);
    throw ConfigError(problems);
  }
  std::map<std::string, Place> places;  // by full key
  for (const SweepAxis& axis : sweep.axes) {
    for (const std::string& key : axis.keys) places[key] = grid.places.at(axis.source);
  }
  PointNames names("", sweep.axes);
  std::vector<GridVariant> variants;
  for (const GridPoint& point : points_of(sweep, grid)) {
    GridVariant variant{names.of(point), names.words_of(point), {}};
    for (const std::string& word : arguments_of({}, point)) {
      variant.changes.push_back(parse_override(word, places.at(word.substr(0, word.find('=')))));
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::vector<std::string> read_pool(const Node* section, const std::vector<std::string>& words,
                                   Problems& problems) {
  if (section == nullptr) return words;
  std::vector<std::string> pool;
  for (const Node& item : section->items()) {
    const std::string& text = item.text();
    const auto is_end = [&](const std::string& word) {
      const std::string ending = "." + word;
      return word == text || (text.size() > ending.size() && text.ends_with(ending));
    };
    const auto found = std::find_if(words.begin(), words.end(), is_end);
    if (found != words.end() && std::count(pool.begin(), pool.end(), *found) == 0) {
      pool.push_back(*found);
    } else {
      problems.push_back(fmt::format("{}: pool: '{}' {}", item.place().str(), text,
                                     found == words.end()
                                         ? "is none of what 'grid' varies" + suggestion(text, words)
                                         : "stands twice"));
    }
  }
  return pool;
}

}  // namespace attnlab
