// The ground truth of the revisited Oxford and Paris: gnd_NAME.pkl, a pickled map.
//
//   imlist    names of the pictures of the database, without ending
//   qimlist   names of the queries' pictures
//   gnd       for each query: bbx [x1, y1, x2, y2] in pixels, what is asked for in its picture;
//             easy, hard, junk: numbers of pictures of imlist
//
// Lists may be arrays. Source: github.com/filipradenovic/revisitop.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

struct RetrievalQuery {
  std::string name;
  std::array<double, 4> box{};  ///< left, top, right, bottom
  std::vector<std::int64_t> easy, hard, junk;
};

struct GroundTruth {
  std::vector<std::string> database;
  std::vector<RetrievalQuery> queries;
};

/// @param path  for messages
/// @throws DataError naming the file, the query and what is wrong: a damaged file, a box without
///         room, a number that is none of a picture.
GroundTruth read_ground_truth(std::string_view bytes, const std::string& path);

}  // namespace attnlab
