#include "plugins/datasets/images/image_folder/class_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"

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

/// @throws DataError where what the link leads to is missing: it would be left out without a word.
void refuse_link_to_nothing(const fs::directory_entry& entry) {
  if (!entry.is_symlink() || entry.exists()) return;
  throw DataError(
      fmt::format("{}: is a link to nothing: what it leads to was not fetched, or moved",
                  entry.path().string()));
}

std::vector<Found> images_below(const std::string& folder, const std::string& name) {
  std::vector<Found> found;
  for (const auto& entry : fs::recursive_directory_iterator(
           folder + "/" + name, fs::directory_options::follow_directory_symlink)) {
    const bool image = is_image(entry.path());
    if (image || !entry.path().has_extension()) refuse_link_to_nothing(entry);  // or a folder's
    if (!image || !entry.is_regular_file()) continue;
    found.push_back({entry.path().string().substr(folder.size() + 1), entry.file_size()});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return found;
}

/// Whether the hash of two splits' files tells where the first ends, as their classes begin anew.
bool show_their_end(const ImageList& before, const ImageList& after) {
  const auto folder = [](const std::string& file) { return file.substr(0, file.find('/')); };
  return before.empty() || after.empty() ||
         folder(before.files.back()) > folder(after.files.front());
}

[[noreturn]] void cannot_list(const std::string& folder, const fs::filesystem_error& error) {
  throw FileError(fmt::format("{}: cannot be listed: {}; check its permissions, and where it leads",
                              folder, error.what()));
}

/// Names of the folders in a folder, sorted; none where it is not there. Pictures in it are passed
/// over, whether or not they are there.
/// @throws FileError where that cannot be told; DataError for a link to nothing.
std::vector<std::string> folders_in(const std::string& folder) try {
  std::vector<std::string> names;
  if (fs::symlink_status(folder).type() == fs::file_type::not_found) return names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_image(entry.path())) refuse_link_to_nothing(entry);
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
} catch (const fs::filesystem_error& error) {
  cannot_list(folder, error);
}

/// The label of a class folder; -1: it is none.
/// @param by_number  its name is the label itself
std::int64_t label_of(const std::string& name, const std::vector<std::string>& classes,
                      bool by_number) {
  if (by_number) {
    const bool digits =
        name.size() < 7 && name.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t number = digits ? std::stoll(name) : -1;
    return number < static_cast<std::int64_t>(classes.size()) ? number : -1;
  }
  const auto known = std::lower_bound(classes.begin(), classes.end(), name);
  return known != classes.end() && *known == name ? known - classes.begin() : -1;
}

/// Whether the class folders in these folders have numbers: where none has a class's name. It is
/// one of both for all of them, since classes may be called "1", "2", ... themselves.
bool are_numbered(const std::vector<std::string>& folders,
                  const std::vector<std::string>& classes) {
  for (const std::string& folder : folders) {
    for (const std::string& name : folders_in(folder)) {
      if (label_of(name, classes, /*by_number=*/false) >= 0) return false;
    }
  }
  return true;
}

/// Adds names and sizes of all files to `hash`.
ImageList list_images(const std::string& folder, const std::vector<std::string>& classes,
                      bool by_number, std::uint64_t& hash) try {
  ImageList list;
  list.folder = folder;
  std::map<std::int64_t, std::string> before;  // folders by their labels
  for (const std::string& name : folders_in(folder)) {
    const std::int64_t label = label_of(name, classes, by_number);
    if (label < 0) {
      throw DataError(
          fmt::format("{}/{}: is no class of the training folder{}; remove or rename it", folder,
                      name, suggestion(name, classes)));
    }
    if (const auto [same, added] = before.emplace(label, name); !added) {
      throw DataError(
          fmt::format("{0}/{1}: is the same class as {0}/{2}; put the pictures into one "
                      "of them",
                      folder, name, same->second));
    }
    const std::vector<Found> found = images_below(folder, name);
    if (found.empty()) throw DataError(fmt::format("{}/{}: holds no images", folder, name));
    for (const Found& file : found) {
      hash = fingerprint(fmt::format("{}:{};", file.name, file.bytes), hash);
      list.files.push_back(file.name);
      list.labels.push_back(label);
      list.bytes += file.bytes;
    }
  }
  return list;
} catch (const fs::filesystem_error& error) {
  cannot_list(folder, error);
}

/// Those of test, val and validation that hold class folders. (ImageNet's own test has none.)
std::vector<std::string> tested_folders(const std::string& source) {
  std::vector<std::string> some;
  for (const char* folder : {"/test", "/val", "/validation"}) {
    if (!folders_in(source + folder).empty()) some.push_back(source + folder);
  }
  return some;
}

/// The folder of a set with a training folder. @param place  a name, or without `root` a path
std::string training_set(const std::string& place, const std::string& root) {
  const bool path = root.empty() && place.find('/') != std::string::npos;
  return find_data_folder({place,
                           {"train"},
                           path ? place : root,
                           "unpack it as train/CLASS/*.jpg and val/CLASS/*.jpg",
                           /*packed=*/false});
}

std::string test_set(const std::string& name, const std::string& root) {
  const std::string below = fmt::format("{}/{}", root, name);
  const bool above = !root.empty() && fs::is_directory(below);
  const std::string source =
      find_data_folder({name, {}, above ? below : root, "unpack it as CLASS/*.jpg"});
  // An evaluation may change the name and forget the root.
  if (fs::exists(source + "/train")) {
    throw DataError(
        fmt::format("{}: has a folder train, so it is no set that is only for testing; set root to "
                    "the folder of '{}', or to the one above it",
                    source, name));
  }
  return source;
}

}  // namespace

ImageFolders open_image_folders(const std::string& name, const std::string& root,
                                const std::string& classes_from) {
  if (!root.empty() && name.starts_with('/')) {
    throw OptionError("name",
                      fmt::format("{} is a path of its own, which `root` is given for, too; "
                                  "leave one out (root: \"\" in an entry of `evaluate:`)",
                                  name));
  }
  ImageFolders folders;
  folders.hash = fingerprint("");
  const bool own = classes_from.empty();
  const std::string teacher = own ? training_set(name, root) : training_set(classes_from, "");
  folders.classes = folders_in(teacher + "/train");
  if (folders.classes.empty()) throw DataError(teacher + "/train: has no class folders");
  folders.source = own ? teacher : test_set(name, root);
  bool by_number = false;
  const auto list = [&](const std::string& folder) {
    return list_images(folder, folders.classes, by_number, folders.hash);
  };
  if (own) folders.train = list(folders.source + "/train");
  std::vector<std::string> others = tested_folders(folders.source);
  if (others.empty() && own) {
    throw DataMissingError(folders.source + ": has no folder test or val with class folders");
  }
  if (others.empty()) others = {folders.source};
  by_number = !own && are_numbered(others, folders.classes);
  if (others.size() > 2) {
    throw DataError(
        fmt::format("{}: is there, and {}, too; both are for validation, so remove or "
                    "rename one",
                    others[2], others[1]));
  }
  folders.test = list(others[0]);
  if (folders.test.empty()) throw DataMissingError(folders.source + ": has no class folders");
  if (others.size() > 1) folders.validation = list(others[1]);
  if (!own) folders.hash = fingerprint(join(folders.classes, "/"), folders.hash);
  const auto add_end = [&](const char* split, const ImageList& before, const ImageList& after) {
    if (show_their_end(before, after)) return;
    folders.hash = fingerprint(fmt::format("{} {}", before.files.size(), split), folders.hash);
  };
  add_end("train", folders.train, folders.test);
  add_end("test", folders.test, folders.validation);
  return folders;
}

}  // namespace attnlab
