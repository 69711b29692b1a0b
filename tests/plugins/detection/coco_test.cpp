// COCO's file: what is kept of it, in which order, and what is refused.
#include "framework/data/detection/coco_file.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "framework/base/files.h"
#include "tests/plugins/detection/small_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::coco_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

// Sections in another order than published, a mask of polygons and one of counts, unknown keys.
constexpr const char* kInstances = R"({
  "info": {"year": 2017, "id": 9},
  "annotations": [
    {"id": 1, "image_id": 7, "category_id": 18, "bbox": [10.5, 4, 20, 10], "area": 120.5,
     "iscrowd": 0, "segmentation": [[1, 2, 3, 4], [5, 6]]},
    {"id": 2, "image_id": 3, "category_id": 1, "bbox": [0, 0, 60, 40], "area": 2400, "iscrowd": 1,
     "segmentation": {"counts": [1, 2], "size": [40, 60], "area": 5}},
    {"id": 3, "image_id": 3, "category_id": 18, "bbox": [1, 1, 0, 5], "area": 0, "iscrowd": 0}],
  "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 1, "name": "person"}],
  "images": [{"id": 7, "file_name": "7.jpg", "height": 40, "width": 60, "license": 3},
             {"id": 3, "file_name": "3.jpg", "height": 40, "width": 60}]
})";

class Coco : public ::testing::Test {
 protected:
  std::string refusal(const std::string& text) const {
    const std::string path = folder_.write("bad.json", text);
    return message_of<DataError>([&] { read_coco(path, {}); });
  }
  void write_sets() const {
    for (const std::string set : {"train2017", "val2017"}) {
      folder_.write("annotations/instances_" + set + ".json", kInstances);
      for (const std::string name : {"3", "7"}) {
        folder_.write(set + "/" + name + ".jpg", testing::jpeg_of(testing::photograph(40, 60)));
      }
    }
  }
  testing::TempFolder folder_;
};

TEST_F(Coco, TrainsOnNoSetThatIsAskedForLater) {
  write_sets();
  const auto refusal = [&](const std::string& sets) {
    return message_of<ConfigError>([&] {
      testing::make_dataset("coco", "{root: " + folder_.path() + ", size: 48, " + sets + "}");
    });
  };
  EXPECT_THAT(refusal("validation_set: train2017"),
              HasSubstr("train_set: train2017 is validation_set, too"));
  EXPECT_THAT(refusal("test_set: train2017"), HasSubstr("train_set: train2017 is test_set, too"));
}

TEST_F(Coco, KeepsPicturesAndBoxes) {
  const CocoFile file = read_coco(folder_.write("a.json", kInstances), {});
  EXPECT_THAT(file.class_names, ElementsAre("person", "dog"));
  EXPECT_THAT(file.files, ElementsAre("3.jpg", "7.jpg"));
  ASSERT_EQ(file.pictures.size(), 2u);
  EXPECT_EQ(file.pictures[0].id, 3);
  EXPECT_THAT(file.pictures[0].objects,
              ElementsAre(ObjectBox{0, 0, 60, 40, 0, 2400, BoxKind::crowd}));
  EXPECT_THAT(file.pictures[1].objects,
              ElementsAre(ObjectBox{10.5, 4, 30.5, 14, 1, 120.5, BoxKind::counted}));
  EXPECT_EQ(file.dropped.degenerate, 1);
}

TEST_F(Coco, MayHaveAByteOrderMark) {
  const CocoFile plain = read_coco(folder_.write("a.json", kInstances), {});
  const CocoFile with_mark = read_coco(folder_.write("a.json", testing::marked(kInstances)), {});
  EXPECT_EQ(with_mark.files, plain.files);
  EXPECT_EQ(with_mark.fingerprint, plain.fingerprint);
  EXPECT_THAT(refusal(testing::utf16(kInstances)), mentions("bad.json:", "UTF-16", "convert"));
}

TEST_F(Coco, KnowsEachKeyByItsObjectWhateverStandsBeside) {
  const CocoFile file = read_coco(folder_.write("a.json", R"({
    "info": {"name": "all", "file_name": "no", "images": {"id": 8}, "categories": [{"id": 9}]},
    "licenses": [{"id": 5, "name": "CC", "bbox": [1, 2, 3, 4]}],
    "categories": [{"id": 1, "name": "thing", "file_name": "thing.svg", "supercategory": null},
                   {"file_name": "b.svg", "name": "other", "id": 2, "keypoints": ["name", "id"]}],
    "images": [{"id": 0, "file_name": "0.png", "height": 40, "width": 60, "name": "picture 0",
                "bbox": [1, 2], "attributes": {"id": 7, "file_name": "x", "height": 1}},
               {"name": "picture 1", "width": 60, "height": 40, "file_name": "1.png", "id": 1}],
    "annotations": [{"attributes": {"bbox": [9, 9], "id": 4, "image_id": 1, "occluded": false},
                     "bbox": [1, 2, 3, 4], "name": "me", "file_name": "mine", "image_id": 0,
                     "category_id": 2, "area": null, "iscrowd": null, "id": 1, "score": "0.5",
                     "track": {"bbox": [0, 0, 1, 1], "area": 3, "iscrowd": 1}}]})"),
                                  {});
  EXPECT_THAT(file.class_names, ElementsAre("thing", "other"));
  EXPECT_THAT(file.files, ElementsAre("0.png", "1.png"));
  EXPECT_THAT(file.pictures[0].objects,
              ElementsAre(ObjectBox{1, 2, 4, 6, 1, 12, BoxKind::counted}));
}

TEST_F(Coco, TakesNoTextOrListForANumber) {
  const auto annotation = [&](const std::string& text) {
    return refusal(R"({"annotations": [{"image_id": 1, "category_id": 1, )" + text + "}]}");
  };
  for (const char* bbox : {"[null, 1, 2, 3, 4]", R"(["0", 1, 2, 3, 4])", "[[0, 1], 1, 2, 3, 4]",
                           "[{}, 1, 2, 3, 4]", "[true, 1, 2, 3, 4]", R"([1, 2, 3, "4"])",
                           R"({"x": 1, "y": 2, "width": 3, "height": 4})"}) {
    EXPECT_THAT(annotation(std::string(R"("bbox": )") + bbox),
                mentions("number 1 of annotations", "bbox"))
        << bbox;
  }
  EXPECT_THAT(annotation(R"("bbox": [1, 2, 3, 4], "iscrowd": "1")"),
              mentions("number 1 of annotations", R"('iscrowd' is the text "1")"));
  EXPECT_THAT(annotation(R"("bbox": [1, 2, 3, 4], "area": "12")"), HasSubstr("'area' is the text"));
  EXPECT_THAT(refusal(R"({"categories": [{"id": 3, "file_name": "a.svg"}]})"),
              HasSubstr("category 3 has no name"));
  EXPECT_THAT(refusal(R"({"images": [{"id": 4, "name": "b", "height": 3, "width": 5}]})"),
              HasSubstr("image 4 has no file_name"));
}

TEST_F(Coco, NamesFileAndPlaceOfWhatIsWrong) {
  EXPECT_THAT(refusal(R"({"images": [)"), HasSubstr("bad.json: byte"));
  EXPECT_THAT(refusal("{}"), HasSubstr("no images or no categories"));
  EXPECT_THAT(refusal(R"({"annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 2]}]})"),
              mentions("number 1 of annotations", "bbox"));
  EXPECT_THAT(refusal(R"({"images": [{"id": 1, "height": 4}]})"),
              mentions("number 1 of images", "'width'"));
  EXPECT_THAT(refusal(R"({"images": [{"id": 4, "file_name": "b", "height": -3, "width": 5}]})"),
              HasSubstr("image 4 has -3 x 5 pixels"));
  EXPECT_THAT(refusal(R"({"categories": [{"id": 1, "name": "a"}],
                          "images": [{"id": 1, "file_name": "b", "height": 4, "width": 4}],
                          "annotations": [{"image_id": 2, "category_id": 1,
                                           "bbox": [0, 0, 1, 1]}]})"),
              mentions("image 2", "not in the file"));
  EXPECT_THAT(refusal(R"({"categories": [{"id": 1, "name": "a"}],
                          "images": [{"id": 5, "file_name": "b", "height": 4, "width": 4},
                                     {"id": 1, "file_name": "c", "height": 4, "width": 4},
                                     {"id": 5, "file_name": "d", "height": 4, "width": 4}]})"),
              mentions("bad.json:", "'b' and 'd'", "one id, 5"));
  EXPECT_THAT(refusal(R"({"categories": [{"id": 1, "name": "a"}],
                          "images": [{"id": 5, "file_name": "b", "height": 4, "width": 4},
                                     {"id": 1, "file_name": "b", "height": 4, "width": 4}]})"),
              mentions("bad.json:", "the file 'b'", "twice"));
  EXPECT_THAT(refusal(R"({"images": [{"id": 1e300, "file_name": "b", "height": 4, "width": 5}]})"),
              mentions("number 1 of images", "'id' is 1e+300"));
  EXPECT_THAT(refusal(R"({"annotations": [{"image_id": 1.5, "category_id": 1,
                                           "bbox": [0, 0, 1, 1]}]})"),
              HasSubstr("'image_id' is 1.5, no whole number"));
  EXPECT_THAT(refusal(R"({"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]})"),
              HasSubstr("two categories have the id 1"));
}

/// The most memory that this process has held so far, in megabytes.
long most_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

TEST_F(Coco, NeedsLittleMemoryWhateverTheMasks) {
  constexpr long kFile = 96;  // megabytes
  const std::string path = folder_ / "large.json";
  {
    std::ofstream file(path);
    file << R"({"images": [{"id": 1, "file_name": "b", "height": 9, "width": 9}],
                "categories": [{"id": 1, "name": "a"}], "annotations": [
                {"image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "segmentation": [)";
    while (file.tellp() < kFile << 20) file << "[310.25, 22.5, 311.75, 24.125], ";
    file << "[1]]}]}";
  }
  // In a process of its own, which ends with the megabytes that reading took.
  const auto cost = [](const auto& read) {
    const long before = most_megabytes();
    ::_exit(read() ? int(std::min(most_megabytes() - before, 254L)) : 255);
  };
  const auto boxes = [&] { return read_coco(path, {}).pictures.at(0).objects.size() == 1; };
  const auto text = [&] { return !read_text(path).empty(); };
  const auto little = [](int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) < kFile / 4;
  };
  const auto whole = [](int status) {
    return WIFEXITED(status) && WEXITSTATUS(status) >= kFile && WEXITSTATUS(status) < 255;
  };
  EXPECT_EXIT(cost(boxes), little, "");
  EXPECT_EXIT(cost(text), whole, "") << "what reading the whole file costs is not seen";
}

TEST_F(Coco, KeepsTheContract) {
  write_sets();
  const auto outcomes = testing::expect_contract_kept(
      "coco", "{root: " + folder_.path() + ", size: 48, jitter: [0.5, 2], flip: true}");
  // Its source goes on behind the folder: a box of no area is left out.
  EXPECT_EQ(outcomes.at("damage"), conformance::Outcome::passed);
}

TEST_F(Coco, LacksAnnotationsThatAreThereGzippedAlone) {
  write_sets();
  const std::string path = folder_ / "annotations/instances_val2017.json";
  std::filesystem::rename(path, path + ".gz");
  EXPECT_THAT(message_of<DataMissingError>([&] {
                testing::make_dataset("coco", "{root: " + folder_.path() + ", size: 60}");
              }),
              HasSubstr("lacks annotations/instances_val2017.json (unpack "
                        "annotations/instances_val2017.json.gz)"));
}

TEST_F(Coco, IsADatasetOfItsPictures) {
  write_sets();
  const auto dataset = testing::make_dataset("coco", "{root: " + folder_.path() + ", size: 60}");
  EXPECT_EQ(dataset->size(Split::train), 2);
  const NamedTensors example = dataset->example(Split::test, 1, nullptr);
  EXPECT_EQ(example.at("image_id").item<std::int64_t>(), 7);
  EXPECT_TRUE(at::allclose(example.at("box@box"),
                           at::tensor({10.5f / 60, 0.1f, 30.5f / 60, 0.35f}).view({1, 4})));
}

}  // namespace
}  // namespace attnlab::coco_test
