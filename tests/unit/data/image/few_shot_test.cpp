// Few training images per class: how many, which, and what cannot be had.
#include "framework/data/image/few_shot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/message_of.h"

namespace attnlab::few_shot_test {
namespace {

using attnlab::testing::mentions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kImages = 400;

DatasetInfo three_classes() {
  DatasetInfo info;
  info.name = "toy";
  info.classes = 3;
  info.class_names = {"cat", "dog", "fish"};
  return info;
}

/// 200 cats, 150 dogs, 50 fish, mixed.
std::vector<std::int64_t> labels() {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < kImages; ++i) {
    const std::int64_t at = i * 147 % kImages;
    all.push_back(at < 200 ? 0 : at < 350 ? 1 : 2);
  }
  return all;
}

std::vector<std::int64_t> every_image() {
  std::vector<std::int64_t> all(kImages);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int64_t> few(const FewShotOptions& options,
                              const std::vector<std::int64_t>& indices = every_image()) {
  return few_of_each_class(indices, labels(), three_classes(), options);
}

std::vector<std::int64_t> counts(const std::vector<std::int64_t>& indices) {
  std::vector<std::int64_t> all(3, 0);
  const std::vector<std::int64_t> classes = labels();
  for (const std::int64_t index : indices) ++all[std::size_t(classes[std::size_t(index)])];
  return all;
}

TEST(FewShot, TakesSoManyOfEachClass) {
  for (const std::int64_t shots : {1, 2, 5}) {
    const auto found = few({.per_class = shots});
    EXPECT_THAT(counts(found), ElementsAre(shots, shots, shots));
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
  }
  EXPECT_THAT(counts(few({.share = 0.05})), ElementsAre(10, 8, 3)) << "7.5 and 2.5, rounded";
  EXPECT_THAT(counts(few({.share = 0.001})), ElementsAre(1, 1, 1)) << "one at least";
  EXPECT_EQ(few({.share = 1}), every_image());
  EXPECT_EQ(few({}), every_image()) << "nothing is asked for";
}

TEST(FewShot, TakesTheSameForTheSameSeedAndOthersForAnother) {
  const auto first = few({.per_class = 5, .seed = 1});
  EXPECT_EQ(first, few({.per_class = 5, .seed = 1}));
  EXPECT_NE(first, few({.per_class = 5, .seed = 2}));
  const auto two = few({.per_class = 2, .seed = 1});
  EXPECT_TRUE(std::includes(first.begin(), first.end(), two.begin(), two.end()))
      << "fewer are a part of more";
}

TEST(FewShot, TakesNoImageThatIsHeldOut) {
  std::vector<std::int64_t> left;
  for (const std::int64_t index : every_image()) {
    if (index % 2 == 0) left.push_back(index);
  }
  for (const std::int64_t index : few({.per_class = 20}, left)) EXPECT_EQ(index % 2, 0);
}

TEST(FewShot, RefusesClassesWithTooFewImagesOrNone) {
  EXPECT_THAT(message_of<OptionError>([] { few({.per_class = 51}); }),
              mentions("few_shot.per_class:", "\"fish\"", "'toy'", "50 training images",
                       "not 51; ask for fewer"));
  std::vector<std::int64_t> without;
  const auto classes = labels();
  for (const std::int64_t index : every_image()) {
    if (classes[std::size_t(index)] != 1) without.push_back(index);
  }
  EXPECT_THAT(message_of<OptionError>([&] { few({.per_class = 1}, without); }),
              mentions("\"dog\"", "'toy'", "0 training images", "not 1"));
  EXPECT_THAT(message_of<OptionError>([&] { few({.share = 0.1}, without); }),
              mentions("few_shot.share:", "\"dog\"", "'toy'", "0 training images"));
  EXPECT_THAT(message_of<OptionError>([] { few({.per_class = 1, .share = 0.1}); }),
              HasSubstr("leave one of them out"));
}

}  // namespace
}  // namespace attnlab::few_shot_test
