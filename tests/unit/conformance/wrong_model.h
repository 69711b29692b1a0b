// Models made wrong on purpose, each in one line of a test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "framework/conformance/model_conformance.h"
#include "framework/nn/attention/dot_product_attention.h"
#include "framework/nn/modules/layers.h"
#include "framework/nn/modules/multi_head_attention.h"

namespace attnlab::conformance::testing {

/// A small classifier of padded series, two layers, with something done to its passes.
class WrongModel : public Model {
 public:
  using Forward = std::function<NamedTensors(WrongModel&, const Batch&, ForwardPass&)>;

  WrongModel(const ModelSetup& setup, Forward forward)
      : members_(setup.members), forward_(std::move(forward)) {
    in_ = register_module("in", std::make_shared<Linear>(4, kDim, true, members_));
    for (std::int64_t i = 0; i < 2; ++i) {
      MultiHeadOptions options;
      options.dim = kDim;
      options.heads = 2;
      options.layer = i;
      options.layers = 2;
      options.members = members_;
      layers_.push_back(
          register_module("layer" + std::to_string(i),
                          std::make_shared<MultiHeadAttention>(options, setup.attention)));
    }
    head_ =
        register_module("head", std::make_shared<Linear>(kDim, setup.data.classes, true, members_));
  }

  NamedTensors forward(const Batch& batch, ForwardPass& pass) override {
    return forward_(*this, batch, pass);
  }
  std::vector<FieldInfo> outputs() const override { return stated; }

  /// Nothing is wrong with this part.
  NamedTensors sound(const Batch& batch, ForwardPass& pass) {
    return {{"logits", head_->forward(mean(tokens(batch, pass), batch))}};
  }

  /// [B, L, dim]
  Tensor tokens(const Batch& batch, ForwardPass& pass) {
    Tensor x = in_->forward(batch.fields.at("series").to(head_->weight.scalar_type()));
    AttentionExtras extras;
    if (const Tensor* valid = batch.fields.find("valid")) {
      extras.visible.key_valid = extras.visible.query_valid = *valid;
    }
    ForwardState state;
    AttentionContext context{0, &state, pass.trace};
    for (const auto& layer : layers_) {
      if (places) extras.query_positions = extras.key_positions = places(context.layer, x.size(1));
      x = x + layer->forward(x, context, extras);
      ++context.layer;
    }
    return x;
  }

  /// Of an example's own tokens: [B, dim].
  static Tensor mean(const Tensor& tokens, const Batch& batch) {
    const Tensor* valid = batch.fields.find("valid");
    if (valid == nullptr) return tokens.mean(1);
    const Tensor weights = valid->to(tokens.scalar_type()).unsqueeze(-1);
    return (tokens * weights).sum(1) / weights.sum(1);
  }

  Linear& head() { return *head_; }

  Tensor kept;                    ///< for those that keep what they must not
  double count = 0;               ///< for those that count their passes
  std::vector<FieldInfo> stated;  ///< what outputs() says
  /// What a layer is told of the places of so many tokens; empty: nothing.
  std::function<Tensor(std::int64_t layer, std::int64_t length)> places;

 private:
  static constexpr std::int64_t kDim = 4;

  std::int64_t members_;
  Forward forward_;
  std::shared_ptr<Linear> in_, head_;
  std::vector<std::shared_ptr<MultiHeadAttention>> layers_;
};

inline NamedTensors sound_forward(WrongModel& self, const Batch& batch, ForwardPass& pass) {
  return self.sound(batch, pass);
}

/// @param prepare  something done to a model when it was built
inline ModelSubject model_subject(
    const WrongModel::Forward& forward,
    const std::function<void(WrongModel&)>& prepare = [](WrongModel&) {}) {
  ModelSubject subject;
  subject.build = [=](const ModelSetup& setup) {
    auto model = std::make_shared<WrongModel>(setup, forward);
    prepare(*model);
    return model;
  };
  subject.attentions = {{"standard", [](const AttentionShape& shape) {
                           return std::make_shared<DotProductAttention>(shape);
                         }}};
  subject.takes = {"series"};
  subject.gives = {"logits"};
  subject.ensemble = true;
  return subject;
}

/// The message of a check that must fail.
inline std::string failure(std::string_view check, const ModelSubject& of) {
  const CheckResult result = run_check(check, of);
  EXPECT_EQ(result.outcome, Outcome::failed) << check << ": " << result.message;
  return result.message;
}
inline std::string failure(std::string_view check, const WrongModel::Forward& forward) {
  return failure(check, model_subject(forward));
}

}  // namespace attnlab::conformance::testing
