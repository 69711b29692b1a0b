#include "framework/runs/run_details.h"

#include "framework/base/files.h"
#include "framework/base/json.h"

namespace attnlab {
namespace {

using nlohmann::json;

std::int64_t last_step(const std::string& run_folder) {
  for (const std::string& line : last_lines(run_folder + "/metrics.jsonl", 1)) {
    const json entry = json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    try {
      return entry.value("step", std::int64_t{0});
    } catch (
        const json::exception&) {  // of another hand: no whole number, or one that does not fit
      continue;
    }
  }
  return 0;
}

}  // namespace

RunDetails read_details(const std::string& folder) {
  return {read_identity(folder), RunFolder(folder).start(), last_step(folder)};
}

}  // namespace attnlab
