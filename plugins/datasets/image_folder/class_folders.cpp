#include "plugins/datasets/image_folder/class_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/text.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& letter : ending) letter = static_cast<char>(std::tolower(letter));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png" || ending == ".webp";
}

struct Found {
  std::string name;  ///< below the split's folder
  std::uint64_t bytes;
};

std::vector<Found> images_below(const std::string& folder, const std::string& name) {
  std::vector<Found> found;
  for (const auto& entry : fs::recursive_directory_iterator(
           folder + "/" + name, fs::directory_options::follow_directory_symlink)) {
    if (!is_image(entry.path()) || !entry.is_regular_file()) continue;
    found.push_back({entry.path().string().substr(folder.size() + 1), entry.file_size()});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return found;
}

}  // namespace

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ImageList list_images(const std::string& folder, const std::vector<std::string>& classes,
                      std::uint64_t& hash) try {
  ImageList list;
  list.folder = folder;
  for (const std::string& name : folders_in(folder)) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    if (known == classes.end() || *known != name) {
      throw DataError(folder + "/" + name + ": is no class of the training folder" +
                      suggestion(name, classes) + "; remove or rename it");
    }
    const std::vector<Found> found = images_below(folder, name);
    if (found.empty()) throw DataError(folder + "/" + name + ": holds no images");
    for (const Found& file : found) {
      hash = fingerprint(fmt::format("{}:{};", file.name, file.bytes), hash);
      list.files.push_back(file.name);
      list.labels.push_back(known - classes.begin());
      list.bytes += file.bytes;
    }
  }
  return list;
} catch (const fs::filesystem_error& error) {
  throw FileError(folder + ": cannot be listed: " + error.what());
}

}  // namespace attnlab
