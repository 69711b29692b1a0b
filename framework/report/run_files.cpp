#include "framework/report/run_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/side_by_side.h"
#include "framework/runs/kept_file.h"
#include "framework/runs/packed.h"
#include "framework/runs/run_index.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_part(const std::string& name) {
  return name == "model" || name == "attention" || name == "task" || name == "dataset";
}

/// A run's environment.json; null without one.
json environment_of(const RunRecord& run) {
  const std::string path = run.folder + "/environment.json";
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  return json::parse(read_text(path, kLargestRecord), nullptr, false);
}

/// environment.json of every run that has one, as what is the same for how many.
class ProcessSettings {
 public:
  /// @param experiment  what the run's data are called by; of a grid what it varies
  void add(const json& in, const std::string& experiment) {
    if (!in.is_object()) return;  // `find_runs` has read it as an object: it is being replaced
    for (const auto& [name, value] : in.items()) {
      if (const std::string kind = name.substr(0, name.find('.')); is_part(kind)) {
        add_plugin(kind, value);
      } else if (name == "data") {
        add_values("data of " + experiment, value);
      } else if (!is_of_one_run(name)) {
        add_values(name, value);
      }
    }
  }

  std::vector<Fact> facts() const {
    std::vector<Fact> out;
    for (const auto& [key, values] : counts_) {
      out.push_back({key, {values.begin(), values.end()}});
    }
    return out;
  }
  std::vector<PluginUse> plugins() const {
    std::vector<PluginUse> out;
    for (const auto& [key, runs] : plugins_) out.push_back({key[0], key[1], key[2], runs});
    return out;
  }

 private:
  /// What a run costs, when it began, and what its metrics are, is shown elsewhere.
  static bool is_of_one_run(const std::string& name) {
    return name == "started" || name == kParameters || name == kFlops || name == "metrics" ||
           name == "costs";
  }

  void add_plugin(const std::string& kind, const json& part) {
    if (!part.is_object()) return;
    const auto member = [&](const char* name) {
      return part.contains(name) ? plain_text(part.at(name)) : std::string();
    };
    plugins_[{kind, member("id"), member("hash")}] += 1;
  }
  void add_values(const std::string& key, const json& value) {
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) {
        add_values(fmt::format("{}.{}", key, name), member);
      }
    } else {
      counts_[key][plain_text(value)] += 1;
    }
  }

  std::map<std::string, std::map<std::string, std::int64_t>> counts_;
  std::map<std::vector<std::string>, std::int64_t> plugins_;
};

/// What all that is filled depends on; empty where it is not known.
std::string key_of(const Report& report) {
  std::string key;
  for (const RunRecord& run : report.collection.runs) {
    if (!run.files) return "";
    key += fmt::format("{}\n{} {}\n", run.folder, run.files->print,
                       report.slices.base_of(run.experiment));
  }
  for (const Slice& slice : report.slices.all) {
    key += slice.name + "\n";
    for (const std::size_t run : slice.runs) key += fmt::format("{} ", run);
  }
  return key;
}

void pack_curves(auto& way, auto& curves) {
  pack_list(way, curves, [&](auto& one) {
    for (auto* text : {&one.experiment, &one.attention, &one.split, &one.metric, &one.layer}) {
      way.text(*text);
    }
    for (auto* numbers : {&one.steps, &one.mean, &one.deviation}) pack_numbers(way, *numbers);
    pack_numbers(way, one.seeds);
  });
}

void pack_biases(auto& way, auto& biases) {
  pack_list(way, biases, [&](auto& one) {
    for (auto* text : {&one.experiment, &one.attention, &one.layer}) way.text(*text);
    for (auto* number : {&one.seed, &one.step, &one.first}) way.number(*number);
    pack_list(way, one.heads, [&](auto& head) { pack_numbers(way, head); });
  });
}

void pack_surroundings(auto& way, auto& report) {
  pack_list(way, report.environment, [&](auto& fact) {
    way.text(fact.key);
    pack_list(way, fact.values, [&](auto& value) {
      way.text(value.first);
      way.number(value.second);
    });
  });
  pack_list(way, report.plugins, [&](auto& plugin) {
    for (auto* text : {&plugin.kind, &plugin.id, &plugin.hash}) way.text(*text);
    way.number(plugin.runs);
  });
}

void pack_files(auto& way, auto& report) {
  pack_curves(way, report.curves);
  pack_texts(way, report.lost_logs);
  pack_biases(way, report.biases);
  pack_surroundings(way, report);
}

/// @param check  of what the content depends on. @returns whether that is what was kept
bool take_kept(const std::string& content, std::uint64_t check, Report& report) {
  if (content.empty()) return false;
  try {
    std::vector<std::string_view> texts;
    Unpacker bytes(content, texts);
    if (bytes.number<std::uint64_t>() != check) return false;
    texts.resize(bytes.count());
    for (std::string_view& text : texts) text = bytes.own_text();
    Report kept;
    Loader loader(bytes);
    pack_files(loader, kept);
    report.curves = std::move(kept.curves);
    report.lost_logs = std::move(kept.lost_logs);
    report.biases = std::move(kept.biases);
    report.environment = std::move(kept.environment);
    report.plugins = std::move(kept.plugins);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

std::string kept_content(std::uint64_t check, const Report& report) {
  TextTable texts, none;
  Packer members(texts), all(none);
  Saver saver(members);
  pack_files(saver, report);
  all.number(check);
  all.count(texts.texts().size());
  for (const std::string& text : texts.texts()) all.own_text(text);
  return all.bytes() + members.bytes();
}

/// Logs that are there and cannot be read.
std::vector<std::string> lost_logs_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> lost;
  for (const RunRecord& run : runs) {
    const std::string path = run.folder + "/metrics.jsonl";
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    const bool readable = fs::is_regular_file(path, error) &&
                          fs::file_size(path, error) <= kLargestLog &&
                          ::access(path.c_str(), R_OK) == 0;
    if (!readable) lost.push_back(path);
  }
  return lost;
}

void fill(Report& report) {
  report.curves = curves_of(report.collection.runs, report.slices.all);
  report.lost_logs = lost_logs_of(report.collection.runs);
  report.biases = biases_of(report.collection.runs);
  constexpr std::size_t kAtATime = 512, kWorthAThread = 32;  // runs
  const std::vector<RunRecord>& runs = report.collection.runs;
  ProcessSettings surroundings;
  for (std::size_t begin = 0; begin < runs.size(); begin += kAtATime) {
    std::vector<json> environments(std::min(kAtATime, runs.size() - begin));
    side_by_side(environments.size(), kWorthAThread,
                 [&](std::size_t i) { environments[i] = environment_of(runs[begin + i]); });
    for (std::size_t i = 0; i < environments.size(); ++i) {
      surroundings.add(environments[i], report.slices.base_of(runs[begin + i].experiment));
    }
  }
  report.environment = surroundings.facts();
  report.plugins = surroundings.plugins();
}

}  // namespace

void read_run_files(Report& report) {
  const std::vector<RunRecord>& runs = report.collection.runs;
  const std::string key = runs.size() < RunIndex::kWorth ? "" : key_of(report);
  if (key.empty()) {
    fill(report);
    return;
  }
  const KeptFile file(
      "report", fmt::format("{}\n{}\n{}", runs.front().folder, runs.back().folder, runs.size()));
  const std::uint64_t check = fingerprint(key);
  if (take_kept(file.read(), check, report)) return;
  fill(report);
  file.write(kept_content(check, report));
}

}  // namespace attnlab
