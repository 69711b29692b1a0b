#include "framework/data/detection/coco_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/regular_file.h"
#include "framework/data/formats/encoding.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

/// What is known of the object that is being read, by key.
struct Object {
  std::map<std::string, double> numbers;
  std::string name;  ///< of a category, or of a file
  std::vector<double> box;
};

struct Annotation {
  std::int64_t image = 0, category = 0;
  ObjectBox box;
};

/// The parser's events. Objects of the three sections stand at depth 3; what is deeper, boxes
/// aside, is passed over.
class Events final : public nlohmann::json_sax<Json> {
 public:
  Events(const std::string& path, CocoFile& file) : path_(path), file_(file) {}

  bool null() override { return true; }
  bool boolean(bool value) override { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return number(double(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(double(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 3 && (key_ == "name" || key_ == "file_name")) object_.name = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (++depth_ == 3) object_ = {};
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) section_ = value;
    if (depth_ == 3) key_ = value;
    return true;
  }
  bool end_object() override {
    if (depth_-- == 3) take();
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw DataError(path_ + ": byte " + std::to_string(position) + ": " + error.what());
  }

  /// Puts boxes to their pictures. @returns the ids of classes, rising
  void finish(const BoxRules& rules) {
    if (file_.pictures.empty() || categories_.empty()) {
      throw DataError(path_ + ": has no images or no categories; is it COCO's instances file?");
    }
    std::map<std::int64_t, std::int64_t> labels;
    for (const auto& [id, name] : categories_) {
      labels[id] = static_cast<std::int64_t>(file_.class_names.size());
      file_.class_names.push_back(name);
    }
    sort_pictures();
    for (Annotation& annotation : annotations_) {
      const auto label = labels.find(annotation.category);
      if (label == labels.end()) missing("category", annotation.category);
      annotation.box.label = label->second;
      picture(annotation.image).objects.push_back(annotation.box);
    }
    for (PictureNotes& notes : file_.pictures) settle_boxes(notes, rules, file_.dropped);
  }

 private:
  bool number(double value) {
    if (depth_ == 3) object_.numbers[key_] = value;
    if (depth_ == 4 && key_ == "bbox" && section_ == "annotations") object_.box.push_back(value);
    return true;
  }

  double need(const char* key) const {
    const auto found = object_.numbers.find(key);
    if (found != object_.numbers.end()) return found->second;
    throw DataError(path_ + ": number " + std::to_string(count_) + " of " + section_ +
                    " has no number '" + key + "'");
  }
  std::int64_t whole(const char* key) const {
    constexpr double kMost = 9007199254740992.0;  // 2^53: a double tells whole numbers up to here
    const double number = need(key);
    if (std::abs(number) < kMost && number == std::floor(number)) {
      return static_cast<std::int64_t>(number);
    }
    throw DataError(fmt::format("{}: number {} of {}: '{}' is {}, no whole number below 2^53",
                                path_, count_, section_, key, number));
  }

  [[noreturn]] void missing(const char* what, std::int64_t id) const {
    throw DataError(path_ + ": an annotation names " + what + " " + std::to_string(id) +
                    ", which is not in the file");
  }

  void take() {
    if (section_ != last_section_) count_ = 0;
    last_section_ = section_;
    ++count_;
    if (section_ == "images") {
      const std::int64_t height = whole("height"), width = whole("width");
      if (height < 1 || width < 1) {
        throw DataError(
            fmt::format("{}: image {} has {} x {} pixels; height and width are 1 or more", path_,
                        whole("id"), height, width));
      }
      file_.pictures.push_back({whole("id"), height, width, {}});
      file_.files.push_back(object_.name);
      if (object_.name.empty()) {
        throw DataError(path_ + ": image " + std::to_string(whole("id")) + " has no file_name");
      }
    } else if (section_ == "categories") {
      if (!categories_.emplace(whole("id"), object_.name).second) {
        throw DataError(
            fmt::format("{}: two categories have the id {}; give each its own, and its "
                        "annotations, too",
                        path_, whole("id")));
      }
    } else if (section_ == "annotations") {
      if (object_.box.size() != 4) {
        throw DataError(path_ + ": number " + std::to_string(count_) +
                        " of annotations has no bbox of four numbers");
      }
      const std::vector<double>& b = object_.box;
      const auto crowd = object_.numbers.find("iscrowd");
      const bool is_crowd = crowd != object_.numbers.end() && crowd->second != 0;
      const auto area = object_.numbers.find("area");
      annotations_.push_back({whole("image_id"),
                              whole("category_id"),
                              {b[0], b[1], b[0] + b[2], b[1] + b[3], 0,
                               area == object_.numbers.end() ? b[2] * b[3] : area->second,
                               is_crowd ? BoxKind::crowd : BoxKind::counted}});
    }
  }

  void sort_pictures() {
    std::vector<std::size_t> order(file_.pictures.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return file_.pictures[a].id < file_.pictures[b].id;
    });
    std::vector<PictureNotes> pictures;
    std::vector<std::string> files;
    for (const std::size_t i : order) {
      pictures.push_back(file_.pictures[i]);
      files.push_back(file_.files[i]);
    }
    file_.pictures = std::move(pictures);
    file_.files = std::move(files);
    for (std::size_t i = 1; i < file_.pictures.size(); ++i) {
      if (file_.pictures[i - 1].id != file_.pictures[i].id) continue;
      throw DataError(path_ + ": the images '" + file_.files[i - 1] + "' and '" + file_.files[i] +
                      "' have one id, " + std::to_string(file_.pictures[i].id) +
                      "; give each its own, and its annotations, too");
    }
    std::set<std::string_view> before;
    for (const std::string& name : file_.files) {
      if (before.insert(name).second) continue;
      throw DataError(path_ + ": two images are the file '" + name +
                      "', which would count twice; make them one");
    }
  }

  PictureNotes& picture(std::int64_t id) {
    const auto found =
        std::lower_bound(file_.pictures.begin(), file_.pictures.end(), id,
                         [](const PictureNotes& p, std::int64_t wanted) { return p.id < wanted; });
    if (found == file_.pictures.end() || found->id != id) missing("image", id);
    return *found;
  }

  const std::string& path_;
  CocoFile& file_;
  std::size_t depth_ = 0, count_ = 0;
  std::string section_, last_section_, key_;
  Object object_;
  std::map<std::int64_t, std::string> categories_;
  std::vector<Annotation> annotations_;
};

std::uint64_t fingerprint_of(const CocoFile& file) {
  std::uint64_t hash = fingerprint("coco");
  const auto add = [&](const auto& value) {
    hash = fingerprint({reinterpret_cast<const char*>(&value), sizeof value}, hash);
  };
  for (const std::string& name : file.class_names) hash = fingerprint(name + ";", hash);
  for (std::size_t i = 0; i < file.pictures.size(); ++i) {
    const PictureNotes& picture = file.pictures[i];
    hash = fingerprint(file.files[i] + ";", hash);
    for (const std::int64_t n : {picture.id, picture.height, picture.width}) add(n);
    for (const ObjectBox& box : picture.objects) {
      for (const double x : {box.x0, box.y0, box.x1, box.y1, box.area}) add(x);
      add(box.label);
      add(static_cast<std::int64_t>(box.kind));
    }
  }
  return hash;
}

}  // namespace

CocoFile read_coco(const std::string& path, const BoxRules& rules) {
  const InputStream stream = open_regular_stream(path);
  char start[4] = {};  // a mark of UTF-8 is passed over by the parser
  without_mark({start, std::fread(start, 1, sizeof start, stream.get())}, path);
  std::rewind(stream.get());
  CocoFile file;
  Events events(path, file);
  Json::sax_parse(stream.get(), &events);
  events.finish(rules);
  file.fingerprint = fingerprint_of(file);
  return file;
}

}  // namespace attnlab
