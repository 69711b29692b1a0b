#include "plugins/datasets/images/image_folder/label_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/data/formats/encoding.h"

namespace attnlab {
namespace {

using nlohmann::json;

std::string file_name_of(const std::string& file) { return file.substr(file.rfind('/') + 1); }

std::vector<std::string> sorted_names(const ImageList& images) {
  std::vector<std::string> names;
  names.reserve(images.files.size());
  for (const std::string& file : images.files) names.push_back(file_name_of(file));
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw DataError(fmt::format(
        "{}: two test images are called {}, so a set of classes would match both; rename one",
        images.folder, *twice));
  }
  return names;
}

std::vector<std::int64_t> set_of(const std::string& path, const std::string& name, const json& list,
                                 std::int64_t classes) {
  const auto is_class = [&](const json& one) {
    return one.is_number_unsigned() &&
           one.get<std::uint64_t>() < static_cast<std::uint64_t>(classes);
  };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_class)) {
    throw DataError(fmt::format(
        "{}: image {}: expected a list of classes from 0 to {}; take the file as it was published",
        path, name, classes - 1));
  }
  return list.get<std::vector<std::int64_t>>();
}

}  // namespace

std::string label_sets_file(const std::string& folder, const std::string& file) {
  for (const std::string& path : {folder + "/" + file, data_path(file)}) {
    if (std::filesystem::exists(path)) return path;
  }
  throw DataMissingError(
      fmt::format("{0}/{1}: is not there, nor is {1}; ImageNet-ReaL's real.json is in "
                  "github.com/google-research/reassessed-imagenet",
                  folder, file));
}

LabelSets read_label_sets(const std::string& path, const ImageList& images, std::int64_t classes) {
  const json file =
      json::parse(without_mark(read_text(path), path), nullptr, /*allow_exceptions=*/false);
  if (!file.is_array() && !file.is_object()) {
    throw DataError(fmt::format(
        "{}: expected JSON: a list of classes for each test image, or such lists by file names",
        path));
  }
  const std::vector<std::string> names = sorted_names(images);
  LabelSets sets;
  if (file.is_array() && file.size() != names.size()) {
    throw DataError(
        fmt::format("{}: has lists for {} images, but {} holds {}; the file is of another set",
                    path, file.size(), images.folder, names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (file.is_array()) {
      sets[names[i]] = set_of(path, names[i], file[i], classes);
    } else if (file.contains(names[i])) {
      sets[names[i]] = set_of(path, names[i], file.at(names[i]), classes);
    }
  }
  if (sets.empty()) {
    throw DataError(fmt::format("{}: does not name any of the {} test images of {}", path,
                                names.size(), images.folder));
  }
  return sets;
}

Tensor classes_of(const LabelSets& sets, const std::string& file) {
  const auto found = sets.find(file_name_of(file));
  return at::tensor(found == sets.end() ? std::vector<std::int64_t>() : found->second, at::kLong);
}

}  // namespace attnlab
