// Datasets of pictures with label maps in the published layouts: which pictures, which classes, and
// what is refused.
#include <filesystem>
#include <set>

#include "tests/plugins/dense/label_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::label_layouts_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::numbers_png;
using testing::striped;

class LabelLayouts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::is_installed(Kind::dataset, "ade20k")) {
      GTEST_SKIP() << "the datasets of pictures are left out of this build";
    }
  }
  std::string options(const std::string& more) const {
    return "{root: " + folder_.path() + more + "}";
  }
  std::shared_ptr<Dataset> open(const std::string& id, const std::string& more = "") const {
    return testing::make_dataset(id, options(more));
  }
  std::string refusal(const std::string& id, const std::string& more = "") const {
    return message_of<Error>([&] { open(id, more); });
  }
  static std::set<std::int64_t> labels_of(const Dataset& dataset, Split split) {
    std::set<std::int64_t> found;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      const Tensor labels = dataset.example(split, i, nullptr).at("label_map").contiguous();
      const auto* begin = labels.data_ptr<std::int64_t>();
      found.insert(begin, begin + labels.numel());
    }
    return found;
  }

  testing::TempFolder folder_;
};

TEST_F(LabelLayouts, OfAde20k) {
  testing::write_small_ade(folder_);
  const auto dataset = open("ade20k", ", absent: keep");
  EXPECT_EQ(dataset->info().classes, 150);
  EXPECT_EQ(dataset->info().class_names[149], "class 150");
  EXPECT_EQ(dataset->size(Split::train), 2);
  EXPECT_EQ(dataset->size(Split::validation), 0);
  EXPECT_EQ(dataset->size(Split::test), 1);
  EXPECT_THAT(labels_of(*dataset, Split::train), ElementsAre(-1, 0, 1, 149));
  const NamedTensors example = dataset->example(Split::test, 0, nullptr);
  EXPECT_EQ(example.at("image").sizes(), (at::IntArrayRef{3, 20, 24}));
  EXPECT_EQ(example.at("label_map").sizes(), (at::IntArrayRef{20, 24}));
  EXPECT_EQ(dataset->info().field("label_map").categories, 150);
}

TEST_F(LabelLayouts, OfAde20kHaveTheNamesOfItsTable) {
  testing::write_small_ade(folder_);
  std::string table = "Idx\tRatio\tTrain\tVal\tName\n", comma = "Idx,Ratio,Train,Val,Stuff,Name\n";
  for (int k = 1; k <= 150; ++k) {
    const std::string name = k == 2 || k == 9 ? "screen" : "thing" + std::to_string(k);
    table += std::to_string(k) + "\t0.1\t2\t3\t" + name + ", other word\n";
    comma += std::to_string(k) + ",0.1,2,3,1," + name + ";other word\n";
  }
  for (const auto& [file, text] :
       {std::pair{"objectInfo150.csv", comma}, {"objectInfo150.txt", table}}) {
    folder_.write(file, text);
    const auto dataset = open("ade20k", ", absent: keep");
    EXPECT_EQ(dataset->info().class_names[0], "thing1");
    EXPECT_EQ(dataset->info().class_names[1], "screen");
    EXPECT_EQ(dataset->info().class_names[8], "screen 9") << "two of one name are told apart";
  }
  folder_.write("objectInfo150.txt", "Idx\tName\n1\twall\n");
  EXPECT_THAT(refusal("ade20k", ", absent: keep"),
              AllOf(HasSubstr("objectInfo150.txt: has 2 lines"), HasSubstr("150 classes")));
}

TEST_F(LabelLayouts, OfCamvid) {
  testing::write_small_camvid(folder_);
  const auto dataset = open("camvid");
  EXPECT_EQ(dataset->info().class_names.front(), "sky");
  EXPECT_EQ(dataset->info().class_names.back(), "bicyclist");
  EXPECT_EQ(dataset->size(Split::train), 2);
  EXPECT_EQ(dataset->size(Split::validation), 1);
  EXPECT_EQ(dataset->size(Split::test), 1);
  EXPECT_THAT(labels_of(*dataset, Split::test), ElementsAre(-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(open("camvid", ", validation_set: '', test_set: val")->size(Split::test), 1);
}

TEST_F(LabelLayouts, OfVoc) {
  testing::write_small_voc_labels(folder_, "VOC2012/");
  const auto dataset = open("voc_segmentation", ", absent: keep");
  EXPECT_EQ(dataset->info().classes, 21);
  EXPECT_EQ(dataset->size(Split::train), 2);
  EXPECT_THAT(labels_of(*dataset, Split::train), ElementsAre(0, 1, 2, 3, 4));
  // The same label maps as colours.
  const auto palette = testing::voc_palette();
  std::vector<std::uint8_t> colours;
  for (const std::uint8_t number : striped(16, 20, {0, 1, 2, 3, 4})) {
    colours.insert(colours.end(), palette.begin() + 3 * number, palette.begin() + 3 * number + 3);
  }
  testing::NumbersForm form;
  form.coloured = true;
  folder_.write("VOC2012/SegmentationClass/b1.png", numbers_png(16, 20, colours, form));
  EXPECT_TRUE(open("voc_segmentation", ", absent: keep")
                  ->example(Split::test, 0, nullptr)
                  .at("label_map")
                  .equal(dataset->example(Split::test, 0, nullptr).at("label_map")));
}

TEST_F(LabelLayouts, OfVocWithoutAFolderOfAYear) {
  testing::write_small_voc_labels(folder_);
  EXPECT_EQ(open("voc_segmentation", ", absent: keep, train_set: train, test_set: val")
                ->size(Split::train),
            2);
}

TEST_F(LabelLayouts, OfCityscapes) {
  testing::write_small_cityscapes(folder_);
  const auto dataset = open("cityscapes", ", absent: keep");
  EXPECT_EQ(dataset->info().classes, 19);
  EXPECT_EQ(dataset->info().class_names[18], "bicycle");
  EXPECT_EQ(dataset->size(Split::train), 2);
  // 7 road, 8 sidewalk, 33 bicycle; 3 and 255 are not classes.
  EXPECT_THAT(labels_of(*dataset, Split::test), ElementsAre(-1, 0, 1, 18));
}

TEST_F(LabelLayouts, KeepTheContract) {
  testing::write_small_camvid(folder_);
  const auto outcomes = testing::expect_contract_kept(
      "camvid", options(", crop: 8, ratio: [0.8, 1.5], flip: true, photometric: true"));
  EXPECT_EQ(outcomes.at("damage"), conformance::Outcome::passed);
}

TEST_F(LabelLayouts, HaveAnotherFingerprintWhenAPixelChanges) {
  testing::write_small_camvid(folder_);
  const std::string before = open("camvid")->info().fingerprint;
  EXPECT_EQ(open("camvid", ", flip: true")->info().fingerprint, before) << "of training alone";
  folder_.write("testannot/f0.png",
                numbers_png(12, 24, striped(12, 24, {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})));
  EXPECT_NE(open("camvid")->info().fingerprint, before);
}

// --- bad input ----------------------------------------------------------------------------------

TEST_F(LabelLayouts, RefuseANumberThatIsNoClass) {
  testing::write_small_camvid(folder_);
  folder_.write("trainannot/f1.png", numbers_png(12, 24, striped(12, 24, {0, 12})));
  EXPECT_THAT(refusal("camvid"),
              AllOf(HasSubstr("trainannot/f1.png: row 0, column 12"), HasSubstr("number 12 is"),
                    HasSubstr("0 to 10 and, for no label, 11")));
}

TEST_F(LabelLayouts, RefuseALabelMapOfAnotherSize) {
  testing::write_small_camvid(folder_);
  folder_.write("valannot/f0.png", numbers_png(6, 12, striped(6, 12, {0, 1})));
  EXPECT_THAT(refusal("camvid"),
              AllOf(HasSubstr("valannot/f0.png: has 6 x 12 pixels"), HasSubstr("val/f0.png"),
                    HasSubstr("12 x 24"), HasSubstr("must have its picture's size")));
}

TEST_F(LabelLayouts, RefuseAPaletteWhoseIndicesAreWrong) {
  testing::write_small_voc_labels(folder_);
  testing::NumbersForm form;
  form.palette = {128, 0, 0, 0, 0, 0};  // an aeroplane's colour first
  folder_.write("SegmentationClass/a2.png", numbers_png(16, 20, striped(16, 20, {0, 1}), form));
  const std::string sets = ", absent: keep, train_set: train, test_set: val";
  EXPECT_THAT(refusal("voc_segmentation", sets),
              AllOf(HasSubstr("SegmentationClass/a2.png"), HasSubstr("number 0"),
                    HasSubstr("class 'aeroplane'"), HasSubstr("save it")));
  folder_.write("SegmentationClass/a2.png",
                numbers_png(16, 20, striped(16, 20, {0, 200}), {.palette = form.palette}));
  EXPECT_THAT(refusal("voc_segmentation", sets), HasSubstr("number 200 of a palette of 2"));
}

TEST_F(LabelLayouts, RefuseAPictureWithoutLabelsAndLabelsWithoutAPicture) {
  testing::write_small_ade(folder_);
  const std::string label = "annotations/training/ADE_train_2.png";
  std::filesystem::remove(folder_ / label);
  EXPECT_THAT(refusal("ade20k", ", absent: keep"),
              AllOf(HasSubstr("images/training/ADE_train_2.jpg"), HasSubstr(label),
                    HasSubstr("put it there")));
  std::filesystem::remove(folder_ / "images/training/ADE_train_2.jpg");
  EXPECT_EQ(open("ade20k", ", absent: keep")->size(Split::train), 1);
  folder_.write(label, numbers_png(20, 24, striped(20, 24, {1, 2})));
  EXPECT_THAT(refusal("ade20k", ", absent: keep"), AllOf(HasSubstr(label), HasSubstr("no picture"),
                                                         HasSubstr("take the label map out")));
}

TEST_F(LabelLayouts, NameTheLineOfAListThatLeadsNowhere) {
  testing::write_small_camvid(folder_);
  std::filesystem::remove(folder_ / "trainannot/f1.png");
  EXPECT_THAT(refusal("camvid"),
              AllOf(HasSubstr("train.txt:2: "), HasSubstr("trainannot/f1.png is not there"),
                    HasSubstr("take the line out")));
  folder_.write("train.txt", "/SegNet/CamVid/train/f0.png\n");
  EXPECT_THAT(refusal("camvid"),
              AllOf(HasSubstr("train.txt:1: expected a picture"), HasSubstr("its label map")));
  std::filesystem::remove(folder_ / "train.txt");
  EXPECT_THAT(refusal("camvid"), HasSubstr("lacks train.txt"));
}

TEST_F(LabelLayouts, RefuseAClassThatNoTrainingPictureShows) {
  testing::write_small_camvid(folder_);
  for (const char* name : {"trainannot/f0.png", "trainannot/f1.png"}) {
    folder_.write(name, numbers_png(12, 24, striped(12, 24, {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11})));
  }
  EXPECT_THAT(refusal("camvid"), AllOf(HasSubstr(folder_.path()), HasSubstr("1 of 11 classes"),
                                       HasSubstr("'pedestrian'"), HasSubstr("absent: keep")));
  EXPECT_NO_THROW(open("camvid", ", absent: keep"));
}

TEST_F(LabelLayouts, RefuseACropThatIsLargerThanAPicture) {
  testing::write_small_camvid(folder_);
  EXPECT_THAT(refusal("camvid", ", crop: 16"),
              AllOf(HasSubstr("16 pixels are more than"), HasSubstr("train/f0.png"),
                    HasSubstr("take at most 12")));
  EXPECT_NO_THROW(open("camvid", ", crop: 16, ratio: [0.5, 2]"));
}

TEST_F(LabelLayouts, RefuseTrainingPicturesAmongThoseThatAreTested) {
  testing::write_small_camvid(folder_);
  EXPECT_THAT(refusal("camvid", ", test_set: train"),
              mentions("train/f0.png:", "train_set and of test_set", "share no picture"));
  folder_.write("test.txt", "x/test/f0.png x/testannot/f0.png\nx/test/f0.png x/testannot/f0.png\n");
  EXPECT_THAT(refusal("camvid"), mentions("test/f0.png:", "twice"));
  EXPECT_THAT(refusal("camvid", ", train_set: ''"), HasSubstr("is empty; name one"));
  folder_.write("test.txt", "\n");
  EXPECT_THAT(refusal("camvid"), mentions("set 'test'", "no pictures"));
}

}  // namespace
}  // namespace attnlab::label_layouts_test
