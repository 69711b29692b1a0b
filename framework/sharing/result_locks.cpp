#include "framework/sharing/result_locks.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/runs/lock_file.h"
#include "framework/sharing/foreign_json.h"
#include "framework/sharing/hash.h"

namespace attnlab::sharing {

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

void refuse_plugins_without_lock(const Bundle& result, const ResultLocks& locks) {
  for (const ArchiveFile& file : result.files) {
    if (!file.path.starts_with("plugins/") || locks.names_bundle(sha256(file.bytes))) continue;
    throw TrustError(fmt::format("{}: REFUSED: '{}' is a bundle that none of its runs used",
                                 result.label(), file.path));
  }
}

}  // namespace attnlab::sharing
