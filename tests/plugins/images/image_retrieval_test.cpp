// Retrieval: precision of rankings against the public code's numbers and plain loops, and the task
// on a model of which the features are known.
#include "plugins/tasks/images/image_retrieval/revisited.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::image_retrieval_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;
using testing::message_of;

// --- rankings -----------------------------------------------------------------------------------

TEST(Revisited, GivesThePublicCodesNumbers) {
  // compute_map of github.com/filipradenovic/revisitop, for the same similarities and lists.
  constexpr std::int64_t kPictures = 60, kPrime = 61, kPowers[] = {7, 11, 13, 17, 19};
  const Tensor similarity = at::zeros({5, kPictures}, at::kDouble);
  std::vector<Relevant> relevant(5);
  for (std::int64_t q = 0; q < 5; ++q) {
    for (std::int64_t i = 0; i < kPictures; ++i) {
      std::int64_t power = 1;  // a permutation of 1 to 60 for each query
      for (std::int64_t k = 0; k < kPowers[q]; ++k) power = power * (i + 1) % kPrime;
      similarity[q][i] = static_cast<double>(power);
      Relevant& own = relevant[static_cast<std::size_t>(q)];
      if ((i + q) % 9 == 0) {
        own.easy.push_back(i);
      } else if ((i + 2 * q) % 7 == 1) {
        own.hard.push_back(i);
      } else if ((3 * i + q) % 11 == 2) {
        own.junk.push_back(i);
      }
    }
  }
  relevant[2].easy.clear();
  relevant[3].hard.clear();
  const std::map<std::string, double> published = {{"map_easy", 0.16742362986382425},
                                                   {"mp1_easy", 0.25},
                                                   {"mp5_easy", 0.15},
                                                   {"mp10_easy", 0.15},
                                                   {"mp1_medium", 0.2},
                                                   {"mp5_medium", 0.16},
                                                   {"map_medium", 0.20620149449276504},
                                                   {"mp1_hard", 0},
                                                   {"mp10_medium", 0.18},
                                                   {"map_hard", 0.13864629247455357},
                                                   {"mp5_hard", 0.1},
                                                   {"mp10_hard", 0.075}};
  const Metrics found = revisited_metrics(similarity, relevant);
  EXPECT_EQ(found.size(), published.size());
  for (const auto& [name, value] : published) EXPECT_NEAR(found.at(name), value, 1e-12) << name;
  EXPECT_EQ(revisited_metric_infos().size(), published.size());
  EXPECT_EQ(revisited_metric_infos()[0].name, "map_medium");
}

/// The scores of one query by removing what is left out, then reading the list from its top.
std::vector<double> by_loops(const std::vector<double>& similarity,
                             const std::vector<std::int64_t>& wanted,
                             const std::vector<std::int64_t>& left_out) {
  const auto holds = [](const std::vector<std::int64_t>& list, std::int64_t picture) {
    return std::find(list.begin(), list.end(), picture) != list.end();
  };
  std::vector<std::int64_t> list;
  for (std::int64_t picture = 0; picture < std::ssize(similarity); ++picture) {
    if (!holds(left_out, picture)) list.push_back(picture);
  }
  for (std::size_t i = 1; i < list.size(); ++i) {  // by insertion; equals stay in order
    for (std::size_t j = i;
         j > 0 && similarity[std::size_t(list[j])] > similarity[std::size_t(list[j - 1])]; --j) {
      std::swap(list[j], list[j - 1]);
    }
  }
  double precision = 0, found = 0, last = 0;
  for (std::size_t rank = 0; rank < list.size(); ++rank) {
    if (!holds(wanted, list[rank])) continue;
    const double before = rank == 0 ? 1 : found / double(rank);
    ++found;
    precision += (before + found / double(rank + 1)) / 2;
    last = double(rank + 1);
  }
  std::vector<double> scores = {precision / double(wanted.size())};
  for (const double k : {1.0, 5.0, 10.0}) {
    const double most = std::min(k, last);
    double among = 0;
    for (std::size_t rank = 0; double(rank) < most; ++rank) among += holds(wanted, list[rank]);
    scores.push_back(among / most);
  }
  return scores;
}

TEST(Revisited, AgreesWithPlainLoopsWhereSimilaritiesAreEqual) {
  at::manual_seed(3);
  const Tensor similarity = at::randint(0, 6, {7, 40}, at::kDouble);
  std::vector<Relevant> relevant(7);
  std::map<std::string, double> sums, counts;
  for (std::int64_t q = 0; q < 7; ++q) {
    Relevant& own = relevant[std::size_t(q)];
    for (std::int64_t i = 0; i < 40; ++i) {
      const auto lot = at::randint(0, 8, {1}, at::kLong).item<std::int64_t>();
      if (lot == 0 && q != 4) own.easy.push_back(i);
      if (lot == 1) own.hard.push_back(i);
      if (lot == 2 || lot == 3) own.junk.push_back(i);
    }
    const Tensor row = similarity[q].contiguous();
    const std::vector<double> numbers(row.data_ptr<double>(), row.data_ptr<double>() + 40);
    const auto both = [](std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    const auto add = [&](const std::string& setting, const std::vector<std::int64_t>& wanted,
                         const std::vector<std::int64_t>& left_out) {
      if (wanted.empty()) return;
      const std::vector<double> scores = by_loops(numbers, wanted, left_out);
      const char* names[] = {"map_", "mp1_", "mp5_", "mp10_"};
      for (std::size_t i = 0; i < 4; ++i) sums[names[i] + setting] += scores[i];
      ++counts[setting];
    };
    add("easy", own.easy, both(own.junk, own.hard));
    add("medium", both(own.easy, own.hard), own.junk);
    add("hard", own.hard, both(own.junk, own.easy));
  }
  EXPECT_EQ(counts["easy"], 6) << "a query with nothing to be found does not count";
  const Metrics found = revisited_metrics(similarity, relevant);
  EXPECT_EQ(found.size(), 12u);
  for (const auto& [name, value] : found) {
    EXPECT_NEAR(value, sums[name] / counts[name.substr(name.find('_') + 1)], 1e-12) << name;
  }
}

TEST(Revisited, TakesJunkOutOfTheRanking) {
  const Tensor similarity = at::tensor({0.5, 0.9, 0.8, 0.4, 0.1}, at::kDouble).view({1, 5});
  const auto scores = [&](const Relevant& relevant) {
    return revisited_metrics(similarity, {relevant});
  };
  // In order 1 2 0 3 4: behind two pictures, or behind none.
  EXPECT_NEAR(scores({{0}, {}, {}}).at("map_medium"), 1.0 / 6, 1e-15);
  EXPECT_EQ(scores({{0}, {}, {1, 2}}).at("map_medium"), 1);
  EXPECT_EQ(scores({{0}, {}, {1, 2, 3, 4}}).at("mp10_medium"), 1) << "of one picture";
  // What is found in one setting is left out of another.
  const Metrics both = scores({{0}, {1, 2}, {}});
  EXPECT_EQ(both.at("map_easy"), 1);
  EXPECT_EQ(both.at("map_hard"), 1);
  EXPECT_EQ(both.at("mp5_medium"), 1);
  EXPECT_EQ(scores({{0}, {}, {1}}).count("map_hard"), 0u) << "nothing to be found has no value";
}

TEST(Revisited, RanksWhatIsNoNumberLast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor similarity = at::tensor({nan, -1e300, nan, -2e300}, at::kDouble).view({1, 4});
  EXPECT_NEAR(revisited_metrics(similarity, {{{3}, {}, {}}}).at("map_medium"), 0.25, 1e-15);
  EXPECT_NEAR(revisited_metrics(similarity, {{{0}, {}, {}}}).at("map_medium"), 1.0 / 6, 1e-15);
}

TEST(Revisited, RefusesNumbersOfNoPictureAndQueriesWithoutAny) {
  const Tensor similarity = at::ones({1, 4});
  for (const std::int64_t number : {std::int64_t{4}, std::int64_t{-1}}) {
    EXPECT_THAT(message_of<DataError>([&] {
                  revisited_metrics(similarity, {{{0}, {}, {number}}});
                }),
                HasSubstr("picture " + std::to_string(number) + " of a database of 4"));
  }
  EXPECT_THROW(revisited_metrics(similarity, {{{}, {}, {1}}}), UndefinedMetrics);
}

// --- the task -----------------------------------------------------------------------------------

/// Its class token is the mean colour of a picture.
class Colours final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor& image = batch.fields.at("image");
    ++passes;
    if (pass.features != nullptr) {
      pass.features->depth = 1;
      LayerFeatures features;
      features.layer = 1;
      features.class_token = image.mean({2, 3});
      features.tokens = image.flatten(2).transpose(1, 2);
      pass.features->found.push_back(features);
    }
    return {{"logits", image.mean({2, 3})}};
  }

  int passes = 0;
};

DatasetInfo buildings() {
  DatasetInfo info;
  info.name = "buildings";
  info.fields = {{"image", {3, -1, -1}, at::kFloat},
                 {"shown", {2}, at::kLong},
                 {"easy@easy", {-1}, at::kLong},
                 {"hard@hard", {-1}, at::kLong},
                 {"junk@junk", {-1}, at::kLong}};
  return info;
}

NamedTensors picture(std::int64_t height, std::int64_t width, const Relevant& relevant = {}) {
  return {{"image", at::randn({3, height, width}) + at::randn({3, 1, 1})},
          {"shown", at::tensor({height, width}, at::kLong)},
          {"easy@easy", at::tensor(relevant.easy, at::kLong)},
          {"hard@hard", at::tensor(relevant.hard, at::kLong)},
          {"junk@junk", at::tensor(relevant.junk, at::kLong)}};
}

struct Buildings {
  Buildings() {
    at::manual_seed(8);
    for (const std::int64_t width : {4, 6, 4, 8, 6, 4}) database.push_back(picture(5, width));
    queries = {picture(5, 4, {{0, 1}, {2}, {3}}), picture(7, 3, {{4}, {5, 0}, {}})};
  }
  std::function<void(Split, const std::function<void(const Batch&)>&)> batches() const {
    return [this](Split split, const std::function<void(const Batch&)>& use) {
      const std::vector<NamedTensors>& all = split == Split::train ? database : queries;
      for (std::size_t begin = 0; begin < all.size(); begin += 4) {
        use(collated(
            {all.begin() + long(begin), all.begin() + long(std::min(all.size(), begin + 4))},
            buildings().fields));
      }
    };
  }

  std::vector<NamedTensors> database, queries;
};

TEST(ImageRetrieval, ComparesPicturesWithoutTheirPadding) {
  const Buildings data;
  const Tensor similarity = at::zeros({2, 6}, at::kDouble);
  for (std::int64_t q = 0; q < 2; ++q) {
    for (std::int64_t i = 0; i < 6; ++i) {
      const auto colour = [](const NamedTensors& one) {
        return one.at("image").to(at::kDouble).mean({1, 2});
      };
      const Tensor a = colour(data.queries[std::size_t(q)]),
                   b = colour(data.database[std::size_t(i)]);
      similarity[q][i] = a.dot(b) / (a.norm() * b.norm());
    }
  }
  const Metrics expected = revisited_metrics(similarity, {{{0, 1}, {2}, {3}}, {{4}, {5, 0}, {}}});
  Colours model;
  const DatasetInfo info = buildings();
  const auto task = testing::make_task("image_retrieval", info);
  Fitted fitted;
  Evaluation evaluation{model, info, Split::test, RandomStreams(1), data.batches()};
  evaluation.fitted = &fitted;
  const Metrics found = task->evaluate(evaluation);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(model.passes, 7) << "a pass for each size of a batch: 4, 6, 8; 4, 6; 4, 3";
  EXPECT_EQ(task->evaluate(evaluation), expected);
  EXPECT_EQ(model.passes, 9) << "the database was kept";
  EXPECT_EQ(fitted.saved.size(), 0u);
  const auto by_patches = testing::make_task("image_retrieval", info, "{features: [mean]}");
  evaluation.fitted = nullptr;
  for (const auto& [name, value] : by_patches->evaluate(evaluation)) {
    EXPECT_NEAR(value, expected.at(name), 1e-6) << "here the patches' mean is the class token";
  }
}

/// A channel at another scale by a bilinear filter: pixel i of the new side lies at (i + 1/2) /
/// scale - 1/2 of the old one.
double scaled_pixel(const Tensor& plane, double scale, std::int64_t y, std::int64_t x) {
  const auto place = [&](std::int64_t i, std::int64_t side) {
    const double at = std::max(0.0, (double(i) + 0.5) / scale - 0.5);
    const auto low = std::int64_t(at);
    return std::tuple{low, std::min(low + 1, side - 1), at - double(low)};
  };
  const auto [top, bottom, down] = place(y, plane.size(0));
  const auto [left, right, across] = place(x, plane.size(1));
  const auto between = [&, left = left, right = right, across = across](std::int64_t row) {
    return plane[row][left].item<double>() * (1 - across) +
           plane[row][right].item<double>() * across;
  };
  return between(top) * (1 - down) + between(bottom) * down;
}

TEST(ImageRetrieval, AddsUpTheFeaturesOfSeveralScales) {
  Buildings data;
  data.queries = {picture(5, 4, {{0, 1}, {2}, {3}})};
  const double scales[] = {1, 0.7071067811865476, 0.5};
  const Tensor expected = at::zeros({6, 3}, at::kDouble);
  for (std::int64_t i = 0; i < 6; ++i) {
    const Tensor image = data.database[std::size_t(i)].at("image");
    for (const double scale : scales) {
      const auto side = [&](std::int64_t whole) {
        const auto scaled = std::int64_t(std::floor(double(whole) * scale));
        return scaled - scaled % 2;
      };
      const std::int64_t height = side(image.size(1)), width = side(image.size(2));
      for (std::int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (std::int64_t y = 0; y < height; ++y) {
          for (std::int64_t x = 0; x < width; ++x) sum += scaled_pixel(image[c], scale, y, x);
        }
        expected[i][c].add_(sum / double(height * width));
      }
    }
    expected[i].div_(expected[i].norm());
  }
  Colours model;
  const DatasetInfo info = buildings();
  const auto task = testing::make_task("image_retrieval", info,
                                       "{scales: [1, 0.7071067811865476, 0.5], multiple: 2}");
  Fitted fitted;
  Evaluation evaluation{model, info, Split::test, RandomStreams(1), data.batches()};
  evaluation.fitted = &fitted;
  task->evaluate(evaluation);
  const Tensor found = fitted.kept.at("database").to(at::kDouble);
  EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(model.passes, 18) << "sizes 4, 6, 8; 4, 6; 4, each at three scales";
}

TEST(ImageRetrieval, RefusesScalesThatLeaveNothingAndFeaturesThatAreNoNumbers) {
  const DatasetInfo info = buildings();
  Buildings data;
  Colours model;
  const auto refusal = [&](const std::string& options) {
    const auto task = testing::make_task("image_retrieval", info, options);
    Evaluation evaluation{model, info, Split::test, RandomStreams(1), data.batches()};
    return message_of<DataError>([&] { task->evaluate(evaluation); });
  };
  EXPECT_THAT(
      refusal("{scales: [1, 0.5], multiple: 4}"),
      mentions("5 x 4 pixels", "2 x 2", "scale 0.5", "task.multiple (4)", "make that smaller"));
  EXPECT_THAT(
      message_of<ConfigError>([&] { testing::make_task("image_retrieval", info, "{scales: []}"); }),
      HasSubstr("scales: is empty"));
  data.queries[1].at("image").fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(refusal("{}"), mentions("test split", "'buildings'", "not numbers"));
  data.database[2].at("image").fill_(std::numeric_limits<float>::infinity());
  EXPECT_THAT(refusal("{}"), mentions("train split", "'buildings'"));
}

TEST(ImageRetrieval, TrainsNothingAndNeedsBothSplits) {
  const DatasetInfo info = buildings();
  const auto task = testing::make_task("image_retrieval", info);
  EXPECT_THAT(message_of<ConfigError>([&] { task->loss({}, {}); }),
              mentions("trains nothing", "evaluate:"));
  Buildings data;
  data.database.clear();
  Colours model;
  Evaluation evaluation{model, info, Split::test, RandomStreams(1), data.batches()};
  EXPECT_THAT(message_of<DataError>([&] { task->evaluate(evaluation); }),
              mentions("'buildings'", "no training split"));
}

}  // namespace
}  // namespace attnlab::image_retrieval_test
