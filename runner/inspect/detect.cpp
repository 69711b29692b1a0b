// attnlab detect: a trained detector on a user's own pictures. Boxes are drawn on copies of them,
// and written as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/data/formats/files.h"
#include "framework/host/working_folder.h"
#include "framework/nn/boxes/best_answers.h"
#include "runner/engine/engine.h"
#include "runner/engine/open_run.h"
#include "runner/engine/output_path.h"
#include "runner/inspect/drawing.h"
#include "runner/inspect/image_bytes.h"
#include "runner/inspect/own_pictures.h"
#include "runner/usages.h"

namespace attnlab {
namespace {

using nlohmann::json;

/// The command line.
struct DetectRequest {
  std::string run, prompt, out;
  Words pictures;
  double score = 0;
  std::int64_t most = 0;
};

DetectRequest detect_request(const Arguments& arguments) {
  DetectRequest request{arguments.words[0],
                        arguments.text("prompt", ""),
                        arguments.text("out", "detections"),
                        {},
                        arguments.options["score"].as<double>(),
                        arguments.options["most"].as<std::int64_t>()};
  if (!arguments.has("image")) {
    throw ConfigError("--image is missing: name a picture to look at");
  }
  request.pictures = arguments.options["image"].as<Words>();
  if (!(request.score >= 0 && request.score <= 1)) {
    throw ConfigError(fmt::format("--score: {} is not a number from 0 to 1", request.score));
  }
  if (request.most < 1 || request.most > 10000) {
    throw ConfigError(fmt::format("--most: {} is not 1 to 10000", request.most));
  }
  return request;
}

bool asks_by_prompt(const BuiltRun& run) {
  const std::vector<FieldInfo>& fields = run.dataset->info().fields;
  return std::any_of(fields.begin(), fields.end(),
                     [](const auto& f) { return f.name == "prompt"; });
}

/// @throws ConfigError where the request does not go with the run.
void check(const DetectRequest& request, const BuiltRun& run) {
  if (!run.experiment.task.name.ends_with("detection")) {
    throw ConfigError(fmt::format("{}: its task is '{}'; take a run of a detector", request.run,
                                  run.experiment.task.name));
  }
  const bool prompted = asks_by_prompt(run);
  if (prompted == !request.prompt.empty()) return;
  throw ConfigError(
      prompted ? "--prompt is missing: this detector needs a picture of what to find"
               : "--prompt: this detector knows its classes, and takes no prompt; leave it out");
}

/// The pictures, prepared as those were that the run was trained on.
std::shared_ptr<Dataset> as_trained(const DetectRequest& request, const BuiltRun& run,
                                    Registry& registry) {
  Node options = Node::map();
  for (const char* name : {"size", "prompt_size", "mean", "std"}) {
    const Node* value = run.experiment.dataset.options.find(name);
    if (value != nullptr) options.set(name, *value);
  }
  look_for_data_in("");  // the user names pictures from the working folder
  options.set("files", list_of(request.pictures));
  options.set("prompt", Node::scalar(request.prompt, {}, true));
  return registry.dataset(part_of(Kind::dataset, "pictures", options, registry.catalogue()),
                          {run.streams});
}

/// One answer, its edges in shares of the picture.
struct Found {
  double score = 0, x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  std::int64_t label = 0;
};

std::vector<Found> found_in(const BuiltRun& run, const Batch& picture,
                            const DetectRequest& request) {
  ForwardPass pass;
  const NamedTensors outputs = run.model->forward(to_device(picture, run.device), pass);
  const BestAnswers best = best_answers(outputs.at("logits").to(at::kCPU, at::kFloat),
                                        outputs.at("boxes").to(at::kCPU, at::kFloat), request.most);
  const Tensor boxes = best.boxes.to(at::kDouble).clamp(0, 1).contiguous();
  std::vector<Found> all;
  for (std::int64_t i = 0; i < best.scores.size(1); ++i) {
    const double score = best.scores[0][i].item<double>();
    if (score < request.score) break;
    const double* box = boxes.data_ptr<double>() + 4 * i;
    if (!std::all_of(box, box + 4, [](double edge) { return std::isfinite(edge); })) continue;
    all.push_back({score, box[0], box[1], box[2], box[3], best.labels[0][i].item<std::int64_t>()});
  }
  return all;
}

/// What a class is called; nothing where the prompt says what is looked for.
std::string class_name(const BuiltRun& run, std::int64_t label) {
  if (asks_by_prompt(run)) return "";
  return run.dataset->info().class_names.at(static_cast<std::size_t>(label));
}

/// Frames with scores; the best answer is drawn last, in front.
void draw(const BuiltRun& run, const std::vector<Found>& found, Pixels& picture) {
  static constexpr Colour kColours[] = {{230, 25, 75},  {60, 180, 75},  {0, 130, 200},
                                        {245, 130, 48}, {145, 30, 180}, {0, 128, 128}};
  const std::int64_t dot = std::max<std::int64_t>(1, std::max(picture.height, picture.width) / 500);
  for (auto one = found.rbegin(); one != found.rend(); ++one) {
    const Colour& colour = kColours[static_cast<std::size_t>(one->label) % std::size(kColours)];
    const auto at = [](double share, std::int64_t side) {
      return static_cast<std::int64_t>(std::lround(share * double(side)));
    };
    const std::int64_t top = at(one->y0, picture.height), left = at(one->x0, picture.width);
    const Box box{top, left, at(one->y1, picture.height) - top, at(one->x1, picture.width) - left};
    draw_frame(picture, box, 2 * dot, colour);
    const std::string name = class_name(run, one->label);
    const std::string text = fmt::format("{}{}{:.2f}", name, name.empty() ? "" : " ", one->score);
    const std::int64_t high = (kLetterHeight + 2) * dot;
    const Box label{std::max<std::int64_t>(0, box.top - high), box.left, high,
                    (std::int64_t(text.size()) * kLetterWidth + 1) * dot};
    fill(picture, label, colour);
    write_text(picture, label.top + dot, label.left + dot, dot, {255, 255, 255}, text);
  }
}

/// NAME.png for each picture, numbered where two have one name.
Words file_names(const Words& pictures) {
  Words names;
  std::set<std::string> taken;
  for (const std::string& path : pictures) {
    const std::string stem = std::filesystem::path(path).stem();
    std::string name = stem;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}-{}", stem, n);
    names.push_back(name + ".png");
  }
  return names;
}

/// @param height, width  of the stored picture: boxes are written in its pixels
json record_of(const BuiltRun& run, const std::vector<Found>& found, double height, double width) {
  json boxes = json::array();
  for (const Found& one : found) {
    json box = {{"score", one.score},
                {"box", {one.x0 * width, one.y0 * height, one.x1 * width, one.y1 * height}}};
    if (const std::string name = class_name(run, one.label); !name.empty()) box["class"] = name;
    boxes.push_back(box);
  }
  return boxes;
}

int detect(const BuiltRun& run, const DetectRequest& request, const OutputPath& out,
           Registry& registry) {
  const WorkingFolder home;  // each picture is opened when its turn comes, by the path given
  const Words names = file_names(request.pictures);
  Words inputs = request.pictures;
  if (!request.prompt.empty()) inputs.push_back(request.prompt);
  for (const std::string& name : names) {
    check_writes_over_none(request.out, out.file(name), inputs, "choose another folder");
  }
  const auto pictures = as_trained(request, run, registry);
  json record = {{"run", request.run}, {"score", request.score}, {"pictures", json::array()}};
  if (!request.prompt.empty()) record["prompt"] = request.prompt;
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (stop_requested()) return kInterrupted;
    const std::string& path = request.pictures[i];
    const Batch batch =
        pictures->collate({pictures->example(Split::test, std::int64_t(i), nullptr)});
    const auto height = batch.fields.at("size")[0][0].item<std::int64_t>();
    const auto width = batch.fields.at("size")[0][1].item<std::int64_t>();
    const std::vector<Found> found = found_in(run, batch, request);
    home.check("the model");
    Pixels picture = stored_picture(path, std::max(height, width), registry);
    draw(run, found, picture);
    const OutputPath drawn = out.file(names[i]);
    drawn.write([&](const std::string& file) { write_picture(file, picture); });
    record["pictures"].push_back({{"file", path},
                                  {"drawn", names[i]},
                                  {"height", height},
                                  {"width", width},
                                  {"found", record_of(run, found, double(height), double(width))}});
    std::cout << fmt::format("{}: {} found\n", drawn.given, found.size());
  }
  const OutputPath written = out.file("detections.json");
  written.write([&](const std::string& file) { write_file(file, json_text(record)); });
  std::cout << written.given << "\n";
  return kDone;
}

}  // namespace

int detect_command(const Words& words) {
  Usage usage = detect_usage();
  const Arguments arguments = parse_arguments(words, usage);
  if (arguments.help) return kDone;
  const DetectRequest request = detect_request(arguments);
  const OutputPath out(request.out);
  Registry registry(Catalogue::of_this_program());
  // Of its data it needs the names of classes alone; other pictures among them change nothing.
  const BuiltRun run = open_run(RunFolder(request.run), registry, /*accept=*/true);
  check(request, run);
  return detect(run, request, out, registry);
}

}  // namespace attnlab
