// Video object segmentation: J and F against plain loops and the published numbers of every frame,
// propagation against plain loops, and the task on a video of which the answer is known.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/data/segmentation/label_png.h"
#include "plugins/tasks/dense/video_segmentation/label_propagation.h"
#include "plugins/tasks/dense/video_segmentation/region_boundary.h"
#include "tests/support/data_files.h"
#include "tests/support/plugins.h"

namespace attnlab::video_segmentation_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

// --- J and F ------------------------------------------------------------------------------------

/// Discs and single pixels.
Tensor blobs(std::int64_t height, std::int64_t width) {
  const Tensor y = at::arange(height, at::kDouble).view({-1, 1});
  const Tensor x = at::arange(width, at::kDouble).view({1, -1});
  Tensor mask = at::rand({height, width}, at::kDouble).lt(0.002);
  for (int i = 0; i < 4; ++i) {
    const Tensor middle = at::rand({3}, at::kDouble);
    const double top = middle[0].item<double>() * double(height);
    const double left = middle[1].item<double>() * double(width);
    const double radius = (0.05 + 0.2 * middle[2].item<double>()) * double(std::min(height, width));
    mask = mask.logical_or(((y - top).square() + (x - left).square()).lt(radius * radius));
  }
  return mask;
}

std::vector<std::vector<bool>> rows_of(const Tensor& mask) {
  std::vector<std::vector<bool>> rows;
  for (std::int64_t y = 0; y < mask.size(0); ++y) {
    const Tensor row = mask[y].contiguous();
    rows.emplace_back(row.data_ptr<bool>(), row.data_ptr<bool>() + row.numel());
  }
  return rows;
}

using Place = std::pair<std::int64_t, std::int64_t>;

/// As the public code shifts its arrays: 0 comes in, last row and column are written anew.
std::vector<Place> boundary_by_loops(const Tensor& mask) {
  const auto rows = rows_of(mask);
  const std::int64_t height = mask.size(0), width = mask.size(1);
  const auto at = [&](std::int64_t y, std::int64_t x) {
    return y < height && x < width && rows[std::size_t(y)][std::size_t(x)];
  };
  std::vector<Place> places;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const bool own = at(y, x);
      bool edge = own != at(y, x + 1) || own != at(y + 1, x) || own != at(y + 1, x + 1);
      if (y == height - 1) edge = own != at(y, x + 1);
      if (x == width - 1) edge = own != at(y + 1, x);
      if (y == height - 1 && x == width - 1) edge = false;
      if (edge) places.emplace_back(y, x);
    }
  }
  return places;
}

double near_share(const std::vector<Place>& places, const std::vector<Place>& others, double far) {
  double near = 0;
  for (const auto& [y, x] : places) {
    near += std::any_of(others.begin(), others.end(), [&, y = y, x = x](const Place& other) {
      return double((other.first - y) * (other.first - y) +
                    (other.second - x) * (other.second - x)) <= far * far;
    });
  }
  return near / double(places.size());
}

TEST(RegionAndBoundary, AgreeWithPlainLoops) {
  at::manual_seed(4);
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{40, 60}, {130, 170}, {7, 600}, {1, 9}}) {
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE(std::to_string(height) + " x " + std::to_string(width));
      const Tensor truth = blobs(height, width);
      const Tensor answer = i == 2 ? truth.roll({1, 2}, {0, 1}) : blobs(height, width);
      double both = 0, either = 0;
      const auto a = rows_of(truth), b = rows_of(answer);
      for (std::size_t y = 0; y < a.size(); ++y) {
        for (std::size_t x = 0; x < a[y].size(); ++x) {
          both += a[y][x] && b[y][x];
          either += a[y][x] || b[y][x];
        }
      }
      EXPECT_DOUBLE_EQ(region_similarity(truth, answer), either == 0 ? 1 : both / either);
      const auto real = boundary_by_loops(truth), found = boundary_by_loops(answer);
      const double far = std::ceil(0.008 * std::sqrt(double(height * height + width * width)));
      double expected = real.empty() && found.empty() ? 1 : 0;
      if (!real.empty() && !found.empty()) {
        const double precision = near_share(found, real, far);
        const double recall = near_share(real, found, far);
        if (precision + recall > 0) expected = 2 * precision * recall / (precision + recall);
      }
      EXPECT_NEAR(boundary_accuracy(truth, answer), expected, 1e-12);
    }
  }
}

TEST(RegionAndBoundary, OfEmptyMasks) {
  const Tensor none = at::zeros({20, 30}, at::kBool);
  Tensor some = none.clone();
  some.narrow(0, 5, 6).narrow(1, 8, 6).fill_(true);
  EXPECT_EQ(region_similarity(none, none), 1);
  EXPECT_EQ(boundary_accuracy(none, none), 1);
  for (const auto& [truth, answer] : {std::pair{none, some}, {some, none}}) {
    EXPECT_EQ(region_similarity(truth, answer), 0);
    EXPECT_EQ(boundary_accuracy(truth, answer), 0);
  }
  EXPECT_EQ(boundary_accuracy(some, some), 1);
  EXPECT_THAT(message_of<ShapeError>([&] { boundary_accuracy(some, some.narrow(0, 0, 9)); }),
              HasSubstr("[9, 30]"));
}

TEST(RegionAndBoundary, OverFramesHaveMeanRecallAndDecay) {
  const FrameScores five = over_frames({1, 0.6, 0.5, 0.4, 0.3});
  EXPECT_NEAR(five.mean, 0.56, 1e-15);
  EXPECT_NEAR(five.recall, 0.4, 1e-15) << "0.5 is not above 0.5";
  EXPECT_NEAR(five.decay, (1 + 0.6) / 2 - (0.4 + 0.3) / 2, 1e-15) << "quarters 0 1 and 3 4";
  // linspace(1, 6, 5) = 1, 2.25, 3.5, 4.75, 6: quarters 0 1 and 4 5.
  EXPECT_NEAR(over_frames({6, 5, 0, 0, 2, 1}).decay, 5.5 - 1.5, 1e-15);
  // linspace(1, 7, 5) = 1, 2.5, 4, 5.5, 7, a half goes up: quarters 0 to 2 and 5 6.
  EXPECT_NEAR(over_frames({9, 6, 3, 0, 0, 2, 1}).decay, 6 - 1.5, 1e-15);
  EXPECT_EQ(over_frames({0.7}).decay, 0);
}

/// The folder of masks and published numbers; empty where it is not here.
std::string videos_folder() {
  const char* data = std::getenv("ATTNLAB_DATA");
  const std::string folder = data == nullptr ? "" : std::string(data) + "/vos";
  return !folder.empty() && std::filesystem::exists(folder + "/raw_eval/2016") ? folder : "";
}

Tensor mask_in(const std::string& path) {
  const LabelPixels pixels = read_label_png(path);
  const Tensor numbers = at::empty({pixels.height, pixels.width}, at::kByte);
  std::copy(pixels.bytes.begin(), pixels.bytes.end(), numbers.data_ptr<std::uint8_t>());
  return numbers.gt(0);
}

/// J and F of a video's frames without the first and the last.
std::pair<std::vector<double>, std::vector<double>> measured(const std::string& truth,
                                                             const std::string& answers) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(truth)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::pair<std::vector<double>, std::vector<double>> values;
  for (std::size_t i = 1; i + 1 < names.size(); ++i) {
    const Tensor real = mask_in(truth + "/" + names[i]), found = mask_in(answers + "/" + names[i]);
    values.first.push_back(region_similarity(real, found));
    values.second.push_back(boundary_accuracy(real, found));
  }
  return values;
}

TEST(RegionAndBoundary, GiveThePublishedNumbersOfEveryFrame) {
  const std::string folder = videos_folder();
  if (folder.empty()) {
    GTEST_SKIP() << "needs $ATTNLAB_DATA/vos: DAVIS's masks, results of OSVOS and STM, raw_eval";
  }
  for (const auto& [method, video] :
       {std::pair{"osvos", "car-shadow"}, {"stm", "horsejump-high"}, {"osvos", "libby"}}) {
    SCOPED_TRACE(std::string(method) + ", " + video);
    const auto published = nlohmann::json::parse(
        read_text(folder + "/raw_eval/2016/" + method + "_davis.json"))[video];
    const auto [region, boundary] = measured(folder + "/DAVIS-2016/Annotations/480p/" + video,
                                             folder + "/results/2016/" + method + "/" + video);
    for (const auto& [name, values] : {std::pair{"J", region}, {"F", boundary}}) {
      ASSERT_EQ(published[name].size(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], std::stod(published[name][i].get<std::string>()), 0.00051)
            << name << " of frame " << i + 1;
      }
    }
  }
  const auto of_objects =
      nlohmann::json::parse(read_text(folder + "/raw_eval/2017/osvos_davis.json"));
  const auto [region, boundary] = measured(folder + "/DAVIS-2016/Annotations/480p/libby",
                                           folder + "/results/2017/semi-supervised/osvos/libby");
  const auto& libby = of_objects["libby_1"];
  EXPECT_NEAR(over_frames(region).mean, std::stod(libby["J"].get<std::string>()), 0.000051);
  EXPECT_NEAR(over_frames(boundary).mean, std::stod(libby["F"].get<std::string>()), 0.000051);
}

// --- propagation --------------------------------------------------------------------------------

/// One frame's shares by loops over all pairs of patches.
Tensor carried_by_loops(const std::vector<Tensor>& features, const std::vector<Tensor>& shares,
                        const Tensor& now, const PropagationRule& rule) {
  const std::int64_t rows = now.size(0), columns = now.size(1), labels = shares[0].size(0);
  const Tensor out = at::zeros({labels, rows, columns}, at::kDouble);
  const auto cosine = [](const Tensor& a, const Tensor& b) {
    return (a.dot(b) / (a.norm() * b.norm())).item<double>();
  };
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x) {
      struct Seen {
        double weight;
        std::size_t frame;
        std::int64_t y, x;
      };
      std::vector<Seen> seen;
      for (std::size_t f = 0; f < features.size(); ++f) {
        for (std::int64_t v = 0; v < rows; ++v) {
          for (std::int64_t u = 0; u < columns; ++u) {
            const bool near = std::abs(v - y) <= rule.radius && std::abs(u - x) <= rule.radius;
            if (rule.radius > 0 && !near) continue;
            const double weight = std::exp(cosine(now[y][x], features[f][v][u]) / rule.temperature);
            seen.push_back({weight, f, v, u});
          }
        }
      }
      std::sort(seen.begin(), seen.end(),
                [](const Seen& a, const Seen& b) { return a.weight > b.weight; });
      seen.resize(std::min(seen.size(), std::size_t(rule.neighbours)));
      double sum = 0;
      for (const Seen& one : seen) sum += one.weight;
      for (const Seen& one : seen) {
        for (std::int64_t k = 0; k < labels; ++k) {
          out[k][y][x].add_(shares[one.frame][k][one.y][one.x] * (one.weight / sum));
        }
      }
    }
  }
  return out;
}

TEST(LabelPropagation, AgreesWithPlainLoops) {
  for (const PropagationRule& rule :
       {PropagationRule{2, 3, 1, 0.1}, PropagationRule{2, 100, 2, 0.5}, PropagationRule{0, 2, 0, 1},
        PropagationRule{7, 5, 12, 0.1}}) {
    SCOPED_TRACE(rule.neighbours);
    at::manual_seed(6);
    std::vector<Tensor> features, shares;
    for (int i = 0; i < 5; ++i) features.push_back(at::randn({3, 4, 6}, at::kDouble));
    shares.push_back(at::randint(0, 3, {3, 4}, at::kLong)
                         .unsqueeze(0)
                         .eq(at::arange(3).view({-1, 1, 1}))
                         .to(at::kDouble));
    LabelPropagation propagation(rule, features[0], shares[0]);
    for (std::size_t now = 1; now < features.size(); ++now) {
      std::vector<Tensor> seen = {features[0]}, labels = {shares[0]};
      const std::size_t from = std::max<std::size_t>(
          1, now > std::size_t(rule.frames) ? now - std::size_t(rule.frames) : 1);
      for (std::size_t i = from; i < now; ++i) {
        seen.push_back(features[i]);
        labels.push_back(shares[i]);
      }
      shares.push_back(carried_by_loops(seen, labels, features[now], rule));
      const Tensor found = propagation.next(features[now]);
      EXPECT_LT((found - shares[now]).abs().max().item<double>(), 1e-12) << "frame " << now;
    }
    EXPECT_THAT(message_of<ShapeError>([&] { propagation.next(features[0].narrow(0, 0, 2)); }),
                HasSubstr("of its video's first frame"));
  }
}

TEST(LabelPropagation, KeepsEqualsOfTheLastNeighbour) {
  // Every patch looks alike: with one neighbour all of them are equally near, and all count.
  const Tensor alike = at::tensor({1.0F, 0.0F}).expand({1, 4, 2});
  LabelPropagation propagation({7, 1, 0, 0.1}, alike,
                               at::tensor({1.0F, 0.0F, 0.0F, 0.0F}).view({1, 1, 4}));
  EXPECT_TRUE(propagation.next(alike).allclose(at::full({1, 1, 4}, 0.25F)));
}

TEST(LabelPropagation, AnswersByStretchedSharesAtTheFramesOwnSize) {
  // The second label never has the larger share, and has the larger stretched one in two cells.
  const Tensor shares =
      at::tensor({0.9, 0.6, 0.8, 0.6, 0.1, 0.4, 0.2, 0.4}, at::kDouble).view({2, 2, 2});
  const Tensor cells = at::tensor({0, 1, 0, 1}, at::kLong).view({2, 2});
  EXPECT_TRUE(answers_of_shares(shares, 2, 2, 2, 2).equal(cells));
  const Tensor large = answers_of_shares(shares, 2, 2, 3, 5);
  for (std::int64_t y = 0; y < 3; ++y) {
    for (std::int64_t x = 0; x < 5; ++x) {
      const auto row = std::int64_t((double(y) + 0.5) * 2 / 3);
      const auto column = std::int64_t((double(x) + 0.5) * 2 / 5);
      EXPECT_TRUE(large[y][x].equal(cells[row][column])) << y << " " << x;
    }
  }
  // Shares of cells, smoothly resized to 4 x 4 before they are compared: columns by 3/4 and 1/4.
  const Tensor smooth = answers_of_shares(shares.narrow(1, 0, 1), 1, 4, 1, 4);
  EXPECT_TRUE(smooth.equal(at::tensor({0, 0, 1, 1}, at::kLong).view({1, 4})));
  // A label that nothing has stays without answers, and one that all have takes them all.
  const Tensor one = at::stack({at::ones({2, 2}), at::zeros({2, 2})});
  EXPECT_TRUE(answers_of_shares(one, 2, 2, 2, 2).eq(0).all().item<bool>());
}

// --- the task -----------------------------------------------------------------------------------

/// Its patches are the colours of cells of two pixels.
class Cells final : public Model {
 public:
  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    const Tensor map = at::avg_pool2d(batch.fields.at("image"), {2, 2});
    ++passes;
    if (pass.features != nullptr) {
      pass.features->depth = 1;
      pass.features->found.push_back(
          {1, {}, map.flatten(2).transpose(1, 2) * scale, map.size(2), map.size(3)});
    }
    return {{"logits", map.mean({2, 3})}};
  }

  int passes = 0;
  double scale = 1;
};

DatasetInfo films() {
  DatasetInfo info;
  info.name = "films";
  info.fields = {{"image", {3, -1, -1}, at::kFloat}, {"shown", {2}, at::kLong},
                 {"label_map", {-1, -1}, at::kLong}, {"size", {2}, at::kLong},
                 {"video", {}, at::kLong},           {"frame", {}, at::kLong}};
  return info;
}

/// Two squares of their own colours that move by two pixels a frame.
NamedTensors film_frame(std::int64_t video, std::int64_t frame, std::int64_t width) {
  const Tensor labels = at::zeros({20, width}, at::kLong);
  labels.narrow(0, 2, 6).narrow(1, 2 + 2 * frame, 6).fill_(1);
  labels.narrow(0, 12, 6).narrow(1, width - 8 - 2 * frame, 6).fill_(2);
  const Tensor image = at::one_hot(labels, 3).permute({2, 0, 1}).to(at::kFloat).contiguous();
  return {{"image", image},
          {"shown", at::tensor({std::int64_t{20}, width}, at::kLong)},
          {"label_map", labels},
          {"size", at::tensor({std::int64_t{20}, width}, at::kLong)},
          {"video", at::scalar_tensor(video, at::kLong)},
          {"frame", at::scalar_tensor(frame, at::kLong)}};
}

std::vector<NamedTensors> films_of(std::int64_t frames) {
  std::vector<NamedTensors> all;
  for (const std::int64_t video : {0, 1}) {
    for (std::int64_t frame = 0; frame < frames; ++frame) {
      all.push_back(film_frame(video, frame, video == 0 ? 40 : 32));
    }
  }
  return all;
}

/// What the task measures in batches of so many frames.
Metrics measured_in(const std::vector<NamedTensors>& frames, std::size_t batch, Cells& model) {
  const DatasetInfo info = films();
  const auto task = testing::make_task("video_segmentation", info, "{radius: 3}");
  Evaluation evaluation{model, info, Split::test, RandomStreams(1), {}};
  evaluation.batches = [&](Split, const std::function<void(const Batch&)>& use) {
    for (std::size_t begin = 0; begin < frames.size(); begin += batch) {
      const std::size_t end = std::min(frames.size(), begin + batch);
      use(collated({frames.begin() + long(begin), frames.begin() + long(end)}, info.fields));
    }
  };
  return task->evaluate(evaluation);
}

TEST(VideoSegmentation, FollowsObjectsByTheirFeatures) {
  for (const std::size_t batch : {1, 3, 5}) {  // of 3: frames of both videos, padded
    Cells model;
    const Metrics found = measured_in(films_of(5), batch, model);
    EXPECT_EQ(found.size(), 7u);
    for (const char* name : {"jf_mean", "j_mean", "j_recall", "f_mean", "f_recall"}) {
      EXPECT_NEAR(found.at(name), 1, 1e-12) << name << ", in batches of " << batch;
    }
    EXPECT_EQ(found.at("j_decay"), 0);
    if (batch == 5) {
      EXPECT_EQ(model.passes, 2) << "frames of one size are one pass";
    }
  }
}

TEST(VideoSegmentation, LeavesOutTheFirstAndTheLastFrame) {
  std::vector<NamedTensors> frames = films_of(5);
  Cells model;
  // In the last frame everything is said to be the first object, and nothing changes.
  frames[4].set("label_map", at::ones({20, 40}, at::kLong));
  EXPECT_NEAR(measured_in(frames, 5, model).at("jf_mean"), 1, 1e-12);
  // In the third one the first object is said to be absent, and so is what has no label.
  Tensor labels = frames[2].at("label_map").clone();
  labels.masked_fill_(labels.eq(1), -1);
  frames[2].set("label_map", labels);
  const Metrics found = measured_in(frames, 5, model);
  EXPECT_NEAR(found.at("j_mean"), (2.0 / 3 + 1 + 1 + 1) / 4, 1e-12) << "the mean is of objects";
  EXPECT_NEAR(found.at("f_recall"), (2.0 / 3 + 1 + 1 + 1) / 4, 1e-12);
  EXPECT_NEAR(found.at("jf_mean"), (found.at("j_mean") + found.at("f_mean")) / 2, 1e-15);
}

TEST(VideoSegmentation, RefusesWhatIsNoWholeVideo) {
  Cells model;
  const auto refusal = [&](const std::vector<NamedTensors>& frames) {
    return message_of<DataError>([&] { measured_in(frames, 1, model); });
  };
  const std::vector<NamedTensors> whole = films_of(5);
  EXPECT_THAT(refusal({whole[3]}), AllOf(HasSubstr("video 0: frame 3 comes without"),
                                         HasSubstr("leave out `predictions`")));
  EXPECT_THAT(refusal({whole[0], whole[2]}), HasSubstr("video 0: frame 2 comes without"));
  EXPECT_THAT(refusal({whole[0], whole[1], whole[5]}), HasSubstr("video 0: has 2 frames"));
  NamedTensors empty = whole[0];
  empty.set("label_map", at::zeros({20, 40}, at::kLong));
  EXPECT_THAT(refusal({empty}), mentions("video 0:", "first frame", "no object"));
  model.scale = std::nan("");
  EXPECT_THAT(refusal(whole), mentions("video 0, frame 0:", "not finite"));
  const auto task = testing::make_task("video_segmentation", films());
  EXPECT_THAT(message_of<ConfigError>([&] { task->loss({}, {}); }),
              mentions("trains nothing", "evaluate:"));
  EXPECT_THAT(message_of<ConfigError>(
                  [] { testing::make_task("video_segmentation", films(), "{layer: 0}"); }),
              HasSubstr("layer"));
}

}  // namespace
}  // namespace attnlab::video_segmentation_test
