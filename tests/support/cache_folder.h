// A cache folder of a test's own instead of the user's.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace attnlab::testing {

class CacheFolder {
 public:
  CacheFolder() {
    const char* before = std::getenv("XDG_CACHE_HOME");
    before_ = before == nullptr ? "" : before;
    ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  ~CacheFolder() {
    before_.empty() ? ::unsetenv("XDG_CACHE_HOME") : ::setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  /// What is kept there, by path.
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    const std::string own = folder_ / "attnlab";
    if (!std::filesystem::exists(own)) return all;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(own)) {
      all.push_back(entry.path());
    }
    return all;
  }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
  std::string before_;
};

}  // namespace attnlab::testing
