#include "framework/runs/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <tuple>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/text.h"
#include "framework/config/frozen.h"
#include "framework/config/origins.h"
#include "framework/manifest/attention_section.h"
#include "framework/runs/run_reader.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  try {
    return parsed_json_file(path);
  } catch (const json::exception& damage) {
    throw DataError(fmt::format("{}: damaged: {}", path, damage.what()));
  }
}

std::string relative_run(const fs::path& path) {
  const fs::path attention = path.parent_path(), experiment = attention.parent_path();
  return (experiment.filename() / attention.filename() / path.filename()).string();
}

/// A JSON map of texts and numbers as a configuration's section.
Node node_of(const json& map, const std::string& file) {
  const Place place{file};
  Node node = Node::map(place);
  for (const auto& [key, value] : map.items()) {
    node.set(key, Node::scalar(plain_text(value), place, value.is_string()));
  }
  return node;
}

AbsentCell read_absent(const json& entry) {
  return {entry.at("experiment"),
          entry.at("attention"),
          entry.at("seed"),
          {parse_absence(entry.at("kind")), entry.at("reason")},
          entry.value("folder", "")};
}

SuitePoint read_point(const json& entry) {
  SuitePoint point{entry.at("experiment"), entry.at("base"), {}};
  for (const json& value : entry.at("values")) {
    point.values.emplace_back(value.at(0).get<std::string>(), value.at(1).get<std::string>());
  }
  return point;
}

/// Without those of a record of an earlier attnlab, which has no values.
std::vector<PublishedNumbers> read_published(const json& record) {
  json sections = record.value("references", json::array());
  if (record.contains("reference")) sections.push_back(record.at("reference"));
  std::vector<PublishedNumbers> all;
  for (const json& one : sections) {
    if (!one.contains("values")) continue;
    all.push_back({one.at("source"), one.at("metric"), one.at("values")});
  }
  return all;
}

[[noreturn]] void refuse_suite(const std::string& path, const std::exception& damage) {
  const std::string what = damage.what();
  if (what.rfind(path, 0) == 0) throw DataError(what);
  throw DataError(fmt::format("{}: damaged: {}; run the suite again to rewrite it", path, what));
}

/// Suites' folders with the runs that each names: a suite may have thousands.
using NamedRuns = std::map<std::string, std::set<std::string>>;

NamedRuns named_runs(const std::vector<SuiteRecord>& suites) {
  NamedRuns named;
  for (const SuiteRecord& suite : suites) {
    named[suite.folder].insert(suite.runs.begin(), suite.runs.end());
  }
  return named;
}

/// The suite that the run lies below and that does not know it (any more); null where none is. Of
/// suites below one another the nearest one has to know it, and one that was asked for: its own
/// table is not of the suites below it.
/// @param asked  real paths of the folders that are searched
const std::string* stale_suite(const std::string& run, const NamedRuns& named,
                               const std::set<std::string>& asked) {
  if (named.empty()) return nullptr;
  bool nearest = true;
  for (std::string around = folder_above(run); !around.empty(); around = folder_above(around)) {
    const auto suite = named.find(around);
    if (suite == named.end()) continue;
    const bool is_asked = asked.count(around) > 0;
    if ((nearest || is_asked) && suite->second.count(relative_run(run)) == 0) return &suite->first;
    if (is_asked) return nullptr;
    nearest = false;
  }
  return nullptr;
}

/// Suites' folders with the tries of each.
NamedRuns named_tries(const std::vector<SuiteRecord>& suites) {
  NamedRuns named;
  for (const SuiteRecord& suite : suites) {
    named[suite.folder].insert(suite.tries.begin(), suite.tries.end());
  }
  return named;
}

std::set<std::string> real_paths(const std::vector<std::string>& folders) {
  std::set<std::string> paths;
  for (const std::string& folder : folders) {
    std::error_code error;
    paths.insert(fs::canonical(folder, error).string());
  }
  return paths;
}

/// What a run's origins.txt says that `match:` or the attention's own `set:` gave.
std::map<std::string, std::string> read_matched(const std::string& path) {
  std::map<std::string, std::string> matched;
  std::error_code error;
  if (!fs::exists(path, error)) return matched;
  std::istringstream in(read_text(path, kLargestRecord));
  for (std::string line; std::getline(in, line);) {
    if (!is_of_attention(line)) continue;
    try {
      for (const RecordedOrigin& origin : read_origins(line)) matched[origin.key] = origin.place;
    } catch (const DataError& damage) {
      throw DataError(fmt::format("{}: damaged: {}", path, damage.what()));
    }
  }
  return matched;
}

/// What the configuration says about the run.
template <class Config>
void take_names(const Config& config, RunRecord& run) {
  const Node& attention = config.at("attention");
  attention.at("use");  // a frozen configuration has it
  run.attention = attention_label(attention);
  run.experiment = config.at("name").text();
  const Node& seeds = config.at("seeds");
  const auto seed = seeds.items().size() == 1 ? seeds.items()[0].as_int() : std::nullopt;
  if (!seed) {
    throw ConfigError(seeds.place(),
                      "seeds: a run's frozen configuration has one seed, found " + to_flow(seeds));
  }
  run.seed = *seed;
}

/// @param pool  null: of one run alone
void read_config(const std::string& path, ConfigPool* pool, RunRecord& run) {
  const std::string text = read_text(path, kLargestRecord);
  if (pool != nullptr) {
    if (std::optional<RunConfig> shared = pool->read(text, path)) {
      try {
        take_names(*shared, run);
        for (const char* part : {"model", "task", "dataset"}) {
          if (const Node* node = shared->find(part)) static_cast<void>(node->at("use"));
        }
        run.config = std::move(*shared);
        return;
      } catch (const ConfigError&) {  // said now or later, with this run's own places
      }
    }
  }
  const Node tree = frozen_tree(text, path);
  take_names(tree, run);
  run.config = tree;
}

RunRecord read_run(const std::string& folder, ConfigPool* pool) {
  RunRecord run;
  const RunFolder files(folder);
  run.folder = folder;
  read_config(files.file("config.yaml"), pool, run);
  static_cast<RunResult&>(run) = read_result(folder);
  run.matched = read_matched(files.file("origins.txt"));
  return run;
}

void refuse_doubles(const std::vector<RunRecord>& runs) {
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const RunRecord &a = runs[i - 1], &b = runs[i];
    if (std::tie(a.experiment, a.attention, a.seed) != std::tie(b.experiment, b.attention, b.seed))
      continue;
    std::vector<ConfigDifference> found = differences_of({a, b});
    std::string keys;
    for (const ConfigDifference& one : found) keys += (keys.empty() ? "" : ", ") + one.key;
    throw ConfigError(
        fmt::format("two runs of {}/{} with seed {}:\n  {}\n  {}{}\nname the folders to compare, "
                    "without one of them",
                    a.experiment, a.attention, a.seed, a.folder, b.folder,
                    keys.empty() ? "" : "\nthey differ in " + keys));
  }
}

/// Sorted, each real folder once: by its own path where that was found too, else by a link's.
std::vector<std::string> each_once(std::vector<std::string> folders) {
  std::map<std::string, std::string> found;  // by the real path
  std::sort(folders.begin(), folders.end());
  for (const std::string& folder : folders) {
    std::error_code error;
    const std::string real = std::filesystem::canonical(folder, error).string();
    std::string& known = found[error ? folder : real];
    if (known.empty() || folder == real) known = folder;
  }
  folders.clear();
  for (const auto& [real, folder] : found) folders.push_back(folder);
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// What was found in all of the folders, each once.
FoundFolders search_all(const std::vector<std::string>& folders) {
  FoundFolders all;
  const auto add = [](const auto& some, auto& to) {
    to.insert(to.end(), some.begin(), some.end());
  };
  for (const std::string& folder : folders) {
    const FoundFolders found = search_folders(folder);
    add(found.runs, all.runs);
    add(found.suites, all.suites);
    add(found.unreadable, all.unreadable);
  }
  if (folders.size() == 1) return all;  // each stands there once
  all.runs = each_once(std::move(all.runs));
  all.suites = each_once(std::move(all.suites));
  return all;
}

void add_suite(const std::string& folder, RunCollection& out) {
  try {
    auto suite = read_suite(folder);
    if (!suite) return;
    out.notes.insert(out.notes.end(), suite->notes.begin(), suite->notes.end());
    out.absent.insert(out.absent.end(), suite->absent.begin(), suite->absent.end());
    out.suites.push_back(std::move(*suite));
  } catch (const Error& damage) {
    out.notes.push_back(std::string("the record of a suite cannot be read; its baseline, grid and "
                                    "absent cells are not known: ") +
                        damage.what());
  }
}

void leave_out(const Unreadable& one, RunCollection& out) {
  out.notes.push_back(one.text());
  if (const auto cell = one.cell()) out.absent.push_back(*cell);
  out.unreadable.push_back(one);
}

constexpr std::size_t kFirstLabels = 4;

/// @param count  of the runs that these are the first labels of
std::string sentence_of(const std::vector<std::string>& labels, std::size_t count) {
  const std::size_t more = count - labels.size();
  return join(labels, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

/// What the runs themselves say, each sentence once.
void add_run_notes(RunCollection& out) {
  std::map<std::string, FirstLabels> by_text;
  for (const RunRecord& run : out.runs) {
    for (const std::string& note : run.notes) by_text[note].add(run);
    const std::vector<std::string> names = run.not_finite();
    if (names.empty()) continue;
    by_text["done, with values that are not finite and count nowhere: " + join(names, ", ")].add(
        run);
  }
  for (const auto& [text, labels] : by_text) {
    out.notes.push_back(fmt::format("{}: {}", labels.text(), text));
  }
}

}  // namespace

std::string first_of(std::vector<std::string> labels) {
  const std::size_t count = labels.size();
  if (count > kFirstLabels) labels.resize(kFirstLabels);
  return sentence_of(labels, count);
}

void FirstLabels::add(const RunRecord& run) {
  if (++count_ <= kFirstLabels) first_.push_back(run.label());
}

std::string FirstLabels::text() const { return sentence_of(first_, count_); }

std::string RunRecord::label() const {
  return fmt::format("{}/{}/{}", experiment, attention, seed);
}

RunRecord read_run(const std::string& folder) { return read_run(folder, nullptr); }

RunRecord read_run(const std::string& folder, ConfigPool& pool) { return read_run(folder, &pool); }

std::optional<SuiteRecord> read_suite(const std::string& folder) {
  const std::string path = suite_record_file(folder);
  if (path.empty()) return std::nullopt;
  try {
    const json in = read_json(path);
    if (!in.is_object() || !in.contains("suite")) return std::nullopt;
    SuiteRecord suite;
    suite.folder = folder;
    suite.baseline = in.at("baseline").get<std::string>();
    for (const json& run : in.at("runs")) {
      suite.runs.push_back(relative_run(run.at("folder").get<std::string>()));
    }
    if (in.contains("notes")) suite.notes = in.at("notes").get<std::vector<std::string>>();
    if (in.contains("compare")) suite.compare = node_of(in.at("compare"), path);
    suite.planned_test = in.value("planned_test", "");
    if (in.contains("absent")) {
      for (const json& entry : in.at("absent")) suite.absent.push_back(read_absent(entry));
    }
    if (in.contains("grid")) {
      for (const json& entry : in.at("grid").at("points"))
        suite.points.push_back(read_point(entry));
      suite.pool = in.at("grid").at("pool").get<std::vector<std::string>>();
    }
    suite.published = read_published(in);
    if (in.contains("page")) suite.page = read_page_json(in.at("page"));
    if (in.contains("tune")) {
      suite.tuning = read_tuning(in.at("tune"));
      for (const TunedAttention& one : suite.tuning->attentions) {
        for (const TuningTry& item : one.tries) suite.tries.push_back(relative_run(item.folder));
      }
    }
    return suite;
  } catch (const json::exception& damage) {
    refuse_suite(path, damage);
  } catch (const DataError& damage) {
    refuse_suite(path, damage);
  }
}

RunCollection find_runs(const std::vector<std::string>& folders) {
  RunCollection out;
  const FoundFolders found = search_all(folders);
  for (const std::string& folder : found.suites) add_suite(folder, out);
  for (const Unreadable& one : found.unreadable) leave_out(one, out);
  const NamedRuns named = named_runs(out.suites), tries = named_tries(out.suites);
  const std::set<std::string> asked = real_paths(folders);
  std::map<std::string, std::vector<std::string>> stale;  // by suite
  std::vector<std::string> current;
  for (const std::string& folder : found.runs) {
    if (const std::string* suite = stale_suite(folder, named, asked)) {
      if (tries.at(*suite).count(relative_run(folder)) == 0) stale[*suite].push_back(folder);
    } else {
      current.push_back(folder);
    }
  }
  out.runs.reserve(current.size());
  RunReader reader(folders);
  reader.read(
      current, /*closely=*/false,
      [&](IndexedRun&& run) { out.runs.push_back(std::move(run.record)); },
      [&](const Unreadable& one) { leave_out(one, out); });
  reader.keep();
  for (const auto& [suite, runs] : stale) {
    out.notes.push_back(fmt::format(
        "{}: {} {} left out, not of the suite as it was run last (not chosen then, or another "
        "configuration, plugin or data): {}{}",
        suite, runs.size(), runs.size() == 1 ? "run is" : "runs are", relative_run(runs.front()),
        runs.size() == 1 ? "" : " and others"));
  }
  if (out.runs.empty() && !out.unreadable.empty()) {
    throw DataError(fmt::format("no run can be read; the first of {}: {}", out.unreadable.size(),
                                out.unreadable.front().text()));
  }
  std::stable_sort(out.runs.begin(), out.runs.end(), [](const RunRecord& a, const RunRecord& b) {
    return std::tie(a.experiment, a.attention, a.seed) <
           std::tie(b.experiment, b.attention, b.seed);
  });
  refuse_doubles(out.runs);
  add_run_notes(out);
  return out;
}

void Revisions::add(const RunRecord& run) {
  if (run.environment.empty()) return;  // it has not begun
  const auto found = run.environment.find("framework.revision");
  runs_[found == run.environment.end() ? "not recorded" : found->second].add(run);
}

std::optional<std::string> Revisions::note() const {
  if (runs_.size() < 2) return std::nullopt;
  std::vector<std::string> parts;
  parts.reserve(runs_.size());
  for (const auto& [revision, labels] : runs_) {
    parts.push_back(fmt::format("{} in {}", revision, labels.text()));
  }
  return fmt::format("runs of {} framework revisions are compared: {}", runs_.size(),
                     join(parts, "; "));
}

std::optional<std::string> revisions_note(const std::vector<RunRecord>& runs) {
  Revisions revisions;
  for (const RunRecord& run : runs) revisions.add(run);
  return revisions.note();
}

MetricBook book_of(const std::vector<RunRecord>& runs) {
  MetricBook book;
  for (const RunRecord& run : runs) book.add(run.experiment, run.infos);
  return book;
}

}  // namespace attnlab
