// Average precision by hand, against a plain second way, and against pycocotools.
#include "framework/eval/detection/coco_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "framework/base/random.h"

namespace attnlab::coco_precision_test {
namespace {

KnownBox known(double x, double y, double side) {
  return {{x, y, x + side, y + side}, side * side, false, false};
}
FoundBox found(double score, double x, double y, double side) {
  return {score, {x, y, x + side, y + side}};
}
double ap(const std::vector<ClassInImage>& images, double threshold = 0.5,
          const AreaRange& range = {}, std::size_t most = 100) {
  const std::vector<double> all = coco_precision(images, {threshold}, range, most);
  return all.empty() ? -1 : all[0];
}

TEST(CocoPrecision, IsOneWhereAllIsFoundAndNothingElse) {
  EXPECT_NEAR(ap({{{found(0.3, 0, 0, 10)}, {known(0, 0, 10)}},
                  {{found(0.9, 5, 5, 20)}, {known(5, 5, 20)}}}),
              1, 1e-12);
}

TEST(CocoPrecision, IsThatOfARankedListByHand) {
  // Right, wrong, right of three boxes: precisions 1, 1/2, 2/3 at recalls 1/3, 1/3, 2/3, so 1 up to
  // recall 0.33 (34 of the 101), 2/3 up to 0.66 (33 more), and 0 beyond.
  const ClassInImage image = {{found(0.9, 0, 0, 10), found(0.8, 50, 50, 10), found(0.7, 20, 0, 10)},
                              {known(0, 0, 10), known(20, 0, 10), known(80, 80, 10)}};
  EXPECT_NEAR(ap({image}), (34 * 1.0 + 33 * 2.0 / 3) / 101, 1e-12);
}

// Its recalls are numpy's linspace, some of which lie just above n / 100: pycocotools 2.0.11 has
// one step less for these ten numbers of the hundred boxes that are found without a mistake.
TEST(CocoPrecision, HasTheRecallsOfPycocotools) {
  const std::set<std::size_t> short_by_one = {35, 41, 47, 57, 69, 70, 82, 83, 94, 95};
  ClassInImage image;
  for (int i = 0; i < 100; ++i) image.known.push_back(known(20 * i, 0, 10));
  for (std::size_t n = 1; n <= 100; ++n) {
    image.found.push_back(found(1 - 0.001 * double(n), 20 * double(n - 1), 0, 10));
    const std::size_t steps = short_by_one.count(n) > 0 ? n : n + 1;
    EXPECT_NEAR(ap({image}), double(steps) / 101, 1e-12) << n;
  }
}

TEST(CocoPrecision, CountsASecondAnswerAsWrong) {
  // Two answers for one of two boxes, then the other box: 1, 1/2, 2/3 at recalls 1/2, 1/2, 1.
  const ClassInImage image = {{found(0.9, 0, 0, 10), found(0.8, 0, 0, 10), found(0.7, 20, 0, 10)},
                              {known(0, 0, 10), known(20, 0, 10)}};
  EXPECT_NEAR(ap({image}), (51 * 1.0 + 50 * 2.0 / 3) / 101, 1e-12);
}

TEST(CocoPrecision, AsksForEnoughOverlap) {
  // 10 x 10 moved by 2: 80 in common of 120, IoU 2/3.
  const std::vector<ClassInImage> images = {{{found(1, 2, 0, 10)}, {known(0, 0, 10)}}};
  EXPECT_NEAR(ap(images, 0.65), 1, 1e-12);
  EXPECT_NEAR(ap(images, 0.7), 0, 1e-12);
  EXPECT_EQ(coco_thresholds().size(), 10u);
  EXPECT_DOUBLE_EQ(coco_thresholds()[5], 0.75);
}

TEST(CocoPrecision, IgnoredBoxesAreNeitherRightNorWrong) {
  ClassInImage image = {{found(0.9, 50, 50, 10), found(0.8, 0, 0, 10)},
                        {known(0, 0, 10), known(50, 50, 10)}};
  image.known[1].ignored = true;
  EXPECT_NEAR(ap({image}), 1, 1e-12);
  // A second answer to an ignored box is wrong: the box was taken.
  image.found.push_back(found(0.95, 50, 50, 10));
  EXPECT_NEAR(ap({image}), 0.5, 1e-12);
  // To a crowd it is not, and to lie in a crowd is enough.
  image.known[1] = {{40, 40, 100, 100}, 3600, true, true};
  EXPECT_NEAR(ap({image}), 1, 1e-12);
}

TEST(CocoPrecision, RangesOfAreaIgnoreWhatIsOutside) {
  // A small box that is found, a large one that is missed, a wrong large answer above all.
  const std::vector<ClassInImage> images = {
      {{found(0.9, 200, 200, 150), found(0.5, 0, 0, 10)}, {known(0, 0, 10), known(400, 0, 120)}}};
  EXPECT_NEAR(ap(images, 0.5, kSmallArea), 1, 1e-12);
  EXPECT_NEAR(ap(images, 0.5, kLargeArea), 0, 1e-12);
  EXPECT_EQ(ap(images, 0.5, kMediumArea), -1);  // no box counts
}

TEST(CocoPrecision, TakesTheBestAnswersOfAnImageAlone) {
  const std::vector<ClassInImage> images = {
      {{found(0.2, 0, 0, 10), found(0.9, 50, 50, 10)}, {known(0, 0, 10)}}};
  EXPECT_NEAR(ap(images, 0.5, {}, 1), 0, 1e-12);
  EXPECT_NEAR(ap(images, 0.5, {}, 2), 0.5, 1e-12);
}

/// The same by another way: for each of 101 recalls, the best precision of any cut of the list.
double plain_ap(const std::vector<ClassInImage>& images, double threshold) {
  struct Row {
    double score;
    std::size_t image, number;
  };
  std::vector<Row> rows;
  std::size_t boxes = 0;
  for (std::size_t i = 0; i < images.size(); ++i) {
    boxes += images[i].known.size();
    for (std::size_t d = 0; d < images[i].found.size(); ++d) {
      rows.push_back({images[i].found[d].score, i, d});
    }
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.score > b.score; });
  std::vector<std::vector<char>> taken;
  for (const ClassInImage& image : images) taken.emplace_back(image.known.size(), 0);
  std::vector<std::pair<double, double>> curve;  // recall, precision
  double right = 0, count = 0;
  for (const Row& row : rows) {
    const Corners a = images[row.image].found[row.number].box;
    double best = threshold;
    std::size_t match = 1000;
    for (std::size_t g = 0; g < images[row.image].known.size(); ++g) {
      const Corners b = images[row.image].known[g].box;
      const double w = std::max(0.0, std::min(a[2], b[2]) - std::max(a[0], b[0]));
      const double h = std::max(0.0, std::min(a[3], b[3]) - std::max(a[1], b[1]));
      const double both = w * h, area_a = (a[2] - a[0]) * (a[3] - a[1]);
      const double iou = both / (area_a + (b[2] - b[0]) * (b[3] - b[1]) - both);
      if (taken[row.image][g] == 0 && iou >= best) {
        best = iou;
        match = g;
      }
    }
    ++count;
    if (match != 1000) {
      taken[row.image][match] = 1;
      ++right;
    }
    curve.emplace_back(right / double(boxes), right / count);
  }
  double sum = 0;
  for (int step = 0; step <= 100; ++step) {
    double most = 0;
    for (const auto& [recall, precision] : curve) {
      if (recall >= step / 100.0) most = std::max(most, precision);
    }
    sum += most;
  }
  return sum / 101;
}

TEST(CocoPrecision, EqualsAPlainSecondWayOnRandomBoxes) {
  Random random(7);
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<ClassInImage> images(6);
    for (ClassInImage& image : images) {
      for (std::int64_t i = random.below(5); i-- > 0;) {
        image.known.push_back(
            known(60 * random.uniform(), 60 * random.uniform(), 10 + 30 * random.uniform()));
      }
      for (const KnownBox& box : image.known) {
        for (std::int64_t i = random.below(4); i-- > 0;) {
          const double move = 8 * random.uniform();
          image.found.push_back(
              {random.uniform(),
               {box.box[0] + move, box.box[1], box.box[2] + move, box.box[3] - move / 2}});
        }
      }
      image.found.push_back(found(random.uniform(), 90 * random.uniform(), 3, 20));
    }
    images[0].known.push_back(known(5, 5, 20));
    for (const double threshold : {0.5, 0.75, 0.9}) {
      EXPECT_NEAR(ap(images, threshold), plain_ap(images, threshold), 1e-12);
    }
  }
}

/// What tests/references/coco_precision.py gives pycocotools.
std::vector<ClassInImage> boxes_by_rule() {
  std::uint64_t state = 1;
  const auto below = [&](std::uint64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return double((state >> 33) % n);
  };
  const auto part = [](double side, int of) { return std::uint64_t(side) / std::uint64_t(of) + 1; };
  std::vector<ClassInImage> images(40);
  for (ClassInImage& image : images) {
    std::vector<Corners> boxes;
    for (auto count = int(below(6)); count > 0; --count) {
      const double x = below(300), y = below(200), w = 6 + below(150), h = 6 + below(150);
      const bool crowd = below(8) == 0;
      image.known.push_back({{x, y, x + w, y + h}, w * h * (50 + below(51)) / 100, crowd, crowd});
    }
    for (const KnownBox& known : image.known) {
      const double w = known.box[2] - known.box[0], h = known.box[3] - known.box[1];
      for (auto count = int(below(4)); count > 0; --count) {
        const double x = known.box[0] + below(part(w, 8)), y = known.box[1] + below(part(h, 8));
        const double wide = w - below(part(w, 9)), high = h - below(part(h, 9));
        boxes.push_back({x, y, x + wide, y + high});
      }
    }
    for (auto count = int(below(3)); count > 0; --count) {
      const double x = below(300), y = below(200), w = 6 + below(150), h = 6 + below(150);
      boxes.push_back({x, y, x + w, y + h});
    }
    for (const Corners& box : boxes) image.found.push_back({below(1ULL << 31) / 2147483648.0, box});
  }
  return images;
}

TEST(CocoPrecision, GivesPycocotoolsNumbers) {
  const std::pair<AreaRange, std::vector<double>> expected[] = {
      {{},
       {0.534534956017997, 0.534534956017997, 0.534534956017997, 0.534534956017997,
        0.526570669841424, 0.450508797334556, 0.224882344060406, 0.065775205568887,
        0.005689904028766, 0.000612432377258}},
      {kSmallArea,
       {0.627455053197628, 0.627455053197628, 0.627455053197628, 0.627455053197628,
        0.627455053197628, 0.620854393131621, 0.186350777934936, 0.083451202263083,
        0.026732673267327, 0.006600660066007}},
      {kMediumArea,
       {0.529386846031363, 0.529386846031363, 0.529386846031363, 0.529386846031363,
        0.520757843568128, 0.422680583341636, 0.246033638420122, 0.069657420287483,
        0.004491358226732, 0.000286985220261}},
      {kLargeArea,
       {0.462399811409712, 0.462399811409712, 0.462399811409712, 0.462399811409712,
        0.461310702498821, 0.461310702498821, 0.287306825920687, 0.059405940594059,
        0.007425742574257, 0.000000000000000}},
  };
  const std::vector<ClassInImage> images = boxes_by_rule();
  for (const auto& [range, numbers] : expected) {
    const std::vector<double> found = coco_precision(images, coco_thresholds(), range);
    ASSERT_EQ(found.size(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_NEAR(found[i], numbers[i], 1e-12);
  }
}

}  // namespace
}  // namespace attnlab::coco_precision_test
