#include <cmath>
#include <vector>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::synthetic_images_test {
namespace {

using testing::make_dataset;

constexpr const char* kId = "attnlab/synthetic_images";

TEST(SyntheticImages, HaveTheShapeAndNumberAskedFor) {
  const auto dataset =
      make_dataset(kId, "{classes: 3, size: 12, channels: 2, train: 9, validation: 4, test: 5}");
  EXPECT_EQ(dataset->size(Split::train), 9);
  EXPECT_EQ(dataset->size(Split::validation), 4);
  EXPECT_EQ(dataset->size(Split::test), 5);
  EXPECT_EQ(dataset->info().classes, 3);
  EXPECT_EQ(dataset->info().class_names.size(), 3U);
  EXPECT_EQ(dataset->info().field("image").shape, (std::vector<std::int64_t>{2, 12, 12}));
  const NamedTensors example = dataset->example(Split::train, 8, nullptr);
  EXPECT_EQ(example.at("image").sizes(), (std::vector<std::int64_t>{2, 12, 12}));
  EXPECT_EQ(example.at("class").scalar_type(), at::kLong);
  EXPECT_THROW(make_dataset(kId, "{test: 9223372036854775807}"), ConfigError);
}

TEST(SyntheticImages, AreAFunctionOfSeedSplitAndIndex) {
  const auto one = make_dataset(kId, "{}", 1), again = make_dataset(kId, "{}", 1);
  const auto other = make_dataset(kId, "{}", 2);
  const auto image = [](const Dataset& dataset, Split split, std::int64_t index) {
    return dataset.example(split, index, nullptr).at("image");
  };
  const Tensor reference = image(*one, Split::train, 5);
  image(*again, Split::test, 3);  // the order of asking must not matter
  EXPECT_TRUE(reference.equal(image(*again, Split::train, 5)));
  EXPECT_FALSE(reference.equal(image(*one, Split::train, 6)));
  EXPECT_FALSE(reference.equal(image(*one, Split::test, 5)));
  EXPECT_FALSE(reference.equal(image(*other, Split::train, 5)));
  EXPECT_EQ(one->info().fingerprint, again->info().fingerprint);
  EXPECT_NE(one->info().fingerprint, other->info().fingerprint);
  EXPECT_NE(one->info().fingerprint, make_dataset(kId, "{noise: 0.4}", 1)->info().fingerprint);
}

// Without noise and shift, the image is the grating of the class: checked by its definition.
TEST(SyntheticImages, AreGratingsOfTheirClass) {
  const auto dataset = make_dataset(kId, "{classes: 6, size: 18, noise: 0, shift: 0}");
  const double pi = std::acos(-1.0);
  for (std::int64_t i = 0; i < 20; ++i) {
    const NamedTensors example = dataset->example(Split::train, i, nullptr);
    const double angle = pi * double(example.at("class").item<std::int64_t>()) / 6;
    for (int y = 0; y < 18; ++y) {
      for (int x = 0; x < 18; ++x) {
        const double along = (x - 9) * std::cos(angle) + (y - 9) * std::sin(angle);
        ASSERT_NEAR(example.at("image")[0][y][x].item<double>(), std::sin(2 * pi * along / 6),
                    1e-6);
      }
    }
  }
}

// Each class's mean over the training images must recognise test images: else nothing can be learnt
// from them in a minute. Chance is 10 %.
TEST(SyntheticImages, CanBeToldApartByTheirClassMeans) {
  const auto dataset = make_dataset(kId, "{train: 2000, test: 500}");
  const std::int64_t pixels = 28 * 28;
  Tensor means = at::zeros({10, pixels}), counts = at::zeros({10, 1});
  for (std::int64_t i = 0; i < 2000; ++i) {
    const NamedTensors example = dataset->example(Split::train, i, nullptr);
    const std::int64_t label = example.at("class").item<std::int64_t>();
    means[label] += example.at("image").flatten();
    counts[label] += 1;
  }
  EXPECT_GT(counts.min().item<double>(), 120);
  means /= counts;
  int right = 0;
  for (std::int64_t i = 0; i < 500; ++i) {
    const NamedTensors example = dataset->example(Split::test, i, nullptr);
    const Tensor distance = (means - example.at("image").flatten()).square().sum(1);
    right += distance.argmin().item<std::int64_t>() == example.at("class").item<std::int64_t>();
  }
  EXPECT_GT(right, 400);
}

TEST(SyntheticImages, HaveTheNoiseAskedFor) {
  const auto noisy = make_dataset(kId, "{noise: 2, shift: 0, train: 50, channels: 3}");
  const auto clean = make_dataset(kId, "{noise: 0, shift: 0, train: 50, channels: 3}");
  double squares = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const Tensor noise = noisy->example(Split::train, i, nullptr).at("image") -
                         clean->example(Split::train, i, nullptr).at("image");
    squares += noise.square().mean().item<double>() / 50;
    EXPECT_FALSE(noise[0].equal(noise[1]));
  }
  EXPECT_NEAR(std::sqrt(squares), 2.0, 0.03);
}

}  // namespace
}  // namespace attnlab::synthetic_images_test
