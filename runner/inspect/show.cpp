// attnlab show: test examples with what a run's model answers, kept beside the run for its report.
// Of graphs: graphs.json, which framework/report/graph_pictures.h reads; of clouds: clouds.json; of
// detectors: boxes.json; of segmentation: label_maps.json; of classifiers of images: images.json.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/links.h"
#include "framework/base/text.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/engine/output_path.h"
#include "runner/inspect/show_boxes.h"
#include "runner/inspect/show_clouds.h"
#include "runner/inspect/show_graphs.h"
#include "runner/inspect/show_images.h"
#include "runner/inspect/show_label_maps.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

using nlohmann::json;

struct ShowRequest {
  std::string run;
  std::int64_t examples = 0, node = -1, point = -1;
  std::string with;  ///< file with other evaluations than the run's; empty: the run's own
  std::vector<std::string> classes;  ///< their names or numbers
  std::vector<std::int64_t> region;
};

/// "8,0,16,16".
std::vector<std::int64_t> region_of(const std::string& given) {
  std::vector<std::int64_t> numbers;
  std::istringstream parts(given + ",");
  bool whole = true;
  for (std::string part; std::getline(parts, part, ',');) {
    const auto number = parsed_number<std::int64_t>(part);
    whole = whole && number;
    numbers.push_back(number.value_or(0));
  }
  if (whole && numbers.size() == 4) return numbers;
  throw ConfigError(fmt::format(
      "--region: '{}' is not LEFT,TOP,WIDTH,HEIGHT: four whole numbers of pixels", given));
}

/// @throws ConfigError for a name that no class has.
std::int64_t class_called(const std::string& given, const DatasetInfo& info) {
  const auto& names = info.class_names;
  const auto found = std::find(names.begin(), names.end(), given);
  if (found != names.end()) return found - names.begin();
  const auto number = parsed_number<std::int64_t>(given);
  if (number && *number >= 0 && *number < info.classes) return *number;
  throw ConfigError(fmt::format(
      "--class: dataset '{}' has no class '{}'{}; name one, or give its number, 0 to {}", info.name,
      given, suggestion(given, names), info.classes - 1));
}

ShowRequest show_request(const Arguments& arguments) {
  ShowRequest request{arguments.words[0],
                      arguments.options["examples"].as<std::int64_t>(),
                      arguments.options["node"].as<std::int64_t>(),
                      arguments.options["point"].as<std::int64_t>(),
                      arguments.text("with", ""),
                      {},
                      {}};
  if (arguments.has("class")) {
    request.classes = arguments.options["class"].as<std::vector<std::string>>();
  }
  if (arguments.has("region")) request.region = region_of(arguments.text("region", ""));
  if (request.examples < 1 || request.examples > 100) {
    throw ConfigError(fmt::format("--examples: {} is not 1 to 100", request.examples));
  }
  if (request.node < -1)
    throw ConfigError(fmt::format("--node: there is no node {}", request.node));
  if (request.point < -1)
    throw ConfigError(fmt::format("--point: there is no point {}", request.point));
  return request;
}

/// What is drawn of a dataset's examples: "graphs", "clouds", "boxes", "label_maps" or "images";
/// empty: nothing yet.
std::string kind_of(const DatasetInfo& info) {
  const auto gives = [&](const std::string& name) {
    return std::any_of(info.fields.begin(), info.fields.end(),
                       [&](const FieldInfo& field) { return field.name == name; });
  };
  if (gives("edges@edge>node")) return "graphs";
  if (gives("coord@point") && gives("inverse@point>voxel")) return "clouds";
  if (gives("box@box")) return "boxes";
  if (gives("image") && gives("label_map")) return "label_maps";
  const bool pictures = gives("image") && gives("class") && info.field("image").shape.size() == 3;
  return pictures ? "images" : "";
}

/// @throws ConfigError for an option that does nothing with what is drawn.
void check_options(const ShowRequest& request, const std::string& kind, const DatasetInfo& info) {
  const auto check = [&](bool given, const char* drawn, const char* what) {
    if (!given || kind == drawn) return;
    throw ConfigError(fmt::format("{}; dataset '{}' gives {}", what, info.name,
                                  kind == "label_maps" ? "label maps" : kind));
  };
  check(request.node >= 0, "graphs", "--node chooses a node of a graph");
  check(request.point >= 0, "clouds", "--point chooses a point of a cloud");
  check(!request.with.empty(), "images", "--with names evaluations of images");
  check(!request.classes.empty(), "images", "--class asks for maps of images");
  check(!request.region.empty(), "images", "--region changes images");
}

std::vector<EvaluationEntry> entries_of(const ShowRequest& request, const Experiment& experiment,
                                        const Catalogue& catalogue) {
  if (request.with.empty()) return evaluations_of(experiment, catalogue);
  return evaluations_of(with_evaluations(experiment, request.with, catalogue), catalogue);
}

/// Examples that lie equally far apart in the test split.
std::vector<std::int64_t> chosen_examples(std::int64_t wanted, std::int64_t size) {
  const std::int64_t count = std::min(wanted, size);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i * size / count);
  return indices;
}

json pictures_of(const std::string& kind, BuiltRun& run, const RunFolder& folder,
                 const ShowRequest& request, Registry& registry) {
  const std::vector<std::int64_t> indices =
      chosen_examples(request.examples, run.dataset->size(Split::test));
  if (kind == "images") {
    MapRequest maps{{}, request.region};
    for (const std::string& one : request.classes) {
      maps.classes.push_back(class_called(one, run.dataset->info()));
    }
    return pictures_of_images(run, folder, indices,
                              entries_of(request, run.experiment, registry.catalogue()), maps,
                              registry);
  }
  json pictures = json::array();
  if (kind == "label_maps") {
    const PixelAnswers answers(run, request.run);
    for (const std::int64_t index : indices) {
      if (stop_requested()) throw Interrupted();
      pictures.push_back(picture_of_label_map(run, answers, index));
    }
    return pictures;
  }
  for (const std::int64_t index : indices) {
    if (stop_requested()) throw Interrupted();
    pictures.push_back(kind == "graphs"   ? picture_of_graph(run, index, request.node)
                       : kind == "clouds" ? picture_of_cloud(run, index, request.point)
                                          : picture_of_boxes(run, index));
  }
  return pictures;
}

}  // namespace

int show_command(const Words& words) {
  Usage usage = show_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const ShowRequest request = show_request(arguments);
  Registry registry(Catalogue::of_this_program());
  const OutputPath folder(request.run);
  BuiltRun run = open_run(RunFolder(folder.given), registry, arguments.has("accept-changes"));
  const DatasetInfo& info = run.dataset->info();
  const std::string kind = kind_of(info);
  if (kind.empty() || run.dataset->size(Split::test) == 0) {
    throw ConfigError(fmt::format("{}: dataset '{}' has no {}", request.run, info.name,
                                  kind.empty()
                                      ? "graphs, no clouds of points, no boxes, no label maps and "
                                        "no images of one size with classes, and nothing else is "
                                        "shown"
                                      : "test split"));
  }
  check_options(request, kind, info);
  const OutputPath file = folder.file(kind + ".json");
  refuse_link(file.given);
  const at::NoGradGuard no_gradients;
  json pictures;
  try {
    pictures = pictures_of(kind, run, RunFolder(folder.whole), request, registry);
  } catch (const Interrupted&) {
    return kInterrupted;
  }
  file.write([&](const std::string& path) {
    write_file(path, json_text(json{{kind, pictures}}, -1));
  });
  std::cout << fmt::format("{}: {} test {}; `attnlab report` draws them\n", file.given,
                           pictures.size(),
                           kind == "boxes" || kind == "label_maps" ? "examples" : kind);
  return kDone;
}

}  // namespace attnlab
