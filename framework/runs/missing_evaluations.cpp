#include "framework/runs/missing_evaluations.h"

#include <algorithm>
#include <filesystem>

namespace attnlab {

std::string weights_file(const Experiment& experiment, const RunFolder& folder) {
  const std::string best = folder.file("best.safetensors");
  std::error_code error;
  const bool chooses = experiment.train.protocol != "last";
  // (A result is that of the best epoch: where its model was deleted, the last one does not count.)
  const bool chosen =
      chooses && (std::filesystem::exists(best, error) || folder.status().state == RunState::done);
  return chosen ? best : folder.file("checkpoint.safetensors");
}

std::vector<std::string> entries_left(const Experiment& experiment, const RunFolder& folder,
                                      const Catalogue& catalogue, bool failed_again) {
  const std::vector<EvaluationEntry> entries = evaluations_of(experiment, catalogue);
  if (entries.empty()) return {};
  const std::vector<EvaluationRecord> records = read_evaluations(folder.path()).records;
  const std::string weights = weights_file(experiment, folder);
  std::error_code error;
  const bool known = std::filesystem::exists(weights, error);  // else any result is what there is
  std::vector<std::string> left;
  for (const EvaluationEntry& entry : entries) {
    const std::string hash = known ? evaluation_hash(entry, file_hash(weights)) : "";
    const bool there =
        std::any_of(records.begin(), records.end(), [&](const EvaluationRecord& record) {
          return record.entry == entry.name && record.hash.rfind(hash, 0) == 0 &&
                 (record.done || !failed_again);
        });
    if (!there) left.push_back(entry.name);
  }
  return left;
}

}  // namespace attnlab
