// Boxes on the report's page.
#include "framework/report/box_pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/unit/report/kept_pictures.h"

namespace attnlab::box_pictures_test {
namespace {

using attnlab::testing::mentions;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class BoxPictures : public testing::KeptPictures {
 protected:
  BoxPictures() : KeptPictures("scenes", "boxes") {}
  /// A picture of 40 x 20 with a grid of 3 x 1 cells of 16 pixels, of which the third is padding
  /// but for its first 8 columns.
  static json picture() {
    return {{"index", 5},
            {"height", 20},
            {"width", 40},
            {"image", "aGFsbG8="},
            {"prompt", "cHJvbXB0"},
            {"asked", "<shirt>"},
            {"known", {{{"box", {1, 2, 11, 12}}, {"words", "<shirt>"}}}},
            {"found", {{{"box", {3, 4, 23, 14}}, {"words", "0.91"}}}},
            {"attention", {0.1, 0.4, 0.2, 0.0, 0.0, 0.3}},
            {"columns", 3},
            {"stride", 16}};
  }
  std::vector<BoxPicture> found() {
    notes_.clear();
    return box_pictures_of(runs_, notes_);
  }
};

TEST_F(BoxPictures, AreThoseOfTheFirstSeedThatHasAny) {
  add_run("quest", 0, nullptr);
  add_run("quest", 1, picture());
  add_run("quest", 2, picture());
  add_run("standard", 0, picture());
  const std::vector<BoxPicture> pictures = found();
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].origin.seed, 1);
  EXPECT_EQ(pictures[0].known.at(0).edges[2], 11);
  EXPECT_EQ(pictures[1].origin.attention, "standard");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(BoxPictures, ShowBoxesScoresPromptAndAttention) {
  add_run("quest", 0, picture());
  const std::string html = box_pictures_html(found());
  EXPECT_THAT(html, HasSubstr("scenes, test example 5: &lt;shirt&gt;</h3>"));
  EXPECT_THAT(html, HasSubstr("src=\"data:image/png;base64,cHJvbXB0\""));
  EXPECT_THAT(html, HasSubstr("<rect class=\"true\" x=\"1.0\" y=\"2.0\" width=\"10.0\""));
  EXPECT_THAT(html, HasSubstr("<rect class=\"found\" x=\"3.0\" y=\"4.0\" width=\"20.0\""));
  EXPECT_THAT(html, HasSubstr(">0.91</text>"));
  EXPECT_THAT(html, HasSubstr("<rect class=\"cell\" x=\"16\" y=\"0\" width=\"16\" height=\"16\" "
                              "fill-opacity=\"0.80\"/>"));
  EXPECT_THAT(html, HasSubstr("<rect class=\"cell\" x=\"32\" y=\"16\""));
  EXPECT_THAT(html, mentions("quest, seed 0:", "1 boxes found", "1 true", "0.4"));
  EXPECT_THAT(html, Not(HasSubstr("<shirt>")));
  json plain = picture();
  plain["attention"] = json::array();
  plain["prompt"] = "";
  runs_.clear();
  add_run("standard", 0, plain);
  EXPECT_THAT(box_pictures_html(found()), Not(HasSubstr("class=\"cell\"")));
  EXPECT_EQ(box_pictures_html({}), "");
}

TEST_F(BoxPictures, OfAnotherFormAreANote) {
  const std::pair<const char*, json> changes[] = {
      {"image", "\"/><script>"}, {"image", ""},        {"prompt", "a b"}, {"height", 0},
      {"width", 1000000},        {"columns", 0},       {"stride", 0},     {"known", 7},
      {"found", {{1, 2}}},       {"attention", "much"}};
  for (const auto& [name, value] : changes) {
    json bad = picture();
    bad[name] = value;
    runs_.clear();
    add_run("quest", 0, bad);
    EXPECT_TRUE(found().empty()) << name;
    ASSERT_EQ(notes_.size(), 1U) << name;
    EXPECT_THAT(notes_[0], HasSubstr("boxes.json cannot be read"));
  }
}

}  // namespace
}  // namespace attnlab::box_pictures_test
