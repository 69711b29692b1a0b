// Images in class folders: which files make up the splits, and what becomes of an image.
#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/config/compose.h"
#include "framework/conformance/check_plugin.h"
#include "framework/data/image/resize.h"
#include "tests/plugins/vision/picture_files.h"
#include "tests/support/data_files.h"
#include "tests/support/encodings.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"
#include "tests/support/unprivileged.h"

namespace attnlab::image_folder_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::file_of;
using ::testing::HasSubstr;
using testing::jpeg_of;
using testing::message_of;
using testing::photograph;

class ImageFolders : public ::testing::Test {
 protected:
  ImageFolders() {
    for (int i = 0; i < 6; ++i) {
      const std::string name = "train/" + std::string(i % 2 == 0 ? "dog" : "cat") + "/";
      folder_.write(name + std::to_string(i) + ".JPEG", jpeg_of(photograph(40 + i, 50 - i, i)));
    }
    folder_.write("val/dog/deep/a.png", file_of(photograph(60, 44, 7), ".png"));
    folder_.write("val/cat/b.webp", file_of(photograph(33, 48, 8), ".webp"));
  }
  std::shared_ptr<Dataset> open(const std::string& more = "", std::uint64_t seed = 0) const {
    return testing::make_dataset("image_folder",
                                 "{root: " + folder_.path() + ", size: 24" + more + "}", seed);
  }
  std::string refusal(const std::string& more = "") const {
    return message_of<Error>([&] { open(more); });
  }

  testing::TempFolder folder_;
};

TEST_F(ImageFolders, HaveClassesInOrderOfTheirNames) {
  const auto dataset = open();
  EXPECT_THAT(dataset->info().class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(dataset->info().classes, 2);
  EXPECT_EQ(dataset->size(Split::train), 6);
  EXPECT_EQ(dataset->size(Split::validation), 0);
  EXPECT_EQ(dataset->size(Split::test), 2);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 6; ++i) {
    labels.push_back(dataset->example(Split::train, i, nullptr).at("class").item<std::int64_t>());
  }
  EXPECT_THAT(labels, ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST_F(ImageFolders, HoldNothingHidden) {
  const auto sound = open();
  const std::string picture = file_of(photograph(30, 30), ".png");
  for (const char* name : {"train/.ipynb_checkpoints/0-checkpoint.png",
                           "train/cat/.ipynb_checkpoints/1.png", "train/cat/._1.png",
                           "train/dog/.thumbnails/large/2.png", "val/cat/.ipynb_checkpoints/b.png",
                           "val/.empty/x", "val/dog/deep/.DS_Store", "val/__MACOSX/._a.png",
                           "train/cat/Thumbs.db", "train/dog/desktop.ini", "test/.hidden/a.png"}) {
    folder_.write(name, picture);
  }
  std::filesystem::create_symlink("nowhere", folder_ / "train/.link");
  const auto found = open();
  EXPECT_THAT(found->info().class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(found->info().fingerprint, sound->info().fingerprint);
  EXPECT_EQ(found->info().source, folder_.path());
  EXPECT_EQ(found->size(Split::test), 2);
}

TEST_F(ImageFolders, HoldImagesOfAllCustomaryEndings) {
  const std::vector<std::string> names = {"a.jpg",  "b.JPE", "c.jfif", "d.JFIF",
                                          "e.jpeg", "f.Png", "g.WEBP", "h.ppm",
                                          "i.PGM",  "j.pbm", "k.pnm",  "l.extra.png"};
  for (const std::string& name : names) {
    folder_.write("val/dog/" + name, jpeg_of(photograph(30, 30, name[0])));
  }
  const auto dataset = open();
  ASSERT_EQ(dataset->size(Split::test), 2 + std::ssize(names));
  for (std::int64_t i = 0; i < dataset->size(Split::test); ++i) {
    EXPECT_NO_THROW(dataset->example(Split::test, i, nullptr)) << "by content, whatever the name";
  }
  EXPECT_EQ(dataset->info().source, folder_.path());
}

TEST_F(ImageFolders, SayWhichFilesAreNotRead) {
  const std::string before = open()->info().fingerprint;
  for (const char* name : {"train/cat/0.bmp", "train/dog/1.BMP", "val/dog/deep/2.tif",
                           "val/cat/notes.txt", "val/cat/none"}) {
    folder_.write(name, "no image");
  }
  EXPECT_THAT(open()->info().source,
              says({folder_.path(), "5 files", "(.bmp 2, .tif 1, .txt 1, none 1)"}));
  EXPECT_EQ(open()->info().fingerprint, before) << "no example is another one";
  folder_.write("train/7.JPEG", jpeg_of(photograph(30, 30)));
  folder_.write("train/classes.txt", "cat dog");
  folder_.write("train/dog/1.png", "damaged");
  EXPECT_THAT(open(", damaged: skip")->info().source,
              mentions(" without 5 files of other endings (", "1 images", "no class folder",
                       "1 damaged files:"));
  for (const char* ending : {"gif", "heic", "avif"}) {
    folder_.write(std::string("val/cat/0.") + ending, "no image");
  }
  EXPECT_THAT(open()->info().source,
              mentions("8 files", "(.bmp 2, .avif 1, .gif 1, .heic 1, .tif 1, ...)"));
}

TEST_F(ImageFolders, TakeTheirClassesFromAnotherSet) {
  testing::TempFolder other;
  other.write("dog/a.png", file_of(photograph(30, 30, 1), ".png"));
  const auto open_other = [&](const std::string& more = "") {
    return testing::make_dataset("image_folder",
                                 "{root: " + other.path() + ", name: other, size: 24, " +
                                     "classes_from: " + folder_.path() + more + "}");
  };
  const auto dataset = open_other();
  EXPECT_THAT(dataset->info().class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(dataset->size(Split::train), 0);
  ASSERT_EQ(dataset->size(Split::test), 1);
  EXPECT_EQ(dataset->example(Split::test, 0, nullptr).at("class").item<std::int64_t>(), 1);
  EXPECT_THAT(dataset->info().class_groups.at("tested"), ElementsAre(1));
  other.write("0/b.png", file_of(photograph(30, 30, 2), ".png"));
  EXPECT_THAT(message_of<DataError>([&] { open_other(); }), HasSubstr("/0: is not a class"))
      << "all by name, or all by number";
  std::filesystem::rename(other / "dog", other / "1");
  const auto both = open_other();
  ASSERT_EQ(both->size(Split::test), 2);
  EXPECT_EQ(both->example(Split::test, 0, nullptr).at("class").item<std::int64_t>(), 0);
  EXPECT_TRUE(both->info().class_groups.empty());
  EXPECT_THAT(refusal(", classes_from: " + folder_.path()), HasSubstr("has a folder train"));
  other.write("2/c.png", file_of(photograph(30, 30, 2), ".png"));
  EXPECT_THAT(message_of<DataError>([&] { open_other(); }), HasSubstr("/2: is not a class"));
  std::filesystem::rename(other / "2", other / "01");
  EXPECT_THAT(message_of<DataError>([&] { open_other(); }),
              AllOf(HasSubstr("/1: is the same class as "), HasSubstr("/01;")));
}

TEST_F(ImageFolders, StandWhereRootAndNameSay) {
  const auto opened = [](const std::string& where) {
    return testing::make_dataset("image_folder", "{size: 24, " + where + "}")->info().source;
  };
  EXPECT_EQ(opened("name: " + folder_.path()), folder_.path());
  EXPECT_THAT(refusal(", name: " + folder_ / "elsewhere"), mentions("elsewhere", "`root`"));
  testing::TempFolder above;
  for (const char* split : {"train", "val"}) {
    above.write(std::string("sets/mine/") + split + "/cat/a.png",
                file_of(photograph(30, 30, 1), ".png"));
  }
  EXPECT_EQ(opened("root: " + above.path() + ", name: sets/mine"), above / "sets/mine");
}

TEST_F(ImageFolders, AreCalledAsTheFolderThatOneStandsIn) {
  const testing::InFolder here(folder_.path());
  const std::string name = std::filesystem::path(folder_.path()).filename();
  for (const char* root : {".", "./", "train/.."}) {
    const auto dataset =
        testing::make_dataset("image_folder", "{size: 24, root: " + std::string(root) + "}");
    EXPECT_EQ(dataset->info().name, name) << root;
  }
}

TEST_F(ImageFolders, GiveBoxesOfTestImages) {
  const auto box = [](int left, int top, int right, int bottom) {
    const auto tag = [](const std::string& name, int value) {
      return "<" + name + ">" + std::to_string(value) + "</" + name + ">";
    };
    return "<object><bndbox>" + tag("xmin", left) + tag("ymin", top) + tag("xmax", right) +
           tag("ymax", bottom) + "</bndbox></object>";
  };
  const std::string size = "<annotation><size><width>48</width><height>96</height></size>";
  testing::TempFolder boxes;
  boxes.write("b.xml", size + box(2, 4, 24, 48) + box(0, 0, 48, 96) + "</annotation>");
  boxes.write("dog/deep/a.xml", size + "</annotation>");
  const std::string more = ", resize: squash, boxes: " + boxes.path();
  const auto dataset = open(more);
  const Tensor found = dataset->example(Split::test, 0, nullptr).at("boxes@box");
  EXPECT_TRUE(found.equal(at::tensor({1.f, 1.f, 12.f, 12.f, 0.f, 0.f, 24.f, 24.f}).view({2, 4})))
      << found;
  EXPECT_EQ(dataset->example(Split::test, 1, nullptr).at("boxes@box").size(0), 0);
  EXPECT_EQ(dataset->example(Split::train, 1, nullptr).at("boxes@box").size(0), 0);
  EXPECT_THAT(refusal(", boxes: " + boxes.path()), HasSubstr("set resize to squash"));
  boxes.write("b.xml", testing::utf16(size));
  EXPECT_THAT(message_of<DataError>([&] { dataset->example(Split::test, 0, nullptr); }),
              mentions("b.xml:", "UTF-16", "convert"));
  boxes.write("b.xml", "<annotation><size><width>0</width><height>0</height></size><object><part>" +
                           box(1, 1, 2, 2) + "</part>" + box(0, 0, 24, 33) + "</object>");
  EXPECT_TRUE(dataset->example(Split::test, 0, nullptr)
                  .at("boxes@box")
                  .equal(at::tensor({0.f, 0.f, 12.f, 24.f}).view({1, 4})))
      << "the image, which is 48 wide and 33 high, tells its size; a part is not an object";
  boxes.write("b.xml", "<width>0</width><height>33</height>");
  EXPECT_THAT(message_of<DataError>([&] { dataset->example(Split::test, 0, nullptr); }),
              mentions("b.xml:", "0 x 33 pixels", "write 48 x 33"));
  boxes.write("b.xml", size + "<bndbox><xmin>1 or 2</xmin>");
  EXPECT_THAT(message_of<DataError>([&] { dataset->example(Split::test, 0, nullptr); }),
              HasSubstr("b.xml: has no number <xmin>"));
  boxes.write("b.xml", size + "<bndbox><xmin>1</xmin>");
  EXPECT_THAT(message_of<DataError>([&] { dataset->example(Split::test, 0, nullptr); }),
              HasSubstr("b.xml: has no number <ymin>"));
  const std::string whole = box(1, 2, 3, 4);
  const std::size_t right = whole.find("<xmax>");
  boxes.write("b.xml", size + whole.substr(0, right) + whole.substr(whole.find("<ymax>")) + whole);
  EXPECT_THAT(message_of<DataError>([&] { dataset->example(Split::test, 0, nullptr); }),
              HasSubstr("b.xml: has no number <xmax>"));
}

TEST_F(ImageFolders, GiveAllRightClassesOfTestImages) {
  testing::TempFolder labels;
  const auto with = [&](const std::string& name, const std::string& text) {
    labels.write(name, text);
    return ", label_sets: " + labels / name;
  };
  const auto sets_of = [](const Dataset& dataset, Split split, std::int64_t index) {
    const Tensor sets = dataset.example(split, index, nullptr).at("classes@label");
    return std::vector<std::int64_t>(sets.data_ptr<std::int64_t>(),
                                     sets.data_ptr<std::int64_t>() + sets.numel());
  };
  // The lists are in order of names without folders, a.png before b.webp; examples are in order of
  // classes, cat/b.webp first.
  const auto listed = open(with("real.json", "[[1, 0], []]"));
  EXPECT_THAT(sets_of(*listed, Split::test, 0), ElementsAre());
  EXPECT_THAT(sets_of(*listed, Split::test, 1), ElementsAre(1, 0));
  EXPECT_THAT(sets_of(*listed, Split::train, 1), ElementsAre());
  EXPECT_NE(listed->info().fingerprint, open()->info().fingerprint);
  EXPECT_THAT(sets_of(*open(with("mark.json", testing::marked("[[1, 0], []]"))), Split::test, 1),
              ElementsAre(1, 0));
  EXPECT_THAT(refusal(with("wide.json", testing::utf16("[[1, 0], []]"))),
              mentions("wide.json:", "UTF-16", "convert"));
  const auto named = open(with("named.json", R"({"b.webp": [1], "elsewhere.png": [0]})"));
  EXPECT_THAT(sets_of(*named, Split::test, 0), ElementsAre(1));
  EXPECT_THAT(sets_of(*named, Split::test, 1), ElementsAre());
  folder_.write("real.json", "[[0], [1]]");
  EXPECT_THAT(sets_of(*open(", label_sets: real.json"), Split::test, 1), ElementsAre(0));
  EXPECT_THAT(refusal(", label_sets: none.json"), HasSubstr("reassessed-imagenet"));
  EXPECT_THAT(refusal(with("short.json", "[[1]]")),
              AllOf(HasSubstr("short.json: has lists for 1 images"), HasSubstr("holds 2")));
  EXPECT_THAT(refusal(with("far.json", "[[2], []]")),
              mentions("far.json:", "image a.png", "classes from 0 to 1"));
  EXPECT_THAT(refusal(with("huge.json", "[[18446744073709551615], []]")),
              mentions("huge.json:", "image a.png", "classes from 0 to 1"));
  EXPECT_THAT(refusal(with("text.json", "no json")), HasSubstr("text.json: expected JSON"));
  EXPECT_THAT(refusal(with("other.json", R"({"x.png": [1]})")), HasSubstr("2 test images"));
  folder_.write("val/cat/a.png", file_of(photograph(30, 30), ".png"));
  EXPECT_THAT(refusal(with("twice.json", "[[0], [0], [1]]")), mentions("two test images", "a.png"));
}

TEST_F(ImageFolders, AreCorruptedAtTheModelsSize) {
  const auto clean = open(), foggy = open(", corruption: fog, severity: 5");
  const auto pixels = [](const Dataset& dataset, Split split, std::int64_t index) {
    return dataset.example(split, index, nullptr).at("image");
  };
  EXPECT_FALSE(pixels(*clean, Split::test, 1).equal(pixels(*foggy, Split::test, 1)));
  EXPECT_TRUE(pixels(*foggy, Split::test, 1).equal(pixels(*foggy, Split::test, 1)));
  EXPECT_TRUE(pixels(*clean, Split::train, 1).equal(pixels(*foggy, Split::train, 1)));
  const auto trained = open(", corruption: fog, corrupted: train, corruption_constants: yam");
  EXPECT_TRUE(pixels(*clean, Split::test, 1).equal(pixels(*trained, Split::test, 1)));
  EXPECT_FALSE(pixels(*clean, Split::train, 1).equal(pixels(*trained, Split::train, 1)));
  EXPECT_THAT(refusal(", corruption: fog, corrupted: all, augmentation: {resized_crop: true}"),
              HasSubstr("takes a part"));
}

TEST_F(ImageFolders, TakeTestWhereThereIsOne) {
  folder_.write("test/cat/x.png", file_of(photograph(30, 30), ".png"));
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::test), 1);
  EXPECT_EQ(dataset->size(Split::validation), 2);
  EXPECT_THAT(refusal(", validation: 2"), HasSubstr("val is there"));
}

TEST_F(ImageFolders, ValidateByAFolderThatIsCalledValid) {
  std::filesystem::rename(folder_ / "val", folder_ / "valid");
  EXPECT_EQ(open()->size(Split::test), 2);
  folder_.write("test/cat/x.png", file_of(photograph(30, 30), ".png"));
  EXPECT_EQ(open()->size(Split::validation), 2);
}

TEST_F(ImageFolders, RefuseTwoFoldersForValidation) {
  for (const char* split : {"test", "validation"}) {
    std::filesystem::copy(folder_ / "val", folder_ / split,
                          std::filesystem::copy_options::recursive);
  }
  EXPECT_THAT(refusal(), HasSubstr("/validation: is there, and " + folder_ / "val" + ", too"));
}

TEST_F(ImageFolders, PassOverATestFolderWithoutClasses) {  // ImageNet's
  folder_.write("test/1.JPEG", jpeg_of(photograph(30, 30)));
  EXPECT_EQ(open()->size(Split::test), 2);
}

TEST_F(ImageFolders, AreEvaluatedInTheMiddleOrAsAWhole) {
  const Pixels image = photograph(60, 44, 7);
  const PixelMap map({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const auto expect_same = [&](const std::string& options, const Pixels& expected) {
    Tensor out = at::empty({3, 24, 24});
    write_image(expected, map, false, out.data_ptr<float>());
    const Tensor found = open(options)->example(Split::test, 1, nullptr).at("image");
    EXPECT_TRUE(found.equal(out)) << options;
  };
  const Box all{0, 0, 60, 44};
  // 24 / 0.75 = 32 for the shorter side; 60 * 32 / 44 = 43 for the other.
  const Pixels large = resized(image, all, 43, 32, Filter::bicubic);
  Pixels middle(24, 24, 3);
  for (std::int64_t y = 0; y < 24; ++y) {
    std::copy_n(large.row(y + 10) + 3 * 4, 72, middle.row(y));  // 9.5 is rounded to even
  }
  expect_same(", crop_ratio: 0.75", middle);
  expect_same(", resize: squash", resized(image, all, 24, 24, Filter::bicubic));
  expect_same(", resize: squash, interpolation: bilinear",
              resized(image, all, 24, 24, Filter::bilinear));
}

TEST_F(ImageFolders, AreAugmentedByTheirStreamAlone) {
  const auto dataset = open(
      ", augmentation: {resized_crop: true, flip: true, policy: rand, colour_jitter: 0.2, "
      "erase: 0.5}");
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random first(seed), again(seed);
    const Tensor image = dataset->example(Split::train, 3, &first).at("image");
    EXPECT_TRUE(image.equal(dataset->example(Split::train, 3, &again).at("image")));
    seen.insert(image.sum().item<double>());
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST_F(ImageFolders, TakeASubsetByTheSeed) {
  const auto images = [&](const std::string& options, std::uint64_t seed) {
    const auto dataset = open(options, seed);
    std::set<double> sums;
    for (std::int64_t i = 0; i < dataset->size(Split::train); ++i) {
      sums.insert(dataset->example(Split::train, i, nullptr).at("image").sum().item<double>());
    }
    return sums;
  };
  EXPECT_EQ(images(", subset: 0.5", 1).size(), 3U);
  EXPECT_EQ(images(", subset: 2", 1).size(), 2U);
  EXPECT_EQ(images(", subset: 3", 1), images(", subset: 3", 1));
  std::set<std::set<double>> several;
  for (std::uint64_t seed = 0; seed < 6; ++seed) several.insert(images(", subset: 3", seed));
  EXPECT_GT(several.size(), 2U);
  const auto held = open(", subset: 4, validation: 0.25");
  EXPECT_EQ(held->size(Split::train), 3);
  EXPECT_EQ(held->size(Split::validation), 1);
  EXPECT_THAT(refusal(", subset: 7"), HasSubstr("more than the 6"));
  EXPECT_THAT(refusal(", test_subset: 0.1"), mentions("test_subset:", "0.1 of 2", "0.25"));
  EXPECT_THAT(refusal(", validation: 0.01"), mentions("validation:", "0.01 of 6", "0.0834"));
}

TEST_F(ImageFolders, RefuseDamagedFilesOrLeaveThemOutAndSaySo) {
  const std::string whole = jpeg_of(photograph(40, 40));
  folder_.write("train/dog/2.JPEG", whole.substr(0, whole.size() / 2));
  const auto strict = open();
  EXPECT_EQ(strict->size(Split::train), 6);
  EXPECT_THAT(message_of<DataError>([&] { strict->example(Split::train, 4, nullptr); }),
              AllOf(HasSubstr("train/dog/2.JPEG: damaged ("), HasSubstr("or say `damaged: skip`")));
  const auto lenient = open(", damaged: skip");
  EXPECT_EQ(lenient->size(Split::train), 5);
  EXPECT_THAT(lenient->info().source,
              AllOf(HasSubstr("without 1 damaged files"), HasSubstr("train/dog/2.JPEG")));
  EXPECT_NE(lenient->info().fingerprint, strict->info().fingerprint);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_NO_THROW(lenient->example(Split::train, i, nullptr));
}

TEST_F(ImageFolders, HaveAFingerprintOfNamesAndContents) {
  const std::string before = open()->info().fingerprint;
  EXPECT_EQ(open()->info().fingerprint, before);
  std::filesystem::rename(folder_ / "train/cat/1.JPEG", folder_ / "train/cat/9.JPEG");
  EXPECT_NE(open()->info().fingerprint, before);
}

TEST_F(ImageFolders, HaveAnotherFingerprintWhereASplitEndsElsewhere) {
  std::filesystem::remove_all(folder_ / "val/cat");
  std::filesystem::rename(folder_ / "train/dog/4.JPEG", folder_ / "train/dog/D.JPEG");
  const std::string before = open()->info().fingerprint;
  std::filesystem::rename(folder_ / "train/dog/D.JPEG", folder_ / "val/dog/D.JPEG");
  EXPECT_NE(open()->info().fingerprint, before) << "the files and their order are the same";
}

TEST_F(ImageFolders, HaveAnotherFingerprintWithOtherBoxesOrAnotherTeacher) {
  const std::string text = "<width>48</width><height>96</height>";
  testing::TempFolder boxes, other;
  const auto boxed = [&] {
    return open(", resize: squash, boxes: " + boxes.path())->info().fingerprint;
  };
  const std::string none = boxed();
  boxes.write("b.xml", text);
  const std::string one = boxed();
  EXPECT_NE(one, none);
  EXPECT_EQ(boxed(), one);
  boxes.write("b.xml", text + " ");
  EXPECT_NE(boxed(), one);
  other.write("dog/a.png", file_of(photograph(30, 30, 1), ".png"));
  const auto taught = [&] {
    return testing::make_dataset(
               "image_folder", "{root: " + other.path() +
                                   ", name: other, size: 24, classes_from: " + folder_.path() + "}")
        ->info()
        .fingerprint;
  };
  const std::string two_classes = taught();
  EXPECT_EQ(taught(), two_classes);
  folder_.write("train/bird/a.png", file_of(photograph(30, 30, 1), ".png"));
  EXPECT_NE(taught(), two_classes) << "dog is another number";
}

TEST_F(ImageFolders, RefuseWhatIsNoClass) {
  folder_.write("val/do/a.png", file_of(photograph(30, 30), ".png"));
  EXPECT_THAT(refusal(), mentions("val/do:", "not a class", "did you mean 'dog'?"));
}

TEST_F(ImageFolders, RefuseALinkToNothing) {
  std::filesystem::create_symlink("nowhere.png", folder_ / "train/cat/zz.png");
  EXPECT_THAT(refusal(), mentions("train/cat/zz.png:", "link to nothing"));
}

TEST_F(ImageFolders, RefuseALinkToNothingInTheFoldersPlace) {
  const auto told = [&](const std::string& link) {
    std::filesystem::create_symlink("nowhere", folder_ / link);
    const std::string message = refusal();
    std::filesystem::remove(folder_ / link);
    return message;
  };
  EXPECT_THAT(told("train/bird"), mentions("train/bird:", "link to nothing"))
      << "the labels behind it would be others";
  EXPECT_THAT(told("train/cat/more"), mentions("train/cat/more:", "link to nothing"));
  EXPECT_THAT(told("test"), HasSubstr("test: cannot be listed"));
  std::filesystem::create_directory(folder_ / "test");
  std::filesystem::create_symlink("nowhere.JPEG", folder_ / "test/1.JPEG");
  EXPECT_EQ(open()->size(Split::test), 2) << "loose pictures are passed over";
}

TEST_F(ImageFolders, RefuseAFolderThatCannotBeListed) {
  folder_.write("test/cat/x.png", file_of(photograph(30, 30), ".png"));
  EXPECT_EQ(open()->size(Split::test), 1);
  std::filesystem::permissions(folder_ / "test", std::filesystem::perms::none);
  const testing::Unprivileged user(folder_.path());
  if (!user.works()) GTEST_SKIP() << "needs another user than the superuser";
  EXPECT_THAT(refusal(), HasSubstr("/test: cannot be listed")) << "val is not the test split";
}

TEST_F(ImageFolders, RefuseAClassWithoutImages) {
  std::filesystem::create_directory(folder_ / "train/eel");
  EXPECT_THAT(refusal(), mentions("train/eel:", "no images", ".jpg", "or remove the folder"));
  folder_.write("train/eel/0.bmp", "no image");
  EXPECT_THAT(refusal(), mentions("no images", "1 files", "(.bmp 1)"));
}

TEST_F(ImageFolders, SayWhatIsMissing) {
  std::filesystem::remove_all(folder_ / "val");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }), HasSubstr("no folder test or val"));
  std::filesystem::remove_all(folder_ / "train");
  EXPECT_THAT(message_of<DataMissingError>([&] { open(); }),
              AllOf(HasSubstr("lacks train"), HasSubstr("train/CLASS")));
}

TEST_F(ImageFolders, RefuseOptionsWithoutMeaning) {
  EXPECT_THAT(refusal(", mean: [0.5]"), HasSubstr("three numbers"));
  EXPECT_THAT(refusal(", std: [1, 0, 1]"), HasSubstr("std: 0 is out of range"));
  EXPECT_THAT(refusal(", mean: [0, .nan, 0]"), mentions("mean:", ".nan"));
  EXPECT_THAT(refusal(", std: [1, 1, .inf]"), mentions("std:", ".inf"));
  EXPECT_THAT(refusal(", augmentation: {resized_crop: true, crop_padding: 2}"),
              HasSubstr("one crop"));
}

/// Twenty pictures in each of two class folders, and no folder train.
class OneFolder : public ::testing::Test {
 protected:
  OneFolder() {
    for (int i = 0; i < 20; ++i) {
      const std::string name = std::to_string(i) + ".png";
      folder_.write("photos/cat/" + name, file_of(plain_picture(i), ".png"));
      folder_.write("photos/dog/" + name, file_of(plain_picture(20 + i), ".png"));
    }
  }
  /// Of one grey, another one for each number below 40.
  static Pixels plain_picture(int number) {
    Pixels image(30, 30, 3);
    for (std::int64_t y = 0; y < 30; ++y) {
      std::fill_n(image.row(y), 3 * 30, static_cast<std::uint8_t>(6 * number));
    }
    return image;
  }
  std::shared_ptr<Dataset> open(const std::string& more, std::uint64_t seed = 0) const {
    return testing::make_dataset(
        "image_folder", "{root: " + folder_.path() + "/photos, size: 24" + more + "}", seed);
  }
  static std::vector<float> first_pixels(const Dataset& dataset, Split split) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      out.push_back(dataset.example(split, i, nullptr).at("image").sum().item<float>());
    }
    return out;
  }

  testing::TempFolder folder_;
};

TEST_F(OneFolder, IsDividedByAShareOfEachClassTheSameForAllSeedsOfRuns) {
  const auto one = open(", test: 0.2, validation: 0.25"), other = open(", test: 0.2", 7);
  EXPECT_EQ(one->size(Split::test), 8);
  EXPECT_EQ(one->size(Split::validation), 8);
  EXPECT_EQ(one->size(Split::train), 24);
  EXPECT_THAT(one->info().class_names, ElementsAre("cat", "dog"));
  std::int64_t dogs = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    dogs += one->example(Split::test, i, nullptr).at("class").item<std::int64_t>();
  }
  EXPECT_EQ(dogs, 4);
  EXPECT_EQ(first_pixels(*one, Split::test), first_pixels(*other, Split::test));
  const auto third = open(", test: 0.2, split_seed: 1");
  EXPECT_NE(first_pixels(*third, Split::test), first_pixels(*one, Split::test));
  EXPECT_NE(third->info().fingerprint, other->info().fingerprint);
  std::vector<float> all = first_pixels(*other, Split::test);
  for (const float sum : first_pixels(*other, Split::train)) all.push_back(sum);
  EXPECT_EQ(std::set<float>(all.begin(), all.end()).size(), 40U) << "no image is in two splits";
}

TEST_F(OneFolder, ChangesNoHashOfRunsThatDivideNothing) {
  Experiment experiment = resolve_experiment(
      parse_yaml("schema: 1\nmodel: vit\nattention: standard\ntask: image_classification\n"
                 "dataset: {use: image_folder, size: 32}\n",
                 "made.yaml"),
      testing::registry().catalogue(), "made");
  const std::string hash = experiment.hash();
  for (const char* younger : {"test", "split_seed"}) {
    experiment.resolved.find("dataset")->erase(younger);
  }
  EXPECT_EQ(experiment.hash(), hash);
  experiment.resolved.find("dataset")->set("test", Node::scalar("0.2"));
  EXPECT_NE(experiment.hash(), hash);
}

TEST_F(OneFolder, IsNamedWithWhatHelpsWhereTrainIsMissing) {
  const std::string refusal = message_of<Error>([&] { open(""); });
  EXPECT_THAT(refusal, AllOf(HasSubstr(folder_.path() + "/photos"), HasSubstr("lacks train"),
                             HasSubstr("`test`"), ::testing::Not(HasSubstr("imagenet' are"))));
}

TEST_F(OneFolder, IsRefusedWhereNameIsAPathBelowARoot) {
  EXPECT_THAT(message_of<ConfigError>([&] { open(", test: 0.2, name: " + folder_ / "other"); }),
              mentions("path of its own", "`root`"));
}

TEST_F(OneFolder, IsRefusedWhereATrainingFolderIsThereToo) {
  folder_.write("photos/train/cat/a.png", file_of(photograph(30, 30), ".png"));
  EXPECT_THAT(message_of<ConfigError>([&] { open(", test: 0.2"); }),
              AllOf(HasSubstr("test"), HasSubstr("photos/train is there")));
}

TEST_F(ImageFolders, KeepTheContractWithoutWhatIsDamaged) {
  folder_.write("train/dog/bad.png", "no image");
  const Part part = testing::make_part(Kind::dataset, "image_folder",
                                       "{root: " + folder_.path() + ", size: 8, damaged: skip}");
  for (const char* check : {"fingerprint", "damage"}) {
    const conformance::CheckResult result =
        conformance::check_plugin(testing::registry(), part, check, {.options_given = true});
    EXPECT_EQ(result.outcome, conformance::Outcome::passed) << check << ": " << result.message;
  }
}

TEST_F(ImageFolders, KeepTheContract) {
  for (const char* more : {"", ", augmentation: {resized_crop: true, flip: true, policy: three}"}) {
    testing::expect_contract_kept("image_folder",
                                  "{root: " + folder_.path() + ", size: 8" + more + "}");
  }
}

}  // namespace
}  // namespace attnlab::image_folder_test
