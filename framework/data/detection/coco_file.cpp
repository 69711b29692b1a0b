#include "framework/data/detection/coco_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
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
  std::map<std::string, std::string> texts;  ///< of the keys that are asked for
  std::vector<double> box;  ///< NaN where the file has something else than a number
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

  bool null() override { return no_number(); }
  bool boolean(bool value) override {
    if (depth_ == 3) object_.numbers[key_] = value ? 1 : 0;
    return no_number();
  }
  bool number_integer(number_integer_t value) override { return number(double(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(double(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& value) override {
    if (depth_ == 3 &&
        (key_ == "name" || key_ == "file_name" || key_ == "iscrowd" || key_ == "area")) {
      object_.texts[key_] = value;
    }
    return no_number();
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    no_number();
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
    no_number();
    if (++depth_ == 4) in_list_ = true;
    return true;
  }
  bool end_array() override {
    if (depth_-- == 4) in_list_ = false;
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
    if (in_box()) object_.box.push_back(value);
    return true;
  }
  /// Whether what comes is an element of a box.
  bool in_box() const {
    return depth_ == 4 && in_list_ && key_ == "bbox" && section_ == "annotations";
  }
  /// An element of a box that is not a number takes its place all the same.
  bool no_number() {
    if (in_box()) object_.box.push_back(std::numeric_limits<double>::quiet_NaN());
    return true;
  }

  /// @param missing  what it is where the key is not there, or null
  double number_or(const char* key, double missing) const {
    const auto text = object_.texts.find(key);
    if (text != object_.texts.end()) {
      throw DataError(fmt::format("{}: number {} of {}: '{}' is the text {}; write a number", path_,
                                  count_, section_, key, Json(text->second).dump()));
    }
    const auto found = object_.numbers.find(key);
    return found == object_.numbers.end() ? missing : found->second;
  }
  const std::string& name(const char* key, const char* what) const {
    const auto found = object_.texts.find(key);
    if (found != object_.texts.end() && !found->second.empty()) return found->second;
    throw DataError(fmt::format("{}: {} {} has no {}", path_, what, whole("id"), key));
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
      file_.files.push_back(name("file_name", "image"));
    } else if (section_ == "categories") {
      if (!categories_.emplace(whole("id"), name("name", "category")).second) {
        throw DataError(
            fmt::format("{}: two categories have the id {}; give each its own, and its "
                        "annotations, too",
                        path_, whole("id")));
      }
    } else if (section_ == "annotations") {
      const std::vector<double>& b = object_.box;
      if (b.size() != 4 || !std::all_of(b.begin(), b.end(), [](double x) { return x == x; })) {
        throw DataError(path_ + ": number " + std::to_string(count_) +
                        " of annotations has no bbox of four numbers");
      }
      const bool is_crowd = number_or("iscrowd", 0) != 0;
      annotations_.push_back(
          {whole("image_id"),
           whole("category_id"),
           {b[0], b[1], b[0] + b[2], b[1] + b[3], 0, number_or("area", b[2] * b[3]),
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
  bool in_list_ = false;  ///< at depth 4
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
