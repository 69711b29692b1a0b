// Elliptical attention and Elliptical-QUEST: softmax of Q M Kᵀ, M from the values of two layers.
// The test of each instantiates EllipticalMechanism; its tests are in elliptical_test.cpp.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attended.h"
#include "tests/support/naive_elliptical.h"
#include "tests/support/plugins.h"

namespace attnlab::testing {

/// One mechanism, in a stack of two layers.
struct EllipticalForm {
  std::string id;
  std::string baseline;  ///< what it is with M = 1
  bool unit_keys;

  NaiveSettings naive(std::int64_t dim) const {
    return {.scale = unit_keys ? 1 : 1 / std::sqrt(static_cast<double>(dim)),
            .unit_keys = unit_keys};
  }
};

struct StackOutputs {
  Tensor first, second;
};

/// What the two layers of a stack give for an input each.
inline StackOutputs attended(const std::string& id, const AttentionInput& first,
                             const AttentionInput& second, const std::string& options = "{}",
                             bool training = true) {
  ForwardState state;
  AttentionContext context{0, &state, nullptr};
  const auto layer = [&](const AttentionInput& in) {
    const auto attention = make_attention(id, shape_of(in, context.layer, 2), options);
    attention->train(training);
    return attention->forward(in, context);
  };
  StackOutputs out;
  out.first = layer(first);
  context.layer = 1;
  out.second = layer(second);
  return out;
}

inline Tensor alone(const std::string& id, const AttentionInput& in) {
  return attended(*make_attention(id, shape_of(in, 0, 2)), in);
}

inline AttentionInput with_values(AttentionInput in, const Tensor& values) {
  in.values = values;
  return in;
}

inline AttentionInput with_metric(AttentionInput in, const Tensor& metric) {
  in.queries = in.queries * metric;
  return in;
}

/// How much a stack's second output changes where keys are five times as long.
inline double change_by_longer_keys(const std::string& id) {
  at::manual_seed(9);
  AttentionInput in = random_input(1, 2, 4, 5, 4, 4);
  const AttentionInput first = with_values(in, at::randn_like(in.values));
  AttentionInput longer = in;
  longer.keys = in.keys * 5;
  return largest_difference(attended(id, first, in).second, attended(id, first, longer).second);
}

class EllipticalMechanism : public ::testing::TestWithParam<EllipticalForm> {};

inline void PrintTo(const EllipticalForm& form, std::ostream* out) { *out << form.id; }

}  // namespace attnlab::testing
