#include "framework/data/segmentation/label_rule.h"

#include <fmt/format.h>

#include "framework/base/error.h"

namespace attnlab {
namespace {

std::uint32_t colour_at(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 16 | std::uint32_t{bytes[1]} << 8 | bytes[2];
}

std::string colour_text(std::uint32_t colour) {
  return fmt::format("({}, {}, {})", colour >> 16, colour >> 8 & 255, colour & 255);
}

[[noreturn]] void refuse_pixel(const std::string& path, const LabelMap& map, std::size_t pixel,
                               const std::string& what) {
  const auto width = static_cast<std::size_t>(map.width);
  throw DataError(
      fmt::format("{}: row {}, column {}: {}", path, pixel / width, pixel % width, what));
}

std::string class_text(const LabelRule& rule, std::int16_t number) {
  return number < 0 ? "what has no label"
                    : fmt::format("class '{}'", rule.class_names[static_cast<std::size_t>(number)]);
}

/// Whether the palette shows the numbers in use in their own colours, or in colours of nobody.
void check_palette(const LabelPixels& pixels, const LabelRule& rule, const std::string& path) {
  std::array<bool, 256> used{};
  for (const std::uint8_t number : pixels.bytes) used[number] = true;
  for (std::size_t number = 0; number < pixels.palette.size() / 3; ++number) {
    if (!used[number]) continue;
    const std::uint32_t colour = colour_at(pixels.palette.data() + 3 * number);
    const auto known = rule.colours.find(colour);
    if (known == rule.colours.end() || known->second == rule.classes[number]) continue;
    throw DataError(fmt::format(
        "{}: its palette gives the number {} the colour {} of {}: the colours were renumbered when "
        "it was saved; save it with the dataset's palette, or as red, green and blue",
        path, number, colour_text(colour), class_text(rule, known->second)));
  }
}

LabelMap labels_of_colours(const LabelPixels& pixels, const LabelRule& rule,
                           const std::string& path) {
  if (rule.colours.empty()) {
    throw DataError(path +
                    ": is a picture of colours, which this dataset's label maps are not; take the "
                    "file with numbers of classes, a grey or an indexed PNG");
  }
  LabelMap map(pixels.height, pixels.width);
  for (std::size_t i = 0; i < map.classes.size(); ++i) {
    const std::uint32_t colour = colour_at(pixels.bytes.data() + 3 * i);
    const auto found = rule.colours.find(colour);
    if (found == rule.colours.end()) {
      refuse_pixel(path, map, i,
                   fmt::format("the colour {} belongs to no class; was the label map resized, or "
                               "saved with losses?",
                               colour_text(colour)));
    }
    map.classes[i] = found->second;
  }
  return map;
}

}  // namespace

LabelMap labels_of(const LabelPixels& pixels, const LabelRule& rule, const std::string& path) {
  if (pixels.colours) return labels_of_colours(pixels, rule, path);
  if (!pixels.palette.empty() && !rule.colours.empty()) check_palette(pixels, rule, path);
  LabelMap map(pixels.height, pixels.width);
  for (std::size_t i = 0; i < map.classes.size(); ++i) {
    map.classes[i] = rule.classes[pixels.bytes[i]];
    if (map.classes[i] != LabelRule::kRefused) continue;
    refuse_pixel(path, map, i,
                 fmt::format("the number {} is not a class; known are {}. Is it another dataset's "
                             "label map?",
                             int{pixels.bytes[i]}, rule.numbers));
  }
  return map;
}

}  // namespace attnlab
