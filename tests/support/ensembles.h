// An ensemble beside the single models that it stands for.
#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/naive_attention.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

/// What the members are made of.
struct EnsembleCase {
  std::string model;
  DatasetInfo data;
  std::string options = "{}", attention = "standard", attention_options = "{}";
  at::ScalarType dtype = at::kDouble;
};

/// E models with parameters of their own, drawn at random, and one ensemble with the same.
struct Ensemble {
  std::vector<std::shared_ptr<Model>> singles;
  std::shared_ptr<Model> together;

  Ensemble(const EnsembleCase& c, std::int64_t members) {
    const auto made = [&](std::int64_t count) {
      auto model = make_model(c.model, c.data, c.options, c.attention, count, c.attention_options);
      model->to(c.dtype);
      return model;
    };
    const at::NoGradGuard no_gradients;
    for (std::int64_t m = 0; m < members; ++m) {
      singles.push_back(made(1));
      for (Tensor& p : singles.back()->parameters()) p += 0.3 * at::randn_like(p);
    }
    together = made(members);
    for (auto& item : together->named_parameters()) item.value().copy_(rows_of(item.key()));
  }

  /// The singles' parameters of one name, one after the other.
  Tensor rows_of(const std::string& name) const {
    std::vector<Tensor> rows;
    for (const auto& single : singles) rows.push_back(single->named_parameters()[name]);
    return at::cat(rows);
  }

  /// Their gradients likewise.
  Tensor gradients_of(const std::string& name) const {
    std::vector<Tensor> rows;
    for (const auto& single : singles) rows.push_back(single->named_parameters()[name].grad());
    return at::cat(rows);
  }
};

inline Tensor logits_of(Model& model, const Batch& batch) {
  ForwardPass pass;
  return model.forward(batch, pass).at("logits");
}

/// A mean loss of one model's outputs whose gradient differs from output to output.
inline Tensor mean_loss(const Tensor& logits) {
  return (logits - 0.3).pow(2).mean() + logits.sin().mean();
}

/// Expects the outputs of an ensemble, and the gradients of the sum of its members' mean losses, to
/// be those of its members alone. @param batches  one for each member, of one size
inline void expect_same_as_alone(const EnsembleCase& c, const std::vector<Batch>& batches,
                                 double tolerance) {
  const Ensemble ensemble(c, static_cast<std::int64_t>(batches.size()));
  std::vector<Tensor> alone;
  for (std::size_t m = 0; m < batches.size(); ++m) {
    alone.push_back(logits_of(*ensemble.singles[m], batches[m]));
    mean_loss(alone.back()).backward();
  }
  const Tensor together = logits_of(*ensemble.together, joined(batches));
  EXPECT_LT(largest_difference(together, at::cat(alone)), tolerance) << "outputs";
  Tensor loss = at::zeros({}, together.options());
  for (const Tensor& part : together.chunk(static_cast<std::int64_t>(batches.size()))) {
    loss = loss + mean_loss(part);
  }
  loss.backward();
  for (const auto& item : ensemble.together->named_parameters()) {
    EXPECT_LT(largest_difference(item.value().grad(), ensemble.gradients_of(item.key())), tolerance)
        << item.key();
  }
}

/// Expects a member whose parameters are not numbers to change nothing for the others.
inline void expect_nan_stays_alone(const EnsembleCase& c, const std::vector<Batch>& batches) {
  const Ensemble ensemble(c, static_cast<std::int64_t>(batches.size()));
  Model& model = *ensemble.together;
  const auto members = static_cast<std::int64_t>(batches.size());
  const auto run = [&] {
    model.zero_grad();
    const Tensor logits = logits_of(model, joined(batches));
    logits.pow(2).sum().backward();
    std::vector<Tensor> seen = {logits.detach().clone()};
    for (const Tensor& p : model.parameters()) seen.push_back(p.grad().clone());
    return seen;
  };
  const std::vector<Tensor> before = run();
  for (Tensor& p : model.parameters()) p.data().chunk(members)[1].fill_(NAN);
  const std::vector<Tensor> after = run();
  EXPECT_FALSE(after[0].chunk(members)[1].isfinite().any().item<bool>());
  for (std::size_t n = 0; n < before.size(); ++n) {
    for (std::int64_t m = 0; m < members; ++m) {
      if (m == 1) continue;
      EXPECT_TRUE(after[n].chunk(members)[m].equal(before[n].chunk(members)[m])) << n << ' ' << m;
    }
  }
}

}  // namespace attnlab::testing
