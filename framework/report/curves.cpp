#include "framework/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/side_by_side.h"
#include "framework/comparison/statistics.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// Split, metric and layer; the layer's number and call first, so that "10" follows "9".
using Key = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
using Points = std::vector<std::pair<double, double>>;  // step, value
using Found = std::map<Key, Points>;
/// What a run wrote, by key; of many runs it is held at a time.
using Series = std::vector<std::pair<const Key*, Points>>;

/// The keys of all runs, each once.
class Keys {
 public:
  const Key* of(const Key& key) {
    const std::lock_guard<std::mutex> lock(guard_);
    return &*keys_.insert(key).first;
  }

 private:
  std::mutex guard_;
  std::set<Key> keys_;
};

bool is_bookkeeping(const std::string& name) {
  return name == "split" || name == "step" || name == "epoch" || name == "layer" || name == "call";
}

std::int64_t whole_number(const json& line, const char* name, std::int64_t otherwise) {
  try {
    return line.value(name, otherwise);
  } catch (const json::exception&) {  // no whole number, or one that does not fit
    return otherwise;
  }
}

void add_line(const json& line, Found& found) {
  if (!line.is_object() || !line.contains("split") || !line.at("split").is_string()) return;
  const auto step = line.find("step");
  if (step == line.end() || !step->is_number()) return;
  const std::int64_t layer = whole_number(line, "layer", -1), call = whole_number(line, "call", 0);
  for (const auto& [name, value] : line.items()) {
    if (is_bookkeeping(name) || !value.is_number()) continue;
    const double number = value.get<double>();
    if (!std::isfinite(number)) continue;
    found[{line.at("split").get<std::string>(), name, layer, call}].emplace_back(
        step->get<double>(), number);
  }
}

Series read_series(const std::string& folder, Keys& keys) {
  Found found;
  std::istringstream text(read_log(folder));
  for (std::string line; std::getline(text, line);) {
    add_line(parsed_line(line), found);  // a discarded value is not an object
  }
  Series series;
  series.reserve(found.size());
  for (auto& [key, points] : found) {
    points.shrink_to_fit();
    series.emplace_back(keys.of(key), std::move(points));
  }
  return series;
}

/// Which bucket of `buckets` a step from 1 to `last` falls into.
std::size_t bucket_of(double step, double last, std::size_t buckets) {
  const double place = (std::max(step, 1.0) - 1) / std::max(last, 1.0);
  return std::min(buckets - 1,
                  static_cast<std::size_t>(place * static_cast<double>(buckets) + 1e-9));
}

/// What one seed has in one bucket.
struct Filling {
  double steps = 0, values = 0, count = 0;
};

/// Buckets, each with what every seed that has something there has.
using Buckets = std::map<std::size_t, std::vector<Filling>>;

void fill(const Points& points, double last, std::size_t buckets, Buckets& out) {
  std::map<std::size_t, Filling> own;
  for (const auto& [step, value] : points) {
    Filling& filling = own[bucket_of(step, last, buckets)];
    filling.steps += step;
    filling.values += value;
    filling.count += 1;
  }
  for (const auto& [bucket, filling] : own) out[bucket].push_back(filling);
}

void append(const Buckets& buckets, Curve& curve) {
  for (const auto& [bucket, fillings] : buckets) {
    std::vector<double> values;
    double steps = 0;
    for (const Filling& filling : fillings) {
      values.push_back(filling.values / filling.count);
      steps += filling.steps / filling.count;
    }
    const Summary summary = summary_of(values);
    curve.steps.push_back(steps / static_cast<double>(fillings.size()));
    curve.mean.push_back(summary.mean);
    curve.deviation.push_back(summary.deviation);
    curve.seeds.push_back(summary.count);
  }
}

/// Runs of one slice and attention, and what they wrote.
struct Group {
  const Slice* slice = nullptr;
  std::string attention;
  std::map<Key, std::vector<const Points*>> series;
  double last_step = 1;
};

void add_run(const Series& series, Group& group) {
  for (const auto& [key, points] : series) {
    for (const auto& point : points) group.last_step = std::max(group.last_step, point.first);
    group.series[*key].push_back(&points);
  }
}

/// @param series  of each run
std::vector<Group> groups_of(const std::vector<RunRecord>& runs, const std::vector<Slice>& slices,
                             const std::vector<Series>& series) {
  std::vector<Group> groups;
  for (const Slice& slice : slices) {
    std::map<std::string, Group> by_attention;
    for (const std::size_t run : slice.runs)
      add_run(series[run], by_attention[runs[run].attention]);
    for (auto& [attention, group] : by_attention) {
      group.slice = &slice;
      group.attention = attention;
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

bool is_trace(const Key& key) { return std::get<2>(key) >= 0; }

/// Traces, of which there are many, share a budget of their own.
std::size_t points_within(const CurveBudget& budget, const std::vector<Group>& groups,
                          bool traces) {
  std::size_t curves = 0;
  for (const Group& group : groups) {
    for (const auto& [key, seeds] : group.series) curves += is_trace(key) == traces ? 1 : 0;
  }
  const std::size_t fair = budget.most_values / std::max<std::size_t>(1, curves);
  return std::max<std::size_t>(1,
                               std::min(budget.most_points, std::max(budget.fewest_points, fair)));
}

}  // namespace

std::string read_log(const std::string& run_folder) {
  const std::string path = run_folder + "/metrics.jsonl";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "";
  try {
    return read_text(path, kLargestLog);
  } catch (const FileError&) {  // `build_report` names it
    return "";
  }
}

json parsed_line(const std::string& line) {
  constexpr std::size_t kLongestLine = std::size_t{16} << 20;  // its values take ten times that
  return line.size() > kLongestLine ? json(json::value_t::discarded)
                                    : json::parse(line, nullptr, false);
}

std::string layer_name(std::int64_t layer, std::int64_t call) {
  if (layer < 0) return "";
  return fmt::format("{}{}", layer, call > 0 ? fmt::format(" call {}", call) : "");
}

std::vector<Curve> curves_of(const std::vector<RunRecord>& runs, const std::vector<Slice>& slices,
                             const CurveBudget& budget) {
  constexpr std::size_t kRunsWorthAThread = 16;
  Keys keys;
  std::vector<Series> series(runs.size());
  side_by_side(runs.size(), kRunsWorthAThread,
               [&](std::size_t i) { series[i] = read_series(runs[i].folder, keys); });
  const std::vector<Group> groups = groups_of(runs, slices, series);
  const std::size_t most[] = {points_within(budget, groups, false),
                              points_within(budget, groups, true)};
  std::vector<Curve> curves;
  for (const Group& group : groups) {
    for (const auto& [key, all] : group.series) {
      // Few steps need no buckets wider than one. (Any number may stand in the file.)
      const auto buckets = static_cast<std::size_t>(
          std::min(static_cast<double>(most[is_trace(key) ? 1 : 0]), std::ceil(group.last_step)));
      const auto& [split, metric, layer, call] = key;
      Buckets filled;
      for (const Points* points : all) fill(*points, group.last_step, buckets, filled);
      Curve curve{group.slice->name,
                  group.attention,
                  split,
                  metric,
                  layer_name(layer, call),
                  {},
                  {},
                  {},
                  {}};
      append(filled, curve);
      curves.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace attnlab
