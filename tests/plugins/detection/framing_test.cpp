// What part of a picture is shown, and what becomes of its boxes.
#include "framework/data/detection/framing.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace attnlab::framing_test {
namespace {

using attnlab::testing::says;

PictureNotes picture(std::int64_t height, std::int64_t width) { return {0, height, width, {}}; }

TEST(Framing, ShowsAllInEvaluation) {
  const Framing framing = whole_picture(picture(300, 400), 200);
  EXPECT_EQ(framing.part, (Box{0, 0, 300, 400}));
  EXPECT_EQ(framing.height, 150);
  EXPECT_EQ(framing.width, 200);
}

TEST(Framing, BoxesAreSharesOfWhatIsShown) {
  const std::vector<ObjectBox> boxes = {{100, 60, 200, 160, 3, 10000, BoxKind::difficult}};
  Framing framing{{10, 50, 200, 200}, 100, 100, false};
  const std::vector<ObjectBox> seen = framed_boxes(boxes, framing, 0);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0], (ObjectBox{0.25, 0.25, 0.75, 0.75, 3, 10000, BoxKind::difficult}));
  framing.part.left = 150;  // half of the box is seen, from 0 to a quarter
  framing.flip = true;
  EXPECT_EQ(framed_boxes(boxes, framing, 0.5)[0],
            (ObjectBox{0.75, 0.25, 1, 0.75, 3, 10000, BoxKind::difficult}));
  EXPECT_TRUE(framed_boxes(boxes, framing, 0.51).empty());
}

TEST(Framing, WhatIsSeenAsAWholeCountsAsAWhole) {
  // Shares of the width and back again round for more than a fifth of all whole numbers.
  for (int width = 2; width <= 60; ++width) {
    for (int x0 = 0; x0 < width; ++x0) {
      for (int x1 = x0 + 1; x1 <= width; ++x1) {
        const std::vector<ObjectBox> boxes = {
            {double(x0), 1, double(x1), 4, 0, 1, BoxKind::counted}};
        const Framing framing = whole_picture(picture(7, width), 30);
        ASSERT_EQ(framed_boxes(boxes, framing, 1).size(), 1U) << width << " " << x0 << " " << x1;
      }
    }
  }
  const std::vector<ObjectBox> outside = {{-1, 1, 9, 4, 0, 1, BoxKind::counted}};
  EXPECT_TRUE(framed_boxes(outside, whole_picture(picture(7, 12), 30), 1).empty());
}

TEST(Framing, JitterKeepsSizesAndPartsInBounds) {
  FramingOptions options;
  options.size = 128;
  options.jitter = {0.25, 2};
  options.flip = true;
  Random random(3);
  int flipped = 0, cut = 0;
  for (int i = 0; i < 500; ++i) {
    const PictureNotes notes = picture(90 + i % 7, 333);
    const Framing f = drawn_framing(notes, options, random);
    ASSERT_TRUE(f.height >= 1 && f.width >= 1 && f.height <= 128 && f.width <= 128);
    ASSERT_TRUE(f.part.top >= 0 && f.part.top + f.part.height <= notes.height);
    ASSERT_TRUE(f.part.left >= 0 && f.part.left + f.part.width <= notes.width);
    // The scale is the same both ways, but for whole pixels.
    const double across = double(f.width) / double(f.part.width);
    const double down = double(f.height) / double(f.part.height);
    ASSERT_NEAR(across / down, 1, 0.1);
    flipped += f.flip ? 1 : 0;
    cut += f.part.width < notes.width ? 1 : 0;
  }
  EXPECT_NEAR(flipped, 250, 50);
  EXPECT_NEAR(cut, 500 * 1.0 / 1.75, 50);  // factors above 1
}

TEST(Framing, BoxesAreCutAndCounted) {
  PictureNotes notes = picture(50, 50);
  notes.objects = {{-5, 10, 20, 70, 0, 1, BoxKind::counted},
                   {60, 0, 70, 10, 0, 1, BoxKind::counted},
                   {5, 5, 5, 9, 0, 1, BoxKind::counted},
                   {1, 1, 2, 2, 0, 1, BoxKind::difficult}};
  DroppedBoxes dropped;
  settle_boxes(notes, {.drop_difficult = true}, dropped);
  ASSERT_EQ(notes.objects.size(), 1u);
  EXPECT_EQ(notes.objects[0], (ObjectBox{0, 10, 20, 50, 0, 1, BoxKind::counted}));
  EXPECT_THAT(dropped.text(), says({"2 boxes of no area", "1 difficult boxes"}));
}

}  // namespace
}  // namespace attnlab::framing_test
