#include "framework/data/loader.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "tests/support/data_files.h"

namespace attnlab::loader_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kExamples = 103;

/// Example i is [i, a draw of its augmentation stream].
class Numbers final : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kExamples; }
  NamedTensors make_example(Split, std::int64_t index, Random* augmentation) const override {
    ++inside;
    ++made;
    made.notify_all();
    if (meanwhile) meanwhile(index);
    --inside;
    if (index == broken) throw DataError("example " + std::to_string(index) + " is broken");
    const double draw = augmentation != nullptr ? augmentation->uniform() : -1.0;
    return {{"x", at::tensor({static_cast<double>(index), draw}, at::kDouble)}};
  }

  /// Returns once so many examples were begun.
  void wait_for(int examples) const {
    for (int now = made; now < examples; now = made) made.wait(now);
  }

  mutable std::atomic<int> made{0};
  mutable std::atomic<int> inside{0};  ///< calls that have not returned
  std::int64_t broken = -1;
  std::function<void(std::int64_t index)> meanwhile;

 private:
  DatasetInfo info_;
};

/// Work that takes longer for early examples, so that later batches are finished first.
void work_unevenly(std::int64_t index) {
  volatile std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 2000 * (kExamples - index); ++i) sum = sum + i;
}

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
  NamedTensors make_example(Split, std::int64_t i, Random*) const override {
    return {{"x", all_.fields.at("x")[i]}, {"place", all_.fields.at("place")[i]}};
  }
  const Batch* resident(Split) const override { return hidden ? nullptr : &all_; }

  bool hidden = false;

 private:
  DatasetInfo info_;
  Batch all_;
};

EpochPlan shuffled(const Dataset& dataset, const RandomStreams& streams, std::int64_t batch_size,
                   std::uint64_t epoch = 0) {
  return default_plan(
      dataset, {.training = true, .batch_size = batch_size, .epoch = epoch, .streams = streams});
}

/// Loaders of three datasets in orders of their own, the second of which has ended where asked.
struct Three {
  explicit Three(bool hidden) {
    for (std::int64_t i = 0; i < 3; ++i) {
      data.push_back(std::make_unique<Resident>(1000 * i));
      data.back()->hidden = hidden && i > 0;
      const RandomStreams streams(std::uint64_t(i) + 5);
      loaders.push_back(std::make_unique<Loader>(*data.back(), streams,
                                                 shuffled(*data.back(), streams, 10),
                                                 LoaderSettings{.workers = 0}));
    }
  }

  std::vector<Loader*> all(bool ended) const {
    return {loaders[0].get(), ended ? nullptr : loaders[1].get(), loaders[2].get()};
  }

  std::vector<std::unique_ptr<Resident>> data;
  std::vector<std::unique_ptr<Loader>> loaders;
};

std::vector<Tensor> all_batches(const Dataset& dataset, std::int64_t batch_size,
                                const LoaderSettings& settings) {
  const RandomStreams streams(1);
  Loader loader(dataset, streams, shuffled(dataset, streams, batch_size, settings.epoch), settings);
  std::vector<Tensor> batches;
  while (const std::optional<Batch> batch = loader.next()) {
    EXPECT_EQ(batch->size, batch->fields.at("x").size(0));
    EXPECT_FALSE(batch->continues);
    batches.push_back(batch->fields.at("x"));
  }
  EXPECT_FALSE(loader.next().has_value());
  return batches;
}

void expect_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST(Loader, YieldsThePlansBatches) {
  const Numbers dataset;
  const auto order = permutation(kExamples, RandomStreams(1).stream("order"));
  for (const std::int64_t workers : {0, 2}) {
    const auto batches = all_batches(dataset, 10, {.workers = workers});
    ASSERT_EQ(batches.size(), 11U);
    EXPECT_EQ(batches.back().size(0), 3);
    const Tensor all = at::cat(batches);
    for (std::int64_t i = 0; i < kExamples; ++i) {
      ASSERT_EQ(all[i][0].item<double>(), static_cast<double>(order[std::size_t(i)]));
      ASSERT_EQ(all[i][1].item<double>(), -1.0) << "augmented without being asked to";
    }
  }
}

TEST(Loader, YieldsBatchesOfUnequalSize) {
  const Numbers dataset;
  for (const std::int64_t workers : {0, 2}) {
    Loader loader(dataset, RandomStreams(0), {{7, 3, 3, 100, 0}, {1, 4, 5}}, {.workers = workers});
    EXPECT_EQ(loader.batches(), 3);
    EXPECT_EQ(loader.next()->fields.at("x").select(1, 0).item<double>(), 7);
    const Batch second = *loader.next();
    EXPECT_EQ(second.size, 3);
    EXPECT_TRUE(second.fields.at("x").select(1, 0).equal(at::tensor({3., 3., 100.}, at::kDouble)));
    EXPECT_EQ(loader.next()->size, 1);
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, SaysWhichBatchesContinueTheOneBefore) {
  const Numbers numbers;
  const Resident resident(0);
  EpochPlan plan = plan_in_order(12, 4);
  plan.continues = true;
  for (const Dataset* dataset :
       {static_cast<const Dataset*>(&numbers), static_cast<const Dataset*>(&resident)}) {
    for (const std::int64_t first : {0, 1}) {
      Loader loader(*dataset, RandomStreams(0), plan, {.first_batch = first, .workers = 0});
      if (first == 0) {
        EXPECT_FALSE(loader.next()->continues);
      }
      EXPECT_TRUE(loader.next()->continues);
      EXPECT_TRUE(loader.next()->continues);
    }
  }
  Loader loader(resident, RandomStreams(0), plan, {});
  EXPECT_FALSE(next_of({&loader})->continues);
  EXPECT_TRUE(next_of({&loader})->continues);
}

TEST(Loader, YieldsTheSameWhateverTheNumberOfWorkers) {
  Numbers dataset;
  LoaderSettings settings{.augment = true, .epoch = 3, .workers = 0};
  const std::vector<Tensor> expected = all_batches(dataset, 8, settings);
  dataset.meanwhile = work_unevenly;
  for (const std::int64_t workers : {1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 3, 50}) {
      settings.workers = workers;
      settings.prefetch = prefetch;
      expect_equal(all_batches(dataset, 8, settings), expected);
    }
  }
}

TEST(Loader, WaitsForNoBatchOnceItIsAskedToStop) {
  Numbers dataset;
  std::atomic<bool> go_on{false}, stop{false};
  dataset.meanwhile = [&](std::int64_t) { go_on.wait(false); };
  {
    Loader loader(dataset, RandomStreams(1), plan_in_order(kExamples, 10),
                  {.workers = 2, .stop = &stop});
    std::thread asks([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      stop = true;
    });
    EXPECT_THROW(loader.next(), Interrupted);
    asks.join();
    go_on = true;
    go_on.notify_all();
  }
  EXPECT_EQ(dataset.inside, 0) << "an example outlived the loader";
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
                  Loader(dataset, RandomStreams(1), {{0, wrong}, {2}}, LoaderSettings{});
                }),
                HasSubstr("of a split of 103"));
  }
}

TEST(Loader, RefusesBatchesThatDoNotFitTheOrder) {
  const Numbers dataset;
  const std::vector<std::vector<std::int64_t>> wrong = {{0, 4}, {2, 2, 4}, {3, 2}, {2, 5}, {-1}};
  for (const std::vector<std::int64_t>& ends : wrong) {
    EXPECT_THAT(message_of<DataError>([&] {
                  Loader(dataset, RandomStreams(1), {{0, 1, 2, 3}, ends}, LoaderSettings{});
                }),
                mentions("one after the other", "4 examples"));
  }
}

/// Sets of 1, 2, 3, ... rows; all of them are in memory, end to end.
class Sets final : public Dataset {
 public:
  Sets() {
    std::vector<NamedTensors> all;
    for (std::int64_t i = 0; i < kSets; ++i) all.push_back(example(Split::train, i, nullptr));
    all_ = collate(all);
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split) const override { return kSets; }
  NamedTensors make_example(Split, std::int64_t i, Random*) const override {
    return {{"x@node", at::full({i % 4 + 1, 2}, double(i))},
            {"next@node>node", at::arange(i % 4 + 1, at::kLong) - 1},
            {"class", at::scalar_tensor(i % 3, at::kLong)}};
  }
  const Batch* resident(Split) const override { return &all_; }

  static constexpr std::int64_t kSets = 12;

 private:
  DatasetInfo info_;
  Batch all_;
};

// The rows of "x@node" are not one per example: copying rows by the example's number would read
// other examples' rows, or beyond the end.
TEST(Loader, AsksForExamplesWhereWhatIsInMemoryLiesEndToEnd) {
  const Sets dataset;
  for (const std::int64_t workers : {0, 2}) {
    Loader loader(dataset, RandomStreams(0), {{5, 0, 11}, {2, 3}}, {.workers = workers});
    const Batch first = *loader.next();
    EXPECT_EQ(first.size, 2);
    EXPECT_TRUE(first.offsets.at("node").equal(at::tensor({0, 2, 3}, at::kLong)));
    EXPECT_TRUE(first.fields.at("x@node").select(1, 0).equal(at::tensor({5.f, 5.f, 0.f})));
    EXPECT_TRUE(first.fields.at("next@node>node").equal(at::tensor({-1, 0, -1}, at::kLong)));
    EXPECT_TRUE(first.fields.at("class").equal(at::tensor({2, 0}, at::kLong)));
    EXPECT_EQ(rows_of(*loader.next(), "node"), 4);
  }
}

TEST(Loader, AsksForExamplesWhereSetsOfOneRowLieEndToEnd) {
  class Ones final : public Dataset {
   public:
    Ones() {
      all_ = collate({example(Split::train, 0, nullptr), example(Split::train, 1, nullptr)});
    }
    const DatasetInfo& info() const override { return info_; }
    std::int64_t size(Split) const override { return 2; }
    NamedTensors make_example(Split, std::int64_t i, Random*) const override {
      return {{"x@node", at::full({1}, double(i))}};
    }
    const Batch* resident(Split) const override { return &all_; }

   private:
    DatasetInfo info_;
    Batch all_;
  };
  const Ones dataset;
  Loader loader(dataset, RandomStreams(0), plan_in_order(2, 2), {.workers = 0});
  EXPECT_EQ(rows_of(*loader.next(), "node"), 2);  // with its offsets, not as rows of a dense field
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

TEST(NextOf, JoinsSetsThatLieEndToEnd) {
  const Sets dataset;
  Loader a(dataset, RandomStreams(0), {{0, 1}, {2}}, {.workers = 0});
  Loader b(dataset, RandomStreams(0), {{2, 3}, {2}}, {.workers = 0});
  const Batch both = *next_of({&a, &b});
  EXPECT_EQ(both.size, 4);
  EXPECT_TRUE(both.offsets.at("node").equal(at::tensor({0, 1, 3, 6, 10}, at::kLong)));
  EXPECT_TRUE(both.fields.at("next@node>node")
                  .equal(at::tensor({-1, -1, 1, -1, 3, 4, -1, 6, 7, 8}, at::kLong)));
}

TEST(Loader, AugmentsByEpochAndExampleNotByPosition) {
  const Numbers dataset;
  const RandomStreams streams(4);
  const auto draws = [&](std::vector<std::int64_t> order, std::uint64_t epoch) {
    const auto size = std::int64_t(order.size());
    Loader loader(dataset, streams, {std::move(order), {size}},
                  {.augment = true, .epoch = epoch, .workers = 0});
    return loader.next()->fields.at("x").select(1, 1);
  };
  const Tensor x = draws({5, 9}, 2), y = draws({9, 7, 5}, 2);
  EXPECT_EQ(x[0].item<double>(), y[2].item<double>());
  EXPECT_EQ(x[1].item<double>(), streams.stream("augmentation", 2, 9).uniform());
  EXPECT_NE(x[0].item<double>(), draws({5}, 3)[0].item<double>());
}

// The first time an example stands in an epoch its stream is that of an epoch without repeats.
TEST(Loader, DrawsAnewEachTimeAnExampleStandsInTheEpoch) {
  const Numbers dataset;
  const RandomStreams streams(4);
  for (const std::int64_t workers : {0, 2}) {
    Loader loader(dataset, streams, {{5, 9, 5, 5, 9}, {2, 5}},
                  {.augment = true, .epoch = 2, .workers = workers});
    const Tensor x = at::cat({loader.next()->fields.at("x"), loader.next()->fields.at("x")});
    const std::int64_t expected[] = {5, 9, 5 + kExamples, 5 + 2 * kExamples, 9 + kExamples};
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(x[i][1].item<double>(),
                streams.stream("augmentation", 2, std::uint64_t(expected[i])).uniform());
    }
  }
}

// Repeated augmentation: the copies of an example meet in a batch, and differ.
TEST(Loader, AugmentsEachCopyOfARepeatedExampleInItsOwnWay) {
  const Numbers dataset;
  const RandomStreams streams(4);
  const EpochPlan plan = dataset.plan(
      {.training = true, .batch_size = 30, .repeat = 3, .epoch = 1, .streams = streams});
  Loader loader(dataset, streams, plan, {.augment = true, .epoch = 1, .workers = 0});
  const Tensor x = loader.next()->fields.at("x");
  ASSERT_EQ(x.size(0), 30);
  for (std::int64_t i = 0; i < 30; i += 3) {
    const Tensor triple = x.narrow(0, i, 3);
    EXPECT_TRUE(triple.select(1, 0).eq(triple[0][0]).all().item<bool>()) << triple;
    const auto draw = [&](std::int64_t k) { return triple[k][1].item<double>(); };
    EXPECT_NE(draw(0), draw(1));
    EXPECT_NE(draw(0), draw(2));
    EXPECT_NE(draw(1), draw(2));
  }
}

TEST(Loader, HandsOutSomeBatchesAsTheyAreAmongAll) {
  const Numbers dataset;
  using Numbered = std::vector<std::int64_t>;
  const RandomStreams streams(4);
  const EpochPlan plan = dataset.plan(
      {.training = true, .batch_size = 10, .repeat = 3, .epoch = 1, .streams = streams});
  for (const std::int64_t workers : {0, 2}) {
    const auto loader_of = [&](const std::optional<Numbered>& only, std::int64_t first) {
      LoaderSettings settings{.augment = true, .epoch = 1, .first_batch = first};
      settings.workers = workers;
      settings.only = only;
      return std::make_unique<Loader>(dataset, streams, plan, settings);
    };
    const auto all = loader_of(std::nullopt, 0), some = loader_of(Numbered{1, 4, 5, 9}, 1);
    EXPECT_EQ(some->batches(), 4);
    for (std::int64_t number = 0; number < 10; ++number) {
      const Batch batch = *all->next();
      if (number != 4 && number != 5 && number != 9) continue;
      EXPECT_TRUE(some->next()->fields.at("x").equal(batch.fields.at("x"))) << number;
    }
    EXPECT_FALSE(some->next());
    EXPECT_THAT(message_of<DataError>([&] {
                  loader_of(Numbered{1, 1}, 0);
                }),
                mentions("batch 1", "after batch 1"));
    EXPECT_THAT(message_of<DataError>([&] { loader_of(Numbered{1000}, 0); }),
                HasSubstr("the plan has"));
  }
}

TEST(Loader, BeginsAtALaterBatchWithoutMakingTheEarlierOnes) {
  Numbers dataset;
  LoaderSettings settings{.augment = true};
  std::vector<Tensor> expected = all_batches(dataset, 10, settings);
  expected.erase(expected.begin(), expected.begin() + 7);
  settings.first_batch = 7;
  for (const std::int64_t workers : {0, 2}) {
    settings.workers = workers;
    dataset.made = 0;
    expect_equal(all_batches(dataset, 10, settings), expected);
    EXPECT_EQ(dataset.made, kExamples - 70);
  }
  settings.first_batch = 11;
  EXPECT_TRUE(all_batches(dataset, 10, settings).empty());
}

TEST(Loader, HandsOnWhatTheDatasetThrewAtTheBatchItBelongsTo) {
  Numbers dataset;
  dataset.broken = 25;
  for (const std::int64_t workers : {0, 1, 3}) {
    Loader loader(dataset, RandomStreams(0), plan_in_order(kExamples, 10),
                  {.workers = workers, .prefetch = 8});
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_TRUE(loader.next().has_value());
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(message_of<DataError>([&] { loader.next(); }), "example 25 is broken");
    }
  }
}

TEST(Loader, HoldsNoMoreBatchesThanAskedFor) {
  Numbers dataset;
  std::atomic<int> asked{0}, most_ahead{0};
  dataset.meanwhile = [&](std::int64_t) {
    const int ahead = dataset.made - 5 * asked;
    if (ahead > most_ahead) most_ahead = ahead;  // one worker writes it
  };
  Loader loader(dataset, RandomStreams(0), plan_in_order(kExamples, 5),
                {.workers = 1, .prefetch = 3});
  dataset.wait_for(15);  // nobody has asked for a batch yet
  do {
    ++asked;  // before the batch leaves its place to another
  } while (loader.next());
  EXPECT_LE(most_ahead, 15);
}

// All that was handed to the workers would be 100 examples.
TEST(Loader, StopsInMidBatchWhenItIsDestroyed) {
  Numbers dataset;
  dataset.meanwhile = [](std::int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  auto loader = std::make_unique<Loader>(dataset, RandomStreams(0), plan_in_order(kExamples, 50),
                                         LoaderSettings{.workers = 2, .prefetch = 6});
  dataset.wait_for(1);
  loader.reset();
  EXPECT_LT(dataset.made, 50) << "a whole batch was made for nobody";
  EXPECT_EQ(dataset.inside, 0) << "a worker outlived the loader";
}

TEST(Loader, SurvivesBeingMadeAndDestroyedAgainAndAgain) {
  const Numbers dataset;
  for (int i = 0; i < 300; ++i) {
    Loader loader(dataset, RandomStreams(0), plan_in_order(kExamples, 7),
                  {.workers = 1 + i % 3, .prefetch = 1 + i % 5});
    for (int k = 0; k < i % 4; ++k) ASSERT_TRUE(loader.next().has_value());
  }
}

TEST(Loader, OfAnEmptyPlanEndsAtOnce) {
  const Numbers dataset;
  for (const std::int64_t workers : {0, 2}) {
    Loader loader(dataset, RandomStreams(0), {}, {.workers = workers});
    EXPECT_EQ(loader.batches(), 0);
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(Loader, RefusesSettingsWithoutMeaning) {
  const Numbers dataset;
  const std::string message = message_of<ConfigError>([&] {
    Loader(dataset, RandomStreams(0), {}, {.first_batch = -1, .workers = -2, .prefetch = 0});
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("first_batch"), HasSubstr("workers"), HasSubstr("prefetch")));
}

TEST(PlanInOrder, IsAllExamplesInBatches) {
  const EpochPlan plan = plan_in_order(7, 3);
  EXPECT_EQ(plan.order, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(plan.ends, (std::vector<std::int64_t>{3, 6, 7}));
  EXPECT_EQ(plan_in_order(6, 3).ends, (std::vector<std::int64_t>{3, 6}));
  EXPECT_EQ(plan_in_order(0, 3).batches(), 0);
  EXPECT_THAT(message_of<ConfigError>([] { plan_in_order(1, 0); }), HasSubstr("batch_size"));
}

}  // namespace
}  // namespace attnlab::loader_test
