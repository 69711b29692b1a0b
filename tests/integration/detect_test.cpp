// attnlab detect: a detector's boxes on pictures of one's own.
#include <cstring>
#include <limits>

#include "tests/integration/idx_pictures.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::detect_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Detect : public Workspace {
 protected:
  void SetUp() override {
    if (attnlab({"describe", "pictures"}).exit_code != 0) {
      GTEST_SKIP() << "the dataset `pictures` was left out of this build";
    }
    write_idx_pictures(folder_);
    // Two pictures of different sizes.
    must({"data", "show", "tiny.yaml", "--images", "2", "--out", "one.png"});
    must({"data", "show", "tiny.yaml", "--images", "6", "--out", "more/one.png"});
  }

  std::string trained(const std::string& name, const std::string& decoder, const std::string& task,
                      const std::string& one_shot) const {
    folder_.write(name + ".yaml",
                  "schema: 1\nmodel: {use: ia_detr, swin: nano, window: 2, stride: 8, dim: 8, "
                  "heads: 2, hidden: 8, depth: 2, queries: 5, many_queries: 0, bias_hidden: 4, "
                  "decoder: " +
                      decoder + "}\nattention: standard\ntask: " + task +
                      "\ndataset: {use: fashion_scenes, root: idx, train: 8, test: 8, canvas: 32, "
                      "size: 32, prompt_size: 24, largest_scale: 1, one_shot: " +
                      one_shot + "}\ntrain: {epochs: 1, batch_size: 4, workers: 0}\n");
    must({"run", name + ".yaml"});
    return run_folder(name + "/standard");
  }
  json written(const std::string& folder) const {
    return json::parse(file_text(at(folder + "/detections.json")));
  }
};

TEST_F(Detect, DrawsAndWritesWhatItFinds) {
  const std::string run = trained("pairs", "indirect", "one_shot_detection", "true");
  must(
      {"detect", run, "--prompt", "one.png", "--image", "one.png", "more/one.png", "--score", "0"});
  const json record = written("detections");
  EXPECT_EQ(record.at("prompt"), "one.png");
  const json& pictures = record.at("pictures");
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[0].at("drawn"), "one.png");
  EXPECT_EQ(pictures[1].at("drawn"), "one-2.png");
  EXPECT_NE(pictures[0].at("width"), pictures[1].at("width"));
  for (const json& picture : pictures) {
    const json& found = picture.at("found");
    EXPECT_EQ(found.size(), 5U) << "an answer of each query";
    double before = 1;
    for (const json& one : found) {
      const std::vector<double> box = one.at("box");
      EXPECT_GE(box[0], 0);
      EXPECT_GE(box[1], 0);
      EXPECT_LE(box[0], box[2]);
      EXPECT_LE(box[1], box[3]);
      EXPECT_LE(box[2], picture.at("width").get<double>());
      EXPECT_LE(box[3], picture.at("height").get<double>());
      EXPECT_LE(one.at("score").get<double>(), before);
      before = one.at("score");
      EXPECT_EQ(one.count("class"), 0U);
    }
  }
  const std::string drawn = file_text(at("detections/one.png"));
  EXPECT_THAT(drawn, StartsWith("\x89PNG"));
  EXPECT_NE(drawn, file_text(at("one.png")));
  // What nothing reaches is drawn as it was.
  must({"detect", run, "--prompt", "one.png", "--image", "one.png", "--score", "1", "--out",
        "none"});
  EXPECT_EQ(written("none").at("pictures")[0].at("found").size(), 0U);
  EXPECT_EQ(file_text(at("none/one.png")), file_text(at("one.png")));
  must({"detect", run, "--prompt", "one.png", "--image", "one.png", "--score", "0", "--most", "2",
        "--out", "two"});
  EXPECT_EQ(written("two").at("pictures")[0].at("found").size(), 2U);
}

TEST_F(Detect, WritesBoxesInPixelsOfThePicture) {
  const std::string run = trained("pairs", "indirect", "one_shot_detection", "true");
  // The same picture, wider than high, and each of its pixels three times as wide and as high.
  for (const int size : {1, 3}) {
    std::string pixels =
        "P6\n" + std::to_string(40 * size) + " " + std::to_string(24 * size) + "\n255\n";
    for (int y = 0; y < 24 * size; ++y) {
      for (int x = 0; x < 40 * size; ++x) {
        const bool inside = x >= 8 * size && x < 24 * size && y >= 4 * size && y < 20 * size;
        pixels += {char(inside ? 200 : 20), char(x / size * 3), char(y / size * 5)};
      }
    }
    folder_.write("by" + std::to_string(size) + ".ppm", pixels);
  }
  must({"detect", run, "--prompt", "one.png", "--image", "by1.ppm", "by3.ppm", "--score", "0"});
  const json pictures = written("detections").at("pictures");
  ASSERT_EQ(pictures.size(), 2U);
  EXPECT_EQ(pictures[1].at("width"), 120);
  EXPECT_EQ(pictures[1].at("height"), 72);
  const auto boxes_of = [&](std::size_t picture) {
    std::vector<std::vector<double>> boxes;
    for (const json& one : pictures[picture].at("found")) boxes.push_back(one.at("box"));
    return boxes;
  };
  const std::vector<std::vector<double>> small = boxes_of(0), large = boxes_of(1);
  ASSERT_EQ(small.size(), 5U);
  double right = 0, bottom = 0;
  for (const std::vector<double>& box : large) {
    // Its own: resized to one size they differ by what the filter makes of edges, and so may the
    // order of scores.
    double nearest = 1e9;
    for (const std::vector<double>& other : small) {
      double furthest = 0;
      for (std::size_t side = 0; side < 4; ++side) {
        furthest = std::max(furthest, std::abs(box[side] - 3 * other[side]));
      }
      nearest = std::min(nearest, furthest);
    }
    EXPECT_LT(nearest, 2);
    right = std::max(right, box[2]);
    bottom = std::max(bottom, box[3]);
  }
  EXPECT_GT(right, 72) << "cut at the height, not at the width";
  EXPECT_LE(right, 120);
  EXPECT_GT(bottom, 24);
  EXPECT_LE(bottom, 72);
}

TEST_F(Detect, NamesTheClassesOfAClosedSet) {
  const std::string run = trained("closed", "plain", "object_detection", "false");
  must({"detect", run, "--image", "one.png", "--score", "0", "--most", "3"});
  const json found = written("detections").at("pictures")[0].at("found");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FALSE(found[0].at("class").get<std::string>().empty());
  folder_.write("odd\xff.png", file_text(at("one.png")));  // a name that is not UTF-8
  must({"detect", run, "--image", "odd\xff.png", "--out", "odd"});
  EXPECT_EQ(written("odd").at("pictures")[0].at("file"), "odd\xef\xbf\xbd.png");
  EXPECT_THAT(refusal({"detect", run, "--prompt", "one.png", "--image", "one.png"}),
              mentions("--prompt: ", "knows its classes"));
}

TEST_F(Detect, LeavesOutBoxesThatAreNoNumbers) {
  const std::string run = trained("closed", "plain", "object_detection", "false");
  const std::string weights = run + "/checkpoint.safetensors";
  std::string bytes = file_text(weights);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const json bias = json::parse(bytes.substr(sizeof header, header))
                        .at("model.decoder.layer1.heads.box.last.bias");
  const std::vector<float> none(4, std::numeric_limits<float>::quiet_NaN());
  std::memcpy(
      bytes.data() + sizeof header + header + bias.at("data_offsets").at(0).get<std::size_t>(),
      none.data(), none.size() * sizeof(float));
  bytes.replace(bytes.find("\"checksum\""), 10, "\"unsealed\"");  // else it is refused
  write_file(weights, bytes);
  must({"detect", run, "--image", "one.png", "--score", "0"});
  EXPECT_EQ(written("detections").at("pictures")[0].at("found"), json::array());
}

TEST_F(Detect, ShowsTestExamplesOnTheReportsPage) {
  const std::string run = trained("pairs", "indirect", "one_shot_detection", "true");
  must({"show", run, "--examples", "2"});
  const json boxes = json::parse(file_text(run + "/boxes.json")).at("boxes");
  ASSERT_EQ(boxes.size(), 2U);
  for (const json& one : boxes) {
    EXPECT_FALSE(one.at("asked").get<std::string>().empty());
    EXPECT_FALSE(one.at("known").empty()) << "only classes that are there are asked for";
    EXPECT_FALSE(one.at("found").empty());
    EXPECT_EQ(one.at("columns"), 4) << "32 pixels at a stride of 8";
    ASSERT_EQ(one.at("attention").size(), 16U);
    double sum = 0;
    for (const double weight : one.at("attention")) sum += weight;
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  must({"report", "runs/pairs", "--baseline", "standard", "-o", "page.html"});
  const std::string page = file_text(at("page.html"));
  EXPECT_THAT(page, mentions("Boxes", "attention of one query"));
  EXPECT_THAT(page, HasSubstr("pairs, test example 0: "));
}

TEST_F(Detect, NeverDrawsOverAPictureThatItReads) {
  const std::string run = trained("closed", "plain", "object_detection", "false");
  const std::string before = file_text(at("one.png"));
  EXPECT_THAT(refusal({"detect", run, "--image", "one.png", "--out", "."}),
              mentions("--out .: ", "over one.png", "another folder"));
  EXPECT_EQ(file_text(at("one.png")), before);
}

TEST_F(Detect, ShowsTheAttentionOfTheFormThatLooksAtTheImageAlone) {
  const std::string run = trained("crossed", "double_cross", "one_shot_detection", "true");
  must({"show", run, "--examples", "1"});
  const json one = json::parse(file_text(run + "/boxes.json")).at("boxes").at(0);
  EXPECT_EQ(one.at("columns"), 4);
  EXPECT_EQ(one.at("stride"), 8);
  EXPECT_EQ(one.at("attention").size(), 16U);
}

TEST_F(Detect, RefusesWhatDoesNotFit) {
  const std::string run = trained("pairs", "misaligned", "one_shot_detection", "true");
  EXPECT_THAT(refusal({"detect", run, "--image", "one.png"}), HasSubstr("--prompt"));
  EXPECT_THAT(refusal({"detect", run, "--prompt", "one.png"}), HasSubstr("--image"));
  const Words whole = {"detect", run, "--prompt", "one.png", "--image"};
  const auto with = [&](const Words& more) {
    Words words = whole;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(refusal(with({"one.png", "--score", "2"})), HasSubstr("--score: 2"));
  EXPECT_THAT(refusal(with({"one.png", "--most", "0"})), HasSubstr("--most: 0"));
  EXPECT_THAT(attnlab(with({"no.png"})).err, HasSubstr("no.png"));
  EXPECT_THAT(attnlab(with({"pairs.yaml"})).err, mentions("pairs.yaml: ", "not an image"));
  EXPECT_FALSE(exists("detections"));
  must({"run", "tiny.yaml"});
  EXPECT_THAT(refusal({"detect", run_folder("tiny/standard"), "--image", "one.png"}),
              HasSubstr("run of a detector"));
}

}  // namespace
}  // namespace attnlab::testing::detect_test
