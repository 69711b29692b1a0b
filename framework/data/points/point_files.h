// Files of points: columns of numbers under names.
//
//   .ply          ASCII and binary of both byte orders; the scalars of the element `vertex` (lists
//                 among them are passed over)
//   .pcd          Point Cloud Library: ascii, binary, binary_compressed
//   .las          1.0 to 1.4, point formats 0 to 10, not compressed (.laz is refused)
//   .npy .npz     arrays [N, C]; of an .npz the one called points, or the only one
//   .xyz .txt .csv .pts   numbers per line, divided by blanks, commas or semicolons (not by the
//   last
//                 two in one line: of `1,5;2,5` the commas are decimal); a first line of words
//                 names the columns, of .pts one number may count the points; # and // begin
//                 comments
//   .off          the corners of a mesh (framework/data/points/mesh.h samples its faces)
//
// A text may begin with the byte-order mark of UTF-8. Columns have the names that stand in the
// file; they are found by these, or whatever the case of their letters. Columns without names are
// x, y, z, then c3, c4, ... Sources: Turk, The PLY polygon file format, 1994; pointclouds.org, The
// PCD file format; ASPRS LAS specification 1.4 R15.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/tensor/tensor.h"

namespace attnlab {

struct PointTable {
  std::vector<std::string> names;
  Tensor values;  ///< [N, names] float64

  /// The column of that name, or else the one whose name differs in the case of letters alone.
  /// @throws DataError where there is none, or where several could be meant.
  std::int64_t column(const std::string& name, const std::string& path) const;
};

/// @throws FileError, DataError "path: what is wrong; what to do" (with line or byte), also for
///         another ending, for files without columns x, y, z, and for one of more than 1 GiB
///         (before it is read).
PointTable read_points(const std::string& path);

PointTable parse_ply(std::string_view bytes, const std::string& path);
PointTable parse_pcd(std::string_view bytes, const std::string& path);
PointTable parse_las(std::string_view bytes, const std::string& path);
/// @param counted  a first line of one number may say how many points follow, as in .pts files
PointTable parse_xyz(std::string_view bytes, const std::string& path, bool counted = false);

}  // namespace attnlab
