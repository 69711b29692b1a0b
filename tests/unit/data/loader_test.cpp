#include "framework/data/loader.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/data_files.h"

namespace attnlab {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kExamples = 103;

/// Example i is [i, a draw of its augmentation stream]; it takes a while where asked to.
class Numbers final : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kExamples; }
  NamedTensors example(Split, std::int64_t index, Random* augmentation) const override {
    ++made;
    if (index == broken) throw DataError("example " + std::to_string(index) + " is broken");
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    // Early examples take longest, so that later batches are finished first.
    if (uneven) std::this_thread::sleep_for(std::chrono::microseconds(20 * (kExamples - index)));
    const double draw = augmentation != nullptr ? augmentation->uniform() : -1.0;
    return {{"x", at::tensor({static_cast<double>(index), draw}, at::kDouble)}};
  }

  mutable std::atomic<int> made{0};
  std::int64_t broken = -1;
  milliseconds pause{0};
  bool uneven = false;

 private:
  DatasetInfo info_;
};

/// The same numbers in memory, plus `offset`, and a place for each.
class Resident final : public Dataset {
 public:
  explicit Resident(std::int64_t offset) {
    all_.size = kExamples;
    const Tensor places = at::arange(kExamples, at::kLong);
    all_.fields.set("x", (places + offset).to(at::kDouble).unsqueeze(1).expand({-1, 3}).clone());
    all_.fields.set("place", places);
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kExamples; }
  NamedTensors example(Split, std::int64_t i, Random*) const override {
    return {{"x", all_.fields.at("x")[i]}, {"place", all_.fields.at("place")[i]}};
  }
  const Batch* resident(Split) const override { return hidden ? nullptr : &all_; }

  bool hidden = false;

 private:
  DatasetInfo info_;
  Batch all_;
};

/// Loaders of three datasets in orders of their own, the second of which has ended where asked.
struct Three {
  explicit Three(bool hidden) {
    for (std::int64_t i = 0; i < 3; ++i) {
      data.push_back(std::make_unique<Resident>(1000 * i));
      data.back()->hidden = hidden && i > 0;
      const RandomStreams streams(std::uint64_t(i) + 5);
      loaders.push_back(std::make_unique<Loader>(*data.back(), streams,
                                                 permutation(kExamples, streams.stream("order")),
                                                 LoaderSettings{.batch_size = 10}));
    }
  }

  std::vector<Loader*> all(bool ended) const {
    return {loaders[0].get(), ended ? nullptr : loaders[1].get(), loaders[2].get()};
  }

  std::vector<std::unique_ptr<Resident>> data;
  std::vector<std::unique_ptr<Loader>> loaders;
};

std::vector<Tensor> all_batches(const Dataset& dataset, const LoaderSettings& settings,
                                std::uint64_t seed = 1) {
  const RandomStreams streams(seed);
  Loader loader(dataset, streams, permutation(kExamples, streams.stream("order", settings.epoch)),
                settings);
  std::vector<Tensor> batches;
  while (const std::optional<Batch> batch = loader.next()) {
    EXPECT_EQ(batch->size, batch->fields.at("x").size(0));
    batches.push_back(batch->fields.at("x"));
  }
  EXPECT_FALSE(loader.next().has_value());
  return batches;
}

void expect_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST(Loader, YieldsTheOrderCutIntoBatches) {
  const Numbers dataset;
  const auto order = permutation(kExamples, RandomStreams(1).stream("order"));
  for (const std::int64_t workers : {0, 2}) {
    const auto batches = all_batches(dataset, {.batch_size = 10, .workers = workers});
    ASSERT_EQ(batches.size(), 11U);
    EXPECT_EQ(batches.back().size(0), 3);
    const Tensor all = at::cat(batches);
    for (std::int64_t i = 0; i < kExamples; ++i) {
      ASSERT_EQ(all[i][0].item<double>(), static_cast<double>(order[std::size_t(i)]));
      ASSERT_EQ(all[i][1].item<double>(), -1.0) << "augmented without being asked to";
    }
  }
}

TEST(Loader, YieldsTheSameWhateverTheNumberOfWorkers) {
  Numbers dataset;
  LoaderSettings settings{.batch_size = 8, .augment = true, .epoch = 3, .workers = 0};
  const std::vector<Tensor> expected = all_batches(dataset, settings);
  dataset.uneven = true;
  for (const std::int64_t workers : {1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 3, 50}) {
      settings.workers = workers;
      settings.prefetch = prefetch;
      expect_equal(all_batches(dataset, settings), expected);
    }
  }
}

TEST(Loader, YieldsRowsOfWhatIsInMemory) {
  Three in_memory(false), asked(true);
  for (std::size_t i = 0; i < 3; ++i) {
    while (const std::optional<Batch> batch = in_memory.loaders[i]->next()) {
      const Batch expected = *asked.loaders[i]->next();
      EXPECT_EQ(batch->size, expected.size);
      for (const char* name : {"x", "place"}) {
        EXPECT_TRUE(batch->fields.at(name).equal(expected.fields.at(name)));
      }
    }
    EXPECT_FALSE(asked.loaders[i]->next());
  }
}

TEST(Loader, RefusesAnOrderBeyondWhatIsInMemory) {
  const Resident dataset(0);
  for (const std::int64_t wrong : {std::int64_t{-1}, kExamples}) {
    EXPECT_THAT(message_of<DataError>([&] {
                  Loader(dataset, RandomStreams(1), {0, wrong}, LoaderSettings{});
                }),
                HasSubstr("of a split of 103"));
  }
}

TEST(NextOf, IsTheNextOfEachOneAfterTheOther) {
  for (const bool hidden : {false, true}) {
    for (const bool ended : {false, true}) {
      Three together(hidden), alone(false);
      int batches = 0;
      while (const std::optional<Batch> batch = next_of(together.all(ended))) {
        ++batches;
        std::vector<Batch> each;
        for (const auto& loader : alone.loaders) each.push_back(*loader->next());
        EXPECT_EQ(batch->size, 3 * each[0].size);
        for (const char* name : {"x", "place"}) {
          const auto parts = batch->fields.at(name).chunk(3);
          EXPECT_TRUE(parts[0].equal(each[0].fields.at(name)));
          EXPECT_TRUE(parts[2].equal(each[2].fields.at(name)));
          EXPECT_EQ(parts[1].equal(each[1].fields.at(name)), !ended);
        }
      }
      EXPECT_EQ(batches, 11);
      EXPECT_FALSE(next_of({together.loaders[0].get()}));
    }
  }
  EXPECT_FALSE(next_of({nullptr, nullptr}));
}

TEST(Loader, AugmentsByEpochAndExampleNotByPosition) {
  const Numbers dataset;
  const RandomStreams streams(4);
  Loader loader(dataset, streams, {5, 9, 5}, {.batch_size = 3, .augment = true, .epoch = 2});
  const Tensor x = loader.next()->fields.at("x");
  EXPECT_EQ(x[0][1].item<double>(), x[2][1].item<double>());
  EXPECT_EQ(x[1][1].item<double>(), streams.stream("augmentation", 2, 9).uniform());
  LoaderSettings settings{.batch_size = 8, .augment = true, .epoch = 0};
  const Tensor first = at::cat(all_batches(dataset, settings)).sum(0);
  settings.epoch = 1;
  EXPECT_NE(at::cat(all_batches(dataset, settings)).sum(0)[1].item<double>(),
            first[1].item<double>());
}

TEST(Loader, BeginsAtALaterBatchWithoutMakingTheEarlierOnes) {
  Numbers dataset;
  LoaderSettings settings{.batch_size = 10, .augment = true};
  std::vector<Tensor> expected = all_batches(dataset, settings);
  expected.erase(expected.begin(), expected.begin() + 7);
  settings.first_batch = 7;
  for (const std::int64_t workers : {0, 2}) {
    settings.workers = workers;
    dataset.made = 0;
    expect_equal(all_batches(dataset, settings), expected);
    EXPECT_EQ(dataset.made, kExamples - 70);
  }
  settings.first_batch = 11;
  EXPECT_TRUE(all_batches(dataset, settings).empty());
}

TEST(Loader, LeavesOutTheLastBatchWhereAsked) {
  const Numbers dataset;
  LoaderSettings settings{.batch_size = 10, .drop_last = true};
  EXPECT_EQ(all_batches(dataset, settings).size(), 10U);
  settings.batch_size = kExamples;
  EXPECT_EQ(all_batches(dataset, settings).size(), 1U);
  settings.batch_size = kExamples + 1;
  EXPECT_EQ(all_batches(dataset, settings).size(), 0U);
  Loader loader(dataset, RandomStreams(0), in_order(kExamples), {.batch_size = 10});
  EXPECT_EQ(loader.batches(), 11);
}

TEST(Loader, HandsOnWhatTheDatasetThrewAtTheBatchItBelongsTo) {
  Numbers dataset;
  dataset.broken = 25;
  for (const std::int64_t workers : {0, 1, 3}) {
    Loader loader(dataset, RandomStreams(0), in_order(kExamples),
                  {.batch_size = 10, .workers = workers, .prefetch = 8});
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_TRUE(loader.next().has_value());
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(message_of<DataError>([&] { loader.next(); }), "example 25 is broken");
    }
  }
}

TEST(Loader, HoldsNoMoreBatchesThanAskedFor) {
  const Numbers dataset;
  Loader loader(dataset, RandomStreams(0), in_order(kExamples),
                {.batch_size = 5, .workers = 1, .prefetch = 3});
  for (int i = 0; i < 400 && dataset.made < 15; ++i) std::this_thread::sleep_for(milliseconds(5));
  std::this_thread::sleep_for(milliseconds(30));  // time in which too many would be made
  EXPECT_EQ(dataset.made, 15);
  loader.next();
  for (int i = 0; i < 400 && dataset.made < 20; ++i) std::this_thread::sleep_for(milliseconds(5));
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(dataset.made, 20);
}

// A whole batch would take 5 s, what is queued half a minute.
TEST(Loader, IsDestroyedPromptlyInMidEpoch) {
  Numbers dataset;
  dataset.pause = milliseconds(100);
  auto loader =
      std::make_unique<Loader>(dataset, RandomStreams(0), in_order(kExamples),
                               LoaderSettings{.batch_size = 50, .workers = 2, .prefetch = 6});
  std::this_thread::sleep_for(milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  loader.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(2000));
  const int made = dataset.made;
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_EQ(dataset.made, made) << "a worker outlived the loader";
}

TEST(Loader, SurvivesBeingMadeAndDestroyedAgainAndAgain) {
  const Numbers dataset;
  for (int i = 0; i < 300; ++i) {
    Loader loader(dataset, RandomStreams(0), in_order(kExamples),
                  {.batch_size = 7, .workers = 1 + i % 3, .prefetch = 1 + i % 5});
    for (int k = 0; k < i % 4; ++k) ASSERT_TRUE(loader.next().has_value());
  }
}

TEST(Loader, MakesBatchesAheadOfTheReader) {
  Numbers dataset;
  dataset.pause = milliseconds(2);
  Loader loader(dataset, RandomStreams(0), in_order(20),
                {.batch_size = 10, .workers = 1, .prefetch = 2});
  for (int i = 0; i < 400 && dataset.made < 20; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(dataset.made, 20);  // nobody has asked for a batch yet
  EXPECT_TRUE(loader.next().has_value());
}

TEST(Loader, OfAnEmptySplitEndsAtOnce) {
  const Numbers dataset;
  for (const std::int64_t workers : {0, 2}) {
    Loader loader(dataset, RandomStreams(0), {}, {.batch_size = 4, .workers = workers});
    EXPECT_EQ(loader.batches(), 0);
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(Loader, RefusesSettingsWithoutMeaning) {
  const Numbers dataset;
  const std::string message = message_of<ConfigError>([&] {
    Loader(dataset, RandomStreams(0), {},
           {.batch_size = 0, .first_batch = -1, .workers = -2, .prefetch = 0});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("batch_size"), HasSubstr("first_batch"),
                             HasSubstr("workers"), HasSubstr("prefetch")));
}

}  // namespace
}  // namespace attnlab
