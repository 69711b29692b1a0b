// Files as the system pages them in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "framework/base/error.h"

namespace attnlab {

/// A whole file in the address space, for reading. Pages come when they are touched and go when
/// memory is short, so a file larger than memory is fine. Whoever cuts the file off meanwhile ends
/// the process: replace files by renaming, as `AtomicFile` does.
class MappedFile {
 public:
  /// @throws FileError when it cannot be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace attnlab
