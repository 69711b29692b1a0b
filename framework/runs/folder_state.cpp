#include "framework/runs/folder_state.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "framework/base/files.h"
#include "framework/runs/open_folder.h"

namespace attnlab {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

/// Files come in any order, so that their prints are added up.
void add(std::uint64_t seed, const char* name, const struct stat& file, FolderState& state) {
  const std::int64_t facts[] = {static_cast<std::int64_t>(file.st_dev),
                                static_cast<std::int64_t>(file.st_ino),
                                static_cast<std::int64_t>(file.st_mode),
                                file.st_size,
                                nanoseconds(file.st_mtim),
                                nanoseconds(file.st_ctim)};
  const std::uint64_t print =
      fingerprint({reinterpret_cast<const char*>(facts), sizeof facts}, fingerprint(name, seed));
  state.print += print * 0x9e3779b97f4a7c15ULL;
  // A folder's own time says nothing that its files' names and times do not.
  if (S_ISDIR(file.st_mode)) return;
  state.youngest = std::max({state.youngest, facts[4], facts[5]});
}

/// One or two of 64, the same for the same name.
std::uint64_t bits_of(std::string_view name) {
  const std::uint64_t print = fingerprint(name) * 0x9e3779b97f4a7c15ULL;
  return std::uint64_t{1} << (print >> 58) | std::uint64_t{1} << (print >> 52 & 63);
}

/// @param inner  whether it is the folder `evaluations`, whose own folders do not count
bool look_through(OpenFolder& folder, std::uint64_t seed, bool inner, FolderState& state) {
  while (const dirent64* const entry = folder.next()) {
    const std::string_view name = entry->d_name;
    struct stat file {};
    // Of a link that leads nowhere, the link itself.
    if (::fstatat(folder.descriptor(), entry->d_name, &file, 0) != 0 &&
        ::fstatat(folder.descriptor(), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) {
      return false;
    }
    if (!inner) state.names |= bits_of(name);
    if (S_ISDIR(file.st_mode) && (inner || name != "evaluations")) continue;
    add(seed, entry->d_name, file, state);
    if (!S_ISDIR(file.st_mode)) continue;
    OpenFolder evaluations(folder.descriptor(), entry->d_name);
    if (!look_through(evaluations, seed + 1, true, state)) return false;
  }
  return folder.error() == 0;
}

}  // namespace

bool FolderState::may_hold(std::string_view name) const { return (~names & bits_of(name)) == 0; }

std::optional<FolderState> state_of_folder(const std::string& folder) {
  FolderState state;
  OpenFolder open(AT_FDCWD, folder.c_str());
  if (!look_through(open, fingerprint(""), false, state)) return std::nullopt;
  return state;
}

std::int64_t now_in_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace attnlab
