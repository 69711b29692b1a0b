// Pictures that `attnlab show` kept beside a detector's run (boxes.json): what was asked for, what
// was found, and where one query looked.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/report/kept_pictures.h"

namespace attnlab {

/// A box with what is said of it.
struct SaidBox {
  std::array<double, 4> edges{};  ///< x0, y0, x1, y1 in pixels of the picture
  std::string words;              ///< "shirt", "shirt 0.91"
};

struct BoxPicture {
  PictureOrigin origin;
  std::int64_t index = 0;              ///< in the test split
  std::int64_t height = 0, width = 0;  ///< in pixels
  std::string image, prompt;           ///< PNG in base64; no prompt: empty
  std::string asked;                   ///< the prompt's class; empty: all classes
  std::vector<SaidBox> known, found;   ///< found: the best first
  /// Of the best answer's query to the cells of a grid, row by row: the mean over heads in the last
  /// layer; empty where nothing was recorded.
  std::vector<double> attention;
  std::int64_t columns = 0;  ///< of the grid
  double stride = 0;         ///< pixels from cell to cell
};

/// Of the first seed of each experiment and attention that has any.
/// @param notes  gets a note for a file that cannot be read
std::vector<BoxPicture> box_pictures_of(const std::vector<RunRecord>& runs,
                                        std::vector<std::string>& notes);

/// One row for each picture, one drawing for each attention: boxes, and the best query's attention.
std::string box_pictures_html(const std::vector<BoxPicture>& pictures);

}  // namespace attnlab
