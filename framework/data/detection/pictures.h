// Pictures with objects in boxes: what detection datasets read, or make up.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/image/pixels.h"

namespace attnlab {

/// What a box counts as: objects, boxes that are too hard to count, many objects in one box.
enum class BoxKind : std::int64_t { counted = 0, difficult = 1, crowd = 2 };

struct ObjectBox {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;  ///< edges in pixels: x right, y down, from the corner
  std::int64_t label = 0;
  double area = 0;  ///< in pixels, what ranges of area ask for
  BoxKind kind = BoxKind::counted;

  bool operator==(const ObjectBox&) const = default;
};

/// What is said of a picture without looking at it.
struct PictureNotes {
  std::int64_t id = 0;
  std::int64_t height = 0, width = 0;
  std::vector<ObjectBox> objects;
};

/// The pictures of one split. Thread-safe.
class PictureSet {
 public:
  virtual ~PictureSet() = default;

  virtual std::int64_t size() const = 0;
  virtual const PictureNotes& notes(std::int64_t index) const = 0;
  /// Pixels in which a part of the picture lies, and where it lies there; in red, green and blue.
  struct Part {
    Pixels pixels;
    Box box;
  };
  /// @param box            inside the picture
  /// @param height, width  that the part will be resized to: it may come smaller than `box`, never
  ///                       smaller than this
  virtual Part part(std::int64_t index, const Box& box, std::int64_t height,
                    std::int64_t width) const = 0;
};

/// The splits of a dataset, with all that is common to them.
struct PictureSplits {
  std::string name, source;
  std::uint64_t fingerprint = 0;
  std::vector<std::string> class_names;
  std::shared_ptr<const PictureSet> train, validation, test;  ///< null: empty
};

/// How many boxes were dropped while reading, and why.
struct DroppedBoxes {
  std::int64_t degenerate = 0;  ///< no height or no width within the picture
  std::int64_t difficult = 0;   ///< marked so, where the options say that they go
  std::int64_t crowds = 0;
  std::int64_t other_classes = 0;  ///< of classes that the options leave out

  /// "; without 3 boxes of no area, 12 difficult ones", or nothing.
  std::string text() const;
  void operator+=(const DroppedBoxes& other);
};

/// Which boxes are dropped when they are read.
struct BoxRules {
  bool drop_difficult = false, drop_crowds = false;
};

/// Cuts boxes at the edges of their picture and drops what the rules say.
void settle_boxes(PictureNotes& picture, const BoxRules& rules, DroppedBoxes& dropped);

}  // namespace attnlab
