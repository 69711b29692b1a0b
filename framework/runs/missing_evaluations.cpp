#include "framework/runs/missing_evaluations.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/config/compose.h"
#include "framework/experiment/identity.h"

namespace attnlab {

using nlohmann::json;

const EvaluationRecord* result_of(const std::vector<EvaluationRecord>& records,
                                  const std::string& entry) {
  const auto found =
      std::find_if(records.begin(), records.end(),
                   [&](const EvaluationRecord& record) { return record.entry == entry; });
  return found == records.end() ? nullptr : &*found;
}

std::string weights_file(const Experiment& experiment, const RunFolder& folder) {
  const std::string best = folder.file("best.safetensors");
  std::error_code error;
  const bool chooses = experiment.train.protocol != "last";
  // (A result is that of the best epoch: where its model was deleted, the last one does not count.)
  const bool chosen =
      chooses && (std::filesystem::exists(best, error) || folder.status().state == RunState::done);
  return chosen ? best : folder.file("checkpoint.safetensors");
}

std::string settings_change(const EvaluationRecord& record, const EvaluationEntry& entry) {
  try {
    const std::string then = canonical_text(parse_yaml(record.set, entry.name));
    // JSON sorts its keys; a composition does not.
    const bool alike = record.split == entry.options.split &&
                       (record.weights.empty() || record.weights == entry.options.weights) &&
                       json::parse(then) == json::parse(canonical_text(entry.set));
    return alike ? "" : "its settings changed";
  } catch (const ConfigError&) {  // more or deeper than settings are
    return "its settings cannot be read";
  }
}

std::string mean_hash(const std::vector<EvaluationRecord>& points) {
  std::string hashes;
  for (const EvaluationRecord& point : points) hashes += point.hash + ";";
  return hex(fingerprint(hashes));
}

std::string mean_set(const std::vector<EvaluationRecord>& points) {
  json names = json::array();
  for (const EvaluationRecord& point : points) names.push_back(point.entry);
  return json({{"over", std::move(names)}}).dump();
}

std::vector<std::string> means_left(const std::vector<EvaluationEntry>& entries,
                                    const std::vector<EvaluationRecord>& records) {
  std::map<std::string, std::vector<EvaluationRecord>> groups;
  std::set<std::string> not_whole;
  for (const EvaluationEntry& entry : entries) {
    if (entry.group.empty()) continue;
    const EvaluationRecord* point = result_of(records, entry.name);
    const bool done = point != nullptr && point->done;
    if (!done) not_whole.insert(entry.group);
    if (done) groups[entry.group].push_back(*point);
  }
  std::vector<std::string> left;
  for (const auto& [group, points] : groups) {
    if (not_whole.count(group) > 0) continue;
    const EvaluationRecord* mean = result_of(records, group);
    const bool fits = mean != nullptr && mean->done && mean->hash == mean_hash(points);
    if (!fits) left.push_back(group);
  }
  return left;
}

std::vector<std::string> entries_left(const Experiment& experiment, const RunFolder& folder,
                                      const Catalogue& catalogue, bool failed_again) {
  const std::vector<EvaluationEntry> entries = evaluations_of(experiment, catalogue);
  if (entries.empty()) return {};
  const std::vector<EvaluationRecord> records = read_evaluations(folder.path()).records;
  const std::string weights = weights_file(experiment, folder);
  std::error_code error;
  const bool known = std::filesystem::exists(weights, error);
  std::vector<std::string> left;
  std::set<std::string> groups;  // whose mean is made with a point of theirs
  for (const EvaluationEntry& entry : entries) {
    const EvaluationRecord* record = result_of(records, entry.name);
    const bool of_entry =
        record != nullptr &&
        (known ? record->hash.starts_with(evaluation_hash(entry, file_hash(weights)))
               : settings_change(*record, entry).empty());
    if (of_entry && (record->done || !failed_again)) continue;
    left.push_back(entry.name);
    groups.insert(entry.group);
  }
  for (const std::string& group : means_left(entries, records)) {
    if (groups.count(group) == 0) left.push_back(group);
  }
  return left;
}

}  // namespace attnlab
