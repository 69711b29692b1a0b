// Label maps on the report's page.
#include "framework/report/label_pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/unit/report/kept_pictures.h"

namespace attnlab::label_pictures_test {
namespace {

using attnlab::testing::mentions;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class LabelPictures : public testing::KeptPictures {
 protected:
  LabelPictures() : KeptPictures("streets", "label_maps") {}
  static json picture() {
    return {{"index", 5},
            {"height", 20},
            {"width", 40},
            {"labelled", 600},
            {"wrong", 150},
            {"image", "aW1hZ2U="},
            {"truth", "dHJ1dGg="},
            {"answer", "YW5zd2Vy"},
            {"errors", "ZXJyb3Jz"},
            {"classes",
             {{{"name", "<road>"}, {"colour", "#804080"}, {"true", 0.25}, {"said", 0.75}},
              {{"name", "sky"}, {"colour", "#0b0c0d"}, {"true", 0.5}, {"said", 0.0}}}}};
  }
  std::vector<LabelPicture> found() {
    notes_.clear();
    return label_pictures_of(runs_, notes_);
  }
};

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(LabelPictures, ShowPictureTruthAnswersAndErrors) {
  add_run("quest", 0, nullptr);
  add_run("quest", 1, picture());
  json other = picture();
  other["wrong"] = 60;
  add_run("standard", 0, other);
  const std::vector<LabelPicture> pictures = found();
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_TRUE(notes_.empty());
  const std::string html = label_pictures_html(pictures);
  EXPECT_THAT(html, HasSubstr("streets, test example 5</h3>"));
  EXPECT_EQ(count_of(html, "base64,aW1hZ2U="), 1U) << "the picture is shown once";
  EXPECT_EQ(count_of(html, "base64,dHJ1dGg="), 1U);
  EXPECT_EQ(count_of(html, "base64,YW5zd2Vy"), 2U);
  EXPECT_EQ(count_of(html, "base64,ZXJyb3Jz"), 2U);
  EXPECT_EQ(count_of(html, "<img "), count_of(html, " alt=\"")) << "all have words";
  EXPECT_THAT(html, mentions("alt=\"true classes", "example 5", "sky 50 %, &lt;road&gt; 25 %\""));
  EXPECT_THAT(html, mentions("alt=\"classes by quest", "&lt;road&gt; 75 %\""));
  EXPECT_THAT(html, mentions("alt=\"errors of quest", "75.0 %"));
  EXPECT_THAT(html, HasSubstr("quest, seed 1: 75.0 %"));
  EXPECT_THAT(html, HasSubstr("standard, seed 0: 90.0 %"));
  EXPECT_EQ(count_of(html, "fill=\"#804080\"/></svg>&lt;road&gt;</li>"), 1U);
  EXPECT_THAT(html, Not(HasSubstr("<road>")));
  EXPECT_EQ(label_pictures_html({}), "");
}

TEST_F(LabelPictures, TakePicturesWithoutLabels) {
  json bare = picture();
  bare["labelled"] = bare["wrong"] = 0;
  bare["classes"] = json::array();
  add_run("quest", 0, bare);
  const std::string html = label_pictures_html(found());
  EXPECT_THAT(html, HasSubstr("quest, seed 0: no pixel"));
  EXPECT_THAT(html, mentions("true classes", "example 5: no class"));
}

TEST_F(LabelPictures, OfAnotherFormAreANote) {
  const json foreign = {{{"name", "x"}, {"colour", "red\"/>"}, {"true", 0.5}, {"said", 0.5}}};
  const json beyond = {{{"name", "x"}, {"colour", "#000000"}, {"true", 1.5}, {"said", 0.5}}};
  const std::pair<const char*, json> changes[] = {{"image", "\"/><script>"},
                                                  {"truth", ""},
                                                  {"answer", "a b"},
                                                  {"errors", 7},
                                                  {"height", 0},
                                                  {"width", 1 << 20},
                                                  {"wrong", 601},
                                                  {"wrong", -1},
                                                  {"labelled", 801},
                                                  {"classes", 7},
                                                  {"classes", foreign},
                                                  {"classes", beyond}};
  for (const auto& [name, value] : changes) {
    json bad = picture();
    bad[name] = value;
    runs_.clear();
    add_run("quest", 0, bad);
    EXPECT_TRUE(found().empty()) << name << " " << value;
    ASSERT_EQ(notes_.size(), 1U) << name << " " << value;
    EXPECT_THAT(notes_[0], HasSubstr("label_maps.json cannot be read"));
  }
}

}  // namespace
}  // namespace attnlab::label_pictures_test
