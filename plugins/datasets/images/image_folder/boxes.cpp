#include "plugins/datasets/images/image_folder/boxes.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/formats/files.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

/// The number in the next <tag> from `at` on. @param at  moves behind it @param until  before which
/// it stands
double number_in(const std::string& path, const std::string& text, const std::string& tag,
                 std::size_t& at, std::size_t until = std::string::npos) {
  const std::string opening = fmt::format("<{}>", tag);
  const std::size_t found = text.find(opening, at);
  if (found != std::string::npos) {
    const char* begin = text.c_str() + found + opening.size();
    char* end = nullptr;
    const double value = std::strtod(begin, &end);
    at = found + opening.size();
    const std::size_t behind = text.find_first_not_of(" \t\r\n", std::size_t(end - text.c_str()));
    const bool whole = behind != std::string::npos && text[behind] == '<' && at <= until;
    if (end != begin && std::isfinite(value) && whole) return value;
  }
  throw DataError(
      fmt::format("{}: has no number <{}> where one is expected; fetch the file again", path, tag));
}

/// Empty where there are none.
std::string found_boxes(const std::string& folder, const std::string& image) {
  const fs::path file = fs::path(image).replace_extension(".xml");
  for (const fs::path& place : {folder / file, folder / file.filename()}) {
    if (fs::exists(place)) return place.string();
  }
  return "";
}

}  // namespace

std::vector<ObjectBox> read_boxes(const std::string& path, const ImageSize& image,
                                  std::int64_t size) {
  const std::string text(without_mark(read_text(path), path));
  std::size_t at = 0;
  double width = number_in(path, text, "width", at);
  at = 0;
  double height = number_in(path, text, "height", at);
  if (width == 0 && height == 0) {
    width = double(image.width);
    height = double(image.height);
  }
  if (width < 1 || height < 1) {
    throw DataError(fmt::format("{}: its image is {} x {} pixels in it; write {} x {}, which it is",
                                path, width, height, image.width, image.height));
  }
  std::vector<ObjectBox> boxes;
  for (at = text.find("<bndbox>"); at != std::string::npos; at = text.find("<bndbox>", at)) {
    ObjectBox box;
    std::size_t of_box = at;  // the four stand in any order
    const std::size_t past = text.find("</bndbox>", at);
    const std::size_t part = text.rfind("<part>", at);
    if (part != std::string::npos && text.find("</part>", part) > at) {  // a head, a hand
      at = past;
      continue;
    }
    const auto side = [&](const char* tag, double length) {
      of_box = at;
      return number_in(path, text, tag, of_box, past) * static_cast<double>(size) / length;
    };
    box.left = side("xmin", width);
    box.top = side("ymin", height);
    box.right = side("xmax", width);
    box.bottom = side("ymax", height);
    if (box.right < box.left || box.bottom < box.top) {
      throw DataError(path + ": a box ends before it begins");
    }
    boxes.push_back(box);
    at = past;
  }
  return boxes;
}

std::string boxes_file(const std::string& folder, const std::string& image) {
  const std::string found = found_boxes(folder, image);
  if (!found.empty()) return found;
  const fs::path file = fs::path(image).replace_extension(".xml");
  throw DataMissingError(fmt::format("{}: has no boxes of {}, neither {} nor {}", folder, image,
                                     file.string(), file.filename().string()));
}

std::uint64_t boxes_fingerprint(const std::string& folder, const std::vector<std::string>& images) {
  std::uint64_t hash = 0;
  for (const std::string& image : images) {
    const std::string file = found_boxes(folder, image);
    if (!file.empty()) hash = content_fingerprint(read_text(file), fingerprint(image, hash));
  }
  return hash;
}

}  // namespace attnlab
