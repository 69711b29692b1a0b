#include "framework/data/formats/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/base/regular_file.h"

namespace attnlab {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw FileError(fmt::format("{}: cannot read: {}", path, std::strerror(error)));
}

/// A descriptor that is closed; what is mapped stays.
struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file{open_regular(path)};
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail(path, errno);
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;  // nothing can be mapped
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) fail(path, errno);
  data_ = data;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace attnlab
