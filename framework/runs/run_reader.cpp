#include "framework/runs/run_reader.h"

namespace attnlab {

IndexedRun RunReader::read_run(const std::string& folder, bool details) {
  std::optional<FolderState> state;
  if (index_.is_on()) state = state_of_folder(folder);
  IndexedRun run;
  std::optional<IndexedRun> known;
  if (state) known = index_.find(folder, *state, pool_);
  if (known && (known->details || !details)) {
    run = std::move(*known);
  } else {
    ++opened_;
    run.record = attnlab::read_run(folder, pool_);
    if (details) run.details = read_details(folder);
    if (state) index_.add(run, *state);
  }
  if (state && index_.is_settled(*state)) run.record.print = state->print;
  return run;
}

}  // namespace attnlab
