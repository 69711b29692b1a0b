// VOC's layout: which pictures, which boxes, and what is refused.
#include <filesystem>

#include "tests/plugins/detection/small_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/deadline.h"
#include "tests/support/encodings.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::voc_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

class VocSets : public ::testing::Test {
 protected:
  VocSets() { testing::write_small_voc(folder_); }
  std::string options(const std::string& more) const {
    return "{root: " + folder_.path() + ", " + testing::kSmallSets + ", size: 48" + more + "}";
  }
  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return testing::make_dataset("voc", options(more));
  }

  testing::TempFolder folder_;
};

TEST_F(VocSets, AreTheListedPicturesAndTheirBoxes) {
  const auto dataset = open();
  EXPECT_THAT(dataset->info().class_names, ElementsAre("cat", "cow", "dog"));
  EXPECT_EQ(dataset->size(Split::train), 4);
  EXPECT_EQ(dataset->size(Split::validation), 0);
  EXPECT_EQ(dataset->size(Split::test), 2);
  const NamedTensors first = dataset->example(Split::train, 0, nullptr);
  EXPECT_EQ(first.at("image").sizes(), (at::IntArrayRef{3, 32, 48}));
  EXPECT_TRUE(first.at("size").equal(at::tensor({40, 60}, at::kLong)));
  EXPECT_TRUE(first.at("label@box").equal(at::tensor({2, 0}, at::kLong)));
  // Edges lie between pixels: 1..20 is 0 to 20, of 60 and of 40.
  EXPECT_TRUE(at::allclose(
      first.at("box@box"),
      at::tensor({0.f, 0.f, 20 / 60.f, 0.5f, 0.5f, 0.25f, 50 / 60.f, 1.f}).view({2, 4})));
  EXPECT_TRUE(first.at("area@box").equal(at::tensor({400.f, 600.f})));
}

TEST_F(VocSets, MayBeListedBehindAByteOrderMark) {
  folder_.write("ImageSets/Main/train.txt", testing::marked("a1\na2\na3\na4\n"));
  folder_.write("Annotations/a1.xml", testing::marked(testing::voc_xml(40, 60, {})));
  folder_.write("Annotations/a2.xml", testing::utf16(testing::voc_xml(50, 50, {})));
  EXPECT_EQ(open()->size(Split::train), 4) << "an annotation in UTF-16 is XML, too";
  folder_.write("ImageSets/Main/train.txt", testing::utf16("a1\n"));
  EXPECT_THAT(message_of<DataError>([&] { open(); }),
              mentions("Main/train.txt:", "UTF-16", "convert"));
}

TEST_F(VocSets, NameFileAndRemedyBehindAZeroByte) {
  folder_.write("ImageSets/Main/train.txt", std::string("a1\0\n", 4));
  EXPECT_THAT(message_of<DataError>([&] { open(); }),
              mentions("Annotations/a1\\x00.xml:", "ImageSets/Main"));
}

TEST_F(VocSets, CountBoxesThatAreDropped) {
  EXPECT_THAT(open()->info().source, HasSubstr("without 1 boxes of no area"));
  EXPECT_EQ(open()->example(Split::train, 2, nullptr).at("label@box").numel(), 1);
  const auto difficult = [&](const std::string& rule) {
    return open(", difficult: " + rule)->example(Split::test, 1, nullptr).at("ignored@box");
  };
  EXPECT_TRUE(difficult("ignore").equal(at::tensor({0, 0, 1}, at::kLong)));
  EXPECT_TRUE(difficult("drop").equal(at::tensor({0, 0}, at::kLong)));
  EXPECT_TRUE(difficult("count").equal(at::tensor({0, 0, 0}, at::kLong)));
}

TEST_F(VocSets, ReadMarksInTheWordsOfAnnotationTools) {
  const auto marked_as = [&](const std::string& text) {
    std::string xml = testing::voc_xml(60, 40, {{"dog", 1, 21, 30, 50}});
    xml.replace(xml.find("<difficult>0"), 12, "<difficult>" + text);
    folder_.write("Annotations/b2.xml", xml);
    return open()->example(Split::test, 1, nullptr).at("ignored@box").item<std::int64_t>();
  };
  for (const char* yes : {"1", "1.0", "1.00", "true", "True", "TRUE", "yes", "Yes", " 1\n"}) {
    EXPECT_EQ(marked_as(yes), 1) << yes;
  }
  for (const char* no : {"0", "0.0", "false", "False", "no", "NO", "", " ", "Unspecified"}) {
    EXPECT_EQ(marked_as(no), 0) << no;
  }
  for (const std::string word : {"2", "-1", "maybe", "1x", "0.5", "nan", "truee"}) {
    EXPECT_THAT(message_of<DataError>([&] { marked_as(word); }),
                AllOf(HasSubstr("Annotations/b2.xml: byte "),
                      HasSubstr("<difficult> is '" + word + "'; write 0 or 1")));
  }
}

TEST_F(VocSets, TakeThePicturesSizeWhereTheAnnotationHasNone) {
  const std::string known = testing::voc_xml(50, 50, {{"dog", 11, 11, 30, 40}});
  const std::size_t end = known.find("</size>") + 7;
  for (const std::string size :
       {"<size><width>0</width><height>0</height><depth>3</depth></size>",
        "<size><width>0.0</width><height></height></size>", "<size/>", ""}) {
    folder_.write("Annotations/a2.xml", "<annotation>" + size + known.substr(end));
    const NamedTensors example = open()->example(Split::train, 1, nullptr);
    EXPECT_TRUE(example.at("size").equal(at::tensor({50, 50}, at::kLong))) << size;
    EXPECT_EQ(example.at("area@box").item<float>(), 20 * 30) << size;
  }
  folder_.write("Annotations/a2.xml",
                "<annotation><size><width>0</width><height>50</height></size></annotation>");
  EXPECT_THAT(message_of<DataError>([&] { open(); }),
              mentions("a2.xml:", "0 x 50 pixels", "width and height"));
  folder_.write("Annotations/a2.xml", "<annotation></annotation>");
  std::filesystem::remove(folder_ / "JPEGImages/a2.jpg");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }),
              mentions("JPEGImages/a2.jpg:", "not there"));
  folder_.write("Annotations/a2.xml", "<annotations></annotations>");
  EXPECT_THAT(message_of<DataError>([&] { open(); }), HasSubstr("a2.xml: has no <annotation>"));
}

TEST_F(VocSets, MayHavePicturesOfOtherNames) {
  const auto annotate = [&](const std::string& file) {
    std::string xml = testing::voc_xml(60, 40, {{"dog", 1, 21, 30, 50}});
    xml.insert(xml.find("<size>"), "<filename>" + file + "</filename>");
    folder_.write("Annotations/b2.xml", xml);
  };
  const auto first_pixel = [&] {
    return open()->example(Split::test, 1, nullptr).at("image")[0][0][0].item<double>();
  };
  const std::string other = testing::file_of(testing::photograph(60, 40, 5), ".png");
  annotate("photo 7.png");
  folder_.write("JPEGImages/photo 7.png", other);
  const double usual = first_pixel();
  std::filesystem::remove(folder_ / "JPEGImages/b2.jpg");
  const double named = first_pixel();
  EXPECT_NE(named, usual) << "NAME.jpg comes first";
  for (const char* path : {"/somewhere/else/photo 7.png", "C:\\pictures\\photo 7.png",
                           "../../JPEGImages/photo 7.png"}) {
    annotate(path);
    EXPECT_EQ(first_pixel(), named) << path;
  }
  folder_.write("elsewhere.png", other);
  annotate("../elsewhere.png");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }),
              mentions("JPEGImages/b2.jpg:", "not there"))
      << "no path leads out of the folder";
  for (const std::string ending : {"png", "PNG", "JPG", "jpeg", "webp"}) {
    const std::string path = folder_ / ("JPEGImages/b2." + ending);
    std::filesystem::rename(folder_ / "elsewhere.png", path);
    EXPECT_EQ(first_pixel(), named) << ending;
    std::filesystem::rename(path, folder_ / "elsewhere.png");
  }
  annotate("b1.jpg");
  EXPECT_THAT(message_of<DataError>([&] { open(); }),
              mentions("Annotations/b2.xml: names ", "JPEGImages/b1.jpg", "another annotation"));
}

TEST_F(VocSets, ArePaddedInABatch) {
  const auto dataset = open();
  const Batch batch = dataset->collate(
      {dataset->example(Split::train, 0, nullptr), dataset->example(Split::train, 2, nullptr)});
  EXPECT_EQ(batch.fields.at("image").sizes(), (at::IntArrayRef{2, 3, 48, 48}));
  EXPECT_EQ(batch.fields.at("image_valid")[0].sum().item<std::int64_t>(), 32 * 48);
  EXPECT_EQ(batch.fields.at("image_valid")[1].sum().item<std::int64_t>(), 48 * 36);
  EXPECT_TRUE(batch.offsets.at("box").equal(at::tensor({0, 2, 3}, at::kLong)));
}

TEST_F(VocSets, NameFileAndPlaceOfWhatIsWrong) {
  const auto refusal = [&] { return message_of<Error>([&] { open(); }); };
  folder_.write("Annotations/a2.xml", "<annotation><size><width>50</width></size></annotation>");
  EXPECT_THAT(refusal(), HasSubstr("a2.xml: byte"));
  EXPECT_THAT(refusal(), HasSubstr("<size> has no <height>"));
  folder_.write("Annotations/a2.xml", "<annotation><size>");
  EXPECT_THAT(refusal(), HasSubstr("a2.xml: byte"));
  for (const char* width : {"nan", "1e300"}) {
    folder_.write("Annotations/a2.xml", std::string("<annotation><size><height>5</height><width>") +
                                            width + "</width></size></annotation>");
    EXPECT_THAT(refusal(), HasSubstr("' is not a number"));
  }
  folder_.write("Annotations/a2.xml", testing::voc_xml(51, 50, {}));
  EXPECT_THAT(message_of<DataError>([&] { open()->example(Split::train, 1, nullptr); }),
              HasSubstr("its annotation says 50 x 51"));
}

TEST_F(VocSets, LeaveOutBoxesOfOtherClassesAndSaySo) {
  const auto dataset = open(", classes: [dog, cat]");
  EXPECT_THAT(dataset->info().class_names, ElementsAre("dog", "cat"));
  EXPECT_THAT(dataset->info().source, HasSubstr("4 boxes of other classes"));
  EXPECT_TRUE(dataset->example(Split::train, 0, nullptr)
                  .at("label@box")
                  .equal(at::tensor({0, 1}, at::kLong)));
  EXPECT_EQ(dataset->example(Split::train, 3, nullptr).at("label@box").numel(), 0);
  EXPECT_THAT(open()->info().source, Not(HasSubstr("other classes")));
}

TEST_F(VocSets, MayGiveEachObjectAClassOfItsOwn) {
  const testing::Deadline deadline;  // for what takes a time that grows with the square
  std::string xml = "<annotation><size><width>48</width><height>48</height></size>";
  constexpr int kObjects = 100'000;
  for (int i = 0; i < kObjects; ++i) {
    xml += "<object><name>n" + std::to_string(kObjects + i) +
           "</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
           "</object>";
  }
  folder_.write("Annotations/a4.xml", xml + "</annotation>");
  const Tensor labels = open()->example(Split::train, 3, nullptr).at("label@box");
  ASSERT_EQ(labels.numel(), kObjects);
  EXPECT_EQ(labels[7].item<std::int64_t>() - labels[0].item<std::int64_t>(), 7);
}

TEST_F(VocSets, RefuseAClassThatNoBoxHas) {
  EXPECT_THAT(message_of<ConfigError>([&] { open(", classes: [dog, cats]"); }),
              mentions("classes:", "no annotation", "'cats'", "did you mean 'cat'"));
}

TEST_F(VocSets, HaveEachPictureOnceHoweverOftenItIsListed) {
  folder_.write("ImageSets/Main/again.txt", "a3\na1\n\na3\n");
  const auto dataset = testing::make_dataset(
      "voc", "{root: " + folder_.path() + ", train_sets: [train, again, train], test_sets: [val]}");
  EXPECT_EQ(dataset->size(Split::train), 4);
  EXPECT_EQ(dataset->info().fingerprint,
            testing::make_dataset(
                "voc", "{root: " + folder_.path() + ", train_sets: [train], " + "test_sets: [val]}")
                ->info()
                .fingerprint);
}

TEST_F(VocSets, RefuseAPictureThatIsTrainedOnAndAskedForLater) {
  folder_.write("ImageSets/Main/some.txt", "b1\na2\n");
  const auto refusal = [&](const std::string& sets) {
    return message_of<DataError>([&] {
      testing::make_dataset(
          "voc", "{root: " + folder_.path() + ", size: 48, train_sets: [train], " + sets + "}");
    });
  };
  EXPECT_THAT(refusal("validation_sets: [some], test_sets: [val]"),
              mentions("JPEGImages/a2.jpg:", "train_sets and of validation_sets"));
  EXPECT_THAT(refusal("test_sets: [val, ./train]"),
              mentions("JPEGImages/a1.jpg:", "train_sets and of test_sets"));
  EXPECT_EQ(open(", validation_sets: [val]")->size(Split::validation), 2)
      << "as published: what is chosen by may be what is tested";
}

TEST_F(VocSets, SayOfADamagedPictureWhatCanBeDone) {
  const std::string whole = testing::jpeg_of(testing::photograph(50, 50));
  folder_.write("JPEGImages/a2.jpg", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(message_of<DataError>([&] { open()->example(Split::train, 1, nullptr); }),
              AllOf(HasSubstr("a2.jpg: "), EndsWith("; fetch the file again")));
}

TEST_F(VocSets, KeepTheContract) {
  const auto outcomes = testing::expect_contract_kept("voc", options(""));
  // Its source goes on behind the folder: a box of no area is left out.
  EXPECT_EQ(outcomes.at("damage"), conformance::Outcome::passed);
}

}  // namespace
}  // namespace attnlab::voc_test
