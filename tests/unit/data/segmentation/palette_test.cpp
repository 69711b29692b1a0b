// Colours of classes.
#include "framework/data/segmentation/palette.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace attnlab::palette_test {
namespace {

using ::testing::ElementsAre;

TEST(Palette, HasVocsColours) {
  EXPECT_THAT(voc_colour(0), ElementsAre(0, 0, 0));
  EXPECT_THAT(voc_colour(1), ElementsAre(128, 0, 0));        // aeroplane
  EXPECT_THAT(voc_colour(2), ElementsAre(0, 128, 0));        // bicycle
  EXPECT_THAT(voc_colour(15), ElementsAre(192, 128, 128));   // person
  EXPECT_THAT(voc_colour(20), ElementsAre(0, 64, 128));      // tvmonitor
  EXPECT_THAT(voc_colour(255), ElementsAre(224, 224, 192));  // no label
}

TEST(Palette, IsTheDatasetsOwnWhereThatHasOne) {
  const std::vector<std::string> eleven(11, "class");
  EXPECT_THAT(class_colours("camvid", eleven).at(3), ElementsAre(128, 64, 128)) << "road";
  EXPECT_THAT(class_colours("cityscapes", std::vector<std::string>(19, "class")).at(13),
              ElementsAre(0, 0, 142))
      << "car";
  // Of another number of classes they are not those.
  EXPECT_THAT(class_colours("camvid", {"road", "sky"}), ElementsAre(voc_colour(1), voc_colour(2)));
}

TEST(Palette, OfOtherDatasetsIsVocs) {
  EXPECT_THAT(class_colours("mine", {"road", "sky"}), ElementsAre(voc_colour(1), voc_colour(2)));
  EXPECT_THAT(class_colours("mine", {"background", "disc"}),
              ElementsAre(voc_colour(0), voc_colour(1)));
  const std::vector<ClassColour> many = class_colours("ade20k", std::vector<std::string>(150, "x"));
  EXPECT_EQ(std::set<ClassColour>(many.begin(), many.end()).size(), 150U) << "all differ";
  EXPECT_TRUE(class_colours("mine", {}).empty());
}

}  // namespace
}  // namespace attnlab::palette_test
