// Pictures that `attnlab show` kept beside a run of a classifier of images (images.json): a few
// test images, where the model looked, and what it says of them, as they are and changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/report/kept_pictures.h"

namespace attnlab {

/// An image as the model saw it: "clean", or changed by an evaluation, "fog".
struct ImageVersion {
  std::string name;
  std::string image;  ///< PNG in base64
  std::string words;  ///< "cat (83 %)"
  bool wrong = false;
};

/// Where the model looked in a version of an image: the explanation of its answer, or of a class
/// that the user named.
struct ImageMap {
  std::string version;  ///< "clean"
  std::string of;       ///< a class; empty: the model's answer
  std::vector<double> cells;
};

struct ImagePicture {
  PictureOrigin origin;
  std::int64_t index = 0;              ///< in the test split
  std::int64_t height = 0, width = 0;  ///< in pixels
  std::string true_class;
  std::string method;                  ///< of the map: "ag_cam", "rollout"
  std::vector<double> map;             ///< of a grid of patches, row by row; empty: no map
  std::int64_t columns = 0;            ///< of the grid
  std::vector<ImageVersion> versions;  ///< the clean one first
  std::vector<ImageMap> more_maps;     ///< by AG-CAM, of the same grid
};

/// Of the first seed of each experiment and attention that has any.
/// @param notes  gets a note for a file that cannot be read
std::vector<ImagePicture> image_pictures_of(const std::vector<RunRecord>& runs,
                                            std::vector<std::string>& notes);

/// A table for each image: one row per attention, with the image, the map over it, and its
/// versions.
std::string image_pictures_html(const std::vector<ImagePicture>& pictures);

}  // namespace attnlab
