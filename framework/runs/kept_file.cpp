#include "framework/runs/kept_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <vector>

#include "framework/base/cache_folder.h"
#include "framework/base/files.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;  // of all files together

/// Empty where nothing is to be kept.
std::string folder_of_kept() {
  const char* const choice = std::getenv("ATTNLAB_RUN_INDEX");
  if (choice != nullptr && std::string_view(choice) == "off") return "";
  const std::string folder = cache_folder();
  return folder.empty() ? "" : folder + "/runs";
}

/// Changes with every build of this library; empty where that is not known.
std::string build_stamp() {
  static const char kHere = 0;
  Dl_info library{};
  struct stat file {};
  if (::dladdr(&kHere, &library) == 0 || ::stat(library.dli_fname, &file) != 0) return "";
  return fmt::format("{} {} {} {}.{}", ATTNLAB_VERSION, file.st_ino, file.st_size,
                     file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

/// Removes the oldest files until all of them together are not too long.
void keep_small(const fs::path& folder) {
  std::vector<std::tuple<fs::file_time_type, std::uint64_t, fs::path>> files;
  std::uint64_t all = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::uint64_t size = entry.file_size(error);
    if (error) continue;
    files.emplace_back(entry.last_write_time(error), size, entry.path());
    all += size;
  }
  std::sort(files.begin(), files.end());
  for (const auto& [time, size, path] : files) {
    if (all <= kLargest) break;
    fs::remove(path, error);
    all -= size;
  }
}

/// What stands before the content.
std::string head_of(std::string_view content) {
  return "attnlab " + hex(fingerprint(content)) + "\n";
}

}  // namespace

KeptFile::KeptFile(const std::string& kind, const std::string& key) {
  const std::string folder = folder_of_kept(), stamp = build_stamp();
  if (folder.empty() || stamp.empty()) return;
  path_ = fmt::format("{}/{}.{}", folder, hex(fingerprint(key, fingerprint(stamp))), kind);
}

std::string KeptFile::read() const {
  std::error_code error;
  if (!is_on() || !fs::is_regular_file(path_, error)) return "";
  try {
    std::string text = read_text(path_, kLargest);
    const std::size_t head = head_of("").size();
    if (text.size() < head) return "";
    const std::string_view content = std::string_view(text).substr(head);
    if (!text.starts_with(head_of(content))) return "";
    return text.erase(0, head);
  } catch (const FileError&) {
    return "";
  }
}

void KeptFile::write(std::string_view content) const {
  if (!is_on() || content.size() > kLargest / 2) return;
  const fs::path folder = fs::path(path_).parent_path();
  try {
    std::error_code error;
    fs::create_directories(folder, error);
    fs::permissions(folder, fs::perms::owner_all, error);  // what runs say may be for nobody else
    AtomicFile file(path_);
    file.write(head_of(content));
    file.write(content);
    file.commit();
    keep_small(folder);
  } catch (const FileError&) {
    // A full disk, or a folder that is not ours: all is read anew next time.
  }
}

}  // namespace attnlab
