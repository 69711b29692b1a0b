// KITTI's calibration and boxes: which points of a scan lie in a labelled object.
//
//   x_camera = R0_rect (Tr_velo_to_cam [x; 1])
//
// A label's box stands on its location (the camera's y points down), h high, l along its heading
// and w across, turned by rotation_y about the vertical.
// Source: Geiger et al., CVPR 2012; the object development kit's readme.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

struct Calibration {
  std::array<double, 12> projection{};  ///< P2, rows: of the left colour camera
  std::array<double, 12> to_camera{};   ///< R0_rect Tr_velo_to_cam, rows
};

/// @throws FileError; DataError where a matrix is lacking or not readable.
Calibration read_calibration(const std::string& path);

struct Box {
  std::string type;               ///< "Car", "Pedestrian", ...
  std::array<double, 4> image{};  ///< left, top, right, bottom: what it takes of the image, pixels
  double height = 0, width = 0, length = 0;
  std::array<double, 3> location{};  ///< the middle of its bottom, in the camera's axes
  double turn = 0;                   ///< rotation_y, radians

  /// Whether it has a place in space; DontCare regions have one in the image alone.
  bool in_space() const { return type != "DontCare"; }
};

/// Objects of a label file, DontCare regions among them.
/// @throws FileError; DataError with the line.
std::vector<Box> read_boxes(const std::string& path);

/// Points in the camera's axes: [N, 3] float64. @param scan  [N, 4 or more] float32
Tensor in_camera(const Tensor& scan, const Calibration& calibration);

/// [N] bool: before the camera and within a part of its image.
/// @param part  left, top, right, bottom, in pixels
Tensor in_image(const Tensor& camera, const Calibration& calibration,
                const std::array<double, 4>& part);

/// [N] bool
Tensor in_box(const Tensor& camera, const Box& box);

}  // namespace attnlab
