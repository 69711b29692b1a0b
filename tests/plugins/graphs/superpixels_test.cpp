// Superpixels: segments of known images, and graphs as the published code defines them.
#include <algorithm>
#include <cmath>

#include "framework/data/image/cifar_files.h"
#include "plugins/datasets/graphs/superpixels/slic.h"
#include "tests/support/data_files.h"
#include "tests/support/graph_sets.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace attnlab::superpixels_test {
namespace {

using ::testing::HasSubstr;
using testing::idx_file;
using testing::make_dataset;
using testing::message_of;

TEST(Slic, LaysCentresAsRegularGridDoes) {
  // skimage.util.regular_grid((1, 32, 32), n): spacing sqrt(1024 / n).
  EXPECT_EQ(slic_grid(32, 32, 200), (SlicGrid{1, 2}));
  EXPECT_EQ(slic_grid(32, 32, 160), (SlicGrid{1, 3}));
  EXPECT_EQ(slic_grid(28, 28, 95), (SlicGrid{1, 3}));
  EXPECT_EQ(slic_grid(28, 28, 49), (SlicGrid{2, 4}));
  EXPECT_EQ(slic_grid(4, 4, 16), (SlicGrid{0, 1}));
}

TEST(Slic, CutsAPlainImageIntoSquares) {
  const ImageValues image{1, 15, 15, std::vector<double>(225, 0.5)};
  const std::vector<std::int32_t> segments = slic(image, 9, 10);
  for (std::size_t p = 0; p < segments.size(); ++p) {
    EXPECT_EQ(segments[p], std::int32_t(p / 15 / 5 * 3 + p % 15 / 5)) << p;
  }
}

TEST(Slic, FollowsAnEdgeBetweenColours) {
  ImageValues image{3, 16, 16, {}};
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < 256; ++p) image.values.push_back(p % 16 < 6 ? c == 0 : c == 2);
  }
  const std::vector<std::int32_t> segments = slic(image, 16, 10);
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 6; ++x) {
      for (int other = 6; other < 16; ++other) {
        EXPECT_NE(segments[std::size_t(16 * y + x)], segments[std::size_t(16 * y + other)]);
      }
    }
  }
}

/// A smooth image with detail, the same in Python: ((7 y + 13 x + 29 c) % 50 + 100 (y + x > 20)) /
/// 150.
ImageValues test_image(std::int64_t channels, std::int64_t size) {
  ImageValues image{channels, size, size, {}};
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < size; ++y) {
      for (std::int64_t x = 0; x < size; ++x) {
        image.values.push_back(double((7 * y + 13 * x + 29 * c) % 50 + (y + x > 20 ? 100 : 0)) /
                               149.0);
      }
    }
  }
  return image;
}

/// How many segments, and the sum over pixels p (row by row) of p mod 101 times the segment.
std::pair<int, std::int64_t> count_and_sum(std::int64_t channels, std::int64_t size,
                                           std::int64_t count, double compactness,
                                           SegmentSize rule) {
  const std::vector<std::int32_t> segments =
      slic(test_image(channels, size), count, compactness, rule);
  std::int64_t sum = 0;
  for (std::size_t p = 0; p < segments.size(); ++p) sum += std::int64_t(p % 101) * segments[p];
  return {*std::max_element(segments.begin(), segments.end()) + 1, sum};
}

TEST(Slic, AgreesWithScikitImageFrom017On) {
  // Of segmentation.slic of version 0.19.3, on float64 images.
  const auto found = [](std::int64_t channels, std::int64_t size, std::int64_t count,
                        double compactness) {
    return count_and_sum(channels, size, count, compactness, SegmentSize::of_centres);
  };
  EXPECT_EQ(found(3, 32, 160, 10), std::pair(102, std::int64_t{2506625}));
  EXPECT_EQ(found(3, 32, 200, 10), std::pair(170, std::int64_t{4294761}));
  EXPECT_EQ(found(1, 28, 90, 0.25), std::pair(81, std::int64_t{1623709}));
  EXPECT_EQ(found(1, 28, 49, 0.25), std::pair(49, std::int64_t{870752}));
  EXPECT_EQ(found(3, 32, 60, 1), std::pair(14, std::int64_t{247298}));
}

TEST(Slic, GoesByTheNumberAskedForAsScikitImageDidBefore) {
  // Of loops in Python after version 0.16.2's slic_superpixels.py and _slic.pyx; the same loops
  // find the numbers above where they go by the centres.
  const auto found = [](std::int64_t channels, std::int64_t size, std::int64_t count,
                        double compactness) {
    return count_and_sum(channels, size, count, compactness, SegmentSize::of_asked);
  };
  EXPECT_EQ(found(3, 32, 160, 10), std::pair(106, std::int64_t{2610940}));
  // 256 centres for each of these; for 170 and fewer a segment has three pixels at least, not two.
  EXPECT_EQ(found(3, 32, 200, 10), std::pair(170, std::int64_t{4294761}));
  EXPECT_EQ(found(3, 32, 171, 10), std::pair(170, std::int64_t{4294761}));
  EXPECT_EQ(found(3, 32, 170, 10), std::pair(147, std::int64_t{3716963}));
  EXPECT_EQ(found(3, 32, 165, 10), std::pair(147, std::int64_t{3716963}));
  EXPECT_EQ(found(1, 28, 90, 0.25), std::pair(81, std::int64_t{1623709}));
}

TEST(Slic, TriesEveryNumberAskedFor) {
  // 170 segments are too many, 147 are not: of the same centres, but for another number.
  const auto segments_at_most_150 = [](SegmentSize rule) {
    return at_most_segments(test_image(3, 32), 150, 50, 10, rule);
  };
  EXPECT_EQ(segments_at_most_150(SegmentSize::of_asked), slic(test_image(3, 32), 170, 10));
  EXPECT_EQ(segments_at_most_150(SegmentSize::of_centres),
            slic(test_image(3, 32), 163, 10, SegmentSize::of_centres));
}

/// Four training and two test images of 28 x 28.
class Superpixels : public ::testing::Test {
 protected:
  Superpixels() {
    for (const auto& [prefix, count] : {std::pair{"train", 4u}, std::pair{"t10k", 2u}}) {
      std::string pixels, labels;
      for (std::uint32_t i = 0; i < count; ++i) {
        for (int y = 0; y < 28; ++y) {
          for (int x = 0; x < 28; ++x) {
            const double r = std::hypot(y - 12.0 - i, x - 15.0);
            pixels += static_cast<char>(r < 8 ? 250 - 20 * r : 0);
          }
        }
        labels += static_cast<char>(i);
      }
      folder_.write(std::string(prefix) + "-images-idx3-ubyte", idx_file({count, 28, 28}, pixels));
      folder_.write(std::string(prefix) + "-labels-idx1-ubyte", idx_file({count}, labels));
    }
  }
  std::shared_ptr<Dataset> open(const std::string& more = "") const {
    return make_dataset("superpixels",
                        "{name: mnist, root: " + folder_.path() + ", validation: 1" + more + "}");
  }

  testing::TempFolder folder_;
};

TEST_F(Superpixels, AreGraphsOfEightNeighbours) {
  const auto dataset = open();
  EXPECT_EQ(dataset->size(Split::train), 3);
  EXPECT_EQ(dataset->size(Split::validation), 1);
  EXPECT_EQ(dataset->size(Split::test), 2);
  const NamedTensors graph = dataset->example(Split::train, 0, nullptr);
  EXPECT_EQ(graph.at("class").item<std::int64_t>(), 1);  // the first image validates
  const Tensor x = graph.at("x@node"), edges = graph.at("edges@edge>node"), e = graph.at("e@edge");
  const std::int64_t n = x.size(0);
  ASSERT_EQ(x.size(1), 3);
  EXPECT_LE(n, 75);
  EXPECT_GT(n, 40);
  ASSERT_EQ(edges.size(0), 8 * n);
  EXPECT_TRUE(at::bincount(edges.select(1, 0), {}, n).eq(8).all().item<bool>());
  // The weights, from the places alone, in double precision.
  const Tensor place = x.narrow(1, 1, 2).to(at::kDouble);
  const Tensor d = (place.unsqueeze(0) - place.unsqueeze(1)).norm(2, 2);
  const Tensor scale = std::get<0>(d.sort(1)).narrow(1, 0, 9).sum(1, true) / 8 + 1e-8;
  Tensor a = (-(d / scale).square()).exp();
  a = (a + a.t()) / 2;
  a.fill_diagonal_(0);
  const Tensor least = std::get<0>(std::get<0>(a.topk(8, 1)).min(1));
  for (std::int64_t k = 0; k < edges.size(0); ++k) {
    const std::int64_t i = edges[k][0].item<std::int64_t>(), j = edges[k][1].item<std::int64_t>();
    EXPECT_NEAR(e[k][0].item<double>(), a[i][j].item<double>(), 1e-5);
    EXPECT_GE(a[i][j].item<double>(), least[i].item<double>() - 1e-5);
  }
}

TEST_F(Superpixels, MayWeighColours) {
  const Tensor place = open()->example(Split::train, 0, nullptr).at("e@edge");
  const Tensor colour =
      open(", weights: place_and_colour")->example(Split::train, 0, nullptr).at("e@edge");
  EXPECT_LT(colour.mean().item<double>(), place.mean().item<double>());
}

TEST_F(Superpixels, AreAsManyAsAsked) {
  EXPECT_LE(open(", most: 20")->example(Split::train, 0, nullptr).at("x@node").size(0), 20);
  const auto limited = open(", train_limit: 2, test_limit: 1");
  EXPECT_EQ(limited->size(Split::train), 1);
  EXPECT_EQ(limited->size(Split::test), 1);
  EXPECT_THAT(message_of<Error>([&] { open(", train_limit: 1"); }), HasSubstr("none to train on"));
}

/// CIFAR's layout: every image the same, (200, 100, 50) in its first 13 columns, (10, 60, 220)
/// behind.
std::string two_colours(int images) {
  std::string bytes;
  for (int i = 0; i < images; ++i) {
    bytes += '\1';
    for (const auto& [left, right] : {std::pair{200, 10}, std::pair{100, 60}, std::pair{50, 220}}) {
      for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(p % 32 < 13 ? left : right);
    }
  }
  return bytes;
}

/// Segments of that image and their mean places, by loops.
struct TwoColours {
  TwoColours() {
    ImageValues image{3, 32, 32, {}};
    const std::string bytes = two_colours(1).substr(1);
    for (const char byte : bytes) image.values.push_back(static_cast<unsigned char>(byte) / 255.0);
    labels = at_most_segments(image, 20, 50, 10);
    const std::size_t count = std::size_t(*std::max_element(labels.begin(), labels.end())) + 1;
    rows.resize(count), columns.resize(count), left.resize(count), sizes.resize(count);
    for (std::size_t p = 0; p < labels.size(); ++p) {
      const auto k = std::size_t(labels[p]);
      rows[k] += double(p / 32), columns[k] += double(p % 32), sizes[k] += 1;
      left[k] += p % 32 < 13 ? 1 : 0;
    }
    for (std::size_t k = 0; k < count; ++k) {
      rows[k] /= 32 * sizes[k], columns[k] /= 32 * sizes[k], left[k] /= sizes[k];
    }
  }

  /// exp(-(d_ij / s_i)^2), s_i the mean of the eight smallest distances to others.
  double weight(std::size_t i, std::size_t j, bool and_colours) const {
    const double place = relative(i, j, [&](std::size_t k) {
      return std::hypot(rows[i] - rows[k], columns[i] - columns[k]);
    });
    // (190, 40, 170) / 255 lie between the colours.
    const double colour = relative(i, j, [&](std::size_t k) {
      return std::abs(left[i] - left[k]) * std::sqrt(190.0 * 190 + 40 * 40 + 170 * 170) / 255;
    });
    return std::exp(-place * place - (and_colours ? colour * colour : 0));
  }
  template <class Distance>
  double relative(std::size_t i, std::size_t j, const Distance& distance) const {
    std::vector<double> others;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if (k != i) others.push_back(distance(k));
    }
    std::sort(others.begin(), others.end());
    double mean = 0;
    for (std::size_t k = 0; k < 8; ++k) mean += others[k] / 8;
    return distance(j) / (mean + 1e-8);
  }

  std::vector<std::int32_t> labels;
  std::vector<double> rows, columns, left, sizes;  ///< left: share of the first colour
};

TEST(SuperpixelsOfTwoColours, AreMeanColoursThenRowAndColumn) {
  const testing::TempFolder folder;
  folder.write("data_batch_1.bin", two_colours(2));
  folder.write("test_batch.bin", two_colours(1));
  const TwoColours expected;
  const std::size_t n = expected.rows.size();
  ASSERT_GT(n, 9u);
  ASSERT_LE(n, 20u);
  for (const bool and_colours : {false, true}) {
    const NamedTensors graph =
        make_dataset("superpixels",
                     "{name: cifar10, batches: [1], partial: true, validation: 1, "
                     "most: 20, root: " +
                         folder.path() + (and_colours ? ", weights: place_and_colour}" : "}"))
            ->example(Split::train, 0, nullptr);
    const Tensor x = graph.at("x@node");
    ASSERT_EQ(x.sizes(), (at::IntArrayRef{std::int64_t(n), 5}));
    for (std::size_t k = 0; k < n; ++k) {
      ASSERT_TRUE(expected.left[k] == 0 || expected.left[k] == 1) << "a segment of both colours";
      const bool left = expected.left[k] == 1;
      const double row[] = {(left ? 200 : 10) / 255.0, (left ? 100 : 60) / 255.0,
                            (left ? 50 : 220) / 255.0, expected.rows[k], expected.columns[k]};
      for (std::int64_t c = 0; c < 5; ++c) {
        EXPECT_NEAR(x[std::int64_t(k)][c].item<double>(), row[c], 1e-7) << k << ", " << c;
      }
    }
    const Tensor edges = graph.at("edges@edge>node"), e = graph.at("e@edge");
    ASSERT_EQ(edges.size(0), std::int64_t(8 * n));
    for (std::int64_t k = 0; k < edges.size(0); ++k) {
      const auto i = std::size_t(edges[k][0].item<long>()),
                 j = std::size_t(edges[k][1].item<long>());
      const double weight =
          (expected.weight(i, j, and_colours) + expected.weight(j, i, and_colours)) / 2;
      EXPECT_NEAR(e[k][0].item<double>(), weight, 1e-7) << i << " to " << j << and_colours;
    }
  }
}

TEST(PublishedSuperpixels, OfCifarAreThoseOfScikitImage) {
  if (!testing::has_data("cifar-10-batches-bin"))
    GTEST_SKIP() << "$ATTNLAB_DATA/cifar-10-batches-bin is not there";
  const auto dataset = make_dataset("superpixels",
                                    "{name: cifar10, batches: [1], partial: true, train_limit: 60, "
                                    "test_limit: 20, validation: 20, laplacian: 8}");
  CifarFiles files;
  files.batches = {1};
  files.partial = true;
  const ImageSet images = read_cifar(files, "");
  std::int64_t stretched = 0, first_nodes = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    const NamedTensors graph = dataset->example(Split::train, i, nullptr);
    const Tensor x = graph.at("x@node");
    EXPECT_EQ(x.size(1), 5);
    EXPECT_GE(x.min().item<float>(), 0);
    EXPECT_LE(x.max().item<float>(), 1);
    EXPECT_LE(x.size(0), 150);
    if (i < 6) first_nodes += x.size(0);
    const std::uint8_t* const bytes = images.train.image(20 + i);
    const auto [least, most] = std::minmax_element(bytes, bytes + 3072);
    ImageValues image{3, 32, 32, {}};
    for (int p = 0; p < 3072; ++p)
      image.values.push_back((bytes[p] - *least) / double(*most - *least));
    const std::vector<std::int32_t> segments =
        at_most_segments(image, 150, 50, 10, SegmentSize::of_centres);
    stretched += *std::max_element(segments.begin(), segments.end()) + 1;
  }
  // scikit-image 0.19.3 finds 4473 segments in these 40 images; it stretches each to the whole
  // range, and goes by the centres.
  EXPECT_EQ(stretched, 4473);
  // By the rule of 0.16.2, in loops in Python, the first six have 715 nodes; by the centres 691.
  EXPECT_EQ(first_nodes, 715);
}

}  // namespace
}  // namespace attnlab::superpixels_test
