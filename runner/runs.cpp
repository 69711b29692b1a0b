// attnlab runs: finished runs as files that are kept or sent elsewhere.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <optional>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/links.h"
#include "framework/base/text.h"
#include "framework/runs/run_records.h"
#include "framework/runs/stored_run.h"
#include "runner/commands.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr const char* kHelp = R"(usage: attnlab runs COMMAND

  attnlab runs store   finished runs as small files that suites use instead of running again

`attnlab runs COMMAND --help` tells more.
)";

Usage store_usage() {
  Usage usage;
  usage.synopsis = "attnlab runs store DIR... --to DIR [--replace]";
  usage.about =
      "Writes configurations and results of finished runs, without checkpoints, curves and\n"
      "logs: one JSON file per run, some kilobytes, EXPERIMENT/ATTENTION/SEED-HASH.json. A\n"
      "suite whose `stored:` names the folder uses them in place of runs if configuration,\n"
      "data, versions of plugins and of the framework's numbers agree, here or on another\n"
      "machine. DIR is a run's folder or one with runs below it. Unfinished runs are left out,\n"
      "and so are runs that came from stored results. If a run cannot be stored, it is named,\n"
      "the others are stored, and the exit code is 3.";
  usage.options.add_options()("to", po::value<std::string>()->value_name("DIR"),
                              "folder for the files; created if missing")(
      "replace",
      "remove other stored files of the same experiment, attention and seed; also overwrite a file "
      "that cannot be read, or whose run had other versions of plugins");
  usage.fewest_words = 1;
  usage.most_words = kAnyNumber;
  return usage;
}

struct Counts {
  std::int64_t stored = 0, unfinished = 0, restored = 0, removed = 0;
  std::vector<std::string> problems;  ///< a line for each run that cannot be stored
};

/// Files of the same cell under other hashes: of an earlier configuration, data or framework.
void remove_others(const fs::path& file, std::int64_t seed, Counts& counts) {
  const std::string prefix = fmt::format("{}-", seed);
  std::vector<fs::path> others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool other = name.rfind(prefix, 0) == 0 && entry.path().extension() == ".json";
    if (other && entry.path().filename() != file.filename()) others.push_back(entry.path());
  }
  for (const fs::path& path : others) {
    counts.removed += fs::remove(path, error) ? 1 : 0;
    if (!error) continue;
    counts.problems.push_back(
        fmt::format("{}: cannot remove it: {}; remove it by hand: suites would use it",
                    path.string(), error.message()));
  }
}

/// "model is lab/vit 1.1.0, was lab/vit 1.0.0": what made the run and its choice of an epoch, where
/// a file of the same name is of a run that other versions made, or why that is not known.
/// Evaluations may be newer ones of the same run. Empty where there is no such file.
std::string other_versions(const std::string& file, const StoredRun& now) {
  std::error_code error;
  if (!fs::exists(file, error)) return "";
  std::vector<std::string> changes;
  const auto add = [&](const std::string& part, const std::string& then, const std::string& is) {
    if (then != is) changes.push_back(fmt::format("{} is {}, was {}", part, is, then));
  };
  try {
    const StoredRun then = read_stored(file);
    for (const auto& [kind, plugin] : now.plugins) {
      const auto old = then.plugins.find(kind);
      if (old == then.plugins.end()) continue;
      add(kind, old->second.id + " " + old->second.version, plugin.id + " " + plugin.version);
    }
    for (const auto& [judge, version] : now.judges) {
      const auto old = then.judges.find(judge);
      if (old != then.judges.end()) add(judge, old->second, version);
    }
  } catch (const Error& problem) {  // damaged, closed, or of a newer attnlab
    return problem.what();
  }
  return join(changes, ", ");
}

/// A run as it is stored; empty, with a problem, where it cannot be: hours of others wait behind
/// it.
std::optional<StoredRun> try_to_store(const RunRecord& run, Counts& counts) {
  try {
    return stored_of(run.folder);
  } catch (const std::exception& problem) {
    counts.problems.emplace_back(problem.what());
    return std::nullopt;
  }
}

void store(const RunRecord& run, const std::string& folder, bool replace, Counts& counts) {
  if (!run.stored.empty()) {
    ++counts.restored;
    return;
  }
  if (!run.status.finished()) {
    ++counts.unfinished;
    return;
  }
  const std::optional<StoredRun> stored = try_to_store(run, counts);
  if (!stored) return;
  const fs::path file = fs::path(folder) / stored->name();
  const std::string others = replace ? "" : other_versions(file.string(), *stored);
  if (!others.empty()) {
    counts.problems.push_back(
        fmt::format("{}: is kept: {} would take its place ({}); --replace overwrites "
                    "the file, another --to keeps both",
                    file.string(), run.folder, others));
    return;
  }
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    throw FileError(fmt::format("{}: cannot create the folder: {}", file.parent_path().string(),
                                error.message()));
  }
  refuse_link(file.string());
  write_file(file.string(), stored_json(*stored));
  if (replace) remove_others(file, stored->seed, counts);
  ++counts.stored;
}

int store_command(const Words& words) {
  Usage usage = store_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const std::string folder = arguments.text("to", "");
  if (folder.empty()) throw ConfigError("runs store: --to DIR is missing");
  const RunCollection collection = find_runs(arguments.words);
  Counts counts;
  for (const RunRecord& run : collection.runs) {
    store(run, folder, arguments.has("replace"), counts);
  }
  std::cout << fmt::format("{}: {} {} stored", one_line(folder, kLongestMessageLine), counts.stored,
                           counts.stored == 1 ? "run" : "runs");
  if (counts.unfinished > 0) std::cout << fmt::format(", {} not finished", counts.unfinished);
  if (counts.restored > 0) std::cout << fmt::format(", {} stored before", counts.restored);
  if (counts.removed > 0) std::cout << fmt::format(", {} older files removed", counts.removed);
  for (const Unreadable& one : collection.unreadable) counts.problems.push_back(one.text());
  if (!counts.problems.empty()) {
    std::cout << fmt::format(", {} cannot be stored", counts.problems.size());
  }
  std::cout << "\n" << std::flush;
  for (const std::string& problem : counts.problems) {
    std::cerr << one_line(problem, kLongestMessageLine) << "\n";
  }
  return counts.problems.empty() && counts.stored + counts.restored > 0 ? kDone : kIncomplete;
}

}  // namespace

int runs_command(const Words& words) {
  return run_subcommand("runs", kHelp, words, {{"store", store_command}});
}

}  // namespace attnlab
