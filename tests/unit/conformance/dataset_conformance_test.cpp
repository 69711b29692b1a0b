// The conformance kit for datasets passes what is sound, and each of its checks fails what is
// wrong.
#include <ATen/Context.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/support/message_of.h"
#include "tests/unit/conformance/sound_outcome.h"
#include "tests/unit/conformance/wrong_dataset.h"

namespace attnlab::conformance::dataset_conformance_test {
namespace {

using attnlab::testing::mentions;
using testing::failure;
using ::testing::HasSubstr;
using testing::subject;
using testing::Toy;
using testing::with;

TEST(DatasetKit, PassesASoundDataset) {
  for (const CheckResult& result : run_checks(subject())) {
    const bool absent = result.check == "resident" || result.check == "damage";
    const Outcome sound = testing::outcome_of_sound(result.check);
    EXPECT_EQ(result.outcome, absent ? Outcome::not_applicable : sound)
        << result.check << ": " << result.message;
  }
}

TEST(DatasetKit, HasNoOtherChecks) { EXPECT_THROW(run_check("plans", subject()), ConfigError); }

TEST(DatasetKit, FindsASplitWithoutExamples) {
  EXPECT_THAT(failure("splits", [](Toy& toy) { toy.sizes = [](Split) { return 0; }; }),
              HasSubstr("nothing to train on"));
}

TEST(DatasetKit, FindsSizesThatChange) {
  auto asked = std::make_shared<std::int64_t>(0);
  EXPECT_THAT(
      failure("splits", [=](Toy& toy) { toy.sizes = [=](Split) { return 10 + ++*asked; }; }),
      HasSubstr("when asked again"));
}

TEST(DatasetKit, FindsExamplesThatAreNotAsDescribed) {
  const std::vector<std::pair<Toy::Spoil, std::string>> wrong = {
      {with("image", [](const Tensor& x) { return x.t(); }),
       "'image': is [3, 2] float32, but info() says [2, 3]"},
      {with("image", [](const Tensor& x) { return x.to(at::kDouble); }), "but info() says Float"},
      {with("image", [](const Tensor& x) { return x / 0.0; }), "train example 0, 'image'"},
      {with("class", [](const Tensor& x) { return x + 3; }), "but info() says 0 to 2"},
      {with("edges@edge>node", [](const Tensor& x) { return x + 1; }), "of axis 'node', which has"},
      {[](Toy& toy) { toy.info_.fields.pop_back(); }, "info() has no such field"},
      {[](Toy& toy) {
         toy.info_.fields.push_back({"y", {}});
       },
       "`gives`"},
      {[](Toy& toy) { toy.info_.fields.push_back(toy.info_.fields[0]); }, "stands there twice"},
      {[](Toy& toy) { toy.info_.class_names = {"a"}; }, "3 classes and 1 class_names"},
      {[](Toy& toy) {
         toy.info_.class_groups = {{"new", {3}}};
       },
       "3 is not a class"},
      {[](Toy& toy) { toy.info_.name = ""; }, "info().name is empty"},
      {[](Toy& toy) { toy.info_.fields[0].mean = {0}; }, "1 means and 0 deviations"},
      {[](Toy& toy) {
         toy.changed = [](NamedTensors all, Split, std::int64_t, Random*) {
           return NamedTensors{{"class", all.at("class")}};
         };
       },
       "lacks the field 'image'"},
  };
  for (const auto& [spoil, message] : wrong) {
    EXPECT_THAT(failure("description", spoil), HasSubstr(message));
  }
}

TEST(DatasetKit, FindsFieldsOfAnAxisThatDisagree) {
  const auto spoil = [](Toy& toy) {
    toy.info_.fields.push_back({"y@node", {-1}});
    toy.changed = [](NamedTensors all, Split, std::int64_t, Random*) {
      all.set("y@node", at::zeros({all.at("x@node").size(0) + 1}));
      return all;
    };
  };
  DatasetSubject wrong = subject(spoil);
  wrong.gives.push_back("y@node");
  EXPECT_THAT(failure("description", wrong), mentions("other fields", "axis 'node'"));
}

TEST(DatasetKit, FindsExamplesThatDifferWhenAskedForAgain) {
  auto asked = std::make_shared<std::atomic<int>>(0);
  EXPECT_THAT(failure("determinism", with("image", [=](const Tensor& x) { return x + ++*asked; })),
              HasSubstr("asked for twice"));
}

TEST(DatasetKit, FindsExamplesOfTheProcessesRandomNumbers) {
  const auto spoil = [](Toy& toy) {
    const Tensor shared = at::rand({2, 3});
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random*) {
      all.set("image", all.at("image") + shared);
      return all;
    };
  };
  EXPECT_THAT(failure("determinism", spoil), mentions("again", "same seed"));
}

TEST(DatasetKit, FindsAugmentationFromAnotherStream) {
  auto asked = std::make_shared<std::atomic<int>>(0);
  const auto spoil = [=](Toy& toy) {
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random* augmentation) {
      if (augmentation != nullptr) all.set("image", all.at("image") + ++*asked);
      return all;
    };
  };
  EXPECT_THAT(failure("augmentation", spoil), mentions("twice", "random stream"));
}

TEST(DatasetKit, FindsExamplesThatShareMemory) {
  const auto spoil = [](Toy& toy) {
    const Tensor shared = at::zeros({2, 3});
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random*) {
      all.set("image", shared);
      return all;
    };
  };
  EXPECT_THAT(failure("ownership", spoil), HasSubstr("before it was written to"));
}

TEST(DatasetKit, FindsViewsWithGapsThatShareMemory) {
  const auto spoil = [](Toy& toy) {
    const Tensor shared = at::zeros({2, 6});
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random*) {
      all.set("image", shared.slice(1, 0, 6, 2));  // every second column
      return all;
    };
  };
  EXPECT_THAT(failure("ownership", spoil), HasSubstr("before it was written to"));
}

TEST(DatasetKit, WritesToViewsOfMemoryOfTheirOwn) {
  const std::vector<std::function<Tensor(const Tensor&)>> views = {
      [](const Tensor& x) {
        return x.repeat({1, 2}).narrow(1, 0, 3);
      },
      [](const Tensor& x) { return x.t().contiguous().t(); },
      [](const Tensor& x) {
        return x.narrow(0, 0, 1).as_strided({1, 3}, {0, 1});
      }};
  for (const auto& view : views) {
    const CheckResult result = run_check("ownership", subject(with("image", view)));
    EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  }
}

TEST(DatasetKit, FindsElementsThatAreOnePlaceInMemory) {
  const std::vector<std::function<Tensor(const Tensor&)>> views = {
      [](const Tensor& x) {
        return x.narrow(0, 0, 1).expand({2, 3});
      },
      [](const Tensor& x) { return x.reshape({-1}).unfold(0, 3, 1).narrow(0, 0, 2); }};
  for (const auto& view : views) {
    EXPECT_THAT(failure("ownership", with("image", view)),
                mentions("train example 0", "'image'", "overlap"));
  }
}

// Wrong only where calls overlap: each gives others the time to come in between.
TEST(DatasetKit, FindsABufferThatThreadsShare) {
  const auto spoil = [](Toy& toy) {
    auto owner = std::make_shared<std::atomic<std::size_t>>(0);
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random*) {
      const std::size_t me = std::hash<std::thread::id>()(std::this_thread::get_id());
      *owner = me;
      for (int i = 0; i < 200; ++i) std::this_thread::yield();
      if (*owner != me) all.set("image", all.at("image") + 1);
      return all;
    };
  };
  EXPECT_THAT(failure("threads", spoil), HasSubstr("with 4 threads"));
}

TEST(DatasetKit, FindsAFingerprintThatForgetsTheData) {
  EXPECT_THAT(failure("fingerprint", [](Toy& toy) { toy.info_.fingerprint = "toy"; }),
              mentions("another seed", "are others"));
  EXPECT_THAT(failure("fingerprint", [](Toy& toy) { toy.info_.fingerprint = ""; }),
              HasSubstr("is empty"));
  auto opened = std::make_shared<int>(0);
  EXPECT_THAT(
      failure("fingerprint", [=](Toy& toy) { toy.info_.fingerprint += std::to_string(++*opened); }),
      HasSubstr("opened twice"));
}

TEST(DatasetKit, FindsAFingerprintThatForgetsAnOption) {
  DatasetSubject wrong = subject();
  wrong.variants.push_back({"noise=1", [] {
                              return std::make_shared<Toy>(
                                  DatasetSubject::kSeed,
                                  with("image", [](const Tensor& x) { return x + 1; }));
                            }});
  EXPECT_THAT(failure("fingerprint", wrong), mentions("noise=1", "are others"));
}

TEST(DatasetKit, FindsExamplesThatCostNothing) {
  EXPECT_THAT(
      failure("cost",
              [](Toy& toy) { toy.costs = [](Split, std::int64_t index) { return index % 5; }; }),
      HasSubstr("train example 0 costs 0"));
}

TEST(DatasetKit, FindsBatchesThatAreNotTheirExamples) {
  const std::vector<std::pair<std::function<void(Batch&)>, std::string>> wrong = {
      {[](Batch& batch) { ++batch.size; }, "says that it holds 8"},
      {[](Batch& batch) { batch.fields.set("image", batch.fields.at("image").flip(0)); },
       "batch of 7 train examples, against it alone, field 'image'"},
      {[](Batch& batch) { batch.fields.set("image", batch.fields.at("image").sum(0)); },
       "expected 7 rows"},
      {[](Batch& batch) { batch.offsets = {}; }, "the batch lacks its axis"},
      {[](Batch& batch) { batch.offsets.set("node", batch.offsets.at("node") + 1); },
       "do not rise from 0"},
      {[](Batch& batch) { batch.fields.set("more", at::zeros({batch.size})); },
       "info() has no such field"},
      {[](Batch& batch) {
         if (batch.size > 1) {
           const Tensor edges = batch.fields.at("edges@edge>node");
           batch.fields.set("edges@edge>node", at::zeros_like(edges));
         }
       },
       "field 'edges@edge>node'"},
  };
  for (const auto& [spoil, message] : wrong) {
    EXPECT_THAT(failure("collate", [&spoil = spoil](Toy& toy) { toy.batched = spoil; }),
                HasSubstr(message));
  }
}

TEST(DatasetKit, FindsABatchThatWritesToItsExamples) {
  const auto spoil = [](Toy& toy) {
    auto given = std::make_shared<std::vector<Tensor>>();
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random*) {
      given->push_back(all.at("image"));
      return all;
    };
    toy.batched = [=](Batch&) {
      for (Tensor& image : *given) image.zero_();
    };
  };
  EXPECT_THAT(failure("collate", spoil), HasSubstr("after collate()"));
}

TEST(DatasetKit, FindsASplitInMemoryThatIsAnother) {
  const auto keep = [](Toy& toy, bool turned) {
    toy.info_.fields = {{"class", {}, at::kLong}};
    toy.info_.unit_field = "";
    toy.changed = [](NamedTensors all, Split, std::int64_t, Random*) {
      return NamedTensors{{"class", all.at("class")}};
    };
    auto kept = std::make_shared<std::map<Split, Batch>>();
    toy.kept = [&toy, kept, turned](Split split) -> const Batch* {
      if (kept->count(split) == 0) {
        std::vector<NamedTensors> all;
        for (std::int64_t i = 0; i < toy.size(split); ++i)
          all.push_back(toy.example(split, i, nullptr));
        Batch batch = toy.collate(all);
        if (turned && batch.size > 0) batch.fields.set("class", batch.fields.at("class").flip(0));
        (*kept)[split] = batch;
      }
      return (*kept)[split].size > 0 ? &(*kept)[split] : nullptr;
    };
  };
  const DatasetSubject sound = subject([=](Toy& toy) { keep(toy, false); });
  EXPECT_EQ(run_check("resident", sound).outcome, Outcome::passed)
      << run_check("resident", sound).message;
  EXPECT_THAT(failure("resident", [=](Toy& toy) { keep(toy, true); }),
              HasSubstr("resident(train), train example"));
}

TEST(DatasetKit, FindsASplitInMemoryThatIsAugmented) {
  const auto spoil = [](Toy& toy) {
    auto kept = std::make_shared<Batch>();
    toy.kept = [&toy, kept](Split split) -> const Batch* {
      if (split != Split::train) return nullptr;
      std::vector<NamedTensors> all;
      for (std::int64_t i = 0; i < 20; ++i) all.push_back(toy.example(split, i, nullptr));
      *kept = toy.collate(all);
      return kept.get();
    };
  };
  EXPECT_THAT(failure("resident", spoil), HasSubstr("is never augmented"));
}

TEST(DatasetKit, FindsPlansThatCannotBeRun) {
  using Planned = std::function<void(EpochPlan&, const PlanRequest&)>;
  const std::vector<std::pair<Planned, std::string>> wrong = {
      {[](EpochPlan& plan, const PlanRequest&) { plan.order.back() = 20; }, "names example 20 of"},
      {[](EpochPlan& plan, const PlanRequest&) { plan.ends.back() += 1; }, "a batch ends at"},
      {[](EpochPlan& plan, const PlanRequest&) { plan.ends[0] = 0; }, "a batch ends at 0"},
      {[](EpochPlan& plan, const PlanRequest& request) {
         if (request.epoch == 1) plan.ends.pop_back();
       },
       "epoch 0 has 20"},
      {[](EpochPlan& plan, const PlanRequest&) { plan.continues = true; }, "equally large"},
      {[](EpochPlan& plan, const PlanRequest& request) {
         if (!request.training) plan.ends.clear();
       },
       "has no batches"},
      {[](EpochPlan& plan, const PlanRequest& request) {
         if (!request.training && request.epoch > 0) std::swap(plan.order[0], plan.order[1]);
       },
       "evaluation draws nothing"},
      {[](EpochPlan& plan, const PlanRequest& request) {
         if (request.budget > 0) plan.ends = {static_cast<std::int64_t>(plan.order.size())};
       },
       "a batch costs"},
  };
  for (const auto& [planned, message] : wrong) {
    EXPECT_THAT(failure("plan", [&planned = planned](Toy& toy) { toy.planned = planned; }),
                HasSubstr(message));
  }
  auto asked = std::make_shared<int>(0);
  const auto restless = [=](EpochPlan& plan, const PlanRequest&) {
    if (++*asked % 2 == 0) std::swap(plan.order[0], plan.order[1]);
  };
  EXPECT_THAT(failure("plan", [&](Toy& toy) { toy.planned = restless; }),
              HasSubstr("when asked for again"));
}

TEST(DatasetKit, FindsADatasetThatChangesTheProcess) {
  EXPECT_THAT(failure("process_state", with("image",
                                            [](const Tensor& x) {
                                              at::manual_seed(0);
                                              return x;
                                            })),
              HasSubstr("random numbers"));
}

TEST(DatasetKit, FindsMemoryThatIsNotGivenBack) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's own allocations are not counted";
#endif
  static std::vector<std::unique_ptr<char[]>> kept;
  EXPECT_THAT(failure("memory", with("image",
                                     [](const Tensor& x) {
                                       kept.push_back(std::make_unique<char[]>(100));
                                       return x;
                                     })),
              mentions("example and its batch", "(train) keeps", "each time"));
}

}  // namespace
}  // namespace attnlab::conformance::dataset_conformance_test
