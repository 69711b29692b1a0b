// attnlab show of a classifier of images: maps, corrupted and attacked versions, and the report.

#include "tests/integration/workspace.h"

namespace attnlab::testing::show_images_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class ShowImages : public Workspace {
 protected:
  /// A run with evaluations that change images, and some that do not.
  std::string trained(const std::string& attention) const {
    folder_.write("seen.yaml", R"(schema: 1
extends: tiny.yaml
model: {patch_size: 7, depth: 2}
evaluate:
  noisy: {set: {dataset: {noise: 2}}}
  weather: {set: {task: {use: image_corruptions, corruptions: [fog, contrast], severities: [1, 4]}}}
  pgd: {set: {task: {use: image_attack, attack: pgd, eps: 0.1}}}
  occluded: {set: {task: {use: image_occlusion, grid: 4, shares: [0.5]}}}
  explained: {set: {task: {use: image_explanation}}}
)");
    must({"run", "seen.yaml", "attention.use=" + attention});
    return run_folder("seen/" + attention);
  }
  static json kept(const std::string& run) {
    return json::parse(file_text(run + "/images.json")).at("images");
  }
  static std::vector<std::string> names_of(const json& image) {
    std::vector<std::string> names;
    for (const json& version : image.at("versions")) names.push_back(version.at("name"));
    return names;
  }
};

TEST_F(ShowImages, KeepsMapsAndWhatEvaluationsMakeOfAnImage) {
  const std::string run = trained("quest");
  must({"show", run, "--examples", "3"});
  const json images = kept(run);
  ASSERT_EQ(images.size(), 3U);
  EXPECT_EQ(images[1].at("index"), 10) << "32 test images: 0, 10, 21";
  for (const json& image : images) {
    EXPECT_EQ(image.at("height"), 28);
    EXPECT_EQ(image.at("method"), "ag_cam");
    EXPECT_EQ(image.at("columns"), 4);
    ASSERT_EQ(image.at("map").size(), 16U);
    for (const double cell : image.at("map")) EXPECT_GE(cell, 0);
    EXPECT_THAT(names_of(image),
                ElementsAre("clean", "noisy", "fog 4", "contrast 4", "pgd", "occluded"));
    const std::string clean = image.at("versions")[0].at("image");
    for (const json& version : image.at("versions")) {
      EXPECT_THAT(version.at("words").get<std::string>(), MatchesRegex(".+ \\([0-9]+ %\\)"));
      EXPECT_EQ(version.at("image") == clean, version.at("name") == "clean")
          << version.at("name") << " changes the picture";
      const std::string words = version.at("words"), right = image.at("class");
      EXPECT_EQ(version.at("wrong"), words.rfind(right + " ", 0) != 0) << words << right;
    }
  }
}

TEST_F(ShowImages, DrawsWhatTheEvaluationDraws) {
  const std::string run = trained("quest");
  must({"show", run, "--examples", "32"});
  double wrong = 0, clean = 0;
  for (const json& image : kept(run)) {
    for (const json& version : image.at("versions")) {
      if (version.at("name") == "pgd") wrong += version.at("wrong") ? 1 : 0;
      if (version.at("name") == "clean") clean += version.at("wrong") ? 1 : 0;
    }
  }
  const json results = json::parse(must({"eval", run, "pgd", "--json"}).out);
  EXPECT_DOUBLE_EQ(results.at("pgd/accuracy").get<double>(), 1 - wrong / 32);
  EXPECT_DOUBLE_EQ(results.at("pgd/clean_accuracy").get<double>(), 1 - clean / 32);
}

TEST_F(ShowImages, AskForClassesAndForAPartAsNoise) {
  const std::string run = trained("quest");
  must({"show", run, "--examples", "2", "--class", "1", "--class", "3", "--region", "14,0,14,7"});
  for (const json& image : kept(run)) {
    EXPECT_THAT(names_of(image), ::testing::Contains("region"));
    std::vector<std::pair<std::string, std::string>> maps;
    for (const json& map : image.at("more_maps")) {
      maps.emplace_back(map.at("version").get<std::string>(), map.at("of").get<std::string>());
      EXPECT_EQ(map.at("cells").size(), 16U);
    }
    ASSERT_EQ(maps.size(), 5U) << "two of the image, three of the changed one";
    EXPECT_EQ(maps[2].second, "") << "its own answer";
    EXPECT_NE(image.at("more_maps")[0].at("cells"), image.at("more_maps")[1].at("cells"));
    EXPECT_NE(image.at("more_maps")[0].at("cells"), image.at("more_maps")[3].at("cells"));
  }
  must({"report", "runs/seen", "-o", "page.html"});
  EXPECT_THAT(file_text(at("page.html")), mentions("<th>where the model looked for ",
                                                   "<th>region</th><th>where the model looked"));
  const auto refusal = [&](const std::string& option, const std::string& value) {
    const Ended ended = attnlab({"show", run, option, value});
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    return ended.err;
  };
  EXPECT_THAT(refusal("--class", "zebra"), HasSubstr("has no class 'zebra'"));
  EXPECT_THAT(refusal("--region", "1,2,3"), HasSubstr("is not LEFT,TOP,WIDTH,HEIGHT"));
  EXPECT_THAT(refusal("--region", "20,0,9,9"),
              mentions("20,0,9,9", "not within the image", "28 x 28"));
}

TEST_F(ShowImages, StandOnTheReportsPage) {
  for (const char* attention : {"standard", "quest"}) {
    must({"show", trained(attention), "--examples", "2"});
  }
  must({"report", "runs/seen", "--baseline", "standard", "-o", "page.html"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, HasSubstr("changed images"));
  EXPECT_THAT(page, HasSubstr("seen, test image 16: "));
  EXPECT_THAT(
      page, HasSubstr("<th>clean</th><th>where the model looked</th><th>noisy</th><th>fog 4</th>"));
  EXPECT_THAT(page, AllOf(HasSubstr("AG-CAM of standard"), HasSubstr("AG-CAM of quest")));
}

TEST_F(ShowImages, TakeEvaluationsOfAFileAndLeaveOutWhatFails) {
  const std::string run = trained("standard");
  folder_.write("more.yaml", R"(evaluate:
  auto: {set: {task: {use: image_attack, attack: auto, steps: 2, eps: 0.05}}}
  icy: {set: {task: {use: image_corruptions, corruptions: [frost]}}}
  fewer: {set: {dataset: {test: 16}}}
)");
  const Ended ended = must({"show", run, "--examples", "1", "--with", "more.yaml"});
  EXPECT_THAT(names_of(kept(run)[0]), ElementsAre("clean", "auto"));
  EXPECT_THAT(ended.err, mentions("evaluation 'frost 5' is not drawn",
                                  "evaluation 'fewer' is not drawn", "of other test"));
  const Ended refused = attnlab({"show", run, "--with", "none.yaml"});
  EXPECT_EQ(refused.exit_code, 2) << refused.story();
}

TEST_F(ShowImages, NeedNoMap) {
  folder_.write("residual.yaml",
                "schema: 1\nextends: tiny.yaml\nmodel: {use: resnet, depth: 18, stages: 1}\n"
                "train: {epochs: 1}\n");
  must({"run", "residual.yaml"});
  const std::string run = run_folder("residual/standard");
  must({"show", run, "--examples", "1"});
  EXPECT_TRUE(kept(run)[0].at("map").empty());
}

}  // namespace
}  // namespace attnlab::testing::show_images_test
