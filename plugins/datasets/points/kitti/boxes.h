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
  std::string type;  ///< "Car", "Pedestrian", ...
  double height = 0, width = 0, length = 0;
  std::array<double, 3> location{};  ///< the middle of its bottom, in the camera's axes
  double turn = 0;                   ///< rotation_y, radians
};

/// Objects of a label file; DontCare regions, which have no place in space, are left out.
/// @throws FileError; DataError with the line.
std::vector<Box> read_boxes(const std::string& path);

/// Points in the camera's axes: [N, 3] float64. @param scan  [N, 4 or more] float32
Tensor in_camera(const Tensor& scan, const Calibration& calibration);

/// [N] bool: before the camera and within its image.
Tensor in_image(const Tensor& camera, const Calibration& calibration, double width, double height);

/// [N] bool
Tensor in_box(const Tensor& camera, const Box& box);

}  // namespace attnlab
