#include "framework/data/segmentation/palette.h"

namespace attnlab {
namespace {

const std::vector<ClassColour> kCamvid = {
    {128, 128, 128}, {128, 0, 0},   {192, 192, 128}, {128, 64, 128}, {60, 40, 222}, {128, 128, 0},
    {192, 128, 128}, {64, 64, 128}, {64, 0, 128},    {64, 64, 0},    {0, 128, 192}};

const std::vector<ClassColour> kCityscapes = {
    {128, 64, 128},  {244, 35, 232}, {70, 70, 70},  {102, 102, 156}, {190, 153, 153},
    {153, 153, 153}, {250, 170, 30}, {220, 220, 0}, {107, 142, 35},  {152, 251, 152},
    {70, 130, 180},  {220, 20, 60},  {255, 0, 0},   {0, 0, 142},     {0, 0, 70},
    {0, 60, 100},    {0, 80, 100},   {0, 0, 230},   {119, 11, 32}};

}  // namespace

ClassColour voc_colour(std::uint32_t number) {
  std::uint32_t channels[3] = {0, 0, 0};
  for (std::uint32_t bit = 0; bit < 8; ++bit) {
    for (std::uint32_t c = 0; c < 3; ++c) channels[c] |= (number >> (3 * bit + c) & 1) << (7 - bit);
  }
  const auto byte = [&](int c) { return static_cast<std::uint8_t>(channels[c]); };
  return {byte(0), byte(1), byte(2)};
}

std::vector<ClassColour> class_colours(const std::string& dataset,
                                       const std::vector<std::string>& class_names) {
  for (const auto& [name, colours] :
       {std::pair{"camvid", &kCamvid}, {"cityscapes", &kCityscapes}}) {
    if (dataset == name && class_names.size() == colours->size()) return *colours;
  }
  const bool background = !class_names.empty() && class_names.front() == "background";
  std::vector<ClassColour> colours;
  for (std::uint32_t k = 0; k < class_names.size(); ++k) {
    colours.push_back(voc_colour(background ? k : k + 1));
  }
  return colours;
}

}  // namespace attnlab
