// Image files: a part is what the same part of the whole is.
#include "framework/data/pictures/image_file.h"

#include <cstring>

#include "framework/base/random.h"
#include "tests/plugins/vision/picture_files.h"
#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::image_file_test {
namespace {

using attnlab::testing::mentions;
using testing::file_of;
using ::testing::HasSubstr;
using testing::jpeg_of;
using testing::JpegForm;
using testing::message_of;
using testing::photograph;

class ImageFiles : public ::testing::Test {
 protected:
  Pixels whole(const std::string& path) {
    ImageFile file(path);
    ImageFile::Part part = file.read({0, 0, file.height(), file.width()});
    EXPECT_EQ(part.pixels.height, file.height());
    EXPECT_EQ(part.pixels.width, file.width());
    return part.pixels;
  }

  testing::TempFolder folder_;
};

TEST_F(ImageFiles, DecodeAPartOfAJpegAsPartOfTheWhole) {
  const JpegForm forms[] = {{2, 2}, {2, 1}, {1, 1}, {1, 2}, {2, 2, true}, {1, 1, false, true}};
  const std::int64_t height = 83, width = 125;
  const Box boxes[] = {{0, 0, 83, 125},  {0, 0, 1, 1},     {82, 124, 1, 1},  {1, 1, 81, 123},
                       {16, 16, 16, 16}, {17, 31, 40, 33}, {33, 48, 50, 77}, {5, 100, 70, 25},
                       {64, 15, 3, 17},  {31, 0, 33, 64}};
  for (const JpegForm& form : forms) {
    const std::string path = folder_.write("a.jpg", jpeg_of(photograph(height, width), form));
    const Pixels all = whole(path);
    for (const Box& box : boxes) {
      ImageFile file(path);
      ASSERT_EQ(file.height(), height);
      ASSERT_EQ(file.width(), width);
      const ImageFile::Part part = file.read(box);
      for (std::int64_t y = 0; y < box.height; ++y) {
        const std::uint8_t* found = part.pixels.row(part.box.top + y) + 3 * part.box.left;
        const std::uint8_t* expected = all.row(box.top + y) + 3 * box.left;
        ASSERT_TRUE(std::equal(found, found + 3 * box.width, expected))
            << form.across << "x" << form.down << (form.progressive ? " progressive" : "")
            << " box " << box.top << "," << box.left << " row " << y;
      }
    }
  }
}

TEST_F(ImageFiles, AreRefusedWhereAHeaderAsksForTooMuchMemory) {
  std::string bytes = jpeg_of(photograph(8, 8));
  const std::size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // height and width
  const std::string path = folder_.write("a.jpg", bytes);
  EXPECT_THAT(message_of<DataError>([&] { ImageFile file(path); }),
              mentions("a.jpg:", "65500 x 65500", "shrink it"));
  // Zeros pack to a thousandth, and OpenCV's own limit is 2^30 pixels.
  std::string png = file_of(photograph(8, 8), ".png");
  png.replace(16, 8, std::string("\0\0\x80\0\0\0\x7f\xff", 8));  // width and height
  folder_.write("a.png", png);
  EXPECT_THAT(message_of<DataError>([&] { ImageFile file(folder_ / "a.png"); }),
              mentions("a.png:", "32767 x 32768", "shrink it"));
  const std::string webp("RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\xff\x7f\0\xff\x3f\0", 30);
  folder_.write("a.webp", webp);
  EXPECT_THAT(message_of<DataError>([&] { ImageFile file(folder_ / "a.webp"); }),
              mentions("a.webp:", "16384 x 32768", "shrink it"));
  folder_.write("a.ppm", "P6 # 8 x 8\n32768 # wide\n32768\n255\n");
  EXPECT_THAT(message_of<DataError>([&] { ImageFile file(folder_ / "a.ppm"); }),
              mentions("a.ppm:", "32768 x 32768", "shrink it"));
  // Of four colours, as OpenCV reads them.
  std::string print = testing::cmyk_jpeg_of(8, 8, {0, 0, 0, 0});
  print.replace(print.find("\xff\xc0") + 5, 4, "\xff\xdc\xff\xdc");
  folder_.write("print.jpg", print);
  EXPECT_THAT(message_of<DataError>([&] { ImageFile file(folder_ / "print.jpg"); }),
              HasSubstr("print.jpg: has 65500 x 65500 pixels"));
}

TEST_F(ImageFiles, OfMoreScansThanAnyoneMakesAreRefused) {
  std::string bytes = jpeg_of(photograph(8, 8), {1, 1, true});
  // The first, of means alone, may come again and again. It ends before the next marker.
  const std::size_t first = bytes.find("\xff\xda");
  std::size_t end = first + 2;
  while (end < bytes.size() && (bytes[end] != '\xff' || bytes[end + 1] == '\0')) ++end;
  const std::string scan = bytes.substr(first, end - first);
  for (int i = 0; i < 500; ++i) bytes.insert(first, scan);
  const std::string path = folder_.write("a.jpg", bytes);
  ImageFile file(path);
  EXPECT_THAT(message_of<DataError>([&] {
                file.read({0, 0, 8, 8}, 0, 0);
              }),
              HasSubstr("a.jpg: damaged (more than 500 scans)"));
}

TEST_F(ImageFiles, OfFormatsThatAreNotPromisedAreRefused) {
  for (const char* ending : {".tiff", ".bmp"}) {
    const std::string path = folder_.write("a.jpg", file_of(photograph(8, 8), ending));
    EXPECT_THAT(message_of<DataError>([&] { ImageFile file(path); }),
                mentions("a.jpg:", "JPEG, PNG, WebP or Netpbm", "fetch"))
        << ending;
  }
}

// OpenCV's reader of it, which came last, ended the process.
TEST_F(ImageFiles, OfDicomBehindAnotherFormatsFirstBytesAreRefused) {
  for (const char* first : {"P6~", "RIFFabcdWEBPVP8 "}) {
    const std::string path =
        folder_.write("a.jpg", first + std::string(128 - std::strlen(first), '!') + "DICM" +
                                   std::string(99, '!'));
    EXPECT_THAT(message_of<DataError>([&] { ImageFile file(path); }),
                mentions("a.jpg:", "JPEG, PNG, WebP or Netpbm"));
  }
}

TEST_F(ImageFiles, DecodeWhatBecomesSmallAtASmallerSize) {
  const std::string path = folder_.write("a.jpg", jpeg_of(photograph(400, 600)));
  const auto size_of = [&](const Box& box, std::int64_t size) {
    ImageFile file(path);
    const ImageFile::Part part = file.read(box, size, size);
    EXPECT_LE(part.box.left + part.box.width, part.pixels.width);
    return part.box.height;
  };
  EXPECT_EQ(size_of({0, 0, 400, 600}, 224), 400);
  EXPECT_EQ(size_of({0, 0, 400, 600}, 200), 200);
  EXPECT_EQ(size_of({0, 0, 400, 600}, 101), 200);
  EXPECT_EQ(size_of({0, 0, 400, 600}, 100), 100);
  EXPECT_EQ(size_of({0, 0, 400, 600}, 10), 50);
  EXPECT_EQ(size_of({11, 301, 300, 210}, 100), 150);
  // Nearly the mean of the pixels that one stands for.
  ImageFile file(path);
  const ImageFile::Part part = file.read({0, 0, 400, 600}, 200, 200);
  const Pixels all = whole(path);
  double difference = 0;
  for (std::int64_t y = 0; y < 200; ++y) {
    for (std::int64_t x = 0; x < 300; ++x) {
      const std::uint8_t* top = all.row(2 * y) + 6 * x;
      const std::uint8_t* below = all.row(2 * y + 1) + 6 * x;
      const double mean = (top[0] + top[3] + below[0] + below[3]) / 4.0;
      difference += std::abs(part.pixels.row(y)[3 * (part.box.left + x)] - mean);
    }
  }
  EXPECT_LT(difference / 60000, 3);
}

TEST_F(ImageFiles, OfOtherFormatsAreTheirPixels) {
  const Pixels image = photograph(40, 51);
  for (const char* ending : {".png", ".webp"}) {
    const std::string path = folder_.write(std::string("a") + ending, file_of(image, ending));
    EXPECT_EQ(whole(path).bytes, image.bytes) << ending;
  }
  // By their content, not by their name: ImageNet has a PNG that is called JPEG.
  EXPECT_EQ(whole(folder_.write("b.JPEG", file_of(image, ".png"))).bytes, image.bytes);
}

// Print shops' JPEGs have four colours; ImageNet has 23 of them. R = C' K', inverted values of 255.
TEST_F(ImageFiles, OfFourColoursAreReadAsThree) {
  const std::string path =
      folder_.write("print.jpg", testing::cmyk_jpeg_of(24, 32, {200, 100, 50, 128}));
  const Pixels found = whole(path);
  ASSERT_EQ(found.height, 24);
  ASSERT_EQ(found.width, 32);
  const double expected[] = {200 * 128 / 255.0, 100 * 128 / 255.0, 50 * 128 / 255.0};
  for (std::int64_t y = 0; y < 24; ++y) {
    for (std::int64_t i = 0; i < 96; ++i)
      ASSERT_NEAR(found.row(y)[i], expected[i % 3], 3) << y << i;
  }
}

TEST_F(ImageFiles, ThatAreDamagedAreNamed) {
  const std::string sound = jpeg_of(photograph(64, 64)), png = file_of(photograph(64, 64), ".png");
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = folder_.write("bad.jpg", bytes);
    return message_of<DataError>([&] { whole(path); });
  };
  EXPECT_THAT(refusal(sound.substr(0, sound.size() - 1)),
              mentions("bad.jpg:", "ends too early", "fetch"));
  EXPECT_THAT(refusal(sound.substr(0, 100)), HasSubstr("bad.jpg"));
  EXPECT_THAT(refusal(sound.substr(0, 20) + "\xff\xd9"), HasSubstr("bad.jpg: damaged ("));
  // Bytes that are missing in the middle, of which libjpeg only warns.
  const std::string large = jpeg_of(photograph(300, 400));
  std::string holed = large;
  holed.erase(large.size() / 2, 500);
  EXPECT_THAT(refusal(holed), HasSubstr("bad.jpg: damaged ("));
  // Overwritten ones, of a smooth picture: what stands there then is of fewer pixels, data are
  // missing at the end, and libjpeg notices. (Where it is of more pixels, nothing tells.)
  Pixels smooth(300, 400, 3);
  for (std::int64_t y = 0; y < 300; ++y) {
    for (std::int64_t i = 0; i < 1200; ++i) {
      smooth.row(y)[i] = static_cast<std::uint8_t>((2 * y + i / 3) / 5);
    }
  }
  const std::string even = jpeg_of(smooth);
  ASSERT_GT(even.size(), 1500U);
  int noticed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    std::string hit = even;
    for (std::size_t i = 0; i < 200; ++i) {
      hit[even.size() / 2 + i] = static_cast<char>(random.below(255));  // no marker
    }
    ImageFile file(folder_.write("hit.jpg", hit));
    try {
      file.read({0, 0, file.height(), file.width()});
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("hit.jpg: damaged ("));
      ++noticed;
    }
  }
  EXPECT_GE(noticed, 15);
  // An end in the header, as of a small picture among a camera's notes, is not the file's.
  const std::string notes(
      "\xff\xe1\x00\x08"
      "ab\xff\xd9"
      "cd",
      10);
  const std::string noted = large.substr(0, 2) + notes + large.substr(2);
  EXPECT_EQ(whole(folder_.write("noted.jpg", noted)).bytes,
            whole(folder_.write("large.jpg", large)).bytes);
  EXPECT_THAT(refusal(noted.substr(0, noted.size() * 2 / 3)), HasSubstr("bad.jpg: ends too early"));
  // Cut off, and an end put behind it: known by the data that are missing.
  EXPECT_THAT(refusal(large.substr(0, large.size() * 2 / 3) + "\xff\xd9"),
              HasSubstr("bad.jpg: damaged ("));
  EXPECT_THAT(refusal(""), HasSubstr("not an image"));
  EXPECT_THAT(refusal("plain text"), HasSubstr("not an image"));
  EXPECT_THAT(refusal(png.substr(0, png.size() / 2)), HasSubstr("bad.jpg"));
}

}  // namespace
}  // namespace attnlab::image_file_test
