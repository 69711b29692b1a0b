// Libraries that were built elsewhere, in a bundle.
#include "framework/sharing/binaries.h"

#include <gmock/gmock.h>

#include "tests/unit/sharing/install_fixture.h"

namespace attnlab::testing::binaries_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;

class BinariesTest : public ::testing::Test {
 protected:
  std::string built(const std::string& name, const std::string& bytes) {
    return folder_.write(name, bytes);
  }
  /// "added" or why not.
  std::string answer(const std::string& file) {
    try {
      add_binary(file, here_, contents_, files_);
      return "added";
    } catch (const Error& error) {
      return error.what();
    }
  }

  TempFolder folder_;
  const Manifest here_ =
      read_manifest(folder_.write("here.so", library("acme/sharp", "1.0.0", "here")));
  sharing::Contents contents_ = made_contents();
  std::vector<sharing::ArchiveFile> files_;
};

TEST_F(BinariesTest, AreListedWithTheirStamps) {
  EXPECT_EQ(answer(folder_ / "here.so"), "added");
  EXPECT_EQ(answer(built("there.so", library("acme/sharp", "1.0.0", "there"))), "added");
  ASSERT_EQ(contents_.binaries.size(), 2U);
  EXPECT_EQ(contents_.binaries[1].path, "binaries/1/sharp.so");
  EXPECT_EQ(contents_.binaries[1].stamp.at("compiler"), "there");
  EXPECT_EQ(files_[1].bytes, library("acme/sharp", "1.0.0", "there"));
}

TEST_F(BinariesTest, AreOfTheSameSource) {
  EXPECT_THAT(answer(built("old.so", library("acme/sharp", "0.9.0", "there"))),
              mentions("old.so:", "acme/sharp 0.9.0", "source"));
  std::string text = manifest_text("acme/sharp", "1.0.0", "there");
  text.replace(text.find("made up"), 7, "made in");
  EXPECT_THAT(answer(built("other.so", library_with_section(kManifestSection, text))),
              HasSubstr("its manifest differs"));
  EXPECT_THAT(answer(built("text.so", "nonsense")), HasSubstr("text.so"));
  EXPECT_TRUE(files_.empty());
}

TEST_F(BinariesTest, AreOnePerStamp) {
  EXPECT_EQ(answer(folder_ / "here.so"), "added");
  EXPECT_THAT(answer(built("again.so", library("acme/sharp", "1.0.0", "here"))),
              mentions("again.so:", "its stamp", "already"));
}

}  // namespace
}  // namespace attnlab::testing::binaries_test
