#include "framework/runs/lock_file.h"

#include <map>
#include <nlohmann/json.hpp>

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

}  // namespace

std::string lock_text(const std::vector<const Experiment*>& experiments,
                      const std::set<std::string>& data) {
  std::map<std::string, json> parts;  // by file: many experiments share one
  for (const Experiment* experiment : experiments) {
    std::vector<const Part*> all = {&experiment->model, &experiment->attention, &experiment->task,
                                    &experiment->dataset};
    for (const Part& judge : experiment->judges) all.push_back(&judge);
    for (const Part* part : all) {
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
  return out.dump(1) + "\n";
}

}  // namespace attnlab
