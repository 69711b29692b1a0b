#include "plugins/datasets/images/image_folder/class_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/random.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/folder.h"
#include "framework/data/pictures/image_file.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

struct FoundImages {
  std::string name;  ///< below the split's folder
  std::uint64_t bytes;
};

/// Files that lie among the images, and are none that can be read.
struct OtherFiles {
  std::map<std::string, std::int64_t> by_ending;
  std::int64_t outside = 0;  ///< images in no class folder

  std::string text() const {
    std::vector<std::pair<std::int64_t, std::string>> kinds;
    std::int64_t count = 0;
    for (const auto& [ending, files] : by_ending) {
      kinds.emplace_back(-files, ending.empty() ? "none" : ending);
      count += files;
    }
    std::sort(kinds.begin(), kinds.end());  // the most frequent first
    std::vector<std::string> parts;
    constexpr std::size_t kMost = 5;
    for (std::size_t i = 0; i < std::min(kinds.size(), kMost); ++i) {
      parts.push_back(fmt::format("{} {}", kinds[i].second, -kinds[i].first));
    }
    if (kinds.size() > kMost) parts.emplace_back("...");
    std::string text;
    if (count > 0) text = fmt::format("{} files of other endings ({})", count, join(parts, ", "));
    if (outside > 0) {
      text += fmt::format("{}{} images in no class folder", count > 0 ? " and " : "", outside);
    }
    return text;
  }
};

/// The images of a class. @param others  gets what else lies there
std::vector<FoundImages> images_below(const std::string& folder, const std::string& name,
                                      OtherFiles& others) {
  std::vector<FoundImages> found;
  for (fs::recursive_directory_iterator at(folder + "/" + name,
                                           fs::directory_options::follow_directory_symlink);
       at != fs::recursive_directory_iterator(); ++at) {
    const std::string& path = at->path().native();
    if (is_hidden(std::string_view(path).substr(path.rfind('/') + 1))) {
      at.disable_recursion_pending();
      continue;
    }
    const bool image = has_picture_ending(path);
    if (image || !at->path().has_extension()) refuse_link_to_nothing(*at);  // or a folder's
    if (!at->is_regular_file()) continue;
    if (image) {
      found.push_back({path.substr(folder.size() + 1), at->file_size()});
    } else {
      ++others.by_ending[ending_of(path)];
    }
  }
  std::sort(found.begin(), found.end(),
            [](const FoundImages& a, const FoundImages& b) { return a.name < b.name; });
  return found;
}

/// Whether the hash of two splits' files tells where the first ends, as their classes begin anew.
bool show_their_end(const ImageList& before, const ImageList& after) {
  const auto folder = [](const std::string& file) { return file.substr(0, file.find('/')); };
  return before.empty() || after.empty() ||
         folder(before.files.back()) > folder(after.files.front());
}

/// Names of the folders in a folder, sorted; none where it is not there. Pictures in it are passed
/// over, whether or not they are there.
/// @param pictures  null, or gets how many these are
/// @throws FileError where that cannot be told; DataError for a link to nothing.
std::vector<std::string> folders_in(const std::string& folder,
                                    std::int64_t* pictures = nullptr) try {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    const std::string name = entry.path().filename().string();
    if (!has_picture_ending(name)) refuse_link_to_nothing(entry);
    if (entry.is_directory()) {
      names.push_back(name);
    } else if (pictures != nullptr && has_picture_ending(name)) {
      ++*pictures;
    }
  }
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

/// Adds names and sizes of all files to `hash`, and to `others` what is left out.
ImageList list_images(const std::string& folder, const std::vector<std::string>& classes,
                      bool by_number, std::uint64_t& hash, OtherFiles& others) try {
  ImageList list;
  list.folder = folder;
  std::map<std::int64_t, std::string> before;  // folders by their labels
  for (const std::string& name : folders_in(folder, &others.outside)) {
    const std::int64_t label = label_of(name, classes, by_number);
    if (label < 0) {
      throw DataError(
          fmt::format("{}/{}: is not a class of the training folder{}; remove or rename it", folder,
                      name, suggestion(name, classes)));
    }
    if (const auto [same, added] = before.emplace(label, name); !added) {
      throw DataError(
          fmt::format("{0}/{1}: is the same class as {0}/{2}; put the pictures into one "
                      "of them",
                      folder, name, same->second));
    }
    OtherFiles beside;
    const std::vector<FoundImages> found = images_below(folder, name, beside);
    if (found.empty()) {
      const std::string there = beside.text();
      throw DataError(
          fmt::format("{}/{}: holds no images{}; put some there ({}), or remove the "
                      "folder",
                      folder, name, there.empty() ? "" : ", but " + there,
                      join({kPictureEndings.begin(), kPictureEndings.end()}, ", ")));
    }
    for (const auto& [ending, files] : beside.by_ending) others.by_ending[ending] += files;
    for (const FoundImages& file : found) {
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

/// Those of test, val, valid and validation that hold class folders. (ImageNet's own test has
/// none.)
std::vector<std::string> tested_folders(const std::string& source) {
  std::vector<std::string> some;
  for (const char* folder : {"/test", "/val", "/valid", "/validation"}) {
    if (!folders_in(source + folder).empty()) some.push_back(source + folder);
  }
  return some;
}

/// The folder of a set with a training folder. @param place  a name, or without `root` a path
std::string training_set(const std::string& place, const std::string& root) {
  const bool path = root.empty() && place.find('/') != std::string::npos;
  return find_data_folder(
      {place,
       {"train"},
       path ? place : root,
       "unpack it as train/CLASS/*.jpg and val/CLASS/*.jpg, or set `test` (0.2, "
       "say) for one folder with CLASS/*.jpg",
       /*packed=*/false});
}

std::string test_set(const std::string& name, const std::string& root) {
  const std::string below = fmt::format("{}/{}", root, name);
  const bool above = !root.empty() && fs::is_directory(below);
  std::string source =
      find_data_folder({name, {}, above ? below : root, "unpack it as CLASS/*.jpg"});
  // An evaluation may change the name and forget the root.
  if (fs::exists(source + "/train")) {
    throw DataError(fmt::format(
        "{}: has a folder train, so it is not a set that is only for testing; set root to "
        "the folder of '{}', or to the one above it",
        source, name));
  }
  return source;
}

/// The images of one folder, those that are tested on apart.
ImageFolders divided_folder(const std::string& name, const std::string& root, double test_share,
                            std::uint64_t split_seed) {
  const bool path = root.empty() && name.find('/') != std::string::npos;
  ImageFolders folders;
  folders.hash = fingerprint("");
  folders.source =
      find_data_folder({name, {}, path ? name : root, "unpack it as CLASS/*.jpg", false});
  const std::string below = fmt::format("{}/{}", folders.source, name);
  if (!root.empty() && fs::is_directory(below)) folders.source = below;
  if (fs::exists(folders.source + "/train")) {
    throw OptionError("test", fmt::format("is for one folder with all images, and {}/train is "
                                          "there; leave it out",
                                          folders.source));
  }
  folders.classes = folders_in(folders.source);
  OtherFiles left_out;
  const ImageList all = list_images(folders.source, folders.classes, false, folders.hash, left_out);
  folders.left_out = left_out.text();
  folders.train.folder = folders.test.folder = all.folder;
  folders.train.bytes = all.bytes;  // both are read together
  std::vector<std::vector<std::size_t>> of_class(folders.classes.size());
  std::vector<char> tested(all.files.size(), 0);
  const Random random = RandomStreams(split_seed).stream("test");
  for (const std::int64_t i : permutation(std::ssize(all.files), random)) {
    of_class[static_cast<std::size_t>(all.labels[static_cast<std::size_t>(i)])].push_back(
        static_cast<std::size_t>(i));
  }
  for (const std::vector<std::size_t>& own : of_class) {
    if (own.size() < 2) continue;
    const auto wanted = static_cast<std::size_t>(std::llround(test_share * double(own.size())));
    const std::size_t count = std::clamp<std::size_t>(wanted, 1, own.size() - 1);
    for (std::size_t k = 0; k < count; ++k) tested[own[k]] = 1;
  }
  for (std::size_t i = 0; i < all.files.size(); ++i) {
    ImageList& list = tested[i] != 0 ? folders.test : folders.train;
    list.files.push_back(all.files[i]);
    list.labels.push_back(all.labels[i]);
  }
  if (folders.test.empty()) {
    throw DataError(
        fmt::format("{}: has no class with two images, so that one could be for testing; a set of "
                    "pictures is CLASS/*.jpg",
                    folders.source));
  }
  const std::string division = fmt::format("test {} {}", shortest(test_share), split_seed);
  folders.hash = fingerprint(division, folders.hash);
  return folders;
}

}  // namespace

ImageFolders open_image_folders(const std::string& name, const std::string& root,
                                const std::string& classes_from, double test_share,
                                std::uint64_t split_seed) {
  if (!root.empty() && name.starts_with('/')) {
    throw OptionError("name", fmt::format("{} is a path of its own, and `root` is given, too; "
                                          "leave one out (root: \"\" in an entry of `evaluate:`)",
                                          name));
  }
  if (test_share > 0) {
    if (classes_from.empty()) return divided_folder(name, root, test_share, split_seed);
    throw OptionError("test", "is for training data; data of `classes_from` are only for testing");
  }
  ImageFolders folders;
  folders.hash = fingerprint("");
  const bool own = classes_from.empty();
  const std::string teacher = own ? training_set(name, root) : training_set(classes_from, "");
  folders.classes = folders_in(teacher + "/train");
  if (folders.classes.empty()) throw DataError(teacher + "/train: has no class folders");
  folders.source = own ? teacher : test_set(name, root);
  bool by_number = false;
  OtherFiles left_out;
  const auto list = [&](const std::string& folder) {
    return list_images(folder, folders.classes, by_number, folders.hash, left_out);
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
  folders.left_out = left_out.text();
  return folders;
}

}  // namespace attnlab
