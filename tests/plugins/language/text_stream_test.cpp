// Text streams: streams without loss, windows from anywhere, overlapping windows, lines.
#include <limits>
#include <set>

#include "framework/data/loader.h"
#include "tests/plugins/language/text_streams.h"

namespace attnlab::text_stream_test {
namespace {

using testing::expect_contract_kept;
using testing::list_of;
using testing::Numbers;
using testing::TempFolder;

/// Text by byte whose tokens are 0, 1, 2, ... so that a token is its own position.
std::string counting(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i);
  return text;
}

class TextStream : public testing::TextFolder {
 protected:
  /// Bytes 0, 1, ... of both splits.
  std::shared_ptr<Dataset> counted(std::size_t bytes, const std::string& options) const {
    folder.write("train.txt", counting(bytes));
    folder.write("test.txt", counting(bytes));
    return open("unit: byte, " + options);
  }
};

/// Batches of a plan from one of them on, as a run that is resumed gets them.
std::vector<Batch> batches_of(const Dataset& dataset, const PlanRequest& request,
                              std::int64_t first = 0) {
  LoaderSettings settings;
  settings.split = request.split;
  settings.augment = request.training;
  settings.epoch = request.epoch;
  settings.first_batch = first;
  settings.workers = 0;
  Loader loader(dataset, request.streams, dataset.plan(request), settings);
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(*std::move(batch));
  return batches;
}

/// Of counted bytes: each target's token is its position, and its input stands just before it.
Numbers sorted_targets(const std::vector<Batch>& batches) {
  Numbers all;
  for (const Batch& batch : batches) {
    const Numbers tokens = list_of(batch.fields.at("tokens"));
    const Numbers targets = list_of(batch.fields.at("targets"));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] < 0) continue;
      EXPECT_EQ(tokens[i] + 1, targets[i]);
      all.push_back(targets[i]);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

Numbers one_to(std::int64_t last) {
  Numbers all;
  for (std::int64_t i = 1; i <= last; ++i) all.push_back(i);
  return all;
}

TEST_F(TextStream, LosesAndRepeatsNoTokenForAnyBatchSize) {
  for (const std::int64_t bytes : {2, 3, 17, 64, 65, 100, 256}) {
    for (const std::int64_t window : {1, 5, 16}) {
      const auto dataset = counted(std::size_t(bytes), "window: " + std::to_string(window));
      for (const std::int64_t batch_size : {1, 2, 3, 7, 64, 1000}) {
        for (const bool training : {false, true}) {
          const std::vector<Batch> batches =
              batches_of(*dataset, {.training = training, .batch_size = batch_size});
          ASSERT_EQ(sorted_targets(batches), one_to(bytes - 1))
              << bytes << " bytes, window " << window << ", batch " << batch_size;
          ASSERT_LE(batches[0].size, batch_size);
        }
      }
    }
  }
}

TEST_F(TextStream, GoesOnInTheSameRow) {
  const auto dataset = counted(200, "window: 8");
  const std::vector<Batch> batches = batches_of(*dataset, {.training = true, .batch_size = 3});
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_EQ(batches[i].continues, i > 0);
    EXPECT_EQ(batches[i].size, batches[0].size);
    if (i == 0) continue;
    for (std::int64_t row = 0; row < batches[i].size; ++row) {
      const Tensor before = batches[i - 1].fields.at("targets")[row];
      const Tensor now = batches[i].fields.at("tokens")[row];
      if (before[7].item<std::int64_t>() < 0) continue;  // the last row has ended
      EXPECT_EQ(now[0].item<std::int64_t>(), before[7].item<std::int64_t>());
    }
  }
}

TEST_F(TextStream, IsTheSameAfterItIsResumedAtAnyStep) {
  for (const char* order : {"stream", "random"}) {
    const auto dataset = counted(250, std::string("window: 9, order: ") + order);
    const PlanRequest request{.training = true, .batch_size = 4, .epoch = 2};
    const std::vector<Batch> whole = batches_of(*dataset, request);
    for (std::int64_t first = 0; first < std::ssize(whole); ++first) {
      const std::vector<Batch> rest = batches_of(*dataset, request, first);
      ASSERT_EQ(std::ssize(rest), std::ssize(whole) - first);
      for (std::size_t i = 0; i < rest.size(); ++i) {
        const Batch& expected = whole[std::size_t(first) + i];
        EXPECT_TRUE(rest[i].fields.at("tokens").equal(expected.fields.at("tokens")));
        EXPECT_TRUE(rest[i].fields.at("targets").equal(expected.fields.at("targets")));
        EXPECT_EQ(rest[i].continues, expected.continues);
      }
    }
  }
}

TEST_F(TextStream, CutsTheStreamOfAnEvaluationIntoTheRowsAskedFor) {
  const auto one = counted(200, "window: 8, eval_rows: 1");
  const std::vector<Batch> batches = batches_of(*one, {.split = Split::test, .batch_size = 64});
  EXPECT_EQ(batches.size(), 25U);
  EXPECT_EQ(batches[0].size, 1);
  EXPECT_EQ(batches_of(*one, {.training = true, .batch_size = 5})[0].size, 5);
}

TEST_F(TextStream, MayBeOneBatchHoweverManyRowsItHasRoomFor) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto dataset = counted(200, "window: 1");
  for (const bool training : {true, false}) {
    const EpochPlan plan = dataset->plan({.training = training, .budget = kMost});
    EXPECT_EQ(plan.ends, Numbers{199});
  }
  EXPECT_THAT(
      testing::message_of<ConfigError>([&] { counted(200, "eval_rows: 9223372036854775807"); }),
      ::testing::HasSubstr("eval_rows: 9223372036854775807 is out of range"));
}

TEST_F(TextStream, TakesWindowsFromAnywhereInTraining) {
  const auto dataset = counted(250, "window: 10, order: random");
  std::set<std::int64_t> begins;
  for (std::uint64_t epoch = 0; epoch < 60; ++epoch) {
    const PlanRequest request{.training = true, .batch_size = 4, .epoch = epoch};
    const EpochPlan plan = dataset->plan(request);
    EXPECT_FALSE(plan.continues);
    EXPECT_EQ(plan.batches(), 249 / 40);
    begins.insert(plan.order.begin(), plan.order.end());
  }
  EXPECT_EQ(*begins.begin(), 0);
  EXPECT_EQ(*begins.rbegin(), 239);  // the last window has all its targets
  EXPECT_GT(begins.size(), 230U);
  const std::vector<Batch> held_out = batches_of(*dataset, {.split = Split::test, .batch_size = 4});
  EXPECT_EQ(sorted_targets(held_out), one_to(249));
}

TEST_F(TextStream, CountsEachTargetOnceWhereWindowsOverlap) {
  for (const std::int64_t stride : {1, 3, 8}) {
    for (const std::int64_t bytes : {5, 9, 10, 40}) {
      const auto dataset =
          counted(std::size_t(bytes), "window: 8, stride: " + std::to_string(stride));
      const PlanRequest request{.split = Split::test, .batch_size = 3};
      const std::vector<Batch> batches = batches_of(*dataset, request);
      EXPECT_EQ(sorted_targets(batches), one_to(bytes - 1)) << "stride " << stride;
      std::int64_t window = 0;
      for (const Batch& batch : batches) {
        EXPECT_FALSE(batch.continues);
        for (std::int64_t row = 0; row < batch.size; ++row, ++window) {
          const Numbers targets = list_of(batch.fields.at("targets")[row]);
          for (std::size_t i = 0; i < targets.size(); ++i) {
            // After the first window, a target has at least window - stride tokens before it.
            if (window > 0 && targets[i] >= 0) {
              EXPECT_GE(std::int64_t(i), 8 - stride);
            }
          }
        }
      }
    }
  }
  const auto published = counted(200, "window: 8, stride: 1");
  EXPECT_EQ(published->plan({.split = Split::test, .batch_size = 1}).batches(), 199 - 8 + 1);
  EXPECT_EQ(sorted_targets(batches_of(*published, {.training = true, .batch_size = 2})),
            one_to(199));
}

TEST_F(TextStream, MakesEachLineAnExampleThatSeesNoOther) {
  folder.write("train.txt", "a b c\n");
  folder.write("test.txt", "a\n\nb c a b c\nc");
  const auto dataset = open("lines: true, window: 4");
  ASSERT_EQ(dataset->info().vocabulary, 5);  // <eos> a b c <unk>
  ASSERT_EQ(dataset->size(Split::test), 5);
  const auto line = [&](std::int64_t i) {
    const NamedTensors example = dataset->example(Split::test, i, nullptr);
    return std::pair(list_of(example.at("tokens")), list_of(example.at("targets")));
  };
  EXPECT_EQ(line(0), std::pair(Numbers({0, 1}), Numbers({1, 0})));
  EXPECT_EQ(line(1), std::pair(Numbers({0}), Numbers({0})));
  EXPECT_EQ(line(2), std::pair(Numbers({0, 2, 3, 1}), Numbers({2, 3, 1, 2})));
  EXPECT_EQ(line(3), std::pair(Numbers({2, 3}), Numbers({3, 0})));  // the rest of a long line
  EXPECT_EQ(line(4), std::pair(Numbers({0, 3}), Numbers({3, 0})));
  const Batch batch = batches_of(*dataset, {.split = Split::test, .batch_size = 3})[0];
  EXPECT_EQ(list_of(batch.fields.at("targets")),
            Numbers({1, 0, -1, -1, 0, -1, -1, -1, 2, 3, 1, 2}));
  EXPECT_TRUE(
      batch.fields.at("tokens_valid")
          .equal(at::tensor({1, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}).to(at::kBool).view({3, 4})));
  EXPECT_EQ(dataset->cost(Split::test, 2), 4);
  EXPECT_EQ(dataset->cost(Split::test, 1), 1);
}

class TextStreamOptions : public ::testing::TestWithParam<const char*> {};

TEST_P(TextStreamOptions, KeepTheContract) {
  const TempFolder folder;
  std::string text;
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    text += "the word" + std::to_string(random.below(40)) + (random.below(6) == 0 ? ".\n" : ", ");
  }
  folder.write("train.txt", text);
  folder.write("valid.txt", text.substr(0, 500));
  folder.write("test.txt", text.substr(1000, 700));
  const std::string options = GetParam();
  expect_contract_kept("text_stream", "{root: " + folder.path() + ", window: 12, " + options + "}");
}

INSTANTIATE_TEST_SUITE_P(All, TextStreamOptions,
                         ::testing::Values("unit: word", "unit: byte, order: random",
                                           "unit: character, stride: 5, eval_rows: 2",
                                           "lines: true, split_marks: true", "word_swap: 0.05"));

}  // namespace
}  // namespace attnlab::text_stream_test
