#include "framework/runs/open_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace attnlab {
namespace {

constexpr std::size_t kBuffer = 16384;  // bytes; an entry takes some 30

}  // namespace

OpenFolder::OpenFolder(int at, const char* path)
    : descriptor_(::openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!is_open()) error_ = errno;
}

OpenFolder::~OpenFolder() {
  if (is_open()) ::close(descriptor_);
}

const dirent64* OpenFolder::next() {
  while (begin_ < end_ || read_more()) {
    const auto* const entry = reinterpret_cast<const dirent64*>(buffer_.get() + begin_);
    begin_ += entry->d_reclen;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry;
  }
  return nullptr;
}

bool OpenFolder::read_more() {
  if (!is_open() || error_ != 0) return false;
  if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<char[]>(kBuffer);
  const auto got = ::getdents64(descriptor_, buffer_.get(), kBuffer);
  if (got < 0) error_ = errno;
  begin_ = 0;
  end_ = got < 0 ? 0 : static_cast<std::size_t>(got);
  return end_ > 0;
}

}  // namespace attnlab
