// A made-up scene: pieces of clothing on a cluttered canvas, some in front of others.
#pragma once

#include <vector>

#include "framework/base/random.h"
#include "framework/data/detection/pictures.h"
#include "framework/data/image/image.h"

namespace attnlab {

struct SceneOptions {
  std::int64_t canvas = 128;
  std::int64_t most = 4;
  double least_scale = 0.8, largest_scale = 2;
  double turn = 30;
  double least_seen = 0.5;
  std::int64_t clutter = 12;

  template <class Visitor>
  constexpr void describe(Visitor& v) {
    v("canvas", canvas, range(32, 2048), "height and width of a scene in pixels");
    v("most", most, range(1, 50), "largest number of pieces of a scene; fewer if they do not fit");
    v("least_scale", least_scale, range(0.2, 50),
      "smallest size of a piece, as a factor of its 28 pixels");
    v("largest_scale", largest_scale, range(0.2, 50), "largest size of a piece, likewise");
    v("turn", turn, range(0, 180), "pieces are rotated by up to this many degrees, either way");
    v("least_seen", least_seen, range(0.05, 1),
      "least share of each piece that others leave visible");
    v("clutter", clutter, range(0, 1000), "bars and patches behind the pieces");
  }
};

/// One piece, and where it stands.
struct Piece {
  std::int64_t image = 0, label = 0;    ///< which image of the split
  double scale = 1, turn = 0;           ///< turn in radians
  double x = 0, y = 0;                  ///< its middle, in pixels of the canvas
  double red = 1, green = 1, blue = 1;  ///< its colour
};

/// Which pieces a scene has, from back to front, and the boxes of what is seen of them.
struct SceneLayout {
  std::vector<Piece> pieces;
  std::vector<ObjectBox> boxes;  ///< one a piece
};

/// @param by_class  images of each class that may be in it; empty for those that may not
SceneLayout lay_out(const SceneOptions& options, const LabelledImages& images,
                    const std::vector<std::vector<std::int64_t>>& by_class, Random& random);

/// @param random  of what lies behind the pieces
Pixels paint(const SceneOptions& options, const LabelledImages& images, const SceneLayout& layout,
             Random& random);

}  // namespace attnlab
