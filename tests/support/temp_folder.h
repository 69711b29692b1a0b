// A folder for one test, removed with everything in it when the test ends.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "framework/base/files.h"

namespace attnlab::testing {

class TempFolder {
 public:
  const std::string& path() const { return folder_.path(); }
  /// The path of something in the folder.
  std::string operator/(std::string_view name) const { return path() + "/" + std::string(name); }

  /// A text in which the folder's name does not stand before the files in it.
  std::string without(std::string text) const {
    const std::string prefix = path() + "/";
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) {
      text.erase(at, prefix.size());
    }
    return text;
  }

  /// Writes a file, with the folders above it. @returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error(path + ": cannot write");
    return path;
  }

 private:
  ScratchFolder folder_;
};

/// Makes a folder the current one for a while.
class InFolder {
 public:
  explicit InFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~InFolder() { std::filesystem::current_path(before_); }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace attnlab::testing
