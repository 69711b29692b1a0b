#include "framework/runs/lock_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/revision.h"
#include "framework/experiment/identity.h"
#include "framework/experiment/installed.h"

namespace attnlab {
namespace {

using nlohmann::json;

json part_json(const Part& part) {
  const Manifest manifest = read_manifest(part.path);
  json out = {{"kind", name_of(part.kind)},
              {"id", part.id},
              {"version", manifest.version},
              {"hash", file_hash(part.path)},
              {"stamp", manifest.stamp}};
  if (const auto from = installed_from(part.path)) {
    out["bundle"] = {{"sha256", from->bundle}, {"version", from->version}, {"key", from->key}};
  }
  return out;
}

std::vector<const Part*> parts_of(const Experiment& experiment) {
  std::vector<const Part*> all = experiment.parts();
  for (const Part& judge : experiment.judges) all.push_back(&judge);
  return all;
}

std::string lock_path(const std::string& run_folder) { return run_folder + "/" + kLockFile; }

/// Null where there is none.
json read_lock(const std::string& run_folder) {
  const std::string path = lock_path(run_folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return nullptr;
  try {
    json lock = parsed_json_file(path);
    if (!lock.at("parts").is_array()) throw DataError(path + ": damaged: it lists no parts");
    if (!lock.contains("evaluations")) lock["evaluations"] = json::object();
    return lock;
  } catch (const json::exception& damage) {
    throw DataError(fmt::format(
        "{}: damaged: {}; remove it (the run stays, but cannot be packed with its plugins)", path,
        damage.what()));
  }
}

/// The plugins of an entry that its run's lock does not name in the same state.
json entry_json(const EvaluationEntry& entry, const json& of_the_run) {
  json parts = json::array();
  for (const Part* part : parts_of(entry.experiment)) {
    json one = part_json(*part);
    const auto has = [&](const json& list) {
      return std::find(list.begin(), list.end(), one) != list.end();
    };
    if (!has(of_the_run) && !has(parts)) parts.push_back(std::move(one));
  }
  return {{"parts", std::move(parts)}};
}

}  // namespace

std::string lock_text(const std::vector<const Experiment*>& experiments,
                      const std::set<std::string>& data) {
  std::map<std::string, json> parts;  // by file: many experiments share one
  for (const Experiment* experiment : experiments) {
    for (const Part* part : parts_of(*experiment)) {
      if (parts.count(part->path) == 0) parts[part->path] = part_json(*part);
    }
  }
  json out = {{"format", 1},
              {"framework", {{"version", ATTNLAB_VERSION}, {"revision", framework_revision()}}},
              {"parts", json::array()},
              {"data", json::array()}};
  for (auto& [path, part] : parts) out["parts"].push_back(std::move(part));
  for (const std::string& fingerprint : data) {
    if (!fingerprint.empty()) out["data"].push_back(fingerprint);
  }
  return json_text(out, 1);
}

void lock_entries(const std::string& run_folder, const std::vector<EvaluationEntry>& entries) {
  if (entries.empty()) return;
  json lock = read_lock(run_folder);
  if (lock.is_null()) return;
  bool changed = false;
  for (const EvaluationEntry& entry : entries) {
    if (lock["evaluations"].contains(entry.name)) continue;
    lock["evaluations"][entry.name] = entry_json(entry, lock["parts"]);
    changed = true;
  }
  if (changed) write_file(lock_path(run_folder), json_text(lock, 1));
}

void lock_evaluation(const std::string& run_folder, const EvaluationEntry& entry,
                     const std::string& data) {
  json lock = read_lock(run_folder);
  if (lock.is_null()) return;
  json now = entry_json(entry, lock["parts"]);
  if (!data.empty()) now["data"] = data;
  json& known = lock["evaluations"][entry.name];
  if (known == now) return;
  known = std::move(now);
  write_file(lock_path(run_folder), json_text(lock, 1));
}

std::optional<LockedParts> locked_parts(const std::string& run_folder) try {
  const json lock = read_lock(run_folder);
  if (lock.is_null()) return std::nullopt;
  const auto read = [](const json& list) {
    std::vector<LockedPart> parts;
    for (const json& one : list) {
      parts.push_back({one.at("kind"), one.at("id"), one.at("version"), one.at("hash")});
    }
    return parts;
  };
  LockedParts out{read(lock.at("parts")), {}};
  for (const auto& [entry, what] : lock.at("evaluations").items()) {
    out.evaluations[entry] = read(what.at("parts"));
  }
  return out;
} catch (const json::exception& damage) {
  throw DataError(
      fmt::format("{}: damaged: {}; run it again", lock_path(run_folder), damage.what()));
}

std::set<std::string> evaluation_data(const std::string& run_folder) {
  std::set<std::string> data;
  try {
    const json lock = read_lock(run_folder);
    if (lock.is_null()) return data;
    for (const auto& [entry, what] : lock.at("evaluations").items()) {
      const std::string fingerprint = what.value("data", "");
      if (!fingerprint.empty()) data.insert(fingerprint);
    }
  } catch (const std::exception&) {
    data.clear();
  }
  return data;
}

}  // namespace attnlab
