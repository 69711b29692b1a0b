// Reads many runs: what their configurations have in common is kept once, and finished runs whose
// files are as they were are taken from the index.
#pragma once

#include <string>
#include <vector>

#include "framework/runs/run_index.h"

namespace attnlab {

class RunReader {
 public:
  /// @param folders  that were searched for runs
  /// @param now      as RunIndex has it
  explicit RunReader(const std::vector<std::string>& folders,
                     std::int64_t now = now_in_nanoseconds())
      : index_(folders, now) {}

  /// @throws Error where the run cannot be read.
  RunRecord read(const std::string& folder) { return read_run(folder, false).record; }
  /// The same with its details.
  IndexedRun read_closely(const std::string& folder) { return read_run(folder, true); }
  /// Keeps what was read for the next call.
  void keep() { index_.save(); }

  /// How many runs were read from their own files.
  std::size_t opened() const { return opened_; }
  /// How many sections of configurations are known.
  std::size_t sections() const { return pool_.size(); }

 private:
  IndexedRun read_run(const std::string& folder, bool details);

  ConfigPool pool_;
  RunIndex index_;
  std::size_t opened_ = 0;
};

}  // namespace attnlab
