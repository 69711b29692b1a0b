// Datasets made wrong on purpose, each in a few lines of a test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/conformance/dataset_conformance.h"

namespace attnlab::conformance::testing {

/// Sound: an image [2, 3], changed by augmentation, a set of 1 to 5 nodes with edges, and a class.
/// What a test wants to be wrong it puts in the place of one of the functions.
class Toy final : public Dataset {
 public:
  using Spoil = std::function<void(Toy&)>;

  Toy(std::uint64_t seed, const Spoil& spoil) : streams(seed) {
    info_.name = "toy";
    info_.source = "made by rule";
    info_.fingerprint = "seed " + std::to_string(seed);
    info_.classes = 3;
    info_.unit = "nodes";
    info_.unit_field = "node";
    info_.fields = {{"image", {2, 3}},
                    {"x@node", {-1, 2}},
                    {"edges@edge>node", {-1, 2}, at::kLong},
                    {"class", {}, at::kLong}};
    if (spoil) spoil(*this);
  }

  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override {
    return sizes ? sizes(split) : split == Split::train ? 20 : split == Split::test ? 7 : 0;
  }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    NamedTensors all = sound(split, index, augmentation);
    return changed ? changed(std::move(all), split, index, augmentation) : all;
  }
  Batch collate(const std::vector<NamedTensors>& examples) const override {
    Batch batch = Dataset::collate(examples);
    if (batched) batched(batch);
    return batch;
  }
  const Batch* resident(Split split) const override { return kept ? kept(split) : nullptr; }
  EpochPlan plan(const PlanRequest& request) const override {
    EpochPlan plan = default_plan(*this, request);
    if (planned) planned(plan, request);
    return plan;
  }
  std::int64_t cost(Split split, std::int64_t index) const override {
    return costs ? costs(split, index) : sound(split, index, nullptr).at("x@node").size(0);
  }

  NamedTensors sound(Split split, std::int64_t index, Random* augmentation) const {
    Random random = streams.stream("toy", std::uint64_t(split), std::uint64_t(index));
    const std::int64_t nodes = 1 + random.below(5);
    Tensor image = at::full({2, 3}, random.uniform());
    if (augmentation != nullptr) image += augmentation->uniform();
    return {{"image", image},
            {"x@node", at::full({nodes, 2}, random.uniform())},
            {"edges@edge>node", at::full({nodes + 1, 2}, nodes - 1, at::kLong)},
            {"class", at::scalar_tensor(random.below(3), at::kLong)}};
  }

  RandomStreams streams;
  DatasetInfo info_;
  std::function<std::int64_t(Split)> sizes;
  std::function<NamedTensors(NamedTensors, Split, std::int64_t, Random*)> changed;
  std::function<void(Batch&)> batched;
  std::function<const Batch*(Split)> kept;
  std::function<void(EpochPlan&, const PlanRequest&)> planned;
  std::function<std::int64_t(Split, std::int64_t)> costs;
};

inline DatasetSubject subject(const Toy::Spoil& spoil = {}) {
  DatasetSubject subject;
  subject.open = [spoil](std::uint64_t seed) { return std::make_shared<Toy>(seed, spoil); };
  subject.gives = {"image", "x@node", "edges@edge>node", "class"};
  return subject;
}

/// What a check says of a dataset that it must fail.
inline std::string failure(std::string_view check, const DatasetSubject& subject) {
  const CheckResult result = run_check(check, subject);
  EXPECT_EQ(result.outcome, Outcome::failed) << check << ": " << result.message;
  return result.message;
}
inline std::string failure(std::string_view check, const Toy::Spoil& spoil) {
  return failure(check, subject(spoil));
}

/// An example with one field changed.
inline Toy::Spoil with(const std::string& field, std::function<Tensor(const Tensor&)> change) {
  return [=](Toy& toy) {
    toy.changed = [=](NamedTensors all, Split, std::int64_t, Random*) {
      all.set(field, change(all.at(field)));
      return all;
    };
  };
}

}  // namespace attnlab::conformance::testing
