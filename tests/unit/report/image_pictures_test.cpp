// Images, maps and changed images on the report's page.
#include "framework/report/image_pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/report/kept_pictures.h"

namespace attnlab::image_pictures_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ImagePictures : public testing::KeptPictures {
 protected:
  ImagePictures() : KeptPictures("photos", "images") {}
  static json version(const char* name, const char* image, const char* words, bool wrong) {
    return {{"name", name}, {"image", image}, {"words", words}, {"wrong", wrong}};
  }
  /// A picture of 12 x 8 with a map of 3 x 2 patches.
  static json picture() {
    return {{"index", 7},
            {"height", 8},
            {"width", 12},
            {"class", "<cat>"},
            {"method", "ag_cam"},
            {"columns", 3},
            {"map", {1, 3, 1, 1, 2, 1}},
            {"versions",
             {version("clean", "Y2xlYW4=", "<cat> (83 %)", false),
              version("fog", "Zm9n", "dog (61 %)", true)}}};
  }
  std::vector<ImagePicture> found() {
    notes_.clear();
    return image_pictures_of(runs_, notes_);
  }
};

TEST_F(ImagePictures, AreThoseOfTheFirstSeedThatHasAny) {
  add_run("quest", 0, nullptr);
  add_run("quest", 1, picture());
  add_run("quest", 2, picture());
  add_run("standard", 0, picture());
  const std::vector<ImagePicture> pictures = found();
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].origin.seed, 1);
  EXPECT_EQ(pictures[0].versions.at(1).name, "fog");
  EXPECT_TRUE(pictures[0].versions.at(1).wrong);
  EXPECT_EQ(pictures[1].origin.attention, "standard");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(ImagePictures, StandInATableWithMapsVersionsAndAnswers) {
  add_run("standard", 0, picture());
  json more = picture();
  more["versions"].push_back(version("pgd", "cGdk", "<cat> (51 %)", false));
  add_run("quest", 0, more);
  const std::string html = image_pictures_html(found());
  EXPECT_THAT(html, HasSubstr("photos, test image 7: &lt;cat&gt;</h3>"));
  EXPECT_THAT(html,
              HasSubstr("<th>clean</th><th>where the model looked</th><th>fog</th><th>pgd</th>"));
  EXPECT_THAT(html, HasSubstr("href=\"data:image/png;base64,Zm9n\" width=\"12\" height=\"8\""));
  EXPECT_THAT(html, HasSubstr("<span class=\"wrong\">dog (61 %), wrong</span>"));
  EXPECT_THAT(html, HasSubstr("<span class=\"right\">&lt;cat&gt; (83 %)</span>"));
  EXPECT_THAT(html, HasSubstr("<td class=\"absent\">-</td>")) << "standard has no pgd";
  EXPECT_THAT(html, HasSubstr("quest<br><small>seed 0</small>"));
  EXPECT_THAT(html, Not(HasSubstr("<cat>")));
  EXPECT_EQ(image_pictures_html({}), "");
}

TEST_F(ImagePictures, DrawMapsFromTheirWeakestPatchToTheirStrongest) {
  add_run("quest", 0, picture());
  const std::string html = image_pictures_html(found());
  EXPECT_THAT(html, HasSubstr("AG-CAM"));
  EXPECT_THAT(html, HasSubstr("<rect x=\"4.00\" y=\"0.00\" width=\"4.00\" height=\"4.00\" "
                              "fill-opacity=\"0.85\"/><rect x=\"4.00\" y=\"4.00\" width=\"4.00\" "
                              "height=\"4.00\" fill-opacity=\"0.42\"/></svg>"))
      << "four patches are as weak as the weakest";
  json flat = picture();
  flat["map"] = {2, 2, 2, 2, 2, 2};
  flat["method"] = "rollout";
  runs_.clear();
  add_run("quest", 0, flat);
  EXPECT_THAT(image_pictures_html(found()), Not(HasSubstr("<rect")));
  EXPECT_THAT(image_pictures_html(found()), HasSubstr("attention rollout"));
  json none = picture();
  none["map"] = json::array();
  runs_.clear();
  add_run("quest", 0, none);
  EXPECT_THAT(image_pictures_html(found()), HasSubstr("no map"));
}

TEST_F(ImagePictures, DrawMapsOfClassesBehindTheVersionThatTheyAreOf) {
  json more = picture();
  more["more_maps"] = {{{"version", "clean"}, {"of", "<dog>"}, {"cells", {1, 1, 1, 1, 1, 2}}},
                       {{"version", "fog"}, {"of", ""}, {"cells", {5, 1, 1, 1, 1, 1}}}};
  add_run("quest", 0, more);
  add_run("standard", 0, picture());
  const std::string html = image_pictures_html(found());
  EXPECT_THAT(html,
              HasSubstr("<th>clean</th><th>where the model looked</th><th>where the model looked "
                        "for &lt;dog&gt;</th><th>fog</th><th>where the model looked</th>"));
  EXPECT_THAT(html, HasSubstr("AG-CAM, class &lt;dog&gt;"));
  EXPECT_THAT(html, HasSubstr("<rect x=\"8.00\" y=\"4.00\" width=\"4.00\" height=\"4.00\" "
                              "fill-opacity=\"0.85\"/></svg>"));
  EXPECT_THAT(html, HasSubstr("href=\"data:image/png;base64,Zm9n\" width=\"12\" height=\"8\"/>"
                              "<rect x=\"0.00\" y=\"0.00\""))
      << "over the changed image";
  EXPECT_THAT(html, HasSubstr("<td class=\"absent\">-</td>")) << "standard has none";
}

TEST_F(ImagePictures, OfAnotherFormAreANote) {
  const std::pair<const char*, json> changes[] = {
      {"height", 0},
      {"width", 1000000},
      {"columns", 0},
      {"columns", 4},
      {"map", "much"},
      {"more_maps", {{{"version", "clean"}, {"of", ""}, {"cells", {1, 2}}}}},
      {"versions", json::array()},
      {"versions", {{{"name", "clean"}}}},
      {"versions", {version("clean", "\"/><script>", "cat", false)}}};
  for (const auto& [name, value] : changes) {
    json bad = picture();
    bad[name] = value;
    runs_.clear();
    add_run("quest", 0, bad);
    EXPECT_TRUE(found().empty()) << name;
    ASSERT_EQ(notes_.size(), 1U) << name;
    EXPECT_THAT(notes_[0], HasSubstr("images.json cannot be read"));
  }
}

}  // namespace
}  // namespace attnlab::image_pictures_test
