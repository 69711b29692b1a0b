// The .ts format: what it means, and what is said of files that are not in it.
#include "framework/data/formats/ts_file.h"

#include <cmath>

#include "tests/support/data_files.h"
#include "tests/support/temp_folder.h"

namespace attnlab::ts_file_test {
namespace {

using attnlab::testing::says;
using attnlab::testing::Words;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::StartsWith;

const std::string kHeader =
    "# two channels\n"
    "@problemName Made Up\n"
    "@timeStamps false\n"
    "@missing false\n"
    "@univariate false\n"
    "@dimensions 2\n"
    "@equalLength false\n"
    "@classLabel true left right\n"
    "@data\n";

TsFile parse(const std::string& text) { return parse_ts(text, "a.ts"); }

std::string refusal(const std::string& text) {
  return message_of<DataError>([&] { parse(text); });
}

std::vector<float> channel(const TsFile& file, std::int64_t index, std::int64_t channel) {
  const auto at = static_cast<std::size_t>(index * file.channels + channel);
  return {file.values.begin() + file.offsets[at], file.values.begin() + file.offsets[at + 1]};
}

TEST(TsFile, ReadsCasesOfUnequalLength) {
  const TsFile file = parse(kHeader + "1,-2.5,3e-2:4,5,6:right\n7:8:left\n");
  EXPECT_EQ(file.problem, "Made Up");
  EXPECT_EQ(file.channels, 2);
  EXPECT_EQ(file.cases(), 2);
  EXPECT_THAT(file.classes, ElementsAre("left", "right"));
  EXPECT_THAT(file.labels, ElementsAre(1, 0));
  EXPECT_THAT(file.targets, IsEmpty());
  EXPECT_THAT(channel(file, 0, 0), ElementsAre(1, -2.5F, 3e-2F));
  EXPECT_THAT(channel(file, 0, 1), ElementsAre(4, 5, 6));
  EXPECT_THAT(channel(file, 1, 1), ElementsAre(8));
  EXPECT_EQ(file.length(0), 3);
  EXPECT_EQ(file.length(1), 1);
}

TEST(TsFile, ReadsDirectivesInAnyOrderAndCase) {
  const TsFile file = parse(
      "@CLASSLABEL true a b\n@EqualLength TRUE\n%note\n\n@univariate True\n@serieslength 2\n"
      "@DATA\n1,2:b\n# between\n3,4:a\n");
  EXPECT_EQ(file.channels, 1);
  EXPECT_THAT(file.labels, ElementsAre(1, 0));
  EXPECT_THAT(file.values, ElementsAre(1, 2, 3, 4));
}

TEST(TsFile, ReadsWindowsLineEndsTrailingBlanksAndNoLastLineEnd) {
  std::string text = "\xef\xbb\xbf" + kHeader + "1 , 2\t:\t3 ,4 : left \n5,6:7,8:right";
  std::string windows;
  for (const char c : text) windows += c == '\n' ? std::string("  \r\n") : std::string(1, c);
  for (const std::string& one : {text, windows}) {
    const TsFile file = parse(one);
    EXPECT_THAT(file.values, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(file.labels, ElementsAre(0, 1));
  }
}

TEST(TsFile, ReadsMissingValuesAndEmptyChannels) {
  const TsFile file = parse(kHeader + "?,1,NaN:2,?:left\n:3,4:right\n5: :left\n");
  const std::vector<float> first = channel(file, 0, 0);
  ASSERT_EQ(first.size(), 3U);
  EXPECT_TRUE(std::isnan(first[0]) && std::isnan(first[2]));
  EXPECT_EQ(first[1], 1);
  EXPECT_THAT(channel(file, 1, 0), IsEmpty());
  EXPECT_THAT(channel(file, 1, 1), ElementsAre(3, 4));
  EXPECT_THAT(channel(file, 2, 1), IsEmpty());
  EXPECT_EQ(file.length(1), 2);
}

TEST(TsFile, ReadsRegressionTargetsAndUnlabelledCases) {
  const TsFile targets = parse("@univariate true\n@targetLabel true\n@data\n1,2:0.25\n3:-1e3\n");
  EXPECT_TRUE(targets.has_targets);
  EXPECT_THAT(targets.targets, ElementsAre(0.25, -1000));
  EXPECT_THAT(targets.classes, IsEmpty());
  const TsFile bare = parse("@classLabel false\n@dimensions 2\n@data\n1,2:3\n");
  EXPECT_EQ(bare.channels, 2);
  EXPECT_THAT(bare.values, ElementsAre(1, 2, 3));
  EXPECT_THAT(bare.labels, IsEmpty());
}

TEST(TsFile, CountsChannelsWhereTheHeaderDoesNot) {
  EXPECT_EQ(parse("@classLabel true a\n@data\n1:2:3:a\n").channels, 3);
  EXPECT_EQ(parse("@classLabel false\n@data\n1:2:3\n").channels, 3);
}

TEST(TsFile, ReadsLabelsWhateverTheirCase) {
  EXPECT_THAT(
      parse("@univariate true\n@classLabel true Walking RUNNING\n@data\n1:running\n").labels,
      ElementsAre(1));
  // Two labels that differ in case alone are two labels.
  EXPECT_THAT(parse("@univariate true\n@classLabel true a A\n@data\n1:A\n2:a\n").labels,
              ElementsAre(1, 0));
}

TEST(TsFile, ReadsNumbersToTheNearestFloat) {
  const TsFile file = parse(
      "@univariate true\n@classLabel false\n@data\n"
      "0.1,+2.5,-0,1e-45,1e-60,-1e-400,3.4028235e38,16777217,.5,7.,1E2\n");
  EXPECT_THAT(file.values,
              ElementsAre(0.1F, 2.5F, -0.0F, 1e-45F, 0, 0, 3.4028235e38F, 16777216, 0.5F, 7, 100));
}

struct Damage {
  const char* name;
  std::string text;
  Words message;  // the place first
};

class DamagedTsFile : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedTsFile, IsRefusedWithItsPlaceAndARemedy) {
  const std::string message = refusal(GetParam().text);
  EXPECT_THAT(message, StartsWith(GetParam().message.front()));
  EXPECT_THAT(message, says(GetParam().message));
}

const std::string kOne = "@univariate true\n@classLabel true a b\n";

INSTANTIATE_TEST_SUITE_P(
    Every, DamagedTsFile,
    ::testing::Values(
        Damage{"Empty", "", {"a.ts:1:", "before @data"}},
        Damage{"HeaderOnly", "@dimensions 2\n", {"a.ts:1:", "before @data"}},
        Damage{"NoCases", kOne + "@data\n\n#\n", {"a.ts:5:", "no cases", "@data"}},
        Damage{"DataBeforeHeader", "1,2:a\n", {"a.ts:1:1:", "found '1,2:a' before @data"}},
        Damage{"UnknownDirective",
               " @seriesLenght 3\n",
               {"a.ts:1:2:", "'@seriesLenght'", "'@serieslength'"}},
        Damage{"DirectiveTwice",
               "@missing false\n@Missing true\n",
               {"a.ts:2:1:", "@Missing stands twice"}},
        Damage{"LateDirective",
               kOne + "@data\n1:a\n@missing true\n",
               {"a.ts:5:1:", "directive below @data"}},
        Damage{"NoValue", "@dimensions\n", {"a.ts:1:12:", "@dimensions:", "must follow"}},
        Damage{"NoTruth", "@univariate yes\n", {"a.ts:1:13:", "true or false", "'yes'"}},
        Damage{"NoCount", "@dimensions 0\n", {"a.ts:1:13:", "from 1 on", "'0'"}},
        Damage{"HugeCount", "@dimensions 99999999999999999999\n", {"a.ts:1:13:", "from 1 on"}},
        Damage{"TwoValues", "@dimensions 2 3\n", {"a.ts:1:15:", "'3' after", "@dimensions"}},
        Damage{"NoLabels",
               "@classLabel true\n",
               {"a.ts:1:17:", "@classLabel true", "labels must follow"}},
        Damage{"LabelsDenied",
               "@classLabel false a b\n",
               {"a.ts:1:19:", "@classLabel false, yet labels follow"}},
        Damage{"LabelTwice", "@classLabel true a b a\n", {"a.ts:1:22:", "'a'", "twice"}},
        Damage{"NeitherLabel",
               "@univariate true\n@data\n1\n",
               {"a.ts:2:1:", "neither @classLabel nor @targetLabel"}},
        Damage{"BothLabels",
               kOne + "@targetLabel true\n@data\n1:a\n",
               {"a.ts:4:1:", "@classLabel true", "@targetLabel true"}},
        Damage{"UnivariateWithTwo",
               kOne + "@dimensions 2\n@data\n1:a\n",
               {"a.ts:4:1:", "@univariate true, yet @dimensions 2"}},
        Damage{"TimeStamps", "@timeStamps true\n", {"a.ts:1:13:", "time stamps"}},
        Damage{"HiddenTimeStamps",
               kOne + "@data\n(0,1),(1,2):a\n",
               {"a.ts:4:1:", "'('", "time stamps"}},
        Damage{"Word", kOne + "@data\n1,x2:a\n", {"a.ts:4:3:", "a number", "'x2:a'"}},
        Damage{
            "HalfNumber", kOne + "@data\n1.5x,2:a\n", {"a.ts:4:4:", "after a number", "'x,2:a'"}},
        Damage{"Infinity", kOne + "@data\n1,inf:a\n", {"a.ts:4:3:", "infinity"}},
        Damage{"TooLarge", kOne + "@data\n1,1e39:a\n", {"a.ts:4:3:", "'1e39'", "too large"}},
        Damage{"FarTooLarge", kOne + "@data\n1,-1e999:a\n", {"a.ts:4:3:", "'-1e999' is too large"}},
        Damage{"MissingNumber", kOne + "@data\n1,,2:a\n", {"a.ts:4:3:", "missing after ','"}},
        Damage{"LastComma", kOne + "@data\n1,:a\n", {"a.ts:4:3:", "missing after ','"}},
        Damage{"CutOff",
               kHeader + "1,2:3,4:left\n1,2:3\n",
               {"a.ts:11:6:", "the line ends", "':'", "label"}},
        Damage{"TooFewChannels",
               kHeader + "1,2\n",
               {"a.ts:10:4:", "expected 2 channels", "@dimensions", "found 1"}},
        Damage{"TooManyChannels",
               kHeader + "1:2:3:left\n",
               {"a.ts:10:5:", "expected 2 channels", "@dimensions", "found more"}},
        Damage{"OtherChannelsThanFirst",
               "@classLabel true a\n@data\n1:2:a\n1:a\n",
               {"a.ts:4:3:", "expected a number"}},
        Damage{"UnknownLabel",
               kHeader + "1:2:lfet\n",
               {"a.ts:10:5:", "'lfet'", "@classLabel", "'left'"}},
        Damage{"NoTarget",
               "@univariate true\n@targetLabel true\n@data\n1:high\n",
               {"a.ts:4:3:", "the target", "'high'"}},
        Damage{"InfiniteTarget",
               "@univariate true\n@targetLabel true\n@data\n1:inf\n",
               {"a.ts:4:3:", "the target", "'inf'"}},
        Damage{"TargetBeyondFloat32",
               "@univariate true\n@targetLabel true\n@data\n1:3e38\n1:-1e300\n",
               {"a.ts:5:3:", "'-1e300'", "float32"}},
        Damage{"LabelWhereNone",
               "@univariate true\n@classLabel false\n@data\n1,2:a\n",
               {"a.ts:4:4:", "expected 1 channels"}},
        Damage{"UnequalLength",
               kOne + "@equalLength true\n@seriesLength 3\n@data\n1,2,3:a\n1,2:a\n",
               {"a.ts:7:1:", "channel 1", "2 values", "@equalLength", "3"}},
        Damage{"UnequalToFirst",
               kOne + "@equalLength true\n@data\n1,2:a\n1,2,3:a\n",
               {"a.ts:6:1:", "channel 1", "3 values", "@equalLength", "2"}},
        Damage{"NothingInCase", kHeader + ":  :left\n", {"a.ts:10:1:", "no values", "channel"}},
        Damage{"Bytes",
               kOne + std::string("@data\n\x01\x80\x00:a\n", 12),
               {"a.ts:4:1:", "a number", "'\\x01\\x80\\x00:a'"}}),
    [](const auto& info) { return info.param.name; });

TEST(TsFile, ReadsGzippedFilesAndNamesTheFileInErrors) {
  const testing::TempFolder folder;
  const std::string good = folder.write("x.ts.gz", testing::gzipped(kHeader + "1:2:left\n"));
  EXPECT_EQ(read_ts(good).cases(), 1);
  const std::string bad = folder.write("y.ts", kHeader + "1:2:up\n");
  EXPECT_THAT(message_of<DataError>([&] { read_ts(bad); }), StartsWith(bad + ":10:5: "));
}

// Whatever is cut off a whole file leaves a file with fewer cases or an error with its place.
TEST(TsFile, NoticesCutsInTheMiddleOfACase) {
  const std::string whole = kHeader + "1,2:3,4:left\n5,6:7,8:right\n";
  for (std::size_t size = kHeader.size(); size < whole.size(); ++size) {
    try {
      const TsFile file = parse(whole.substr(0, size));
      const std::string tail = whole.substr(size);
      EXPECT_TRUE(tail[0] == '\n' || whole[size - 1] == '\n') << size;
      EXPECT_EQ(file.cases(), size + 1 < whole.size() ? 1 : 2);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.ts:"));
    }
  }
}

}  // namespace
}  // namespace attnlab::ts_file_test
