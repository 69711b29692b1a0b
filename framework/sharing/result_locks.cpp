#include "framework/sharing/result_locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/config/frozen.h"
#include "framework/runs/kept_python.h"
#include "framework/runs/lock_file.h"
#include "framework/sharing/foreign_json.h"
#include "framework/sharing/hash.h"

namespace attnlab::sharing {

namespace fs = std::filesystem;
using nlohmann::json;

std::string LockedPart::label() const {
  return one_line(fmt::format("{} {} {}", kind, id, version), 200);
}

namespace {

LockedPart part_of(const json& part) {
  return {part.at("kind"), part.at("id"), part.at("version"),
          part.contains("bundle") ? part.at("bundle").at("sha256") : json("")};
}

}  // namespace

void ResultLocks::add(const std::string& text) {
  try {
    const json lock = parse_json(text);
    revisions.insert(lock.at("framework").at("revision").get<std::string>());
    for (const json& part : lock.at("parts")) parts.insert(part_of(part));
    for (const json& fingerprint : lock.at("data")) data.insert(fingerprint.get<std::string>());
    const json entries = lock.value("evaluations", json::object());
    for (const auto& [entry, what] : entries.items()) {
      for (const json& part : what.at("parts")) parts.insert(part_of(part));
      evaluations[entry] = what.value("data", "");
    }
  } catch (const json::exception& damage) {
    throw BundleError(fmt::format("a run's lock is damaged: {}", one_line(damage.what(), 200)));
  }
}

bool ResultLocks::names_bundle(const std::string& sha256) const {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const LockedPart& part) { return part.bundle == sha256; });
}

std::optional<ResultLocks> read_locks(const std::string& run_folder) {
  const std::string path = run_folder + "/" + kLockFile;
  if (!is_there(path)) return std::nullopt;
  ResultLocks locks;
  locks.add(read_text(path, kLargestRecord));
  return locks;
}

std::set<SharedClass> shared_classes(const std::string& folder) {
  std::set<SharedClass> all;
  std::set<std::string> named;  // whole paths
  for (const NamedClass& one : classes_in(frozen_file(folder + "/config.yaml"))) {
    const std::string path = fs::weakly_canonical(fs::path(folder) / one.name.file).string();
    if (!one.name.file.starts_with("python/") || !is_there(path)) {
      throw TrustError(
          fmt::format("{}/config.yaml: REFUSED: it names the Python file '{}', which is not kept "
                      "with the run",
                      folder, one_line(one.name.file, 200)));
    }
    const PythonFile& file = python_file({path, one.name.name}, one.kind);
    if (file.kept_name() != one.name.file) {
      throw TrustError(
          fmt::format("{}: REFUSED: it is not the file that the run used, which would "
                      "be called so by its contents",
                      path));
    }
    for (const std::string& source : file.sources) named.insert(file.folder + "/" + source);
    SharedClass shared{one.name.text(), {}, PythonName{path, one.name.name}.text()};
    for (const auto& [option, value] : one.options.entries()) {
      shared.options.push_back(fmt::format("options.{}={}", option, to_flow(value)));
    }
    all.insert(std::move(shared));
  }
  std::error_code error;
  fs::recursive_directory_iterator at(fs::weakly_canonical(fs::path(folder) / "python"), error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at->is_directory() || named.count(at->path().string()) > 0) continue;
    throw TrustError(
        fmt::format("{}: REFUSED: it is not a Python file that the run's configuration "
                    "names, nor imported by one",
                    at->path().string()));
  }
  return all;
}

void refuse_plugins_without_lock(const Bundle& result, const ResultLocks& locks) {
  for (const ArchiveFile& file : result.files) {
    if (!file.path.starts_with("plugins/") || locks.names_bundle(sha256(file.bytes))) continue;
    throw TrustError(fmt::format("{}: REFUSED: '{}' is a bundle that none of its runs used",
                                 result.label(), file.path));
  }
}

}  // namespace attnlab::sharing
