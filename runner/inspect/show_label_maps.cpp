#include "runner/inspect/show_label_maps.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/base64.h"
#include "framework/data/image/png.h"
#include "runner/inspect/class_name.h"
#include "runner/inspect/image_bytes.h"
#include "runner/inspect/label_painting.h"

namespace attnlab {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostSide = 256;
constexpr ClassColour kRight = {203, 213, 225}, kWrong = {220, 38, 38};

/// A picture's label map, as it is stored.
LabelMap truth_of(const NamedTensors& example) {
  const Tensor labels = example.at("label_map").to(at::kCPU, at::kLong).contiguous();
  LabelMap map(labels.size(0), labels.size(1));
  const auto* label = labels.data_ptr<std::int64_t>();
  std::transform(label, label + labels.numel(), map.classes.begin(), [](std::int64_t one) {
    return one < 0 ? kUnlabelled : static_cast<std::int16_t>(one);
  });
  return map;
}

/// 0 where an answer is right, 1 where it is wrong.
LabelMap errors_of(const LabelMap& truth, const LabelMap& said) {
  LabelMap errors(truth.height, truth.width);
  for (std::size_t i = 0; i < truth.classes.size(); ++i) {
    if (truth.classes[i] < 0) continue;
    errors.classes[i] = truth.classes[i] == said.classes[i] ? 0 : 1;
  }
  return errors;
}

double share_of(const std::vector<ShownClass>& shown, std::int64_t label) {
  const auto found = std::find_if(shown.begin(), shown.end(),
                                  [&](const ShownClass& one) { return one.label == label; });
  return found == shown.end() ? 0 : found->share;
}

/// The classes among labels or answers, by number.
json classes_of(const DatasetInfo& info, const LabelMap& truth, const LabelMap& said,
                const std::vector<ClassColour>& colours) {
  const std::vector<ShownClass> real = classes_in(truth, info.classes);
  const std::vector<ShownClass> answered = classes_in(said, info.classes);
  json all = json::array();
  for (std::int64_t k = 0; k < info.classes; ++k) {
    const double is = share_of(real, k), says = share_of(answered, k);
    if (is == 0 && says == 0) continue;
    const ClassColour& colour = colours.at(static_cast<std::size_t>(k));
    all.push_back({{"name", class_name(info, k)},
                   {"colour", fmt::format("#{:02x}{:02x}{:02x}", colour[0], colour[1], colour[2])},
                   {"true", is},
                   {"said", says}});
  }
  return all;
}

}  // namespace

json picture_of_label_map(const BuiltRun& run, const PixelAnswers& answers, std::int64_t index) {
  const DatasetInfo& info = run.dataset->info();
  const NamedTensors example = run.dataset->example(Split::test, index, nullptr);
  const LabelMap truth = truth_of(example);
  const LabelMap said = answers.of(fmt::format("test example {}", index), example.at("image"),
                                   {truth.height, truth.width});
  const LabelMap errors = errors_of(truth, said);
  const std::vector<ClassColour> colours = class_colours(info.name, info.class_names);
  const auto painted = [&](const LabelMap& labels, const std::vector<ClassColour>& by) {
    const std::int64_t longer = std::max(labels.height, labels.width);
    if (longer <= kMostSide) return base64_text(png_of(painted_labels(labels, by)));
    const auto side = [&](std::int64_t pixels) {
      return std::max<std::int64_t>(1, (2 * pixels * kMostSide + longer) / (2 * longer));
    };
    const LabelMap small = resized_labels(labels, {side(labels.height), side(labels.width)});
    return base64_text(png_of(painted_labels(small, by)));
  };
  const Pixels picture = at_most(bytes_of(example.at("image"), info.field("image")), kMostSide);
  return {{"index", index},
          {"height", truth.height},
          {"width", truth.width},
          {"image", base64_text(png_of(picture))},
          {"truth", painted(truth, colours)},
          {"answer", painted(said, colours)},
          {"errors", painted(errors, {kRight, kWrong})},
          {"labelled", std::count_if(truth.classes.begin(), truth.classes.end(),
                                     [](std::int16_t label) { return label >= 0; })},
          {"wrong", std::count(errors.classes.begin(), errors.classes.end(), std::int16_t{1})},
          {"classes", classes_of(info, truth, said, colours)}};
}

}  // namespace attnlab
