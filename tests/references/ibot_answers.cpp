// iBOT's numbers for given weights and crops: ibot_reference.py compares them with the public code.
//
//   attnlab_ibot_answers steps EXPERIMENT.yaml GIVEN ANSWERS
//   attnlab_ibot_answers draws N GIVEN ANSWERS
//
// GIVEN and ANSWERS are safetensors files.
//
// steps: student and teacher take "student.NAME" and "teacher.NAME", the task's parameters as
// "student.task.NAME". Of each of S steps GIVEN has the crops "crop@global" [S, B G, C, H, W],
// "crop@local" [S, B L, C, h, w] and "masked@global" [S, B G, N], and the epoch, "epoch" [S].
// ANSWERS has "class" and "patch" [S], the centres behind each step [S, K], and the student's
// gradients of the first step, "gradient.NAME". All in float64.
//
// draws: GIVEN has "picture" [H, W, 3] bytes. ANSWERS has what N draws of multi_crop with its
// defaults give, sizes as published: "boxes.global" and "boxes.local" [N, 4] (top, left, height,
// width), "masks" [2 N, 14 * 14], and of N / 20 pictures "pixels.first", "pixels.other",
// "pixels.local" [N / 20, 7]: of each colour the mean and the deviation, and the mean of
// |x[y, x + 1] - x[y, x]|.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "framework/data/formats/safetensors.h"
#include "framework/data/image/multi_crop.h"
#include "framework/train/run.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace attnlab {
namespace {

constexpr std::int64_t kSide = 224, kLocalSide = 96, kPatches = 14, kDrawsAPicture = 20;

/// Gives a module the tensors of its parameters' names.
/// @throws DataError for a parameter that the file does not have.
void take(torch::nn::Module& module, const NamedTensors& given, const std::string& prefix) {
  const at::NoGradGuard no_gradients;
  module.to(at::kDouble);
  for (auto& item : module.named_parameters()) {
    if (item.key().starts_with("head.") && given.find(prefix + item.key()) == nullptr) {
      continue;  // the classifier, which nothing asks
    }
    item.value().copy_(given.at(prefix + item.key()).view(item.value().sizes()));
  }
}

Batch batch_of(const NamedTensors& given, std::int64_t step, std::int64_t global_crops) {
  Batch batch;
  for (const char* name : {"crop@global", "crop@local", "masked@global"}) {
    if (const Tensor* const all = given.find(name)) batch.fields.set(name, all->select(0, step));
  }
  batch.size = batch.fields.at("crop@global").size(0) / global_crops;
  return batch;
}

void keep_gradients(const torch::nn::Module& module, const std::string& prefix,
                    NamedTensors& answers) {
  for (const auto& item : module.named_parameters()) {
    if (item.value().grad().defined()) {
      answers.set("gradient." + prefix + item.key(), item.value().grad());
    }
  }
}

NamedTensors steps(const std::string& experiment, const NamedTensors& given) {
  BuiltRun run = build_run(load_experiment(experiment, {}, testing::registry().catalogue()), 0,
                           testing::registry());
  take(*run.model, given, "student.");
  take(*run.task, given, "student.task.");
  take(*run.average_model, given, "teacher.");
  take(*run.average_task, given, "teacher.task.");
  const std::int64_t global_crops = run.dataset->info().field("crop@global").shape[0];
  const Tensor epochs = given.at("epoch");
  std::vector<Tensor> of_classes, of_patches, centres, patch_centres;
  NamedTensors answers;
  for (std::int64_t i = 0; i < epochs.size(0); ++i) {
    const Batch batch = batch_of(given, i, global_crops);
    TrainingStep step{.model = *run.model,
                      .batch = batch,
                      .number = epochs[i].item<std::int64_t>(),
                      .steps = run.total_steps(),
                      .steps_per_epoch = 1,
                      .average_model = run.average_model.get(),
                      .average_task = run.average_task.get(),
                      .record = [&](std::string_view part, const Tensor& value) {
                        if (part == "class") of_classes.push_back(value.detach());
                        if (part == "patch") of_patches.push_back(value.detach());
                      }};
    const Tensor loss = run.task->step(step);
    if (i == 0) {
      loss.backward();
      keep_gradients(*run.model, "", answers);
      keep_gradients(*run.task, "task.", answers);
    }
    const at::NoGradGuard no_gradients;
    run.task->after_step({});
    const auto buffers = run.task->named_buffers();
    centres.push_back(buffers["centre"].clone());
    patch_centres.push_back(buffers["patch_centre"].clone());
  }
  answers.set("class", at::stack(of_classes));
  answers.set("patch", at::stack(of_patches));
  answers.set("centre", at::stack(centres));
  answers.set("patch_centre", at::stack(patch_centres));
  return answers;
}

/// Where crops of these shares of the area lie, [N, 4].
Tensor drawn_boxes(const MultiCropOptions& options, const std::vector<double>& scale,
                   std::int64_t height, std::int64_t width, std::int64_t draws, Random& random) {
  ImageAugmentation part;
  part.crop_scale = scale;
  part.crop_ratio = options.ratio;
  Tensor boxes = at::empty({draws, 4}, at::kLong);
  for (std::int64_t i = 0; i < draws; ++i) {
    const Box box = draw_crop(part, height, width, random);
    boxes[i].copy_(at::tensor({box.top, box.left, box.height, box.width}, at::kLong));
  }
  return boxes;
}

/// [2 N, 14 * 14]. Pictures of one pixel a patch are quick to make, and a mask does not see them.
Tensor drawn_masks(MultiCropOptions options, std::int64_t draws, Random& random) {
  options.local_crops = 0;
  options.patch_size = 1;
  options.jitter = options.grey = options.solarise = 0;
  options.blur = {0, 0, 0};
  FieldInfo image{"image", {3, kPatches, kPatches}};
  image.mean = {0, 0, 0};
  image.deviation = {1, 1, 1};
  const MultiCrop crops(options, image, Filter::bicubic);
  const Pixels nothing(kPatches, kPatches, 3);
  std::vector<Tensor> masks;
  for (std::int64_t i = 0; i < draws; ++i) {
    NamedTensors example;
    crops.add(nothing, &random, Split::train, i, example);
    masks.push_back(example.at("masked@global"));
  }
  return at::cat(masks);
}

/// [7] of [3, H, W].
Tensor measured(const Tensor& crop) {
  const Tensor flat = crop.flatten(1);
  const Tensor slope = (crop.slice(2, 1) - crop.slice(2, 0, -1)).abs().mean();
  return at::cat({flat.mean(1), flat.std(1), slope.view({1})});
}

void measure_pixels(const MultiCropOptions& options, const Pixels& picture, std::int64_t pictures,
                    Random& random, NamedTensors& answers) {
  FieldInfo image{"image", {3, kSide, kSide}};
  image.mean = {0, 0, 0};
  image.deviation = {1, 1, 1};
  const MultiCrop crops(options, image, Filter::bicubic);
  std::vector<Tensor> first, other, local;
  for (std::int64_t i = 0; i < pictures; ++i) {
    NamedTensors example;
    crops.add(picture, &random, Split::train, i, example);
    first.push_back(measured(example.at("crop@global")[0]));
    other.push_back(measured(example.at("crop@global")[1]));
    local.push_back(measured(example.at("crop@local")[0]));
  }
  answers.set("pixels.first", at::stack(first));
  answers.set("pixels.other", at::stack(other));
  answers.set("pixels.local", at::stack(local));
}

NamedTensors draws(std::int64_t count, const NamedTensors& given) {
  const Tensor bytes = given.at("picture").contiguous();
  Pixels picture(bytes.size(0), bytes.size(1), 3);
  std::copy_n(bytes.data_ptr<std::uint8_t>(), bytes.numel(), picture.row(0));
  MultiCropOptions options;
  options.global_crops = 2;
  options.local_crops = 1;
  options.local_size = kLocalSide;
  options.patch_size = kSide / kPatches;
  Random random(7);
  NamedTensors answers;
  const auto boxes = [&](const std::vector<double>& scale) {
    return drawn_boxes(options, scale, picture.height, picture.width, count, random);
  };
  answers.set("boxes.global", boxes(options.global_scale));
  answers.set("boxes.local", boxes(options.local_scale));
  answers.set("masks", drawn_masks(options, count, random));
  measure_pixels(options, picture, count / kDrawsAPicture, random, answers);
  return answers;
}

int answer(const std::vector<std::string>& words) {
  if (words.size() != 4 || (words[0] != "steps" && words[0] != "draws")) {
    std::cerr << "attnlab_ibot_answers steps EXPERIMENT.yaml GIVEN ANSWERS\n"
                 "attnlab_ibot_answers draws N GIVEN ANSWERS\n";
    return 2;
  }
  const NamedTensors given = read_safetensors(words[2]).tensors;
  write_safetensors(
      words[3], {words[0] == "steps" ? steps(words[1], given)
                                     : draws(std::strtoll(words[1].c_str(), nullptr, 10), given),
                 {}});
  return 0;
}

}  // namespace
}  // namespace attnlab

int main(int argc, char** argv) {
  attnlab::bench::prepare(/*threads=*/1);
  try {
    return attnlab::answer({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "attnlab_ibot_answers: " << error.what() << "\n";
    return 1;
  }
}
