#include "framework/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "framework/base/process_alive.h"
#include "framework/base/regular_file.h"
#include "framework/base/text.h"
#include "framework/base/write_all.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostNames = 10;                      // that are tried for a temporary file
constexpr std::int64_t kMostOfEnd = std::int64_t{1} << 20;  // bytes in which last lines are sought

std::string reason(int error) {
  std::string text = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) text += "; free some space and resume";
  if (error == EACCES || error == EPERM) text += "; check the permissions";
  return text;
}

/// What stands before the process's number in the name of a temporary file.
std::string temporary_mark() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return fmt::format(".tmp-{}-", host);
}

/// A path and where its links lead, one after another; the last is none, whether something is there
/// or not.
std::vector<std::filesystem::path> links_from(const std::string& path) {
  constexpr int kMost = 40;  // as Linux follows
  std::vector<std::filesystem::path> chain = {path};
  std::error_code error;
  for (int i = 0; i < kMost; ++i) {
    const std::filesystem::path at = chain.back();
    if (!std::filesystem::is_symlink(at, error)) return chain;
    chain.push_back(at.parent_path() / std::filesystem::read_symlink(at, error));
    if (error) break;
  }
  throw FileError(fmt::format("{}: cannot write: {}", path, reason(ELOOP)));
}

/// Opens what a process has open, as /dev/stdout, /dev/fd/3 and /proc/PID/fd/3 name it, so that
/// what is written follows what stands there. (By its name the file would be replaced.)
/// @returns -1 with errno where that fails; none if the path is not such a link
std::optional<int> open_again(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_symlink(path, error)) return std::nullopt;
  const fs::path folder =
      fs::canonical(path.has_parent_path() ? path.parent_path() : fs::path("."), error);
  const std::string name = folder.string();
  if (error || !name.starts_with("/proc/") || !name.ends_with("/fd")) return std::nullopt;
  if (folder != fs::canonical("/proc/self/fd", error)) {
    return ::open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
  }
  return ::fcntl(std::atoi(path.filename().c_str()), F_DUPFD_CLOEXEC, 0);
}

/// Whether fsync failed because there is nothing to make durable: a FIFO, a file system that
/// cannot.
bool cannot_sync(int error) {
  return error == EINVAL || error == ENOTSUP || error == ENOSYS || error == EROFS;
}

/// Makes a renamed file's name durable: it stands in the folder, not in the file. A folder that may
/// be written to and not read cannot be opened for that.
/// @returns 0, or an errno
int sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno == EACCES || errno == EPERM ? 0 : errno;
  const int error = ::fsync(descriptor) != 0 && !cannot_sync(errno) ? errno : 0;
  ::close(descriptor);
  return error;
}

/// Removes what dead processes left of one file of a folder, or of all where no name is given.
void remove_dead(const std::filesystem::path& folder, const std::string& file) {
  const std::string mark = temporary_mark();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.rfind(mark);
    if (at == std::string::npos || (!file.empty() && name.substr(0, at) != file)) continue;
    const auto process = parsed_number<::pid_t>(std::string_view(name).substr(at + mark.size()));
    if (!process || *process <= 0) continue;
    if (*process != ::getpid() && is_alive(*process)) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace

int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat there {};
  const bool exists = ::stat(path_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) {
    throw FileError(path_ + ": cannot write: it is a folder; name a file in it");
  }
  const std::vector<std::filesystem::path> links = links_from(path_);
  for (const std::filesystem::path& link : links) {
    const std::optional<int> opened = open_again(link);
    if (!opened) continue;
    descriptor_ = *opened;
    if (descriptor_ < 0) fail("cannot write");
    return;
  }
  if (exists && !S_ISREG(there.st_mode)) {  // a device, a FIFO: what stands there stays there
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ < 0) fail("cannot write");
    return;
  }
  path_ = links.back().string();
  const std::filesystem::path target(path_);
  remove_dead(target.has_parent_path() ? target.parent_path() : ".", target.filename().string());
  // Its name can be guessed: nothing that others put there is written to or through. Where what
  // stands there cannot be removed either, zeros before the number make another name.
  for (std::size_t zeros = 0; zeros < kMostNames; ++zeros) {
    temporary_ =
        fmt::format("{}{}{}{}", path_, temporary_mark(), std::string(zeros, '0'), ::getpid());
    descriptor_ =
        ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ >= 0 || errno != EEXIST) break;
  }
  if (descriptor_ < 0) fail("cannot create");
  // A file that others may not read stays so.
  if (exists) ::fchmod(descriptor_, there.st_mode & 0777);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) {
  const int error = errno;
  discard();
  throw FileError(fmt::format("{}: {}: {}", path_, action, reason(error)));
}

void AtomicFile::write(const void* data, std::size_t size) {
  const int error = write_all(descriptor_, {static_cast<const char*>(data), size});
  if (error != 0) {
    errno = error;
    fail("cannot write");
  }
}

void AtomicFile::commit() {
  // (A FIFO or a terminal has nothing to make durable.)
  if (::fsync(descriptor_) != 0 && !(temporary_.empty() && errno == EINVAL)) fail("cannot write");
  const int descriptor = std::exchange(descriptor_, -1);
  const char* action = ::close(descriptor) != 0 ? "cannot write" : nullptr;
  if (action == nullptr && !temporary_.empty() &&
      ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    action = "cannot replace";
  }
  if (action != nullptr) {
    const int error = errno;
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    throw FileError(fmt::format("{}: {}: {}", path_, action, reason(error)));
  }
  if (temporary_.empty()) return;
  if (const int error = sync_folder_of(path_); error != 0) {
    throw FileError(fmt::format("{}: cannot make its name durable: {}", path_, reason(error)));
  }
}

void remove_dead_temporaries(const std::string& folder) { remove_dead(folder, ""); }

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

namespace {

/// Gives a whole file to `take`, piece by piece, until that returns false.
/// @throws FileError.
template <class Take>
void read_pieces(const std::string& path, Take take) {
  const int descriptor = open_regular(path);
  int error = 0;
  char buffer[1 << 16];
  for (ssize_t count = 1; count != 0 && error == 0;) {
    count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno != EINTR) error = errno;
    if (count > 0 && !take(std::string_view(buffer, static_cast<std::size_t>(count)))) break;
  }
  ::close(descriptor);
  if (error != 0) throw FileError(fmt::format("{}: cannot read: {}", path, reason(error)));
}

}  // namespace

std::string read_text(const std::string& path, std::uint64_t most) {
  std::error_code unknown;  // said by what opens it
  std::uintmax_t size = std::filesystem::file_size(path, unknown);
  std::string text;
  if (unknown || size <= most) {
    size = 0;  // it may grow meanwhile
    read_pieces(path, [&](std::string_view piece) {
      size += piece.size();
      if (size <= most) text += piece;
      return size <= most;
    });
  }
  if (size <= most) return text;
  throw FileError(
      fmt::format("{}: cannot read: it is longer than {} MiB, and attnlab writes no such file; it "
                  "is damaged, or not attnlab's",
                  path, most >> 20));
}

std::optional<std::uint64_t> file_fingerprint(const std::string& path,
                                              std::optional<std::uint64_t> bytes) {
  std::uint64_t print = fingerprint("");
  std::uint64_t left = bytes.value_or(std::numeric_limits<std::uint64_t>::max());
  read_pieces(path, [&](std::string_view piece) {
    piece = piece.substr(0, std::min<std::uint64_t>(left, piece.size()));
    left -= piece.size();
    print = fingerprint(piece, print);
    return left > 0;
  });
  return bytes && left > 0 ? std::nullopt : std::optional(print);
}

bool is_there(const std::string& path) {
  struct stat unused {};
  if (::stat(path.c_str(), &unused) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw FileError(
      fmt::format("{}: cannot be looked at: {}; check the permissions of the folders "
                  "above it",
                  path, reason(errno)));
}

namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

}  // namespace

std::vector<std::string> last_lines(const std::string& path, std::size_t most) {
  std::error_code error;  // opening a FIFO would wait for its writer
  if (!std::filesystem::is_regular_file(path, error)) return {};
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::int64_t>(in.tellg());
  std::vector<std::string> lines;
  // More of the end each time, until the lines are in it whole or are too long to be kept whole.
  for (std::int64_t taken = 16384;; taken *= 4) {
    const std::int64_t start = std::max<std::int64_t>(0, size - taken);
    std::string text(static_cast<std::size_t>(size - start), '\0');
    in.clear();
    in.seekg(start);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    lines = lines_of(text);
    // (The first of them may be cut.)
    if (start == 0 || lines.size() > most || taken >= kMostOfEnd) break;
  }
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<long>(most));
  return lines;
}

ScratchFolder::ScratchFolder()
    : path_((std::filesystem::temp_directory_path() / "attnlab-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) {
    throw FileError(fmt::format("{}: cannot make a folder: {}", path_, reason(errno)));
  }
}

ScratchFolder::~ScratchFolder() { remove_tree(path_); }

void open_to_owner(int at, const char* name) {
  const int path = ::openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (path < 0) return;
  ::chmod(fmt::format("/proc/self/fd/{}", path).c_str(), S_IRWXU);
  ::close(path);
}

namespace {

/// @returns a descriptor; -1 for anything else than a folder.
int opened_to_owner(int at, const char* name) {
  open_to_owner(at, name);
  return ::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  DIR* const stream = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return names;
  while (const dirent* entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  ::closedir(stream);
  return names;
}

bool remove_one(int folder, const std::string& name) {
  return ::unlinkat(folder, name.c_str(), 0) == 0 ||
         ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0;
}

/// Empties a folder. However deep it is, three descriptors suffice: the folders in a folder of it
/// are moved up into it, until none holds another.
void empty_folder(int top) {
  std::uint64_t moved = 0;
  const auto move_up = [&](int from, const std::string& name) {
    open_to_owner(from, name.c_str());  // else it cannot be moved
    constexpr int kTries = 100;         // names that the folder has already
    for (int i = 0; i < kTries; ++i) {
      const std::string fresh = fmt::format(".attnlab-{}", moved++);
      if (::renameat(from, name.c_str(), top, fresh.c_str()) == 0) return true;
    }
    return false;
  };
  for (bool went_on = true; went_on;) {
    went_on = false;
    for (const std::string& name : names_in(top)) {
      if (remove_one(top, name)) {
        went_on = true;
        continue;
      }
      const int folder = opened_to_owner(top, name.c_str());
      if (folder < 0) continue;
      for (const std::string& inner : names_in(folder)) {
        went_on = remove_one(folder, inner) || move_up(folder, inner) || went_on;
      }
      ::close(folder);
      went_on = remove_one(top, name) || went_on;
    }
  }
}

}  // namespace

void remove_tree(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) return;
  // It is too deep for that, or a folder in it is closed.
  const int top = opened_to_owner(AT_FDCWD, folder.c_str());
  if (top < 0) return;
  empty_folder(top);
  ::close(top);
  std::filesystem::remove(folder, error);
}

LineWriter::LineWriter(std::string path, std::int64_t keep_bytes) : path_(std::move(path)) {
  // (A FIFO that nobody reads would wait for a reader.)
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw FileError(fmt::format("{}: cannot write: {}", path_, reason(errno)));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  size_ = known ? static_cast<std::int64_t>(status.st_size) : 0;
  if (keep_bytes >= 0 && keep_bytes < size_) size_ = keep_bytes;
  if (!known || ::ftruncate(descriptor_, size_) != 0 ||
      ::lseek(descriptor_, size_, SEEK_SET) != size_) {
    const int error = errno;
    ::close(descriptor_);
    throw FileError(fmt::format("{}: cannot write: {}", path_, reason(error)));
  }
}

LineWriter::~LineWriter() { ::close(descriptor_); }

void LineWriter::line(std::string_view text) {
  std::string line(text);
  line += '\n';
  const int error = write_all(descriptor_, line);
  if (error != 0) {
    // A full disk must not leave half a line behind.
    if (::ftruncate(descriptor_, size_) == 0) ::lseek(descriptor_, size_, SEEK_SET);
    throw FileError(fmt::format("{}: cannot write: {}", path_, reason(error)));
  }
  size_ += static_cast<std::int64_t>(line.size());
}

void LineWriter::sync() {
  if (::fsync(descriptor_) == 0 || cannot_sync(errno)) return;
  throw FileError(fmt::format("{}: cannot write: {}", path_, reason(errno)));
}

std::uint64_t fingerprint(std::string_view bytes, std::uint64_t seed) {
  std::uint64_t hash = seed;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  return hash;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace attnlab
