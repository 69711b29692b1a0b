// Files that targets write again for each input, in memory where the machine has such a folder.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace attnlab::fuzz {

/// A folder that lasts as long as the process.
class MemoryFolder {
 public:
  MemoryFolder() : path_(::access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz-XXXXXX" : "fuzz-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) fail("no folder for files");
  }
  ~MemoryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string file = path_ + "/" + name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) fail("cannot write " + file);
    return file;
  }

 private:
  std::string path_;
};

/// Paths of what a folder holds, below others too: of all but folders.
inline std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_directory()) files.push_back(entry.path().string());
  }
  return files;
}

/// What stands before and after the first "%%".
inline std::pair<std::string, std::string> halves(std::string_view input) {
  const std::size_t cut = input.find("%%");
  if (cut == std::string_view::npos) return {std::string(input), ""};
  return {std::string(input.substr(0, cut)), std::string(input.substr(cut + 2))};
}

}  // namespace attnlab::fuzz
