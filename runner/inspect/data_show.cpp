// attnlab data show: what a model sees of its images, in one picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/experiment/compositions.h"
#include "runner/engine/engine.h"
#include "runner/engine/output_path.h"
#include "runner/inspect/class_name.h"
#include "runner/inspect/contact_sheet.h"
#include "runner/inspect/image_bytes.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// The command line.
struct SheetRequest {
  Split split = Split::train;
  std::int64_t images = 16, augmented = 0;
  std::string out;
};

std::int64_t number_of(const Arguments& arguments, const char* option, std::int64_t otherwise,
                       std::int64_t least) {
  const auto number = Node::scalar(arguments.text(option, std::to_string(otherwise))).as_int();
  if (number && *number >= least && *number <= 1000) return *number;
  throw ConfigError(fmt::format("--{}: expected a number from {} to 1000, found '{}'", option,
                                least, arguments.text(option, "")));
}

Split split_of(const std::string& name) {
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    if (name == name_of(split)) return split;
  }
  throw ConfigError(fmt::format("--split: expected train, validation or test, found '{}'", name));
}

SheetRequest sheet_request(const Arguments& arguments, const std::string& experiment) {
  SheetRequest request;
  request.split = split_of(arguments.text("split", "train"));
  request.augmented = number_of(arguments, "augmented", 0, 0);
  request.images = number_of(arguments, "images", request.augmented > 0 ? 8 : 16, 1);
  if (request.augmented > 0 && request.split != Split::train) {
    throw ConfigError("--augmented: only the training split is augmented; leave it or --split out");
  }
  request.out = arguments.text("out", fmt::format("{}-{}.png", experiment, name_of(request.split)));
  return request;
}

const FieldInfo& image_field(const DatasetInfo& info) {
  const FieldInfo& field = info.field("image");
  if (field.shape.size() == 3 && std::count(field.shape.begin(), field.shape.end(), -1) == 0) {
    return field;
  }
  throw DataError(
      fmt::format("dataset '{}': its images are not all of one shape [C, H, W]", info.name));
}

std::string label_of(const DatasetInfo& info, const NamedTensors& example) {
  const Tensor* label = example.find("class");
  if (label == nullptr || label->numel() != 1) return "";
  return class_name(info, label->item<std::int64_t>());
}

/// Examples that lie equally far apart in the split, and after each its augmented versions: those
/// of the first epochs of a run.
std::vector<Picture> sheet_pictures(const Dataset& dataset, const SheetRequest& request,
                                    const RandomStreams& streams) {
  const FieldInfo& field = image_field(dataset.info());
  const std::int64_t size = dataset.size(request.split);
  const std::int64_t count = std::min(request.images, size);
  std::vector<Picture> pictures;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * size / count;
    const NamedTensors plain = dataset.example(request.split, index, nullptr);
    const std::string label = label_of(dataset.info(), plain);
    pictures.push_back({bytes_of(plain.at("image"), field), label});
    for (std::int64_t epoch = 0; epoch < request.augmented; ++epoch) {
      Random random = streams.stream("augmentation", static_cast<std::uint64_t>(epoch),
                                     static_cast<std::uint64_t>(index));
      const NamedTensors changed = dataset.example(request.split, index, &random);
      pictures.push_back({bytes_of(changed.at("image"), field), ""});
    }
  }
  return pictures;
}

}  // namespace

int data_show_command(const Words& words) {
  Usage usage = data_show_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  Registry registry(Catalogue::of_this_program());
  const Experiment experiment = load_experiment(find_composition(arguments.words[0], "experiments"),
                                                arguments.overrides, registry.catalogue());
  const SheetRequest request = sheet_request(arguments, experiment.name);
  const OutputPath out(request.out);
  const RandomStreams streams(static_cast<std::uint64_t>(experiment.seeds.at(0)));
  const auto dataset = registry.dataset(experiment.dataset, {streams});
  if (dataset->size(request.split) == 0) {
    throw DataError(
        fmt::format("dataset '{}' has no {} split", dataset->info().name, name_of(request.split)));
  }
  const std::vector<Picture> pictures = sheet_pictures(*dataset, request, streams);
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(double(pictures.size()))));
  const Pixels sheet =
      contact_sheet(pictures, request.augmented > 0 ? 1 + request.augmented : side);
  out.write([&](const std::string& path) { write_picture(path, sheet); });
  std::cout << fmt::format(
      "{}: {} images of the {} split of {}{}\n", request.out,
      std::min(request.images, dataset->size(request.split)), name_of(request.split),
      one_line(dataset->info().source, kLongestMessageLine),
      request.augmented > 0 ? fmt::format(", each with {} augmented versions", request.augmented)
                            : "");
  return kDone;
}

}  // namespace attnlab
