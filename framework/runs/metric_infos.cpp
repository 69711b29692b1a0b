#include "framework/runs/metric_infos.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/error.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/costs/costs.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::string_view kBetter[] = {"higher", "lower", "neither"};

Better parse_better(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kBetter); ++i) {
    if (name == kBetter[i]) return static_cast<Better>(i);
  }
  throw DataError(
      fmt::format("metrics: '{}' is not a direction; there are higher, lower, neither", name));
}

const MetricInfo* exactly(const std::vector<MetricInfo>& infos, std::string_view name) {
  const auto found = std::find_if(infos.begin(), infos.end(),
                                  [&](const MetricInfo& info) { return info.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

/// What two runs say of one metric; nothing where they contradict each other. Those of an earlier
/// attnlab say nothing of classes.
std::optional<MetricInfo> agreed(const MetricInfo& one, const MetricInfo& other) {
  MetricInfo both = one;
  if (both.of_class.empty()) both.of_class = other.of_class;
  MetricInfo same = other;
  if (same.of_class.empty()) same.of_class = both.of_class;
  return both == same ? std::optional(both) : std::nullopt;
}

}  // namespace

std::vector<MetricInfo> host_metrics(const std::string& counted) {
  return {{"train_loss", Better::lower, ""},        {throughput_name(counted), Better::higher, ""},
          {"host_share", Better::neither, "share"}, {kPeakMemory, Better::lower, "bytes"},
          {kParameters, Better::lower, ""},         {kFlops, Better::lower, "flop"},
          {"best_epoch", Better::neither, ""},      {"gpu_utilisation", Better::neither, "share"}};
}

void add_metrics(const std::vector<MetricInfo>& task, const std::string& counted,
                 json& environment) {
  std::vector<MetricInfo> all = task;
  for (const MetricInfo& info : host_metrics(counted)) {
    if (exactly(all, info.name) == nullptr) all.push_back(info);
  }
  environment["metrics"] = metric_infos_json(all);
  environment["costs"] = cost_names(counted);
}

std::string_view name_of(Better better) { return kBetter[static_cast<std::size_t>(better)]; }

json metric_infos_json(const std::vector<MetricInfo>& infos) {
  json out = json::array();
  for (const MetricInfo& info : infos) {
    json one = {{"name", info.name}, {"better", name_of(info.better)}, {"unit", info.unit}};
    if (!info.of_class.empty()) one["class"] = info.of_class;
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<MetricInfo> read_metric_infos(const json& list) {
  try {
    std::vector<MetricInfo> infos;
    for (const json& one : list) {
      infos.push_back({one.at("name").get<std::string>(),
                       parse_better(one.at("better").get<std::string>()),
                       one.at("unit").get<std::string>(), one.value("class", std::string())});
    }
    return infos;
  } catch (const json::exception& damage) {
    throw DataError(std::string("metrics: ") + damage.what());
  }
}

std::optional<MetricInfo> find_metric(const std::vector<MetricInfo>& infos,
                                      const std::string& name) {
  for (std::size_t begin = 0; begin != std::string::npos && begin < name.size();) {
    if (const MetricInfo* info = exactly(infos, std::string_view(name).substr(begin))) {
      MetricInfo found = *info;
      found.name = name;
      return found;
    }
    const std::size_t slash = name.find('/', begin);
    begin = slash == std::string::npos ? slash : slash + 1;
  }
  return std::nullopt;
}

MetricInfo metric_or_plain(const std::vector<MetricInfo>& infos, const std::string& name) {
  return find_metric(infos, name).value_or(MetricInfo{name, Better::neither, ""});
}

std::vector<std::string> names_of(const std::vector<MetricInfo>& infos) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const MetricInfo& info : infos) names.push_back(info.name);
  return names;
}

void MetricBook::add(const std::string& experiment, const std::vector<MetricInfo>& infos) {
  if (infos.empty()) return;
  Entry& entry = entries_[experiment];
  if (!entry.any) entry.headline = infos.front().name;
  if (entry.headline != infos.front().name) entry.headline.reset();
  entry.any = true;
  for (const MetricInfo& info : infos) {
    const auto known = std::find_if(entry.infos.begin(), entry.infos.end(),
                                    [&](const MetricInfo& one) { return one.name == info.name; });
    if (known == entry.infos.end()) {
      entry.infos.push_back(info);
    } else if (*known == info) {
      continue;
    } else if (const auto both = agreed(*known, info)) {
      *known = *both;
    } else {
      entry.contested.insert(info.name);
    }
  }
}

std::optional<MetricInfo> MetricBook::headline(const std::string& experiment) const {
  const auto entry = entries_.find(experiment);
  if (entry == entries_.end() || !entry->second.headline) return std::nullopt;
  return find(experiment, *entry->second.headline);
}

std::optional<MetricInfo> MetricBook::find(const std::string& experiment,
                                           const std::string& name) const {
  const auto entry = entries_.find(experiment);
  if (entry == entries_.end() || entry->second.contested.count(name) > 0) return std::nullopt;
  return find_metric(entry->second.infos, name);
}

MetricInfo MetricBook::shared(const std::string& name) const {
  MetricInfo plain{name, Better::neither, ""};
  std::optional<MetricInfo> all;
  for (const auto& [experiment, entry] : entries_) {
    const auto one = find(experiment, name);
    if (!one && entry.contested.count(name) == 0) continue;
    if (one) all = all ? agreed(*all, *one) : one;
    if (!one || !all) return plain;
  }
  return all.value_or(plain);
}

std::vector<std::string> MetricBook::in_order(const std::set<std::string>& names) const {
  std::set<std::string> left = names;
  std::vector<std::string> out;
  for (const auto& [experiment, entry] : entries_) {
    for (const MetricInfo& info : entry.infos) {
      if (left.erase(info.name) > 0) out.push_back(info.name);
    }
  }
  out.insert(out.end(), left.begin(), left.end());
  return out;
}

}  // namespace attnlab
