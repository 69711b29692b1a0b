#include "framework/sharing/result_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/lock_file.h"
#include "framework/runs/run_records.h"
#include "framework/sharing/result_locks.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;

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
/// @throws FileError where there are some that cannot be listed: without them the run is another.
std::vector<fs::path> evaluations_of(const std::string& run) {
  const std::string folder = run + "/evaluations";
  std::vector<std::pair<std::int64_t, fs::path>> found;
  std::error_code error;
  fs::directory_iterator file(folder, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    if (file->path().extension() != ".json") continue;
    found.emplace_back(written_of(file->path().string()), file->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw FileError(fmt::format(
        "{}: cannot be read: {}; check its permissions, or remove it to pack without it", folder,
        error.message()));
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
  if (checkpoints) {  // a result may be of the best epoch's model, which counts then
    for (const std::string name : {"checkpoint.safetensors", "best.safetensors"}) {
      add_file(run.folder + "/" + name, to + name, out.files);
    }
  }
  std::size_t count = 0;
  for (const fs::path& file : evaluations_of(run.folder)) {
    add_file(file.string(), fmt::format("{}evaluations/{:05}.json", to, ++count), out.files);
  }
}

/// Results of evaluations that a lock says nothing of: of an earlier attnlab. A mean over points
/// ("fog" of "fog/1") uses what these use.
void note_missing_evaluations(const RunRecord& run, const ResultLocks& locks, ResultFiles& out) {
  const auto& all = run.evaluations;
  for (const EvaluationRecord& one : all) {
    const bool mean = std::any_of(all.begin(), all.end(), [&](const EvaluationRecord& point) {
      return point.entry.starts_with(one.entry + "/");
    });
    if (!one.done || mean || locks.evaluations.count(one.entry) > 0) continue;
    out.notes.push_back(fmt::format(
        "{}: its lock does not say which plugins and data evaluation {} used; attnlab eval {} "
        "writes that",
        run.label(), one.entry, run.folder));
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
  ResultLocks locks;
  locks.add(read_text(path));
  note_missing_evaluations(run, locks, out);
  for (const LockedPart& part : locks.parts) {
    if (part.bundle.empty()) {
      const std::string lab = part.id.substr(0, part.id.find('/'));
      if (lab != "attnlab" && done.insert(part.id).second) {
        out.notes.push_back(
            fmt::format("{} {}: was not installed from a bundle and is not in the "
                        "file; others must have it",
                        part.kind, part.id));
      }
      continue;
    }
    if (!done.insert(part.bundle).second) continue;
    const auto same = [&](const Installed& one) { return one.bundle == part.bundle; };
    const auto found = std::find_if(installed.begin(), installed.end(), same);
    if (found == installed.end()) {
      throw PluginError(
          fmt::format("{}: used {} of another bundle than is installed now; install "
                      "that one again, or run anew",
                      run.label(), part.id));
    }
    out.files.push_back(
        {fmt::format("plugins/{}-{}.attnlab", found->id.name, part.bundle.substr(0, 12)),
         read_bundle_bytes(found->bundle_file())});
  }
}

}  // namespace

ResultFiles result_files(const std::string& folder, const Store& store, bool checkpoints) {
  const RunCollection found = find_runs({folder});
  if (!found.unreadable.empty()) {
    const Unreadable& one = found.unreadable.front();
    throw DataError(fmt::format("{}: cannot be packed: {}; repair it, or remove its folder, first",
                                one.folder, one.reason));
  }
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

}  // namespace attnlab::sharing
