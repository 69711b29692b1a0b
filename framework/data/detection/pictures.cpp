#include "framework/data/detection/pictures.h"

#include <algorithm>

namespace attnlab {

std::string DroppedBoxes::text() const {
  std::string text;
  const auto say = [&](std::int64_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "; without " : ", ") + std::to_string(count) + what;
  };
  say(degenerate, " boxes of no area");
  say(difficult, " difficult boxes");
  say(crowds, " crowds");
  say(other_classes, " boxes of other classes");
  return text;
}

void DroppedBoxes::operator+=(const DroppedBoxes& other) {
  degenerate += other.degenerate;
  difficult += other.difficult;
  crowds += other.crowds;
  other_classes += other.other_classes;
}

void settle_boxes(PictureNotes& picture, const BoxRules& rules, DroppedBoxes& dropped) {
  const auto width = static_cast<double>(picture.width);
  const auto height = static_cast<double>(picture.height);
  std::vector<ObjectBox> kept;
  for (ObjectBox box : picture.objects) {
    box.x0 = std::clamp(box.x0, 0.0, width);
    box.x1 = std::clamp(box.x1, 0.0, width);
    box.y0 = std::clamp(box.y0, 0.0, height);
    box.y1 = std::clamp(box.y1, 0.0, height);
    if (!(box.x1 > box.x0) || !(box.y1 > box.y0)) {
      ++dropped.degenerate;
    } else if (box.kind == BoxKind::difficult && rules.drop_difficult) {
      ++dropped.difficult;
    } else if (box.kind == BoxKind::crowd && rules.drop_crowds) {
      ++dropped.crowds;
    } else {
      kept.push_back(box);
    }
  }
  picture.objects = std::move(kept);
}

}  // namespace attnlab
