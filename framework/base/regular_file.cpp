#include "framework/base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/base/error.h"

namespace attnlab {
namespace {

std::string reason_of(int error) {
  std::string text = std::strerror(error);
  if (error == EACCES || error == EPERM) text += "; check the permissions";
  return text;
}

/// What keeps an open file from being read as a whole; empty: nothing.
std::string obstacle(int descriptor) {
  struct stat there {};
  if (::fstat(descriptor, &there) != 0) return reason_of(errno);
  if (S_ISDIR(there.st_mode)) return "it is a folder";
  if (S_ISREG(there.st_mode)) return "";
  return "it is a device, a pipe or a socket; copy what it gives into a file first";
}

}  // namespace

int open_regular(const std::string& path) {
  if (path.find('\0') != std::string::npos) {  // the system would take what stands before it
    throw FileError(path +
                    ": cannot read: its name has a zero byte, which is not allowed; the text that "
                    "names it is damaged, or is not UTF-8 (convert it: iconv -t UTF-8)");
  }
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const std::string problem = descriptor < 0 ? reason_of(errno) : obstacle(descriptor);
  if (problem.empty()) return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  throw FileError(fmt::format("{}: cannot read: {}", path, problem));
}

InputStream open_regular_stream(const std::string& path) {
  const int descriptor = open_regular(path);
  InputStream stream(::fdopen(descriptor, "rb"));
  if (stream) return stream;
  const int error = errno;
  ::close(descriptor);
  throw FileError(fmt::format("{}: cannot read: {}", path, reason_of(error)));
}

}  // namespace attnlab
