// The entries of a folder, as the system gives them.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <memory>

namespace attnlab {

class OpenFolder {
 public:
  /// @param at  the folder that a relative path begins in, or AT_FDCWD
  OpenFolder(int at, const char* path);
  ~OpenFolder();
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// The next entry, in no order, without "." and ".."; null at the end, and where there is an
  /// error.
  const dirent64* next();
  /// Why it cannot be opened or read further (errno); 0 where it can.
  int error() const { return error_; }

 private:
  bool read_more();

  int descriptor_ = -1, error_ = 0;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is left in the buffer
};

}  // namespace attnlab
