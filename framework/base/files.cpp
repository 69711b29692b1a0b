#include "framework/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace attnlab {
namespace {

std::string reason(int error) {
  std::string text = std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) text += "; free some space and resume";
  if (error == EACCES || error == EPERM) text += "; check the permissions";
  return text;
}

/// Writes everything, going on after signals and short writes. Returns 0 or an errno.
int write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, data, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return 0;
}

/// What stands before the process's number in the name of a temporary file.
std::string temporary_mark() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return fmt::format(".tmp-{}-", host);
}

/// Whether a process of this machine that is not this one lives.
bool lives(::pid_t process) {
  if (process == ::getpid()) return false;
  return ::kill(process, 0) == 0 || errno != ESRCH;
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)),
      temporary_(fmt::format("{}{}{}", path_, temporary_mark(), ::getpid())) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot create");
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) {
  const int error = errno;
  discard();
  throw FileError(fmt::format("{}: {}: {}", path_, action, reason(error)));
}

void AtomicFile::write(const void* data, std::size_t size) {
  const int error = write_all(descriptor_, static_cast<const char*>(data), size);
  if (error != 0) {
    errno = error;
    fail("cannot write");
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("cannot write");
  if (::close(descriptor_) != 0) {
    const int error = errno;
    descriptor_ = -1;
    ::unlink(temporary_.c_str());
    throw FileError(fmt::format("{}: cannot write: {}", path_, reason(error)));
  }
  descriptor_ = -1;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    throw FileError(fmt::format("{}: cannot replace: {}", path_, reason(error)));
  }
}

void remove_dead_temporaries(const std::string& folder) {
  const std::string mark = temporary_mark();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.rfind(mark);
    if (at == std::string::npos) continue;
    const char* const begin = name.data() + at + mark.size();
    const char* const end = name.data() + name.size();
    ::pid_t process = 0;
    const auto read = std::from_chars(begin, end, process);
    if (read.ec != std::errc() || read.ptr != end || process <= 0 || lives(process)) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw FileError(path + ": cannot read: it is a folder");
  }
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) throw FileError(fmt::format("{}: cannot read: {}", path, reason(errno)));
  std::string text;
  char buffer[1 << 16];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, count);
  const bool failed = std::ferror(file) != 0;
  const int error = errno;
  std::fclose(file);
  if (failed) throw FileError(fmt::format("{}: cannot read: {}", path, reason(error)));
  return text;
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
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::int64_t>(in.tellg());
  std::vector<std::string> lines;
  // More of the end each time, until the lines are in it whole.
  for (std::int64_t taken = 16384;; taken *= 4) {
    const std::int64_t start = std::max<std::int64_t>(0, size - taken);
    std::string text(static_cast<std::size_t>(size - start), '\0');
    in.clear();
    in.seekg(start);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    lines = lines_of(text);
    if (start == 0 || lines.size() > most) break;  // the first of them may be cut
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

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

LineWriter::LineWriter(std::string path, std::int64_t keep_bytes) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
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
  const int error = write_all(descriptor_, line.data(), line.size());
  if (error != 0) {
    // A full disk must not leave half a line behind.
    if (::ftruncate(descriptor_, size_) == 0) ::lseek(descriptor_, size_, SEEK_SET);
    throw FileError(fmt::format("{}: cannot write: {}", path_, reason(error)));
  }
  size_ += static_cast<std::int64_t>(line.size());
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
