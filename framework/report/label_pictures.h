// Pictures that `attnlab show` kept beside a run of segmentation (label_maps.json): a test picture,
// the true classes of its pixels, the model's, and where both differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/report/kept_pictures.h"

namespace attnlab {

/// A class among the labels or the answers of a picture.
struct LabelClass {
  std::string name, colour;    ///< "#a00b1c"
  double truth = 0, said = 0;  ///< shares of all pixels
};

struct LabelPicture {
  PictureOrigin origin;
  std::int64_t index = 0;                    ///< in the test split
  std::int64_t height = 0, width = 0;        ///< of the label map, in pixels
  std::int64_t labelled = 0, wrong = 0;      ///< pixels
  std::string image, truth, answer, errors;  ///< PNG in base64
  std::vector<LabelClass> classes;
};

/// Of the first seed of each experiment and attention that has any.
/// @param notes  gets a note for a file that cannot be read
std::vector<LabelPicture> label_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes);

/// For each picture: itself and its true classes once, answer and errors of each attention, and the
/// colours of the classes.
std::string label_pictures_html(const std::vector<LabelPicture>& pictures);

}  // namespace attnlab
