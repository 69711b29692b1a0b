// Small detection datasets in the published layouts, for tests.
#pragma once

#include <string>
#include <vector>

#include "tests/plugins/vision/picture_files.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::testing {

struct SmallObject {
  std::string name;
  int x0, y0, x1, y1;  ///< as VOC counts them: from 1, the last pixel included
  bool difficult = false;
};

inline std::string voc_xml(std::int64_t height, std::int64_t width,
                           const std::vector<SmallObject>& objects) {
  const auto element = [](const char* name, const std::string& text) {
    return "<" + std::string(name) + ">" + text + "</" + name + ">\n";
  };
  std::string xml = element(
      "size", element("width", std::to_string(width)) + element("height", std::to_string(height)));
  for (const SmallObject& o : objects) {
    xml +=
        element("object", element("name", o.name) + element("difficult", o.difficult ? "1" : "0") +
                              element("bndbox", element("xmin", std::to_string(o.x0)) +
                                                    element("ymin", std::to_string(o.y0)) +
                                                    element("xmax", std::to_string(o.x1)) +
                                                    element("ymax", std::to_string(o.y1))));
  }
  return element("annotation", xml);
}

/// Writes a picture with its annotation.
inline void write_voc(const TempFolder& folder, const std::string& name, std::int64_t height,
                      std::int64_t width, const std::vector<SmallObject>& objects) {
  folder.write("Annotations/" + name + ".xml", voc_xml(height, width, objects));
  folder.write("JPEGImages/" + name + ".jpg", jpeg_of(photograph(height, width, int(name.back()))));
}

/// Four pictures to train on and two to test: dogs, cats, a cow; one box that is difficult, one
/// without area.
inline void write_small_voc(const TempFolder& folder) {
  write_voc(folder, "a1", 40, 60, {{"dog", 1, 1, 20, 20}, {"cat", 31, 11, 50, 40}});
  write_voc(folder, "a2", 50, 50, {{"dog", 11, 11, 30, 40}, {"cow", 5, 5, 25, 25}});
  write_voc(folder, "a3", 64, 48, {{"cat", 1, 1, 48, 30}, {"dog", 10, 40, 9, 50}});
  write_voc(folder, "a4", 48, 48, {{"cow", 1, 1, 48, 48}});
  write_voc(folder, "b1", 40, 60, {{"dog", 1, 1, 20, 20}, {"cow", 31, 11, 50, 40}});
  write_voc(folder, "b2", 60, 40,
            {{"dog", 1, 21, 30, 50}, {"cow", 11, 1, 30, 20}, {"dog", 2, 2, 9, 9, true}});
  folder.write("ImageSets/Main/train.txt", "a1\na2\na3\na4\n");
  folder.write("ImageSets/Main/val.txt", "b1\nb2\n");
}

/// Forty images of 28 x 28 in two files of Fashion-MNIST, four of each class.
/// @param prefix  train or t10k
/// @param pixel   called with the image and the place in it
template <class Pixel>
void write_fashion_files(const TempFolder& folder, const std::string& prefix, const Pixel& pixel) {
  std::string bytes, labels;
  for (int i = 0; i < 40; ++i) {
    labels += char(i % 10);
    for (int k = 0; k < 784; ++k) bytes += char(pixel(i, k));
  }
  folder.write(prefix + "-images-idx3-ubyte", idx_file({40, 28, 28}, bytes));
  folder.write(prefix + "-labels-idx1-ubyte", idx_file({40}, labels));
}

/// Both splits, of other images.
inline void write_small_fashion(const TempFolder& folder) {
  write_fashion_files(folder, "train", [](int i, int k) { return (k * (i + 3) + i) % 256; });
  write_fashion_files(folder, "t10k", [](int i, int k) { return (k * (i + 5) + 7 * i) % 256; });
}

inline const std::string kSmallSets = "train_sets: [train], test_sets: [val]";

}  // namespace attnlab::testing
