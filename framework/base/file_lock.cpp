#include "framework/base/file_lock.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace attnlab {
namespace {

struct flock whole_file() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

}  // namespace

FileLock::FileLock(const std::string& path)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) {
    // (Its holder's name would replace what a link leads to.)
    if (errno == ELOOP) throw FileError(path + ": cannot write: it is a link; remove it");
    const char* const remedy =
        errno == ENOSPC ? "free some space" : "check that the folder is there, and its permissions";
    throw FileError(fmt::format("{}: cannot write: {}; {}", path, std::strerror(errno), remedy));
  }
  struct flock range = whole_file();
  if (::fcntl(descriptor_, F_OFD_SETLK, &range) == 0) {
    state_ = State::held;
  } else if (errno == EAGAIN || errno == EACCES) {
    state_ = State::taken;
  }
}

FileLock::~FileLock() { ::close(descriptor_); }

bool FileLock::write(std::string_view text) const {
  if (::ftruncate(descriptor_, 0) != 0) return false;
  const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), 0);
  if (written >= 0 && written < static_cast<ssize_t>(text.size())) errno = ENOSPC;
  if (written != static_cast<ssize_t>(text.size())) return false;
  return state_ != State::unknown || ::fdatasync(descriptor_) == 0;
}

std::optional<bool> is_locked(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct flock range = whole_file();
  const bool asked = ::fcntl(descriptor, F_OFD_GETLK, &range) == 0;
  ::close(descriptor);
  return asked ? std::optional(range.l_type != F_UNLCK) : std::nullopt;
}

}  // namespace attnlab
