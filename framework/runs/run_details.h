// What `attnlab status` asks of a run beside its record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/experiment/identity.h"
#include "framework/runs/run_folder.h"

namespace attnlab {

struct RunDetails {
  std::optional<Identity> identity;  ///< empty of a run by an earlier attnlab
  RunStart start;
  /// The last step that metrics.jsonl has; status.json is only as new as the last checkpoint.
  std::int64_t last_step = 0;
};

/// @throws DataError for a damaged identity.json.
RunDetails read_details(const std::string& folder);

}  // namespace attnlab
