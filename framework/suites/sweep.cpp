#include "framework/suites/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include "framework/base/add_once.h"
#include "framework/base/side_by_side.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/experiment/names.h"
#include "framework/experiment/resolved_parts.h"
#include "framework/manifest/attention_section.h"
#include "framework/suites/grid.h"
#include "framework/suites/planned_test.h"
#include "framework/suites/suite_cells.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

void set_seeds(const std::vector<std::int64_t>& seeds, Node& composed) {
  if (seeds.empty()) return;
  Node list = Node::list({"--seeds", 0, 0});
  for (const std::int64_t seed : seeds) {
    list.items().push_back(Node::scalar(std::to_string(seed), {"--seeds", 0, 0}));
  }
  composed.set("seeds", std::move(list));
}

/// A point of the sweep, and what it makes.
struct Point {
  GridPoint keys;
  std::string name;
  std::string attention;            ///< its label
  std::vector<Cell> cells;          ///< one for each seed; none where `unfit` or `wrong` say why
  std::string unfit;                ///< its model and its attention do not go together
  std::vector<std::int64_t> seeds;  ///< of such a point
  std::exception_ptr wrong;
};

/// Whether a point chooses an attention and gives it no label: the file's is of another one.
bool loses_label(const GridPoint& point) {
  bool chosen = false;
  for (const auto& [key, value] : point) {
    if (chosen_part(key) != "attention") continue;
    const Node given = parse_value(value, {});
    if (key == "attention" && given.is_map() && given.find("as") != nullptr) return false;
    chosen = true;
  }
  return chosen;
}

/// The cells of one point.
/// @param known  parts of other points
/// @throws ConfigError.
void resolve_point(Point& point, const Node& composed, const Catalogue& catalogue,
                   const std::string& folder, ResolvedParts& known) {
  try {
    Experiment experiment = resolve_experiment(composed, catalogue, point.name, known);
    point.attention = experiment.attention.label;
    const std::vector<std::int64_t> seeds = experiment.seeds;
    for (std::size_t i = 0; i + 1 < seeds.size(); ++i) {
      point.cells.push_back(make_cell(experiment, seeds[i], folder));
    }
    point.cells.push_back(make_cell(std::move(experiment), seeds.back(), folder));
  } catch (const IncompatibleError& error) {
    point.unfit = error.what();
    point.attention = attention_label(composed.at("attention"));
    point.seeds = seeds_in(composed);
  }
}

/// What the points so far have.
struct Known {
  std::set<std::string> names;
  /// By name and attention: two of one would pass for seeds.
  std::set<std::pair<std::string, std::string>> cells;
};

/// Adds the cells of one point. @throws ConfigError, also what the point has.
void add_point(Suite& suite, Point& point, Known& known) {
  if (point.wrong != nullptr) std::rethrow_exception(point.wrong);
  if (point.unfit.empty() && !known.cells.emplace(point.name, point.attention).second) {
    throw ConfigError(fmt::format(
        "the sweep has two attentions '{}'; tell them apart: '{{use: {}, ..., as: LABEL}}'",
        point.attention, point.cells.front().experiment.attention.name));
  }
  if (known.names.insert(point.name).second) suite.experiments.push_back(point.name);
  add_once(suite.attentions, point.attention);
  std::move(point.cells.begin(), point.cells.end(), std::back_inserter(suite.cells));
  if (point.unfit.empty()) return;
  const std::string reason = point.unfit.substr(point.unfit.find("attention '"));
  const Gap gap{Absence::incompatible, reason.substr(0, reason.find('\n'))};
  for (const std::int64_t seed : point.seeds) {
    suite.absent.push_back({point.name, point.attention, seed, gap, ""});
  }
}

void choose_baseline(Suite& suite, const std::string& given) {
  const auto has = [&](const std::string& label) {
    return std::find(suite.attentions.begin(), suite.attentions.end(), label) !=
           suite.attentions.end();
  };
  suite.baseline = !given.empty() ? given : has("standard") ? "standard" : suite.attentions.front();
  if (has(suite.baseline)) return;
  throw ConfigError(fmt::format("--baseline: '{}' is not one of the sweep's attentions{}", given,
                                suggestion(given, suite.attentions)));
}

/// @throws ConfigError where it would lead out of the folder above.
std::string folder_name(const SweepRequest& request, const std::string& experiment) {
  std::string name = request.name.empty() ? experiment + "-sweep" : request.name;
  const std::string wrong = name_problem(name);
  if (wrong.empty()) return name;
  if (!request.name.empty()) {
    throw ConfigError(fmt::format("--name {}: {}; --out sets the folder above", name, wrong));
  }
  throw ConfigError(fmt::format("{}: '{}' cannot be the sweep's folder: {}; name it: --name NAME",
                                request.file, name, wrong));
}

}  // namespace

Suite make_sweep(const SweepRequest& request, const Catalogue& catalogue, const std::string& root) {
  Words problems;
  const auto attempt = [&](const auto& act) {
    try {
      act();
    } catch (const ConfigError& error) {
      std::istringstream lines(error.what());
      for (std::string line; std::getline(lines, line);) add_once(problems, line);
    }
  };
  SweepWords sweep;
  Composition file;
  Suite suite;
  attempt([&] { sweep = parse_sweep(request.words); });
  attempt([&] {
    file = load_composition(request.file);
    if (!file.problems.empty()) throw ConfigError(file.problems);
  });
  const Node* own_name = file.root.find("name");
  const std::string base =
      own_name != nullptr ? own_name->text() : fs::path(request.file).stem().string();
  attempt([&] { suite.name = folder_name(request, base); });
  if (!problems.empty()) throw ConfigError(problems);
  const auto with = [&](const Words& choice) { return compose(file, choice).root; };
  expand_keys(sweep, with, catalogue);
  suite.file = request.file;
  suite.folder = fmt::format("{}/{}", root, suite.name);
  PointNames names(base, sweep.axes);
  std::vector<Point> points;
  for (GridPoint& keys : grid_points(sweep.axes)) {
    Point& point = points.emplace_back();
    point.name = names.of(keys);
    point.keys = std::move(keys);
  }
  constexpr std::size_t kPointsWorthAThread = 64;
  ResolvedParts parts;
  side_by_side(points.size(), kPointsWorthAThread, [&](std::size_t i) {
    Point& point = points[i];
    try {
      Node composed = compose_file(file, arguments_of(sweep.fixed, point.keys));
      composed.set("name", Node::scalar(point.name, {"sweep", 0, 0}, true));
      set_seeds(request.seeds, composed);
      if (loses_label(point.keys) && composed.at("attention").is_map()) {
        composed.find("attention")->erase("as");
      }
      resolve_point(point, composed, catalogue, suite.folder, parts);
    } catch (const ConfigError&) {
      point.wrong = std::current_exception();
    }
  });
  Words unfit;
  Known known;
  for (Point& point : points) {
    attempt([&] { add_point(suite, point, known); });
    if (!point.unfit.empty()) unfit.push_back(point.unfit);
  }
  if (problems.empty() && suite.cells.empty()) problems = unfit;
  if (!problems.empty()) throw ConfigError(problems);
  choose_baseline(suite, request.baseline);
  plan_test(suite, /*named=*/false);
  return suite;
}

}  // namespace attnlab
