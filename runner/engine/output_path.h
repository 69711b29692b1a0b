// Where a command writes, wherever plugin code goes in the meantime.
#pragma once

#include <functional>
#include <string>

namespace attnlab {

/// A path of the command line. Made before plugin code runs, which may change the working folder.
struct OutputPath {
  explicit OutputPath(const std::string& path);
  /// Of a file in this folder.
  OutputPath file(const std::string& name) const;
  /// Hands on the whole path. @throws FileError naming the path as it was given.
  void write(const std::function<void(const std::string& path)>& how) const;

  std::string given;  ///< for people
  std::string whole;  ///< absolute
};

}  // namespace attnlab
