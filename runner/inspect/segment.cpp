// attnlab segment: what a run's model says of each pixel of a user's own picture, painted over it.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "framework/base/foreign_text.h"
#include "framework/data/segmentation/labelled_pictures.h"
#include "framework/host/working_folder.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/engine/output_path.h"
#include "runner/inspect/class_name.h"
#include "runner/inspect/image_bytes.h"
#include "runner/inspect/label_painting.h"
#include "runner/inspect/own_pictures.h"
#include "runner/inspect/pixel_answers.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

/// The command line.
struct SegmentRequest {
  std::string run, picture, out;
};

SegmentRequest segment_request(const Arguments& arguments) {
  if (!arguments.has("image")) {
    throw ConfigError("--image is missing: name a picture to look at");
  }
  SegmentRequest request{arguments.words[0], arguments.text("image", ""), ""};
  const std::string name = std::filesystem::path(request.picture).stem().string();
  request.out = arguments.text("out", name + "-classes.png");
  return request;
}

/// The picture as the run's evaluation would show it to the model.
/// @param name  of the run, for messages   @throws ConfigError where the dataset does not say how.
Tensor as_evaluated(const Pixels& picture, const BuiltRun& run, const std::string& name) {
  const DatasetInfo& info = run.dataset->info();
  const FieldInfo& field = info.field("image");
  if (field.mean.size() != 3 || field.deviation.size() != 3) {
    throw ConfigError(fmt::format(
        "{}: its dataset '{}' does not say how pictures are normalised, or they are not red, green "
        "and blue; take a run on another dataset",
        name, info.name));
  }
  const auto framing = read_options<LabelFramingOptions>(run.experiment.dataset.options);
  return shown_picture(picture, framing, {field.mean, field.deviation});
}

int segment(const BuiltRun& run, const SegmentRequest& request, const OutputPath& out,
            Registry& registry) {
  const WorkingFolder home;  // the picture is read by the path given
  const PixelAnswers answers(run, request.run);
  const Pixels picture = stored_picture(request.picture, registry);
  const LabelMap labels = answers.of(request.picture, as_evaluated(picture, run, request.run),
                                     {picture.height, picture.width});
  home.check("the model");
  const DatasetInfo& info = run.dataset->info();
  const std::vector<ClassColour> colours = class_colours(info.name, info.class_names);
  const std::vector<ShownClass> shown = classes_in(labels, info.classes);
  std::vector<LegendEntry> legend;
  for (const ShownClass& one : shown) {
    legend.push_back(
        {colours.at(static_cast<std::size_t>(one.label)), class_name(info, one.label)});
  }
  const Pixels painted = with_legend(painted_over(picture, labels, colours), legend);
  out.write([&](const std::string& file) { write_picture(file, painted); });
  std::cout << out.given << "\n";
  double rest = 1;
  for (const ShownClass& one : shown) {
    std::cout << fmt::format("{:6.2f} %  {}\n", 100 * one.share,
                             one_line(class_name(info, one.label)));
    rest -= one.share;
  }
  if (rest > 1e-9) std::cout << fmt::format("{:6.2f} %  scores that are not finite\n", 100 * rest);
  return kDone;
}

}  // namespace

int segment_command(const Words& words) {
  Usage usage = segment_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const SegmentRequest request = segment_request(arguments);
  const OutputPath out(request.out);
  check_writes_over_none(request.out, out, {request.picture}, "choose another name");
  Registry registry(Catalogue::of_this_program());
  // Of its data it needs names, sizes and norms alone; other pictures among them change nothing.
  const BuiltRun run = open_run(RunFolder(request.run), registry, /*accept=*/true);
  return segment(run, request, out, registry);
}

}  // namespace attnlab
