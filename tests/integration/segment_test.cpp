// attnlab segment: classes of a picture of one's own; attnlab show and report of segmentation.
#include "tests/integration/workspace.h"

namespace attnlab::testing::segment_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Segment : public Workspace {
 protected:
  void SetUp() override {
    if (attnlab({"describe", "pictures"}).exit_code != 0) {
      GTEST_SKIP() << "the dataset `pictures` was left out of this build";
    }
    folder_.write("scenes.yaml",
                  "schema: 1\nmodel: {use: segmenter, dim: 8, depth: 1, heads: 2, patch_size: 4, "
                  "decoder: linear}\nattention: standard\ntask: semantic_segmentation\n"
                  "dataset: {use: painted_scenes, train: 8, test: 8, size: 16}\n"
                  "train: {epochs: 1, batch_size: 4, workers: 0}\n");
    must({"run", "scenes.yaml"});
    run_ = run_folder("scenes/standard");
    std::string pixels = "P6\n44 30\n255\n";  // no size that the model has seen
    for (int i = 0; i < 44 * 30; ++i) pixels += {char(i % 256), char(i / 6), char(i * 7 % 256)};
    folder_.write("one.ppm", pixels);
  }
  std::string run_;
};

TEST_F(Segment, PaintsAPictureOfAnySizeAndTheReportShowsTestPictures) {
  EXPECT_THAT(must({"segment", run_, "--image", "one.ppm"}).out,
              AllOf(StartsWith("one-classes.png\n"), HasSubstr(" %  ")));
  EXPECT_THAT(file_text(at("one-classes.png")), StartsWith("\x89PNG"));
  must({"segment", run_, "--image", "one.ppm", "--out", "more/again.png"});
  EXPECT_EQ(file_text(at("more/again.png")), file_text(at("one-classes.png")));

  must({"show", run_, "--examples", "2"});
  const json kept = json::parse(file_text(run_ + "/label_maps.json")).at("label_maps");
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[1].at("index"), 4) << "equally far apart in the test split";
  must({"report", "runs/scenes", "--baseline", "standard", "-o", "page.html"});
  EXPECT_THAT(file_text(at("page.html")),
              mentions("Label maps", "scenes, test example 4</h3>", "alt=\"classes by standard: "));
}

TEST_F(Segment, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal({"segment", run_}), HasSubstr("--image is missing"));
  EXPECT_THAT(attnlab({"segment", run_, "--image", "no.png"}).err, HasSubstr("no.png"));
  EXPECT_THAT(attnlab({"segment", run_, "--image", "scenes.yaml"}).err,
              mentions("scenes.yaml: ", "not an image"));
  EXPECT_THAT(refusal({"segment", run_, "--image", "one.ppm", "--out", "one.ppm"}),
              mentions("--out one.ppm: ", "over one.ppm", "another name"));
  must({"run", "tiny.yaml"});
  EXPECT_THAT(
      refusal({"segment", run_folder("tiny/standard"), "--image", "one.ppm"}),
      AllOf(HasSubstr("its task is 'image_classification'"), HasSubstr("run of segmentation")));
}

}  // namespace
}  // namespace attnlab::testing::segment_test
