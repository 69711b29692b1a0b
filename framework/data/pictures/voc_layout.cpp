#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <pugixml.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/text.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/formats/files.h"
#include "framework/data/pictures/image_file.h"
#include "framework/data/pictures/layouts.h"
#include "framework/data/pictures/picture_files.h"

namespace attnlab {
namespace {

/// A picture whose boxes have names of classes yet.
struct NamedPicture {
  PictureNotes notes;
  std::vector<std::string> classes;  ///< of each object
  std::string path;
};

/// The text of an element; empty where it is not there.
std::string text_or_none(const pugi::xml_node& parent, const char* name) {
  return std::string(trimmed(parent.child(name).text().get()));
}

/// The text of an element, which must be there.
std::string text_of(const std::string& path, const pugi::xml_node& parent, const char* name) {
  std::string text = text_or_none(parent, name);
  if (!text.empty()) return text;
  throw DataError(path + ": byte " + std::to_string(parent.offset_debug()) + ": <" + parent.name() +
                  "> has no <" + name + ">");
}

double number_of(const std::string& path, const pugi::xml_node& parent, const char* name) {
  const std::string text = text_of(path, parent, name);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  constexpr double kMost = 1e9;  // of any number here
  if (end != text.c_str() && *end == '\0' && std::abs(number) <= kMost) return number;
  throw DataError(path + ": byte " + std::to_string(parent.child(name).offset_debug()) + ": '" +
                  text + "' is not a number");
}

/// A path, however a set's folder is written in it.
std::string normal(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

/// By the name alone: prompts of evaluations are drawn by it, and a picture keeps them in any order
/// of the list. 52 bits, which a double holds.
std::int64_t id_of(const std::string& name) {
  return static_cast<std::int64_t>(content_fingerprint(name) >> 12);
}

/// Whether a mark of an object is set, in the words of annotation tools.
bool is_marked(const std::string& path, const pugi::xml_node& object, const char* name) {
  const std::string text = text_or_none(object, name);
  std::string word;
  for (const unsigned char letter : text) word += static_cast<char>(std::tolower(letter));
  if (word.empty() || word == "unspecified" || word == "false" || word == "no") return false;
  if (word == "true" || word == "yes") return true;
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  if (*end == '\0' && (number == 0 || number == 1)) return number == 1;
  throw DataError(path + ": byte " + std::to_string(object.child(name).offset_debug()) + ": <" +
                  name + "> is '" + text + "'; write 0 or 1");
}

/// The picture of an annotation: NAME.jpg, else the file that <filename> names, else one of NAME
/// with another ending. A name that leads elsewhere counts for its last part alone.
std::string picture_path(const std::string& folder, const std::string& name,
                         const pugi::xml_node& root) {
  const std::string stem = folder + "/JPEGImages/" + name;
  std::error_code error;
  if (std::filesystem::exists(stem + ".jpg", error)) return stem + ".jpg";
  const std::string file = text_or_none(root, "filename");
  std::vector<std::string> others = {stem.substr(0, stem.rfind('/') + 1) +
                                     file.substr(file.find_last_of("/\\") + 1)};
  for (const std::string_view ending : kPictureEndings) {
    others.push_back(stem + std::string(ending));
    others.push_back(stem);
    for (const unsigned char letter : ending) {
      others.back() += static_cast<char>(std::toupper(letter));
    }
  }
  for (const std::string& other : others) {
    if (std::filesystem::is_regular_file(other, error)) return other;
  }
  return stem + ".jpg";
}

/// Height and width of a picture as its annotation has them, or, where it has none (0 x 0, as tools
/// write what they do not know), as the picture has them.
void read_size(const std::string& path, const pugi::xml_node& size, NamedPicture& picture) {
  const auto unknown = [&](const char* name) {
    return text_or_none(size, name).empty() || number_of(path, size, name) == 0;
  };
  PictureNotes& notes = picture.notes;
  if (unknown("height") && unknown("width")) {
    std::error_code error;
    if (!std::filesystem::exists(picture.path, error)) picture_missing(picture.path);
    const ImageFile file(picture.path);
    notes.height = file.height();
    notes.width = file.width();
    return;
  }
  notes.height = static_cast<std::int64_t>(number_of(path, size, "height"));
  notes.width = static_cast<std::int64_t>(number_of(path, size, "width"));
  if (notes.height < 1 || notes.width < 1) {
    throw DataError(path + ": the picture is " + std::to_string(notes.width) + " x " +
                    std::to_string(notes.height) +
                    " pixels in it; write width and height as they are, or 0 and 0");
  }
}

NamedPicture read_picture(const std::string& folder, const std::string& name,
                          const std::string& difficult, std::uint64_t& hash) {
  const std::string path = folder + "/Annotations/" + name + ".xml";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw DataMissingError(path + ": is not there, but a set in ImageSets/Main names it");
  }
  const std::string bytes = read_text(path);
  hash = content_fingerprint(bytes, hash);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(bytes.data(), bytes.size());
  if (!parsed) {
    throw DataError(path + ": byte " + std::to_string(parsed.offset) + ": " + parsed.description());
  }
  const pugi::xml_node root = document.child("annotation");
  if (!root) throw DataError(path + ": has no <annotation>; is it one of VOC's form?");
  NamedPicture picture;
  picture.notes.id = id_of(name);
  picture.path = picture_path(folder, name, root);
  read_size(path, root.child("size"), picture);
  for (const pugi::xml_node& object : root.children("object")) {
    const pugi::xml_node box = object.child("bndbox");
    ObjectBox known;
    known.x0 = number_of(path, box, "xmin") - 1;
    known.y0 = number_of(path, box, "ymin") - 1;
    known.x1 = number_of(path, box, "xmax");
    known.y1 = number_of(path, box, "ymax");
    if (is_marked(path, object, "difficult") && difficult != "count") {
      known.kind = BoxKind::difficult;
    }
    picture.notes.objects.push_back(known);
    picture.classes.push_back(text_of(path, object, "name"));
  }
  return picture;
}

/// The pictures of some sets. One that stands in several lists, or twice in one, is read once: it
/// must not count twice, nor be its own prompt.
std::vector<NamedPicture> read_sets(const std::string& root, const std::vector<std::string>& sets,
                                    const std::string& difficult, std::uint64_t& hash) {
  std::vector<NamedPicture> pictures;
  std::set<std::string> seen, paths;
  for (const std::string& set : sets) {
    const std::size_t slash = set.rfind('/');
    const std::string folder =
        slash == std::string::npos ? root : root + "/" + set.substr(0, slash);
    const std::string list = folder + "/ImageSets/Main/" +
                             set.substr(slash == std::string::npos ? 0 : slash + 1) + ".txt";
    std::istringstream lines(std::string(without_mark(read_text(list), list)));
    for (std::string line; std::getline(lines, line);) {
      const std::string name(trimmed(line));
      if (name.empty() || !seen.insert(normal(folder + "/" + name)).second) continue;
      pictures.push_back(read_picture(folder, name, difficult, hash));
      if (paths.insert(normal(pictures.back().path)).second) continue;
      throw DataError(folder + "/Annotations/" + name + ".xml: names " + pictures.back().path +
                      ", which is the picture of another annotation; write its own <filename>");
    }
  }
  return pictures;
}

/// @param splits  of training, validation and test
/// @throws DataError for a picture that is trained on and asked for later. Validation and test may
///         share theirs.
void check_apart(const std::vector<std::vector<NamedPicture>>& splits) {
  std::set<std::string> trained;
  for (const NamedPicture& picture : splits[0]) trained.insert(normal(picture.path));
  for (std::size_t split = 1; split < splits.size(); ++split) {
    for (const NamedPicture& picture : splits[split]) {
      if (trained.count(normal(picture.path)) == 0) continue;
      throw DataError(
          picture.path + ": is a picture of train_sets and of " +
          (split == 1 ? "validation_sets" : "test_sets") +
          "; name sets that share no picture, or take it out of a list in ImageSets/Main");
    }
  }
}

std::vector<std::string> names_in(const std::vector<std::vector<NamedPicture>>& splits) {
  std::set<std::string> names;
  for (const std::vector<NamedPicture>& split : splits) {
    for (const NamedPicture& picture : split) {
      names.insert(picture.classes.begin(), picture.classes.end());
    }
  }
  return {names.begin(), names.end()};
}

/// The classes that the options name, or all. @throws OptionError for a class without a box.
std::vector<std::string> classes_of(const std::vector<std::string>& named,
                                    const std::vector<std::vector<NamedPicture>>& splits) {
  std::vector<std::string> there = names_in(splits);
  if (named.empty()) return there;
  for (const std::string& name : named) {
    if (std::binary_search(there.begin(), there.end(), name)) continue;
    throw OptionError("classes", "no annotation of these sets has an object '" + name + "'" +
                                     suggestion(name, there));
  }
  return named;
}

std::shared_ptr<PictureFiles> settled(std::vector<NamedPicture> pictures,
                                      const std::vector<std::string>& classes,
                                      const BoxRules& rules, DroppedBoxes& dropped) {
  std::map<std::string_view, std::int64_t> labels;  // names may be many, objects are more
  for (std::size_t k = 0; k < classes.size(); ++k) labels.emplace(classes[k], std::int64_t(k));
  std::vector<PictureNotes> notes;
  std::vector<std::string> paths;
  for (NamedPicture& picture : pictures) {
    std::vector<ObjectBox> known;
    for (std::size_t i = 0; i < picture.classes.size(); ++i) {
      const auto found = labels.find(picture.classes[i]);
      if (found == labels.end()) {
        ++dropped.other_classes;
        continue;
      }
      ObjectBox box = picture.notes.objects[i];
      box.label = found->second;
      known.push_back(box);
    }
    picture.notes.objects = std::move(known);
    settle_boxes(picture.notes, rules, dropped);
    for (ObjectBox& box : picture.notes.objects) box.area = (box.x1 - box.x0) * (box.y1 - box.y0);
    notes.push_back(std::move(picture.notes));
    paths.push_back(std::move(picture.path));
  }
  return std::make_shared<PictureFiles>(std::move(notes), std::move(paths));
}

}  // namespace

PictureSplits read_voc(const VocOptions& options) {
  const auto list_of = [](const std::string& set) {
    const std::size_t slash = set.rfind('/');
    return (slash == std::string::npos ? "" : set.substr(0, slash + 1)) + "ImageSets/Main/" +
           set.substr(slash == std::string::npos ? 0 : slash + 1) + ".txt";
  };
  DataSearch search{options.name,
                    {},
                    options.root,
                    "fetch VOC2007 and VOC2012 from http://host.robots.ox.ac.uk/pascal/VOC",
                    /*packed=*/false};
  const std::vector<std::string>* sets[] = {&options.train_sets, &options.validation_sets,
                                            &options.test_sets};
  for (const auto* split : sets) {
    for (const std::string& set : *split) search.files.push_back(list_of(set));
  }
  PictureSplits splits;
  splits.name = "voc";
  splits.source = find_data_folder(search);
  std::uint64_t hash = fingerprint("voc, ids of names");
  std::vector<std::vector<NamedPicture>> read;
  for (const auto* split : sets) {
    read.push_back(read_sets(splits.source, *split, options.difficult, hash));
    hash = fingerprint("|", hash);
  }
  check_apart(read);
  splits.class_names = classes_of(options.classes, read);
  DroppedBoxes dropped;
  const BoxRules rules{options.difficult == "drop", false};
  std::vector<std::shared_ptr<PictureFiles>> files;
  std::vector<const PictureFiles*> all;
  for (std::vector<NamedPicture>& split : read) {
    files.push_back(settled(std::move(split), splits.class_names, rules, dropped));
    all.push_back(files.back().get());
  }
  const std::string kept = options.difficult + ";" + join(splits.class_names, ",");
  splits.fingerprint = fingerprint_of(all, fingerprint(kept, hash));
  splits.source += dropped.text();
  splits.train = files[0];
  if (files[1]->size() > 0) splits.validation = files[1];
  splits.test = files[2];
  return splits;
}

}  // namespace attnlab
