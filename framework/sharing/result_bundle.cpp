#include "framework/sharing/result_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/base/files.h"
#include "framework/comparison/statistics.h"
#include "framework/runs/lock_file.h"
#include "framework/sharing/foreign_json.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kOfARun[] = {"config.yaml", "identity.json",    "origins.txt",
                                   "lock.json",   "environment.json", "metrics.jsonl",
                                   "status.json", "stored.json"};
constexpr const char* kTables[] = {"suite.json", "table.md",      "table.json",
                                   "lock.json",  "comparison.md", "comparison.json"};

bool add_file(const std::string& from, const std::string& to, std::vector<ArchiveFile>& out) {
  std::error_code error;
  if (!fs::is_regular_file(from, error)) return false;
  out.push_back({to, read_text(from)});
  return true;
}

/// The results of a run's evaluations, oldest first: the newest of an entry counts, and files are
/// written in their order. Their names may hold what an archive's may not.
std::vector<fs::path> evaluations_of(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code error, no_time;
  for (const auto& file : fs::directory_iterator(folder + "/evaluations", error)) {
    if (file.path().extension() != ".json") continue;
    found.emplace_back(fs::last_write_time(file.path(), no_time), file.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// Runs' names may hold what an archive's may not (blanks, brackets, other letters): there they
/// have numbers, and config.yaml says which they are.
void add_run(const RunRecord& run, std::size_t number, bool checkpoints, ResultFiles& out) {
  if (!run.status.finished()) {
    throw ConfigError(fmt::format("{}: is {}; finish it, or remove its folder, before packing",
                                  run.folder, name_of(run.status.state)));
  }
  const std::string to = fmt::format("runs/run-{:05}/", number);
  for (const char* name : kOfARun) add_file(run.folder + "/" + name, to + name, out.files);
  if (checkpoints) {
    add_file(run.folder + "/checkpoint.safetensors", to + "checkpoint.safetensors", out.files);
  }
  std::size_t count = 0;
  for (const fs::path& file : evaluations_of(run.folder)) {
    add_file(file.string(), fmt::format("{}evaluations/{:05}.json", to, ++count), out.files);
  }
}

/// The bundles that a run's lock names, from the store.
void add_plugins(const RunRecord& run, const std::vector<Installed>& installed,
                 std::set<std::string>& done, ResultFiles& out) {
  const std::string path = run.folder + "/" + kLockFile;
  std::error_code error;
  if (!fs::exists(path, error)) {
    out.notes.push_back(run.label() +
                        ": has no lock; it is a stored result, or was run by an earlier attnlab");
    return;
  }
  const json lock = parse_json(read_text(path));
  for (const json& part : lock.at("parts")) {
    const std::string id = part.at("id"), kind = part.at("kind");
    if (!part.contains("bundle")) {
      const std::string lab = id.substr(0, id.find('/'));
      if (lab != "attnlab" && done.insert(id).second) {
        out.notes.push_back(
            fmt::format("{} {}: was not installed from a bundle and is not in the "
                        "file; others must have it",
                        kind, id));
      }
      continue;
    }
    const std::string sha = part.at("bundle").at("sha256");
    if (!done.insert(sha).second) continue;
    const auto same = [&](const Installed& one) { return one.bundle == sha; };
    const auto found = std::find_if(installed.begin(), installed.end(), same);
    if (found == installed.end()) {
      throw PluginError(
          fmt::format("{}: used {} of another bundle than is installed now; install "
                      "that one again, or run anew",
                      run.label(), id));
    }
    out.files.push_back({fmt::format("plugins/{}-{}.attnlab", found->id.name, sha.substr(0, 12)),
                         read_bundle_bytes(found->bundle_file())});
  }
}

std::string headline(const RunRecord& run) {
  return run.infos.empty() ? "" : run.infos.front().name;
}

void judge(Reproduced& one) {
  if (one.there.empty()) {
    one.verdict = "no value";
    one.why = "no seed has a value here and there";
    return;
  }
  if (one.there == one.here) {
    one.verdict = "identical";
    one.why = "every seed gives the same number";
    return;
  }
  const Summary there = summary_of(one.there), here = summary_of(one.here);
  const double apart = std::abs(there.mean - here.mean);
  if (one.there.size() == 1) {
    const bool near = apart <= 1e-6 * std::max(1.0, std::abs(there.mean));
    one.verdict = near ? "agrees" : "DIFFERS";
    one.why = near ? "to rounding" : "one seed has no spread to judge by; run more seeds";
    return;
  }
  const double error =
      std::sqrt((there.deviation * there.deviation + here.deviation * here.deviation) /
                static_cast<double>(one.there.size()));
  one.verdict = apart <= 2 * error ? "agrees" : "DIFFERS";
  one.why = fmt::format("{:.2g} apart, twice the standard error is {:.2g}", apart, 2 * error);
}

}  // namespace

ResultFiles result_files(const std::string& folder, const Store& store, bool checkpoints) {
  const RunCollection found = find_runs({folder});
  ResultFiles out;
  out.notes = found.notes;
  for (const char* name : kTables) {
    add_file(folder + "/" + name, fmt::format("tables/{}", name), out.files);
  }
  const std::vector<Installed> installed = store.active();
  std::set<std::string> done;
  std::size_t number = 0;
  for (const RunRecord& run : found.runs) {
    add_run(run, ++number, checkpoints, out);
    add_plugins(run, installed, done, out);
  }
  return out;
}

std::vector<Reproduced> compare_results(const std::vector<RunPair>& runs) {
  std::map<std::pair<std::string, std::string>, Reproduced> all;
  for (const RunPair& run : runs) {
    Reproduced& one = all[{run.there.experiment, run.there.attention}];
    one.experiment = run.there.experiment;
    one.attention = run.there.attention;
    one.metric = headline(run.there);
    if (!run.here) continue;
    if (run.other_data) ++one.other_data;
    const auto a = run.there.value(one.metric), b = run.here->value(one.metric);
    if (!a || !b) continue;
    one.there.push_back(*a);
    one.here.push_back(*b);
  }
  std::vector<Reproduced> out;
  for (auto& [cell, one] : all) {
    judge(one);
    if (one.other_data > 0) {
      one.why = fmt::format("{} of its runs had other data than there; by the numbers: {}, {}",
                            one.other_data, one.verdict, one.why);
      one.verdict = "OTHER DATA";
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::string reproduction_text(const std::vector<Reproduced>& all) {
  std::string text = fmt::format("{:<24} {:<20} {:<12} {:>5}  {:>20}  {:>20}  {}\n", "experiment",
                                 "attention", "metric", "seeds", "there", "here", "verdict");
  for (const Reproduced& one : all) {
    const auto shown = [](const std::vector<double>& values) {
      if (values.empty()) return std::string("-");
      const Summary summary = summary_of(values);
      return values.size() == 1 ? fmt::format("{:.6g}", summary.mean)
                                : fmt::format("{:.5g} ± {:.2g}", summary.mean, summary.deviation);
    };
    text += fmt::format("{:<24} {:<20} {:<12} {:>5}  {:>20}  {:>20}  {} ({})\n", one.experiment,
                        one.attention, one.metric, one.there.size(), shown(one.there),
                        shown(one.here), one.verdict, one.why);
  }
  return text;
}

}  // namespace attnlab::sharing
