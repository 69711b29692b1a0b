#include "framework/runs/folder_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "framework/base/files.h"

namespace attnlab {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

/// An open folder.
class Folder {
 public:
  Folder(int at, const char* name) {
    const int descriptor = ::openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    stream_ = ::fdopendir(descriptor);
    if (stream_ == nullptr) ::close(descriptor);
  }
  ~Folder() {
    if (stream_ != nullptr) ::closedir(stream_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  bool is_open() const { return stream_ != nullptr; }
  int descriptor() const { return ::dirfd(stream_); }
  /// Null at the end, and where it cannot be read further: `failed` then.
  const dirent* next() {
    errno = 0;
    const dirent* const entry = ::readdir(stream_);
    failed_ = entry == nullptr && errno != 0;
    return entry;
  }
  bool failed() const { return failed_; }

 private:
  DIR* stream_ = nullptr;
  bool failed_ = false;
};

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

/// @param inner  whether it is the folder `evaluations`, whose own folders do not count
bool look_through(Folder& folder, std::uint64_t seed, bool inner, FolderState& state) {
  if (!folder.is_open()) return false;
  while (const dirent* const entry = folder.next()) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat file {};
    // Of a link that leads nowhere, the link itself.
    if (::fstatat(folder.descriptor(), entry->d_name, &file, 0) != 0 &&
        ::fstatat(folder.descriptor(), entry->d_name, &file, AT_SYMLINK_NOFOLLOW) != 0) {
      return false;
    }
    if (S_ISDIR(file.st_mode) && (inner || name != "evaluations")) continue;
    add(seed, entry->d_name, file, state);
    if (!S_ISDIR(file.st_mode)) continue;
    Folder evaluations(folder.descriptor(), entry->d_name);
    if (!look_through(evaluations, seed + 1, true, state)) return false;
  }
  return !folder.failed();
}

}  // namespace

std::optional<FolderState> state_of_folder(const std::string& folder) {
  FolderState state;
  Folder open(AT_FDCWD, folder.c_str());
  if (!look_through(open, fingerprint(""), false, state)) return std::nullopt;
  return state;
}

std::int64_t now_in_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace attnlab
