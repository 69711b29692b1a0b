#include "framework/sharing/result_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/config/frozen.h"
#include "framework/config/problems.h"
#include "framework/manifest/python_file.h"
#include "framework/runs/evaluations.h"
#include "framework/runs/run_records.h"
#include "framework/sharing/configured_entries.h"
#include "framework/sharing/hash.h"
#include "framework/sharing/places.h"
#include "framework/sharing/result_locks.h"

namespace attnlab::sharing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOfARun[] = {"config.yaml", "identity.json",    "origins.txt",
                                   "lock.json",   "environment.json", "metrics.jsonl",
                                   "status.json", "stored.json"};
constexpr const char* kTables[] = {"suite.json", "table.md",      "table.json",
                                   "lock.json",  "comparison.md", "comparison.json"};

/// What a link leads to is not packed, as it may be for nobody's eyes. @throws DataError.
void refuse_to_pack_link(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return;
  throw DataError(
      fmt::format("{}: cannot be packed: it is a link; put a copy of what it leads to in "
                  "its place, or remove it",
                  path));
}

/// @throws DataError for a link, and for what is larger than a bundle may be.
bool add_file(const std::string& from, const std::string& to, std::vector<ArchiveFile>& out) {
  refuse_to_pack_link(from);
  std::error_code error;
  if (!fs::is_regular_file(from, error)) return false;
  if (fs::file_size(from, error) > static_cast<std::uintmax_t>(kLargestBundle) && !error) {
    throw DataError(
        fmt::format("{}: cannot be packed: it is larger than the {} MiB that a bundle "
                    "may have",
                    from, kLargestBundle >> 20));
  }
  out.push_back({to, read_text(from)});
  return true;
}

/// The results of a run's evaluations, oldest first: the newest of an entry counts, and files are
/// written in their order. Their names may hold what an archive's may not.
/// @throws FileError where there are some that cannot be listed: without them the run is another.
std::vector<fs::path> evaluations_of(const std::string& run) {
  const std::string folder = run + "/evaluations";
  refuse_to_pack_link(folder);
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

/// The file of the weights that a finished run's numbers are of.
std::string weights_of(const RunRecord& run) {
  const Node* const train = run.config.find("train");
  const Node* const protocol = train != nullptr ? train->find("protocol") : nullptr;
  const bool chooses = protocol != nullptr && protocol->text() != "last";
  return chooses ? "best.safetensors" : "checkpoint.safetensors";
}

/// What a run keeps of Python files: code, as a plugin is. Empty: nothing.
/// @throws DataError for what is not a plain file.
std::vector<std::string> python_files_of(const std::string& run) {
  const fs::path folder = fs::path(run) / "python";
  refuse_to_pack_link(folder.string());
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    refuse_to_pack_link(at->path().string());
    if (at->is_regular_file() && at->path().extension() == ".py") {
      files.push_back(at->path().string().substr(run.size() + 1));
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw FileError(fmt::format("{}: cannot be read: {}; check its permissions", folder.string(),
                                error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// What the run learned; a result may be of the best epoch's model, which counts then.
void add_checkpoints(const RunRecord& run, const std::string& to, ResultFiles& out) {
  std::set<std::string> added;
  for (const std::string name : {"checkpoint.safetensors", "best.safetensors"}) {
    if (add_file(run.folder + "/" + name, to + name, out.files)) added.insert(name);
  }
  const std::string needed = weights_of(run);
  if (!run.done() || added.count(needed) > 0) return;
  out.notes.push_back(
      fmt::format("{}: {}/{} is not there, so the file lacks the weights behind its numbers; run "
                  "it again to pack them",
                  run.label(), run.folder, needed));
}

/// Entries that were never evaluated, or whose evaluation failed.
void note_entries_without_result(const RunRecord& run, ResultFiles& out) {
  std::vector<std::string> missing;
  for (const std::string& entry : configured_entries(run)) {
    const bool there =
        std::any_of(run.evaluations.begin(), run.evaluations.end(),
                    [&](const EvaluationRecord& one) { return one.done && one.entry == entry; });
    if (!there) missing.push_back(entry);
  }
  if (!run.done() || missing.empty()) return;
  out.notes.push_back(
      fmt::format("{}: its configuration asks for evaluations that have no result: {}; attnlab "
                  "eval {} makes them",
                  run.label(), join(missing, ", "), run.folder));
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
  for (const std::string& file : python_files_of(run.folder)) {
    add_file(run.folder + "/" + file, to + file, out.files);
  }
  if (checkpoints) add_checkpoints(run, to, out);
  std::size_t count = 0;
  for (const fs::path& file : evaluations_of(run.folder)) {
    const std::string name = fmt::format("{}evaluations/{:05}", to, ++count);
    add_file(file.string(), name + ".json", out.files);
    // Predictions stand beside their result.
    add_file(fs::path(file).replace_extension(".safetensors").string(), name + ".safetensors",
             out.files);
    if (!checkpoints) continue;  // of a probe, too
    const std::string ending = ".fitted.safetensors";
    add_file(fs::path(file).replace_extension(ending).string(), name + ending, out.files);
  }
  note_entries_without_result(run, out);
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

/// Whether a part is a Python file that the run keeps, so that it is in the file.
bool is_kept(const LockedPart& part, const RunRecord& run) {
  if (!part.id.starts_with(kPythonLab)) return false;
  const std::string name = "/" + part.id.substr(kPythonLab.size()) + ".py";
  const std::vector<std::string> files = python_files_of(run.folder);
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& file) { return file.ends_with(name); });
}

/// The bundles that a run's lock names, from the store.
void add_plugins(const RunRecord& run, const std::vector<Installed>& installed,
                 std::set<std::string>& done, ResultFiles& out) {
  const std::optional<ResultLocks> locks = read_locks(run.folder);
  if (!locks) {
    out.notes.push_back(run.label() +
                        ": has no lock; it is a stored result, or was run by an earlier attnlab");
    return;
  }
  note_missing_evaluations(run, *locks, out);
  for (const LockedPart& part : locks->parts) {
    if (part.bundle.empty()) {
      const std::string lab = part.id.substr(0, part.id.find('/'));
      if (is_kept(part, run)) continue;
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
          fmt::format("{}: used {} of another bundle than is installed now; install that one "
                      "again, or run again",
                      run.label(), part.id));
    }
    std::string bytes = read_bundle_bytes(found->bundle_file());
    if (sha256(bytes) != part.bundle) {
      throw TrustError(fmt::format(
          "{}: REFUSED: it was altered since it was installed, and is not what {} used; attnlab "
          "plugin remove {}, and install that bundle again",
          found->bundle_file(), run.label(), part.id));
    }
    out.files.push_back(
        {fmt::format("plugins/{}-{}.attnlab", found->id.name, part.bundle.substr(0, 12)),
         std::move(bytes)});
  }
}

/// Of suites below the folder only the runs are packed.
void note_other_suites(const std::string& folder, const RunCollection& found, ResultFiles& out) {
  const std::string own = fs::canonical(folder).string();
  for (const SuiteRecord& suite : found.suites) {
    if (suite.folder == own) continue;
    out.notes.push_back(
        fmt::format("{0}: the record and the tables of this suite are not in the file; attnlab "
                    "suite pack {0} packs them",
                    suite.folder));
  }
}

/// The mark of a folder that a result was unpacked in.
constexpr const char* kMark = "bundle.sha256";

/// A file that is not as the result has it, or that a run has beside those of the result: it would
/// pass for what the other lab measured. Empty: none.
std::string altered_file(const Bundle& result, const std::string& folder) {
  std::set<std::string> known;
  std::error_code error;
  for (const ArchiveFile& file : result.files) {
    std::string path = folder + "/" + file.path;
    if (!fs::is_regular_file(path, error) || read_text(path) != file.bytes) return path;
    known.insert(path);
  }
  fs::recursive_directory_iterator at(folder + "/runs", error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code unknown;
    const bool of_a_run = at.depth() > 0 && !at->is_directory(unknown);
    if (of_a_run && known.count(at->path().string()) == 0) return at->path().string();
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw FileError(
        fmt::format("{}/runs: cannot be read: {}; check its permissions", folder, error.message()));
  }
  return "";
}

/// Configurations of others name no file and nothing of the environment.
void check_configurations(const Bundle& result) {
  Problems problems;
  for (const ArchiveFile& file : result.files) {
    if (fs::path(file.path).filename() != "config.yaml") continue;
    try {
      frozen_tree(file.bytes, file.path);
    } catch (const ConfigError& error) {
      problems.push_back(error.what());
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
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
  note_other_suites(folder, found, out);
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

void unpack_result(const Bundle& result, const std::string& folder) {
  check_configurations(result);
  std::error_code error;
  const std::string mark = folder + "/" + kMark, making = folder + ".new";
  if (fs::exists(mark, error) && read_text(mark) == result.sha256) {
    const std::string altered = altered_file(result, folder);
    if (altered.empty()) return;
    throw DataError(fmt::format(
        "{}: is not as it was unpacked; remove {} and repeat the command, which unpacks it again",
        altered, folder));
  }
  if (fs::exists(folder, error)) {
    throw ConfigError(
        fmt::format("{}: holds something else; name another folder with --out", folder));
  }
  remove_tree(making);  // a killed process's
  make_folder(making);
  write_files(result.files, making);
  write_file(making + "/" + kMark, result.sha256);
  fs::rename(making, folder, error);
  if (error) throw FileError(fmt::format("{}: cannot be renamed: {}", making, error.message()));
}

}  // namespace attnlab::sharing
