// What is said of a folder of images.
#pragma once

#include "framework/data/image/augmentation.h"
#include "framework/data/image/corruption.h"
#include "framework/data/image/few_shot.h"
#include "framework/data/image/multi_crop.h"
#include "framework/plugin.h"

namespace attnlab {

struct ImageFolderOptions {
  std::string root;
  std::string name = "imagenet";
  std::string classes_from;
  std::int64_t size = 224;
  std::string resize = "short";
  double crop_ratio = 0.875;
  std::string interpolation = "bicubic";
  double subset = 0;
  double test_subset = 0;
  double validation = 0;
  FewShotOptions few_shot;
  double test = 0;
  std::int64_t split_seed = 0;
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> deviation = {0.229, 0.224, 0.225};
  std::string damaged = "refuse";
  std::string boxes;
  std::string label_sets;
  ImageAugmentation augmentation;
  MultiCropOptions multi_crop;
  CorruptionOptions corruption;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("root", root,
      "folder with train and val (with `test`: with class folders), or the one above it (empty: "
      "search the usual places)");
    v("name", name, "folder of the dataset: imagenet, imagenette2, ...; without root also a path");
    v("classes_from", classes_from,
      "for data with only a test split: name or path of the data whose train folder names the "
      "classes");
    v("size", size, range(1, 4096), "height and width that the model sees, in pixels");
    v("resize", resize, one_of("short", "squash"),
      "short: keep the aspect ratio and crop the centre; squash: the whole image, aspect ratio "
      "changed");
    v("crop_ratio", crop_ratio, range(0.01, 1),
      "for resize short: size divided by the shorter side of the resized image");
    v("interpolation", interpolation, one_of("bicubic", "bilinear"), "filter of all resizing");
    v("subset", subset, at_least(0),
      "training images used, drawn at random: below 1 a share, from 1 on a number; 0: all");
    v("test_subset", test_subset, at_least(0), "the same for test images");
    v("validation", validation, at_least(0),
      "training images held out at random: below 1 a share, from 1 on a number");
    v("few_shot", few_shot,
      "train on a few images of each class, chosen after the validation images");
    v("test", test, range(0, 0.9),
      "for a folder with only class folders, without train: share of each class's images for "
      "testing");
    v("split_seed", split_seed, range(0, 9e15), "seed of these choices, the same for all runs");
    v("mean", mean, range(-1e6, 1e6), "mean of each channel, of pixels in [0, 1]");
    v("std", deviation, range(1e-6, 1e6), "standard deviation of each channel");
    v("damaged", damaged, one_of("refuse", "skip"),
      "files that cannot be decoded: refuse ends the run at the first one; skip checks every file "
      "at the start, leaves damaged ones out and counts them in info().source");
    v("boxes", boxes,
      "folder with an XML file for each test image, as ImageNet's boxes have them "
      "(resize: squash)");
    v("label_sets", label_sets,
      "JSON file, below the dataset's folder or a path, with several correct classes for each test "
      "image, as ImageNet-ReaL's real.json");
    v("augmentation", augmentation, "random changes to training images");
    v("multi_crop", multi_crop, "several crops of each picture, for self-supervised training");
    corruption.describe(v);
  }
};

}  // namespace attnlab
