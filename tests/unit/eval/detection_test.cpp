// Average precision by hand and against a plain second way, and the loss against its equations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "framework/base/random.h"
#include "framework/eval/detection/coco_precision.h"
#include "framework/eval/detection/detection_loss.h"
#include "framework/eval/detection/detection_meter.h"
#include "framework/eval/detection/detection_task.h"

namespace attnlab::detection_test {
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

// ---- the loss

Objects objects(const std::vector<double>& boxes, const std::vector<std::int64_t>& labels,
                const std::vector<std::int64_t>& starts) {
  const Tensor kinds = at::tensor(labels, at::kLong);
  return {at::tensor(boxes, at::kDouble).view({-1, 4}), kinds, kinds, starts};
}

double focal(double logit, bool right, double alpha = 0.25) {
  const double p = 1 / (1 + std::exp(-logit));
  return right ? -alpha * (1 - p) * (1 - p) * std::log(p) : -(1 - alpha) * p * p * std::log(1 - p);
}

TEST(DetectionLoss, IsThatOfTheEquationByHand) {
  // Two queries, two classes, one object of class 1 that lies on the second query's box but for a
  // shift of its middle by 0.1.
  const Tensor logits = at::tensor({0.3, -1.0, 0.2, 2.0}, at::kDouble).view({1, 1, 2, 2});
  const Tensor boxes =
      at::tensor({0.1, 0.1, 0.1, 0.1, 0.6, 0.5, 0.2, 0.2}, at::kDouble).view({1, 1, 2, 4});
  const NamedTensors outputs = {
      {"logits", logits.squeeze(1)}, {"layer_logits", logits}, {"layer_boxes", boxes}};
  const Objects asked = objects({0.5, 0.5, 0.2, 0.2}, {1}, {0, 1});
  DetectionLossOptions options;
  const double classes = focal(0.3, false) + focal(-1, false) + focal(0.2, false) + focal(2, true);
  const double overlap = 1 - (1.0 / 3);  // half of each in common, nothing around beside them
  const double expected = 2 * classes + 5 * 0.1 + 2 * overlap;
  EXPECT_NEAR(detection_loss(outputs, asked, asked, options).item<double>(), expected, 1e-9);
}

TEST(DetectionLoss, MatchesEachLayerByItself) {
  // One object. In the first layer the first query has its box, in the second layer the second one.
  const Tensor right = at::tensor({0.5, 0.5, 0.2, 0.2}, at::kDouble), wrong = right * 0.4;
  const Tensor boxes = at::stack({right, wrong, wrong, right}).view({1, 2, 2, 4});
  const Tensor logits = at::tensor({0.3, -0.4, 0.7, 0.1}, at::kDouble).view({1, 2, 2, 1});
  const Objects asked = objects({0.5, 0.5, 0.2, 0.2}, {0}, {0, 1});
  const NamedTensors outputs = {
      {"logits", logits.select(1, 1)}, {"layer_logits", logits}, {"layer_boxes", boxes}};
  const double expected =
      2 * (focal(0.3, true) + focal(-0.4, false) + focal(0.7, false) + focal(0.1, true));
  EXPECT_NEAR(detection_loss(outputs, asked, asked, {}).item<double>(), expected, 1e-9);
}

TEST(DetectionLoss, MatchesAnObjectManyTimesInOneToManyQueries) {
  // One one-to-one query and four one-to-many; with `many` 3, three of them are right.
  const Tensor logits = at::zeros({1, 1, 5, 1}, at::kDouble);
  const Tensor boxes = at::tensor({0.5, 0.5, 0.2, 0.2}, at::kDouble).expand({1, 1, 5, 4});
  const NamedTensors outputs = {{"logits", logits.squeeze(1).narrow(1, 0, 1)},
                                {"layer_logits", logits},
                                {"layer_boxes", boxes}};
  const Objects asked = objects({0.5, 0.5, 0.2, 0.2}, {0}, {0, 1});
  DetectionLossOptions options;
  options.many = 3;
  const double one = 2 * focal(0, true);
  const double many = 2 * (3 * focal(0, true) + focal(0, false)) / 3;
  EXPECT_NEAR(detection_loss(outputs, asked, asked, options).item<double>(), one + many, 1e-9);
}

TEST(DetectionLoss, ProposalsThatArePaddingDoNotCount) {
  const Tensor logits = at::zeros({1, 1, 1, 1}, at::kDouble);
  const Tensor box = at::tensor({0.5, 0.5, 0.2, 0.2}, at::kDouble);
  NamedTensors outputs = {{"logits", logits.squeeze(1)},
                          {"layer_logits", logits},
                          {"layer_boxes", box.view({1, 1, 1, 4})}};
  const Objects asked = objects({0.5, 0.5, 0.2, 0.2}, {0}, {0, 1});
  const double without = detection_loss(outputs, asked, asked, {}).item<double>();
  outputs.set("proposal_logits", at::tensor({0.0, 3.0}, at::kDouble).view({1, 2, 1}));
  outputs.set("proposal_boxes", box.expand({1, 2, 4}));
  outputs.set("proposal_valid", at::tensor({1, 0}).to(at::kBool).view({1, 2}));
  EXPECT_NEAR(detection_loss(outputs, asked, asked, {}).item<double>() - without,
              2 * focal(0, true), 1e-9);
}

TEST(DetectionLoss, AnImageWithoutObjectsTeachesSilence) {
  const Tensor logits = at::zeros({1, 2, 3, 1}, at::kDouble).requires_grad_();
  const Tensor boxes = at::full({1, 2, 3, 4}, 0.5, at::kDouble);
  const NamedTensors outputs = {
      {"logits", logits.select(1, 1)}, {"layer_logits", logits}, {"layer_boxes", boxes}};
  const Objects none = objects({}, {}, {0, 0});
  const Tensor loss = detection_loss(outputs, none, none, {});
  EXPECT_NEAR(loss.item<double>(), 2 * 6 * focal(0, false), 1e-9);
  loss.backward();
  EXPECT_TRUE(logits.grad().gt(0).all().item<bool>());
}

TEST(ContrastiveLoss, IsThatOfTheEquation) {
  at::manual_seed(2);
  const Tensor features = at::randn({5, 3}, at::kDouble);
  const std::vector<std::int64_t> kinds = {1, 0, 1, 2, 0};
  const double temperature = 0.5;
  const Tensor unit = features / features.norm(2, {1}, true);
  const Tensor near = (at::matmul(unit, unit.t()) / temperature).exp();
  double sum = 0;
  for (const std::int64_t kind : {0, 1, 2}) {
    double of_class = 0, pairs = 0;
    for (int i = 0; i < 5; ++i) {
      if (kinds[std::size_t(i)] != kind) continue;
      double others = 0;
      for (int k = 0; k < 5; ++k) {
        if (kinds[std::size_t(k)] != kind) others += near[i][k].item<double>();
      }
      for (int j = 0; j < 5; ++j) {
        if (kinds[std::size_t(j)] != kind) continue;
        const double s = near[i][j].item<double>();
        of_class -= std::log(s / (s + others));
        ++pairs;
      }
    }
    sum += of_class / pairs / 3;
  }
  EXPECT_NEAR(contrastive_loss(features, at::tensor(kinds, at::kLong), temperature).item<double>(),
              sum, 1e-10);
}

TEST(DetectionLoss, ContrastsOneToManyQueriesToo) {
  // Two images, each with an object of a class of its own, one one-to-one query and three
  // one-to-many, of which `many` 2 are matched: those whose boxes are right.
  at::manual_seed(4);
  const Tensor right = at::tensor({0.5, 0.5, 0.2, 0.2}, at::kDouble);
  const Tensor boxes = right.expand({2, 1, 4, 4}).clone();
  boxes.select(2, 2).fill_(0.9);
  const Tensor logits = at::zeros({2, 1, 4, 1}, at::kDouble);
  const Tensor features = at::randn({2, 1, 4, 3}, at::kDouble);
  NamedTensors outputs = {{"logits", logits.squeeze(1).narrow(1, 0, 1)},
                          {"layer_prompt_logits", logits},
                          {"layer_boxes", boxes}};
  Objects asked = objects({0.5, 0.5, 0.2, 0.2, 0.5, 0.5, 0.2, 0.2}, {0, 0}, {0, 1, 2});
  asked.kinds = at::tensor({3, 5}, at::kLong);
  DetectionLossOptions options;
  options.many = 2;
  options.many_weight = 0.3;
  const double without = detection_loss(outputs, asked, asked, options).item<double>();
  outputs.set("layer_features", features);
  std::map<std::string, double> parts;
  const double with = detection_loss(outputs, asked, asked, options, [&](auto name, auto value) {
                        parts[std::string(name)] = value.template item<double>();
                      }).item<double>();
  const Tensor ones = features.select(2, 0).flatten(0, 1);
  const Tensor many = features.index_select(2, at::tensor({1, 3}, at::kLong)).flatten(0, 2);
  const double of_ones =
      contrastive_loss(ones, at::tensor({3, 5}, at::kLong), options.temperature).item<double>();
  const double of_many =
      contrastive_loss(many, at::tensor({3, 3, 5, 5}, at::kLong), options.temperature)
          .item<double>();
  EXPECT_NEAR(parts.at("contrast"), of_ones, 1e-10);
  EXPECT_NEAR(parts.at("many_contrast"), of_many, 1e-10);
  EXPECT_NEAR(with - without, 2 * (of_ones + 0.3 * of_many), 1e-9);
}

// ---- which objects count

/// Three images: a cat, a dog and a crowd of dogs; none; a difficult dog and a dog.
Batch three_images() {
  Batch batch;
  batch.size = 3;
  batch.fields = {{"box@box", at::tensor({0.0, 0.0, 0.2, 0.4, 0.5, 0.5, 0.7, 0.9, 0.0, 0.0,
                                          1.0, 1.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.5, 0.5},
                                         at::kFloat)
                                  .view({5, 4})},
                  {"label@box", at::tensor({0, 1, 1, 1, 1}, at::kLong)},
                  {"ignored@box", at::tensor({0, 0, 2, 1, 0}, at::kLong)},
                  {"area@box", at::tensor({8.f, 8.f, 100.f, 1.f, 4.f})},
                  {"size", at::full({3, 2}, 10, at::kLong)},
                  {"prompt_class", at::tensor({0, 1, 1}, at::kLong)},
                  {"prompt_number", at::zeros({3}, at::kLong)},
                  {"image_id", at::arange(3)}};
  batch.offsets.set("box", at::tensor({0, 3, 3, 5}, at::kLong));
  return batch;
}

void expect_objects(const Objects& found, const std::vector<std::int64_t>& rows,
                    const std::vector<std::int64_t>& labels, const std::vector<std::int64_t>& kinds,
                    const std::vector<std::int64_t>& starts) {
  const Tensor corners =
      three_images().fields.at("box@box").index_select(0, at::tensor(rows, at::kLong));
  const Tensor sides = corners.slice(1, 2) - corners.slice(1, 0, 2);
  const Tensor centred = at::cat({corners.slice(1, 0, 2) + sides / 2, sides}, 1);
  EXPECT_TRUE(found.boxes.allclose(centred)) << found.boxes;
  EXPECT_TRUE(found.labels.equal(at::tensor(labels, at::kLong))) << found.labels;
  EXPECT_TRUE(found.kinds.equal(at::tensor(kinds, at::kLong))) << found.kinds;
  EXPECT_EQ(found.starts, starts);
}

TEST(DetectionObjects, AreThoseThatAreAskedFor) {
  const Batch batch = three_images();
  expect_objects(objects_of(batch, /*one_shot=*/true), {0, 4}, {0, 0}, {0, 1}, {0, 1, 1, 2});
  expect_objects(objects_of(batch, /*one_shot=*/false), {0, 1, 4}, {0, 1, 1}, {0, 1, 1},
                 {0, 2, 2, 3});
  expect_objects(any_objects_of(batch), {0, 1, 4}, {0, 0, 0}, {0, 1, 1}, {0, 2, 2, 3});
}

TEST(DetectionObjects, WeighAPartOfAStep) {
  DatasetInfo data;
  data.name = "three";
  data.class_names = {"cat", "dog"};
  data.classes = 2;
  const TaskSetup setup{data};
  EXPECT_EQ(DetectionTask({}, setup, true).weight(three_images()), 2);
  EXPECT_EQ(DetectionTask({}, setup, false).weight(three_images()), 3);
  Batch none = three_images();
  none.fields.set("prompt_class", at::tensor({1, 1, 0}, at::kLong));
  none.fields.set("ignored@box", at::ones({5}, at::kLong));
  EXPECT_EQ(DetectionTask({}, setup, true).weight(none), 1) << "as if there were one";
}

TEST(DetectionTask, RefusesTwoNamesOfOneMetric) {
  DatasetInfo data;
  data.name = "named";
  data.classes = 2;
  data.class_groups = {{"base", {0}}, {"novel", {1}}};
  const auto refusal = [&](std::vector<std::string> names) {
    data.class_names = std::move(names);
    try {
      DetectionTask({}, TaskSetup{data}, true);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({"cat", "dog"}), "");
  EXPECT_NE(refusal({"base", "dog"}).find("metric ap50_base"), std::string::npos);
  EXPECT_NE(refusal({"big dog", "big_dog"}).find("ap50_big_dog"), std::string::npos);
}

// ---- the meter

TEST(DetectionMeter, OfAClosedSetTakesEachClassByItsOwnAnswers) {
  DatasetInfo data;
  data.class_names = {"cat", "dog"};
  data.classes = 2;
  DetectionMeter meter(data, /*one_shot=*/false, 100);
  // Image 0: the cat is found, the dog by an answer of IoU 0.64, the crowd by one inside, which
  // counts for nothing. Image 1, without boxes: a wrong cat that stands above all. Image 2: the
  // difficult dog is answered, the other one is missed.
  const float low = -9;
  const Tensor logits = at::tensor({2.f, low, low, 1.f, low, 0.5f,  //
                                    3.f, low, low, low, low, low,   //
                                    low, 0.7f, low, low, low, low})
                            .view({3, 3, 2});
  const auto box = [](double x0, double y0, double x1, double y1) {
    return std::vector<double>{(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0};
  };
  std::vector<double> numbers;
  for (const auto& one :
       {box(0, 0, .2, .4), box(.5, .5, .66, .82), box(.9, .9, 1, 1), box(.5, 0, .6, .1),
        box(0, 0, 0, 0), box(0, 0, 0, 0), box(.1, .1, .2, .2), box(0, 0, 0, 0), box(0, 0, 0, 0)}) {
    numbers.insert(numbers.end(), one.begin(), one.end());
  }
  const Tensor boxes = at::tensor(numbers, at::kDouble).view({3, 3, 4});
  meter.add({{"logits", logits}, {"boxes", boxes}}, three_images());
  const Metrics metrics = meter.result();
  // Cats: wrong, then right of one: 1/2. Dogs: right of two, then (low scores) only wrong ones.
  EXPECT_NEAR(metrics.at("ap50_cat"), 0.5, 1e-9);
  EXPECT_NEAR(metrics.at("ap50_dog"), 51 / 101.0, 1e-9);
  EXPECT_NEAR(metrics.at("ap50"), (0.5 + 51 / 101.0) / 2, 1e-9);
  // At 0.75 the dog's answer is wrong; at 0.5, 0.55 and 0.6 of ten thresholds it is right.
  EXPECT_NEAR(metrics.at("ap75"), 0.25, 1e-9);
  EXPECT_NEAR(metrics.at("ap"), (0.5 + 3 * 51 / 1010.0) / 2, 1e-9);
  // Areas of the annotations, 4 to 8 pixels: all are small.
  EXPECT_NEAR(metrics.at("ap_small"), metrics.at("ap"), 1e-9);
  EXPECT_EQ(metrics.at("ap_large"), 0);
  EXPECT_EQ(metrics.count("ap50_per_image"), 0U);
}

TEST(DetectionMeter, SplitsClassesAndGroupsAndImages) {
  DatasetInfo data;
  data.class_names = {"cat", "big dog"};
  data.classes = 2;
  data.class_groups = {{"base", {0}}, {"novel", {1}}};
  data.fields = {{"label@box", {-1}, at::kLong, {}, 2},
                 {"ignored@box", {-1}, at::kLong, {}, 3},
                 {"prompt_class", {}, at::kLong, {}, 2},
                 {"prompt_number", {}, at::kLong}};
  Batch batch;
  batch.size = 2;
  batch.fields = {
      {"box@box",
       at::tensor({0.f, 0.f, 0.5f, 0.5f, 0.5f, 0.5f, 1.f, 1.f, 0.f, 0.f, 1.f, 1.f}).view({3, 4})},
      {"label@box", at::tensor({0, 1, 1}, at::kLong)},
      {"area@box", at::tensor({2500.f, 2500.f, 10000.f})},
      {"ignored@box", at::zeros({3}, at::kLong)},
      {"size", at::tensor({100, 100, 100, 100}, at::kLong).view({2, 2})},
      {"prompt_class", at::tensor({0, 1}, at::kLong)},
      {"prompt_number", at::zeros({2}, at::kLong)},
      {"image_id", at::tensor({4, 5}, at::kLong)}};
  batch.offsets.set("box", at::tensor({0, 2, 3}, at::kLong));
  // The first image's cat is found; in the second one the answer is somewhere else.
  const NamedTensors outputs = {
      {"logits", at::tensor({2.f, 1.f}).view({2, 1, 1})},
      {"boxes", at::tensor({0.25f, 0.25f, 0.5f, 0.5f, 0.1f, 0.1f, 0.1f, 0.1f}).view({2, 1, 4})}};
  DetectionMeter meter(data, /*one_shot=*/true, 100);
  meter.add(outputs, batch);
  const Metrics metrics = meter.result();
  EXPECT_NEAR(metrics.at("ap50_base"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_novel"), 0, 1e-12);
  EXPECT_NEAR(metrics.at("ap50"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_big_dog"), 0, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_cat"), 1, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_big_dog"), 0, 1e-12);
  std::vector<std::string> stated, given;
  for (const MetricInfo& info : detection_metrics(data, true)) stated.push_back(info.name);
  for (const auto& [name, value] : metrics) given.push_back(name);
  std::sort(stated.begin(), stated.end());
  EXPECT_EQ(stated, given);
}

/// An image of 100 x 100 with one box, its left upper quarter, and the only answer to a prompt.
struct AskedImage {
  std::int64_t id, label, prompt;
  double score;
  bool right;
};

Metrics metrics_of(const std::vector<AskedImage>& asked) {
  DatasetInfo data;
  data.class_names = {"cat", "dog"};
  data.classes = 2;
  data.class_groups = {{"base", {0, 1}}};
  DetectionMeter meter(data, /*one_shot=*/true, 100);
  for (const AskedImage& one : asked) {
    Batch batch;
    batch.size = 1;
    batch.fields = {{"box@box", at::tensor({0.f, 0.f, 0.5f, 0.5f}).view({1, 4})},
                    {"label@box", at::full({1}, one.label, at::kLong)},
                    {"area@box", at::full({1}, 2500.f)},
                    {"ignored@box", at::zeros({1}, at::kLong)},
                    {"size", at::full({1, 2}, 100, at::kLong)},
                    {"prompt_class", at::full({1}, one.label, at::kLong)},
                    {"prompt_number", at::full({1}, one.prompt, at::kLong)},
                    {"image_id", at::full({1}, one.id, at::kLong)}};
    batch.offsets.set("box", at::tensor({0, 1}, at::kLong));
    const float middle = one.right ? 0.25f : 0.75f;
    meter.add({{"logits", at::full({1, 1, 1}, one.score)},
               {"boxes", at::tensor({middle, middle, 0.5f, 0.5f}).view({1, 1, 4})}},
              batch);
  }
  return meter.result();
}

TEST(DetectionMeter, TakesTheMeanPerImageOverAClassFirst) {
  // Two images of cats, one of them wrong, and one of a dog, which is right: (1/2 + 1) / 2.
  const Metrics metrics =
      metrics_of({{1, 0, 0, 1.0, true}, {2, 0, 0, 1.0, false}, {3, 1, 0, 1.0, true}});
  EXPECT_NEAR(metrics.at("ap50_per_image"), 0.75, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_base"), 0.75, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_cat"), 0.5, 1e-12);
  EXPECT_NEAR(metrics.at("ap50_per_image_dog"), 1, 1e-12);
  // The class as a whole: of two answers with one score the first one is right.
  EXPECT_NE(metrics.at("ap50_cat"), metrics.at("ap50_per_image_cat"));
}

TEST(DetectionMeter, RanksTheAnswersToAnImagesPromptsTogether) {
  // Of two prompts the worse answer has the better score: precision 1/2 at recall 1/2 and nothing
  // beyond. Each prompt by itself would be 0 and 1.
  const Metrics metrics = metrics_of({{1, 0, 0, 2.0, false}, {1, 0, 1, 1.0, true}});
  EXPECT_NEAR(metrics.at("ap50_per_image"), 51 * 0.5 / 101, 1e-12);
  EXPECT_NEAR(metrics.at("ap50"), 0.5, 1e-12);  // of rounds
}

}  // namespace
}  // namespace attnlab::detection_test
