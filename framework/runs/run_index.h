// What was read of finished runs, kept for the next call in a folder of the user: a second
// `attnlab compare` of 10,000 runs looks at their folders, and opens no file in them.
//
// A run is taken from the index while name, size, times and inode of every file in its folder are
// what they were (folder_state.h). A file that was written while it was read, or in the two seconds
// before, may be written again without any of these changing, as git has it; its run is not kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/runs/folder_state.h"
#include "framework/runs/kept_file.h"
#include "framework/runs/packed.h"
#include "framework/runs/run_details.h"
#include "framework/runs/run_records.h"

namespace attnlab {

/// A run, as one that was read and as one that is in the index.
struct IndexedRun {
  RunRecord record;
  std::optional<RunDetails> details;  ///< empty where nobody has asked for them
};

class RunIndex {
 public:
  /// Fewer new runs are not worth a new file.
  static constexpr std::size_t kWorth = 64;

  /// @param folders  that are searched
  /// @param now      before any of their files is read; in nanoseconds since 1970
  /// @param pool     gets the sections of configurations that are kept
  RunIndex(const std::vector<std::string>& folders, std::int64_t now, ConfigPool& pool);

  /// Whether anything is kept.
  bool is_on() const { return file_.is_on(); }
  /// Whether whatever changes a folder's files from now on changes its state.
  bool is_settled(const FolderState& state) const;
  /// A run whose folder is in that state; empty where that is not known. Several threads may ask.
  std::optional<IndexedRun> find(const std::string& folder, const FolderState& state) const;
  /// Takes a run over that was found.
  void keep(const std::string& folder) { entries_.at(folder).kept = true; }
  /// Takes a run that was read, where it is finished and nothing else has its place.
  /// @param state  of its folder, before it was read
  void add(const IndexedRun& run, const FolderState& state);
  /// Writes what was kept and added, where enough of it is new.
  void save();

 private:
  struct Entry {
    std::uint64_t print = 0;
    std::string_view bytes;
    bool kept = false;
  };
  struct Fresh {
    std::string folder;
    std::uint64_t print = 0;
    std::string bytes;
  };

  void take_entries(ConfigPool& pool);
  IndexedRun unpacked(const std::string& folder, const Entry& entry) const;
  void append(const IndexedRun& run, std::uint64_t print);
  void add_kept();

  std::int64_t begun_;
  KeptFile file_;
  std::string text_;  ///< of the file; what follows points into it
  std::vector<std::string_view> texts_;
  RunConfig::Sections sections_;
  std::unordered_map<std::string_view, Entry> entries_;
  TextTable new_texts_, new_sections_;
  std::vector<Fresh> fresh_;
};

}  // namespace attnlab
