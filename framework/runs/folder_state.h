// What tells, without opening a file, whether a run's folder is as it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attnlab {

struct FolderState {
  /// Of name, size, times and inode of each file in the folder, those of `evaluations/` included.
  std::uint64_t print = 0;
  /// When the youngest of them was written or changed, in nanoseconds since 1970.
  std::int64_t youngest = 0;
  /// Two bits for each name in the folder itself; some names share them.
  std::uint64_t names = 0;

  /// False: nothing of that name is in the folder itself.
  bool may_hold(std::string_view name) const;
};

/// Empty where the folder cannot be looked through.
std::optional<FolderState> state_of_folder(const std::string& folder);

/// Now, by the clock that files get their times from.
std::int64_t now_in_nanoseconds();

}  // namespace attnlab
