#include "framework/runs/run_reader.h"

namespace attnlab {

IndexedRun RunReader::read_run(const std::string& folder, bool details) {
  std::optional<FolderState> state;
  if (index_.is_on()) state = state_of_folder(folder);
  if (state) {
    std::optional<IndexedRun> known = index_.find(folder, *state, pool_);
    if (known && (known->details || !details)) return std::move(*known);
  }
  ++opened_;
  IndexedRun run{attnlab::read_run(folder, pool_), {}};
  if (details) run.details = read_details(folder);
  if (state) index_.add(run, *state);
  return run;
}

}  // namespace attnlab
