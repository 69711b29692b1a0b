// Small datasets with label maps in the published layouts, for tests.
#pragma once

#include <string>
#include <vector>

#include "framework/data/image/png.h"
#include "tests/support/label_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

/// A picture that differs from others by its seed.
inline std::string picture_file(std::int64_t height, std::int64_t width, int seed) {
  Pixels image(height, width, 3);
  for (std::size_t i = 0; i < image.bytes.size(); ++i) {
    image.bytes[i] = static_cast<std::uint8_t>((31 * i + i / 7 * 5 + 40 * std::size_t(seed)) % 251);
  }
  return png_of(image);
}

/// Numbers in columns that are some pixels wide, each in turn.
inline std::vector<std::uint8_t> striped(std::size_t height, std::size_t width,
                                         const std::vector<std::uint8_t>& numbers) {
  std::vector<std::uint8_t> all;
  for (std::size_t i = 0; i < height * width; ++i) {
    all.push_back(numbers[i % width * numbers.size() / width]);
  }
  return all;
}

/// ADE20K: two pictures to train on, one to test on, of classes 1, 2 and 150.
inline void write_small_ade(const TempFolder& folder) {
  int seed = 0;
  for (const char* name :
       {"training/ADE_train_1", "training/ADE_train_2", "validation/ADE_val_1"}) {
    folder.write("images/" + std::string(name) + ".jpg", picture_file(20, 24, ++seed));
    folder.write("annotations/" + std::string(name) + ".png",
                 numbers_png(20, 24, striped(20, 24, {0, 1, 2, 150})));
  }
}

/// CamVid: two to train on, one to choose by, one to test on, of all classes and 11.
inline void write_small_camvid(const TempFolder& folder) {
  const std::vector<std::uint8_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  int seed = 0;
  for (const auto& [set, count] : {std::pair{"train", 2}, {"val", 1}, {"test", 1}}) {
    const std::string name = set;
    std::string list;
    for (int i = 0; i < count; ++i) {
      const std::string file = "/f" + std::to_string(i) + ".png";
      folder.write(name + file, picture_file(12, 24, ++seed));
      folder.write(name + "annot" + file, numbers_png(12, 24, striped(12, 24, all)));
      list += "/SegNet/CamVid/" + name + file + " /SegNet/CamVid/" + name + "annot" + file + "\n";
    }
    folder.write(name + ".txt", list);
  }
}

/// The first colours of VOC's palette.
inline std::vector<std::uint8_t> voc_palette() {
  return {0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, 0, 0, 128};
}

/// VOC: two pictures to train on, one to test on, of the background and the first four classes.
inline void write_small_voc_labels(const TempFolder& folder, const std::string& below = "") {
  int seed = 0;
  NumbersForm form;
  form.palette = voc_palette();
  for (const char* name : {"a1", "a2", "b1"}) {
    folder.write(below + "JPEGImages/" + name + ".jpg", picture_file(16, 20, ++seed));
    folder.write(below + "SegmentationClass/" + name + ".png",
                 numbers_png(16, 20, striped(16, 20, {0, 1, 2, 3, 4}), form));
  }
  folder.write(below + "ImageSets/Segmentation/train.txt", "a1\na2\n");
  folder.write(below + "ImageSets/Segmentation/val.txt", "b1\n");
}

/// Cityscapes: one picture in each of two cities to train on, one to test on.
inline void write_small_cityscapes(const TempFolder& folder) {
  int seed = 0;
  for (const char* name : {"train/aachen/aachen_1", "train/bochum/bochum_1", "val/ulm/ulm_1"}) {
    folder.write("leftImg8bit/" + std::string(name) + "_leftImg8bit.png",
                 picture_file(10, 20, ++seed));
    const std::string start = "gtFine/" + std::string(name) + "_gtFine_";
    folder.write(start + "labelIds.png", numbers_png(10, 20, striped(10, 20, {7, 8, 3, 33, 255})));
    folder.write(start + "color.png", picture_file(10, 20, seed));
  }
}

}  // namespace attnlab::testing
