// Expected numbers: what counts as the same.
#include "framework/sharing/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/support/deadline.h"
#include "tests/support/message_of.h"
#include "tests/unit/sharing/made_bundle.h"

namespace attnlab::testing::expected_test {
namespace {

using attnlab::testing::mentions;
using sharing::compare_tensors;
using ::testing::HasSubstr;

/// A safetensors file of one float32 tensor [2].
std::string file_of(float first, float second, const std::string& name = "out") {
  const std::string header =
      "{\"" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::uint64_t size = header.size();
  const float values[] = {first, second};
  return std::string(reinterpret_cast<const char*>(&size), 8) + header +
         std::string(reinterpret_cast<const char*>(values), 8);
}

std::string problem(const std::string& found) {
  return compare_tensors(file_of(1, -2), found).problem;
}

TEST(ExpectedNumbers, HoldToRounding) {
  EXPECT_EQ(problem(file_of(1, -2)), "");
  EXPECT_EQ(problem(file_of(1.00001F, -2.0001F)), "");
  EXPECT_THAT(problem(file_of(1, -2.01F)), HasSubstr("at place 1, expected -2"));
  EXPECT_THAT(problem(file_of(1, std::numeric_limits<float>::quiet_NaN())), HasSubstr("place 1"));
  EXPECT_THAT(problem(file_of(1, -2, "other")), HasSubstr("'out' is missing"));
}

/// A safetensors file with this header and 4 bytes of data.
std::string file_with(const std::string& header) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + std::string(4, '\0');
}

TEST(ExpectedNumbers, AreThoseThatAreNamedAndNoOthers) {
  EXPECT_THAT(compare_tensors(file_with("{}"), file_with("{}")).problem,
              HasSubstr("holds no tensor"));
  EXPECT_THAT(compare_tensors(file_with("{}"), file_of(1, 2)).problem,
              HasSubstr("holds no tensor"));
  const std::string two = file_with(R"({"out":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                    R"("more":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})");
  const std::string one = file_with(R"({"out":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})");
  EXPECT_EQ(compare_tensors(two, two).problem, "");
  EXPECT_THAT(compare_tensors(one, two).problem, mentions("'more'", "not expected"));
  EXPECT_THAT(compare_tensors(two, one).problem, HasSubstr("'more' is missing"));
}

TEST(ExpectedNumbers, SayWhichTypesAreCompared) {
  const std::string half = file_with(R"({"out":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})");
  EXPECT_THAT(compare_tensors(half, half).problem, mentions("F16", "not compared"));
}

TEST(ExpectedNumbers, RefuseNestedHeaders) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THROW(compare_tensors(file_with("{\"a\":" + deep + "}"), file_of(1, 2)),
               sharing::BundleError);
}

TEST(ExpectedNumbers, KnowInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(compare_tensors(file_of(-infinity, 0), file_of(-infinity, 0)).problem, "");
  EXPECT_NE(compare_tensors(file_of(-infinity, 0), file_of(infinity, 0)).problem, "");
  EXPECT_NE(compare_tensors(file_of(-infinity, 0), file_of(-1e30F, 0)).problem, "");
}

// LibTorch rounds a float32 NaN to the bits ffff with AVX2, and to 7fc0 without.
TEST(ExpectedNumbers, KnowThatNotANumberHasManyBits) {
  const std::string empty =
      file_with(R"({"out":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})");
  const auto file = [&](const char* numbers) {
    return empty.substr(0, empty.size() - 4) + std::string(numbers, 4);
  };
  const std::string avx2 = file("\xff\xff\xff\xff"), plain = file("\xc0\x7f\xc0\x7f");
  EXPECT_EQ(compare_tensors(avx2, plain).problem, "");
  EXPECT_EQ(compare_tensors(plain, avx2).problem, "");
  EXPECT_NE(compare_tensors(plain, empty).problem, "");
  EXPECT_NE(compare_tensors(empty, avx2).problem, "");
}

TEST(ExpectedNumbers, RefuseDamagedFiles) {
  const std::string whole = file_of(1, 2);
  for (std::size_t size = 0; size < whole.size(); size += 3) {
    EXPECT_THROW(compare_tensors(whole, whole.substr(0, size)), sharing::BundleError) << size;
  }
  EXPECT_THROW(compare_tensors(std::string(16, '\xff'), whole), sharing::BundleError);
}

TEST(ExpectedNumbers, AreWholeCases) {
  sharing::Bundle bundle;
  bundle.contents = made_contents();
  EXPECT_TRUE(expected_cases(bundle).empty());
  bundle.files = {{"expected/a/in.safetensors", ""},
                  {"expected/a/out.safetensors", ""},
                  {"expected/a/options.json", "{}"}};
  EXPECT_THAT(expected_cases(bundle), ::testing::ElementsAre("expected/a"));
  bundle.files.push_back({"expected/README.md", "how they were made"});
  EXPECT_THAT(expected_cases(bundle), ::testing::ElementsAre("expected/a"));
  bundle.files.erase(bundle.files.begin() + 2);
  EXPECT_THROW(expected_cases(bundle), sharing::BundleError);
}

TEST(ExpectedNumbers, MayBeOfManyCases) {
  const testing::Deadline deadline;  // for what takes a time that grows with the square
  sharing::Bundle bundle;
  bundle.contents = made_contents();
  constexpr std::size_t kCases = 50'000;
  for (std::size_t i = 0; i < kCases; ++i) {
    for (const char* name : {"in.safetensors", "out.safetensors", "options.json"}) {
      bundle.files.push_back({"expected/" + std::to_string(i) + "/" + name, ""});
    }
  }
  EXPECT_EQ(expected_cases(bundle).size(), kCases);
}

TEST(ExpectedNumbers, MadeUpOnesAreTheSameEachTime) {
  EXPECT_EQ(compare_tensors(sharing::made_up_tensors(), sharing::made_up_tensors()).largest, 0);
  EXPECT_EQ(sharing::made_up_tensors().size(), sharing::made_up_tensors().size());
}

}  // namespace
}  // namespace attnlab::testing::expected_test
