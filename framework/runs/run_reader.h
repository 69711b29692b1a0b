// Reads many runs: what their configurations have in common is kept once, and finished runs whose
// files are as they were are taken from the index.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/runs/run_index.h"
#include "framework/runs/run_search.h"

namespace attnlab {

class RunReader {
 public:
  /// @param folders  that were searched for runs
  /// @param now      as RunIndex has it
  explicit RunReader(const std::vector<std::string>& folders,
                     std::int64_t now = now_in_nanoseconds())
      : index_(folders, now, pool_) {}

  /// Reads runs, several at a time.
  /// @param closely  whether their details are asked for
  /// @param take     gets each that can be read, in the order of the folders
  /// @param lost     gets each other, in its turn
  void read(const std::vector<std::string>& folders, bool closely,
            const std::function<void(IndexedRun&&)>& take,
            const std::function<void(const Unreadable&)>& lost);
  /// Keeps what was read for the next call.
  void keep() { index_.save(); }

  /// How many runs were read from their own files.
  std::size_t opened() const { return opened_; }
  /// How many sections of configurations are known.
  std::size_t sections() const { return pool_.size(); }

 private:
  struct Slot {
    std::optional<FolderState> state;
    std::optional<IndexedRun> run;
    bool is_new = false;
    std::string reason;  ///< why it cannot be read
  };

  /// Does not change what other runs are read with.
  Slot read_one(const std::string& folder, bool closely);
  void give(Slot slot, const std::string& folder, const std::function<void(IndexedRun&&)>& take,
            const std::function<void(const Unreadable&)>& lost);

  ConfigPool pool_;
  RunIndex index_;
  std::size_t opened_ = 0;
};

}  // namespace attnlab
