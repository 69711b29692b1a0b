// Two clouds of points that a line parts: the smallest dataset, model and task that train.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "framework/contracts/task.h"
#include "tests/support/tiny_run.h"

namespace attnlab::testing {

/// x [4] around (1, 1, 1, 1) or its negative; class says which.
class Clouds : public Dataset {
 public:
  explicit Clouds(std::int64_t train = 48, std::int64_t validation = 0) {
    sizes_ = {{Split::train, train}, {Split::validation, validation}, {Split::test, 16}};
    info_.name = "clouds";
    info_.fields = {{.name = "x", .shape = {4}},
                    {.name = "class", .shape = {}, .dtype = at::kLong, .categories = 2}};
    info_.classes = 2;
    info_.source = "made";
    info_.fingerprint = "clouds";
  }
  const DatasetInfo& info() const override { return info_; }
  std::int64_t size(Split split) const override { return sizes_.at(split); }
  NamedTensors make_example(Split split, std::int64_t index, Random* augmentation) const override {
    Random random = RandomStreams(3).stream("clouds", std::uint64_t(split), std::uint64_t(index));
    const Tensor x = at::empty({4});
    for (std::int64_t i = 0; i < 4; ++i) {
      double value = (index % 2 == 0 ? 1 : -1) + 0.3 * random.normal();
      if (augmentation != nullptr) value += 0.05 * augmentation->normal();
      x[i] = value;
    }
    return {{"x", x}, {"class", at::scalar_tensor(index % 2, at::kLong)}};
  }

 protected:
  DatasetInfo info_;

 private:
  std::map<Split, std::int64_t> sizes_;
};

/// logits = W dropout(x) + b.
class Line : public Model {
 public:
  explicit Line(double dropout = 0.2, std::int64_t inputs = 4) : dropout_(dropout) {
    weight_ = register_parameter("weight", at::randn({2, inputs}));
    bias_ = register_parameter("bias", at::zeros({2}));
  }
  NamedTensors forward(const Batch& batch, ForwardPass&) override {
    return {{"logits", of(batch.fields.at("x"))}};
  }
  Tensor of(const Tensor& x) const {
    return at::linear(at::dropout(x, dropout_, is_training()), weight_, bias_);
  }

 protected:
  double dropout_;
  Tensor weight_, bias_;
};

class SortingMeter final : public Meter {
 public:
  void add(const NamedTensors& outputs, const Batch& batch) override {
    const Tensor right = outputs.at("logits").argmax(1).eq(batch.fields.at("class"));
    right_ += right.sum().item<double>();
    count_ += static_cast<double>(batch.size);
  }
  Metrics result() const override { return {{"accuracy", right_ / count_}}; }

 private:
  double right_ = 0, count_ = 0;
};

class Sorting : public Task {
 public:
  Tensor loss(const NamedTensors& outputs, const Batch& batch) const override {
    return at::cross_entropy_loss(outputs.at("logits"), batch.fields.at("class"));
  }
  std::vector<MetricInfo> metrics() const override {
    return {{"accuracy", Better::higher, "share"}};
  }
  std::unique_ptr<Meter> meter() const override { return std::make_unique<SortingMeter>(); }
};

/// The three together, with another task where one is given.
template <class OwnTask = Sorting, class OwnModel = Line>
TinyParts clouds(std::int64_t train = 48, std::int64_t validation = 0) {
  return {std::make_shared<Clouds>(train, validation), [] { return std::make_shared<OwnModel>(); },
          [] { return std::make_shared<OwnTask>(); }};
}

}  // namespace attnlab::testing
