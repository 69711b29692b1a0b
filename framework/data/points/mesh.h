// Meshes in the Object File Format, and points on their faces.
//
//   OFF | corners faces edges | x y z a line | n i_1 ... i_n a line
//
// ModelNet's files may join the first two lines ("OFF490 518 0"). Several corners or faces may
// share a line. Behind a corner COFF has a colour of three or four numbers, NOFF a normal, STOFF a
// place in a texture (CNOFF: both, and so on); these, and the colours of faces at the end of their
// lines, are passed over. Faces of more than three corners are taken as fans. Not read: OFF BINARY,
// and corners in other spaces (4OFF, nOFF). Source: Princeton ModelNet (Wu et al., 3D ShapeNets,
// CVPR 2015, arXiv:1406.5670); Geomview's manual, "OFF Files".
#pragma once

#include <string>
#include <string_view>

#include "framework/base/random.h"
#include "framework/tensor/tensor.h"

namespace attnlab {

struct Mesh {
  Tensor corners;    ///< [V, 3] float64
  Tensor triangles;  ///< [F, 3] int64: rows of `corners`
};

/// @throws DataError with the line.
Mesh parse_off(std::string_view bytes, const std::string& path);

struct SampledPoints {
  Tensor coordinates, normals;  ///< [count, 3] float32; normals of unit length
};

/// Points spread evenly over the surface: a triangle by its area, a place in it uniformly.
/// @throws DataError for a mesh without area.
SampledPoints sampled(const Mesh& mesh, std::int64_t count, Random& random,
                      const std::string& path);

}  // namespace attnlab
